"""The field on GloVe: what the paper's probe finds after LEACE, FaRM and KRaM, and their seconds.

Erasers with their default parameters are fitted on the training rows, once per seed. The probe
learns from the same rows after erasure, and is tested on the test rows. The time is that of a fit
on all 21,996 rows. Networks of this width are trained on one thread. Both wall-clock seconds and
processor seconds are reported. Other work on the machine hardly changes the processor seconds; the
load shows whether there was any.

Run: python -m benchmarks field
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from unspot import Dataset
from unspot.datasets import load_glove_gender
from unspot.erasers import BaseEraser
from unspot.erasers.registry import make, method
from unspot.evaluation import probe_accuracy

METHODS = ("leace", "farm", "kram")
#: Limits for FaRM and KRaM: points above chance, and seconds of a fit on all rows.
POINTS = 6.0
SECONDS = {"farm": 180.0, "kram": 300.0}


def run(seeds: int = 3, networks: int = 5) -> dict[str, Any]:
    """For each method: accuracies of the probe per seed, their mean above chance, fit seconds."""
    data = load_glove_gender()
    chance = float(np.unique(data.test.z, return_counts=True)[1].max() / len(data.test))
    figures: dict[str, Any] = {
        "rows": sum(map(len, data)),
        "features": data.n_features,
        "chance": chance,
        "networks a probe": networks,
        "before": _probe(lambda X: X, data, 0, networks),
    }
    for name in METHODS:
        figures[name] = _measure(name, data, chance, seeds, networks)
    figures["within limits"] = {
        name: figures[name]["points above chance, paper"] <= POINTS
        and figures[name]["seconds, all rows"] <= limit
        for name, limit in SECONDS.items()
    }
    return figures


def _measure(name: str, data: Dataset, chance: float, seeds: int, networks: int) -> dict[str, Any]:
    X, z = (np.concatenate([getattr(split, part) for split in data]) for part in "Xz")
    eraser, wall, processor = _timed(name, 0, X, z)
    figures: dict[str, Any] = {
        "seconds, all rows": wall,
        "processor seconds, all rows": processor,
        "epochs, all rows": getattr(eraser, "n_iter_", None),
        "load of the machine": os.getloadavg()[1],
    }
    found: list[dict[str, float]] = []
    for seed in range(seeds):
        eraser, wall, processor = _timed(name, seed, data.train.X, data.train.z)
        times = {"seconds": wall, "processor seconds": processor}
        found.append({**_probe(eraser.transform, data, seed, networks), **times})
    figures |= {key: [row[key] for row in found] for key in found[0]}
    for preset in ("paper", "reference"):
        figures[f"points above chance, {preset}"] = float(100 * (np.mean(figures[preset]) - chance))
    return figures


def _timed(name: str, seed: int, X: Any, z: Any) -> tuple[BaseEraser, float, float]:
    """The fitted eraser, wall-clock seconds and processor seconds."""
    seeded = "random_state" in method(name).parameters
    eraser = make(name, **({"random_state": seed} if seeded else {}))
    wall, processor = time.perf_counter(), time.process_time()
    eraser.fit(X, z)
    return eraser, time.perf_counter() - wall, time.process_time() - processor


def _probe(transform: Any, data: Dataset, seed: int, networks: int) -> dict[str, float]:
    train, test = transform(data.train.X), transform(data.test.X)
    return {
        preset: probe_accuracy(
            train,
            data.train.z,
            test,
            data.test.z,
            preset=preset,
            seeds=networks,
            random_state=seed,
        ).mean
        for preset in ("paper", "reference")
    }


if __name__ == "__main__":
    for name, figure in run().items():
        print(f"{name:16} {figure}")
