"""Erasing many files into a folder: several workers, resumed by part, each part whole or absent.

While a job runs, a journal in the output folder has one line per finished part. At the end a
manifest takes its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypedDict

from unspot.checks import check_count
from unspot.io.files import (
    FORMATS,
    file_format,
    file_hash,
    is_hidden,
    sampled_hash,
    try_lock,
    write_atomically,
)
from unspot.io.journal import JsonLines, json_line, read_lines
from unspot.io.records import as_type, parse
from unspot.machine import cores
from unspot.scale.batches import Erasure
from unspot.scale.files import erase_file

__all__ = ["Done", "Part", "Result", "plan", "read_records", "transform_files"]

FORMAT = "unspot-transform/1"
MANIFEST = "manifest.json"
JOURNAL = ".unspot-journal.jsonl"

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Result:
    """What a job did: its manifest, and which parts were there already."""

    manifest: dict[str, Any]
    done: tuple[str, ...]  # outputs written by this run
    kept: tuple[str, ...]  # outputs that an earlier run had finished


class _Stopped(Exception):
    """Another part failed: this one need not go on."""


def transform_files(
    erasure: Erasure,
    inputs: Iterable[Path],
    folder: Path,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
    force: bool = False,
    verify: bool = False,
    begin: Callable[[list[Part]], None] = lambda parts: None,
    advance: Advance = lambda rows: None,
    finished: Callable[[Part], None] = lambda part: None,
) -> Result:
    """Erase many files into a folder.

    Parameters
    ----------
    erasure : Erasure
        The eraser, the columns and whether to reduce.
    inputs : iterable of Path
        Files, and folders of them: ``.npy``, ``.npz``, ``.csv``, ``.parquet``.
    folder : Path
        Where the parts go, with a ``manifest.json`` of row counts and checksums at the end. If an
        earlier run of the same job was interrupted here, its finished parts are kept. A part whose
        input has left its folder since then stays, but is listed apart and not counted.
    workers : int, optional
        The number of files in work at the same time; by default the number of cores.
    skip_bad : bool
        Continue after a file that cannot be read or erased, and record it in the manifest. Its
        output of an earlier run is removed.
    force : bool
        Start again in a folder that is not empty. Parts that an earlier job left there are
        replaced, and removed at the end if this job has no file of their name.
    verify : bool
        Read all parts that earlier runs finished, and erase those again whose checksum differs. By
        default only parts that were written to since are read.
    begin, advance, finished : callable
        Called with the parts that are left to do, with the number of rows after every chunk, and
        with every part that is complete or skipped.

    Notes
    -----
    Workers are threads: decoding, matrix products, hashing and writing all release Python's lock,
    and threads need no second copy of anything (two processes were no faster, see
    ``benchmarks/transform.py``). Memory per worker: about ten megabytes with arrays, about a
    hundred with Parquet.
    """
    inputs = list(inputs)
    parts = plan(inputs, folder)
    check_workers(workers, len(parts))
    if folder.is_file():
        raise ValueError(
            f"Got output {str(folder)!r}, which is a file, but expected a folder: several files, "
            "or a folder of them, are written to a folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder):
        identity = erasure.identity()
        records, kept = _earlier_parts(parts, folder, identity, force=force)
        since = -1 if verify else records.time
        todo = [
            part
            for part in parts
            if part.output not in kept or not kept[part.output].holds(folder, part.source, since)
        ]
        for part in todo:
            kept.pop(part.output, None)
        # What is known to be wrong is removed before a manifest is there, also by a later run.
        stale = {*records.stale, *records.parts} - kept.keys()
        begin(todo)
        outcomes = _erase_in_threads(erasure, todo, folder, workers, advance)
        done: dict[str, Done] = {}
        skipped: list[dict[str, str]] = []
        # Outcomes are closed at once, also after an error: workers stop, and remove their files.
        with _open_journal(folder, identity, kept.values(), stale) as journal, closing(outcomes):
            for part, outcome in outcomes:
                if isinstance(outcome, Done):
                    journal.append(outcome.record())
                    done[part.output] = outcome
                # A ValueError is about the file that was read; an OSError may be about the disk.
                elif skip_bad and isinstance(outcome, (ValueError, FileNotFoundError)):
                    skipped.append({"input": str(part.source), "error": str(outcome)})
                    (folder / part.output).unlink(missing_ok=True)  # it is of an earlier run
                else:
                    raise outcome
                finished(part)
        if skipped and not done and not kept:
            raise ValueError(f"Got no file that could be erased. The first: {skipped[0]['error']}")
        for name in stale - done.keys():
            (folder / name).unlink(missing_ok=True)
        lost = {name for name, done in kept.items() if _has_left(done, inputs)}
        present = [done for name, done in {**kept, **done}.items() if name not in lost]
        manifest = write_manifest(folder, identity, present, skipped, [kept[name] for name in lost])
        (folder / JOURNAL).unlink(missing_ok=True)
    still_there = [part.output for part in parts if part.output in kept]
    return Result(manifest, tuple(done), tuple(still_there))


def check_workers(workers: int | None, n_parts: int) -> int:
    """The number of parts in work at the same time."""
    n_workers = cores() if workers is None else check_count("workers", workers)
    return max(1, min(n_workers, n_parts))


# -- Which files a job has, and where each of them goes --------------------------------------------


class Part(NamedTuple):
    """One file of a job, and its name in the output folder."""

    source: Path
    output: str


def plan(inputs: Iterable[Path], folder: Path) -> list[Part]:
    """The parts of a job: files as they are, folders with all files in them.

    Files keep their names and, inside a folder, their place in it. Files in the output folder are
    not inputs.
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
        file_format(path)  # a missing file or an unknown format is an error now, not in an hour
        return [Part(path, path.name)]
    output = folder.resolve()
    if path.resolve().is_relative_to(output):
        raise ValueError(
            f"Got {str(path)!r} as input and {str(folder)!r} as output, but expected another "
            "folder for the output, one that does not hold the input."
        )
    parts = [
        Part(file, file.relative_to(path).as_posix())
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in FORMATS
        and file.is_file()
        and not is_hidden(file, path)
        and not file.resolve().is_relative_to(output)
    ]
    if not parts:
        raise ValueError(
            f"Got the folder {str(path)!r}, but there is no file of format {', '.join(FORMATS)} "
            "in it."
        )
    return parts


