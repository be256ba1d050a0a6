"""Arrow columns as matrices, and CSV and Parquet files as Arrow tables.

Vectors are columns of list, large_list or fixed_size_list, or many columns of numbers. Errors name
the file.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import require
from unspot.io.columns import FLOAT, INTEGER, OTHER, VECTOR
from unspot.io.files import is_hidden

if TYPE_CHECKING:
    import pyarrow as pa


def require_pyarrow(what: str = "Reading a CSV or Parquet file") -> Any:
    """Import pyarrow, or raise an error with the command that installs it."""
    require(what, "io", "pyarrow")
    import pyarrow

    return pyarrow


# -- Columns as matrices ---------------------------------------------------------------------------


def column_kinds(schema: pa.Schema) -> dict[str, str]:
    """Find the kind of every column: "vector", "float", "integer" or "other"."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: pa.DataType) -> str:
    from pyarrow import types

    if is_list(type_):
        return VECTOR if _kind(type_.value_type) in (FLOAT, INTEGER) else OTHER
    if types.is_floating(type_) or types.is_decimal(type_):
        return FLOAT
    return INTEGER if types.is_integer(type_) else OTHER


def is_list(type_: pa.DataType) -> bool:
    """Check for a list, large_list or fixed_size_list."""
    from pyarrow import types

    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


def matrix(batch: Any, features: Sequence[str], *, where: str, first_row: int = 0) -> NDArray[Any]:
    """Convert the feature columns of an Arrow table or batch to one (n, d) array.

    Without a copy for a vector column in one piece. Missing values and rows of another length are
    errors that name the row, counted from ``first_row``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> matrix(pa.table({"emb": [[1.0, 2.0], [3.0, 4.0]]}), ["emb"], where="t")
    array([[1., 2.],
           [3., 4.]])
    """
    columns = [_one_piece(batch.column(name)) for name in features]
    for name, column in zip(features, columns, strict=True):
        _refuse_nulls(column, name, where, first_row)
    if len(columns) == 1 and is_list(columns[0].type):
        return _vectors(columns[0], features[0], where, first_row)
    parts = [_numbers(column) for column in columns]
    dtype = np.result_type(*parts) if parts else np.dtype(float)
    out = np.empty((len(parts[0]), len(parts)), dtype)
    for j, part in enumerate(parts):
        out[:, j] = part
    return out


def matrix_dtype(schema: pa.Schema, features: Sequence[str]) -> np.dtype[Any]:
    """Find the dtype that ``matrix`` has for a table of this schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> matrix_dtype(pa.schema({"a": pa.float32(), "b": pa.int64()}), ["a", "b"])
    dtype('float64')
    """
    return matrix(schema.empty_table(), features, where="a table without rows").dtype


def _one_piece(column: Any) -> Any:
    """Combine a chunked column into one array; a single chunk is not copied."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    import pyarrow as pa

    # Together, lists may have more numbers than their 32-bit offsets can count.
    if pa.types.is_list(column.type):
        column = column.cast(pa.large_list(column.type.value_type))
    return column.combine_chunks()


def _refuse_nulls(column: Any, name: str, where: str, first_row: int, width: int = 1) -> None:
    """Refuse missing values of a column, or missing numbers in its vectors of ``width`` numbers."""
    if column.null_count:
        place = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"Got {column.null_count} missing values in column {name!r} of {where} (the first in "
            f"row {first_row + place // width}), but expected numbers in every row. Drop or impute "
            "those rows."
        )


def _vectors(column: Any, name: str, where: str, first_row: int) -> NDArray[Any]:
    flat = column.flatten()  # obeys the offset of a slice
    width = _width(column, name, where, first_row)
    _refuse_nulls(flat, name, where, first_row, width)
    return _numbers(flat).reshape(len(column), width)


def _width(column: Any, name: str, where: str, first_row: int) -> int:
    if hasattr(column.type, "list_size"):
        return int(column.type.list_size)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if not len(lengths):
        return 0
    other = lengths != lengths[0]
    if other.any():
        row = int(np.argmax(other))
        raise ValueError(
            f"Got a vector of length {lengths[row]} in row {first_row + row} of column {name!r} of "
            f"{where}, but the first has length {lengths[0]}: expected vectors of one length."
        )
    return int(lengths[0])


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    result: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return result


def values(column: Any) -> NDArray[Any]:
    """Convert a column of labels to a numpy array; a dictionary column to its values."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) and column.null_count:  # 7 must not become 7.0
        return np.array(column.to_pylist(), dtype=object)
    result: NDArray[Any] = column.to_numpy()
    return result


def first_text(column: Any) -> str:
    """Describe the first value of a column that is not a number, as a part of a sentence.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first_text(pa.array(["1.5", None, "oops"]))
    " (row 2: 'oops')"
    """
    for row, value in enumerate(column.to_pylist()):
        if value not in (None, "") and not _is_number(value):
            text = repr(value)
            return f" (row {row}: {text if len(text) < 40 else text[:39] + '…'})"
    return ""


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


# -- Files -----------------------------------------------------------------------------------------


class ArrowFile(NamedTuple):
    """A file whose schema is known, and whose columns are read when they are asked for."""

    schema: Any
    has_rows: bool
    read: Callable[[Sequence[str]], Any]


def open_arrow(path: Path) -> ArrowFile:
    """Open a CSV file, a Parquet file or a folder of Parquet files.

    Parquet costs the footer until columns are read; CSV is parsed whole to find its types.
    """
    return _open_csv(path) if is_text(path) else _open_parquet_parts(path)


