"""Fits on a busy machine, on one thread and with the default number of them.

A loop that never ends runs on every core, as the jobs of other people do. Threads that wait for
each other then wait for those loops. The time is wall-clock time, the median of some fits that take
turns: one thread, default, one thread, and so on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np

from unspot import LEACE, LEOPARD, Cascade
from unspot.datasets.synthetic import law
from unspot.machine import cores, threads

METHODS = {"cascade": lambda: Cascade(LEOPARD(rank=32, random_state=0)), "leace": LEACE}


def run(n: int = 2000, d: int = 64, repeats: int = 7) -> dict[str, Any]:
    """Seconds of fits on n × d rows, and ratios of the default to one thread."""
    rows = law("variance", n=n, d=d)
    X, z = rows.X.astype(np.float32), rows.z
    found: dict[str, Any] = {"rows": n, "features": d, "cores": cores(), "fits": repeats}
    with _busy(cores()):
        for name, make in METHODS.items():
            make().fit(X, z)  # what is loaded once is not counted
            seconds: dict[str, list[float]] = {"one thread": [], "default": []}
            for _ in range(repeats):
                with threads(1):
                    seconds["one thread"].append(_seconds(make(), X, z))
                seconds["default"].append(_seconds(make(), X, z))
            one, default = (median(times) for times in seconds.values())
            found |= {
                f"{name}, one thread (s)": one,
                f"{name}, default (s)": default,
                f"{name}, ratio": default / one,
            }
    return found


def _seconds(estimator: Any, X: Any, z: Any) -> float:
    started = time.perf_counter()
    estimator.fit(X, z)
    return time.perf_counter() - started


@contextmanager
def _busy(n: int) -> Iterator[None]:
    """So many processes that do nothing, without a pause."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
