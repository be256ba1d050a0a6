"""A table of embeddings and labels from one file, or two, into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrays import check_matrix, npz_names, read_npy, read_npz
from unspot.io.arrow import column_kinds, matrix, values
from unspot.io.arrow_files import open_arrow
from unspot.io.columns import choose_features, missing

__all__ = ["FORMATS", "Table", "file_format", "read_table"]

FORMATS = (".npy", ".npz", ".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file: embeddings, and those labels that were asked for."""

    X: NDArray[Any]  # (n, d)
    z: NDArray[Any] | None = None  # (n,), the concept
    y: NDArray[Any] | None = None  # (n,), the downstream task
    names: NDArray[Any] | None = None  # (n,), what a row is called
    features: tuple[str, ...] = ()  # the columns or the array that X came from

    def __len__(self) -> int:
        return len(self.X)


def read_table(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    concept: str | None = None,
    task: str | None = None,
    names: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
) -> Table:
    """Read embeddings and labels.

    Parameters
    ----------
    path : path
        ``.npy``, ``.npz``, ``.csv`` or ``.parquet`` (a file or a folder of them).
    features : str or list of str, optional
        What holds the vectors: an array of the ``.npz`` ("X" unless said otherwise), a vector
        column, a pattern of columns ("e_*") or a comma list. By default the only vector column,
        or else all columns of fractional numbers.
    concept, task, names : str, optional
        Columns, or arrays of the ``.npz``.
    labels_file : path, optional
        A second file with the labels, row by row: ``.txt`` (one label a line), ``.npy``, ``.npz``,
        ``.csv`` or ``.parquet``. There ``concept`` may be left out if it has one column.

    Notes
    -----
    Cost: the feature and label columns in memory; a ``.npy`` file stays on disk as a memory map.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.npz"
    >>> np.savez(path, X=np.zeros((3, 2)), gender=["f", "m", "f"])
    >>> table = read_table(path, concept="gender")
    >>> table.X.shape, table.z
    ((3, 2), array(['f', 'm', 'f'], dtype='<U1'))
    """
    path = Path(path)
    wanted = {"z": concept, "y": task, "names": names}
    columns: dict[str, NDArray[Any]] = {}
    if labels_file is not None:
        columns = _labels(Path(labels_file), wanted)
        wanted = {role: name for role, name in wanted.items() if role not in columns}
    X, used, own = _READERS[file_format(path)](path, features, wanted)
    columns |= own
    for role, column in columns.items():
        _check_length(column, len(X), wanted.get(role) or role, labels_file or path)
    return Table(check_matrix(X, str(path)), **columns, features=tuple(used))


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """The suffix of a file, or ``.parquet`` for a folder of Parquet parts; else an error."""
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    if path.is_dir():
        if any(path.glob("*.parquet")):
            return ".parquet"
        raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(formats)}. Convert it, "
            "or give it the right ending."
        )
    return suffix


# -- one reader a format: (X, the names it came from, the labels by role) ------------------------

Read = tuple[NDArray[Any], list[str], dict[str, NDArray[Any]]]


def _read_npy(path: Path, features: Any, wanted: dict[str, str | None]) -> Read:
    for name in (features, *wanted.values()):
        if name is not None:
            raise ValueError(
                f"Got {name!r}, but {str(path)!r} is one array and has no columns. Give the labels "
                "in a second file, with --labels."
            )
    return read_npy(path), [], {}


def _read_npz(path: Path, features: Any, wanted: dict[str, str | None]) -> Read:
    vectors = "X" if features is None else str(features)
    roles = {role: name for role, name in wanted.items() if name is not None}
    arrays = read_npz(path, [vectors, *roles.values()])
    return arrays[vectors], [vectors], {role: arrays[name] for role, name in roles.items()}


def _read_arrow(path: Path, features: Any, wanted: dict[str, str | None]) -> Read:
    file = open_arrow(path)
    roles = {role: name for role, name in wanted.items() if name is not None}
    for name in roles.values():
        if name not in file.schema.names:
            raise missing(name, file.schema.names, str(path))
    if file.n_rows == 0:
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.")
    kinds = column_kinds(file.schema)
    used = choose_features(features, kinds, taken=roles.values(), where=str(path))
    table = file.read([*used, *roles.values()])
    X = matrix(table, used, where=str(path))
    return X, used, {role: _column(table, name, path) for role, name in roles.items()}


_READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_arrow,
    ".parquet": _read_arrow,
}


# -- a second file with labels -------------------------------------------------------------------


def _labels(path: Path, wanted: dict[str, str | None]) -> dict[str, NDArray[Any]]:
    """The labels of a second file, by role: at least the concept."""
    suffix = file_format(path, (*FORMATS, ".txt"))
    if suffix == ".txt":
        return {"z": _text_labels(np.array(read_lines(path), dtype=object))}
    if suffix == ".npy":
        return {"z": np.asarray(read_npy(path))}
    if suffix == ".npz":
        names = npz_names(path)
        take = lambda name: read_npz(path, [name])[name]  # noqa: E731
    else:
        file = open_arrow(path)
        names = file.schema.names
        take = lambda name: _column(file.read([name]), name, path)  # noqa: E731
    concept = wanted["z"] or _only(names, path)
    if concept not in names:
        raise missing(concept, names, str(path))
    others = {role: n for role, n in wanted.items() if role != "z" and n in names}
    return {role: take(name) for role, name in ({"z": concept} | others).items()}


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, without their ends."""
    try:
        with path.open(encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _column(table: Any, name: str, path: Path) -> NDArray[Any]:
    column = values(table.column(name))
    return _text_labels(column) if path.suffix.lower() == ".csv" else column


def _text_labels(labels: NDArray[Any]) -> NDArray[Any]:
    # Text has no other way to say that a label is missing, and no class is called "".
    if labels.dtype.kind == "O":
        labels = np.where(labels == "", None, labels)  # type: ignore[call-overload]
    return labels


def _only(names: list[str], path: Path) -> str:
    if len(names) != 1:
        raise ValueError(
            f"Got labels in {str(path)!r} with {len(names)} columns ({', '.join(names[:12])}), but "
            "no concept. Say which one with --concept."
        )
    return names[0]


def _check_length(column: NDArray[Any], n_rows: int, name: str, where: Any) -> None:
    if len(column) != n_rows:
        raise ValueError(
            f"Got {len(column)} labels in {name} of {str(where)!r} for {n_rows} rows of X, but "
            "expected one label for each row."
        )
