"""Parquet files and folders of them as a source of rows, with random access by row group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspot.io.arrow import column_kinds, matrix, matrix_dtype, require_pyarrow, values
from unspot.io.columns import OTHER, choose_features, missing
from unspot.io.formats import is_hidden
from unspot.io.sources import Floats, check_chunk, check_rows, float_dtype

__all__ = ["ParquetSource", "open_parquet", "parquet_parts"]

#: Rows decoded at a time; a row group of any size is read in such pieces.
_BATCH = 8192


class _Group(NamedTuple):
    file: int  # which file
    number: int  # which row group of it
    start: int  # its first row, counted over all files
    stop: int
    first: int  # the same row, counted in its own file
    dtype: np.dtype[Any]  # what its own file is to be read in


class ParquetSource:
    """The vectors of Parquet files, in the order of the files' names.

    Parameters
    ----------
    paths : list of Path
        Files, or folders of them.
    features : str or list of str, optional
        The vector column, or many number columns; by default as in ``read_table``.
    labels : str, optional
        A column that holds the labels, and so is no feature unless named as one.

    Notes
    -----
    Opening reads the footers alone. ``take`` and ``read`` decode the row groups that hold a wanted
    row, a few thousand rows at a time; files written with row groups of 10⁴ to 10⁵ rows are the
    best for it. To pass over rows in order use ``chunks``, which decodes every row group once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        features: str | Sequence[str] | None = None,
        labels: str | None = None,
    ) -> None:
        self.paths = parquet_parts(paths)
        kinds = column_kinds(open_parquet(self.paths[0]).schema_arrow)
        where = str(self.paths[0])
        self.features = choose_features(features, kinds, taken=[labels], where=where)
        self._groups = list(_groups(self.paths, self.features))
        self._starts = np.array([g.start for g in self._groups], dtype=np.int64)
        n_rows = self._groups[-1].stop if self._groups else 0
        if n_rows == 0:
            raise ValueError(f"Got an empty table: {self._where()} has no rows.")
        self.shape: tuple[int, int] = (n_rows, self._width())
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
        check_chunk(rows_per_chunk)
        end = self.shape[0] if stop is None else min(stop, self.shape[0])
        wanted = [group for group in self._groups if group.start < end and start < group.stop]
        for _, groups in groupby(wanted, key=lambda group: group.file):
            yield from self._chunks_of_file(list(groups), rows_per_chunk, start, end)

    def column(self, name: str) -> NDArray[Any]:
        """Another column, whole: the concept's labels."""
        for path in self.paths:
            if name not in (known := open_parquet(path).schema_arrow.names):
                raise missing(name, known, str(path))
        return np.concatenate([values(read_part(p, [name])[name]) for p in self.paths])

    def _chunks_of_file(
        self, groups: list[_Group], rows_per_chunk: int, start: int, stop: int
    ) -> Iterator[Floats]:
        """The rows from ``start`` to ``stop`` that row groups of one file hold.

        A row group can be decoded from its beginning alone, so what comes before ``start`` is
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

    def _batches(self, path: Path, size: int, groups: list[int] | None = None) -> Iterator[Any]:
        pa = require_pyarrow()
        try:
            file = open_parquet(path)
            yield from file.iter_batches(size, row_groups=groups, columns=self.features)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from None

    def _matrix(self, batch: Any, path: Path, start: int) -> Floats:
        X = matrix(batch, self.features, where=str(path), first_row=start)
        if X.shape[1] != self.shape[1]:
            raise ValueError(
                f"Got vectors of length {X.shape[1]} in {str(path)!r}, but the first part has "
                f"length {self.shape[1]}."
            )
        return X.astype(self.dtype, copy=False)

    def _width(self) -> int:
        path = self.paths[self._groups[0].file]
        first_row = next(iter(self._batches(path, 1)))
        return int(matrix(first_row, self.features, where=str(path)).shape[1])

    def _where(self) -> str:
        return repr(str(self.paths[0])) if len(self.paths) == 1 else f"{len(self.paths)} files"


def parquet_parts(paths: Iterable[Path]) -> list[Path]:
    """The Parquet files among files and folders, sorted within each folder."""
    parts: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*.parquet") if not is_hidden(p, path))
            if not found:
                raise ValueError(
                    f"Got the folder {str(path)!r}, but there is no .parquet file in it."
                )
            parts += found
        else:
            parts.append(path)
    return parts


def open_parquet(path: Path) -> Any:
    """A ``pyarrow.parquet.ParquetFile``, or an error that names the file."""
    pa = require_pyarrow("Parquet files")
    from pyarrow import parquet

    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    try:
        # Small buffers and no map: a row group of gigabytes is read as a stream, and not whole.
        return parquet.ParquetFile(
            path,
            memory_map=False,
            pre_buffer=False,
            buffer_size=1 << 16,
            page_checksum_verification=True,
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def read_part(path: Path, columns: list[str]) -> Any:
    """Some columns of a file as a table, or an error that names the file."""
    pa = require_pyarrow("Parquet files")
    try:
        return open_parquet(path).read(columns)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception, kind: str = "Parquet") -> ValueError:
    """The error for a corrupt or foreign file, with the first line of what was found."""
    first = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return ValueError(f"Got {str(path)!r}, which cannot be read as {kind} ({first}).")


def _groups(paths: Sequence[Path], features: Sequence[str]) -> Iterator[_Group]:
    start = 0
    for f, path in enumerate(paths):
        file, before = open_parquet(path), start
        dtype = _read_dtype(file, features, path)
        for g in range(file.metadata.num_row_groups):
            stop = start + file.metadata.row_group(g).num_rows
            if stop > start:
                yield _Group(f, g, start, stop, start - before, dtype)
            start = stop


def _read_dtype(file: Any, features: Sequence[str], path: Path) -> np.dtype[Any]:
    """What to read the vectors of a file in; an error if it does not have them."""
    schema = file.schema_arrow
    if absent := set(features) - set(schema.names):
        raise missing(min(absent), schema.names, str(path))
    if not file.metadata.num_rows:  # nothing to read, and maybe no type for want of a value
        return np.dtype(np.float32)
    kinds = column_kinds(schema)
    if other := [name for name in features if kinds[name] == OTHER]:
        raise ValueError(
            f"Got column {other[0]!r} of type {schema.field(other[0]).type} in {str(path)!r}, but "
            "expected numbers or vectors of numbers, as in the first part."
        )
    return float_dtype(matrix_dtype(schema, features))