def _open_csv(path: Path) -> ArrowFile:
    require_pyarrow("Reading a CSV file")
    from pyarrow import csv as arrow_csv

    with reading_arrow(path):
        parse, convert = csv_options(path)
        table = arrow_csv.read_csv(path, parse_options=parse, convert_options=convert)
        _ = table.schema.names  # decodes them
    return ArrowFile(table.schema, len(table) > 0, lambda columns: table.select(_distinct(columns)))


def csv_texts(path: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """Read columns of a text table to the letter."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    columns = _distinct(list(names))
    parse, convert = csv_options(
        path,
        include_columns=columns,
        column_types=dict.fromkeys(columns, pa.string()),
        strings_can_be_null=False,
    )
    with reading_arrow(path):
        table = arrow_csv.read_csv(path, parse_options=parse, convert_options=convert)
    return {name: table[name].to_pylist() for name in columns}


def csv_options(path: Path, **convert: Any) -> tuple[Any, Any]:
    """Make the options by which Arrow parses and converts a text table."""
    from pyarrow import csv as arrow_csv

    # Texts may contain line breaks, wherever a block of the file ends.
    parse = arrow_csv.ParseOptions(delimiter=csv_delimiter(path), newlines_in_values=True)
    return parse, arrow_csv.ConvertOptions(**convert)


def csv_delimiter(path: Path) -> str:
    """Find what separates the columns of a text table.

    A ``.tsv`` has tabs. In a ``.csv`` it is what divides the header into most names: some countries
    write ``e_0;e_1``.
    """
    if path.suffix.lower() == ".tsv":
        return "	"
    with reading_arrow(path), path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    return max(",;	", key=lambda delimiter: len(_cells(header, delimiter)))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # Arrow will say what is wrong with it
        return []


def header_names(path: Path) -> list[str]:
    """Read the names in the first line of a text table."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return _cells(file.readline(), csv_delimiter(path))


def is_text(path: Path) -> bool:
    """Check the ending for a table of text: ``.csv`` or ``.tsv``."""
    return path.suffix.lower() in (".csv", ".tsv")


def _open_parquet_parts(path: Path) -> ArrowFile:
    first, *others = parquet_parts([path])
    file = open_parquet(first)

    def read(columns: Sequence[str]) -> Any:
        import pyarrow as pa

        tables = [_read_columns(file, first, columns)]
        tables += [_read_columns(open_parquet(part), part, columns) for part in others]
        try:  # integers become fractions, and singles doubles, where parts differ in them
            return pa.concat_tables(tables, promote_options="permissive")
        except pa.ArrowException as error:
            raise ValueError(
                f"Got {str(path)!r}, whose parts do not agree in the types of their columns "
                f"({str(error).splitlines()[0]}). Write them with one schema."
            ) from None

    # The first part has rows nearly always, so that the others are opened only to be read.
    has_rows = file.metadata.num_rows > 0 or any(
        open_parquet(part).metadata.num_rows for part in others
    )
    return ArrowFile(file.schema_arrow, has_rows, read)


def _read_columns(file: Any, path: Path, columns: Sequence[str]) -> Any:
    with reading_arrow(path):
        refuse_twice(file.schema_arrow.names, columns, path)
        return file.read(_distinct(columns))


def refuse_twice(names: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    """Refuse a file that has a wanted column twice: either of them may be meant.

    Examples
    --------
    >>> refuse_twice(["id", "id", "emb"], ["emb"], Path("a.parquet"))
    """
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(
                f"Got {str(path)!r} with two columns of the name {name!r}, but expected one. "
                "Rename or drop one of them."
            )


def _distinct(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(columns))


def parquet_parts(paths: Iterable[Path]) -> list[Path]:
    """List the Parquet files among files and folders, sorted within each folder."""
    parts: list[Path] = []
    for path in paths:
        if not path.is_dir():
            parts.append(path)
            continue
        files = sorted(file for file in path.rglob("*.parquet") if not is_hidden(file, path))
        if not files:
            raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
        parts += files
    return parts


def open_parquet(path: Path) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``, or raise an error that names the file."""
    require_pyarrow("Reading a Parquet file")
    from pyarrow import parquet

    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    with reading_arrow(path):
        # Small buffers and no map: a row group of gigabytes is read as a stream, and not whole.
        file = parquet.ParquetFile(
            path,
            memory_map=False,
            pre_buffer=False,
            buffer_size=1 << 16,
            page_checksum_verification=True,
        )
        _ = file.schema_arrow.names  # decodes them
        return file


@contextmanager
def reading_arrow(path: Path) -> Iterator[None]:
    """Turn Arrow's errors of reading a CSV or Parquet file into one that names it."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:  # Arrow's texts are UTF-8, the path included
        what = "name is" if isinstance(error, UnicodeEncodeError) else "column names are"
        raise ValueError(
            f"Got {str(path)!r}, whose {what} not UTF-8, but expected it to be. Rename it, or save "
            "it as UTF-8."
        ) from None
    except (pa.ArrowException, OSError) as error:
        kind = "CSV" if is_text(path) else "Parquet"
        if kind == "CSV" and path.stat().st_size == 0:
            raise ValueError(
                f"Got an empty table: {str(path)!r} has no rows, not even a header."
            ) from None
        cause = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"Got {str(path)!r}, which cannot be read as {kind} ({cause}).") from None
