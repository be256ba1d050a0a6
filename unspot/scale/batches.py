"""Erasing one batch: what every engine shares (files, Dask, Ray)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.rows import nonfinite_rows, refuse_nonfinite, warn_of_other_norms
from unspot.eraser import Eraser
from unspot.io.columns import choose_features_of_fit, column_kinds, is_list, matrix, missing_of_fit
from unspot.io.files import missing, require_pyarrow

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
        Give the r coordinates in the kept subspace instead of d numbers.
    where, first_row : str, int
        The name of the rows in messages, and the number of the first of them.

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
    warn_of_other_norms(eraser, X)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, with the row
            erased: NDArray[Any] = eraser.reduce(X) if reduce else eraser(X)
    except ValueError:
        refuse_nonfinite(X, where, first_row)  # says the place
        raise
    _refuse_overflow(erased, where, first_row)
    return erased


def width_out(eraser: Eraser, reduce: bool) -> int:
    """Count the numbers of a row after erasure."""
    if not reduce:
        return eraser.maps[-1].n_out
    return int(eraser.reduce(np.zeros((1, eraser.n_features))).shape[-1])


def _refuse_overflow(erased: NDArray[Any], where: str, first_row: int) -> None:
    """Refuse rows with a number that erasure made larger than its type can hold."""
    if len(bad := nonfinite_rows(erased)):
        raise ValueError(
            f"Got row {first_row + bad[0]} of {where}, which has numbers beyond the largest of "
            f"{erased.dtype} ({np.finfo(erased.dtype).max:.3g}) after erasure, but expected finite "
            "ones. Store the rows in a wider type, or scale them down."
        )


def erase_arrow_batch(
    eraser: Eraser,
    batch: Any,
    features: Features = None,
    *,
    reduce: bool = False,
    where: str = "the batch",
) -> Any:
    """Erase the vectors of an Arrow batch or table; every other column stays as it is.

    Parameters
    ----------
    eraser : Eraser
    batch : pyarrow.RecordBatch or pyarrow.Table
    features : str, list of str or None
        The vector column, or a pattern or list of number columns; None for those of the fit, or
        the obvious ones if it recorded none.
    reduce : bool
        Write r numbers per row: a shorter vector, or columns ``reduced_0`` … in place of the first.
    where : str
        The name of the rows in messages.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> eraser = Eraser.projection(np.eye(2)[:, :1])
    >>> batch = pa.record_batch({"id": [7], "emb": [[1.0, 2.0]]})
    >>> erase_arrow_batch(eraser, batch, "emb").to_pydict()
    {'id': [7], 'emb': [[1.0, 0.0]]}
    """
    pa = require_pyarrow("Tables")
    columns = Erasure(eraser, features).columns(column_kinds(batch.schema), where)
    erase = ArrowEraser(eraser, batch.schema, columns, reduce=reduce, where=where)
    if not isinstance(batch, pa.Table):
        return erase(batch)
    # Offsets of lists are 32-bit: never one huge piece.
    return pa.Table.from_batches(map(erase, batch.to_batches()), schema=erase.schema)


class ArrowEraser:
    """Erases the batches of one Arrow table, in their order.

    Parameters
    ----------
    eraser : Eraser
    schema : pyarrow.Schema
        The schema of all batches.
    columns : list of str
        The columns with the vectors.
    reduce : bool
        Write r numbers per row.
    where : str
        The name of the table in messages.

    Attributes
    ----------
    schema : pyarrow.Schema
        The schema after erasure.
    n_rows : int
        How many rows were erased so far; errors name rows by their number in the table.
    """

    def __init__(
        self, eraser: Eraser, schema: Any, columns: Sequence[str], *, reduce: bool, where: str
    ) -> None:
        self.schema = erased_schema(schema, columns, eraser, reduce=reduce)
        self._eraser, self._columns = eraser, list(columns)
        self._reduce, self._where, self.n_rows = reduce, where, 0
        others = set(schema.names) - set(columns)
        names = [name for name in self.schema.names if name not in others]
        # The numbers are in the order of the columns, which need not be the order of the table.
        self._names = self._columns if set(names) == set(columns) else names

    def __call__(self, batch: Any) -> Any:
        """Erase the vectors of the next batch."""
        import pyarrow as pa

        where: Any = {"where": self._where, "first_row": self.n_rows}
        if batch.num_rows:
            X = matrix(batch, self._columns, **where)
            erased = erase_batch(self._eraser, X, reduce=self._reduce, **where)
        else:
            erased = np.empty((0, width_out(self._eraser, self._reduce)))
        new = self._arrow_columns(erased)
        self.n_rows += batch.num_rows
        arrays = [new[name] if name in new else batch.column(name) for name in self.schema.names]
        return pa.record_batch(arrays, schema=self.schema)

    def _arrow_columns(self, erased: NDArray[Any]) -> dict[str, Any]:
        types = {name: self.schema.field(name).type for name in self._names}
        if is_list(types[self._names[0]]):
            return {name: _vectors(erased, type_) for name, type_ in types.items()}
        return {
            name: self._number_column(erased[:, j], type_)
            for j, (name, type_) in enumerate(types.items())
        }

    def _number_column(self, numbers: NDArray[Any], type_: Any) -> Any:
        import pyarrow as pa

        column = pa.array(np.ascontiguousarray(numbers)).cast(type_)
        if column.type.bit_width < 8 * numbers.itemsize:  # a column narrower than another one
            _refuse_overflow(np.asarray(column)[:, None], self._where, self.n_rows)
        return column


def erased_schema(schema: Any, columns: Sequence[str], eraser: Eraser, *, reduce: bool) -> Any:
    """Make the schema after erasure: integers become float64, reduced vectors are shorter."""
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
    names = [field.name for field in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"Got a table that would have the column {twice[0]!r} twice. Rename it before erasure."
        )
    metadata = dict(schema.metadata or {})
    if names != schema.names:
        metadata.pop(b"pandas", None)  # it lists columns that are gone
    return pa.schema(fields, metadata=metadata or None)


def _number_type(type_: Any) -> Any:
    import pyarrow as pa

    return type_ if pa.types.is_floating(type_) else pa.float64()


def _vector_type(type_: Any, n_out: int) -> Any:
    import pyarrow as pa

    item = type_.value_field.with_type(_number_type(type_.value_type))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(item, n_out)
    return pa.large_list(item) if pa.types.is_large_list(type_) else pa.list_(item)


def _vectors(erased: NDArray[Any], type_: Any) -> Any:
    import pyarrow as pa

    values = pa.array(np.ascontiguousarray(erased).reshape(-1)).cast(type_.value_type)
    return pa.FixedSizeListArray.from_arrays(values, erased.shape[1]).cast(type_)


# -- A job: what is done to every file -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Erasure:
    """A job: the eraser, the columns with the vectors, and whether to write r numbers per row."""

    eraser: Eraser
    features: Features = None
    reduce: bool = False

    @property
    def remembered(self) -> list[str]:
        """The columns that the eraser was fitted on, as ``unspot fit`` recorded them."""
        return list(self.eraser.metadata.get("features", ()))

    def columns(self, kinds: Mapping[str, str], where: str) -> list[str]:
        """Choose the columns with the vectors: named by the user, remembered, or obvious."""
        return choose_features_of_fit(self.features, self.remembered, kinds, where=where)

    def array(self, names: Sequence[str], where: str) -> str:
        """Choose the array of a ``.npz`` file that holds the vectors."""
        asked = [self.features] if isinstance(self.features, str) else self.features
        fitted = self.remembered if len(self.remembered) == 1 else ["X"]  # columns are one array
        name = (asked or fitted)[0]
        if name in names:
            return name
        if name in self.remembered:
            raise missing_of_fit([name], names, where, "array")
        raise missing(name, names, where, "array")

    def identity(self) -> dict[str, Any]:
        """Collect the facts that decide the output: a job with other facts is another job."""
        asked = self.features if self.features is not None else self.remembered
        return {
            "eraser": self.eraser.digest,
            "features": asked if isinstance(asked, str) else ",".join(asked),
            "reduce": self.reduce,
        }
