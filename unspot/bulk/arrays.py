"""Erasing ``.npy`` and ``.npz`` files as a stream, a chunk of rows at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.bulk.batches import erase_batch, width_out
from unspot.bulk.erasure import Erasure, rows_per_chunk
from unspot.io.ahead import prefetched
from unspot.io.arrays import (
    DAMAGED,
    check_matrix,
    parsed,
    read_npy,
    reading,
    unreadable_array,
)
from unspot.io.writing import Sink

__all__ = ["count_npy", "count_npz", "erase_npy", "erase_npz"]

Advance = Callable[[int], None]


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def erase_npy(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase the array of a ``.npy`` file; gives the number of rows.

    Memory: a few chunks of rows. Reads and writes sequentially, as a disk likes it; nothing is
    mapped, so that a full disk is an error and not a crash.
    """
    with source.open("rb") as file:
        return _erase_stream(file, sink, erasure, advance, source)


def erase_npz(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase one array of a ``.npz`` file and copy the others byte by byte."""
    n_rows = 0
    with _open_zip(source) as archive, zipfile.ZipFile(sink, "w") as out:
        member = _member(archive, erasure, source)
        for info in archive.infolist():
            # A fresh entry: the old one has sizes and checksums of the old content.
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            entry.compress_type, entry.external_attr = info.compress_type, info.external_attr
            with (
                _open_member(archive, info, source) as old,
                out.open(entry, "w", force_zip64=True) as new,
            ):
                if info.filename == member:
                    n_rows = _erase_stream(old, new, erasure, advance, source)
                else:
                    _copy(old, new, source)
    return n_rows


def count_npy(path: Path) -> int:
    """The number of rows of a complete ``.npy`` file, from its header and size."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        there = path.stat().st_size - file.tell()
    expected = int(np.prod(header.shape)) * header.dtype.itemsize
    if there < expected:
        raise _cut(path, there, expected)
    return header.shape[0] if header.shape else 0


def count_npz(path: Path, erasure: Erasure) -> int:
    """The number of rows of the array that is erased."""
    with _open_zip(path) as archive:
        info = archive.getinfo(_member(archive, erasure, path))
        with _open_member(archive, info, path) as file:
            header = _read_header(file, path)
    return header.shape[0] if header.shape else 0


def _member(archive: zipfile.ZipFile, erasure: Erasure, path: Path) -> str:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    return f"{erasure.array(names, str(path))}.npy"


def _erase_stream(file: Any, sink: Any, erasure: Erasure, advance: Advance, path: Path) -> int:
    header = _read_header(file, path)
    where = str(path)
    if len(header.shape) != 2 or header.shape[0] > 0:  # a part without rows is no mistake
        check_matrix(np.broadcast_to(np.zeros((), header.dtype), header.shape), where)
    n_rows, d = header.shape
    sample = erase_batch(
        erasure.eraser, np.zeros((1, d), _native(header.dtype)), reduce=erasure.reduce, where=where
    )
    _write_header(sink, (n_rows, width_out(erasure.eraser, erasure.reduce)), sample.dtype)
    start = 0
    with closing(prefetched(_chunks(file, header, path))) as chunks:
        for X in chunks:
            erased = erase_batch(
                erasure.eraser, X, reduce=erasure.reduce, where=where, first_row=start
            )
            # The buffer of X is read into again; what is written must not be part of it.
            mine = erased.copy() if np.may_share_memory(erased, X) else np.ascontiguousarray(erased)
            sink.write(mine)
            start += len(X)
            advance(len(X))
    if isinstance(file, zipfile.ZipExtFile) and _read(file, 1, path):  # at its end, it is checked
        raise unreadable_array(path, ValueError("it has more bytes than its header says"))
    return start


def _chunks(file: Any, header: _Header, path: Path) -> Iterator[NDArray[Any]]:
    """Rows of an opened array, in two buffers by turns: one is read into while one is used."""
    n_rows, d = header.shape
    if header.fortran_order:
        yield from _columns_first(file, header, path)
        return
    size = rows_per_chunk(d * header.dtype.itemsize)
    buffers = cycle([np.empty((min(size, n_rows), d), header.dtype) for _ in range(2)])
    for start in range(0, n_rows, size):
        rows = next(buffers)[: min(size, n_rows - start)]
        _fill(file, rows, path)
        yield rows.astype(_native(rows.dtype), copy=False)


def _columns_first(file: Any, header: _Header, path: Path) -> Iterator[NDArray[Any]]:
    """Rows of an array stored column by column: by a map, or in memory inside an archive."""
    n_rows, d = header.shape
    if isinstance(file, zipfile.ZipExtFile):
        flat = np.empty(n_rows * d, header.dtype)
        _fill(file, flat, path)
        whole = flat.reshape((n_rows, d), order="F")
    else:
        whole = read_npy(path)
    size = rows_per_chunk(d * header.dtype.itemsize)
    for start in range(0, n_rows, size):
        yield np.array(whole[start : start + size], dtype=_native(header.dtype), order="C")


def _fill(file: Any, array: NDArray[Any], path: Path) -> None:
    view = array.data.cast("B")
    done = 0
    while done < len(view):
        with reading(path, errors=DAMAGED):  # the system's own may be gone next time
            got = file.readinto(view[done:])
        if not got:
            raise _cut(path, done, len(view))
        done += got


def _copy(old: Any, new: Any, path: Path) -> None:
    while piece := _read(old, 1 << 24, path):
        new.write(piece)


def _read(file: Any, size: int, path: Path) -> bytes:
    with reading(path, errors=DAMAGED):
        data: bytes = file.read(size)
    return data


def _read_header(file: Any, path: Path) -> _Header:
    with reading(path):
        header = parsed(lambda: _header_at_start(file))
    if header.dtype.hasobject:
        raise unreadable_array(path, ValueError("Python objects in dtype"))
    return header


def _header_at_start(file: Any) -> _Header:
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    return _Header(*read(file))


def _write_header(sink: BinaryIO, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        sink, {"descr": descr, "fortran_order": False, "shape": shape}
    )


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=")


def _open_zip(path: Path) -> zipfile.ZipFile:
    with reading(path):
        return zipfile.ZipFile(path)


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Any:
    with reading(path):
        return archive.open(info)


def _cut(path: Path, got: int, expected: int) -> ValueError:
    return ValueError(
        f"Got {str(path)!r}, which ends too early ({got:,} of {expected:,} bytes). Was it copied "
        "or written to the end?"
    )
