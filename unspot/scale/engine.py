"""Erasing many files into a folder: several workers, resumable by part, atomic per part."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from unspot.scale.batches import Erasure
from unspot.scale.files import erase_file
from unspot.scale.folders import Done, Journal, Part, lock, plan, read_records, write_manifest

__all__ = ["EngineExecutor", "Result", "answer", "attempt", "transform_files"]

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Result:
    """What came of a job: its manifest, and which parts were there already."""

    manifest: dict[str, Any]
    done: tuple[str, ...]  # outputs written by this run
    kept: tuple[str, ...]  # outputs that an earlier run had finished


_Collected = tuple[dict[str, Done], list[dict[str, str]]]  # parts by output; what was skipped


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
    begin: Callable[[list[Part]], None] = lambda parts: None,
    advance: Advance = lambda rows: None,
    finished: Callable[[Part], None] = lambda part: None,
    executor: Executor | None = None,
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
        earlier run of the same job was broken off here, its finished parts are kept.
    workers : int, optional
        Files in work at a time; by default as many as cores.
    skip_bad : bool
        Go on past a file that cannot be read or erased, and record it in the manifest. What an
        earlier run made of it is removed.
    force : bool
        Start anew in a folder that is not empty. Parts that an earlier job left there are replaced,
        and removed if this one has no file of their name.
    begin, advance, finished : callable
        Called with the parts that are left to do, with the number of rows after every chunk, and
        with every part that is complete or skipped.
    executor : concurrent.futures.Executor, optional
        Who does the work instead of threads here: ``unspot.scale.executor`` gives that of a
        cluster, whose machines must see the same files. ``advance`` is then called for every part.

    Notes
    -----
    Workers are threads: decoding, matrix products, hashing and writing all leave Python's lock,
    and threads need no second copy of anything (two processes were no faster, see
    ``benchmarks/transform.py``). Memory for each worker: some ten megabytes with arrays, some
    hundred with Parquet.
    """
    parts = plan(inputs, folder)
    check_workers(workers, len(parts))
    if folder.is_file():
        raise ValueError(
            f"Got output {str(folder)!r}, which is a file, but expected a folder: several files, "
            "or a folder of them, are written to a folder."
        )
    folder.mkdir(parents=True, exist_ok=True)

    def work(todo: list[Part]) -> Generator[tuple[Part, Any]]:
        begin(todo)
        if executor is not None:
            return _work_elsewhere(erasure, todo, folder, workers, advance, executor)
        return _work(erasure, todo, folder, workers, advance)

    def collect(outcomes: Iterable[tuple[Part, Any]], journal: Journal) -> _Collected:
        return _collect(outcomes, journal, folder, skip_bad, finished)

    with lock(folder):
        known = _known_parts(parts, folder, erasure.identity(), force=force)
        return _run(parts, folder, erasure.identity(), known, work, collect)


def _run(
    parts: list[Part],
    folder: Path,
    identity: dict[str, Any],
    known: dict[str, Done],
    work: Callable[[list[Part]], Generator[tuple[Part, Any]]],
    collect: Callable[[Iterable[tuple[Part, Any]], Journal], _Collected],
) -> Result:
    """Do what is left of a job, and write the manifest when all of it is done."""
    todo = [part for part in parts if not _is_finished(part, known, folder)]
    redone = {part.output for part in todo}
    kept = {name: done for name, done in known.items() if name not in redone}
    journal = Journal(folder, identity, kept.values())
    try:
        # Closed at once, also after an error: workers stop, and unfinished files are removed.
        with closing(work(todo)) as outcomes:
            done, bad = collect(outcomes, journal)
    finally:
        journal.close()
    if bad and not done and not kept:
        raise ValueError(f"Got no file that could be erased. The first: {bad[0]['error']}")
    manifest = write_manifest(folder, identity, [*kept.values(), *done.values()], bad)
    journal.remove()
    names = [part.output for part in parts]
    return Result(manifest, tuple(done), tuple(name for name in names if name in kept))


