"""Options and arguments that several commands share, and how their text is read.

An option that only one command has stays in that command. Only typer is imported here, so that
``unspot --help`` is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["check_concept", "check_retry", "comma_list", "parse_rank", "parse_ranks"]

# -- What goes in ----------------------------------------------------------------------------------

EraserFile = Annotated[
    Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
]
Embeddings = Annotated[
    Path, typer.Argument(metavar="DATA", help="Embeddings: .npy, .npz, .csv or .parquet.")
]
TestRows = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Rows that the eraser has not seen: .npy, .npz, .csv or .parquet."
    ),
]
Concept = Annotated[
    str | None,
    typer.Option("--concept", "-c", metavar="NAME", help="Column or array of the labels."),
]
ConceptOfFit = Annotated[
    str | None,
    typer.Option("--concept", "-c", metavar="NAME", help="Labels; by default as in unspot fit."),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        "-f",
        metavar="NAMES",
        help="Vectors: a column, an array, a pattern such as 'e_*', or a comma list.",
    ),
]
FeaturesOfFit = Annotated[
    str | None,
    typer.Option("--features", "-f", metavar="NAMES", help="Vectors; by default as in unspot fit."),
]
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="A second file with the labels of DATA."),
]
Task = Annotated[
    str | None, typer.Option("--task", "-t", metavar="NAME", help="Labels of the downstream task.")
]

# -- What is done ----------------------------------------------------------------------------------

Method = Annotated[
    str,
    typer.Option(
        "--method", "-m", metavar="NAME", help="leopard, pca, … (see unspot methods), cascade:NAME."
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of the method."),
]
Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks", "-r", metavar="RANKS", help="Such as 90,50,10, or 10:90:10, or fractions."
    ),
]
MaxRows = Annotated[
    int | None, typer.Option(metavar="N", help="Fit on a sample of at most N rows.")
]
Budget = Annotated[
    str, typer.Option("--budget", "-b", metavar="NAME", help="quick, standard or thorough.")
]
Seeds = Annotated[int, typer.Option(metavar="N", help="Number of seeds for each metric.")]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed gives the same results.")]
Resume = Annotated[
    bool, typer.Option("--resume", metavar="", help="Run only the cells that are missing.")
]
Retry = Annotated[
    bool, typer.Option("--retry", metavar="", help="With --resume: run failed cells again.")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", metavar="N", help="Number of cells to run at once.")
]

# -- What comes out --------------------------------------------------------------------------------

JsonFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the results as JSON; - for stdout.")
]
HtmlFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page.")]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace existing output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Show only errors.")]


# -- How the text of options is read ---------------------------------------------------------------


def check_concept(concept: str | None, labels: Path | None, option: str = "--labels") -> None:
    """Refuse rows without labels: neither a name of them nor a file of their own."""
    if concept is None and labels is None:
        raise ValueError(
            f"Got no concept. Name its column or array with --concept, or its file with {option}."
        )


def check_retry(retry: bool, resume: bool) -> None:
    """Refuse to retry the failed cells of a run that begins."""
    if retry and not resume:
        raise ValueError("Got --retry without --resume, but only a resumed run has failed cells.")


def comma_list(text: str | None) -> list[str] | None:
    """Names separated by commas; None where none were given.

    Examples
    --------
    >>> comma_list("linear, variance")
    ['linear', 'variance']
    """
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_rank(text: str) -> int | float | str:
    """A rank: an integer, a fraction of the features, or "auto".

    Examples
    --------
    >>> parse_rank("125"), parse_rank("0.5"), parse_rank("auto")
    (125, 0.5, 'auto')
    """
    return "auto" if text.strip().lower() == "auto" else _number(text, "--rank", ", or auto")


def parse_ranks(text: str | None) -> list[int | float] | None:
    """Several ranks: a comma list, or FIRST:LAST:STEP, which includes both ends.

    Examples
    --------
    >>> parse_ranks("90,0.5,10"), parse_ranks("10:40:10")
    ([90, 0.5, 10], [10, 20, 30, 40])
    """
    if text is None:
        return None
    if ":" not in text:
        return [_number(part.strip(), "--ranks") for part in text.split(",")]
    try:
        first, last, step = (int(part) for part in text.split(":"))
        ranks = list(range(first, last + (1 if step > 0 else -1), step))
    except ValueError:
        ranks = []
    if not ranks:
        raise ValueError(
            f"Got --ranks {text}, but expected FIRST:LAST:STEP such as 10:90:10, or a comma list "
            "such as 90,50,10."
        )
    return list(ranks)


def _number(text: str, option: str, more: str = "") -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(
        f"Got {option} {text}, but expected an integer such as 125 or a fraction such as 0.5{more}."
    )
