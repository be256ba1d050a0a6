"""Dask: erase arrays and data frames, and collect class statistics by a tree of merges.

Everything here is lazy and runs on the active scheduler: threads, or the ``Client`` of a cluster.
A sweep on a cluster needs only joblib's own backend:
``with joblib.parallel_config("dask"): …``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import require
from unspot.data.columns import encode_as
from unspot.data.concept import Classes
from unspot.data.rows import refuse_nonfinite
from unspot.data.statistics import ClassStatistics
from unspot.eraser import Eraser
from unspot.io.columns import VECTOR, choose_features_of_fit, column_kinds, is_list, matrix
from unspot.io.files import require_pyarrow
from unspot.scale.batches import Erasure, Features, erase_arrow_batch, erase_batch, width_out

#: How many statistics one task merges.
MERGED_AT_ONCE = 8


def erase(data: Any, eraser: Eraser, *, features: Features = None, reduce: bool = False) -> Any:
    """Erase a Dask array (n, d), or the vectors of a Dask data frame; lazily.

    Parameters
    ----------
    data : dask.array.Array or dask.dataframe.DataFrame
    eraser : Eraser
    features : str, list of str or None
        The vector column, or the number columns, of a data frame; None for those of
        the fit, or the obvious ones if it recorded none.
    reduce : bool
        Give the r coordinates in the kept subspace: r columns of an array, a shorter vector, or
        columns ``reduced_0`` … in place of the first.

    Notes
    -----
    One task per block or partition; other columns and the index stay.

    Examples
    --------
    >>> import dask.array as da
    >>> eraser = Eraser.projection(np.eye(3)[:, :2])
    >>> erase(da.ones((4, 3), chunks=(2, 3)), eraser).compute()[0]
    array([1., 1., 0.])
    """
    _require()
    if hasattr(data, "map_partitions"):
        columns = _columns(data._meta, features, Erasure(eraser).remembered)
        meta = _erase_frame(data._meta, eraser, columns, reduce)
        return data.map_partitions(_erase_frame, eraser, columns, reduce, meta=meta)
    _check_array(data, "For arrays in memory, call the eraser itself.")
    whole_rows = data.rechunk({1: -1})
    dtype = data.dtype if data.dtype.kind == "f" else np.dtype(np.float64)
    return whole_rows.map_blocks(
        _erase_block,
        eraser,
        reduce,
        dtype=dtype,
        chunks=(whole_rows.chunks[0], (width_out(eraser, reduce),)),
        meta=np.empty((0, 0), dtype),
    )


def class_statistics(
    data: Any, z: Any, *, features: Features = None
) -> tuple[ClassStatistics, NDArray[Any]]:
    """Sum the statistics of every class: one task per block, merged in a tree.

    ``LEACE.from_statistics(*class_statistics(X, z))`` is LEACE fitted on a cluster.

    Parameters
    ----------
    data : dask.array.Array or dask.dataframe.DataFrame
    z : array-like of n labels, or str
        For a data frame, the name of the labels' column.
    features : str, list of str or None
        The vector column, or the number columns, of a data frame.

    Notes
    -----
    O(nd²) work over all workers; d² numbers move per block, and one task has at most
    ``MERGED_AT_ONCE``·d² numbers in memory.
    """
    dask = _require()
    if hasattr(data, "map_partitions"):
        parts, classes = _of_frame(data, z, features)
    else:
        _check_array(data, "For arrays in memory, use ClassStatistics.from_rows or fit itself.")
        parts, classes = _of_array(data, z)
    merge = dask.delayed(_merge_all, pure=False)
    while len(parts) > 1:
        cuts = range(0, len(parts), MERGED_AT_ONCE)
        parts = [merge(parts[i : i + MERGED_AT_ONCE]) for i in cuts]
    (total,) = dask.compute(parts[0])
    return total, classes


def _check_array(data: Any, otherwise: str) -> None:
    if not hasattr(data, "map_blocks") or data.ndim != 2:
        shape = f" of shape {data.shape}" if hasattr(data, "shape") else ""
        raise ValueError(
            f"Got a {type(data).__name__}{shape}, but expected a Dask array of shape (n, d) or a "
            f"Dask data frame. {otherwise}"
        )


# -- one block, one partition --------------------------------------------------------------------


def _erase_block(X: NDArray[Any], eraser: Eraser, reduce: bool) -> NDArray[Any]:
    return erase_batch(eraser, X, reduce=reduce, where="a block of the array")


def _erase_frame(frame: Any, eraser: Eraser, columns: list[str], reduce: bool) -> Any:
    """Erase the vectors of a pandas data frame; index and other columns stay."""
    import pandas as pd

    table = _table(frame, columns)
    erased = erase_arrow_batch(eraser, table, columns, reduce=reduce, where="a partition")
    dtypes = frame.dtypes
    made = {
        name: pd.Series(_held_as(dtypes.get(name, dtypes[columns[0]]), column), frame.index)
        for name, column in zip(erased.column_names, erased.columns, strict=True)
    }
    if list(made) == columns:
        return frame.assign(**made)
    place = frame.columns.get_loc(columns[0])
    left = frame.iloc[:, :place].drop(columns=columns, errors="ignore")
    right = frame.iloc[:, place:].drop(columns=columns, errors="ignore")
    return pd.concat([left, pd.DataFrame(made), right], axis=1)


def _held_as(dtype: Any, column: Any) -> Any:
    """Convert an Arrow column to how pandas holds this dtype: Arrow, objects or numpy."""
    import pandas as pd

    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(column)
    # Copies, since numpy views of Arrow's memory are read-only.
    if is_list(column.type):
        return [np.array(row) for row in column.to_numpy()]
    numbers = np.array(column)
    nullable = isinstance(dtype, pd.api.extensions.ExtensionDtype)
    return pd.array(numbers, dtype=str(numbers.dtype).capitalize()) if nullable else numbers


def _columns(frame: Any, features: Features, fitted: Sequence[str] = ()) -> list[str]:
    """Choose the columns that hold the vectors; in a frame without rows, those that may."""
    pa = require_pyarrow("Reading a data frame")
    from pandas.api.types import is_object_dtype

    _refuse_text(frame, fitted if features is None else features)
    kinds = column_kinds(pa.Schema.from_pandas(frame, preserve_index=False))
    if not len(frame):  # the type of objects is unknown until they are computed
        objects = [name for name, dtype in frame.dtypes.items() if is_object_dtype(dtype)]
        kinds |= dict.fromkeys(objects, VECTOR)
    return choose_features_of_fit(features, fitted, kinds, where="the data frame")


def _refuse_text(frame: Any, features: Features) -> None:
    names = [features] if isinstance(features, str) else features or ()
    text = [name for name in names if str(getattr(frame.get(name), "dtype", "")) == "string"]
    if text:
        raise ValueError(
            f"Got text in column {text[0]!r}, but expected vectors. dask.dataframe.from_pandas "
            "turns objects into text; call it inside "
            "dask.config.set({'dataframe.convert-string': False})."
        )


def _table(frame: Any, columns: Sequence[str]) -> Any:
    """Convert columns to Arrow; objects without rows have no type, and become vectors."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame[columns], preserve_index=False)
    if len(frame):
        return table
    vector = pa.list_(pa.float64())
    return pa.schema(
        [field.with_type(vector) if field.type == pa.null() else field for field in table.schema]
    ).empty_table()


