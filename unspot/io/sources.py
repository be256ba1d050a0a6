"""Rows that need not fit in memory: one small contract over arrays, memory maps and files.

A source has a shape and a dtype, reads rows from a start to a stop, at once or in chunks, and takes
rows by number. What it reads is a new float32 or float64 array; the source itself stays where it
is.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.checks import check_count
from unspot.io.arrays import check_matrix, read_npy
from unspot.io.arrow import (
    column_kinds,
    is_list,
    matrix,
    matrix_dtype,
    open_parquet,
    parquet_parts,
    reading_parquet,
    values,
)
from unspot.io.columns import OTHER, choose_features, missing
from unspot.io.files import file_format
from unspot.io.tables import Table, make_table, read_roles, read_table

__all__ = [
    "LOAD_BYTES",
    "ArraySource",
    "NpyParts",
    "ParquetSource",
    "RowSource",
    "SliceSource",
    "as_source",
    "open_table",
    "prefetched",
]

Floats = NDArray[np.floating[Any]]

#: Files and sources up to this size are read whole: staying on disk gains nothing.
LOAD_BYTES = 2**28

#: Rows taken from a memory map between two releases of its pages, and from one slice of a store.
_BLOCK = 4096

#: Rows of Parquet decoded at a time; a row group of any size is read in such pieces.
_BATCH = 8192


@runtime_checkable
class RowSource(Protocol):
    """What out-of-core fits read from."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, features)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the dtype of what is read."""

    def read(self, start: int, stop: int) -> Floats:
        """Rows ``start`` to ``stop``."""

    def take(self, rows: ArrayLike) -> Floats:
        """Rows by number, in the order given."""

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        """Rows ``start`` to ``stop``, by default all, at most ``rows_per_chunk`` at a time."""


def as_source(
    X: Any, *, features: str | Sequence[str] | None = None, labels: str | None = None
) -> RowSource:
    """A source of rows, from arrays, files or stores.

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
            return NpyParts(paths)
        return ParquetSource(paths, features=features, labels=labels)
    if isinstance(X, np.ndarray):
        return ArraySource(X)
    if hasattr(X, "detach"):  # a tensor, without importing torch
        return ArraySource(X.detach().cpu().numpy())
    if hasattr(X, "to_numpy"):  # a data frame, without importing pandas
        return ArraySource(X.to_numpy())
    if all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return SliceSource(X)
    return ArraySource(np.asarray(X))


def open_table(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    concept: str | None = None,
    task: str | None = None,
    names: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
    in_memory: int = LOAD_BYTES,
) -> Table:
    """As ``read_table``, but the vectors of Parquet files above ``in_memory`` bytes stay on disk.

    Their ``X`` is then a ``ParquetSource``; the ``fit`` of every eraser takes it. Cost: the labels.

    Parameters
    ----------
    path, features, concept, task, names, labels_file
        As in ``read_table``.
    in_memory : int
        The size on disk up to which Parquet files are read whole.
    """
    path = Path(path)
    parts = parquet_parts([path]) if file_format(path) == ".parquet" else []
    if sum(part.stat().st_size for part in parts if part.is_file()) <= in_memory:
        return read_table(
            path,
            features=features,
            concept=concept,
            task=task,
            names=names,
            labels_file=labels_file,
        )
    roles = {"z": concept, "y": task, "names": names}
    columns, remaining = read_roles(labels_file, roles)
    source = ParquetSource(parts, features=features, labels=list(remaining.values()))
    columns |= {role: source.column(name) for role, name in remaining.items()}
    return make_table(source, columns, source.features, roles, labels_file or path)


# -- Arrays, memory maps and stores ----------------------------------------------------------------


class ArraySource:
    """A numpy array or memory map.

    The pages of a memory map are given back after every chunk, so that reading a file of any size
    keeps the resident memory at the size of a chunk.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = check_matrix(array, "the array")
        self._map = _backing_map(array)
        self.shape: tuple[int, int] = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = float_dtype(array.dtype)

    def read(self, start: int, stop: int) -> Floats:
        rows = np.array(self._array[start:stop], dtype=self.dtype, order="C")
        self._release()
        return rows

    def take(self, rows: ArrayLike) -> Floats:
        wanted = check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        order = np.argsort(wanted, kind="stable")
        for start in range(0, len(order), _BLOCK):
            block = order[start : start + _BLOCK]
            out[block] = self._array[wanted[block]]
            self._release()
        return out

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        return read_in_chunks(self, rows_per_chunk, start, stop)

    def _release(self) -> None:
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


