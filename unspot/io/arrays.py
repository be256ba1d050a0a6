"""``.npy`` and ``.npz`` files: memory-mapped where possible, never unpickled."""

from __future__ import annotations

import math
import mmap
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from unspot.io.columns import missing

__all__ = [
    "DAMAGED",
    "Header",
    "check_size",
    "parsed",
    "read_header",
    "read_npy",
    "read_npz",
    "reading",
    "release_pages",
]

Read = TypeVar("Read")
Errors = tuple[type[Exception], ...]

#: What Python raises for an archive that is damaged, encrypted, or of an unknown kind, and for a
#: header that is damaged, which numpy reads as Python.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    tokenize.TokenError,
    SyntaxError,
    OverflowError,
)

#: Why a file is refused that is two in one, or whose header is damaged: rows would be lost.
MORE_BYTES = "it has more bytes than its header says"

#: How often a header is read before an error of the parser is raised.
PARSER_TRIES = 10


def read_npy(path: Path) -> NDArray[Any]:
    """Map the array of a ``.npy`` file into memory, read-only. Cost: reads only the header."""
    with reading(path), path.open("rb") as file:
        header = parsed(lambda: read_header(file))
        if header.dtype.hasobject:
            raise ValueError("Python objects in dtype")
        check_size(header, path.stat().st_size - file.tell())
        order: Any = "F" if header.fortran_order else "C"
        return np.memmap(path, header.dtype, "r", file.tell(), header.shape, order)


def release_pages(array: NDArray[Any]) -> None:
    """Give the pages of a mapped file back, so that reading it keeps the resident memory small."""
    pages = getattr(array, "_mmap", None)
    if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def read_npz(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    """Read some arrays of a ``.npz`` file, by name."""
    with _open_npz(path) as file:
        arrays = {}
        for name in names:
            if name not in file.files:
                raise missing(name, file.files, str(path), "array")
            with reading(path, f"array {name!r} of "):
                parsed(partial(_check_member, file.zip, name))
                arrays[name] = parsed(partial(file.__getitem__, name))
        return arrays


def _check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse a header that claims more than there is, before memory is asked for."""
    member = name if name in archive.namelist() else f"{name}.npy"
    with archive.open(member) as file:
        check_size(read_header(file), archive.getinfo(member).file_size - file.tell())


class Header(NamedTuple):
    """What a ``.npy`` file says of its array."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def n_rows(self) -> int:
        return self.shape[0] if self.shape else 0


def read_header(file: Any) -> Header:
    """Read the header of an open ``.npy`` file, which is left at the first number."""
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return Header(*np.lib.format.read_array_header_1_0(file))
    return Header(*np.lib.format.read_array_header_2_0(file))


def check_size(header: Header, there: int) -> None:
    """Refuse an array of another size than its header says: of a file that was cut or changed."""
    if any(length < 0 for length in header.shape):
        raise ValueError(f"its header says shape {header.shape}")
    # Without overflow, however large the numbers of a damaged header are.
    expected = math.prod(header.shape) * header.dtype.itemsize
    if there < expected and not header.dtype.hasobject:
        raise ValueError(
            f"it ends too early, after {there:,} of {expected:,} bytes. Was it copied or written "
            "to the end?"
        )
    if there > expected and not header.dtype.hasobject:
        raise ValueError(MORE_BYTES)


def npz_names(path: Path) -> list[str]:
    """List the names of the arrays in a ``.npz`` file."""
    with _open_npz(path) as file:
        return list(file.files)


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    with reading(path):
        opened = path.open("rb")
    with opened:  # numpy would leave its own file open if the archive is damaged
        with reading(path):
            file = np.load(opened, allow_pickle=False)
        if not hasattr(file, "files"):
            raise unreadable_array(path, ValueError("it holds one array, as a .npy file does"))
        yield file


def parsed(read: Callable[[], Read]) -> Read:
    """Call ``read``, in which numpy parses a header, and again after a false error.

    numpy parses headers as Python. Up to 3.11.7, CPython's parser fails with a SystemError if
    another thread or a finaliser parses at the same time (python/cpython#106905). The finaliser of
    an Arrow writer does: it formats its errors, for which Python parses source lines.
    """
    for _ in range(PARSER_TRIES - 1):
        try:
            return read()
        except SystemError:
            continue
    return read()


@contextmanager
def reading(
    path: Path,
    part: str = "",
    errors: Errors = (*DAMAGED, KeyError, MemoryError, OSError, ValueError),
) -> Iterator[None]:
    """Turn the errors of reading a numpy file into one that names it."""
    try:
        yield
    except errors as error:
        raise unreadable_array(path, error, part) from None


def unreadable_array(path: Path, error: Exception, part: str = "") -> Exception:
    """Make the error for a file that is absent, no numpy file, or holds Python objects."""
    if not path.exists():
        return FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    if isinstance(error, MemoryError):  # the array is large, or its header is wrong
        return MemoryError(f"Got {part}{str(path)!r}, whose header asks for more ({error}).")
    if any(word in str(error) for word in ("pickle", "Object arrays", "Python objects")):
        return ValueError(
            f"Got {part}{str(path)!r}, which holds Python objects or is not a numpy file; reading "
            "it would mean unpickling, which can run any code. Expected numbers or strings: save "
            "labels with numpy.array(labels, dtype=str)."
        )
    return ValueError(f"Got {part}{str(path)!r}, which cannot be read as a numpy file ({error}).")
