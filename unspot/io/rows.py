"""Fitting on rows that stay where they are: files, memory maps, stores, and streams of batches.

``Rows`` has shape, dtype and length, and gives rows by slice or by number, as an array does. That
is enough for a fit that samples its rows or passes over them once. Rows are read when they are
needed, and checked when they are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from unspot.io.files import prefetched
from unspot.io.sources import LOAD_BYTES, Floats, RowSource, as_source

__all__ = ["Rows", "is_stream", "opened", "sampled"]

CHUNK_ROWS = 8192
#: The most bytes that a method which needs its rows in memory reads; of more it takes a sample.
SAMPLE_BYTES = 2**31


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
        """The same rows, changed whenever they are read."""
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
    """Whether X is an iterator, or an iterable without rows by number, such as a data loader."""
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
