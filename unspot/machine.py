"""What a result depends on besides the data: the number of threads, and versions of packages.

Small models call thousands of small matrix products. If each is spread over threads, the threads
wait for each other at every product: on a busy machine that made a logistic regression seventy
times slower, and on an idle one it gains nothing. So small work runs on one thread. BLAS is also
slow at dividing a tall and narrow product, so large work is cut into pieces with one thread each.

That is also what makes bits the same for any number of threads. A library that divides a sum over
its threads adds it up in another order with each number of them. Pieces are cut by the data alone,
and their results are put together in the order of the pieces.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from unspot._version import __version__

__all__ = [
    "cores",
    "divisible",
    "in_threads",
    "one_thread",
    "quota_of",
    "same_bits",
    "threads",
    "versions",
]

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
    blas = _libraries("blas")
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


#: The threads that ``in_threads`` may use where every library is limited to one. None: no limit.
_divisible: ContextVar[int | None] = ContextVar("divisible", default=None)


#: How libraries learn the number of their threads when they are loaded.
_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
#: What ``threads`` allows.
_allowed: float = inf


def cores() -> int:
    """The cores for this process, by its affinity, the quota of its container and ``threads``.

    Examples
    --------
    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(min(mine, _quota(), _allowed))


@contextmanager
def threads(n: int | None = None) -> Iterator[None]:
    """Let every library use at most n threads, also those that are loaded later.

    By default as many as there are ``cores``, if the environment does not say otherwise. Libraries
    count the cores of the machine: in a container that may use two of 64, that are 64 threads.
    """
    global _allowed
    if n is None and (any(map(os.environ.get, _VARIABLES)) or cores() == os.cpu_count()):
        yield
        return
    most, before, allowed = n or cores(), dict(os.environ), _allowed
    os.environ.update(dict.fromkeys(_VARIABLES, str(most)))
    _allowed = most
    loaded = _limit_loaded(most)
    try:
        yield
    finally:
        _allowed = allowed
        for name in _VARIABLES:
            os.environ.pop(name)
            os.environ.update({name: before[name]} if name in before else {})
        loaded()


def _limit_loaded(most: int) -> Callable[[], None]:
    """Limit the libraries that are loaded; a function that undoes it."""
    if "numpy" not in sys.modules:  # nor those that need it
        return lambda: None
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0  # of OpenMP, which the next line limits too
    limit = threadpool_limits(most)
    if torch:
        torch.set_num_threads(most)

    def undo() -> None:
        limit.restore_original_limits()
        if torch:
            torch.set_num_threads(before)

    return undo


@lru_cache(maxsize=1)
def _quota() -> float:
    """The whole cores that control groups of Linux grant, as containers use them; at least one."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return inf
    return quota_of(groups, Path("/sys/fs/cgroup"))


def quota_of(groups: str, mount: Path) -> float:
    """The smallest quota of a process's groups and those that they are in, in whole cores.

    Parameters
    ----------
    groups : str
        The lines of ``/proc/self/cgroup``: number, controllers and path.
    mount : path
        Where the groups are files. Inside a container the path may be that of its host, which is
        not there: then the top of the mount is the container's own group.
    """
    quota = inf
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        names: tuple[str, ...] = ("cpu.max",)
        if number == "0":  # version 2
            top = mount
        elif "cpu" in controllers.split(","):
            top, names = mount / controllers, ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            top = top if top.is_dir() else mount / "cpu"
        else:
            continue
        here = top / path.lstrip("/")
        for folder in (here, *here.parents):
            quota = min(quota, _granted(folder, names))
            if folder == top:
                break
    return quota if quota == inf else max(1, int(quota))


def _granted(folder: Path, names: tuple[str, ...]) -> float:
    """The cores that the files of one group grant; infinity if they set no limit."""
    try:
        numbers = " ".join((folder / name).read_text(encoding="utf-8") for name in names)
        quota, period = map(float, numbers.split())
    except (OSError, ValueError):  # no such file, or "max"
        return inf
    return quota / period if quota > 0 < period else inf


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; also a decorator, ``@one_thread()``."""
    with _limited(1):
        yield


