"""A table of embeddings and labels, read from one file or two."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.columns import missing_values, uncast
from unspot.io.columns import FLOAT, OTHER, VECTOR, check_matrix, column_kinds, values
from unspot.io.files import (
    FORMATS,
    csv_texts,
    file_format,
    file_schema,
    is_text,
    missing,
    npz_names,
    parquet_parts,
    read_npy,
    read_npz,
    read_parquet,
)
from unspot.io.progress import phase
from unspot.io.sources import (
    RowSource,
    SomeRows,
    as_source,
    loaded_if_small,
    no_columns,
    open_vectors,
)

#: The role of the column by which labels find their rows.
_KEY = "key"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file: embeddings, and the labels that were asked for."""

    X: Any  # (n, d): an array, or a ``RowSource`` that stays on disk
    z: Any = None  # (n,), the concept; of several, a dict of such arrays
    y: NDArray[Any] | None = None  # (n,), the downstream task
    groups: NDArray[Any] | None = None  # (n,), the group of each row
    features: tuple[str, ...] = ()  # the columns or the array that X came from
    dropped: str = ""  # a sentence about rows left out for want of a label

    def __len__(self) -> int:
        return int(self.X.shape[0])


def read_table(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    concept: str | None = None,
    task: str | None = None,
    groups: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
    key: str | None = None,
    beside: Sequence[str] = (),
    drop_missing: bool = False,
    on_disk: bool = False,
) -> Table:
    """Read embeddings and labels.

    Parameters
    ----------
    path : path
        ``.npy``, ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` (a file or a folder of them).
    features : str or list of str, optional
        Location of the vectors: an array of the ``.npz`` ("X" by default), a vector
        column, a pattern of columns ("e_*") or a comma list. By default the only vector column,
        or else all columns of fractional numbers.
    concept, task, groups : str, optional
        Columns, or arrays of the ``.npz``. Several concepts are a comma list.
    labels_file : path, optional
        A second file with the labels: ``.txt`` (one label per line), ``.npy``, ``.npz``, ``.csv``,
        ``.tsv`` or ``.parquet``. ``concept`` may be left out if it has one column besides the key.
    key : str, optional
        A column of both files, by which labels find their rows. Without it, labels are taken row by
        row. Rows without a partner have no label.
    beside : sequence of str
        Columns to read into ``z`` besides the concept, which may have gaps.
    drop_missing : bool
        Leave out rows that lack one of the labels. ``dropped`` of the table says how many.
    on_disk : bool
        Leave large vectors of Parquet files on disk, as a ``RowSource``, which the ``fit`` of every
        eraser takes.

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
    roles = {"z": concept, "y": task, "groups": groups}
    columns = {**roles, "z": ",".join(filter(None, [concept, *beside])) or None}
    table = _read(path, features, columns, labels_file, key)
    table = without_missing(table, roles) if drop_missing else table
    if not isinstance(table.X, RowSource):
        return table
    return replace(table, X=loaded_if_small(table.X) if on_disk else table.X.load())


def _read(
    path: Path,
    features: str | Sequence[str] | None,
    roles: Mapping[str, str | None],
    labels_file: str | os.PathLike[str] | None,
    key: str | None,
) -> Table:
    """Open the vectors of a file, and read the labels of both files."""
    if key is not None and labels_file is None:
        raise ValueError(
            f"Got key {key!r} without a second file, but expected the file with the labels that "
            "the key belongs to. Give it with --labels."
        )
    concepts = _concept_names(roles.get("z"), Path(labels_file or path))
    more = {f"concept {name}": name for name in concepts[1:]}  # no other role is named so
    roles = {**roles, **more, **({"z": concepts[0]} if more else {})}
    labels = {} if labels_file is None else read_labels(Path(labels_file), roles, key)
    wanted = {role: name for role, name in roles.items() if name is not None and role not in labels}
    wanted |= {} if key is None else {_KEY: key}
    with phase("Reading", note=path.name):
        columns = _read_columns(path, wanted)
        X, used = open_vectors(path, features, list(wanted.values()))
    if isinstance(X, np.ndarray):
        check_matrix(X, str(path))
    if labels_file is not None and key is not None:
        labels = joined(labels, columns.pop(_KEY), str(labels_file), str(path))
    elif labels_file is not None:
        refuse_other_order(path, Path(labels_file), taken=[*used, *roles.values()])
    by_role: dict[str, Any] = {**labels, **columns}
    n_rows = int(X.shape[0])
    for role, column in by_role.items():
        if len(column) != n_rows:
            raise ValueError(
                f"Got {len(column)} labels in {roles[role] or role} of "
                f"{str(labels_file or path)!r} for {n_rows} rows of X, but expected one label per "
                "row. If a column of both files says which label belongs to which row, name it "
                "with --set key=NAME."
            )
    if more:
        others = {name: by_role.pop(role) for role, name in more.items()}
        by_role["z"] = {concepts[0]: by_role["z"], **others}
    return Table(X, **by_role, features=tuple(used))


def _concept_names(concept: str | None, path: Path) -> list[str]:
    """Split a comma list of concepts, unless one column has that name."""
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


# -- Labels in a file of their own, row by row -----------------------------------------------------


def read_labels(
    path: Path, wanted: Mapping[str, str | None], key: str | None = None
) -> dict[str, NDArray[Any]]:
    """Read the labels of a file, by role: at least the concept, which is called "z".

    Parameters
    ----------
    path : Path
        ``.txt`` (one label per line), ``.npy``, ``.npz``, ``.csv``, ``.tsv`` or ``.parquet``.
    wanted : mapping
        The column or array of each role. That of the concept may be None if there is only one;
        other roles are left out if the file has no such column.
    key : str, optional
        A column that says which row a label belongs to. It is read too, and called "key".

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "z.txt"
    >>> _ = path.write_text("f\\nm\\n")
    >>> read_labels(path, {"z": None})["z"].tolist()
    ['f', 'm']
    """
    suffix = file_format(path, (*FORMATS, ".txt"))
    if suffix in (".txt", ".npy"):
        if key is not None:
            raise ValueError(
                f"Got key {key!r}, but {str(path)!r} has no columns. Leave the key out if its "
                "labels are in the order of the rows, or give a table with a column of keys."
            )
        return {"z": _lines(path) if suffix == ".txt" else np.asarray(read_npy(path))}
    names = _kinds(path)
    if key is not None and key not in names:
        raise missing(key, names, str(path))
    others = {role: name for role, name in wanted.items() if name in names}
    concept = wanted["z"] or _only([name for name in names if name != key], path)
    return _read_columns(path, {**others, "z": concept, **({} if key is None else {_KEY: key})})


def _kinds(path: Path) -> dict[str, str]:
    """List the columns or arrays of a file, with the kinds of columns."""
    suffix = file_format(path, (*FORMATS, ".txt"))
    if suffix in (".txt", ".npy"):
        return {}
    if suffix == ".npz":
        return dict.fromkeys(npz_names(path), OTHER)
    return column_kinds(file_schema(path))


def has_column(path: Path, name: str) -> bool:
    """Check a file of labels for a column or array of a name."""
    return name in _kinds(path)


def _read_columns(path: Path, roles: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Read columns or arrays of labels, by role."""
    names, suffix = list(roles.values()), file_format(path)
    if not names:
        return {}
    if suffix == ".npy":
        raise no_columns(names[0], path)
    if suffix == ".npz":
        columns = read_npz(path, names)
    elif is_text(path):
        columns = {name: from_texts(texts) for name, texts in csv_texts(path, names).items()}
    else:
        table = read_parquet(parquet_parts([path]), names)
        columns = {name: values(table[name]) for name in names}
    return {role: columns[name] for role, name in roles.items()}


