"""An append-only file of results: one JSON object a line, one writer, safe against a kill.

Every finished result is on the disk before the next is taken up. A process that is killed in the
middle of a line leaves that line without its end; the next writer takes it off and goes on.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from unspot.io.files import try_lock

__all__ = ["Journal", "read_journal"]

FORMAT = "unspot-results/1"
#: How much of the first line is the same in every file.
_MARK = len('{"format": "') + len(FORMAT)
logger = logging.getLogger(__name__)


class Journal:
    """The file while it is open for writing: locked, whole, and holding what was done before.

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
        Results by their key, those of before and those that were appended.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results.jsonl"
    >>> with Journal(path, {"seeds": 3}) as journal:
    ...     journal.append({"key": "a", "value": 1.5})
    >>> with Journal(path, {"seeds": 3}, resume=True) as journal:
    ...     journal.records["a"]["value"]
    1.5
    """

    def __init__(
        self, path: str | os.PathLike[str], settings: Mapping[str, Any], *, resume: bool = False
    ) -> None:
        self.path = Path(path)
        self.settings = json.loads(_line(dict(settings)))
        self.records: dict[str, dict[str, Any]] = {}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = open(self.path, "a+b")  # noqa: SIM115 (closed by __exit__)
        try:
            self._lock()
            self._begin(resume)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._file.close()  # which gives the lock back

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a result: on the disk when this returns. The later of two of one key counts."""
        line = _line(dict(record))
        self._write(line)
        self.records[str(record["key"])] = json.loads(line)

    def _lock(self) -> None:
        if not try_lock(self._file):
            raise ValueError(
                f"Got {str(self.path)!r}, which another sweep is writing right now, but a result "
                "file has one writer. Wait until it is done, or use another file."
            )

    def _begin(self, resume: bool) -> None:
        self._file.seek(0)
        content = self._file.read()
        lines, whole = _complete_lines(content)
        if not lines and not _line({"format": FORMAT, "settings": {}}).encode().startswith(
            content[:_MARK]
        ):
            raise _other_file(self.path)  # one line of something else is no torn header
        if whole < self._file.tell():
            logger.warning("%s ends in the middle of a line, which is taken off.", self.path)
            self._file.truncate(whole)
        if not lines:
            self._write(_line({"format": FORMAT, "settings": self.settings}))
            return
        header, records = _parsed(lines, self.path)
        if records and not resume:
            raise ValueError(
                f"Got {str(self.path)!r}, which holds {len(records)} results already. Go on with "
                "resume=True (--resume), or use another file."
            )
        self._refuse_other(header.get("settings", {}))
        self.records = records

    def _refuse_other(self, found: Mapping[str, Any]) -> None:
        names = sorted({*found, *self.settings})
        other = [name for name in names if found.get(name) != self.settings.get(name)]
        if other:
            listed = "; ".join(
                f"{name} was {_short(found.get(name))} and is {_short(self.settings.get(name))}"
                for name in other
            )
            raise ValueError(
                f"Got {str(self.path)!r}, which holds results of other settings ({listed}). Use "
                "another file, or the same settings."
            )

    def _write(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_journal(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Settings and results of a file, by key; it may be one that is being written."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    lines, _ = _complete_lines(path.read_bytes())
    if not lines:
        raise ValueError(f"Got {str(path)!r}, which is empty, but expected results of a sweep.")
    header, records = _parsed(lines, path)
    return header.get("settings", {}), records


def _complete_lines(content: bytes) -> tuple[list[bytes], int]:
    """Lines that were written to their end, and the length of all of them."""
    whole = content.rfind(b"\n") + 1
    return content[:whole].splitlines(), whole


def _parsed(lines: list[bytes], path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(json.loads(line))
        except ValueError:
            raise ValueError(
                f"Got {str(path)!r} with line {number} that is not JSON, but expected results of "
                "a sweep. Remove that line to go on without its result."
            ) from None
    header, *records = values
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise _other_file(path)
    return header, {record["key"]: record for record in records}


def _other_file(path: Path) -> ValueError:
    return ValueError(
        f"Got {str(path)!r}, which does not begin as results of a sweep do, but expected "
        f"format {FORMAT!r}. Use another file name."
    )


def _line(record: dict[str, Any]) -> str:
    return json.dumps(_plain(record), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON's own types: numpy scalars as numbers, and what is not a number as null."""
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
