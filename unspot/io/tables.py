"""A table of embeddings and labels, read from one file or two."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrays import npz_names, read_npy, read_npz
from unspot.io.arrow import column_kinds, first_text, matrix, open_arrow, values
from unspot.io.columns import check_matrix, choose_features, missing
from unspot.io.files import FORMATS, file_format

__all__ = ["READERS", "Table", "has_column", "read_labels", "read_table", "read_with"]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file: embeddings, and the labels that were asked for."""

    X: Any  # (n, d): an array; from ``open_table`` perhaps a ``RowSource``
    z: Any = None  # (n,), the concept; of several, a dict of such arrays
    y: NDArray[Any] | None = None  # (n,), the downstream task
    names: NDArray[Any] | None = None  # (n,), the name of each row
    groups: NDArray[Any] | None = None  # (n,), what rows come in
    features: tuple[str, ...] = ()  # the columns or the array that X came from

    def __len__(self) -> int:
        return int(self.X.shape[0])


def read_table(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    concept: str | None = None,
    task: str | None = None,
    names: str | None = None,
    groups: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
) -> Table:
    """Read embeddings and labels.

    Parameters
    ----------
    path : path
        ``.npy``, ``.npz``, ``.csv`` or ``.parquet`` (a file or a folder of them).
    features : str or list of str, optional
        What holds the vectors: an array of the ``.npz`` ("X" by default), a vector
        column, a pattern of columns ("e_*") or a comma list. By default the only vector column,
        or else all columns of fractional numbers.
    concept, task, names, groups : str, optional
        Columns, or arrays of the ``.npz``. Several concepts are a comma list.
    labels_file : path, optional
        A second file with the labels, row by row: ``.txt`` (one label per line), ``.npy``,
        ``.npz``, ``.csv`` or ``.parquet``. ``concept`` may be left out if it has one column.

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
    roles = {"z": concept, "y": task, "names": names, "groups": groups}
    return read_with(READERS[file_format(path)], path, features, roles, labels_file)


def read_with(
    reader: Reader,
    path: Path,
    features: str | Sequence[str] | None,
    roles: Mapping[str, str | None],
    labels_file: str | os.PathLike[str] | None,
) -> Table:
    """A table whose X, and whose labels that are not in the second file, ``reader`` reads."""
    concepts = _concept_names(roles.get("z"), Path(labels_file or path))
    more = {_role_of(name): name for name in concepts[1:]}
    roles = {**roles, **more, **({"z": concepts[0]} if more else {})}
    columns = {} if labels_file is None else read_labels(Path(labels_file), roles)
    remaining = {
        role: name for role, name in roles.items() if name is not None and role not in columns
    }
    X, used, more_columns = reader(path, features, remaining)
    if isinstance(X, np.ndarray):
        check_matrix(X, str(path))
    n_rows = int(X.shape[0])
    for role, column in {**columns, **more_columns}.items():
        if len(column) != n_rows:
            raise ValueError(
                f"Got {len(column)} labels in {roles[role] or role} of "
                f"{str(labels_file or path)!r} for {n_rows} rows of X, but expected one label per "
                "row."
            )
    found: dict[str, Any] = {**columns, **more_columns}
    if more:
        others = {name: found.pop(role) for role, name in more.items()}
        found["z"] = {concepts[0]: found["z"], **others}
    return Table(X, **found, features=tuple(used))


def _concept_names(concept: str | None, path: Path) -> list[str]:
    """The names of several concepts in a comma list; of one, or of a name with a comma, that."""
    names = [name.strip() for name in (concept or "").split(",")]
    if concept is None or len(names) == 1 or has_column(path, concept):
        return [] if concept is None else [concept]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not all(names):
        raise ValueError(
            f"Got the concepts {concept!r}, but expected different names between the commas, such "
            "as gender,age."
        )
    return names


def _role_of(concept: str) -> str:
    """Of one of several concepts: no other role has such a name."""
    return f"concept {concept}"


# -- One reader per format: X, the names it came from, and the labels by role ----------------------

Read = tuple[Any, list[str], dict[str, NDArray[Any]]]
Reader = Callable[[Path, Any, dict[str, str]], Read]


def _read_npy(path: Path, features: Any, roles: dict[str, str]) -> Read:
    for name in (features, *roles.values()):
        if name is not None:
            raise ValueError(
                f"Got {name!r}, but {str(path)!r} is one array and has no columns. Give the labels "
                "in a second file, with --labels."
            )
    return read_npy(path), [], {}


def _read_npz(path: Path, features: Any, roles: dict[str, str]) -> Read:
    vectors = "X" if features is None else str(features)
    arrays = read_npz(path, [vectors, *roles.values()])
    return arrays[vectors], [vectors], {role: arrays[name] for role, name in roles.items()}


def _read_arrow(path: Path, features: Any, roles: dict[str, str]) -> Read:
    file = open_arrow(path)
    for name in roles.values():
        if name not in file.schema.names:
            raise missing(name, file.schema.names, str(path))
    if not file.has_rows:
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.")
    used = choose_features(
        features,
        column_kinds(file.schema),
        taken=roles.values(),
        where=str(path),
        first_text=lambda name: first_text(file.read([name])[name]),
    )
    table = file.read([*used, *roles.values()])
    labels = _labels(table, roles.values(), path)
    X = matrix(table, used, where=str(path))
    return X, used, {role: labels[name] for role, name in roles.items()}


READERS: dict[str, Reader] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_arrow,
    ".parquet": _read_arrow,
}


# -- Labels in a file of their own, row by row -----------------------------------------------------


def read_labels(path: Path, wanted: Mapping[str, str | None]) -> dict[str, NDArray[Any]]:
    """The labels of a file, by role: at least the concept, which is called "z".

    Parameters
    ----------
    path : Path
        ``.txt`` (one label per line), ``.npy``, ``.npz``, ``.csv`` or ``.parquet``.
    wanted : mapping
        The column or array of each role. That of the concept may be None if there is only one;
        other roles are left out if the file has no such column.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "z.txt"
    >>> _ = path.write_text("f\\nm\\n")
    >>> read_labels(path, {"z": None})["z"].tolist()
    ['f', 'm']
    """
    suffix = file_format(path, (*FORMATS, ".txt"))
    if suffix == ".txt":
        return {"z": _without_empty(np.array(_lines(path), dtype=object))}
    if suffix == ".npy":
        return {"z": np.asarray(read_npy(path))}
    names, read = _columns(path, suffix)
    concept = wanted["z"] or _only(names, path)
    if concept not in names:
        raise missing(concept, names, str(path))
    others = {role: name for role, name in wanted.items() if role != "z" and name in names}
    roles = {"z": concept, **others}
    columns = read(list(roles.values()))
    return {role: columns[name] for role, name in roles.items()}


def has_column(path: Path, name: str) -> bool:
    """Whether a file of labels has a column or array of a name."""
    suffix = file_format(path, (*FORMATS, ".txt"))
    return suffix not in (".txt", ".npy") and name in _columns(path, suffix)[0]


def _columns(
    path: Path, suffix: str
) -> tuple[list[str], Callable[[list[str]], dict[str, NDArray[Any]]]]:
    """The names of the columns or arrays of a file, and a function that reads some of them."""
    if suffix == ".npz":
        return npz_names(path), partial(read_npz, path)
    file = open_arrow(path)
    return file.schema.names, lambda names: _labels(file.read(names), names, path)


def _labels(table: Any, names: Iterable[str], path: Path) -> dict[str, NDArray[Any]]:
    """Columns of labels of an Arrow table that was read from ``path``."""
    columns = {name: values(table.column(name)) for name in names}
    if path.suffix.lower() == ".csv":
        return {name: _without_empty(column) for name, column in columns.items()}
    return columns


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:  # a byte order mark is not a letter
            return [line.rstrip("\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _without_empty(labels: NDArray[Any]) -> NDArray[Any]:
    """Text has no other way to say that a label is missing, and no class is called ""."""
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
