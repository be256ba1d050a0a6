"""Files of texts, and files of the vectors that a model makes of them."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import require
from unspot.io.arrow import unreadable
from unspot.io.columns import missing
from unspot.io.files import finished_file

__all__ = ["TextTable", "check_column", "check_output", "read_texts", "write_embeddings"]

IN = (".csv", ".tsv", ".parquet", ".txt", ".pickle", ".pkl")
OUT = (".npy", ".parquet")


@dataclass(frozen=True, eq=False)
class TextTable:
    """The texts of a file, and all its columns."""

    texts: list[Any]
    columns: Any = None  # a pyarrow.Table, or lists by name; None if there are only texts

    def arrow(self) -> Any:
        """All columns as a ``pyarrow.Table``."""
        pa = _pyarrow()
        columns = {"text": self.texts} if self.columns is None else self.columns
        if not isinstance(columns, dict):
            return columns
        try:
            return pa.table(columns)
        except pa.ArrowException as error:
            raise ValueError(
                f"Got dicts that make no table ({error}), but expected values of one type per "
                "key. Write only the vectors: -o NAME.npy."
            ) from None


def read_texts(path: Path, column: str | None = None) -> TextTable:
    """Read texts.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` or ``.parquet``; ``.txt`` with one text per line; ``.pickle`` with a list
        of dicts, such as the splits of Bias in Bios (read without running what is in it).
    column : str, optional
        The column, or the dicts' key, that holds the texts. Not for ``.txt``, and needed elsewhere
        unless there is one column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "bios.txt"
    >>> _ = path.write_text("She is a nurse.\\nHe is a poet.\\n")
    >>> read_texts(path).texts
    ['She is a nurse.', 'He is a poet.']
    """
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    suffix = path.suffix.lower()
    if suffix not in IN:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(IN)}. Convert it, or "
            "give it the right ending."
        )
    if suffix == ".txt":
        return _read_lines(path, column)
    if suffix in (".pickle", ".pkl"):
        return _read_pickle(path, column)
    table = _read_csv(path, column) if suffix in (".csv", ".tsv") else _read_parquet(path)
    return TextTable(table.column(_chosen(column, table.column_names, path)).to_pylist(), table)


def write_embeddings(path: Path, X: NDArray[Any], table: TextTable, *, column: str) -> None:
    """Write vectors: to ``.npy`` only the array, to ``.parquet`` all columns and the vectors.

    The file appears under its name only when it is complete.
    """
    check_output(path)
    if path.suffix.lower() == ".npy":
        with finished_file(path) as file:
            np.save(file, X)
        return
    pa = _pyarrow()
    from pyarrow import parquet

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    with finished_file(path) as file:
        parquet.write_table(table.arrow().append_column(column, vectors), file)


def check_output(path: Path) -> None:
    """Refuse an output file whose ending is not that of a format that is written."""
    if path.suffix.lower() not in OUT:
        raise ValueError(
            f"Got output {str(path)!r}, but expected a name that ends in {' or '.join(OUT)}."
        )


def check_column(table: TextTable, column: str, path: Path) -> None:
    """Refuse a name for the vectors that a column of the table has already."""
    if column in table.arrow().column_names:
        raise ValueError(
            f"Got a column {column!r} in {str(path)!r} already, but expected a new name. Give the "
            "vectors another name with --column."
        )


def _chosen(column: str | None, names: Sequence[str], path: Path) -> str:
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise ValueError(
            f"Got {str(path)!r} with columns {', '.join(names[:12])}, but no name of the column "
            "with the texts. Say which one it is with --text."
        )
    if column not in names:
        raise missing(column, names, str(path))
    return column


def _read_lines(path: Path, column: str | None) -> TextTable:
    if column is not None:
        raise ValueError(
            f"Got --text {column}, but {str(path)!r} has one text per line and no columns. Leave "
            "--text out."
        )
    # splitlines would also break texts at characters such as U+2028.
    lines = path.read_bytes().removeprefix(BOM_UTF8).removesuffix(b"\n").split(b"\n")
    try:
        return TextTable([line.removesuffix(b"\r").decode("utf-8") for line in lines])
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _read_pickle(path: Path, column: str | None) -> TextTable:
    records = import_module("unspot.lab.bios").read_records(path)
    names = dict.fromkeys(str(key) for record in records for key in record)
    columns = {name: [record.get(name) for record in records] for name in names}
    return TextTable(columns[_chosen(column, list(names), path)], columns)


def _read_csv(path: Path, column: str | None) -> Any:
    pa = _pyarrow()
    from pyarrow import csv

    try:
        return csv.read_csv(
            path,
            # Texts may hold line breaks, which the parallel reader would take for the end of a row.
            parse_options=csv.ParseOptions(
                delimiter="\t" if path.suffix.lower() == ".tsv" else ",", newlines_in_values=True
            ),
            # A text may be "1984": it stays text.
            convert_options=csv.ConvertOptions(
                column_types={column: pa.string()} if column else None
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error, "CSV") from None


def _read_parquet(path: Path) -> Any:
    pa = _pyarrow()
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def _pyarrow() -> Any:
    require("A table of texts", "io", "pyarrow")
    import pyarrow

    return pyarrow
