"""Tables of concepts: several columns, each of its own kind, with rows that may lack a value.

A column is ``categories`` (labels) or ``continuous`` (a number or a vector of numbers). All
messages about tables of concepts are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, did_you_mean
from unspot.data.labels import (
    Labels,
    Measurements,
    check_length,
    encode,
    is_continuous,
    measure,
    missing_values,
    plain_objects,
    uncast,
)
from unspot.data.rows import refuse_masked

__all__ = ["KINDS", "Concepts", "Target", "is_table", "read_concepts", "read_target"]

Target = Labels | Measurements
#: What a concept can be.
KINDS = ("categories", "continuous")
#: Whole numbers of more different values may be labels or measurements: only the user knows.
FEW_VALUES = 20


class Column(NamedTuple):
    """One concept: its values where there are any, and where there are none."""

    target: Target  # of the rows that have a value
    missing: NDArray[np.bool_]  # (n,)

    def take(self, rows: Any) -> Column:
        """Some of the rows, by number, slice or mask."""
        place = np.cumsum(~self.missing) - 1
        missing = self.missing[rows]
        return Column(self.target.take(place[rows][~missing]), missing)


@dataclass(frozen=True, eq=False)
class Concepts:
    """Several concepts of the same n rows, by name and in order.

    Made by ``read_concepts``. ``len`` is the number of rows. A name gives the ``Labels`` or
    ``Measurements`` of the rows that have a value (all but ``missing(name)``), and row numbers,
    a slice or a mask give the table of these rows.

    Examples
    --------
    >>> Z = read_concepts({"gender": ["f", "m", None], "age": [31.5, 28.0, 40.25]})
    >>> len(Z), Z.names, Z.kinds
    (3, ('gender', 'age'), {'gender': 'categories', 'age': 'continuous'})
    >>> Z["gender"].values.tolist(), Z.missing("gender").tolist()
    (['f', 'm'], [False, False, True])
    >>> Z.take([0, 1])["age"].values.ravel()
    array([31.5, 28. ])
    """

    columns: Mapping[str, Column]
    groups: NDArray[np.int64] | None = None  # as in ``Labels``

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).missing)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, key: Any) -> Any:
        return self._column(key).target if isinstance(key, str) else self.take(key)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every concept, by its name."""
        return {name: column.target.kind for name, column in self.columns.items()}

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Codes and measurements side by side, NaN where there is none: for hashes. (n, m)."""
        parts = []
        for target, missing in self.columns.values():
            values = target.codes[:, None] if isinstance(target, Labels) else target.values
            part = np.full((len(missing), values.shape[1]), np.nan)
            part[~missing] = values
            parts.append(part)
        return np.hstack(parts)

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Which rows have no value of a concept, (n,)."""
        return self._column(name).missing

    def take(self, rows: Any) -> Concepts:
        """Some of the rows, by number, slice or mask. Classes stay, even those without a row."""
        groups = None if self.groups is None else self.groups[rows]
        return Concepts({name: column.take(rows) for name, column in self.columns.items()}, groups)

    def select(self, names: Sequence[str]) -> Concepts:
        """Some of the concepts."""
        return Concepts({name: self._column(name) for name in names})

    def describe(self) -> dict[str, Any]:
        """The concepts in the metadata of an eraser."""
        listed = []
        for name, (target, missing) in self.columns.items():
            facts = {key: value for key, value in target.describe().items() if value is not None}
            facts = {"name": name, "kind": facts.pop("concept"), **facts}
            listed.append({**facts, "missing": int(missing.sum())} if missing.any() else facts)
        return {"concept": "several", "concepts": listed, "classes": None, "class_counts": None}

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise ValueError(
                f"Got the concept {name!r}, but expected one of: {', '.join(self.columns)}."
                f"{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]


def is_table(z: Any) -> bool:
    """Whether z is a table of concepts rather than one label or number for each row.

    Examples
    --------
    >>> is_table({"a": [0, 1]}), is_table([[0, 1], [1, 1]]), is_table(["f", "m"])
    (True, True, False)
    """
    if isinstance(z, (Concepts, Mapping)):
        return True
    if hasattr(z, "columns"):  # a frame of pandas or polars; of one column it is that column
        return len(_names(z)) != 1
    if getattr(getattr(z, "dtype", None), "names", None):
        return True
    if isinstance(z, Sequence) and not isinstance(z, str):
        return bool(z) and all(isinstance(row, (list, tuple, np.ndarray)) for row in z[:2])
    shape: tuple[int, ...] = getattr(z, "shape", ())
    return len(shape) == 2 and shape[1] != 1


def read_concepts(
    Z: Any,
    *,
    n_rows: int | None = None,
    kinds: Mapping[str, str] | None = None,
    min_rows: int = 1,
) -> Concepts:
    """Read a table of concepts.

    Parameters
    ----------
    Z : data frame, mapping of columns, structured array or array of shape (n, c)
        Columns of an array without names are called "0", "1", … A column of a mapping may hold a
        vector of numbers for each row. None and NaN are missing values.
    n_rows : int, optional
        The number of rows that the table must have.
    kinds : mapping of str to str, optional
        The kind of some columns: "categories" or "continuous". That of others is found from the
        values: text, booleans and whole numbers of at most 20 values are categories, fractional
        numbers are continuous.
    min_rows : int
        The smallest number of rows of a class.

    Examples
    --------
    >>> Z = read_concepts({"day": [0, 6, 3], "age": [41, 30, 30]}, kinds={"age": "continuous"})
    >>> Z.kinds
    {'day': 'categories', 'age': 'continuous'}
    """
    if isinstance(Z, Concepts):
        if n_rows is not None:
            check_length(Z, n_rows, "the table of concepts")
        return Z
    columns, kinds = _columns(Z), dict(kinds or {})
    for name in kinds:
        if name not in columns:
            raise ValueError(
                f"Got the kind of {name!r}, but expected one of the table's columns: "
                f"{', '.join(columns)}.{did_you_mean(name, columns)}"
            )
    length = len(next(iter(columns.values()))) if n_rows is None else n_rows
    return Concepts(
        {
            name: _read_column(column, name, length, kinds.get(name), min_rows)
            for name, column in columns.items()
        }
    )


def read_target(
    z: Any, *, n_rows: int, kind: str | None = None, name: str = "z", min_rows: int = 1
) -> Target:
    """One concept of a known kind, or of the kind that its values show; no value may be missing."""
    target, missing = _read_column(z, name, n_rows, kind, min_rows)
    if missing.any():
        raise ValueError(
            f"Got {int(missing.sum())} missing values in {name} (the first in row "
            f"{int(np.argmax(missing))}), but expected one for every row. Drop those rows; only in "
            "a table of concepts may some be missing."
        )
    return target


# -- Columns of a table ----------------------------------------------------------------------------


def _names(Z: Any) -> list[Any]:
    return list(getattr(Z, "column_names", Z.columns))  # of a table of Arrow, or a frame


def _columns(Z: Any) -> dict[str, Any]:
    """The columns of any table, by their names as text."""
    if isinstance(Z, Mapping):
        listed = [(name, Z[name]) for name in Z]
    elif hasattr(Z, "columns"):
        names = _names(Z)
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"Got two columns called {twice[0]!r}, but expected names that differ: rename one."
            )
        listed = [(name, Z[name]) for name in names]
    elif getattr(getattr(Z, "dtype", None), "names", None):
        listed = [(name, Z[name]) for name in Z.dtype.names]
    else:
        refuse_masked(Z, "the table of concepts")
        values = uncast(Z)
        if values.ndim != 2:
            raise ValueError(
                f"Got concepts of shape {values.shape}, but expected a table: a data frame, a dict "
                "of columns, or an array with one column for each concept."
            )
        listed = [(i, values[:, i]) for i in range(values.shape[1])]
    columns = {str(name): column for name, column in listed}
    if not columns:
        raise ValueError(
            "Got a table without columns, but expected at least one concept. Pass one column for "
            "each concept, or the labels themselves."
        )
    return columns


