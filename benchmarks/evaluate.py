"""``evaluate`` with default settings on 22,000 rows of 100 features; the limit is two minutes.

It runs on the bundled gendered words (21,996 rows, three classes, with a lexicon), and on about the
same number of synthetic rows with a task, where fairness is measured too.

Run: python -m benchmarks.evaluate
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from unspot import LEACE, Dataset, evaluate
from unspot.datasets import load_glove_gender
from unspot.evaluation import mdl


def run() -> dict[str, Any]:
    """Seconds of both evaluations, per metric, and of one online description length."""
    words = load_glove_gender()
    return {
        "words": _evaluated(words),
        "with_task": _evaluated(_with_task()),
        "mdl_10777x100_seconds": _seconds(lambda: mdl(words.train.X, words.train.z)),
    }


def _evaluated(data: Dataset) -> dict[str, Any]:
    eraser = LEACE(method="orthogonal").fit(data.train.X, data.train.z)
    started, worked = time.perf_counter(), time.process_time()
    found = evaluate(eraser, data)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - worked,  # other work on the machine hardly changes it
        "limit": 120,
        "by_metric": found.metadata["seconds"],
        "after": {row.key: row.after.mean for row in found if row.after},
    }


def _with_task(n: int = 22_000, d: int = 100) -> Dataset:
    rng = np.random.default_rng(0)
    z, y = rng.integers(2, size=n), rng.integers(10, size=n)
    X = rng.normal(size=(n, d))
    X[:, 0] += 2 * z
    X[:, 1] *= 1 + z
    X[:, 2:12] += 3 * np.eye(10)[y]
    return Dataset.from_arrays(X, z, y, random_state=0, name="synthetic")


def _seconds(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    for name, figures in run().items():
        print(f"{name}: {figures}")
