"""Which files a job has, and where each goes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from unspot.io.files import (
    FORMATS,
    file_format,
    is_hidden,
    naming_full_disk,
    try_lock,
    write_atomically,
)

__all__ = ["Done", "Journal", "Part", "lock", "plan", "read_records", "write_manifest"]


class Part(NamedTuple):
    """One file of a job, and its name in the output folder."""

    source: Path
    output: str


def plan(inputs: Iterable[Path], folder: Path) -> list[Part]:
    """The parts of a job: files as they are, folders with all that is in them.

    Files keep their names and, inside a folder, their place in it. What lies in the output folder
    is no input.
    """
    parts: dict[str, Part] = {}
    for path in inputs:
        for part in _parts_of(path, folder):
            if part.output in parts:
                raise ValueError(
                    f"Got two inputs for {str(folder / part.output)!r}: "
                    f"{str(parts[part.output].source)!r} and {str(part.source)!r}. Rename one, or "
                    "give the folder that holds both."
                )
            parts[part.output] = part
    if not parts:
        raise ValueError("Got no input, but expected files or folders.")
    for part in parts.values():
        if (folder / part.output).exists() and part.source.samefile(folder / part.output):
            raise ValueError(
                f"Got {str(part.source)!r} as input and output, but expected another folder."
            )
    return list(parts.values())


def _parts_of(path: Path, folder: Path) -> list[Part]:
    if not path.is_dir():
        file_format(path)  # a missing file or a foreign format is an error now, not in an hour
        return [Part(path, path.name)]
    avoid = folder.resolve()
    if path.resolve().is_relative_to(avoid):
        raise ValueError(
            f"Got {str(path)!r} as input and {str(folder)!r} as output, but expected another "
            "folder for the output, one that does not hold the input."
        )
    found = [
        Part(file, file.relative_to(path).as_posix())
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in FORMATS
        and file.is_file()
        and not is_hidden(file, path)
        and not file.resolve().is_relative_to(avoid)
    ]
    if not found:
        raise ValueError(
            f"Got the folder {str(path)!r}, but there is no file of format {', '.join(FORMATS)} "
            "in it."
        )
    return found


# -- The memory of a job in its output folder: a line a finished part, a manifest at the end -------


FORMAT = "unspot-transform/1"
MANIFEST = "manifest.json"
JOURNAL = ".unspot-journal.jsonl"


@dataclass(frozen=True)
class Done:
    """A part that is finished: what it came from, and what it is."""

    output: str  # relative to the output folder
    input: str
    rows: int
    bytes: int
    sha256: str
    input_bytes: int
    input_mtime_ns: int

    def is_from(self, source: Path) -> bool:
        """Whether ``source`` is where the part came from, as far as a path can tell.

        It was written down as the user gave it, perhaps in another working directory.
        """
        known = [step for step in Path(os.path.normpath(self.input)).parts if step != ".."]
        return Path(os.path.abspath(source)).parts[-len(known) :] == tuple(known)

    def holds(self, folder: Path, source: Path) -> bool:
        """Whether the part is still there, and its input still what it was."""
        target = folder / self.output
        if not target.is_file() or target.stat().st_size != self.bytes:
            return False
        now = source.stat()
        return (now.st_size, now.st_mtime_ns) == (self.input_bytes, self.input_mtime_ns)


def read_records(folder: Path) -> tuple[dict[str, Any] | None, dict[str, Done]]:
    """The identity of the job that wrote into a folder, and its finished parts by output.

    None if no job did. A journal, which begins with all that was kept, says more than a manifest,
    which may be of the job before. A line of it that was cut by a crash, or that is of another
    version, is left out: its part is done again.
    """
    identity: dict[str, Any] | None = None
    records: list[Any] = []
    manifest = _load(folder / MANIFEST)
    if manifest is not None and manifest.get("format") == FORMAT:
        identity = manifest.get("job")
        records += manifest.get("parts", ())
    for line in _lines(folder / JOURNAL):
        if isinstance(line, dict) and "job" in line:
            identity, records = line["job"], []
        else:
            records.append(line)
    parts = [_done(record) for record in records]
    return identity, {part.output: part for part in parts if part is not None}


class Journal:
    """Appends finished parts, each on the disk before the next is said to be done.

    While there is one, there is no manifest: that of a run before is removed.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], known: Iterable[Done]) -> None:
        self._path = folder / JOURNAL
        lines: list[dict[str, Any]] = [{"job": identity}, *(asdict(part) for part in known)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with naming_full_disk(self._path):
            write_atomically(self._path, text.encode())
        (folder / MANIFEST).unlink(missing_ok=True)
        self._file: IO[str] = self._path.open("a", encoding="utf-8")

    def add(self, part: Done) -> None:
        with naming_full_disk(self._path):
            self._file.write(json.dumps(asdict(part)) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        # What a full disk refused is still buffered, and closing would try it once more.
        with suppress(OSError):
            self._file.close()

    def remove(self) -> None:
        """At the end of the job: the manifest says it all."""
        self.close()
        self._path.unlink(missing_ok=True)


def write_manifest(
    folder: Path, identity: dict[str, Any], parts: Iterable[Done], bad: Iterable[dict[str, str]]
) -> dict[str, Any]:
    """Write and return the manifest: parts by name, row counts, checksums, what was skipped.

    It holds no times and no host, so that a broken and an unbroken run end with the same bytes.
    """
    ordered = sorted(parts, key=lambda part: part.output)
    manifest = {
        "format": FORMAT,
        "job": identity,
        "rows": sum(part.rows for part in ordered),
        "parts": [asdict(part) for part in ordered],
        "skipped": sorted(bad, key=lambda entry: entry["input"]),
    }
    with naming_full_disk(folder / MANIFEST):
        write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    return manifest


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Only one job at a time in a folder."""
    if not hasattr(os, "O_DIRECTORY"):  # a system that opens no folders
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not try_lock(handle):
            raise ValueError(
                f"Got output folder {str(folder)!r}, in which another transform is at work. Wait "
                "for it, or choose another folder."
            )
        yield
    finally:
        os.close(handle)


def _done(record: Any) -> Done | None:
    try:
        return Done(**record)
    except TypeError:  # other fields, or none
        return None


def _load(path: Path) -> dict[str, Any] | None:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _lines(path: Path) -> Iterator[Any]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return  # the last line, cut by a crash
