"""Rows that need not fit in memory: one small contract over arrays, memory maps and files.

A source has a shape and a dtype, reads rows from a start to a stop, at once or in chunks, and takes
rows by number. What it reads is a new float32 or float64 array; the source itself stays where it
is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.checks import check_count
from unspot.data.rows import in_memory
from unspot.io.arrow import (
    column_kinds,
    matrix,
    matrix_dtype,
    open_parquet,
    parquet_parts,
    reading_arrow,
    values,
)
from unspot.io.columns import OTHER, check_matrix, choose_features, missing
from unspot.io.files import file_format, prefetched, read_npy, release_pages
from unspot.io.tables import Read, Table, read_table

Floats = NDArray[np.floating[Any]]

#: Files and sources up to this size are read whole: staying on disk gains nothing.
LOAD_BYTES = 2**28

CHUNK_ROWS = 8192
#: The most bytes that a method which needs its rows in memory reads; of more it takes a sample.
SAMPLE_BYTES = 2**31

#: Rows taken from a memory map between two releases of its pages, and from one slice of a store.
_BLOCK = 4096

#: Rows of Parquet decoded at a time; a row group of any size is read in such pieces.
_BATCH = 8192


@runtime_checkable
class RowSource(Protocol):
    """Protocol of the rows that out-of-core fits read."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the dtype of what is read."""

    def read(self, start: int, stop: int) -> Floats:
        """Read rows ``start`` to ``stop``."""

    def take(self, rows: ArrayLike) -> Floats:
        """Read rows by number, in the order given."""

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """Yield rows ``start`` to ``stop``, at most ``rows_per_chunk`` at a time."""


def as_source(
    X: Any, *, features: str | Sequence[str] | None = None, labels: str | None = None
) -> RowSource:
    """Make a source of rows from arrays, files or stores.

    Parameters
    ----------
    X : array, memory map, path, store or source
        A numpy array or memory map; a path of ``.npy`` (memory-mapped), ``.npz``, ``.csv`` (both
        read into memory) or ``.parquet`` (a file or a folder, read by row group); a list of
        ``.npy`` or of Parquet paths; anything with shape, dtype and row slices, such as an HDF5,
        zarr or Dask array; a data frame or a tensor; a source, which is returned as it is.
    features : str or list of str, optional
        The columns with the vectors, for files that have columns.
    labels : str, optional
        A column with the labels, which is not a feature unless it is named as one.

    Examples
    --------
    >>> import numpy as np
    >>> source = as_source(np.arange(6.0).reshape(3, 2))
    >>> source.take([2, 0])
    array([[4., 5.],
           [0., 1.]])
    >>> [len(chunk) for chunk in source.chunks(2)]
    [2, 1]
    """
    if isinstance(X, RowSource):
        return X
    if isinstance(X, (str, os.PathLike)):
        path = Path(X)
        if file_format(path) == ".parquet":
            return ParquetSource([path], features=features, labels=labels)
        return ArraySource(read_table(path, features=features).X)
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], (str, os.PathLike)):
        paths = [Path(path) for path in X]
        if file_format(paths[0], (".npy", ".parquet")) == ".npy":
            return _npy_parts(paths)
        return ParquetSource(paths, features=features, labels=labels)
    if isinstance(X, np.ndarray):
        return ArraySource(X)
    if hasattr(X, "detach"):  # a tensor, without importing torch
        return ArraySource(in_memory(X))
    if hasattr(X, "to_numpy"):  # a data frame, without importing pandas
        return ArraySource(X.to_numpy())
    if all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return SliceSource(X)
    return ArraySource(np.asarray(X))


def open_table(
    path: str | os.PathLike[str], *, in_memory: int = LOAD_BYTES, **settings: Any
) -> Table:
    """Read a table, but leave the vectors of Parquet files above ``in_memory`` bytes on disk.

    Their ``X`` is then a ``ParquetSource``; the ``fit`` of every eraser takes it. Cost: the labels.

    Parameters
    ----------
    path : path
    in_memory : int
        The size on disk up to which Parquet files are read whole.
    **settings
        As in ``read_table``.
    """
    path = Path(path)
    parts = parquet_parts([path]) if file_format(path) == ".parquet" else []
    n_bytes = sum(part.stat().st_size for part in parts if part.is_file())
    take = partial(_some_rows, most=in_memory)
    reader = _leave_on_disk if n_bytes > in_memory else None
    return read_table(path, reader=reader, take=take, **settings)


def _some_rows(X: Any, rows: NDArray[np.int64], most: int) -> Any:
    """Take rows by number: into memory if they are small, else left where they are."""
    if isinstance(X, np.ndarray) and X.nbytes <= most:
        return X[rows]
    return SomeRows(as_source(X), rows)


def _leave_on_disk(path: Path, features: Any, roles: dict[str, str]) -> Read:
    source = ParquetSource([path], features=features, labels=list(roles.values()))
    labels = {role: source.column(name) for role, name in roles.items()}
    return source, source.features, labels


# -- Arrays, memory maps and stores ----------------------------------------------------------------


class _Source:
    """Base of sources: rows by number in the order of the source, and chunks by ``read``."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Floats:
        raise NotImplementedError

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        """Write the wanted rows into ``out``; ``order`` sorts them."""
        raise NotImplementedError

    def take(self, rows: ArrayLike) -> Floats:
        wanted = _check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        if len(wanted):
            self._fill(out, wanted, np.argsort(wanted, kind="stable"))
        return out

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        check_count("rows_per_chunk", rows_per_chunk)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        for first in range(start, end, rows_per_chunk):
            yield self.read(first, min(first + rows_per_chunk, end))


class ArraySource(_Source):
    """A numpy array or memory map.

    The pages of a memory map are given back after every chunk, so that reading a file of any size
    keeps the resident memory at the size of a chunk.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = check_matrix(array, "the array")
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = float_dtype(array.dtype)

    def read(self, start: int, stop: int) -> Floats:
        rows = np.array(self._array[start:stop], dtype=self.dtype, order="C")
        release_pages(self._array)
        return rows

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        for start in range(0, len(order), _BLOCK):
            block = order[start : start + _BLOCK]
            out[block] = self._array[wanted[block]]
            release_pages(self._array)


class SomeRows(_Source):
    """Some rows of another source, in its order.

    Parameters
    ----------
    source : RowSource
    rows : array of int
        Their numbers, ascending.
    """

    def __init__(self, source: RowSource, rows: NDArray[np.int64]) -> None:
        self._all, self._rows = source, rows
        self.shape = (len(rows), source.shape[1])
        self.dtype = source.dtype

    def read(self, start: int, stop: int) -> Floats:
        return self._all.take(self._rows[start:stop])

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        out[:] = self._all.take(self._rows[wanted])

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """See ``RowSource.chunks``; chunks may be shorter."""
        wanted = self._rows[start:stop]
        if not len(wanted):
            return
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        for X in self._all.chunks(rows_per_chunk, first, last):
            here = slice(*np.searchsorted(wanted, [first, first + len(X)]))
            if here.start < here.stop:
                yield X[wanted[here] - first]
            first += len(X)


class SliceSource(_Source):
    """Anything with shape, dtype and row slices: HDF5, zarr and Dask arrays, or your own.

    Rows are read in slices of the store's own chunks; chunks without a wanted row are not read.
    """

    def __init__(self, store: Any) -> None:
        if len(store.shape) != 2:
            raise ValueError(f"Got X of shape {tuple(store.shape)}, but expected (rows, features).")
        if any(size != size for size in store.shape):  # NaN: a Dask array that was filtered
            raise ValueError(
                "Got X with an unknown number of rows, but expected rows by number. For a Dask "
                "array, call X.compute_chunk_sizes() first."
            )
        self._store = store
        self.shape = (int(store.shape[0]), int(store.shape[1]))
        self.dtype = float_dtype(np.dtype(store.dtype))
        self._block = _rows_of_a_chunk(getattr(store, "chunks", None))

    def read(self, start: int, stop: int) -> Floats:
        return np.ascontiguousarray(self._store[start:stop], dtype=self.dtype)

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        cuts = np.flatnonzero(np.diff(wanted[order] // self._block)) + 1
        for part in np.split(order, cuts):
            first, last = int(wanted[part[0]]), int(wanted[part[-1]])
            out[part] = self.read(first, last + 1)[wanted[part] - first]


def _rows_of_a_chunk(chunks: Any) -> int:
    if not isinstance(chunks, tuple):
        return _BLOCK  # not chunked, or a method of that name
    rows = chunks[0]  # a number for h5py and zarr; for Dask, the sizes of all chunks
    return max(1, *rows) if isinstance(rows, tuple) else int(rows)


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Find the dtype that numbers of ``dtype`` are computed in: float32 or float64."""
    if dtype.kind not in "fiub":
        raise ValueError(f"Got X of dtype {dtype}, but expected numbers.")
    single = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if single else np.float64)


def _check_rows(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Convert row numbers to an array; refuse those that are out of range."""
    wanted = np.asarray(rows)
    if wanted.size == 0:
        return np.empty(0, dtype=np.int64)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        raise ValueError(
            f"Got rows of shape {wanted.shape} and dtype {wanted.dtype}, but expected a list of "
            "row numbers."
        )
    if wanted.min() < 0 or wanted.max() >= n_rows:
        raise ValueError(
            f"Got row numbers from {wanted.min()} to {wanted.max()}, but expected 0 to "
            f"{n_rows - 1}."
        )
    return wanted.astype(np.int64, copy=False)


# -- Many files ------------------------------------------------------------------------------------


class Parts(_Source):
    """Concatenate the rows of many sources, each of which is open only while it is read.

    Parameters
    ----------
    counts : sequence of int
        The number of rows of each part.
    open_part : callable
        Opens a part by its number.
    """

    def __init__(
        self,
        counts: Sequence[int],
        open_part: Callable[[int], RowSource],
        width: int,
        dtype: np.dtype[Any],
    ) -> None:
        self._open, self._starts = open_part, np.cumsum([0, *counts])
        self.shape, self.dtype = (int(self._starts[-1]), width), dtype

    def read(self, start: int, stop: int) -> Floats:
        parts = [part.read(low, high) for part, low, high in self._overlaps(start, stop)]
        return np.concatenate([np.empty((0, self.shape[1]), self.dtype), *parts], dtype=self.dtype)

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        check_count("rows_per_chunk", rows_per_chunk)
        for part, low, high in self._overlaps(start, self.shape[0] if stop is None else stop):
            for X in part.chunks(rows_per_chunk, low, high):
                yield X.astype(self.dtype, copy=False)

    def _overlaps(self, start: int, stop: int) -> Iterator[tuple[RowSource, int, int]]:
        """Open the parts that hold rows ``start`` to ``stop``, each with its own row numbers."""
        for i, (first, end) in enumerate(pairwise(self._starts.tolist())):
            low, high = max(start, first), min(stop, end)
            if low < high:
                yield self._open(i), low - first, high - first

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        cuts = np.searchsorted(wanted[order], self._starts)
        for i, (low, high) in enumerate(pairwise(cuts)):
            if low < high:
                rows = order[low:high]
                out[rows] = self._open(i).take(wanted[rows] - self._starts[i])


def _npy_parts(paths: Sequence[Path]) -> Parts:
    """Open ``.npy`` files: reads only their headers. Some may have no rows."""
    arrays = []
    for path in paths:
        file_format(path, (".npy",))
        X = read_npy(path)
        # Unlike a single file, one part of many may have no rows.
        without_rows = X.ndim == 2 and X.shape[0] == 0 < X.shape[1]
        check_matrix(np.zeros((1, X.shape[1]), X.dtype) if without_rows else X, str(path))
        arrays.append((X.shape, X.dtype))
        if X.shape[1] != arrays[0][0][1]:
            raise ValueError(
                f"Got vectors of length {X.shape[1]} in {str(path)!r}, but the first part has "
                f"length {arrays[0][0][1]}."
            )
    dtypes = [float_dtype(dtype) for shape, dtype in arrays if shape[0]]
    if not dtypes:
        where = repr(str(paths[0])) if len(paths) == 1 else f"all {len(paths)} files"
        raise ValueError(f"Got an empty table: there are no rows in {where}.")
    counts = [shape[0] for shape, _ in arrays]
    width, dtype = arrays[0][0][1], np.result_type(*dtypes)
    return Parts(counts, lambda i: ArraySource(read_npy(paths[i])), width, dtype)


class ParquetSource(Parts):
    """The vectors of Parquet files, in the order of the files' names.

    Parameters
    ----------
    paths : list of Path
        Files, or folders of them.
    features : str or list of str, optional
        The vector column, or many number columns; by default as in ``read_table``.
    labels : str or list of str, optional
        Columns with labels, which are not features unless they are named as such.

    Notes
    -----
    Opening reads only the footers. ``take`` and ``read`` decode the row groups that hold a wanted
    row, a few thousand rows at a time; files written with row groups of 10⁴ to 10⁵ rows are the
    best for it. (``pyarrow.dataset`` decodes all files for this.) To pass over rows in order use
    ``chunks``, which decodes every row group once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        features: str | Sequence[str] | None = None,
        labels: str | Sequence[str] | None = None,
    ) -> None:
        self.paths = parquet_parts(paths)
        self.features: list[str] = []
        taken = [labels] if isinstance(labels, str) else labels or ()
        groups: list[NDArray[np.int64]] = []  # where the row groups of each file begin
        width, dtypes = 0, []
        for path in self.paths:
            file = open_parquet(path)
            if not groups:
                kinds = column_kinds(file.schema_arrow)
                self.features = choose_features(features, kinds, taken=taken, where=str(path))
            _check_columns(file, self.features, path)
            groups.append(_group_starts(file.metadata))
            if file.metadata.num_rows:
                width = width or _width(file, self.features, path)
                dtypes.append(float_dtype(matrix_dtype(file.schema_arrow, self.features)))
        if not dtypes:
            where = repr(str(path)) if len(self.paths) == 1 else f"{len(self.paths)} files"
            raise ValueError(f"Got an empty table: {where} has no rows.")
        dtype = np.result_type(*dtypes)
        counts = [int(starts[-1]) for starts in groups]
        super().__init__(
            counts, lambda i: _ParquetPart(self.paths[i], groups[i], self), width, dtype
        )

    def column(self, name: str) -> NDArray[Any]:
        """Read another column whole: the labels of the concept."""
        columns = []
        for path in self.paths:
            file = open_parquet(path)
            _check_columns(file, [name], path, numbers=False)
            with reading_arrow(path):
                columns.append(values(file.read([name])[name]))
        return np.concatenate(columns)


def _group_starts(metadata: Any) -> NDArray[np.int64]:
    """Count rows up to each row group of a file, and to its end."""
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return np.cumsum([0, *sizes])


class _ParquetPart(_Source):
    """One of the files of a ``ParquetSource``."""

    def __init__(self, path: Path, starts: NDArray[np.int64], whole: ParquetSource) -> None:
        self._path, self._starts, self._features = path, starts, whole.features
        self.shape, self.dtype = (int(starts[-1]), whole.shape[1]), whole.dtype

    def read(self, start: int, stop: int) -> Floats:
        return self.take(np.arange(start, stop))

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """See ``RowSource.chunks``.

        A row group can only be decoded from its beginning, so what comes before ``start`` is
        decoded too, once, and dropped.
        """
        end = self.shape[0] if stop is None else stop
        first, last = np.searchsorted(self._starts, [start, end - 1], side="right") - 1
        for row, batch in self._batches([*range(first, last + 1)], rows_per_chunk):
            low, high = max(start - row, 0), min(end - row, batch.num_rows)
            if low < high:
                yield self._matrix(batch.slice(low, high - low), row + low)
            if row + batch.num_rows >= end:
                return

    def _fill(self, out: Floats, wanted: NDArray[np.int64], order: NDArray[np.int64]) -> None:
        rows = wanted[order]
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        for group in np.unique(groups):
            here = slice(*np.searchsorted(groups, [group, group + 1]))
            self._fill_from_group(out, int(group), rows[here], order[here])

    def _fill_from_group(
        self, out: Floats, group: int, rows: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        for row, batch in self._batches([group], _BATCH):
            here = slice(*np.searchsorted(rows, [row, row + batch.num_rows]))
            if here.start < here.stop:
                out[places[here]] = self._matrix(batch, row)[rows[here] - row]
            if here.stop == len(rows):
                return

    def _batches(self, groups: Sequence[int], size: int) -> Iterator[tuple[int, Any]]:
        """Decode row groups in batches, each with the number of its first row."""
        file, row = open_parquet(self._path), int(self._starts[groups[0]])
        with reading_arrow(self._path):
            for batch in file.iter_batches(size, row_groups=groups, columns=self._features):
                yield row, batch
                row += batch.num_rows

    def _matrix(self, batch: Any, row: int) -> Floats:
        X = matrix(batch, self._features, where=str(self._path), first_row=row)
        if X.shape[1] != self.shape[1]:
            raise ValueError(
                f"Got vectors of length {X.shape[1]} in {str(self._path)!r}, but the first part "
                f"has length {self.shape[1]}."
            )
        return X.astype(self.dtype, copy=False)


def _width(file: Any, features: Sequence[str], path: Path) -> int:
    """Find the length of the vectors of a file, from its first row."""
    with reading_arrow(path):
        first_row = next(file.iter_batches(1, columns=features))
    return int(matrix(first_row, features, where=str(path)).shape[1])


def _check_columns(file: Any, names: Sequence[str], path: Path, *, numbers: bool = True) -> None:
    """Refuse a file that lacks one of the columns, or has one that does not hold numbers."""
    schema = file.schema_arrow
    if absent := set(names) - set(schema.names):
        raise missing(min(absent), schema.names, str(path))
    if not (numbers and file.metadata.num_rows):  # without rows, there may be no type either
        return
    kinds = column_kinds(schema)
    if other := [name for name in names if kinds[name] == OTHER]:
        raise ValueError(
            f"Got column {other[0]!r} of type {schema.field(other[0]).type} in {str(path)!r}, but "
            "expected numbers or vectors of numbers, as in the first part."
        )


# -- Rows of a fit ---------------------------------------------------------------------------------


class Rows:
    """Rows of a source, checked for NaN and infinity as they are read; itself a source.

    Parameters
    ----------
    source : RowSource
    change : callable, optional
        What to do with rows when they are read, (m, d) → (m, width).
    width : int, optional
        The columns after ``change``.

    Examples
    --------
    >>> rows = Rows(as_source(np.arange(6.0).reshape(3, 2)))
    >>> rows[[2, 0]]
    array([[4., 5.],
           [0., 1.]])
    >>> (rows @ np.ones((2, 1)))[1:]
    array([[5.],
           [9.]])
    """

    def __init__(
        self,
        source: RowSource,
        *,
        change: Callable[[Floats], Floats] | None = None,
        width: int | None = None,
    ) -> None:
        self._source = source
        self._change = change
        self.shape: tuple[int, int] = (source.shape[0], width or source.shape[1])
        self.dtype = source.dtype

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """The memory that all rows would take."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, rows: slice | ArrayLike) -> Floats:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            return self.read(start, stop) if step == 1 else self.take(np.arange(start, stop, step))
        return self.take(rows)

    def __matmul__(self, U: NDArray[Any]) -> Rows:
        return self.mapped(lambda X: X @ U, U.shape[1])

    def mapped(self, change: Callable[[Floats], Floats], width: int | None = None) -> Rows:
        """Apply a function to the rows whenever they are read."""
        return Rows(self, change=change, width=width)

    def read(self, start: int, stop: int) -> Floats:
        stop = min(stop, len(self))
        return self._checked(self._source.read(start, stop), start)

    def take(self, rows: ArrayLike) -> Floats:
        numbers = np.asarray(rows, dtype=np.int64)
        return self._checked(self._source.take(numbers), numbers)

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """Rows in order; the next chunk is read while this one is worked on."""
        chunks = self._source.chunks(rows_per_chunk, start, stop)
        checked = self._checked_in_order(chunks, start)
        return checked if isinstance(self._source, Rows) else prefetched(checked)

    def load(self) -> Floats:
        """All rows in memory."""
        out: Floats = np.empty(self.shape, self.dtype)
        start = 0
        for chunk in self.chunks(CHUNK_ROWS):
            out[start : start + len(chunk)] = chunk
            start += len(chunk)
        return out

    def column(self, name: str) -> Any:
        """Another column of the source: the concept's labels."""
        if not hasattr(self._source, "column"):
            raise ValueError(
                f"Got labels {name!r}, a name, but only Parquet files have labels by name. Pass "
                "one label for each row."
            )
        if name in getattr(self._source, "features", ()):
            raise ValueError(
                f"Got labels {name!r}, which is also one of the features of X. Open the file with "
                f"as_source(…, labels={name!r}), or name its features."
            )
        return self._source.column(name)

    def _checked_in_order(self, chunks: Iterator[Floats], start: int) -> Iterator[Floats]:
        for chunk in chunks:
            yield self._checked(chunk, start)
            start += len(chunk)

    def _checked(self, X: Floats, rows: int | NDArray[np.int64]) -> Floats:
        if self._change is not None:
            return self._change(X)
        if not isinstance(self._source, Rows):
            _refuse_nonfinite(X, rows)
        return X


def _refuse_nonfinite(X: Floats, rows: int | NDArray[np.int64]) -> None:
    # One fast pass recognises clean rows. It uses no product: chunks are read in another thread,
    # and BLAS makes threads wait for each other.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum(dtype=np.promote_types(X.dtype, np.float32))):
            return
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        first = int(np.argmax(bad))
        row = rows + first if isinstance(rows, int) else int(rows[first])
        raise ValueError(
            f"Got NaN or infinity in row {row} of X, but expected finite numbers. Drop or impute "
            "such rows."
        )


# -- What a user may pass as X ---------------------------------------------------------------------


def is_stream(X: Any) -> bool:
    """Tell whether X is an iterator, or an iterable without rows by number."""
    by_number = ("__getitem__", "__array__", "shape")
    unordered = hasattr(X, "__iter__") and not any(hasattr(X, name) for name in by_number)
    return hasattr(X, "__next__") or unordered


def opened(X: Any, concept: Any) -> tuple[Any, Any]:
    """X and labels ready for a fit.

    A path, a list of paths, a memory map, an array of another library on disk or a ``RowSource``
    becomes ``Rows``, or an array if it has at most ``LOAD_BYTES``. Anything else stays as it is. A
    string as labels is the name of a column of the source.
    """
    if not _is_outside_memory(X):
        return X, concept
    name = concept if isinstance(concept, str) else None
    rows = X if isinstance(X, Rows) else Rows(as_source(X, labels=name))
    if name is not None:
        concept = rows.column(name)
    return (rows if rows.nbytes > LOAD_BYTES else rows.load()), concept


def _is_outside_memory(X: Any) -> bool:
    from scipy.sparse import issparse

    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap)
    if isinstance(X, (str, os.PathLike, RowSource)):
        return True
    if isinstance(X, (list, tuple)):
        return bool(X) and isinstance(X[0], (str, os.PathLike))
    store = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    # Tensors, frames, sparse matrices and arrays of other libraries are in memory already.
    inside = ("detach", "to_numpy", "__array_namespace__")
    return store and not issparse(X) and not any(hasattr(X, name) for name in inside)


# -- Methods that need their rows in memory --------------------------------------------------------


def sampled(
    rows: Rows, goal: Any, rng: np.random.Generator, *, min_rows: int = 1
) -> tuple[Floats, Any]:
    """Read rows into memory: all of them up to ``SAMPLE_BYTES``, else a stratified sample.

    Each class has at least ``min_rows``. The goal is that of the rows that were read.
    """
    if rows.nbytes <= SAMPLE_BYTES:
        return rows.load(), goal
    share, strata = SAMPLE_BYTES / rows.nbytes, goal.erase.strata
    parts = []
    for k, count in enumerate(np.bincount(strata)):
        n = min(int(count), max(min_rows, int(share * count)))
        parts.append(rng.permutation(np.flatnonzero(strata == k))[:n])
    chosen = np.sort(np.concatenate(parts))
    return rows[chosen], goal.take(chosen)