class SliceSource:
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
        self.shape: tuple[int, int] = (int(store.shape[0]), int(store.shape[1]))
        self.dtype = float_dtype(np.dtype(store.dtype))
        self._block = _rows_of_a_chunk(getattr(store, "chunks", None))

    def read(self, start: int, stop: int) -> Floats:
        return np.ascontiguousarray(self._store[start:stop], dtype=self.dtype)

    def take(self, rows: ArrayLike) -> Floats:
        wanted = check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        order = np.argsort(wanted, kind="stable")
        cuts = np.flatnonzero(np.diff(wanted[order] // self._block)) + 1
        for part in np.split(order, cuts) if len(order) else []:
            first, last = int(wanted[part[0]]), int(wanted[part[-1]])
            out[part] = self.read(first, last + 1)[wanted[part] - first]
        return out

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        return read_in_chunks(self, rows_per_chunk, start, stop)


def _rows_of_a_chunk(chunks: Any) -> int:
    if not isinstance(chunks, tuple):
        return _BLOCK  # not chunked, or a method of that name
    rows = chunks[0]  # a number for h5py and zarr; for Dask, the sizes of all chunks
    return max(1, *rows) if isinstance(rows, tuple) else int(rows)


def read_in_chunks(
    source: RowSource, rows_per_chunk: int, start: int = 0, stop: int | None = None
) -> Iterator[Floats]:
    """Chunks of a source by its ``read``."""
    check_count("rows_per_chunk", rows_per_chunk)
    end = source.shape[0] if stop is None else min(stop, source.shape[0])
    for first in range(start, end, rows_per_chunk):
        yield source.read(first, min(first + rows_per_chunk, end))


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that numbers of ``dtype`` are computed in: float32 or float64."""
    if dtype.kind not in "fiub":
        raise ValueError(f"Got X of dtype {dtype}, but expected numbers.")
    single = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if single else np.float64)


def check_rows(rows: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Row numbers as an array; an error if one is out of range."""
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


def _backing_map(array: NDArray[Any]) -> mmap.mmap | None:
    """The map whose pages may be given back: a file's, and not a private copy of it."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode == "c":
            return None  # a private map would lose what was written to it
        base = base.base
    return base if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


# -- Many .npy files -------------------------------------------------------------------------------


class _Part(NamedTuple):
    """What a map of the file needs, so that its header is parsed once."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    offset: int
    order: Any  # "C" or "F"

    def open(self) -> ArraySource:
        array: NDArray[Any] = np.memmap(
            self.path, self.dtype, "r", self.offset, self.shape, self.order
        )
        return ArraySource(array)


class NpyParts:
    """The rows of ``.npy`` files, in the order given.

    Opening reads only the headers. A file is mapped only while it is read, so that there may be
    more files than a process may keep open. Some may have no rows.

    Parameters
    ----------
    paths : list of Path
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._parts = [_header(path) for path in paths]
        first = self._parts[0]
        filled = [part for part in self._parts if part.shape[0]]
        for part in self._parts:
            if part.shape[1] != first.shape[1]:
                raise ValueError(
                    f"Got vectors of length {part.shape[1]} in {str(part.path)!r}, but the first "
                    f"part has length {first.shape[1]}."
                )
        if not filled:
            where = repr(str(first.path)) if len(paths) == 1 else f"all {len(paths)} files"
            raise ValueError(f"Got an empty table: there are no rows in {where}.")
        self._starts = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        self.shape: tuple[int, int] = (int(self._starts[-1]), first.shape[1])
        self.dtype = np.result_type(*(float_dtype(part.dtype) for part in filled))

    def read(self, start: int, stop: int) -> Floats:
        start, stop = max(start, 0), min(stop, self.shape[0])
        out: Floats = np.empty((max(0, stop - start), self.shape[1]), self.dtype)
        for part, first in zip(self._parts, self._starts, strict=False):
            low, high = max(start, int(first)), min(stop, int(first) + part.shape[0])
            if low < high:
                out[low - start : high - start] = part.open().read(low - first, high - first)
        return out

    def take(self, rows: ArrayLike) -> Floats:
        wanted = check_rows(rows, self.shape[0])
        out: Floats = np.empty((len(wanted), self.shape[1]), self.dtype)
        order = np.argsort(wanted, kind="stable")
        cuts = np.searchsorted(wanted[order], self._starts)
        for part, first, low, high in zip(
            self._parts, self._starts, cuts[:-1], cuts[1:], strict=False
        ):
            if low < high:
                mine = order[low:high]
                out[mine] = part.open().take(wanted[mine] - first)
        return out

    def chunks(
        self, rows_per_chunk: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Floats]:
        return read_in_chunks(self, rows_per_chunk, start, stop)


def _header(path: Path) -> _Part:
    file_format(path, (".npy",))
    array = _checked(read_npy(path), str(path))
    order = "C" if array.flags.c_contiguous else "F"
    return _Part(path, array.dtype, (array.shape[0], array.shape[1]), array.offset, order)  # type: ignore[attr-defined]


def _checked(array: NDArray[Any], where: str) -> NDArray[Any]:
    """A table of numbers; unlike a single file, one part of many may have no rows."""
    without_rows = array.ndim == 2 and array.shape[0] == 0 < array.shape[1]
    check_matrix(np.zeros((1, array.shape[1]), array.dtype) if without_rows else array, where)
    return array


# -- Parquet files and folders of them, with random access by row group ----------------------------


class _Group(NamedTuple):
    file: int  # which file
    number: int  # which row group of it
    start: int  # its first row, counted over all files
    stop: int
    first: int  # the same row, counted in its own file
    dtype: np.dtype[Any]  # the dtype to read its file in


class ParquetSource:
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
    best for it. To pass over rows in order use ``chunks``, which decodes every row group once.
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
        self._groups: list[_Group] = []
        taken = [labels] if isinstance(labels, str) else labels or ()
        n_rows, width = 0, 0
        for f, path in enumerate(self.paths):
            file = open_parquet(path)
            if not f:
                kinds = column_kinds(file.schema_arrow)
                self.features = choose_features(features, kinds, taken=taken, where=str(path))
            groups = list(_groups(file, f, n_rows, _read_dtype(file, self.features, path)))
            if groups and not self._groups:
                width = self._width(file, path)
            self._groups += groups
            n_rows += file.metadata.num_rows
        if n_rows == 0:
            where = repr(str(path)) if len(self.paths) == 1 else f"{len(self.paths)} files"
            raise ValueError(f"Got an empty table: {where} has no rows.")
        self._starts = np.array([group.start for group in self._groups], dtype=np.int64)
        self.shape: tuple[int, int] = (n_rows, width)
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
        check_count("rows_per_chunk", rows_per_chunk)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        wanted = [group for group in self._groups if group.start < end and start < group.stop]
        for _, groups in groupby(wanted, key=lambda group: group.file):
            yield from self._chunks_of_file(list(groups), rows_per_chunk, start, end)

    def column(self, name: str) -> NDArray[Any]:
        """Another column, whole: the labels of the concept."""
        columns = []
        for path in self.paths:
            file = open_parquet(path)
            if name not in file.schema_arrow.names:
                raise missing(name, file.schema_arrow.names, str(path))
            with reading_parquet(path):
                columns.append(values(file.read([name])[name]))
        return np.concatenate(columns)

    def _chunks_of_file(
        self, groups: list[_Group], rows_per_chunk: int, start: int, stop: int
    ) -> Iterator[Floats]:
        """The rows from ``start`` to ``stop`` that row groups of one file hold.

        A row group can only be decoded from its beginning, so what comes before ``start`` is
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

    def _batches(self, path: Path, size: int, groups: list[int]) -> Iterator[Any]:
        file = open_parquet(path)
        with reading_parquet(path):
            yield from file.iter_batches(size, row_groups=groups, columns=self.features)

    def _matrix(self, batch: Any, path: Path, start: int) -> Floats:
        X = matrix(batch, self.features, where=str(path), first_row=start)
        if X.shape[1] != self.shape[1]:
            raise ValueError(
                f"Got vectors of length {X.shape[1]} in {str(path)!r}, but the first part has "
                f"length {self.shape[1]}."
            )
        return X.astype(self.dtype, copy=False)

    def _width(self, file: Any, path: Path) -> int:
        """The length of the vectors of a file: known from the schema, or from the first row."""
        if not is_list(file.schema_arrow.field(self.features[0]).type):
            return len(self.features)
        with reading_parquet(path):
            first_row = next(file.iter_batches(1, columns=self.features))
        return int(matrix(first_row, self.features, where=str(path)).shape[1])


def _groups(file: Any, number: int, start: int, dtype: np.dtype[Any]) -> Iterator[_Group]:
    """The row groups with rows of the file of this number, whose first row has number ``start``."""
    row = start
    for g in range(file.metadata.num_row_groups):
        stop = row + file.metadata.row_group(g).num_rows
        if stop > row:
            yield _Group(number, g, row, stop, row - start, dtype)
        row = stop


def _read_dtype(file: Any, features: Sequence[str], path: Path) -> np.dtype[Any]:
    """The dtype to read the vectors of a file in; an error if it does not have them."""
    schema = file.schema_arrow
    if absent := set(features) - set(schema.names):
        raise missing(min(absent), schema.names, str(path))
    if not file.metadata.num_rows:  # nothing to read; without a value there may be no type either
        return np.dtype(np.float32)
    kinds = column_kinds(schema)
    if other := [name for name in features if kinds[name] == OTHER]:
        raise ValueError(
            f"Got column {other[0]!r} of type {schema.field(other[0]).type} in {str(path)!r}, but "
            "expected numbers or vectors of numbers, as in the first part."
        )
    return float_dtype(matrix_dtype(schema, features))


# -- Reading ahead ---------------------------------------------------------------------------------


def prefetched(chunks: Iterator[NDArray[Any]]) -> Generator[NDArray[Any]]:
    """The same chunks; a thread reads the next one while this one is used. Memory: two chunks.

    Examples
    --------
    >>> import numpy as np
    >>> [len(chunk) for chunk in prefetched(iter([np.ones(2), np.ones(1)]))]
    [2, 1]
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk
