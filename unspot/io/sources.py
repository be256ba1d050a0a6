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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.checks import check_count
from unspot.data.rows import in_memory, refuse_nonfinite
from unspot.io.columns import (
    OTHER,
    check_matrix,
    choose_features,
    column_kinds,
    first_text,
    matrix,
    matrix_dtype,
    values,
)
from unspot.io.files import (
    check_columns,
    file_format,
    is_text,
    open_parquet,
    parquet_parts,
    prefetched,
    read_csv,
    read_npy,
    read_npz,
    read_parquet,
    reading_arrow,
    release_pages,
)

Floats = NDArray[np.floating[Any]]

#: Files and sources up to this size are read whole: staying on disk gains nothing.
LOAD_BYTES = 2**28

CHUNK_ROWS = 8192
#: The most bytes that a method which needs its rows in memory reads; of more it takes a sample.
SAMPLE_BYTES = 2**31

#: Rows of a store that says nothing of its chunks, and rows of Parquet, decoded at a time.
_BLOCK = 8192
#: How much of a memory map rows are taken from between two releases of its pages.
_MAPPED_BYTES = 2**24


class RowSource:
    """Rows that out-of-core fits read: ``read`` or ``chunks`` must be defined, ``take`` may be.

    Attributes
    ----------
    shape : (int, int)
        Rows and features.
    dtype : dtype
        float32 or float64: the dtype of what is read.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Compute the memory of all rows, in bytes."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def read(self, start: int, stop: int) -> Floats:
        """Read rows ``start`` to ``stop``."""
        nothing: Floats = np.empty((0, self.shape[1]), self.dtype)
        return np.concatenate([nothing, *self.chunks(_BLOCK, start, stop)])

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """Yield rows ``start`` to ``stop``, at most ``rows_per_chunk`` at a time."""
        check_count("rows_per_chunk", rows_per_chunk)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        for first in range(start, end, rows_per_chunk):
            yield self.read(first, min(first + rows_per_chunk, end))

    def take(self, rows: ArrayLike) -> Floats:
        """Read rows by number, in the order given; blocks without such a row are not read."""
        wanted = _check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        if not len(wanted):
            return out
        order = np.argsort(wanted, kind="stable")
        blocks = self._blocks(wanted[order])
        cuts = np.flatnonzero(np.diff(blocks)) + 1
        for block, places in zip(blocks[[0, *cuts]], np.split(order, cuts), strict=True):
            out[places] = self._take_from(int(block), wanted[places])
        return out

    def _blocks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the number of the block that each row is read with."""
        return rows // _BLOCK

    def _take_from(self, block: int, rows: NDArray[np.int64]) -> Floats:
        """Read rows of one block by number, which ascend."""
        row, parts = int(rows[0]), []
        for X in self.chunks(_BLOCK, row, int(rows[-1]) + 1):
            here = slice(*np.searchsorted(rows, [row, row + len(X)]))
            parts.append(X[rows[here] - row])
            row += len(X)
        return np.concatenate(parts)

    def load(self) -> Floats:
        """Read all rows into memory."""
        out: Floats = np.empty(self.shape, self.dtype)
        start = 0
        for chunk in self.chunks(CHUNK_ROWS):
            out[start : start + len(chunk)] = chunk
            start += len(chunk)
        return out

    def column(self, name: str) -> Any:
        """Read another column: the labels of the concept."""
        raise ValueError(
            f"Got labels {name!r}, a name, but only Parquet files have labels by name. Pass one "
            "label for each row."
        )


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
    taken = [] if labels is None else [labels]
    if isinstance(X, (str, os.PathLike)):
        return as_source(open_vectors(Path(X), features, taken)[0])
    if _are_paths(X):
        paths = [Path(path) for path in X]
        if file_format(paths[0], (".npy", ".parquet")) == ".npy":
            return _npy_parts(paths)
        return ParquetSource(paths, features=features, labels=taken)
    return SliceSource(X) if _is_store(X) else ArraySource(np.asanyarray(in_memory(X)))


