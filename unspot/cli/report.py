"""``unspot report``: result files in, one HTML page out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unspot.cli import options


def report(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT…",
            help="JSON files of unspot evaluate, certify or path; NAME=FILE names the eraser.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page: an .html file.")
    ],
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the page.")] = None,
    chosen: Annotated[
        str | None, typer.Option(metavar="NAME", help="The eraser that the headline is about.")
    ] = None,
    chosen_rank: Annotated[
        int | None, typer.Option(metavar="R", help="The rank to mark on a path.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write figures too: PNG and PDF.")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables too: LaTeX and CSV.")
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Show results of one eraser or several in one HTML page.

    unspot report LEACE=leace.json LEOPARD=leopard.json -o compared.html
    """
    from unspot.io.files import refuse_existing, split_name

    inputs = [split_name(entry)[1] for entry in results]
    options.check_files({"--output": output}, inputs)
    refuse_existing(output, force=force)
    from unspot.report import to_html
    from unspot.report.figures import save_figures
    from unspot.report.files import read_results
    from unspot.report.reading import read_contents
    from unspot.report.tables import TABLES, save_tables

    if tables is not None:
        for name in TABLES:
            options.refuse_inputs({"--tables": tables / name}, inputs)
    by_name, views = read_results(results)
    choices: dict[str, Any] = {"title": title, "chosen": chosen, "chosen_rank": chosen_rank}
    contents = read_contents(by_name, **choices)
    written = [to_html(by_name, output, views=views, **choices)]
    if figures is not None:
        written += save_figures(figures, contents, views)
    if tables is not None:
        written += save_tables(tables, contents)
    if not quiet:
        for file in written:
            typer.echo(file)