def _read_column(column: Any, name: str, n_rows: int, kind: str | None, min_rows: int) -> Column:
    refuse_masked(column, name)
    if kind is not None:
        check_choice(f"the kind of {name}", kind, KINDS)
    values = uncast(column)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    check_length(values, n_rows, name)
    missing = np.isnan(values).any(axis=1) if values.ndim == 2 else missing_values(values)
    present = values[~missing]
    if not len(present):
        raise ValueError(
            f"Got no value of {name} in any of {n_rows} rows, but expected two values at least. "
            "Leave the column out."
        )
    if present.dtype.kind == "O":
        present = plain_objects(present, name)
    if (kind or _kind_of(present, column, name)) == "continuous":
        return Column(measure(present, n_rows=len(present), name=name), missing)
    return Column(encode(present, name=name, min_rows=min_rows), missing)


def _kind_of(values: NDArray[Any], column: Any, name: str) -> str:
    """The kind that the values show, where they do."""
    if values.ndim == 2 or is_continuous(values):
        return "continuous"
    if values.dtype.kind in "mM":
        raise ValueError(
            f"Got dates or times in {name}, but expected labels or numbers. Convert them to what "
            "is to be erased, such as the year as a number or the day of the week."
        )
    whole = values.dtype.kind in "iuf" and str(getattr(column, "dtype", "")) != "category"
    n_values = len(np.unique(values)) if whole else 0
    if n_values > FEW_VALUES:
        raise ValueError(
            f"Got whole numbers of {n_values} different values in {name}, which may be a number or "
            f"labels, but expected to know which. Say kinds={{{name!r}: 'continuous'}} or "
            f"'categories' (for an eraser, concept={{…}}; on the command line, --kind "
            f"{name}=continuous)."
        )
    return "categories"
