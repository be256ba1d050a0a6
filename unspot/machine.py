"""What a result depends on besides the data: the number of threads, and versions of packages.

Small models call thousands of small matrix products. If each is spread over threads, the threads
wait for each other at every product: on a busy machine that made a logistic regression seventy
times slower, and on an idle one it gains nothing. So small work runs on one thread. BLAS is also
slow at dividing a tall and narrow product, so large work is cut into pieces with one thread each.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeVar

from unspot._version import __version__

__all__ = ["in_threads", "one_thread", "versions"]

Piece = TypeVar("Piece")
Result = TypeVar("Result")
#: The limit on BLAS holds for the whole process, so only one caller at a time may set it.
_limit = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; also a decorator, ``@one_thread()``."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)


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
    if most < 2 or not _limit.acquire(blocking=False):
        yield 1
        return
    try:
        from threadpoolctl import ThreadpoolController

        blas = ThreadpoolController().select(user_api="blas")
        n = min(most, max((library["num_threads"] for library in blas.info()), default=1))
        if n < 2:
            yield 1
            return
        with blas.limit(limits=1):
            yield n
    finally:
        _limit.release()


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on, for the metadata."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {"unspot": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
