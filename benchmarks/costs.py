"""What every method costs on GloVe: the fit, a million rows to apply, and the bytes of its file.

Methods have their default parameters, and are fitted on all 21,996 rows of 100 features, on one
thread. Times are processor seconds, which other work on the machine changes little: the work of a
fit in one process, and the least of three times that the frozen eraser is called on all rows. The
memory of large matrices is shared with other work, so that fits of some minutes may vary by a
fifth.

Run: python -m benchmarks costs. To measure some methods again and keep the figures of the others:
python -m benchmarks.costs NAME …
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspot.datasets import load_glove_gender
from unspot.erasers.registry import make, method, methods
from unspot.lab.registry import METHODS
from unspot.machine import one_thread, versions

#: The most that a fit may take, in seconds on two cores.
LIMIT = 180.0
FIT = "fit, processor seconds"
RESULT = Path(__file__).parent / "results" / "costs.json"


def names() -> list[str]:
    """List the methods to measure; SPLINCE costs what LEACE costs."""
    return [info.name for info in (*methods(), *METHODS) if info.name != "splince"] + [
        "transport:leopard"
    ]


def run() -> dict[str, Any]:
    """Measure seconds to fit, seconds per million rows to apply, and bytes."""
    return measured(names(), {})


def measured(chosen: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    """Add the figures of some methods to the known ones."""
    data = load_glove_gender()
    X, z = (np.concatenate([getattr(split, part) for split in data]) for part in "Xz")
    costs = dict(known.get("methods", {}))
    for name in chosen:
        costs[name] = _measure(name, X, z)
    return {
        "rows": len(X),
        "features": X.shape[1],
        "load of the machine": os.getloadavg()[2],
        "fits within the limit": all(cost[FIT] <= LIMIT for cost in costs.values()),
        "methods": costs,
    }


@one_thread()
def _measure(name: str, X: Any, z: Any) -> dict[str, float]:
    seeded = "random_state" in method(name.split(":")[-1]).parameters
    estimator = make(name, **({"random_state": 0} if seeded else {}))
    estimator.fit(X[::20], z[::20])  # so that imports do not count
    started = time.process_time()
    eraser = estimator.fit(X, z).eraser_
    fit = time.process_time() - started
    applied = []
    for _ in range(3):
        started = time.process_time()
        eraser(X)
        applied.append(time.process_time() - started)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "eraser.safetensors")
        eraser.save(path)
        size = path.stat().st_size
    return {
        FIT: fit,
        "apply, processor seconds per million rows": min(applied) * 1e6 / len(X),
        "bytes": size,
    }


def main(chosen: Sequence[str]) -> None:
    """Measure methods one after the other, each of them written when it is done."""
    for name in chosen or names():
        known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        figures = measured([name], known)
        RESULT.write_text(json.dumps({"versions": versions(), **figures}, indent=1) + "\n")
        print(f"{name:20} {figures['methods'][name]}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
