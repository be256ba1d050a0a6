"""Write files whole or not at all, read numpy files without unpickling, and know formats."""

from __future__ import annotations

import errno
import hashlib
import math
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from threading import get_ident
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

if TYPE_CHECKING:  # a wrong file is named before numpy is loaded
    import numpy as np
    from numpy.typing import NDArray

Read = TypeVar("Read")
Chunk = TypeVar("Chunk")

#: How the name of an unfinished file ends.
TEMPORARY = ".unspot-tmp"

#: Errors of the system that say nothing of the file, and what they mean.
_NO_ROOM = {
    errno.ENOSPC: "No space left on the disk",
    errno.EDQUOT: "No space left on the disk",
    errno.EFBIG: "A file this large is not allowed (by ulimit, or by the disk)",
}


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file: at any moment there is the old one or the new one, never a part of it.

    Of two writers at the same time, the last one wins.
    """
    with finished_file(path) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def finished_file(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; the file is renamed at the end, or removed after an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "out.bin"
    >>> with finished_file(path) as unfinished:
    ...     _ = unfinished.write_bytes(b"abc")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, in the same folder, and another one for every writer.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{TEMPORARY}")
    with naming_full_disk(path):
        try:
            yield unfinished
            _sync(unfinished, os.O_RDWR)  # so that the rename cannot overtake the content
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        if hasattr(os, "O_DIRECTORY"):
            with suppress(OSError):  # the file is complete; some systems cannot sync a folder
                _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turn the system's error for a disk without space into one that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise OSError(
            error.errno,
            f"{_NO_ROOM[error.errno]} while writing {str(path)!r}. No part of a file was left. "
            "Free some space, or write to another disk, and run the same command again",
        ) from error


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse a path where something is that must not be replaced."""
    if path.is_dir():
        raise ValueError(
            f"Got output {str(path)!r}, which is a folder, but expected a file's name."
        )
    if path.exists() and not force:
        raise ValueError(
            f"Got output {str(path)!r}, which exists already. Choose another name, or replace it "
            "with --force."
        )


# -- Hashes ----------------------------------------------------------------------------------------


def file_hash(path: Path) -> str:
    """Compute the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- Formats, by the ending of the name ------------------------------------------------------------


FORMATS = (".npy", ".npz", ".csv", ".tsv", ".parquet")


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """Find the ending of a file, or ``.parquet`` for a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    if path.is_dir():
        if any(not is_hidden(file, path) for file in path.rglob("*.parquet")):
            return ".parquet"
        raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(formats)}. Convert it, "
            "or give it the right ending."
        )
    return suffix


def is_hidden(file: Path, folder: Path) -> bool:
    """Check for a file that is not data: a name in its path begins with . or _.

    Spark and others name unfinished files so, in folders such as ``_temporary``.

    Examples
    --------
    >>> is_hidden(Path("a/_temporary/x.npy"), Path("a")), is_hidden(Path("_a/x.npy"), Path("_a"))
    (True, False)
    """
    return any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)


