"""CSV and Parquet files as Arrow tables, with errors that name the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unspot.io.arrow import require_pyarrow
from unspot.io.parquet import open_parquet, parquet_parts, read_part, unreadable

__all__ = ["ArrowFile", "open_arrow", "parse_options", "unreadable_csv"]


class ArrowFile(NamedTuple):
    """A schema that is known, and columns that are read when asked for."""

    schema: Any
    n_rows: int
    read: Callable[[Sequence[str]], Any]


def open_arrow(path: Path) -> ArrowFile:
    """A CSV file, a Parquet file or a folder of Parquet files.

    Parquet costs the footer until columns are read; CSV is parsed whole to learn its types.
    """
    return _open_csv(path) if path.suffix.lower() == ".csv" else _open_parquet(path)


def _open_csv(path: Path) -> ArrowFile:
    pa = require_pyarrow()
    from pyarrow import csv

    try:
        table = csv.read_csv(path, parse_options=parse_options())
    except (pa.ArrowException, OSError) as error:
        raise unreadable_csv(path, error) from None
    return ArrowFile(table.schema, len(table), lambda columns: table.select(_distinct(columns)))


def parse_options() -> Any:
    """How CSV is parsed: texts may have lines in them, wherever a block of the file ends."""
    from pyarrow import csv

    return csv.ParseOptions(newlines_in_values=True)


def unreadable_csv(path: Path, error: Exception) -> ValueError:
    """The error for a file that is not CSV, or is empty."""
    if path.stat().st_size == 0:
        return ValueError(f"Got an empty table: {str(path)!r} has no rows, not even a header.")
    return unreadable(path, error, "CSV")


def _open_parquet(path: Path) -> ArrowFile:
    pa = require_pyarrow()
    parts = parquet_parts([path])

    def read(columns: Sequence[str]) -> Any:
        tables = [read_part(part, _distinct(columns)) for part in parts]
        try:  # integers among fractions, doubles among singles, are taken for these
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(
                f"Got {str(path)!r}, whose parts do not agree in the types of their columns "
                f"({str(error).splitlines()[0]}). Write them with one schema."
            ) from None

    n_rows = sum(open_parquet(part).metadata.num_rows for part in parts)
    return ArrowFile(open_parquet(parts[0]).schema_arrow, n_rows, read)


def _distinct(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(columns))