#: A number as programs write it: "007" is a name, as is "+1".
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
#: Texts that stand for a missing number.
_MISSING = frozenset(["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "None"])


def from_texts(texts: Sequence[str]) -> NDArray[Any]:
    """Convert labels of a text table to numbers, if nothing is lost by it; "" is missing.

    "01" and "1", or "1.0" and "1", are two classes. They stay texts, and so do all labels of their
    column.

    Examples
    --------
    >>> from_texts(["1", "2", ""]).tolist(), from_texts(["01", "1", ""]).tolist()
    ([1, 2, None], ['01', '1', None])
    """
    known = {text for text in texts if text not in _MISSING}
    if not known or not all(map(_NUMBER.fullmatch, known)):
        return np.array([text or None for text in texts], dtype=object)
    kind = int if all(text.lstrip("-").isdigit() for text in known) else float
    numbers = {text: kind(text) for text in known}
    is_whole = all(number == int(number) for number in numbers.values() if np.isfinite(number))
    if is_whole and len(set(numbers.values())) < len(numbers):
        return np.array([text or None for text in texts], dtype=object)
    values = [numbers.get(text) for text in texts]
    return np.array(values, dtype=object if None in values else None)


def _lines(path: Path) -> NDArray[Any]:
    """Read one label per line; an empty line is a missing label."""
    try:
        with path.open(encoding="utf-8-sig") as file:  # a byte order mark is not a letter
            return np.array([line.rstrip("\n") or None for line in file], dtype=object)
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _only(names: list[str], path: Path) -> str:
    if len(names) != 1:
        raise ValueError(
            f"Got labels in {str(path)!r} with {len(names)} columns ({', '.join(names[:12])}), but "
            "no concept. Say which one with --concept."
        )
    return names[0]


# -- Which label belongs to which row --------------------------------------------------------------


def joined(
    labels: Mapping[str, NDArray[Any]], keys: NDArray[Any], labels_file: str, path: str
) -> dict[str, NDArray[Any]]:
    """Sort labels by the rows' keys; None where the second file does not have the key.

    Parameters
    ----------
    labels : mapping of str to array
        Labels by role, with the keys of the second file as the role "key".
    keys : array of shape (n,)
        The keys of the rows.
    labels_file, path : str
        The names of the two files, for messages.

    Examples
    --------
    >>> labels = {"z": np.array(["f", "m"]), "key": np.array([8, 7])}
    >>> joined(labels, np.array([7, 8, 9]), "labels.csv", "rows.npz")["z"].tolist()
    ['m', 'f', None]
    """
    theirs, mine = _comparable(labels[_KEY], keys)
    place: dict[Any, int] = {}
    for row, value in enumerate(theirs):
        if value is not None and place.setdefault(value, row) != row:
            raise ValueError(
                f"Got the key {value!r} twice in {labels_file!r} (rows {place[value]} and {row}), "
                "but expected one row of labels for each key. Drop one of them."
            )
    rows = np.array([-1 if key is None else place.get(key, -1) for key in mine])
    if not (rows >= 0).any():
        raise ValueError(
            f"Got no key of {path!r} in {labels_file!r}: there is {_example(mine)} in the first, "
            f"{_example(theirs)} in the second. Name a column by which they belong together."
        )
    return {role: _taken(column, rows) for role, column in labels.items() if role != _KEY}


def _comparable(*keys: NDArray[Any]) -> list[list[Any]]:
    """Make keys of two files comparable: as text if only one of them has numbers."""
    as_text = len({column.dtype.kind in "iuf" for column in keys}) > 1
    lists = []
    for column in keys:
        gaps = missing_values(uncast(column)).tolist()
        known = map(str, column.tolist()) if as_text else column.tolist()
        lists.append([None if gap else key for key, gap in zip(known, gaps, strict=True)])
    return lists


def _example(keys: list[Any]) -> str:
    return repr(next((key for key in keys if key is not None), None))


def _taken(column: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    taken = column[rows]
    if (rows >= 0).all():
        return taken
    return np.where(rows >= 0, taken.astype(object), None)  # type: ignore[call-overload]


def refuse_other_order(path: Path, labels_file: Path, *, taken: Iterable[str | None]) -> None:
    """Raise an error if a column of both files shows that their rows are in another order.

    Columns that name each row once are compared, but those that are taken as vectors or labels.
    """
    free = _names_of_rows(path) - set(taken)
    for name in sorted(free & _names_of_rows(labels_file)) if free else ():
        files = (path, labels_file)
        ids, others = _comparable(*(_read_columns(file, {_KEY: name})[_KEY] for file in files))
        if len(set(others)) == len(others) and ids != others:
            pairs = enumerate(zip(ids, others, strict=False))
            row = next((row for row, (a, b) in pairs if a != b), None)
            where = "" if row is None else f" (row {row}: {ids[row]!r} and {others[row]!r})"
            raise ValueError(
                f"Got {str(labels_file)!r} in another order than {str(path)!r}: their columns "
                f"{name!r} differ{where}, so that labels would go to other rows. Join the files "
                f"by it, with --set key={name}."
            )


def _names_of_rows(path: Path) -> set[str]:
    """List the columns that could name the rows: texts and whole numbers."""
    return {name for name, kind in _kinds(path).items() if kind not in (FLOAT, VECTOR)}


# -- Rows without a label --------------------------------------------------------------------------


def without_missing(table: Table, roles: Mapping[str, str | None]) -> Table:
    """Drop rows that lack a label; ``dropped`` says in words how many, and X stays where it is.

    Parameters
    ----------
    table : Table
    roles : mapping
        The name of the column of each role, for the words.

    Examples
    --------
    >>> table = Table(np.zeros((3, 2)), z=np.array(["f", None, "m"]))
    >>> kept = without_missing(table, {"z": "gender"})
    >>> len(kept), kept.dropped
    (2, "Left out 1 of 3 rows: 1 has no label in 'gender'.")
    """
    columns = {role: getattr(table, role) for role in ("z", "y", "groups")}
    if isinstance(table.z, dict):  # one concept with covariates, or several
        # A table of several concepts may lack some: such rows serve the others.
        columns["z"] = table.z.get(roles.get("z"))
    columns = {role: column for role, column in columns.items() if column is not None}
    gaps = {role: missing_values(uncast(column)) for role, column in columns.items()}
    lacking = np.zeros(len(table), dtype=bool)
    for gap in gaps.values():
        lacking |= gap
    if not lacking.any():
        return table
    if lacking.all():
        raise ValueError(
            f"Got no row with a label: all {len(table):,} lack one. Are these the right columns?"
        )
    rows = np.flatnonzero(~lacking)
    labels: dict[str, Any] = {role: _plain(column[rows]) for role, column in columns.items()}
    if isinstance(table.z, dict):
        labels["z"] = {name: np.asarray(column)[rows] for name, column in table.z.items()}
    counts = {roles.get(role) or role: int(gap.sum()) for role, gap in gaps.items() if gap.any()}
    reasons = " and ".join(
        f"{count:,} {'has' if count == 1 else 'have'} no label in {name!r}"
        for name, count in counts.items()
    )
    dropped = f"Left out {int(lacking.sum()):,} of {len(table):,} rows: {reasons}."
    return replace(table, X=SomeRows(as_source(table.X), rows), **labels, dropped=dropped)


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    """Convert objects to numbers if they were objects only because some were missing."""
    if column.dtype.kind != "O" or {type(value) for value in column.tolist()} - {int, float, bool}:
        return column
    return np.array(column.tolist())
