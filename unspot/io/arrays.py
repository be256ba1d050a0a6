"""``.npy`` and ``.npz`` files: memory-mapped where possible, never unpickled."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unspot.io.columns import missing

__all__ = ["DAMAGED", "parsed", "read_npy", "read_npz", "reading"]

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
    """The array of a ``.npy`` file, as a read-only memory map. Cost: reads only the header."""
    with reading(path):
        array = parsed(lambda: np.load(path, mmap_mode="r", allow_pickle=False))
        if isinstance(array, np.memmap) and array.offset + array.nbytes < path.stat().st_size:
            raise ValueError(MORE_BYTES)
        return array


def read_npz(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    """Some arrays of a ``.npz`` file, by name."""
    with _open_npz(path) as file:
        arrays = {}
        for name in names:
            if name not in file.files:
                raise missing(name, file.files, str(path), "array")
            with reading(path, f"array {name!r} of "):
                arrays[name] = parsed(partial(file.__getitem__, name))
        return arrays


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in a ``.npz`` file."""
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
    """The result of ``read``, in which numpy parses a header; reads again after a false error.

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
    """The error for a file that does not exist, is not a numpy file, or holds Python objects."""
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