@contextmanager
def same_bits() -> Iterator[None]:
    """``one_thread`` for all but ``in_threads``: bits are the same for any number of threads.

    ``in_threads`` divides its pieces over as many threads as torch and BLAS may use outside. In a
    process that was forked that is one: OpenMP would wait for ever for the threads of the parent
    process, which did not come along.
    """
    allowed = 1 if _is_fork else _divisible.get()
    with _limited(_threads_now() if allowed is None else allowed):
        yield


@contextmanager
def _limited(divisible: int) -> Iterator[None]:
    """One thread for every library, and some number of them for ``in_threads``."""
    # It brings an OpenMP of its own, which could not be limited if it came later: boosted trees
    # then took minutes on a busy machine.
    import sklearn.base  # noqa: F401

    torch, before = sys.modules.get("torch"), _divisible.get()
    _divisible.set(divisible)
    # The number of OpenMP belongs to the calling thread, and torch sets it as well: so each caller
    # restores its own.
    openmp = _libraries("openmp")
    try:
        with _one_of_blas(), _one_of_torch() if torch else nullcontext(), openmp.limit(limits=1):
            if torch:
                torch.set_num_threads(1)
            yield
    finally:
        _divisible.set(before)


def divisible() -> int:
    """The threads over which torch's work can be divided by ``in_threads``.

    Outside of ``same_bits`` it is one, since torch divides its products itself.
    """
    return _divisible.get() or 1


def _threads_now() -> int:
    """The threads that BLAS and torch may both use."""
    torch = sys.modules.get("torch")
    blas = [library["num_threads"] for library in _libraries("blas").info()]
    libraries = [max(blas, default=1)] + ([torch.get_num_threads()] if torch else [])
    return int(min(*libraries, _quota()))


def _libraries(kind: str) -> Any:
    return _loaded_libraries(kind, len(sys.modules))


@lru_cache(maxsize=8)
def _loaded_libraries(kind: str, n_modules: int) -> Any:
    """To look for them takes a millisecond; only an import can bring new ones."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api=kind)


_is_fork = False


def _mark_fork() -> None:
    global _is_fork, _dividing
    _is_fork = True
    # Threads that held these locks do not exist here, and would never release them.
    _dividing = Lock()
    _one_of_blas.lock, _one_of_torch.lock = Lock(), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def in_threads(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], *, most: int
) -> Generator[Result]:
    """Results of ``work`` in the order of the pieces, several at a time, each on one thread.

    Uses as many threads as BLAS may use now, or outside of ``same_bits``, but at most ``most``, so
    that a limit on BLAS also limits this. A call from another thread at the same time, such as from
    the tasks of a cluster, runs on that thread only. Memory: one piece per thread, and one that
    waits.

    Examples
    --------
    >>> list(in_threads(len, ["a", "bcd", "ef"], most=4))
    [1, 3, 2]
    """
    with _dividing_over(most) as n:
        if n == 1:
            yield from map(work, pieces)
            return
        coming: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(n, initializer=_begin_thread, initargs=(_divisible.get(),)) as pool:
            for piece in pieces:
                coming.append(pool.submit(work, piece))
                if len(coming) > n:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()


def _begin_thread(divisible: int | None) -> None:
    """Torch's number of threads belongs to the thread that asks for it."""
    if divisible is not None and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@contextmanager
def _dividing_over(most: int) -> Iterator[int]:
    """The number of threads to use, while BLAS is limited to one."""
    dividing, allowed = _dividing, _divisible.get()
    divides = most > 1 and allowed != 1 and dividing.acquire(blocking=False)
    try:
        n = min(most, allowed or _threads_now()) if divides else 1
        with _one_of_blas():
            yield n
    finally:
        if divides:
            dividing.release()


def versions() -> dict[str, str]:
    """Versions of the packages that the numbers depend on, for the metadata."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {"unspot": __version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed
