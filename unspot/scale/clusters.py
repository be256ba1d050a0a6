"""Clusters of Dask and Ray as executors, for ``unspot.scale.transform_files``.

Errors of tasks come back as values, so that no engine logs, wraps or repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from unspot.checks import check_choice, check_count

__all__ = ["ENGINES", "EngineExecutor", "answer", "attempt", "executor"]

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
        The Dask scheduler (``tcp://host:8786``) or the Ray head (``auto``, ``ray://host:10001``).
        By default a cluster is started on this machine.
    workers : int, optional
        Processes of a cluster on this machine; by default one per core.
    """
    check_choice("engine", engine, ENGINES)
    if workers is not None:
        check_count("workers", workers)
    if engine == "dask":
        from unspot.scale import dask as module
    else:
        from unspot.scale import ray as module  # type: ignore[no-redef]
    with module.executor(address, workers=workers) as pool:
        yield pool


class EngineExecutor(Executor):
    """An engine's tasks as futures. The first argument, the same for all tasks, is sent once.

    Parameters
    ----------
    engine : str
        Its name in messages.
    send : callable
        Bring an object to the workers; what it returns takes the place of the object in ``run``.
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
    call: Future[Any] = Future()

    def settle(done: Future[tuple[Any, Exception | None]]) -> None:
        # Not an error of the task: the worker died, or the cluster lost the data of the task.
        lost = "the task was cancelled" if done.cancelled() else done.exception()
        if lost is not None:
            sentence = f"Lost a {engine} worker ({lost}). Start again: what is finished is kept."
            call.set_exception(ConnectionError(sentence))
            return
        result, error = done.result()
        if error is None:
            call.set_result(result)
        else:
            call.set_exception(error)

    task.add_done_callback(settle)
    return call
