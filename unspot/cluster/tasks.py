"""Tasks whose errors come back as values: no engine logs, wraps or repeats them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

__all__ = ["EngineExecutor", "answer", "attempt"]


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