# -- What earlier runs did: the journal and the manifest in the output folder ----------------------


@dataclass(frozen=True)
class Done:
    """A finished part: its input, and what was written."""

    output: str  # relative to the output folder
    input: str
    rows: int
    bytes: int
    sha256: str
    input_bytes: int
    input_mtime_ns: int
    input_sample: str = ""  # a hash of some bytes; versions before 0.1 did not take it

    def record(self) -> dict[str, Any]:
        """As it is written to journals and manifests."""
        return {name: value for name, value in asdict(self).items() if value != ""}

    def is_from(self, source: Path) -> bool:
        """Whether ``source`` is the input of the part, as far as its path tells.

        The path was recorded as the user gave it, perhaps in another working directory.
        """
        steps = [step for step in Path(os.path.normpath(self.input)).parts if step != ".."]
        return Path(os.path.abspath(source)).parts[-len(steps) :] == tuple(steps)

    def holds(self, folder: Path, source: Path, since: int) -> bool:
        """Whether the part is still there, and its input has not changed.

        The part is read only if it was written to after the time ``since``, in nanoseconds. Of the
        input some bytes are read, since tools that copy files set their times.
        """
        target = folder / self.output
        if not target.is_file() or target.stat().st_size != self.bytes:
            return False
        now = source.stat()
        if (now.st_size, now.st_mtime_ns) != (self.input_bytes, self.input_mtime_ns):
            return False
        if self.input_sample and self.input_sample != sampled_hash(source):
            return False
        return target.stat().st_mtime_ns <= since or file_hash(target) == self.sha256


class _Optional(TypedDict, total=False):
    without_input: list[Any]


class _Manifest(_Optional):
    format: str
    job: dict[str, Any] | None
    parts: list[Any]


class _Stale(TypedDict):
    stale: list[str]


class Records(NamedTuple):
    """What a folder says of the jobs that wrote into it."""

    job: dict[str, Any] | None  # the identity of the last one; None if there was none
    parts: dict[str, Done]  # its finished parts, by output
    stale: tuple[str, ...] = ()  # outputs that it had not replaced yet
    time: int = -1  # when the last of this was written, in nanoseconds


def read_records(folder: Path) -> Records:
    """The records in a folder.

    A journal begins with all parts that were kept, so it replaces a manifest, which may be of the
    job before. A line that was cut by a crash, or that is of another version, is left out: its part
    is done again.
    """
    identity: dict[str, Any] | None = None
    lines: list[Any] = []
    time = -1
    with suppress(OSError, ValueError):
        manifest = as_type(_Manifest, parse((folder / MANIFEST).read_bytes()))
        if manifest["format"] == FORMAT:
            identity, time = manifest["job"], (folder / MANIFEST).stat().st_mtime_ns
            lines = manifest["parts"] + manifest.get("without_input", [])
    with suppress(OSError, ValueError):
        for line in read_lines(folder / JOURNAL):
            if isinstance(line, dict) and "job" in line:
                identity, lines, time = line["job"], [], (folder / JOURNAL).stat().st_mtime_ns
            else:
                lines.append(line)
    parts: dict[str, Done] = {}
    stale: list[str] = []
    for line in lines:
        with suppress(ValueError):  # fields of other types, or none
            stale += as_type(_Stale, line)["stale"]
        with suppress(ValueError):
            part = as_type(Done, line)
            parts[part.output] = part
    return Records(identity, parts, tuple(stale), time)


def _open_journal(
    folder: Path, identity: dict[str, Any], kept: Iterable[Done], stale: Iterable[str]
) -> JsonLines:
    """A journal that begins with the parts that are kept; the manifest before is removed."""
    lines: list[dict[str, Any]] = [{"job": identity}, {"stale": sorted(stale)}]
    lines += [part.record() for part in kept]
    write_atomically(folder / JOURNAL, b"".join(map(json_line, lines)))
    (folder / MANIFEST).unlink(missing_ok=True)
    return JsonLines(folder / JOURNAL)


