"""Arrow columns as matrices and back: list, large_list, fixed_size_list, many number columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.io.columns import FLOAT, INTEGER, OTHER, VECTOR, choose_features, missing
from unspot.io.files import is_hidden
from unspot.io.sources import Floats, check_chunk, check_rows, float_dtype

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ArrowFile",
    "ParquetSource",
    "column_kinds",
    "first_text",
    "matrix",
    "matrix_dtype",
    "open_arrow",
    "open_parquet",
    "parquet_parts",
    "parse_options",
    "require_pyarrow",
    "unreadable_csv",
    "values",
]


def require_pyarrow(what: str = "CSV and Parquet files") -> Any:
    """pyarrow, or an error with the command that installs it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f'{what} need pyarrow, which is not installed. Run: pip install "unspot[io]"'
        ) from None
    return pyarrow


def column_kinds(schema: pa.Schema) -> dict[str, str]:
    """Every column's kind: "vector", "float", "integer" or "other"."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: pa.DataType) -> str:
    from pyarrow import types

    if is_list(type_):
        return VECTOR if _kind(type_.value_type) in (FLOAT, INTEGER) else OTHER
    if types.is_floating(type_) or types.is_decimal(type_):
        return FLOAT
    return INTEGER if types.is_integer(type_) else OTHER


def is_list(type_: pa.DataType) -> bool:
    """Whether it is a list, large_list or fixed_size_list."""
    from pyarrow import types

    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


def matrix(batch: Any, features: Sequence[str], *, where: str, first_row: int = 0) -> NDArray[Any]:
    """The feature columns of an Arrow table or batch as one (n, d) array.

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
    """The dtype that ``matrix`` has for a table of this schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> matrix_dtype(pa.schema({"a": pa.float32(), "b": pa.int64()}), ["a", "b"])
    dtype('float64')
    """
    return np.result_type(*(_number_dtype(schema.field(name).type) for name in features))


def _number_dtype(type_: pa.DataType) -> np.dtype[Any]:
    from pyarrow import types

    number = type_.value_type if is_list(type_) else type_
    return np.dtype(np.float64 if types.is_decimal(number) else number.to_pandas_dtype())


def _one_piece(column: Any) -> Any:
    """A chunked column as one array; a single chunk is not copied."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    import pyarrow as pa

    # Together, lists may have more numbers than their 32-bit offsets can count.
    if pa.types.is_list(column.type):
        column = column.cast(pa.large_list(column.type.value_type))
    return column.combine_chunks()


def _refuse_nulls(column: Any, name: str, where: str, first_row: int) -> None:
    count = column.null_count
    if count:
        row = first_row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"Got {count} missing values in column {name!r} of {where} (the first in row {row}), "
            "but expected numbers in every row. Drop or impute those rows."
        )


def _vectors(column: Any, name: str, where: str, first_row: int) -> NDArray[Any]:
    n = len(column)
    flat = column.flatten()  # obeys the offset of a slice
    width = _width(column, name, where, first_row)
    if flat.null_count:
        row = first_row + int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False))) // width
        raise ValueError(
            f"Got {flat.null_count} missing numbers inside the vectors of column {name!r} of "
            f"{where} (the first in row {row}), but expected numbers alone. Drop or impute those "
            "rows."
        )
    return _numbers(flat).reshape(n, width)


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
    """A column of labels as a numpy array; dictionaries (categoricals) as what they stand for."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    result: NDArray[Any] = column.to_numpy()
    return result


