"""``unspot lab bench``: the paper's tables and figures, on its data or on a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.lab.bench.run import BenchResult


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="glove, bios, dial, translations; a synthetic law: variance, xor, ring, mixture; "
            "or a file: .npz, .npy, .csv or .parquet.",
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Where the data of that name are: the authors' folder, a GloVe text file, or a "
            "file of vectors and labels. GloVe with 100 dimensions is in the package.",
        ),
    ] = None,
    concept: Annotated[
        str, typer.Option("--concept", "-c", metavar="NAME", help="Labels in a file.")
    ] = "z",
    task: Annotated[
        str, typer.Option("--task", "-t", metavar="NAME", help="Task in a file, if it has one.")
    ] = "y",
    features: options.Features = None,
    ranks: options.Ranks = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Number of seeds per cell.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Minutes: the same as --effort quick.")
    ] = False,
    effort: Annotated[
        str, typer.Option(metavar="NAME", help="quick, standard or paper (hours).")
    ] = "standard",
    studies: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Only these of main, field, rivals, task, metric, preserve, kernels, batch, "
            "solver.",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", "-m", metavar="NAMES", help="Only these of the methods."),
    ] = None,
    max_rows: options.MaxRows = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="By default unspot-bench-NAME, here."
        ),
    ] = None,
    resume: options.Resume = False,
    retry: options.Retry = False,
    jobs: options.Jobs = None,
    max_seconds: options.MaxSeconds = None,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", metavar="", help="Whether to draw figures.")
    ] = True,
    html: options.HtmlFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Regenerate the paper's tables and figures, with its numbers beside ours.

    unspot lab bench glove --quick
    unspot lab bench bios --data folder-of-the-authors --seeds 5 -o results/bios

    Every finished cell is kept: an interrupted run goes on with --resume.
    """
    from unspot.checks import require

    folder = output or Path(f"unspot-bench-{Path(name).stem}")
    options.check_retry(retry, resume)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Got --output {folder}, which is a file, but expected a folder.")
    options.refuse_inputs({"--html": html}, (name, data))
    for file in ("cells.csv", "tables.csv"):  # the files of the folder that could be read as data
        options.refuse_inputs({"--output": folder / file}, (name, data))
    from unspot.lab.sweeps.data import DATA_NAMES, open_data

    if name not in DATA_NAMES:  # read twice, so that a wrong column is said before torch is loaded
        open_data(name, source=data, concept=concept, task=task, features=features)
    require("unspot lab bench", "report", "pandas", "jinja2", *(["matplotlib"] if figures else []))
    # After all that can be wrong with the options: it imports torch.
    with options.loading():
        from unspot.lab.bench import bench as run

    stopped = options.saying_what_is_kept(
        lambda: f"Finished cells are in {folder}. The same command with --resume goes on."
    )
    with stopped:
        result = run(
            name,
            source=data,
            concept=concept,
            task=task,
            features=features,
            effort="quick" if quick else effort,
            ranks=options.parse_ranks(ranks),
            seeds=seeds,
            only=options.comma_list(studies),
            methods=options.comma_list(methods),
            max_train_rows=max_rows,
            out=folder,
            resume=resume,
            retry=retry,
            n_jobs=jobs,
            max_seconds=max_seconds,
            figures=figures,
        )
    if html is not None:
        from unspot.io.files import write_atomically

        write_atomically(html, (folder / "report.html").read_bytes())
    if not quiet:
        _show(result, html)
    report_failed_cells(result.frame, quiet=quiet)


def _show(result: BenchResult, html: Path | None) -> None:
    from unspot.lab.bench.paper import paper_tables

    source = result.source
    for table in paper_tables(result.lines)[:1]:
        typer.secho(table.title, bold=True)
        typer.echo(table.to_markdown())
    if source.paper is not None:
        typer.echo(source.about_paper)
    typer.secho(f"\nWritten in {result.seconds:.0f} s", bold=True)
    for path in (*result.files, *([html] if html else [])):
        typer.echo(f"  {path}")


def report_failed_cells(frame: Any, *, quiet: bool) -> None:
    """Say how many cells failed, on stderr if quiet; exit with code 1 if all did."""
    failed = frame[frame["status"] == "failed"]
    if not len(failed):
        return
    first = failed.iloc[0]
    message = (
        f"{len(failed)} of {len(frame)} cells failed, the first ({first['method']}) with: "
        f"{first['error']} Try them again with --resume --retry."
    )
    if quiet:
        typer.secho(f"Error: {message}", fg=typer.colors.RED, err=True)
    else:
        typer.echo(message)
    if len(failed) == len(frame):
        raise typer.Exit(1)
