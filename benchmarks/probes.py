"""The batched probe with five seeds, compared with five fits of scikit-learn's MLPClassifier.

The time is wall-clock time, the best of three, on one thread and on all cores. scikit-learn gets
the rows in double precision, the default of numpy, and in single precision. The batched probe
computes in single precision. Both do the same multiplications, so the batch saves only the time
between them. It saves more if the rows are narrow and the batches small.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from unspot.datasets.synthetic import law
from unspot.evaluation.probes import PRESETS, ProbeScores, probe_accuracy

SEEDS = 5


def run(n: int = 10_000, d: int = 100, repeats: int = 3) -> dict[str, Any]:
    """Seconds, accuracies and ratios for both presets on n × d rows."""
    import torch
    from threadpoolctl import threadpool_limits

    rows = law("xor", n=n, d=d)
    X_test, z_test = rows.sample(n // 2, random_state=1)
    double = (rows.X, rows.z, X_test, z_test)
    single = (rows.X.astype(np.float32), rows.z, X_test.astype(np.float32), z_test)
    usual = torch.get_num_threads()
    found: dict[str, Any] = {}
    try:
        for threads in sorted({1, os.cpu_count() or 1}):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                for preset in PRESETS:
                    where = f"{preset}, {threads} thread{'s' * (threads > 1)}"
                    figures = _compare(preset, single, double, repeats)
                    found |= {f"{where}: {key}": value for key, value in figures.items()}
    finally:
        torch.set_num_threads(usual)
    return found


def _compare(preset: str, single: Any, double: Any, repeats: int) -> dict[str, Any]:
    batched, batched_scores = _best(repeats, single, preset, SEEDS, "torch")
    one, _ = _best(repeats, single, preset, 1, "sklearn")
    five, five_scores = _best(1, single, preset, SEEDS, "sklearn")
    five_double, _ = _best(1, double, preset, SEEDS, "sklearn")
    return {
        "batched, 5 seeds (s)": batched,
        "scikit-learn, 5 fits (s)": five_double,
        "speed-up": five_double / batched,
        "speed-up, float32": five / batched,
        "cost in single fits, float32": batched / one,
        "accuracy, batched": str(batched_scores),
        "accuracy, scikit-learn": str(five_scores),
    }


def _best(
    repeats: int, rows: Any, preset: str, seeds: int, engine: str
) -> tuple[float, ProbeScores]:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        scores = probe_accuracy(*rows, preset=preset, seeds=seeds, engine=engine)
        seconds.append(time.perf_counter() - started)
    return min(seconds), scores


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key:50} {value if isinstance(value, str) else format(value, '.3g')}")
