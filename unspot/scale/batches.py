"""Erasing one batch: pure functions that every engine shares (files, Dask, Ray)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.eraser import Eraser
from unspot.io.arrow import column_kinds, is_list, matrix, require_pyarrow
from unspot.io.columns import choose_features, missing

__all__ = [
    "Erasure",
    "erase_arrow_batch",
    "erase_batch",
    "erased_schema",
    "rows_per_chunk",
    "width_out",
]

Features = str | Sequence[str] | None


def erase_batch(
    eraser: Eraser,
    X: NDArray[Any],
    *,
    reduce: bool = False,
    where: str = "the batch",
    first_row: int = 0,
) -> NDArray[Any]:
    """Erase rows, or say which file and row cannot be erased.

    Parameters
    ----------
    eraser : Eraser
    X : array of shape (n, d)
    reduce : bool
        Give the r coordinates of the kept subspace rather than d numbers.
    where, first_row : str, int
        What the rows are called in messages, and the number of the first of them.

    Examples
    --------
    >>> import numpy as np
    >>> eraser = Eraser.projection(np.eye(3)[:, :2])
    >>> erase_batch(eraser, np.ones((1, 3)), reduce=True)
    array([[1., 1.]])
    """
    if X.ndim != 2 or X.shape[1] != eraser.n_features:
        got = f"vectors of length {X.shape[1]}" if X.ndim == 2 else f"an array of shape {X.shape}"
        raise ValueError(
            f"Got {got} in {where}, but expected rows of {eraser.n_features} numbers: that is what "
            "this eraser was fitted on."
        )
    _refuse_nonfinite(X, where, first_row)
    erased: NDArray[Any] = eraser.reduce(X) if reduce else eraser(X)
    return erased


def width_out(eraser: Eraser, reduce: bool) -> int:
    """The number of numbers a row has after erasure."""
    if not reduce:
        return eraser.maps[-1].n_out
    return int(eraser.reduce(np.zeros((1, eraser.n_features))).shape[-1])


def _refuse_nonfinite(X: NDArray[Any], where: str, first_row: int) -> None:
    if X.dtype.kind != "f" or not X.size:
        return
    # The sum of squares is one fast pass; it is finite for all but bad and huge numbers.
    if X.dtype.itemsize > 2 and X.flags.c_contiguous:
        flat = X.reshape(-1)
        with np.errstate(all="ignore"):
            if np.isfinite(flat @ flat):
                return
    bad = ~np.isfinite(X)
    if bad.any():
        row = first_row + int(np.argmax(bad.any(axis=1)))
        raise ValueError(
            f"Got {int(bad.sum())} values of NaN or infinity in {where} (the first in row {row}), "
            "but expected finite numbers. Drop or impute those rows."
        )


def erase_arrow_batch(
    eraser: Eraser,
    batch: Any,
    features: Features = None,
    *,
    reduce: bool = False,
    where: str = "the batch",
    first_row: int = 0,
) -> Any:
    """Erase the vectors of an Arrow batch or table; every other column stays as it is.

    Parameters
    ----------
    eraser : Eraser
    batch : pyarrow.RecordBatch or pyarrow.Table
    features : str, list of str or None
        The vector column, or a pattern or list of number columns; None for the obvious ones.
    reduce : bool
        Write r numbers a row: a shorter vector, or columns ``reduced_0`` … in place of the first.
    where, first_row : str, int
        What the rows are called in messages, and the number of the first of them.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> eraser = Eraser.projection(np.eye(2)[:, :1])
    >>> batch = pa.record_batch({"id": [7], "emb": [[1.0, 2.0]]})
    >>> erase_arrow_batch(eraser, batch, "emb").to_pydict()
    {'id': [7], 'emb': [[1.0, 0.0]]}
    """
    pa = require_pyarrow("Tables")
    kinds = column_kinds(batch.schema)
    columns = choose_features(features, kinds, where=where)
    schema = erased_schema(batch.schema, columns, eraser, reduce=reduce)
    if isinstance(batch, pa.Table):
        pieces = batch.to_batches()  # offsets of lists are 32-bit: never one huge piece
        starts = first_row + np.cumsum([0, *(len(piece) for piece in pieces)])
        return pa.Table.from_batches(
            [
                _erase(eraser, piece, columns, schema, reduce, where, int(start))
                for piece, start in zip(pieces, starts, strict=False)
            ],
            schema=schema,
        )
    return _erase(eraser, batch, columns, schema, reduce, where, first_row)


def erased_schema(schema: Any, columns: Sequence[str], eraser: Eraser, *, reduce: bool) -> Any:
    """The schema after erasure: the same, but for integers and, if reduced, for widths."""
    pa = require_pyarrow("Tables")
    n_out = width_out(eraser, reduce)
    first = schema.field(columns[0])
    if is_list(first.type):
        new = {first.name: [first.with_type(_vector_type(first.type, n_out))]}
    elif reduce:
        added = [pa.field(f"reduced_{i}", _number_type(first.type)) for i in range(n_out)]
        new = {name: [] for name in columns} | {first.name: added}
    else:
        new = {n: [schema.field(n).with_type(_number_type(schema.field(n).type))] for n in columns}
    fields = [field for old in schema for field in new.get(old.name, [old])]
    _refuse_twice([field.name for field in fields])
    return pa.schema(fields, metadata=_metadata(schema, fields))


def _metadata(schema: Any, fields: Sequence[Any]) -> dict[bytes, bytes] | None:
    kept = dict(schema.metadata or {})
    if [field.name for field in fields] != schema.names:
        kept.pop(b"pandas", None)  # it lists columns that are gone
    return kept or None


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Got a table that would have the column {twice[0]!r} twice. Rename it before erasure."
        )


def _number_type(type_: Any) -> Any:
    pa = require_pyarrow()
    return type_ if pa.types.is_floating(type_) else pa.float64()


def _vector_type(type_: Any, n_out: int) -> Any:
    pa = require_pyarrow()
    item = type_.value_field.with_type(_number_type(type_.value_type))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(item, n_out)
    return pa.large_list(item) if pa.types.is_large_list(type_) else pa.list_(item)


def _erase(
    eraser: Eraser,
    batch: Any,
    columns: Sequence[str],
    schema: Any,
    reduce: bool,
    where: str,
    first_row: int,
) -> Any:
    pa = require_pyarrow()
    if batch.num_rows:
        X = matrix(batch, columns, where=where, first_row=first_row)
        erased = erase_batch(eraser, X, reduce=reduce, where=where, first_row=first_row)
    else:
        erased = np.empty((0, width_out(eraser, reduce)))
    kept = {name: batch.column(name) for name in batch.schema.names if name not in columns}
    new_names = [name for name in schema.names if name not in kept]
    if len(new_names) == 1 and is_list(schema.field(new_names[0]).type):
        made = {new_names[0]: _vectors(erased, schema.field(new_names[0]).type)}
    else:
        made = {
            name: pa.array(np.ascontiguousarray(erased[:, j])).cast(schema.field(name).type)
            for j, name in enumerate(_in_order(columns, new_names))
        }
    arrays = [made[name] if name in made else kept[name] for name in schema.names]
    return pa.record_batch(arrays, schema=schema)


def _in_order(columns: Sequence[str], new_names: Sequence[str]) -> Sequence[str]:
    """The names of the erased numbers in their own order, which need not be the table's."""
    return columns if set(columns) == set(new_names) else new_names


