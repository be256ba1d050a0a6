"""Several concepts: the data of each of them, and of their combination as one concept.

An eraser that hides each concept may still show two together: rows of which neither concept is
known, but whether both agree. So the cells of all concepts are attacked as classes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split
from unspot.data.labels import Labels

__all__ = [
    "OTHERS",
    "Part",
    "cell_names",
    "combination_name",
    "middles",
    "naming_concept",
    "parts_of",
    "restricted",
]

#: The class of all cells that are too small to be one.
OTHERS = "other combinations"

#: The fewest rows of a cell, in rows to learn from and in rows to judge on.
MIN_LEARNED, MIN_JUDGED = 10, 20


@dataclass(frozen=True, eq=False)
class Part:
    """One concept of several, or their combination.

    Attributes
    ----------
    name : str
    data : Dataset
        The rows that have a value of it, and nothing but that as concept.
    note : str
        What had to be left out or merged, in a sentence; empty if nothing.
    """

    name: str
    data: Dataset
    note: str = ""


def parts_of(data: Dataset) -> list[Part]:
    """Each concept of the data, and their combination if there are several; of one, nothing."""
    if not data.concepts:
        return []
    parts = [Part(name, data.of(name)) for name in data.concepts]
    if len(parts) > 1:
        cells, note = _combined(data)
        name = combination_name(data.concepts)
        if cells is None:  # the last concept carries the sentence
            parts[-1] = replace(parts[-1], note=note)
        else:
            parts.append(Part(name, cells, note))
    return parts


def combination_name(names: Sequence[str]) -> str:
    """What the combination of concepts is called."""
    return " × ".join(names)


def _combined(data: Dataset) -> tuple[Dataset | None, str]:
    """The data with the cells of all concepts as classes, or None; a sentence about the rest."""
    complete = [split.take(~_lacks_any(split)) for split in data]
    cuts = middles([split.z for split in complete])
    labels = [cell_names(split.z, cuts) for split in complete]
    cells = np.unique(np.concatenate(labels))
    needed = (MIN_LEARNED, MIN_LEARNED, MIN_JUDGED)
    enough = np.all([_counts(z, cells) >= n for z, n in zip(labels, needed, strict=True)], axis=0)
    rare = cells[~enough]
    merged = [np.where(np.isin(z, rare), OTHERS, z) for z in labels]
    fits = all((z == OTHERS).sum() >= n for z, n in zip(merged, needed, strict=True))
    n_classes = int(enough.sum()) + int(fits)
    name = combination_name(data.concepts)
    if n_classes < 2:
        return None, (
            f"{name} was not attacked: only {int(enough.sum())} of {len(cells)} combinations has "
            f"{MIN_JUDGED} test rows and {MIN_LEARNED} others."
        )
    kept = [slice(None) if fits else z != OTHERS for z in merged]
    splits = [
        _with_cells(split, z, np.arange(len(z))[rows])
        for split, z, rows in zip(complete, merged, kept, strict=True)
    ]
    made = dict(zip(map(id, data), splits, strict=True))  # two splits may be the same rows
    combined = data.mapped(lambda split: made[id(split)])
    return replace(combined, concept=name), _said(name, rare, fits)


def _with_cells(split: Split, cells: NDArray[Any], rows: NDArray[np.int64]) -> Split:
    part = split.take(rows)
    return replace(part, concept=cells[rows], table=part.concept)


def _said(name: str, rare: NDArray[Any], merged: bool) -> str:
    if not len(rare):
        return ""
    shown = ", ".join(map(str, rare[:5])) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
    became = "counted as one class" if merged else "left out"
    return f"Of {name}, combinations with too few rows were {became}: {shown}."


def _lacks_any(split: Split) -> NDArray[np.bool_]:
    table: Any = split.z
    return np.any([table.missing(name) for name in table], axis=0)


def middles(tables: Sequence[Any]) -> dict[str, float]:
    """Where a number is cut into halves: its median over all rows."""
    found = {}
    for name in tables[0]:
        targets = [table[name] for table in tables]
        if not isinstance(targets[0], Labels):
            values = np.concatenate([target.coordinates[:, 0] for target in targets])
            found[str(name)] = float(np.median(values))
    return found


def cell_names(table: Any, cuts: dict[str, float]) -> NDArray[Any]:
    """Label each row with its cell, such as "f / north"."""
    columns = []
    for name in table:
        target = table[name]
        if isinstance(target, Labels):
            words = np.array([_unambiguous(str(c)) for c in target.classes])[target.codes]
        else:
            values, middle = target.coordinates[:, 0], cuts[name]
            words = np.where(values < middle, f"{name} < {middle:g}", f"{name} ≥ {middle:g}")
        columns.append(words)
    return np.array([" / ".join(words) for words in zip(*columns, strict=True)])


def _unambiguous(label: str) -> str:
    """Quote a label that could be read as two: ("x / y", "z") is not ("x", "y / z")."""
    return repr(label) if " / " in label or label.startswith(("'", '"')) else label


def _counts(labels: NDArray[Any], cells: NDArray[Any]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(cells, labels), minlength=len(cells))


@contextmanager
def naming_concept(name: str) -> Iterator[None]:
    """An error about one of several concepts says which."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def restricted(eraser: Any, data: Dataset, n_parts: int) -> list[Any]:
    """The eraser for each part; erased rows are taken apart as the rows themselves are."""
    if not isinstance(eraser, Dataset):
        return [eraser] * n_parts
    from unspot.evaluation.problem import erased

    return [part.data for part in parts_of(erased(eraser, data))]
