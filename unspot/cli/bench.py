"""``unspot bench``: the paper's tables and figures, on its data or on a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.bench.run import BenchResult


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="glove, bios or dial; or a file: .npz, .npy, .csv or .parquet."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="PATH",
            help="Where the data of that name are: the authors' folder, a GloVe text file, or a "
            "file of vectors and labels. GloVe of 100 dimensions is in the package.",
        ),
    ] = None,
    concept: Annotated[
        str, typer.Option("--concept", "-c", metavar="NAME", help="Labels in a file.")
    ] = "z",
    task: Annotated[
        str, typer.Option("--task", "-t", metavar="NAME", help="Task in a file, if it has one.")
    ] = "y",
    features: Annotated[
        str | None, typer.Option("--features", "-f", metavar="NAMES", help="Vectors in a file.")
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(
            "--ranks", "-r", metavar="RANKS", help="As 75,50,25 or 10:90:10, not the paper's."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Seeds of every cell.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Minutes: the same as --effort quick.")
    ] = False,
    effort: Annotated[
        str, typer.Option("--effort", metavar="NAME", help="quick, standard or paper (hours).")
    ] = "standard",
    studies: Annotated[
        str | None,
        typer.Option(
            "--studies",
            metavar="NAMES",
            help="Of main, field, metric, preserve, kernels, batch, solver.",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", "-m", metavar="NAMES", help="Of the studies, these alone."),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option("--max-rows", metavar="N", help="Fit on a sample of the training rows."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="By default unspot-bench-NAME, here."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="Go on with what the folder has.")
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", metavar="", help="With --resume: failed cells again.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", help="Cells at once.")
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", metavar="", help="Whether to draw.")
    ] = True,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the page of the folder here too."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
) -> None:
    """Regenerate the paper's tables and figures, its numbers beside ours.

    unspot bench glove --quick
    unspot bench bios --data folder-of-the-authors --seeds 5 -o results/bios

    Every finished cell is kept: a run that was broken off goes on with --resume.
    """
    from unspot.bench import bench as run
    from unspot.cli.options import parse_ranks

    folder = output or Path(f"unspot-bench-{Path(name).stem}")
    _check(folder, resume=resume, retry=retry, figures=figures)
    _refuse_inputs(folder, html, (name, data))
    result = run(
        name,
        source=data,
        concept=concept,
        task=task,
        features=features,
        effort="quick" if quick else effort,
        ranks=parse_ranks(ranks),
        seeds=seeds,
        only=_names(studies),
        methods=_names(methods),
        max_train_rows=max_rows,
        out=folder,
        resume=resume,
        retry=retry,
        n_jobs=jobs,
        figures=figures,
        verbose=not quiet and sys.stderr.isatty(),
    )
    if html is not None:
        _copy(folder / "report.html", html)
    if not quiet:
        _show(result, html)
    end_if_all_failed(result.frame, quiet=quiet)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _check(folder: Path, *, resume: bool, retry: bool, figures: bool) -> None:
    """Refuse now what would fail after an hour."""
    from unspot.checks import require

    if retry and not resume:
        raise ValueError("Got --retry without --resume, but only a resumed run has failed cells.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Got --output {folder}, which is a file, but expected a folder.")
    require("unspot bench", "report", "pandas", "jinja2", *(["matplotlib"] if figures else []))


def _refuse_inputs(folder: Path, html: Path | None, inputs: tuple[Path | str | None, ...]) -> None:
    from unspot.cli.options import refuse_inputs

    refuse_inputs({"--html": html}, inputs)
    for name in ("cells.csv", "tables.csv"):  # of all that goes there, what could be read as data
        refuse_inputs({"--output": folder / name}, inputs)


def _copy(page: Path, html: Path) -> None:
    from unspot.io.files import write_atomically

    write_atomically(html, page.read_bytes())


def _show(result: BenchResult, html: Path | None) -> None:
    from unspot.bench.tables import paper_tables

    for table in paper_tables(result.lines)[:1]:
        typer.secho(table.title, bold=True)
        typer.echo(table.to_markdown())
    if result.source.paper is not None:
        typer.echo(result.source.about_paper)
    failed = failed_cells(result.frame)
    if failed:
        typer.echo(failed)
    typer.secho(f"\nWritten in {result.seconds:.0f} s", bold=True)
    for path in (*result.files, *([html] if html else [])):
        typer.echo(f"  {path}")


def failed_cells(frame: Any) -> str:
    """How many failed, and why the first did; nothing if none."""
    bad = frame[frame["status"] == "failed"]
    if not len(bad):
        return ""
    first = bad.iloc[0]
    return (
        f"{len(bad)} of {len(frame)} cells failed, the first ({first['method']}) with: "
        f"{first['error']} Try them again with --resume --retry."
    )


def end_if_all_failed(frame: Any, *, quiet: bool) -> None:
    """Exit code 1 where there is no result at all; who is quiet hears of failed cells too."""
    failed = failed_cells(frame)
    if failed and quiet:
        typer.secho(f"Error: {failed}", fg=typer.colors.RED, err=True)
    if failed and (frame["status"] == "failed").all():
        raise typer.Exit(1)