def first_text(column: Any) -> str:
    """Where a column first holds something else than a number, as a part of a sentence.

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


# -- Parquet files and folders of them as a source of rows, with random access by row group --------


#: Rows decoded at a time; a row group of any size is read in such pieces.
_BATCH = 8192


class _Group(NamedTuple):
    file: int  # which file
    number: int  # which row group of it
    start: int  # its first row, counted over all files
    stop: int
    first: int  # the same row, counted in its own file
    dtype: np.dtype[Any]  # what its own file is to be read in


class ParquetSource:
    """The vectors of Parquet files, in the order of the files' names.

    Parameters
    ----------
    paths : list of Path
        Files, or folders of them.
    features : str or list of str, optional
        The vector column, or many number columns; by default as in ``read_table``.
    labels : str, optional
        A column that holds the labels, and so is no feature unless named as one.

    Notes
    -----
    Opening reads the footers alone. ``take`` and ``read`` decode the row groups that hold a wanted
    row, a few thousand rows at a time; files written with row groups of 10⁴ to 10⁵ rows are the
    best for it. To pass over rows in order use ``chunks``, which decodes every row group once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        features: str | Sequence[str] | None = None,
        labels: str | None = None,
    ) -> None:
        self.paths = parquet_parts(paths)
        kinds = column_kinds(open_parquet(self.paths[0]).schema_arrow)
        where = str(self.paths[0])
        self.features = choose_features(features, kinds, taken=[labels], where=where)
        self._groups = list(_groups(self.paths, self.features))
        self._starts = np.array([g.start for g in self._groups], dtype=np.int64)
        n_rows = self._groups[-1].stop if self._groups else 0
        if n_rows == 0:
            raise ValueError(f"Got an empty table: {self._where()} has no rows.")
        self.shape: tuple[int, int] = (n_rows, self._width())
        self.dtype = np.result_type(*{group.dtype for group in self._groups})

    def read(self, start: int, stop: int) -> Floats:
        start, stop = max(start, 0), min(stop, self.shape[0])
        return self.take(np.arange(start, max(start, stop)))

    def take(self, rows: ArrayLike) -> Floats:
        wanted = check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        order = np.argsort(wanted, kind="stable")
        ordered = wanted[order]
        owner = np.searchsorted(self._starts, ordered, side="right") - 1
        for g in np.unique(owner):
            mine = slice(*np.searchsorted(owner, [g, g + 1]))
            self._fill(out, self._groups[g], ordered[mine], order[mine])
        return out

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        check_chunk(rows_per_chunk)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        wanted = [group for group in self._groups if group.start < end and start < group.stop]
        for _, groups in groupby(wanted, key=lambda group: group.file):
            yield from self._chunks_of_file(list(groups), rows_per_chunk, start, end)

    def column(self, name: str) -> NDArray[Any]:
        """Another column, whole: the concept's labels."""
        for path in self.paths:
            if name not in (known := open_parquet(path).schema_arrow.names):
                raise missing(name, known, str(path))
        return np.concatenate([values(read_part(p, [name])[name]) for p in self.paths])

    def _chunks_of_file(
        self, groups: list[_Group], rows_per_chunk: int, start: int, stop: int
    ) -> Iterator[Floats]:
        """The rows from ``start`` to ``stop`` that row groups of one file hold.

        A row group can be decoded from its beginning alone, so what comes before ``start`` is
        decoded too, once, and dropped.
        """
        path, row = self.paths[groups[0].file], groups[0].start
        before = row - groups[0].first  # the rows of earlier files
        for batch in self._batches(path, rows_per_chunk, [group.number for group in groups]):
            low, high = max(start - row, 0), min(stop - row, batch.num_rows)
            if low < high:
                yield self._matrix(batch.slice(low, high - low), path, row + low - before)
            row += batch.num_rows
            if row >= stop:
                return

    def _fill(
        self, out: Floats, group: _Group, rows: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        path, start = self.paths[group.file], group.start
        for batch in self._batches(path, _BATCH, [group.number]):
            stop = start + batch.num_rows
            mine = slice(*np.searchsorted(rows, [start, stop]))
            if mine.start < mine.stop:
                X = self._matrix(batch, path, group.first + start - group.start)
                out[places[mine]] = X[rows[mine] - start]
            if mine.stop == len(rows):
                return
            start = stop

    def _batches(self, path: Path, size: int, groups: list[int] | None = None) -> Iterator[Any]:
        pa = require_pyarrow()
        try:
            file = open_parquet(path)
            yield from file.iter_batches(size, row_groups=groups, columns=self.features)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from None

    def _matrix(self, batch: Any, path: Path, start: int) -> Floats:
        X = matrix(batch, self.features, where=str(path), first_row=start)
        if X.shape[1] != self.shape[1]:
            raise ValueError(
                f"Got vectors of length {X.shape[1]} in {str(path)!r}, but the first part has "
                f"length {self.shape[1]}."
            )
        return X.astype(self.dtype, copy=False)

    def _width(self) -> int:
        path = self.paths[self._groups[0].file]
        first_row = next(iter(self._batches(path, 1)))
        return int(matrix(first_row, self.features, where=str(path)).shape[1])

    def _where(self) -> str:
        return repr(str(self.paths[0])) if len(self.paths) == 1 else f"{len(self.paths)} files"


def parquet_parts(paths: Iterable[Path]) -> list[Path]:
    """The Parquet files among files and folders, sorted within each folder."""
    parts: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*.parquet") if not is_hidden(p, path))
            if not found:
                raise ValueError(
                    f"Got the folder {str(path)!r}, but there is no .parquet file in it."
                )
            parts += found
        else:
            parts.append(path)
    return parts


def open_parquet(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile``, or an error that names the file."""
    pa = require_pyarrow("Parquet files")
    from pyarrow import parquet

    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    try:
        # Small buffers and no map: a row group of gigabytes is read as a stream, and not whole.
        return parquet.ParquetFile(
            path,
            memory_map=False,
            pre_buffer=False,
            buffer_size=1 << 16,
            page_checksum_verification=True,
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def read_part(path: Path, columns: list[str]) -> Any:
    """Some columns of a file as a table, or an error that names the file."""
    pa = require_pyarrow("Parquet files")
    try:
        return open_parquet(path).read(columns)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception, kind: str = "Parquet") -> ValueError:
    """The error for a corrupt or foreign file, with the first line of what was found."""
    first = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return ValueError(f"Got {str(path)!r}, which cannot be read as {kind} ({first}).")


def _groups(paths: Sequence[Path], features: Sequence[str]) -> Iterator[_Group]:
    start = 0
    for f, path in enumerate(paths):
        file, before = open_parquet(path), start
        dtype = _read_dtype(file, features, path)
        for g in range(file.metadata.num_row_groups):
            stop = start + file.metadata.row_group(g).num_rows
            if stop > start:
                yield _Group(f, g, start, stop, start - before, dtype)
            start = stop


def _read_dtype(file: Any, features: Sequence[str], path: Path) -> np.dtype[Any]:
    """What to read the vectors of a file in; an error if it does not have them."""
    schema = file.schema_arrow
    if absent := set(features) - set(schema.names):
        raise missing(min(absent), schema.names, str(path))
    if not file.metadata.num_rows:  # nothing to read, and maybe no type for want of a value
        return np.dtype(np.float32)
    kinds = column_kinds(schema)
    if other := [name for name in features if kinds[name] == OTHER]:
        raise ValueError(
            f"Got column {other[0]!r} of type {schema.field(other[0]).type} in {str(path)!r}, but "
            "expected numbers or vectors of numbers, as in the first part."
        )
    return float_dtype(matrix_dtype(schema, features))


# -- CSV and Parquet files as Arrow tables, with errors that name the file -------------------------


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
