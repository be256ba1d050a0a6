"""Write files whole or not at all, and know their formats."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import TypeVar

__all__ = [
    "FORMATS",
    "TEMPORARY",
    "file_format",
    "file_hash",
    "finished_file",
    "is_hidden",
    "naming_full_disk",
    "prefetched",
    "refuse_existing",
    "write_atomically",
]

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
