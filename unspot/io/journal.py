"""Append-only files: one JSON object per line, one writer, safe against a kill.

Every record is on the disk before the next one is begun. A process that is killed in the middle of
a line leaves that line without its end; the next writer removes it and continues.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from unspot.io.files import naming_full_disk, try_lock
from unspot.io.records import parse

__all__ = ["Journal", "JsonLines", "json_line", "read_journal", "read_lines"]

FORMAT = "unspot-results/1"
logger = logging.getLogger(__name__)


class JsonLines:
    """A file of JSON objects that is open for appending, locked, and free of torn lines.

    Parameters
    ----------
    path : path
        The file; it is made if there is none.
    begins : bytes
        How the first line begins. A file without a complete line that begins otherwise belongs to
        somebody else, and is refused.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "parts.jsonl"
    >>> with JsonLines(path) as file:
    ...     file.append({"rows": 3})
    {'rows': 3}
    >>> list(read_lines(path))
    [{'rows': 3}]
    """

    def __init__(self, path: str | os.PathLike[str], *, begins: bytes = b"{") -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = open(self.path, "a+b")  # noqa: SIM115 (closed by close)
        try:
            if not try_lock(self._file):
                raise ValueError(
                    f"Got {str(self.path)!r}, which another process is writing right now, but such "
                    "a file has one writer. Wait until it is done, or use another file."
                )
            self._remove_torn_line(begins)
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, which also ends the lock."""
        # What a full disk refused is still buffered, and closing would try to write it again.
        with suppress(OSError):
            self._file.close()

    def append(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Add a record: on the disk when this returns. Gives it as it will be read."""
        line = json_line(record)
        with naming_full_disk(self.path):
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        written: dict[str, Any] = json.loads(line)
        return written

    def _begin(self) -> None:
        """What a subclass does first, when the file is locked."""

    def _remove_torn_line(self, begins: bytes) -> None:
        self._file.seek(0)
        content = self._file.read()
        complete = len(_complete(content))
        if not complete and not begins.startswith(content[: len(begins)]):
            raise _other_file(self.path)  # a line of something else is not a torn first line
        if complete < len(content):
            logger.warning("%s ends in the middle of a line, which is removed.", self.path)
            self._file.truncate(complete)


class Journal(JsonLines):
    """Results under one set of settings, by key.

    Parameters
    ----------
    path : path
        The file; it is made if there is none.
    settings : mapping
        What every result in the file depends on, written once as the first line. A file with
        other settings is refused, with the difference.
    resume : bool
        Whether the file may hold results already.

    Attributes
    ----------
    records : dict
        Results by their key: those that were in the file, and those that were appended.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results.jsonl"
    >>> with Journal(path, {"seeds": 3}) as journal:
    ...     _ = journal.append({"key": "a", "value": 1.5})
    >>> with Journal(path, {"seeds": 3}, resume=True) as journal:
    ...     journal.records["a"]["value"]
    1.5
    """

    def __init__(
        self, path: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        self.settings = json.loads(json_line(settings))
        self.records: dict[str, dict[str, Any]] = {}
        self._resume = resume
        super().__init__(path, begins=json_line({"format": FORMAT}).rstrip(b"}\n"))

    def append(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Add a result: on the disk when this returns. The later of two with one key counts."""
        written = super().append(record)
        self.records[str(record["key"])] = written
        return written

    def _begin(self) -> None:
        if not self.path.stat().st_size:
            super().append({"format": FORMAT, "settings": self.settings})
            return
        settings, self.records = read_journal(self.path)
        if self.records and not self._resume:
            raise ValueError(
                f"Got {str(self.path)!r}, which holds {len(self.records)} results already. "
                "Continue with resume=True (--resume), or use another file."
            )
        names = sorted({*settings, *self.settings})
        differences = [
            f"{name} was {_short(settings.get(name))} and is {_short(self.settings.get(name))}"
            for name in names
            if settings.get(name) != self.settings.get(name)
        ]
        if differences:
            raise ValueError(
                f"Got {str(self.path)!r}, which holds results of other settings "
                f"({'; '.join(differences)}). Use another file, or the same settings."
            )


def read_journal(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Settings and results of a file, by key; a process may be writing it."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    lines = list(read_lines(path))
    if not lines:
        raise ValueError(f"Got {str(path)!r}, which is empty, but expected results of a sweep.")
    header, *records = lines
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _other_file(path)
    return header.get("settings", {}), {record["key"]: record for record in records}


def read_lines(path: Path) -> Iterator[Any]:
    """What the complete lines of a file hold; an error at the first one that is not JSON."""
    for number, line in enumerate(_complete(path.read_bytes()).splitlines(), start=1):
        try:
            yield parse(line)
        except ValueError:
            if number == 1:
                raise _other_file(path) from None
            raise ValueError(
                f"Got {str(path)!r} with line {number} that is not JSON, but expected one result "
                "per line. Remove that line to continue without its result."
            ) from None


def json_line(record: Mapping[str, Any]) -> bytes:
    """A record as a line of JSON.

    Examples
    --------
    >>> json_line({"key": "a", "loss": float("nan")})
    b'{"key": "a", "loss": null}\\n'
    """
    text = json.dumps(_plain(record), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass") + b"\n"  # names of files need not be UTF-8


def _complete(content: bytes) -> bytes:
    """The lines that were written to their end."""
    return content[: content.rfind(b"\n") + 1]


def _other_file(path: Path) -> ValueError:
    return ValueError(
        f"Got {str(path)!r}, which does not begin as results of a sweep do, but expected "
        f"format {FORMAT!r}. Use another file name."
    )


def _plain(value: Any) -> Any:
    """JSON's own types: numpy scalars as numbers, and numbers that are not finite as null."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"