def _is_finished(part: Part, known: dict[str, Done], folder: Path) -> bool:
    return part.output in known and known[part.output].holds(folder, part.source)


def _collect(
    outcomes: Iterable[tuple[Part, Any]],
    journal: Journal,
    folder: Path,
    skip_bad: bool,
    finished: Callable[[Part], None],
) -> _Collected:
    """Write down what is done, and what was bad if that may be; else raise the first error."""
    done: dict[str, Done] = {}
    bad: list[dict[str, str]] = []
    for part, outcome in outcomes:
        if isinstance(outcome, Done):
            journal.add(outcome)
            done[part.output] = outcome
        elif skip_bad and _is_bad_input(outcome):
            bad.append({"input": str(part.source), "error": str(outcome)})
            # Of an earlier run: of other content, or erased by another eraser.
            (folder / part.output).unlink(missing_ok=True)
        else:
            raise outcome
        finished(part)
    return done, bad


def _known_parts(
    parts: list[Part], folder: Path, identity: dict[str, Any], *, force: bool
) -> dict[str, Done]:
    """The finished parts of an earlier run of the same job; refuses what belongs to others."""
    found, records = read_records(folder)
    known = {name: done for name, done in records.items() if _is_part(folder, name)}
    if force:
        for name in known.keys() - {part.output for part in parts}:
            (folder / name).unlink()
        return {}
    if found == identity:
        _refuse_other_inputs(parts, known, folder)
        return known
    if found is not None:
        raise ValueError(
            f"Got output folder {str(folder)!r}, which holds the output of another job (another "
            "eraser, other columns, or --reduce). Choose another folder, or start anew in it with "
            "--force."
        )
    if any(not entry.name.startswith(".unspot-") for entry in folder.iterdir()):
        raise ValueError(
            f"Got output folder {str(folder)!r}, which is not empty and was not written by "
            "`unspot transform`. Choose another folder, or write into it with --force."
        )
    return {}


def _is_part(folder: Path, name: str) -> bool:
    """Whether a recorded part is there, and inside the folder, whoever wrote the record."""
    path = folder / name
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _refuse_other_inputs(parts: list[Part], known: dict[str, Done], folder: Path) -> None:
    for part in parts:
        before = known.get(part.output)
        if before is not None and not before.is_from(part.source):
            raise ValueError(
                f"Got {str(part.source)!r} for {str(folder / part.output)!r}, which an earlier run "
                f"made from {before.input!r}. Choose another folder, or start anew in it with "
                "--force."
            )


def _is_bad_input(error: BaseException) -> bool:
    # A ValueError is about the file that was read; an OSError may be the disk that is written.
    return isinstance(error, (ValueError, FileNotFoundError))


def _work(
    erasure: Erasure, parts: list[Part], folder: Path, workers: int | None, advance: Advance
) -> Generator[tuple[Part, Any]]:
    """Erase parts side by side; yields each with what came of it, a ``Done`` or an error."""
    n_workers = check_workers(workers, len(parts))
    stop = Event()

    def step(rows: int) -> None:
        if stop.is_set():
            raise _Stopped
        advance(rows)

    with _threads_of_blas(n_workers), ThreadPoolExecutor(n_workers) as pool:
        try:
            yield from _hand_out(
                parts, n_workers, lambda part: pool.submit(_erase_part, erasure, part, folder, step)
            )
        finally:
            stop.set()


def _work_elsewhere(
    erasure: Erasure,
    parts: list[Part],
    folder: Path,
    workers: int | None,
    advance: Advance,
    executor: Executor,
) -> Generator[tuple[Part, Any]]:
    """As ``_work``, by the processes of an executor, wherever they are."""
    there = folder.resolve()
    whole = [Part(part.source.resolve(), part.output) for part in parts]
    named = dict(zip(whole, parts, strict=True))
    at_once = max(1, min(workers or 1000, len(parts)))
    for part, outcome in _hand_out(
        whole, at_once, lambda part: executor.submit(_erase_part, erasure, part, there, _ignore)
    ):
        if isinstance(outcome, Done):
            outcome = replace(outcome, input=str(named[part].source))
            advance(outcome.rows)
        yield named[part], outcome


