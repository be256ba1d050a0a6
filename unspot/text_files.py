"""Files of texts, and files of texts with their vectors."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrow import require_pyarrow
from unspot.io.columns import missing
from unspot.io.parquet import unreadable
from unspot.io.writing import finished_file

__all__ = ["TextTable", "read_texts", "write_embeddings"]

IN = (".csv", ".tsv", ".parquet", ".txt", ".pickle", ".pkl")
OUT = (".npy", ".parquet")


@dataclass(frozen=True, eq=False)
class TextTable:
    """Texts of a file, and all its columns where it has any."""

    texts: list[Any]
    columns: Any = None  # a pyarrow.Table, or a list of dicts, or None

    def arrow(self) -> Any:
        """All columns as a ``pyarrow.Table``."""
        pa = require_pyarrow("Parquet files")
        if self.columns is None:
            return pa.table({"text": self.texts})
        if isinstance(self.columns, list):
            return _records_table(self.columns)
        return self.columns


def read_texts(path: Path, column: str | None = None) -> TextTable:
    """Read texts.

    Parameters
    ----------
    path : path
        ``.csv``, ``.tsv`` or ``.parquet``; ``.txt`` with one text a line; ``.pickle`` with a list
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
    texts = table.column(_chosen(column, table.column_names, path))
    return TextTable(texts.to_pylist(), table)


def write_embeddings(path: Path, X: NDArray[Any], table: TextTable, *, column: str) -> None:
    """Write vectors: ``.npy`` the array alone, ``.parquet`` all columns and one of vectors.

    The file appears under its name only when it is complete.
    """
    check_output(path)
    if path.suffix.lower() == ".npy":
        with finished_file(path) as file:
            np.save(file, X)
        return
    content = table.arrow().append_column(column, _vector_column(X))
    from pyarrow import parquet

    with finished_file(path) as file:
        parquet.write_table(content, file)


def check_output(path: Path) -> None:
    """An error if the ending of an output file is not one that is written."""
    if path.suffix.lower() not in OUT:
        raise ValueError(
            f"Got output {str(path)!r}, but expected a name that ends in {' or '.join(OUT)}."
        )


def check_column(table: TextTable, column: str, path: Path) -> None:
    """An error if the table has a column of that name already."""
    if column in table.arrow().column_names:
        raise ValueError(
            f"Got a column {column!r} in {str(path)!r} already. Give the vectors another name "
            "with --column."
        )


def _vector_column(X: NDArray[Any]) -> Any:
    pa = require_pyarrow("Parquet files")
    return pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])


def _chosen(column: str | None, names: Sequence[str], path: Path) -> str:
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        raise ValueError(
            f"Got {str(path)!r} with columns {', '.join(names[:12])}. Say which one holds the "
            "texts with --text."
        )
    if column not in names:
        raise missing(column, names, str(path))
    return column


def _read_lines(path: Path, column: str | None) -> TextTable:
    if column is not None:
        raise ValueError(
            f"Got --text {column}, but {str(path)!r} has one text a line and no columns. Leave "
            "--text out."
        )
    # splitlines would also break texts at characters such as U+2028.
    lines = path.read_bytes().removeprefix(BOM_UTF8).removesuffix(b"\n").split(b"\n")
    try:
        return TextTable([line.removesuffix(b"\r").decode("utf-8") for line in lines])
    except UnicodeDecodeError as error:
        raise ValueError(f"Got {str(path)!r}, which is not UTF-8 text ({error}).") from None


def _read_pickle(path: Path, column: str | None) -> TextTable:
    from unspot.datasets.bios import read_records

    records = read_records(path)
    chosen = _chosen(column, _keys(records), path)
    return TextTable([record.get(chosen) for record in records], records)


def _keys(records: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(key) for record in records for key in record))


def _records_table(records: list[dict[str, Any]]) -> Any:
    pa = require_pyarrow("Parquet files")
    try:
        return pa.table({name: [record.get(name) for record in records] for name in _keys(records)})
    except pa.ArrowException as error:
        raise ValueError(
            f"Got dicts that make no table ({error}). Write the vectors alone: -o NAME.npy."
        ) from None


def _read_csv(path: Path, column: str | None) -> Any:
    pa = require_pyarrow()
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
    pa = require_pyarrow()
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
