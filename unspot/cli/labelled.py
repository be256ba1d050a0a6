"""Labelled rows for an eraser: columns as asked for, else as ``unspot fit`` wrote them down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspot.dataset import Split
    from unspot.eraser import Eraser
    from unspot.io import Table

__all__ = ["read_labelled", "refuse_orphans", "refuse_the_same"]


def read_labelled(
    eraser: Eraser,
    path: Path,
    labels: Path | None,
    *,
    concept: str | None,
    features: str | None,
    task: str | None = None,
    option: str = "--labels",
) -> Table:
    """Rows with the concept's labels, which may be in a file of their own.

    Parameters
    ----------
    option : str
        What gives ``labels`` on the command line, for messages.
    """
    from unspot.dataset import refuse_continuous
    from unspot.io import read_table
    from unspot.io.labels_file import has_column

    own = concept or eraser.metadata.get("concept_name")
    if labels is not None and concept is None and not (own and has_column(labels, own)):
        own = None  # a fit names the concept after its file of labels, where it has one column
    elif labels is None and path.suffix.lower() == ".npy":
        raise ValueError(
            f"Got {str(path)!r}, one array without labels. Give them in a second file, with "
            f"{option}."
        )
    elif labels is None and own is None:
        raise ValueError(
            f"Got no concept. Name its column or array with --concept, or its file with {option}."
        )
    vectors = features or _remembered(eraser, path)
    table = read_table(path, features=vectors, concept=own, task=task, labels_file=labels)
    refuse_continuous(table.z)
    return table


def _remembered(eraser: Eraser, path: Path) -> str | list[str] | None:
    """What the vectors were called in the file of the fit, where that means something in this."""
    names = list(eraser.metadata.get("features", ()))
    kind = path.suffix.lower()
    # A .npy has no names at all, and many columns of a table are one array of a .npz.
    if not names or kind == ".npy" or (kind == ".npz" and len(names) > 1):
        return None
    return names[0] if len(names) == 1 else names


def refuse_orphans(labels: Path | None, rows: Path | None, names: tuple[str, str]) -> None:
    """Labels of a file that was not given are an error."""
    if labels is not None and rows is None:
        raise ValueError(f"Got {names[0]} without {names[1]}, the rows that they belong to.")


def refuse_the_same(learn: Split, test: Split, said: str, data: Path) -> None:
    """An error if rows to judge on are among those to learn from; some rows just occur twice."""
    from unspot.evaluation.held_out import share_among

    if (share := share_among(test, learn)) > 0.5:
        raise ValueError(
            f"Got {said} with {100 * share:.0f} % of the rows of {data.name}, but expected other "
            "rows to learn from: what was learned by heart is no evidence. Leave the option out to "
            "have the rows split at random."
        )
