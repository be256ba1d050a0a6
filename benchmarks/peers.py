"""Erasure by unspot, by concept-erasure and by fairlearn: CPU time, and what attackers then read.

The bundled words in single precision, one thread, all in one run. Attackers learn from the
validation rows and are judged on the test rows. fairlearn's CorrelationRemover needs the concept of
the rows that it erases: it gets the true one, which a user of new rows would not have.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unspot import LEACE, Cascade
from unspot.datasets import load_glove_gender
from unspot.erasers.registry import make
from unspot.evaluation import attack, neighbour_overlap
from unspot.machine import one_thread

Array = NDArray[Any]
#: Erase these rows, whose concept has these codes.
Erase = Callable[[Array, Array], Array]
FAST, SLOW = 15, 1


def run() -> dict[str, Any]:
    """Measure seconds to fit 10,777 × 100 and to erase 6,599 rows, and what is left."""
    data = load_glove_gender()
    codes = {id(split): np.unique(split.z, return_inverse=True)[1] for split in data}
    figures: dict[str, Any] = {
        "concept-erasure": version("concept-erasure"),
        "fairlearn": version("fairlearn"),
    }
    with one_thread():
        for name, (fit, repeat) in _CONTESTANTS.items():
            X, z = data.train.X, codes[id(data.train)]
            fits, erase = _timed(lambda: fit(X, z), repeat)  # noqa: B023
            split = data.test
            erasures, test = _timed(lambda: erase(split.X, codes[id(split)]), FAST)  # noqa: B023
            learned = erase(data.validation.X, codes[id(data.validation)])
            results = attack(learned, data.validation.z, test, split.z, budget="quick")
            best = max(results, key=lambda result: result.balanced_accuracy)
            figures[name] = {
                "fit_seconds": fits,
                "erase_seconds": erasures,
                "linear": next(r.balanced_accuracy for r in results if r.name == "logistic"),
                "strongest": best.balanced_accuracy,
                "attacker": best.name,
                "A_50": neighbour_overlap(split.X, test, max_queries=1000),
            }
            print(f"  {name}: {figures[name]}", flush=True)
    return figures


def _timed(call: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Compute the median CPU seconds of some calls, and the last result."""
    seconds = []
    for _ in range(repeat + (repeat > 1)):
        began = time.process_time()
        result = call()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds[repeat > 1 :]), result


def _unspot(estimator: Any) -> Callable[[Array, Array], Erase]:
    def fit(X: Array, z: Array) -> Erase:
        eraser = estimator.fit(X, z)
        return lambda rows, codes: np.asarray(eraser.transform(rows))

    return fit


def _concept_erasure(X: Array, z: Array) -> Erase:
    from concept_erasure import LeaceEraser

    one_hot = torch.nn.functional.one_hot(torch.from_numpy(z))
    eraser = LeaceEraser.fit(torch.from_numpy(X), one_hot)
    return lambda rows, codes: eraser(torch.from_numpy(rows)).numpy()


def _quadratic(X: Array, z: Array) -> Erase:
    from concept_erasure import QuadraticFitter

    eraser = QuadraticFitter.fit(torch.from_numpy(X), torch.from_numpy(z)).eraser
    return lambda rows, codes: eraser(torch.from_numpy(rows), torch.from_numpy(codes)).numpy()


def _fairlearn(X: Array, z: Array) -> Erase:
    from fairlearn.preprocessing import CorrelationRemover

    def joined(rows: Array, codes: Array) -> Array:
        return np.hstack([np.eye(3)[:, 1:][codes], rows])

    remover = CorrelationRemover(sensitive_feature_ids=[0, 1]).fit(joined(X, z))
    return lambda rows, codes: np.asarray(remover.transform(joined(rows, codes)))


_CONTESTANTS: dict[str, tuple[Callable[[Array, Array], Erase], int]] = {
    "unspot LEACE": (_unspot(LEACE()), FAST),
    "concept-erasure LEACE": (_concept_erasure, FAST),
    "concept-erasure quadratic, labels given": (_quadratic, FAST),
    "fairlearn CorrelationRemover, labels given": (_fairlearn, FAST),
    "unspot transport": (_unspot(make("transport")), FAST),
    "unspot cascade, rank 50": (_unspot(Cascade(rank=50, random_state=0)), SLOW),
    "unspot transport:leopard, rank 50": (
        _unspot(make("transport:leopard", rank=50, random_state=0)),
        SLOW,
    ),
}
