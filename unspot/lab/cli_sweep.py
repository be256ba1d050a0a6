"""``unspot lab sweep``: a grid of methods, ranks and seeds from a TOML file, safe to interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

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
    resume: options.Resume = False,
    retry: options.Retry = False,
    jobs: options.Jobs = None,
    max_seconds: options.MaxSeconds = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all cells as CSV.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables too: LaTeX and CSV.")
    ] = None,
    html: options.HtmlFile = None,
    allow_code: Annotated[
        bool,
        typer.Option(
            "--allow-code", metavar="", help="Import methods of your own: module:Class in SWEEP."
        ),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure methods at ranks and seeds on data sets, as a TOML file says.

    unspot lab sweep sweep.toml -o results.jsonl --html results.html --tables paper/

    Every finished cell is on the disk at once: an interrupted sweep goes on with --resume.
    """
    results = output or file.with_suffix(".jsonl")
    options.check_files({"--output": results, "--csv": csv, "--html": html}, [file])
    from unspot.checks import require
    from unspot.io.files import write_atomically
    from unspot.lab.cli_bench import report_failed_cells
    from unspot.lab.sweeps.sweep_file import read_sweep_file

    options.check_retry(retry, resume)
    require("unspot lab sweep", "report", "pandas", *(["jinja2"] if html else []))
    plan = read_sweep_file(file, allow_code=allow_code)
    options.refuse_inputs({"--output": results}, (file, *plan.files))
    # The results are read with --resume, and without it they would be lost too.
    options.refuse_inputs({"--csv": csv, "--html": html}, (file, *plan.files, results))
    # After all that can be wrong with the files: it imports torch.
    with options.loading():
        from unspot.lab.sweeps.run import sweep as run

    stopped = options.saying_what_is_kept(
        lambda: f"Finished cells are in {results}. The same command with --resume goes on."
    )
    with stopped:
        frame = run(
            plan.methods,
            plan.datasets(),
            plan.ranks,
            path=results,
            resume=resume,
            retry=retry,
            n_jobs=jobs,
            max_seconds=max_seconds,
            **plan.options,
        )
    cells = frame.to_csv(index=False).encode()
    kept = [options.write_or_keep(csv, lambda place: write_atomically(place, cells))]
    written = [path for path in (results, csv, html) if path is not None]
    if tables is not None:
        from unspot.lab.sweeps.tables import save_tables, sweep_tables

        written += save_tables(tables, sweep_tables(frame))
    page = partial(write_page, frame, [results], file.stem)
    kept.append(options.write_or_keep(html, page))
    if not quiet:
        _show(frame)
        typer.echo(f"{len(frame)} cells: {', '.join(map(str, written))}")
    options.end_if_lost(*kept)
    report_failed_cells(frame, quiet=quiet)


def write_page(frame: pd.DataFrame, results: Sequence[Path], title: str, html: Path) -> None:
    """Write the page of cells that are in result files."""
    from datetime import datetime

    from unspot.io.files import write_atomically
    from unspot.io.journal import read_journal
    from unspot.lab.sweeps.tables import sweep_contents
    from unspot.report.html import render

    records = [record for path in results for record in read_journal(path)[1].values()]
    contents = sweep_contents(frame, records, title=title)
    write_atomically(html, render(contents, made=datetime.now()).encode())


def _show(frame: pd.DataFrame) -> None:
    from unspot.lab.sweeps.tables import sweep_tables

    for table in sweep_tables(frame):
        typer.secho(table.title, bold=True)
        typer.echo(table.to_markdown() + "\n")
