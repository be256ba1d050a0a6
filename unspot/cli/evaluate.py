"""``unspot evaluate``: an eraser and labelled rows in, a table of evidence out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.eraser import Eraser
    from unspot.evaluation.results import Evaluation
    from unspot.io import Table


def evaluate(
    eraser: Annotated[
        Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
    ],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Rows to test on: .npy, .npz, .csv or .parquet."),
    ],
    concept: Annotated[
        str | None,
        typer.Option(
            "--concept", "-c", metavar="NAME", help="Labels; by default as in unspot fit."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="A second file with the labels of DATA."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", metavar="NAME", help="Labels of the downstream task."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features", "-f", metavar="NAMES", help="Vectors; by default as in unspot fit."
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            "--train", metavar="FILE", help="Rows that probes learn from; by default some of DATA."
        ),
    ] = None,
    train_labels: Annotated[
        Path | None,
        typer.Option("--train-labels", metavar="FILE", help="A second file with their labels."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", "-m", metavar="NAMES", help="A comma list, 'paper' or 'all'."),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Networks a probe.")] = 5,
    budget: Annotated[
        str, typer.Option("--budget", metavar="NAME", help="quick, standard or thorough.")
    ] = "quick",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same numbers.")] = 0,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show errors alone.")] = False,
) -> None:
    """Show what an eraser leaves of the concept, and of everything else.

    unspot evaluate gender.safetensors test.parquet --concept gender --task job --html out.html
    """
    from unspot.cli.console import echo_json, warnings_as_sentences
    from unspot.cli.options import read_labelled, refuse_inputs, refuse_orphans
    from unspot.eraser import load
    from unspot.evaluation.run import evaluate as measure
    from unspot.io.files import write_atomically

    refuse_orphans(train_labels, train, ("--train-labels", "--train"))
    inputs = (eraser, data, labels, train, train_labels)
    refuse_inputs({"--json": json, "--html": html}, inputs)
    loaded = load(eraser)
    columns: dict[str, Any] = {"concept": concept, "features": features, "task": task}
    table = read_labelled(loaded, data, labels, **columns)
    learn = None
    if train is not None:
        learn = read_labelled(loaded, train, train_labels, **columns, option="--train-labels")
    rows = _dataset(table, data.name, learn, seed)
    hushed, quiet = quiet, quiet or json == Path("-")  # JSON on stdout hides no warning
    if not hushed:
        _warn_if_fitted_on(loaded, table)
    with warnings_as_sentences(quiet=hushed):
        found = measure(
            loaded,
            rows,
            metrics=_names(metrics),
            seeds=seeds,
            budget=budget,
            random_state=seed,
            verbose=not quiet and sys.stderr.isatty(),
        )
    if json == Path("-"):
        echo_json(found.to_json())
    elif json is not None:
        write_atomically(json, (found.to_json() + "\n").encode())
    if html is not None:
        from unspot.report import make_views, to_html

        to_html(found, html, views=make_views(loaded, rows))
    if not quiet:
        _show(found, rows, data, train)


def _dataset(table: Table, name: str, train: Table | None, seed: int) -> Dataset:
    """Rows to learn from, to choose on and to test on, from one table or two."""
    import numpy as np

    from unspot.cli.options import refuse_the_same
    from unspot.data.dataset import Dataset, Split, stratified_parts
    from unspot.data.labels import encode

    if train is None:
        return Dataset.from_arrays(table.X, table.z, table.y, random_state=seed, name=name)
    rng = np.random.default_rng(seed)
    codes = encode(train.z, name="the concept in --train").codes
    learn, choose = stratified_parts(codes, (0.8, 0.2), rng)
    whole = Split(train.X, np.asarray(train.z), train.y)
    test = Split(table.X, np.asarray(table.z), table.y)
    refuse_the_same(whole, test, "--train", Path(name))
    return Dataset(whole.take(learn), whole.take(choose), test, name=name)


def _warn_if_fitted_on(eraser: Eraser, table: Table) -> None:
    import numpy as np

    from unspot.cli.console import warn
    from unspot.data.dataset import Split
    from unspot.evaluation.held_out import MAX_SEEN, share_fitted_on

    share = share_fitted_on(eraser, Split(table.X, np.asarray(table.z)))
    if share > MAX_SEEN:
        which = "these very rows" if share == 1 else f"about {100 * share:.0f} % of these rows"
        warn(
            f"The eraser was fitted on {which}, where it does better than on new ones. Keep some "
            "rows away from unspot fit, and evaluate on those."
        )


def _names(metrics: str | None) -> Any:
    if metrics is None or metrics in ("paper", "all"):
        return metrics
    return [name.strip() for name in metrics.split(",")]


def _show(found: Evaluation, rows: Dataset, data: Path, train: Path | None) -> None:
    from unspot.evaluation.results import format_value

    counts = [f"{len(split):,}" for split in rows]
    typer.secho(found.name, bold=True)
    source = "split at random, classes in their shares" if train is None else f"the first {train}"
    typer.echo(
        f"  {data}: probes learn from {counts[0]} rows, attackers are chosen on {counts[1]}, and "
        f"all is tested on {counts[2]} ({source})."
    )
    cells = [
        (row.label, format_value(row.before, row.unit), format_value(row.after, row.unit))
        for row in found
    ]
    _table([("", "before", "after"), *cells], [row.direction for row in found])
    for row in found:
        if row.note:
            typer.secho(f"  {row.label}: {row.note}", dim=True)


def _table(lines: list[tuple[str, str, str]], directions: list[str]) -> None:
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    arrows = {"lower": "  lower is better", "higher": "  higher is better", "none": ""}
    typer.echo("")
    for line, direction in zip(lines, ["none", *directions], strict=True):
        label, before, after = line
        numbers = f"{before.rjust(widths[1])}  {after.rjust(widths[2])}"
        better = typer.style(arrows[direction], dim=True)
        typer.echo(f"  {label.ljust(widths[0])}  {numbers}{better}")
    typer.echo("")
