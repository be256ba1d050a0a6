"""``unspot path``: erasers of many ranks, what each leaves, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.choice.path import RankPath
    from unspot.choice.selection import Selection
    from unspot.data.dataset import Dataset
    from unspot.evaluation.certificate import Certificate
    from unspot.io import Table


def path(
    data: options.Embeddings,
    concept: options.Concepts = None,
    features: options.Features = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    task: options.Task = None,
    groups: options.Groups = None,
    kind: options.Kinds = None,
    method: options.Method = "cascade",
    ranks: options.Ranks = None,
    normalise: options.Normalise = False,
    parameters: options.Parameters = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Measured at every rank: by default attack,neighbours, and task_linear if there "
            "is a task; or none.",
        ),
    ] = None,
    seeds: options.Seeds = 1,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            help="What attackers may gain at the chosen rank (default 0.05, or what rows can "
            "decide); of a number, the share of its variance.",
        ),
    ] = None,
    attackers: Annotated[
        str, typer.Option(metavar="NAME", help="Who decides: quick, standard or thorough.")
    ] = "quick",
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Choose by a metric instead: neighbours, task_linear, …"),
    ] = None,
    at_most: Annotated[
        float | None, typer.Option(metavar="V", help="The largest value of the metric.")
    ] = None,
    at_least: Annotated[
        float | None, typer.Option(metavar="V", help="The smallest value of the metric.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The chosen eraser: .safetensors."),
    ] = None,
    json: options.JsonFile = None,
    html: options.HtmlFile = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit many ranks at the cost of a few fits, and choose among them.

    unspot path data.parquet -f emb -c gender --max-advantage 0.05 -o gender.safetensors

    Half of the rows fit, a fifth choose, and both together fit again. The rest had no part in this,
    and certify the eraser.
    """
    options.check_files({"--output": output, "--json": json, "--html": html}, (data, labels))
    from unspot.cli.fit import kind_parameter, make_estimator, parse_parameters, with_source
    from unspot.io import read_table
    from unspot.io.files import refuse_existing

    bounds: dict[str, Any] = {"metric": metric, "at_most": at_most, "at_least": at_least}
    bounds |= {"max_advantage": max_advantage}
    chooses = output is not None or any(bound is not None for bound in bounds.values())
    if output is not None:
        refuse_existing(output, force=force)
        options.check_eraser_name(output)
    options.check_concept(concept, labels)
    wanted_ranks, settings = options.parse_ranks(ranks), parse_parameters(parameters or [])
    settings |= {"normalise": True} if normalise else {}
    kinds = options.parse_kinds(kind, concept)
    columns: dict[str, Any] = {"concept": concept, "task": task, "groups": groups}
    table = read_table(
        data, features=features, **columns, labels_file=labels, key=key, drop_missing=drop_missing
    )
    options.note(table.dropped, quiet=quiet)
    called = concept or (labels or data).stem
    rows = _dataset(table, data.name, called, seed, kinds.get(concept or "") or kinds or None)
    settings = {**kind_parameter(table.z, kinds, method), **settings}
    shows = not quiet and json != options.STDOUT
    # After all that can be wrong with the files: it imports torch.
    with options.loading():
        from unspot.choice.path import rank_path
        from unspot.choice.selection import check_bounds, way_to_decide

        estimator = make_estimator(method, settings, seed=seed)
    check_bounds(**bounds)
    if chooses and metric is None:  # a bound that the rows cannot decide is refused now
        way_to_decide(rows, max_advantage, attackers)
    measured = _metrics(metrics, rows)
    with options.warnings_as_sentences(quiet=quiet):
        result = rank_path(estimator, rows, wanted_ranks, metrics=measured, seeds=seeds)
    written = [options.write_json(result, json)]
    if shows:
        typer.echo(result.to_markdown().rstrip())

    if not chooses:
        page = partial(_write_page, method=method, result=result, seeds=seeds)
        options.end_if_lost(*written, options.write_or_keep(html, page))
        return
    with options.warnings_as_sentences(quiet=quiet):
        chosen = result.select(**bounds, attackers=attackers)
    if output is not None:
        selection = chosen.selection_.describe()
        eraser = with_source(chosen.eraser_, table, data, called, selection=selection)
        written.append(options.write_or_keep(output, eraser.save))
    with options.warnings_as_sentences(quiet=quiet):
        certificates, verdict = _certify(chosen, result.unseen, seed)
    if html is not None:
        page = partial(
            _write_page,
            method=method,
            result=result.including(chosen.rank_, seeds=seeds),
            certificates=certificates,
            seeds=seeds,
            selection=chosen.selection_,
        )
        written.append(options.write_or_keep(html, page))
    if shows:
        fitted_on = f"fitted again on {len(result.unseen.train):,} rows"
        typer.echo(f"\nChosen: {chosen.selection_}, {fitted_on}.")
        typer.echo(verdict)
        if output is not None and all(written):
            typer.echo(f"Written: {output}")
    options.end_if_lost(*written)
    allowed = chosen.selection_.max_advantage
    broken = allowed is not None and any(one.advantage > allowed for one in certificates)
    if broken or not chosen.selection_.met:
        raise typer.Exit(3)


def _dataset(table: Table, name: str, concept: str, seed: int, kind: Any = None) -> Dataset:
    """Rows to fit on, to choose on and to certify on."""
    import numpy as np

    from unspot.data.dataset import Dataset

    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    return Dataset.from_arrays(
        X,
        table.z,
        table.y,
        kind=kind,
        groups=table.groups,
        random_state=seed,
        name=name,
        concept=concept,
    )


def _metrics(metrics: str | None, rows: Dataset) -> list[str]:
    """The metrics of the table, refused now rather than after the fits."""
    from unspot.evaluation.run import check_metrics

    if metrics is None:
        return ["attack", "neighbours", *(["task_linear"] if rows.train.y is not None else [])]
    names = [] if metrics.strip() in ("", "none") else options.comma_list(metrics) or []
    check_metrics(names, rows)
    return names


def _certify(chosen: Any, rows: Dataset, seed: int) -> tuple[list[Certificate], str]:
    """The certificate and what it says; without enough rows, nothing and the reason."""
    from unspot.evaluation.held_out import certify

    allowed = chosen.selection_.max_advantage
    margin = {} if allowed is None else {"margin": allowed}
    try:
        certificate = certify(chosen, rows, random_state=seed, **margin)
    except ValueError as error:
        # The first sentence says what is wrong; the others are advice for Python.
        reason = str(error).split(". ")[0].rstrip(".")
        return [], f"No certificate: {reason}. Give more rows, or other rows to unspot certify."
    verdict = f"{certificate.verdict}. {certificate.sentence} {certificate.next_step}"
    return [certificate], f"Certificate on other rows: {verdict}"


def _write_page(
    html: Path,
    method: str,
    result: RankPath,
    certificates: Sequence[Certificate] = (),
    *,
    seeds: int,
    selection: Selection | None = None,
) -> None:
    """Write the page of a path with its certificate."""
    from dataclasses import replace

    from unspot.report.contents import read_contents
    from unspot.report.page import write_page

    result = result.with_original(seeds=seeds)
    contents = read_contents(
        {method: [result, *certificates]},
        chosen_rank=None if selection is None else selection.rank,
    )
    if selection is not None:
        chosen = f"Chosen: {selection}."
        verdicts = [replace(v, details=(chosen, *v.details)) for v in contents.verdicts]
        contents = replace(contents, verdicts=tuple(verdicts))
    write_page(contents, html)
