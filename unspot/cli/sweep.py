"""``unspot sweep``: a grid of methods, ranks and seeds from a TOML file, safe to interrupt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="SWEEP", help="A .toml file: methods, data, ranks, seeds.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Results: by default SWEEP with .jsonl."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Go on with the cells that it lacks.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", metavar="", help="With --resume: failed cells again.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Cells at once.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all cells as CSV.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
) -> None:
    """Measure methods at ranks and seeds on data sets, as a TOML file says.

    unspot sweep sweep.toml -o results.jsonl --html results.html

    Every finished cell is on the disk at once: after a kill, --resume goes on where it was.
    """
    from unspot.bench.needs import require
    from unspot.cli.bench import end_if_all_failed
    from unspot.cli.options import refuse_inputs
    from unspot.io.files import write_atomically
    from unspot.sweeps.run import sweep as run
    from unspot.sweeps.sweep_file import read_sweep_file

    if retry and not resume:
        raise ValueError("Got --retry without --resume, but only a resumed sweep has failed cells.")
    require("unspot sweep", "pandas", *(["jinja2"] if html else []))
    plan = read_sweep_file(file)
    results = output or file.with_suffix(".jsonl")
    refuse_inputs({"--output": results}, (file, *plan.files))
    # With --resume, the results are read too; and without, they would be lost as well.
    refuse_inputs({"--csv": csv, "--html": html}, (file, *plan.files, results))
    frame = run(
        plan.methods,
        plan.datasets(),
        plan.ranks,
        path=results,
        resume=resume,
        retry=retry,
        n_jobs=jobs,
        verbose=not quiet and sys.stderr.isatty(),
        **plan.options,
    )
    if csv is not None:
        write_atomically(csv, frame.to_csv(index=False).encode())
    if html is not None:
        _write_page(frame, results, file.stem, html)
    if not quiet:
        _show(frame, [results, *(path for path in (csv, html) if path is not None)])
    end_if_all_failed(frame, quiet=quiet)


def _write_page(frame: pd.DataFrame, results: Path, title: str, html: Path) -> None:
    from datetime import datetime

    from unspot.bench.sweep_page import sweep_contents
    from unspot.io.files import write_atomically
    from unspot.io.journal import read_journal
    from unspot.report.html import render

    records = read_journal(results)[1].values()
    contents = sweep_contents(frame, records, title=title)
    write_atomically(html, render(contents, made=datetime.now()).encode())


def _show(frame: pd.DataFrame, written: list[Path]) -> None:
    from unspot.bench.sweep_page import sweep_tables
    from unspot.bench.tables import to_markdown
    from unspot.cli.bench import failed_cells

    for table in sweep_tables(frame):
        typer.secho(table.title, bold=True)
        typer.echo(to_markdown(table) + "\n")
    failed = failed_cells(frame)
    if failed:
        typer.echo(failed)
    typer.echo(f"{len(frame)} cells: {', '.join(map(str, written))}")