def open_vectors(
    path: Path, features: str | Sequence[str] | None, taken: Sequence[str]
) -> tuple[Any, list[str]]:
    """Open the vectors of a file: a memory map, an array, or a ``ParquetSource``.

    Returns
    -------
    X : array or ParquetSource
    names : list of str
        The columns, or the array of a ``.npz``, that X comes from.
    """
    suffix = file_format(path)
    if suffix == ".parquet":
        source = ParquetSource([path], features=features, labels=taken)
        return source, source.features
    if suffix == ".npz":
        name = "X" if features is None else str(features)
        return read_npz(path, [name])[name], [name]
    if is_text(path):
        table = read_csv(path)
        names = _choose(features, table.schema, table.column, taken, path)
        return matrix(table, names, where=str(path)), names
    if features is not None:
        raise no_columns(str(features), path)
    return read_npy(path), []


def no_columns(name: str, path: Path) -> ValueError:
    """Make the error for a name that is asked of a file without columns."""
    return ValueError(
        f"Got {name!r}, but {str(path)!r} is one array and has no columns. Give the labels in a "
        "second file, with --labels, in the order of the rows."
    )


def _choose(
    features: Any, schema: Any, column: Callable[[str], Any], taken: Sequence[str], path: Path
) -> list[str]:
    """Choose the columns that hold the vectors; ``column`` reads one, to show what is wrong."""
    return choose_features(
        features,
        column_kinds(schema),
        taken=taken,
        where=str(path),
        first_text=lambda name: first_text(column(name)),
    )


# -- Arrays, memory maps and stores ----------------------------------------------------------------


class SliceSource(RowSource):
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

    def _blocks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows // self._block


def _rows_of_a_chunk(chunks: Any) -> int:
    if not isinstance(chunks, tuple):
        return _BLOCK  # not chunked, or a method of that name
    rows = chunks[0]  # a number for h5py and zarr; for Dask, the sizes of all chunks
    return max(1, *rows) if isinstance(rows, tuple) else int(rows)


class ArraySource(SliceSource):
    """A numpy array or memory map.

    The pages of a memory map are given back after every chunk, so that reading a file of any size
    keeps the resident memory at the size of a chunk.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        super().__init__(check_matrix(array, "the array"))
        self._block = max(1, _MAPPED_BYTES // (array.shape[1] * array.itemsize))

    def read(self, start: int, stop: int) -> Floats:
        rows = np.array(self._store[start:stop], dtype=self.dtype, order="C")
        release_pages(self._store)
        return rows

    def _take_from(self, block: int, rows: NDArray[np.int64]) -> Floats:
        X: Floats = self._store[rows]
        release_pages(self._store)
        return X


class SomeRows(RowSource):
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

    def take(self, rows: ArrayLike) -> Floats:
        return self._all.take(self._rows[_check_rows(rows, len(self._rows))])

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
    numbers = wanted.ndim == 1 and wanted.dtype.kind in "iu"
    if not numbers or wanted.min() < 0 or wanted.max() >= n_rows:
        raise ValueError(
            f"Got rows {rows!r:.60}, but expected a list of row numbers from 0 to {n_rows - 1}."
        )
    return wanted.astype(np.int64, copy=False)


# -- Many files ------------------------------------------------------------------------------------


class Parts(RowSource):
    """Concatenate the rows of many sources, each of which is open only while it is read.

    Parameters
    ----------
    paths : sequence of Path
        The files of the parts.
    counts : sequence of int
        The number of rows of each part.
    dtypes : sequence of dtype
        Those of the parts that have rows.
    open_part : callable
        Opens a part by its number.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        counts: Sequence[int],
        width: int,
        dtypes: Sequence[np.dtype[Any]],
        open_part: Callable[[int], RowSource],
    ) -> None:
        if not dtypes:
            where = repr(str(paths[0])) if len(paths) == 1 else f"all {len(paths)} files"
            raise ValueError(f"Got an empty table: there are no rows in {where}.")
        self._open, self._starts = open_part, np.cumsum([0, *counts])
        self.shape = (int(self._starts[-1]), width)
        self.dtype = np.result_type(*map(float_dtype, dtypes))

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        check_count("rows_per_chunk", rows_per_chunk)
        last = self.shape[0] if stop is None else stop
        for i, (first, end) in enumerate(pairwise(self._starts.tolist())):
            low, high = max(start, first), min(last, end)
            if low < high:
                part = self._open(i).chunks(rows_per_chunk, low - first, high - first)
                yield from (X.astype(self.dtype, copy=False) for X in part)

    def _blocks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _take_from(self, block: int, rows: NDArray[np.int64]) -> Floats:
        return self._open(block).take(rows - self._starts[block])


