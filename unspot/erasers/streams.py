"""Fitting on rows that stay where they are: files, memory maps, stores, and streams of batches.

``Rows`` has shape, dtype and length, and gives rows by slice or by number, as an array does. That
is enough for a fit that samples its rows or passes over them once. Rows are read when they are
needed, and checked when they are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from unspot.data.labels import Measurements
from unspot.io.files import prefetched
from unspot.io.sources import LOAD_BYTES, Floats, RowSource, as_source

__all__ = ["Blocks", "Rows", "is_stream", "opened", "sampled"]

CHUNK_ROWS = 8192
#: The most bytes that a method which needs its rows in memory reads; of more it takes a sample.
SAMPLE_BYTES = 2**31
#: Rows of a fit that take more bytes than this are read again in every pass over them.
HOLD_BYTES = 2**28


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


class Blocks:
    """Chosen rows, block after block, each sorted by class and changed as it is read.

    Parameters
    ----------
    X : array of shape (n, d), or Rows
    codes : array of shape (n,)
        The class of each row.
    rows : array of integers
        Which rows to give.
    n_classes : int
    change : callable
        What to do with rows, (m, d) → (m, d).

    Notes
    -----
    If the rows take at most ``HOLD_BYTES``, they are read and changed once. If not, they are read
    again in every pass, and no more than two blocks are in memory.

    Examples
    --------
    >>> X, codes = np.arange(4.0)[:, None], np.array([1, 0, 1, 0])
    >>> [(block, counts)] = Blocks(X, codes, np.array([0, 1, 2]), 2, lambda X: 10 * X)()
    >>> block.ravel(), counts
    (array([10.,  0., 20.]), array([1, 2]))
    """

    def __init__(
        self,
        X: Any,
        codes: NDArray[np.int64],
        rows: NDArray[np.int64],
        n_classes: int,
        change: Callable[[Floats], Floats],
    ) -> None:
        self._X, self._codes, self._n_classes, self._change = X, codes, n_classes, change
        self._chosen = np.zeros(len(codes), dtype=bool)
        self._chosen[rows] = True
        self._few = len(rows) * X.shape[1] * np.dtype(X.dtype).itemsize <= HOLD_BYTES
        self._held: list[tuple[Floats, NDArray[np.int64]]] | None = None

    def __call__(self) -> Iterable[tuple[Floats, NDArray[np.int64]]]:
        """Iterate over blocks, and their number of rows of each class."""
        if not self._few:
            return self._read()
        if self._held is None:
            self._held = list(self._read())
        return self._held

    def _read(self) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
        start = 0
        for block in self._chunks():
            rows = slice(start, start + len(block))
            chosen = np.flatnonzero(self._chosen[rows])
            start = rows.stop
            if len(chosen):
                codes = self._codes[rows][chosen]
                order = np.argsort(codes, kind="stable")
                counts = np.bincount(codes, minlength=self._n_classes)
                yield self._change(block[chosen[order]]), counts

    def _chunks(self) -> Iterator[Floats]:
        if isinstance(self._X, Rows):
            return self._X.chunks(CHUNK_ROWS)
        return (self._X[i : i + CHUNK_ROWS] for i in range(0, len(self._X), CHUNK_ROWS))


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
    rows: Rows, target: Any, rng: np.random.Generator, *, min_rows: int = 1
) -> tuple[Floats, Any]:
    """Rows and targets in memory: all of them up to ``SAMPLE_BYTES``, else a random sample.

    Classes keep their shares, and each has at least ``min_rows``. Targets are ``Labels``,
    ``Measurements``, or a goal with one of them.
    """
    if rows.nbytes <= SAMPLE_BYTES:
        return rows.load(), target
    share = SAMPLE_BYTES / rows.nbytes
    concept = getattr(target, "erase", target)
    if isinstance(concept, Measurements):
        chosen = np.sort(rng.permutation(len(rows))[: int(share * len(rows))])
        return rows[chosen], target.take(chosen)
    parts = []
    for k, count in enumerate(concept.counts):
        n = min(int(count), max(min_rows, int(share * count)))
        parts.append(rng.permutation(np.flatnonzero(concept.codes == k))[:n])
    chosen = np.sort(np.concatenate(parts))
    return rows[chosen], target.take(chosen)