def _hand_out(
    parts: list[Part], at_once: int, submit: Callable[[Part], Future[Done]]
) -> Generator[tuple[Part, Any]]:
    """Each part with what came of it, a ``Done`` or an error, in the order they are ready."""
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


def _ignore(rows: int) -> None:
    """No progress inside a part: the caller is on another machine."""


def _erase_part(erasure: Erasure, part: Part, folder: Path, advance: Advance) -> Done:
    before = part.source.stat()  # of the file as it was when reading began
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
    )


def check_workers(workers: int | None, n_parts: int) -> int:
    """How many parts to have in work at a time."""
    if workers is None:
        workers = cores()
    if workers < 1:
        raise ValueError(f"Got workers={workers}, but expected 1 or more.")
    return max(1, min(workers, n_parts))


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads_of_blas(n_workers: int) -> Any:
    """Share the cores among the workers: more threads than cores make all of them slower."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(max(1, cores() // n_workers), user_api="blas")


# -- Tasks whose errors come back as values: no engine logs, wraps or repeats them -----------------


class EngineExecutor(Executor):
    """An engine's tasks as futures. The first argument, the same for all tasks, is sent once.

    Parameters
    ----------
    engine : str
        What it is called in messages.
    send : callable
        Bring an object to the workers; what it returns stands for the object in ``run``.
    run : callable
        The future of ``attempt`` with these arguments, on a worker.
    """

    def __init__(
        self, engine: str, send: Callable[[Any], Any], run: Callable[..., Future[Any]]
    ) -> None:
        self._engine, self._send, self._run = engine, send, run
        self._sent: tuple[Any, Any] = (None, None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        first, *rest = args
        if self._sent[0] is not first:
            self._sent = (first, self._send(first))
        return answer(self._run(fn, self._sent[1], *rest, **kwargs), self._engine)


def attempt(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """Result or error of a call.

    Examples
    --------
    >>> attempt(int, "7"), attempt(int, "x")[1]
    ((7, None), ValueError("invalid literal for int() with base 10: 'x'"))
    """
    try:
        return fn(*args, **kwargs), None
    except Exception as error:
        return None, error


def answer(task: Future[tuple[Any, Exception | None]], engine: str) -> Future[Any]:
    """The future of a call, from that of its ``attempt`` by an engine."""
    found: Future[Any] = Future()

    def settle(done: Future[tuple[Any, Exception | None]]) -> None:
        # The worker died, not the task; or the cluster ended it, as after its data were lost.
        lost = "the task was cancelled" if done.cancelled() else done.exception()
        if lost is not None:
            sentence = f"Lost a {engine} worker ({lost}). Start again: what is finished is kept."
            found.set_exception(ConnectionError(sentence))
        else:
            result, error = done.result()
            found.set_exception(error) if error is not None else found.set_result(result)

    task.add_done_callback(settle)
    return found


# -- Engines that people already run ------------------------------------------------------------

ENGINES = ("dask", "ray")


@contextmanager
def executor(
    engine: str, address: str | None = None, *, workers: int | None = None
) -> Iterator[Executor]:
    """An executor whose tasks run on a cluster, for ``unspot.scale.transform_files``.

    Parameters
    ----------
    engine : {"dask", "ray"}
    address : str, optional
        Of the Dask scheduler (``tcp://host:8786``) or of the Ray head (``auto``,
        ``ray://host:10001``). By default a cluster is started on this machine.
    workers : int, optional
        Processes of a cluster on this machine; by default one for every core.
    """
    if engine not in ENGINES:
        raise ValueError(f"Got engine {engine!r}, but expected one of: {', '.join(ENGINES)}.")
    if workers is not None and workers < 1:
        raise ValueError(f"Got workers={workers}, but expected 1 or more.")
    if engine == "dask":
        from unspot.scale import dask as module
    else:
        from unspot.scale import ray as module  # type: ignore[no-redef]
    with module.executor(address, workers=workers) as pool:
        yield pool
