"""Parts of data with several concepts: each concept by itself, and their combination.

An eraser that hides each concept may still reveal two together: not whether a row is "f" or
"north", but whether both agree. So the cells of all concepts are attacked as classes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.concept import joined
from unspot.data.dataset import Dataset, Split

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
        Empty if the data have one concept, which needs no name.
    data : Dataset
        The rows that have a value of it, with that concept alone.
    note : str
        What was left out or merged, in a sentence; empty if nothing.
    """

    name: str
    data: Dataset
    note: str = ""


def parts_of(data: Dataset) -> list[Part]:
    """List each concept of the data, and their combination if there are several."""
    if not data.concepts:
        return [Part("", data)]
    parts = [Part(name, data.of(name)) for name in data.concepts]
    if len(parts) > 1:
        splits, note = _combined(data.splits)
        name = combination_name(data.concepts)
        if splits is None:  # the last concept carries the sentence
            parts[-1] = replace(parts[-1], note=note)
        else:
            combined = replace(data, concept=name, **splits)  # type: ignore[arg-type]
            parts.append(Part(name, combined, note))
    return parts


def split_parts(split: Split) -> list[Split]:
    """List the rows of each concept of a split, and of their combination."""
    names = split.concept.names
    if not names:
        return [split]
    parts = [split.of(name) for name in names]
    combined = _combined({"test": split})[0] if len(parts) > 1 else None
    return parts if combined is None else [*parts, combined["test"]]


def combination_name(names: Sequence[str]) -> str:
    """Name the combination of concepts."""
    return " × ".join(names)


def _combined(splits: Mapping[str, Split]) -> tuple[dict[str, Split] | None, str]:
    """Make the cells of all concepts classes, or None; a sentence says what was left out."""
    complete = {key: split.take(~_lacks_any(split)) for key, split in splits.items()}
    tables = {key: split.concept for key, split in complete.items()}
    cuts = medians(list(tables.values()))
    labels = {key: cell_names(table, cuts) for key, table in tables.items()}
    cells = np.unique(np.concatenate(list(labels.values())))
    needed = {key: MIN_JUDGED if key == "test" else MIN_LEARNED for key in splits}
    enough = np.all([_counts(z, cells) >= needed[key] for key, z in labels.items()], axis=0)
    rare = cells[~enough]
    merged = {key: np.where(np.isin(z, rare), OTHERS, z) for key, z in labels.items()}
    fits = all((z == OTHERS).sum() >= needed[key] for key, z in merged.items())
    name = combination_name(tables["test"].names)
    if int(enough.sum()) + int(fits) < 2:
        return None, (
            f"{name} was not attacked: only {int(enough.sum())} of {len(cells)} combinations has "
            f"{MIN_JUDGED} test rows and {MIN_LEARNED} others."
        )
    made = {}
    for key, z in merged.items():
        rows = np.arange(len(z)) if fits else np.flatnonzero(z != OTHERS)
        part = complete[key].take(rows)
        made[key] = replace(part, concept=z[rows], table=part.concept)
    return made, _note(name, rare, fits)


def _note(name: str, rare: NDArray[Any], merged: bool) -> str:
    if not len(rare):
        return ""
    shown = ", ".join(map(str, rare[:5])) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
    became = "counted as one class" if merged else "left out"
    return f"Of {name}, combinations with too few rows were {became}: {shown}."


def _lacks_any(split: Split) -> NDArray[np.bool_]:
    table = split.concept
    return np.any([table.missing(name) for name in table.names], axis=0)


def medians(tables: Sequence[Any]) -> dict[str, float | None]:
    """Compute where each number is cut into halves: its median over all rows."""
    return {name: joined([table[name] for table in tables]).median for name in tables[0].names}


def cell_names(table: Any, cuts: Mapping[str, float | None]) -> NDArray[Any]:
    """Label each row with its cell, such as "f / north"."""
    columns = [table[name].halves(name, cuts[name]) for name in table.names]
    return np.array([" / ".join(words) for words in zip(*columns, strict=True)])


def _counts(labels: NDArray[Any], cells: NDArray[Any]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(cells, labels), minlength=len(cells))


@contextmanager
def naming_concept(name: str) -> Iterator[None]:
    """Prefix an error about one of several concepts with its name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from error
