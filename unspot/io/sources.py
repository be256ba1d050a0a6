"""Rows that need not fit in memory: one small contract over arrays, memory maps, files.

A source has a shape and a dtype, reads rows from a start to a stop, at once or in chunks, and takes
rows by number. Whatever it reads is a float32 or float64 array of its own; the source itself stays
where it is.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.io.arrays import check_matrix, read_npy
from unspot.io.files import file_format

__all__ = ["ArraySource", "NpyParts", "RowSource", "SliceSource", "as_source", "prefetched"]

Floats = NDArray[np.floating[Any]]

#: Rows taken from a memory map between two releases of its pages, and from one slice of a store.
_BLOCK = 4096


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
    """A source of rows over whatever holds them.

    Parameters
    ----------
    X : array, memory map, path, dataset or source
        A numpy array or memory map; a path of ``.npy`` (memory-mapped), ``.npz``, ``.csv`` (both
        read into memory) or ``.parquet`` (a file or a folder, read by row group); a list of
        ``.npy`` or of Parquet paths; anything with shape, dtype and row slices, such as an HDF5,
        zarr or Dask array; a data frame or a tensor; a source, which is returned as it is.
    features : str or list of str, optional
        The columns with the vectors, for files that have columns.
    labels : str, optional
        A column that holds the labels, and so is no feature unless named as one.

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
        return _open(Path(X), features, labels)
    if _is_paths(X):
        return _open_all([Path(p) for p in X], features, labels)
    if isinstance(X, np.ndarray):
        return ArraySource(X)
    if hasattr(X, "detach"):  # a tensor, without importing torch
        return ArraySource(X.detach().cpu().numpy())
    if hasattr(X, "to_numpy"):  # a data frame, without importing pandas
        return ArraySource(X.to_numpy())
    if all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return SliceSource(X)
    return ArraySource(np.asarray(X))


def _is_paths(X: Any) -> bool:
    return isinstance(X, (list, tuple)) and bool(X) and isinstance(X[0], (str, os.PathLike))


def _open(path: Path, features: Any, labels: str | None) -> RowSource:
    from unspot.io.tables import file_format, read_table

    if file_format(path) == ".parquet":
        return _open_all([path], features, labels)
    return ArraySource(read_table(path, features=features).X)


def _open_all(paths: list[Path], features: Any, labels: str | None) -> RowSource:
    from unspot.io.arrow import ParquetSource
    from unspot.io.tables import file_format

    if file_format(paths[0], (".npy", ".parquet")) == ".npy":
        return NpyParts(paths)
    return ParquetSource(paths, features=features, labels=labels)


class ArraySource:
    """A numpy array or memory map.

    The pages of a memory map are given back after every chunk, so that reading a file of any size
    keeps the resident memory at the size of a chunk.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        from unspot.io.arrays import check_matrix

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

    Rows are read in slices of the store's own chunks, of which those without a wanted row are left
    alone.
    """

    def __init__(self, store: Any) -> None:
        if len(store.shape) != 2:
            raise ValueError(f"Got X of shape {tuple(store.shape)}, but expected (rows, features).")
        if any(size != size for size in store.shape):  # NaN: a Dask array that was filtered
            raise ValueError(
                "Got X with an unknown number of rows, but expected rows by number. Of a Dask "
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
    check_chunk(rows_per_chunk)
    end = source.shape[0] if stop is None else min(stop, source.shape[0])
    for first in range(start, end, rows_per_chunk):
        yield source.read(first, min(first + rows_per_chunk, end))


def check_chunk(rows_per_chunk: int) -> None:
    """An error if chunks would have no rows."""
    if rows_per_chunk < 1:
        raise ValueError(f"Got rows_per_chunk={rows_per_chunk}, but expected 1 or more.")


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


# -- Many ``.npy`` files as one source of rows -----------------------------------------------------


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

    Opening reads the headers alone. A file is mapped only while it is read, so that there may be
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
    """A table of numbers; as one part of many, unlike alone, it may be without rows."""
    without_rows = array.ndim == 2 and array.shape[0] == 0 < array.shape[1]
    check_matrix(np.zeros((1, array.shape[1]), array.dtype) if without_rows else array, where)
    return array


# -- Reading ahead: the next piece is read while this one is worked on -----------------------------


def prefetched(chunks: Iterator[NDArray[Any]]) -> Generator[NDArray[Any]]:
    """The same chunks, with the next one read in a thread meanwhile. Memory: two chunks.

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