def _npy_parts(paths: Sequence[Path]) -> Parts:
    """Open ``.npy`` files: reads only their headers. Some may have no rows."""
    counts, dtypes, width = [], [], None
    for path in paths:
        file_format(path, (".npy",))
        X = check_matrix(read_npy(path), str(path), min_rows=0)
        width = X.shape[1] if width is None else width
        _check_width(X, width, path)
        counts.append(len(X))
        dtypes += [X.dtype] if len(X) else []
    return Parts(paths, counts, width or 0, dtypes, lambda i: ArraySource(read_npy(paths[i])))


def _check_width(X: NDArray[Any], width: int, path: Path) -> None:
    if X.shape[1] != width:
        raise ValueError(
            f"Got vectors of length {X.shape[1]} in {str(path)!r}, but the first part has length "
            f"{width}."
        )


class ParquetSource(Parts):
    """The vectors of Parquet files, in the order of the files' names.

    Parameters
    ----------
    paths : list of Path
        Files, or folders of them.
    features : str or list of str, optional
        The vector column, or many number columns; by default as in ``read_table``.
    labels : list of str
        Columns with labels, which are not features unless they are named as such.

    Notes
    -----
    Opening reads only the footers. ``take`` decodes the row groups that hold a wanted row, a few
    thousand rows at a time; files written with row groups of 10⁴ to 10⁵ rows are the best for it.
    (``pyarrow.dataset`` decodes all files for this.) To pass over rows in order use ``chunks``,
    which decodes every row group once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        features: str | Sequence[str] | None = None,
        labels: Sequence[str] = (),
    ) -> None:
        self.paths = parquet_parts(paths)
        self.features: list[str] = []
        groups: list[NDArray[np.int64]] = []  # where the row groups of each file begin
        width, dtypes = 0, []
        for path in self.paths:
            file = open_parquet(path)
            self.features = self.features or _choose(
                features, file.schema_arrow, partial(_column, file), labels, path
            )
            _check_features(file, self.features, path)
            groups.append(_group_starts(file.metadata))
            if file.metadata.num_rows:
                width = width or _width(file, self.features, path)
                dtypes.append(matrix_dtype(file.schema_arrow, self.features))
        counts = [int(starts[-1]) for starts in groups]
        super().__init__(
            self.paths,
            counts,
            width,
            dtypes,
            lambda i: _ParquetPart(self.paths[i], groups[i], self),
        )

    def column(self, name: str) -> NDArray[Any]:
        if name in self.features:
            raise ValueError(
                f"Got labels {name!r}, which is also one of the features of X. Open the file with "
                f"as_source(…, labels={name!r}), or name its features."
            )
        return values(read_parquet(self.paths, [name])[name])


def _column(file: Any, name: str) -> Any:
    return file.read([name])[name]


def _group_starts(metadata: Any) -> NDArray[np.int64]:
    """Count rows up to each row group of a file, and to its end."""
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return np.cumsum([0, *sizes])


class _ParquetPart(RowSource):
    """One of the files of a ``ParquetSource``, whose blocks are its row groups."""

    def __init__(self, path: Path, starts: NDArray[np.int64], whole: ParquetSource) -> None:
        self._path, self._starts, self._features = path, starts, whole.features
        self.shape, self.dtype = (int(starts[-1]), whole.shape[1]), whole.dtype

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """See ``RowSource.chunks``.

        A row group can only be decoded from its beginning, so what comes before ``start`` is
        decoded too, once, and dropped.
        """
        end = self.shape[0] if stop is None else stop
        first, last = self._blocks(np.array([start, end - 1]))
        file, row = open_parquet(self._path), int(self._starts[first])
        groups = list(range(first, last + 1))
        with reading_arrow(self._path):
            for batch in file.iter_batches(
                rows_per_chunk, row_groups=groups, columns=self._features
            ):
                low, high = max(start - row, 0), min(end - row, batch.num_rows)
                if low < high:
                    yield self._matrix(batch.slice(low, high - low), row + low)
                row += batch.num_rows
                if row >= end:
                    return

    def _blocks(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _matrix(self, batch: Any, row: int) -> Floats:
        X = matrix(batch, self._features, where=str(self._path), first_row=row)
        _check_width(X, self.shape[1], self._path)
        return X.astype(self.dtype, copy=False)


def _width(file: Any, features: Sequence[str], path: Path) -> int:
    """Find the length of the vectors of a file, from its first row."""
    with reading_arrow(path):
        first_row = next(file.iter_batches(1, columns=features))
    return int(matrix(first_row, features, where=str(path)).shape[1])


def _check_features(file: Any, names: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks one of the columns, or has one that does not hold numbers."""
    schema = file.schema_arrow
    check_columns(schema.names, names, path)
    kinds = column_kinds(schema)
    other = [name for name in names if kinds[name] == OTHER]
    if other and file.metadata.num_rows:  # without rows, there may be no type either
        raise ValueError(
            f"Got column {other[0]!r} of type {schema.field(other[0]).type} in {str(path)!r}, but "
            "expected numbers or vectors of numbers, as in the first part."
        )