def prefetched(chunks: Iterator[Chunk]) -> Generator[Chunk]:
    """Read the next chunk in a thread while this one is used. Memory: two chunks.

    Examples
    --------
    >>> list(prefetched(iter([2, 1])))
    [2, 1]
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk


# -- Arrays: .npy and .npz -------------------------------------------------------------------------

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

#: How often a header is read before an error of the parser is raised.
PARSER_TRIES = 10


def read_npy(path: Path) -> NDArray[Any]:
    """Map the array of a ``.npy`` file into memory, read-only. Cost: reads only the header."""
    import numpy as np

    def header_of(file: Any) -> Header:
        file.seek(0)
        return _read_header(file, path.stat().st_size)

    with reading(path), path.open("rb") as file:
        header = parsed(partial(header_of, file))
        order: Any = "F" if header.fortran_order else "C"
        return np.memmap(path, header.dtype, "r", file.tell(), header.shape, order)


def release_pages(array: NDArray[Any]) -> None:
    """Give the pages of a mapped file back, so that reading it keeps the resident memory small."""
    import numpy as np

    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode == "c":
            return  # a private map would lose what was written to it
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def read_npz(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    """Read some arrays of a ``.npz`` file, by name."""
    from unspot.io.columns import missing

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
        _read_header(file, archive.getinfo(member).file_size)


class Header(NamedTuple):
    """The header of a ``.npy`` file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def _read_header(file: Any, n_bytes: int) -> Header:
    """Read the header of an open ``.npy`` file, and refuse a file of another size than it says."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    how = "read_array_header_1_0" if version == (1, 0) else "read_array_header_2_0"
    header = Header(*getattr(np.lib.format, how)(file))
    if header.dtype.hasobject:
        raise ValueError("Python objects in dtype")
    if any(length < 0 for length in header.shape):
        raise ValueError(f"its header says shape {header.shape}")
    # Without overflow, however large the numbers of a damaged header are.
    expected, there = math.prod(header.shape) * header.dtype.itemsize, n_bytes - file.tell()
    if there < expected:
        raise ValueError(
            f"it ends too early, after {there:,} of {expected:,} bytes. Was it copied or written "
            "to the end?"
        )
    if there > expected:  # two files in one, or a damaged header: rows would be lost
        raise ValueError("it has more bytes than its header says")
    return header


def npz_names(path: Path) -> list[str]:
    """List the names of the arrays in a ``.npz`` file."""
    with _open_npz(path) as file:
        return list(file.files)


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    import numpy as np

    with reading(path):
        opened = path.open("rb")
    with opened:  # numpy would leave its own file open if the archive is damaged
        with reading(path):
            file = np.load(opened, allow_pickle=False)
            if not hasattr(file, "files"):
                raise ValueError("it holds one array, as a .npy file does")
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
def reading(path: Path, part: str = "") -> Iterator[None]:
    """Turn the errors of reading a numpy file into one that names it."""
    try:
        yield
    except (*DAMAGED, KeyError, MemoryError, OSError, ValueError) as error:
        raise _unreadable_array(path, error, part) from None


def _unreadable_array(path: Path, error: Exception, part: str) -> Exception:
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


# -- Content of JSON files -------------------------------------------------------------------------


def as_type(kind: Any, value: Any, where: str = "") -> Any:
    """Convert content of a JSON file, which anybody can edit, to the type that is declared.

    Parameters
    ----------
    kind : type
        A dataclass, a TypedDict, a plain type, ``Any``, ``Literal``, or a union, a list, a tuple
        or a mapping of such types. Names that a dataclass lacks are left out.
    value : object
        As a reader of JSON gives it.
    where : str
        The name of the field, for the message.

    Examples
    --------
    >>> as_type(tuple[int | None, ...], [3, None])
    (3, None)
    >>> as_type(dict[str, float], {"loss": "low"}, "point")
    Traceback (most recent call last):
    ValueError: point.loss is 'low', but expected float
    """
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        fits = [option for option in arguments if _fits(option, value)]
        return as_type(fits[0] if fits else arguments[0], value, where)
    if not _fits(kind, value):
        raise ValueError(
            f"{where or 'the content'} is {value!r:.60}, but expected {origin.__name__}"
        )
    if is_dataclass(origin) or is_typeddict(origin):
        hints = {name: hint for name, hint in get_type_hints(origin).items() if name in value}
        members = {
            n: as_type(hint, value[n], f"{where}.{n}".lstrip(".")) for n, hint in hints.items()
        }
        try:
            return value if is_typeddict(origin) else origin(**members)
        except TypeError as error:  # a field is missing
            raise ValueError(f"{where or 'the content'}: {error}") from None
    if origin in (dict, Mapping):
        return {
            key: as_type(arguments[1], v, f"{where}.{key}".lstrip(".")) for key, v in value.items()
        }
    if origin in (list, tuple):
        return origin(as_type(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    return value


def _fits(kind: Any, value: Any) -> bool:
    """Check the type of a value, apart from what is inside it."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Any, Literal):
        return kind is Any or value in arguments
    if is_dataclass(origin) or origin is Mapping:
        return isinstance(value, dict)
    if is_typeddict(origin):
        return isinstance(value, dict) and origin.__required_keys__ <= value.keys()
    if origin is tuple:
        return isinstance(value, list) and len(value) in {
            len(arguments),
            len(value) * (... in arguments),
        }
    return type(value) is origin or (origin is float and type(value) is int)
