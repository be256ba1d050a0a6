"""``unspot plan`` and ``unspot path``: what rows can reach, and ranks to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unspot.cli import options
from unspot.cli.fit import make_estimator, with_source
from unspot.cli.rows import Source, dataset, read, read_concept

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.evaluation.certificate import Certificate

KEYS = {"metrics": str, "seeds": int, "attackers": str, **options.READING_KEYS}


def plan(
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    groups: str | None = None,
    max_advantage: float | None = None,
    settings: list[str] | None = None,
) -> None:
    """Say what these rows can decide, before any fit.

    \b
    unspot plan data.parquet -f emb -c gender --max-advantage 0.02
    """
    options.check_files({}, (data, labels))
    chosen, _ = options.parse_settings(settings, options.READING_KEYS)
    columns: dict[str, Any] = {"groups": groups, "kinds": kind}
    table, kinds = read(Source(data, labels, concept, features, **columns, **chosen))
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot.choice.plan import plan as planned

    bound = {} if max_advantage is None else {"max_advantage": max_advantage}
    z = read_concept(table.z, kinds, n_rows=len(table), name=concept or "z", min_rows=3)
    result = planned(table.X, z, groups=table.groups, **bound)
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
    settings: list[str] | None = None,
    force: bool = False,
    *,
    seed: int,
) -> None:
    """Fit many ranks, measure each, and choose one.

    \b
    unspot path data.parquet -f emb -c gender -o gender.safetensors

    Half of the rows fit, a fifth choose, and both together fit again. The rest had no part in this,
    and certify the eraser. Exit code 3: no rank will do, or attackers gain more than allowed.
    """
    options.check_eraser(output, (data, labels), force=force)
    chosen, params = options.parse_settings(settings, KEYS, others=True)
    metrics, seeds = chosen.pop("metrics", None), chosen.pop("seeds", 1)
    attackers = chosen.pop("attackers", "quick")
    wanted = options.parse_ranks(ranks)
    source = Source(data, labels, concept, features, task=task, groups=groups, kinds=kind, **chosen)
    rows, table = dataset(source, seed)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot.choice.path import rank_path

        estimator = make_estimator(method, params, seed=seed)
    chooses = output is not None or max_advantage is not None
    _check_choice(rows if chooses else None, max_advantage, attackers)
    result = rank_path(estimator, rows, wanted, metrics=_metrics(metrics, rows), seeds=seeds)
    options.say(result.with_original(seeds=seeds).to_markdown().rstrip())
    chance = result.facts()["chance"]
    options.say("" if chance is None else f"Guessing gets {chance:.3f} as attack.", dim=True)
    if not chooses:
        return
    best = result.select(max_advantage=max_advantage, attackers=attackers)
    certificate, verdict = _certify(best, result.unseen, seed, task)
    if output is not None:
        selection = best.selection_.describe()
        with_source(best.eraser_, table, source, selection=selection).save(output)
    n_rows = len(rows.train) + len(rows.validation)
    chosen_as = f"Chosen: {best.selection_}, fitted again on {n_rows:,} rows."
    options.say(f"\n{verdict}\n{chosen_as} Certified with budget standard.")
    options.say("" if output is None else f"Written: {output}")
    held = [one.upper_bound <= (max_advantage or 0.0) for one in certificate]
    met = best.selection_.met or (held and all(held))  # the bound asked for, if more was allowed
    if not met or any(one.verdict == "LEAKS" for one in certificate):
        raise typer.Exit(3)


def _check_choice(rows: Dataset | None, max_advantage: float | None, attackers: str) -> None:
    """Check how a rank is to be chosen, and say first what these rows can decide."""
    from unspot.checks import check_choice, check_share
    from unspot.choice.plan import plan_rows
    from unspot.evaluation.attackers import BUDGETS
    from unspot.evaluation.certificate import MARGIN

    check_choice("attackers", attackers, BUDGETS)
    if max_advantage is not None:
        check_share("--max-advantage", max_advantage)
    if rows is not None:
        whole = rows.train.joined(rows.validation, rows.test)
        options.note(plan_rows(whole, max_advantage or MARGIN).sentence)


def _metrics(metrics: str | None, rows: Dataset) -> list[str]:
    from unspot.evaluation.evaluations import check_metrics

    if metrics is None:
        return ["attack", "neighbours", *(["task_linear"] if rows.train.y is not None else [])]
    names = [] if metrics.strip() in ("", "none") else options.comma_list(metrics) or []
    check_metrics(names, rows)
    return names


def _certify(
    best: Any, rows: Dataset, seed: int, task: str | None
) -> tuple[list[Certificate], str]:
    """Certify the chosen rank; without enough rows there is only the reason."""
    from unspot import certify

    allowed = best.selection_.max_advantage
    margin = {} if allowed is None else {"margin": allowed}
    try:
        certificate = certify(best, rows, random_state=seed, **margin).naming(task=task)
    except ValueError as error:
        # The first sentence says what is wrong; the others are advice for Python.
        reason = str(error).split(". ")[0].rstrip(".")
        return [], f"No certificate: {reason}. Give more rows, or other rows to unspot certify."
    return [certificate], "\n".join([certificate.statement, *certificate.sentences])