# -- Rows of a fit ---------------------------------------------------------------------------------


class Rows(RowSource):
    """Rows of a source, checked for NaN and infinity as they are read; itself a source.

    Parameters
    ----------
    source : RowSource
    change : callable, optional
        Function applied to rows when they are read, (m, d) → (m, width).
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
        return self._checked(self._source.read(start, stop), start)

    def take(self, rows: ArrayLike) -> Floats:
        numbers = np.asarray(rows, dtype=np.int64)
        return self._checked(self._source.take(numbers), numbers)

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """Yield rows in order; the next chunk is read while this one is worked on."""
        chunks = self._source.chunks(rows_per_chunk, start, stop)
        checked = self._checked_in_order(chunks, start)
        return checked if isinstance(self._source, Rows) else prefetched(checked)

    def column(self, name: str) -> Any:
        return self._source.column(name)

    def _checked_in_order(self, chunks: Iterator[Floats], start: int) -> Iterator[Floats]:
        for chunk in chunks:
            yield self._checked(chunk, start)
            start += len(chunk)

    def _checked(self, X: Floats, rows: int | NDArray[np.int64]) -> Floats:
        if self._change is not None:
            return self._change(X)
        refuse_nonfinite(X, numbers=rows)
        return X


# -- What a user may pass as X ---------------------------------------------------------------------


def is_stream(X: Any) -> bool:
    """Tell whether X is an iterator, or an iterable without rows by number."""
    by_number = ("__getitem__", "__array__", "shape")
    unordered = hasattr(X, "__iter__") and not any(hasattr(X, name) for name in by_number)
    return hasattr(X, "__next__") or unordered


def opened(X: Any, concept: Any) -> tuple[Any, Any]:
    """Prepare X and labels for a fit.

    A path, a list of paths, a memory map, an array of another library on disk or a ``RowSource``
    becomes ``Rows``, or an array if it has at most ``LOAD_BYTES``. Anything else stays as it is. A
    string as labels is the name of a column of the source.
    """
    is_outside = isinstance(X, (str, os.PathLike, RowSource, np.memmap))
    if not (is_outside or _are_paths(X) or _is_store(X)):
        return X, concept
    name = concept if isinstance(concept, str) else None
    rows = X if isinstance(X, Rows) else Rows(as_source(X, labels=name))
    if name is not None:
        concept = rows.column(name)
    return loaded_if_small(rows), concept


def loaded_if_small(source: RowSource) -> Any:
    """Read the rows of a source into memory if they take at most ``LOAD_BYTES``."""
    return source.load() if source.nbytes <= LOAD_BYTES else source


def _are_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and bool(X) and isinstance(X[0], (str, os.PathLike))


def _is_store(X: Any) -> bool:
    """Check for an array of another library on disk: shape, dtype and row slices."""
    store = all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))
    # Tensors, frames, sparse matrices and arrays of other libraries are in memory already.
    inside = ("detach", "to_numpy", "tocsr", "__array_namespace__")
    known = isinstance(X, np.ndarray) or any(hasattr(X, name) for name in inside)
    return store and not known


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
