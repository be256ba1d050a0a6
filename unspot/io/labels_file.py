"""Labels that are in a file of their own, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrays import npz_names, read_npy, read_npz
from unspot.io.arrow import values
from unspot.io.arrow_files import open_arrow
from unspot.io.columns import missing
from unspot.io.formats import FORMATS, file_format

__all__ = ["has_column", "label_column", "read_labels"]


def read_labels(path: Path, wanted: Mapping[str, str | None]) -> dict[str, NDArray[Any]]:
    """The labels of a file, by role: at least the concept, which is called "z".

    Parameters
    ----------
    path : Path
        ``.txt`` (one label a line), ``.npy``, ``.npz``, ``.csv`` or ``.parquet``.
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
        return {"z": _text(np.array(_lines(path), dtype=object))}
    if suffix == ".npy":
        return {"z": np.asarray(read_npy(path))}
    names, take = _columns(path, suffix)
    concept = wanted["z"] or _only(names, path)
    if concept not in names:
        raise missing(concept, names, str(path))
    others = {role: n for role, n in wanted.items() if role != "z" and n in names}
    return {role: take(str(name)) for role, name in ({"z": concept} | others).items()}


def has_column(path: Path, name: str) -> bool:
    """Whether a file of labels has a column or array of a name."""
    suffix = file_format(path, (*FORMATS, ".txt"))
    return suffix not in (".txt", ".npy") and name in _columns(path, suffix)[0]


def label_column(table: Any, name: str, path: Path) -> NDArray[Any]:
    """A column of labels of an Arrow table that was read from ``path``."""
    column = values(table.column(name))
    return _text(column) if path.suffix.lower() == ".csv" else column


def _columns(path: Path, suffix: str) -> tuple[list[str], Callable[[str], NDArray[Any]]]:
    if suffix == ".npz":
        return npz_names(path), lambda name: read_npz(path, [name])[name]
    file = open_arrow(path)
    return file.schema.names, lambda name: label_column(file.read([name]), name, path)


def _lines(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:  # a mark at its beginning is no letter
            return [line.rstrip("\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _text(labels: NDArray[Any]) -> NDArray[Any]:
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
