"""Time of fits, of erasing and of commands, as ratios to what one would write or take instead.

CPU time on one thread, the median of several calls in one run, on Gaussian rows in single precision
whose classes differ in mean and covariance. LEACE is compared with the package concept-erasure,
where it is installed; a projection with the cheaper of (X @ U) @ U.T and X @ P. Commands are timed
as processes, with the import of everything that they need.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot import LEACE, LEOPARD, Cascade, Dataset, Eraser, certify, evaluate, rank_path
from unspot.datasets import load_glove_gender
from unspot.erasers import Transport
from unspot.machine import one_thread

Array = NDArray[Any]
SIZES = ((20_000, 384), (20_000, 768), (22_000, 100))


def run() -> dict[str, Any]:
    """Measure seconds and ratios."""
    with one_thread():
        figures: dict[str, Any] = {}
        for n, d in SIZES:
            figures |= _leace(n, d) | _projections(n, d)
        figures |= _transport() | _many_classes() | _cascades() | _judging()
    return figures | _commands()


def _leace(n: int, d: int) -> dict[str, Any]:
    X, z = _rows(n, d)
    eraser = LEACE().fit(X, z).eraser_
    fit, erase = seconds(lambda: LEACE().fit(X, z)), seconds(lambda: eraser(X))
    if find_spec("concept_erasure") is None:
        print("  concept-erasure is not installed: LEACE is compared with nothing")
        return {f"LEACE fit, {n} x {d}": {"s": fit}, f"LEACE apply, {n} x {d}": {"s": erase}}
    import torch
    from concept_erasure import LeaceEraser

    rows, labels = torch.tensor(X), torch.tensor(z)
    theirs = LeaceEraser.fit(rows, labels)
    return {
        f"LEACE fit, {n} x {d}": _against(fit, seconds(lambda: LeaceEraser.fit(rows, labels))),
        f"LEACE apply, {n} x {d}": _against(erase, seconds(lambda: theirs(rows))),
    }


def _projections(n: int, d: int) -> dict[str, Any]:
    X, z = _rows(n, d)
    figures = {}
    for share in (1 / 8, 1 / 2, 0.9):
        U = np.linalg.qr(np.random.default_rng(0).normal(size=(d, int(share * d))))[0]
        eraser = _fitted_projection(U, X, z)
        U32, P32 = U.astype(np.float32), (U @ U.T).astype(np.float32)
        cheaper = min(seconds(lambda U32=U32: (X @ U32) @ U32.T), seconds(lambda P32=P32: X @ P32))
        name = f"projection apply, {n} x {d}, rank {U.shape[1]}"
        figures[name] = _against(seconds(lambda eraser=eraser: eraser(X)), cheaper)
    return figures


def _fitted_projection(U: Array, X: Array, z: Array) -> Eraser:
    """Make the eraser that a fit on these rows leaves if it finds U."""
    from unspot.erasers.base import BaseEraser

    class Found(BaseEraser):
        def _fit_eraser(self, X: Array, concept: Any) -> Eraser:
            return Eraser.projection(U, X.mean(axis=0, dtype=np.float64))

    return Found().fit(X, z).eraser_


def _transport() -> dict[str, Any]:
    X, z = _rows(20_000, 384)
    moved, linear = Transport().fit(X, z).eraser_, LEACE().fit(X, z).eraser_
    erase = seconds(lambda: moved(X))
    P = np.eye(384, dtype=np.float32)
    return {
        "transport apply, 20000 x 384, against LEACE": _against(erase, seconds(lambda: linear(X))),
        "transport apply, 20000 x 384, against X @ P": _against(erase, seconds(lambda: X @ P)),
    }


def _many_classes() -> dict[str, Any]:
    """Fit with few rows of most classes, and with many rows of a few of them."""
    figures = {}
    for name, largest in {"all small": 30, "three large": 1000}.items():
        X, _ = _rows(4_840, 784)
        z = np.random.default_rng(1).integers(160, size=len(X))
        if largest > 30:
            z[: 3 * largest] = np.arange(3 * largest) % 3
        X[z % 2 == 1] *= 1.5
        X[:, :160] += 2 * np.eye(160, dtype=np.float32)[z]
        writers = np.char.add("writer ", z.astype(str))
        figures[f"transport fit, 160 classes, {name}, against LEACE"] = _against(
            *(_seconds_of_fit(method, X, writers) for method in (Transport(), LEACE()))
        )
    return figures


def _seconds_of_fit(estimator: Any, X: Array, z: Array) -> float:
    return seconds(lambda: estimator.fit(X, z), times=1)


def _cascades() -> dict[str, Any]:
    words = load_glove_gender().train
    X, z = _rows(3_000, 384)
    return {
        f"cascade of rank {rank}, {len(rows)} x {rows.shape[1]}": {
            "s": _seconds_of_fit(Cascade(second=LEOPARD(rank, random_state=0)), rows, labels)
        }
        for rows, labels, rank in ((words.X, words.z, 50), (X, z, 190))
    }


def _judging() -> dict[str, Any]:
    """Judge a LEACE by defaults, 160 classes, and ten ranks of the words."""
    X, z = _rows(5_000, 384)
    data = Dataset.from_arrays(X, z, random_state=0)
    leace = LEACE().fit(data.train.X, data.train.z)
    writers = np.random.default_rng(1).integers(160, size=4_840)
    of_writers = np.random.default_rng(2).normal(size=(4_840, 784)).astype(np.float32)
    of_writers[:, :160] += 2 * np.eye(160, dtype=np.float32)[writers]
    ranks, how = [90, 80, 70, 60, 50, 40, 30, 20, 10, 5], {"metrics": ["attack"], "seeds": 1}
    calls: dict[str, Callable[[], Any]] = {
        "certify, 5000 x 384": lambda: certify(leace, data),
        "evaluate, 5000 x 384": lambda: evaluate(leace, data),
        "certify, standard, 4840 x 784, 160 classes": lambda: certify(None, of_writers, writers),
        "path of ten ranks with attackers, words": lambda: rank_path(
            Cascade(random_state=0), load_glove_gender(), ranks, **how
        ),
    }
    return {name: {"s": seconds(call, times=1)} for name, call in calls.items()}


def _commands() -> dict[str, Any]:
    """Time commands as processes; after one call, so that files are in the system's cache."""
    X, z = _rows(500, 20)
    with tempfile.TemporaryDirectory() as folder:
        rows, file = (str(Path(folder, name)) for name in ("rows.npz", "eraser.safetensors"))
        np.savez(rows, X=X, z=z)
        LEACE().fit(X, z).save(file)
        calls = {
            "--help": ["--help"],
            "inspect": ["inspect", file],
            "fit": ["fit", rows, "-f", "X", "-c", "z", "-o", file, "--force"],
        }
        return {f"unspot {name}": {"s": _process(call)} for name, call in calls.items()}


def _process(arguments: list[str], times: int = 3) -> float:
    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    found = []
    for _ in range(times + 1):
        before = spent()
        command = [sys.executable, "-m", "unspot", *arguments]
        subprocess.run(command, check=True, capture_output=True)
        found.append(spent() - before)
    return round(float(np.median(found[1:])), 3)


def _rows(n: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=n)
    X = rng.normal(size=(n, d)) * (1 + 0.2 * z[:, None]) + 0.05 * z[:, None]
    return X.astype(np.float32), z


def seconds(work: Callable[[], Any], times: int = 7) -> float:
    """Measure the median CPU time of a call; one more call comes first if there are several."""
    found = []
    for _ in range(times + (times > 1)):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return float(np.median(found[times > 1 :]))


def _against(ours: float, theirs: float) -> dict[str, float]:
    return {"ratio": round(ours / theirs, 2), "s": round(ours, 5), "theirs": round(theirs, 5)}
