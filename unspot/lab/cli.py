"""The commands of ``unspot lab``: ``bench`` and ``sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unspot.cli import options

__all__ = ["bench", "sweep"]

Data = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="glove, bios, dial, translations; a synthetic law: variance, xor, ring, mixture; "
        "or a file: .npz, .npy, .csv or .parquet.",
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="The authors' folder, a GloVe text file, or vectors and labels."
    ),
]
Concept = Annotated[str, typer.Option("--concept", "-c", metavar="NAME", help="Labels in a file.")]
Task = Annotated[
    str, typer.Option("--task", "-t", metavar="NAME", help="Task in a file, if it has one.")
]
Seeds = Annotated[int | None, typer.Option(metavar="N", help="Number of seeds per cell.")]
Effort = Annotated[
    str, typer.Option(metavar="NAME", help="quick (minutes), standard or paper (hours).")
]
Studies = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Only these of main, field, rivals, task, metric, preserve, kernels, batch, solver.",
    ),
]
Methods = Annotated[
    str | None, typer.Option("--methods", "-m", metavar="NAMES", help="Only these of the methods.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FOLDER", help="By default unspot-bench-NAME, here."),
]
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Whether to draw figures.")]
Features = Annotated[
    str | None, typer.Option("--features", "-f", metavar="NAMES", help="Vectors in a file.")
]
Ranks = Annotated[
    str | None,
    typer.Option("--ranks", "-r", metavar="RANKS", help="A comma list, such as 90,50,0.1."),
]
MaxRows = Annotated[
    int | None, typer.Option(metavar="N", help="Fit on a sample of at most N rows.")
]
Jobs = Annotated[
    int | None, typer.Option(metavar="N", help="Cells that run at once, in processes.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Run only the cells that are not finished.")]


def bench(
    name: Data,
    data: Source = None,
    concept: Concept = "z",
    task: Task = "y",
    features: Features = None,
    ranks: Ranks = None,
    seeds: Seeds = None,
    effort: Effort = "standard",
    studies: Studies = None,
    methods: Methods = None,
    max_rows: MaxRows = None,
    output: Folder = None,
    resume: Resume = False,
    jobs: Jobs = None,
    figures: Figures = True,
) -> None:
    """Regenerate the paper's tables and figures, with its numbers in brackets.

    \b
    unspot lab bench glove --effort quick
    unspot lab bench bios --data folder-of-the-authors --seeds 5 -o results/bios

    Every finished cell is on the disk at once: an interrupted run goes on with --resume.
    """
    from unspot.checks import require

    folder = output or Path(f"unspot-bench-{Path(name).stem}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"Got --output {folder}, which is a file, but expected a folder.")
    if figures:
        require("unspot lab bench", "report", "matplotlib")
    with options.loading():
        from unspot.lab.bench import bench as run
        from unspot.lab.bench.paper import paper_tables

    with options.after_interrupt(_go_on(folder)):
        result = run(
            name,
            source=data,
            concept=concept,
            task=task,
            features=features,
            max_rows=max_rows,
            effort=effort,
            ranks=options.parse_ranks(ranks),
            seeds=seeds,
            only=options.comma_list(studies),
            methods=options.comma_list(methods),
            out=folder,
            resume=resume,
            n_jobs=jobs,
            figures=figures,
        )
    for table in paper_tables(result.lines)[:1]:
        options.say(f"{table.title}\n{table.to_markdown()}")
    options.say("\n".join([result.source.about_paper, *map(str, result.files)]))
    _report_failed_cells(result.records)


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
    resume: Resume = False,
    jobs: Jobs = None,
    tables: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write tables too: LaTeX and CSV.")
    ] = None,
) -> None:
    """Measure methods at ranks and seeds on data sets, as a TOML file says.

    \b
    unspot lab sweep sweep.toml -o results.jsonl --tables paper/

    Every finished cell is on the disk at once: an interrupted sweep goes on with --resume.
    """
    results = output or file.with_suffix(".jsonl")
    options.check_files({"--output": results}, [file])
    with options.loading():
        from unspot.lab.sweep import sweep as run
        from unspot.lab.sweep_file import read_sweep_file
        from unspot.lab.tables import save_tables, sweep_tables

    arguments = read_sweep_file(file)
    with options.after_interrupt(_go_on(results)):
        records = run(**arguments, path=results, resume=resume, n_jobs=jobs)
    made = sweep_tables(records)
    written = [results, *([] if tables is None else save_tables(tables, made))]
    for table in made:
        options.say(f"{table.title}\n{table.to_markdown()}\n")
    options.say(f"{len(records)} cells: {', '.join(map(str, written))}")
    _report_failed_cells(records)


def _go_on(place: Path) -> str:
    return f"Finished cells are in {place}. The same command with --resume goes on."


def _report_failed_cells(records: list[dict[str, Any]]) -> None:
    """Say how many cells failed; exit with code 1 if all did."""
    failed = [record for record in records if record["status"] == "failed"]
    if failed:
        options.complain(
            f"{len(failed)} of {len(records)} cells failed, the first ({failed[0]['method']}) "
            f"with: {failed[0]['error']} Try them again with --resume."
        )
    if failed and len(failed) == len(records):
        raise typer.Exit(1)