def write_manifest(
    folder: Path,
    identity: dict[str, Any],
    parts: Iterable[Done],
    skipped: Iterable[dict[str, str]],
    without_input: Iterable[Done] = (),
) -> dict[str, Any]:
    """Write and return the manifest: parts by name, row counts, checksums, skipped files.

    It holds no times and no host, so an interrupted and an uninterrupted run write the same bytes.
    """
    ordered = sorted(parts, key=lambda part: part.output)
    lost = sorted(without_input, key=lambda part: part.output)
    manifest = {
        "format": FORMAT,
        "job": identity,
        "rows": sum(part.rows for part in ordered),
        "parts": [part.record() for part in ordered],
        "skipped": sorted(skipped, key=lambda entry: entry["input"]),
    } | ({"without_input": [part.record() for part in lost]} if lost else {})
    write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
    return manifest


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Only one job at a time in a folder."""
    if not hasattr(os, "O_DIRECTORY"):  # a system that cannot open folders
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


def _earlier_parts(
    parts: list[Part], folder: Path, identity: dict[str, Any], *, force: bool
) -> tuple[Records, dict[str, Done]]:
    """The records in a folder, and the finished parts of an earlier run of the same job.

    Refuses a folder of something else.
    """
    found = read_records(folder)
    earlier = {name: done for name, done in found.parts.items() if _is_inside(folder, name)}
    stale = tuple(name for name in found.stale if _is_inside(folder, name))
    records = Records(found.job, earlier, stale, found.time)
    if force:
        return records, {}
    if records.job == identity:
        _refuse_other_inputs(parts, earlier, folder)
        return records, dict(earlier)
    if records.job is not None:
        raise ValueError(
            f"Got output folder {str(folder)!r}, which holds the output of another job (another "
            "eraser, other columns, or --reduce). Choose another folder, or start again in it with "
            "--force."
        )
    if any(not entry.name.startswith(".unspot-") for entry in folder.iterdir()):
        raise ValueError(
            f"Got output folder {str(folder)!r}, which is not empty and was not written by "
            "`unspot transform`. Choose another folder, or write into it with --force."
        )
    return records, {}


def _is_inside(folder: Path, name: str) -> bool:
    """Whether a recorded part is there, and inside the folder: anybody can write a record."""
    path = folder / name
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _has_left(done: Done, inputs: Iterable[Path]) -> bool:
    """Whether the input of a part was in one of the folders that are read now, and is gone."""
    return any(
        folder.is_dir()
        and done.is_from(folder / done.output)
        and not (folder / done.output).exists()
        for folder in inputs
    )


def _refuse_other_inputs(parts: list[Part], earlier: dict[str, Done], folder: Path) -> None:
    for part in parts:
        before = earlier.get(part.output)
        if before is not None and not before.is_from(part.source):
            raise ValueError(
                f"Got {str(part.source)!r} for {str(folder / part.output)!r}, which an earlier run "
                f"made from {before.input!r}. Choose another folder, or start again in it with "
                "--force."
            )


# -- The work: each part with its outcome, a ``Done`` or an error ----------------------------------

Outcomes = Generator[tuple[Part, Any]]


def _erase_in_threads(
    erasure: Erasure, parts: list[Part], folder: Path, workers: int | None, advance: Advance
) -> Outcomes:
    from threadpoolctl import threadpool_limits

    n_workers = check_workers(workers, len(parts))
    stop = Event()

    def step(rows: int) -> None:
        if stop.is_set():
            raise _Stopped
        advance(rows)

    # The workers share the cores: more threads than cores make all of them slower.
    blas_threads = max(1, cores() // n_workers)
    with threadpool_limits(blas_threads, user_api="blas"), ThreadPoolExecutor(n_workers) as pool:
        try:
            yield from _hand_out(
                parts, n_workers, lambda part: pool.submit(_erase_part, erasure, part, folder, step)
            )
        finally:
            stop.set()


def _hand_out(parts: list[Part], at_once: int, submit: Callable[[Part], Future[Done]]) -> Outcomes:
    """Each part with its outcome, as they become ready."""
    pending: dict[Future[Done], Part] = {}
    queue = iter(parts)
    while True:
        # Few parts are handed out at a time, so that the order is kept and a stop is quick.
        while len(pending) < at_once and (part := next(queue, None)) is not None:
            pending[submit(part)] = part
        if not pending:
            return
        ready, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in ready:
            yield pending.pop(future), future.exception() or future.result()


def _erase_part(erasure: Erasure, part: Part, folder: Path, advance: Advance) -> Done:
    before, sample = part.source.stat(), sampled_hash(part.source)  # when reading begins
    target = folder / part.output
    written = erase_file(erasure, part.source, target, hashed=True, advance=advance)
    return Done(
        output=part.output,
        input=str(part.source),
        rows=written.rows,
        bytes=written.size,
        sha256=written.sha256,
        input_bytes=before.st_size,
        input_mtime_ns=before.st_mtime_ns,
        input_sample=sample,
    )