def _vectors(erased: NDArray[Any], type_: Any) -> Any:
    pa = require_pyarrow()
    n, width = erased.shape
    values = pa.array(np.ascontiguousarray(erased).reshape(-1)).cast(type_.value_type)
    if pa.types.is_fixed_size_list(type_):
        return pa.FixedSizeListArray.from_arrays(values, type=type_)
    offsets = np.arange(n + 1) * width
    if pa.types.is_large_list(type_):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=type_)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=type_)


# -- What is done to every file of a job: one eraser, one choice of columns, reduced or not --------


#: How much of an array is read at a time. Small pieces stay in the cache and cost no page faults,
#: but a product needs rows enough to be worth the conversion of its matrix.
CHUNK_BYTES, CHUNK_ROWS = 4 << 20, 1024


@dataclass(frozen=True, eq=False)
class Erasure:
    """A job: the eraser, the columns with the vectors, and whether to write r numbers a row."""

    eraser: Eraser
    features: Features = None
    reduce: bool = False

    @property
    def remembered(self) -> list[str]:
        """The columns that the eraser was fitted on, as ``unspot fit`` wrote them down."""
        return list(self.eraser.metadata.get("features", ()))

    def columns(self, kinds: Mapping[str, str], where: str) -> list[str]:
        """The columns of a table that hold the vectors: as asked for, remembered, or obvious."""
        features = self.features
        if features is None and self.remembered and all(n in kinds for n in self.remembered):
            features = self.remembered
        return choose_features(features, kinds, where=where)

    def array(self, names: Sequence[str], where: str) -> str:
        """The array of a ``.npz`` file that holds the vectors."""
        if self.features is None:
            name = next((n for n in self.remembered if n in names), "X")
        else:
            name = self.features if isinstance(self.features, str) else self.features[0]
        if name not in names:
            raise missing(name, names, where, "array")
        return name

    def identity(self) -> dict[str, Any]:
        """Facts that decide the output: a job with other facts is another job."""
        asked = self.features if self.features is not None else self.remembered
        return {
            "eraser": eraser_digest(self.eraser),
            "features": asked if isinstance(asked, str) else ",".join(asked),
            "reduce": self.reduce,
        }


def eraser_digest(eraser: Eraser) -> str:
    """A hash of what an eraser does, whatever file it came from and whatever its metadata."""
    digest = hashlib.sha256()
    for m in eraser.maps:
        digest.update(json.dumps([m.kind, m.config()], sort_keys=True, default=str).encode())
        for name, array in sorted(m.arrays().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def rows_per_chunk(bytes_per_row: int) -> int:
    """How many rows of an array make a chunk."""
    return max(CHUNK_ROWS, CHUNK_BYTES // max(1, bytes_per_row))
