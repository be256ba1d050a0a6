"""Files: written whole or not at all, their formats, and locks."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

__all__ = [
    "FORMATS",
    "TEMPORARY",
    "Sink",
    "file_format",
    "file_hash",
    "finished_file",
    "is_hidden",
    "naming_full_disk",
    "prefetched",
    "refuse_existing",
    "sampled_hash",
    "temporary_name",
    "try_lock",
    "write_atomically",
]

Chunk = TypeVar("Chunk")

#: How the name of an unfinished file ends.
TEMPORARY = ".unspot-tmp"

#: Bytes after which the system is asked to begin writing to the disk.
_WRITE_BACK = 64 << 20

#: Errors of the system that say nothing of the file, and what they mean.
_NO_ROOM = {
    errno.ENOSPC: "No space left on the disk",
    errno.EDQUOT: "No space left on the disk",
    errno.EFBIG: "A file this large is not allowed (by ulimit, or by the disk)",
}


class Sink(io.RawIOBase):
    """A file that is written from start to end, with the sha256 of its content if wanted.

    Another thread writes or hashes arrays while the caller makes the next ones.
    """

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        self._file = path.open("wb")
        self._identity = os.fstat(self._file.fileno())
        self._size = 0
        self._sent = 0  # how much of it the system was asked to write
        self._hash = hashlib.sha256() if hashed else None
        self._pool = ThreadPoolExecutor(1)
        self._pending: Future[Any] | None = None
        self._abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Write all of it. An array must not change until the next write."""
        view = memoryview(data)
        if view.nbytes == 0:
            return 0
        if self._abandoned:
            return view.nbytes
        if self.closed:
            raise ValueError("Got data for a file that is closed.")
        view = view.cast("B")
        self._wait()
        # Callers may reuse other buffers than arrays and bytes as soon as this returns.
        lasts = isinstance(data, bytes) or hasattr(data, "__array_interface__")
        if self._hash is not None:
            self._pending = self._pool.submit(self._hash.update, view if lasts else bytes(view))
            self._file.write(view)
        elif lasts:
            self._pending = self._pool.submit(self._file.write, view)
        else:
            self._file.write(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Hand everything to the system; errors of the other thread come up here."""
        if not self._file.closed:
            self._wait()
            self._file.flush()

    @property
    def sha256(self) -> str:
        """The hash of what was written so far."""
        self._wait()
        return "" if self._hash is None else self._hash.hexdigest()

    def finish(self) -> None:
        """Bring everything to the disk, so that a rename cannot overtake it."""
        self.flush()
        os.fsync(self._file.fileno())
        self.close()

    def abandon(self) -> None:
        """Close a file that nobody will read, and ignore what is written to it later.

        After an error, Arrow's writers still flush when they are garbage collected, at any time and
        in any thread. An error there would appear in the middle of other work.
        """
        self._abandoned = True
        with suppress(OSError):  # the first error says more than one of flushing
            self.close()

    def is_at(self, path: Path) -> bool:
        """Whether the file at ``path`` is this one."""
        try:
            return os.path.samestat(self._identity, path.stat())
        except FileNotFoundError:
            return False

    def close(self) -> None:
        try:
            self._wait()
        finally:
            self._pool.shutdown()
            try:
                self._file.close()
            finally:
                super().close()

    def _wait(self) -> None:
        """Wait for the other thread; then ask the system to begin writing what is new.

        The sync at the end then has little to do.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()
        new = self._size - self._sent
        if new > _WRITE_BACK and hasattr(os, "posix_fadvise"):
            self._file.flush()
            # On pages that are still to be written, this advice means: write them now.
            os.posix_fadvise(self._file.fileno(), self._sent, new, os.POSIX_FADV_DONTNEED)
            self._sent = self._size


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file: at any moment there is the old one or the new one, never a part of it.

    Of two writers at the same time, the last one wins.
    """
    writer = f"{os.getpid()}-{get_ident()}"
    with _renamed_when_complete(path, _hidden(path, f".{writer}{TEMPORARY}")) as sink:
        sink.write(content)


@contextmanager
def finished_file(path: Path, *, hashed: bool = False) -> Iterator[Sink]:
    """A sink whose file is renamed to ``path`` at the end, or removed after an error.

    Of two writers at the same time, the one that began first gets an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "out.bin"
    >>> with finished_file(path) as file:
    ...     _ = file.write(b"abc")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'abc'
    """
    with _renamed_when_complete(path, temporary_name(path), hashed=hashed) as sink:
        yield sink


def temporary_name(path: Path) -> Path:
    """Where ``finished_file`` writes before the file is complete: hidden, in the same folder."""
    return _hidden(path, TEMPORARY)


def _hidden(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}{ending}")


@contextmanager
def _renamed_when_complete(path: Path, temporary: Path, *, hashed: bool = False) -> Iterator[Sink]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming_full_disk(path):
        # A writer of an earlier run that is still at work goes on in a file without a name.
        temporary.unlink(missing_ok=True)
        sink = Sink(temporary, hashed=hashed)
        try:
            yield sink
            sink.finish()
            if not sink.is_at(temporary):
                raise _written_by_another(path)
            os.replace(temporary, path)
            _sync_folder(path.parent)
        except BaseException as error:
            sink.abandon()
            if sink.is_at(temporary):
                temporary.unlink()
            elif isinstance(error, (ValueError, FileNotFoundError)):
                # Who looks at what was written has met the file of the other process.
                raise _written_by_another(path) from error
            raise


def _written_by_another(path: Path) -> OSError:
    return OSError(
        f"Got output {str(path)!r}, which another process writes too, and began to later. Wait for "
        "it, or end it and run the command again."
    )


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
    """An error if something is at ``path`` already and must not be replaced."""
    if path.is_dir():
        raise ValueError(
            f"Got output {str(path)!r}, which is a folder, but expected a file's name."
        )
    if path.exists() and not force:
        raise ValueError(
            f"Got output {str(path)!r}, which exists already. Choose another name, or replace it "
            "with --force."
        )


def _sync_folder(folder: Path) -> None:
    """Bring the rename itself to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    with suppress(OSError):  # the file is complete; some systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- Hashes ----------------------------------------------------------------------------------------


def file_hash(path: Path) -> str:
    """The sha256 of a file, as ``Sink`` takes it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sampled_hash(path: Path, *, n_blocks: int = 16, block: int = 4096) -> str:
    """A hash of some blocks of a file, from its begin to its end; of small files, of all.

    It takes a few reads for a file of any size. A file that was written anew has another one;
    single values that were changed inside a large file may be missed.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        last = max(0, os.fstat(file.fileno()).st_size - block)
        for i in range(n_blocks):
            file.seek(last * i // (n_blocks - 1))
            digest.update(file.read(block))
    return digest.hexdigest()[:16]


# -- Formats, by the ending of the name ------------------------------------------------------------


FORMATS = (".npy", ".npz", ".csv", ".tsv", ".parquet")


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """The ending of a file, or ``.parquet`` for a folder of Parquet files; else an error."""
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
    """Whether a file in a folder is not data: a name in its path begins with . or _.

    Spark and others name unfinished files so, in folders such as ``_temporary``.

    Examples
    --------
    >>> is_hidden(Path("a/_temporary/x.npy"), Path("a")), is_hidden(Path("_a/x.npy"), Path("_a"))
    (True, False)
    """
    return any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)


# -- Locks: they end with the process, so that none is ever left behind ----------------------------


def try_lock(handle: Any) -> bool:
    """Lock an open file or folder for this process until it is closed; False if another has it.

    Where the system has no such locks, nothing is locked, and the answer is True.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
