"""Arrow columns as matrices and back: list, large_list, fixed_size_list, many number columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.io.columns import FLOAT, INTEGER, OTHER, VECTOR

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column_kinds", "first_text", "matrix", "matrix_dtype", "require_pyarrow", "values"]


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
