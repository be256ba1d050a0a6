"""Decide how many threads a computation uses, and name the versions that it depends on.

Small models call thousands of small matrix products. If each is spread over threads, the threads
wait for each other at every product: on a busy machine that made a logistic regression seventy
times slower. So small work runs on one thread. BLAS is also slow at dividing a tall and narrow
product, so large work is cut into pieces with one thread each. Pieces are cut by the data alone and
their results are combined in order: the same seed, machine and number of threads give the same
bits.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from importlib.util import find_spec
from threading import Lock
from typing import Any, TypeVar

from unspot._version import __version__

Piece = TypeVar("Piece")
Result = TypeVar("Result")

#: How libraries learn the number of their threads when they are loaded.
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
#: The threads that ``in_threads`` may use where libraries are limited to one; None: not limited.
_divisible: ContextVar[int | None] = ContextVar("divisible", default=None)
#: Only one caller at a time divides its work over threads.
_dividing = Lock()


def cores() -> int:
    """Count the cores for this process: by its affinity, and by the quota of its container.

    Examples
    --------
    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    try:
        from joblib import cpu_count
    except ImportError:  # where erasers are only applied
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return int(cpu_count())


@contextmanager
def threads(n: int | None = None) -> Iterator[None]:
    """Let libraries that are loaded inside, and ``in_threads``, use at most n threads."""
    if n is None:
        yield
        return
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(_VARIABLES, str(n)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; also a decorator, ``@one_thread()``."""
    with _limited(1):
        yield


@contextmanager
def pieces_in_threads() -> Iterator[None]:
    """Limit libraries to one thread, and let ``in_threads`` use those that they could use."""
    with _limited(None):
        yield


@contextmanager
def _limited(n: int | None) -> Iterator[None]:
    # It brings an OpenMP of its own, which could not be limited if it came later: boosted trees
    # then took minutes on a busy machine.
    import sklearn.base  # noqa: F401

    torch, before = sys.modules.get("torch"), _divisible.get()
    _divisible.set(n or before or _threads_now())
    # The number of OpenMP belongs to the calling thread, and torch sets it as well.
    openmp = _libraries().select(user_api="openmp")
    try:
        with _torch_restored(), _one_of_blas(), openmp.limit(limits=1):
            if torch:
                torch.set_num_threads(1)
            yield
    finally:
        _divisible.set(before)


class _Limit:
    """Set a limit of this process until the last of overlapping callers has left.

    If each caller restored what it found, one that came second and left last would restore the
    limit of the first.
    """

    def __init__(self, set_limit: Callable[[], Callable[[], None]]) -> None:
        self._set_limit, self._users, self._lock = set_limit, 0, Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            restore = self._set_limit()
            if self._users == 0:
                self._restore = restore
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._restore()


def _limit_blas() -> Callable[[], None]:
    limit = _libraries().select(user_api="blas").limit(limits=1)
    # threadpoolctl 3.8 obeys only the thread that set a limit first: let any thread restore it.
    for library in _libraries().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
    return limit.restore_original_limits


def _threads_of_torch() -> Callable[[], None]:
    torch = sys.modules.get("torch")
    return partial(torch.set_num_threads, torch.get_num_threads()) if torch else lambda: None


_one_of_blas, _torch_restored = _Limit(_limit_blas), _Limit(_threads_of_torch)


def divisible() -> int:
    """Count the threads over which torch's work can be divided by ``in_threads``.

    Outside of ``pieces_in_threads`` it is one, since torch divides its products itself.
    """
    return _divisible.get() or 1


def _threads_now() -> int:
    """Count the threads that BLAS and torch may both use."""
    torch = sys.modules.get("torch")
    blas = [library["num_threads"] for library in _libraries().select(user_api="blas").info()]
    return min(max(blas, default=1), torch.get_num_threads() if torch else cores(), cores())


def _libraries() -> Any:
    return _loaded_libraries(len(sys.modules))


@lru_cache(maxsize=8)
def _loaded_libraries(n_modules: int) -> Any:
    """Find the libraries: it takes a millisecond, and only an import can bring new ones."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_threads(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, most: int
) -> Generator[Result]:
    """Yield results of ``work`` in the order of the pieces, several at a time on one thread each.

    Uses as many threads as BLAS may use now, or outside of ``pieces_in_threads``, but at most
    ``most``. A call from another thread at the same time runs on that thread only. Memory: one
    piece per thread, and one that waits. Without threadpoolctl, BLAS divides the pieces itself.

    Examples
    --------
    >>> list(in_threads(len, ["a", "bcd", "ef"], most=4))
    [1, 3, 2]
    """
    allowed = _divisible.get()
    if most <= 1 or allowed == 1 or not _dividing.acquire(blocking=False):
        yield from map(work, pieces)
        return
    try:
        n = 1 if find_spec("threadpoolctl") is None else min(most, allowed or _threads_now())
        if n == 1:
            yield from map(work, pieces)
            return
        coming: deque[Future[Result]] = deque()
        with (
            _one_of_blas(),
            ThreadPoolExecutor(n, initializer=_begin_thread, initargs=(allowed,)) as pool,
        ):
            for piece in pieces:
                coming.append(pool.submit(work, piece))
                if len(coming) > n:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
    finally:
        _dividing.release()


def _begin_thread(divisible: int | None) -> None:
    """Limit torch in a thread that begins, since its number belongs to the thread."""
    if divisible is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def versions() -> dict[str, str]:
    """Look up the versions of the packages that numbers depend on, for metadata."""
    return dict(_versions())


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    installed = {"unspot": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
