"""Many ``.npy`` files as one source of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.io.arrays import check_matrix, read_npy
from unspot.io.formats import file_format
from unspot.io.sources import ArraySource, Floats, check_rows, float_dtype, read_in_chunks

__all__ = ["NpyParts"]


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
