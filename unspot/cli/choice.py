"""``unspot plan`` and ``unspot path``: what rows can reach, and ranks to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unspot.cli import options
from unspot.cli.fit import make_estimator, with_source
from unspot.cli.rows import Source, dataset, read

if TYPE_CHECKING:
    from unspot.choice.path import RankPath
    from unspot.choice.selection import Selection
    from unspot.data.dataset import Dataset
    from unspot.evaluation.certificate import Certificate

KEYS = {"metrics": str, "seeds": int, "attackers": str, **options.READING_KEYS}


def plan(
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    groups: str | None = None,
    max_advantage: float | None = None,
    json: Path | None = None,
    settings: list[str] | None = None,
) -> None:
    """Say what these rows can reach and show, before any fit.

    \b
    unspot plan data.parquet -f emb -c gender --max-advantage 0.02
    """
    options.check_files({"--json": json}, (data, labels))
    chosen, _ = options.parse_settings(settings, options.READING_KEYS)
    table, _ = read(Source(data, labels, concept, features, groups=groups, **chosen))
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot.choice.plan import plan as planned

    bound = {} if max_advantage is None else {"max_advantage": max_advantage}
    result = planned(table.X, table.z, groups=table.groups, **bound)
    options.write_json(result, json)
    options.say(str(result))


def path(
    data: Path,
    output: Path | None = None,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    task: str | None = None,
    groups: str | None = None,
    method: str = "cascade",
    ranks: str | None = None,
    max_advantage: float | None = None,
    at_least: str | None = None,
    at_most: str | None = None,
    json: Path | None = None,
    html: Path | None = None,
    settings: list[str] | None = None,
    force: bool = False,
    *,
    seed: int,
) -> None:
    """Fit many ranks, measure each, and choose one.

    \b
    unspot path data.parquet -f emb -c gender --max-advantage 0.05 -o gender.safetensors

    Half of the rows fit, a fifth choose, and both together fit again. The rest had no part in this,
    and certify the eraser. Exit code 3: no rank will do, or attackers gain more than allowed.
    """
    options.check_files({"--json": json, "--html": html}, (data, labels))
    options.check_eraser(output, (data, labels), force=force)
    chosen, params = options.parse_settings(settings, KEYS, others=True)
    metrics, seeds = chosen.pop("metrics", None), chosen.pop("seeds", 1)
    attackers = chosen.pop("attackers", "quick")
    bounds = _bounds(max_advantage, at_least, at_most)
    wanted = options.parse_ranks(ranks)
    source = Source(data, labels, concept, features, task=task, groups=groups, kinds=kind, **chosen)
    rows, table = dataset(source, seed)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot.choice.path import rank_path
        from unspot.choice.selection import check_bounds, way_to_decide

        estimator = make_estimator(method, params, seed=seed)
    chooses = output is not None or any(bound is not None for bound in bounds.values())
    check_bounds(**bounds)
    if chooses and bounds["metric"] is None:
        way_to_decide(rows, max_advantage, attackers)  # an error if the rows cannot
    result = rank_path(estimator, rows, wanted, metrics=_metrics(metrics, rows), seeds=seeds)
    options.write_json(result, json)
    options.say(result.to_markdown().rstrip())
    if not chooses:
        _write_page(html, method, result, seeds=seeds)
        return
    best = result.select(**bounds, attackers=attackers)
    certificate, verdict = _certify(best, result.unseen, seed)
    if output is not None:
        selection = best.selection_.describe()
        with_source(best.eraser_, table, source, selection=selection).save(output)
    if html is not None:
        result = result.including(best.rank_, seeds=seeds)
        _write_page(html, method, result, certificate, seeds=seeds, selection=best.selection_)
    n_rows = len(rows.train) + len(rows.validation)
    options.say(f"\nChosen: {best.selection_}, fitted again on {n_rows:,} rows.\n{verdict}")
    options.say("" if output is None else f"Written: {output}")
    allowed = best.selection_.max_advantage
    broken = allowed is not None and any(one.advantage > allowed for one in certificate)
    if broken or not best.selection_.met:
        raise typer.Exit(3)


def _bounds(
    max_advantage: float | None, at_least: str | None, at_most: str | None
) -> dict[str, Any]:
    """Read how to choose: by a bound of attackers, or by a bound of one metric."""
    bounds: dict[str, Any] = {"max_advantage": max_advantage, "metric": None}
    bounds |= {"at_least": None, "at_most": None}
    for option, text in (("at_least", at_least), ("at_most", at_most)):
        if text is None:
            continue
        metric, _, value = text.partition("=")
        try:
            bounds |= {"metric": metric, option: float(value)}
        except ValueError:
            raise ValueError(
                f"Got --{option.replace('_', '-')} {text}, but expected METRIC=V, such as "
                "neighbours=0.7."
            ) from None
    return bounds


def _metrics(metrics: str | None, rows: Dataset) -> list[str]:
    from unspot.evaluation.evaluations import check_metrics

    if metrics is None:
        return ["attack", "neighbours", *(["task_linear"] if rows.train.y is not None else [])]
    names = [] if metrics.strip() in ("", "none") else options.comma_list(metrics) or []
    check_metrics(names, rows)
    return names


def _certify(best: Any, rows: Dataset, seed: int) -> tuple[list[Certificate], str]:
    """Certify the chosen rank; without enough rows there is only the reason."""
    from unspot import certify

    allowed = best.selection_.max_advantage
    margin = {} if allowed is None else {"margin": allowed}
    try:
        certificate = certify(best, rows, random_state=seed, **margin)
    except ValueError as error:
        # The first sentence says what is wrong; the others are advice for Python.
        reason = str(error).split(". ")[0].rstrip(".")
        return [], f"No certificate: {reason}. Give more rows, or other rows to unspot certify."
    verdict = f"{certificate.verdict}. {certificate.sentence} {certificate.next_step}"
    return [certificate], f"Certificate on other rows: {verdict}"


def _write_page(
    html: Path | None,
    method: str,
    result: RankPath,
    certificate: Sequence[Certificate] = (),
    *,
    seeds: int,
    selection: Selection | None = None,
) -> None:
    """Write the page of a path with its certificate."""
    if html is None:
        return
    from unspot.report.contents import read_contents
    from unspot.report.page import write_page

    contents = read_contents(
        {method: [result.with_original(seeds=seeds), *certificate]},
        chosen_rank=None if selection is None else selection.rank,
    )
    if selection is not None:
        chosen = f"Chosen: {selection}."
        verdicts = [replace(v, details=(chosen, *v.details)) for v in contents.verdicts]
        contents = replace(contents, verdicts=tuple(verdicts))
    write_page(contents, html)
