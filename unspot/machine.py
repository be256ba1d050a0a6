"""What a result depends on besides the data: the number of threads, and versions of packages.

Small models call thousands of small matrix products. If each is spread over threads, the threads
wait for each other at every product: on a busy machine that made a logistic regression seventy
times slower, and on an idle one it gains nothing. So small work runs on one thread. BLAS is also
slow at dividing a tall and narrow product, so large work is cut into pieces with one thread each.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from typing import Any, TypeVar

from unspot._version import __version__

__all__ = ["in_threads", "one_thread", "one_thread_after_fork", "versions"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")
#: Only one caller at a time divides its work over threads.
_dividing = Lock()


class _Shared:
    """A context that the first of overlapping callers enters and the last one leaves.

    Limits of the whole process need this. If each caller restored what it found, a caller that
    came second and left last would restore the limit of the first.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        self._context = context
        self._users = 0
        self.lock = Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self._users == 0:
                self._entered = self._context()
                self._entered.__enter__()
            self._users += 1
        try:
            yield
        finally:
            with self.lock:
                self._users -= 1
                if self._users == 0:
                    self._entered.__exit__(None, None, None)


@contextmanager
def _blas_limited() -> Iterator[None]:
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    limit = blas.limit(limits=1)
    yield
    _release(blas)
    limit.restore_original_limits()
    _release(blas)


def _release(blas: Any) -> None:
    """Let any thread set the limit: threadpoolctl 3.8 obeys only the thread that set it first."""
    for library in blas.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextmanager
def _torch_restored() -> Iterator[None]:
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


_one_of_blas = _Shared(_blas_limited)
_one_of_torch = _Shared(_torch_restored)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; also a decorator, ``@one_thread()``."""
    from threadpoolctl import ThreadpoolController

    torch = sys.modules.get("torch")
    openmp = ThreadpoolController().select(user_api="openmp")
    # The number of OpenMP belongs to the calling thread, and torch sets it as well: so each caller
    # restores its own.
    with _one_of_blas(), _one_of_torch() if torch else nullcontext(), openmp.limit(limits=1):
        if torch:
            torch.set_num_threads(1)
        yield


_is_fork = False


def _mark_fork() -> None:
    global _is_fork, _dividing
    _is_fork = True
    # Threads that held these locks do not exist here, and would never release them.
    _dividing = Lock()
    _one_of_blas.lock, _one_of_torch.lock = Lock(), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def one_thread_after_fork() -> AbstractContextManager[None]:
    """``one_thread`` in a process that was forked, where OpenMP waits for ever for more threads.

    It believes that the threads of the parent process are there, but they did not come along.
    """
    return one_thread() if _is_fork else nullcontext()


def in_threads(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, most: int
) -> Generator[Result]:
    """Results of ``work`` in the order of the pieces, several at a time, each on one thread.

    Uses as many threads as BLAS may use now, but at most ``most``, so that a limit on BLAS also
    limits this. A call from another thread at the same time, such as from the tasks of a cluster,
    runs on that thread only. Memory: one piece per thread, and one that waits.

    Examples
    --------
    >>> list(in_threads(len, ["a", "bcd", "ef"], most=4))
    [1, 3, 2]
    """
    with _blas_threads(most) as n:
        if n == 1:
            yield from map(work, pieces)
            return
        coming: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(n) as pool:
            for piece in pieces:
                coming.append(pool.submit(work, piece))
                if len(coming) > n:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()


@contextmanager
def _blas_threads(most: int) -> Iterator[int]:
    """The number of threads to use. If there are several, BLAS is limited to one thread."""
    dividing = _dividing
    if most < 2 or not dividing.acquire(blocking=False):
        yield 1
        return
    try:
        from threadpoolctl import ThreadpoolController

        blas = ThreadpoolController().select(user_api="blas")
        n = min(most, max((library["num_threads"] for library in blas.info()), default=1))
        if n < 2:
            yield 1
            return
        with _one_of_blas():
            yield n
    finally:
        dividing.release()


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on, for the metadata."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {"unspot": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