def _statistics(X: NDArray[Any], codes: NDArray[np.int64], n_classes: int) -> ClassStatistics:
    refuse_nonfinite(X, "a block")
    return ClassStatistics.from_rows(X, codes, n_classes, per_class=False)


def _merge_all(parts: list[ClassStatistics | None]) -> ClassStatistics | None:
    """Merge the statistics of all parts that have rows; None if none has."""
    filled = [part for part in parts if part is not None]
    return reduce(lambda total, part: total.merge(part), filled) if filled else None


def _of_array(data: Any, z: Any) -> tuple[list[Any], NDArray[Any]]:
    dask = _require()
    labels = Classes.read(z.compute() if hasattr(z, "compute") else z, n_rows=len(data))
    rows = data.rechunk({1: -1})
    collect = dask.delayed(_statistics, pure=False)
    cuts = np.cumsum([0, *rows.chunks[0]])
    parts = [
        collect(block, labels.codes[start:stop], len(labels.classes))
        for block, start, stop in zip(rows.to_delayed().ravel(), cuts[:-1], cuts[1:], strict=True)
    ]
    return parts, labels.classes


def _of_frame(data: Any, z: Any, features: Features) -> tuple[list[Any], NDArray[Any]]:
    dask = _require()
    if not isinstance(z, str) or z not in data.columns:
        raise ValueError(
            f"Got labels {z!r}, but expected the name of a column: "
            f"{', '.join(map(str, data.columns))}."
        )
    classes = Classes.read(data[z].unique().compute()).classes
    collect = dask.delayed(_frame_statistics, pure=False)
    return [collect(p, z, features, classes) for p in data.to_delayed()], classes


def _frame_statistics(
    frame: Any, z: str, features: Features, classes: NDArray[Any]
) -> ClassStatistics | None:
    if not len(frame):  # a filter may leave no rows; the length of the vectors is then unknown
        return None
    columns = _columns(frame.drop(columns=z), features)
    X = matrix(_table(frame, columns), columns, where="a partition")
    return _statistics(X, encode_as(frame[z], classes), len(classes))


def _require() -> Any:
    require("Work on a Dask cluster", "dask", "dask", "distributed")
    import dask
    import dask.array

    return dask
