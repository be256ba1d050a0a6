"""False alarms and power where the concept is a number, several concepts, or given the task.

False alarms: rows that tell nothing, of which certify must say LEAKS in at most 5 % of the runs.
Power: laws of which the best attacker is known, and what the strongest of ours finds.

Run: python -m benchmarks numbers
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from unspot import Dataset, certify
from unspot.datasets.synthetic import concept_law
from unspot.evaluation.inference import explained_interval

RUNS = int(os.environ.get("RUNS", "200"))
N_ROWS, D = 300, 6
#: Quick ones of each family: a line, curves, waves, a kernel.
NUMBERS = ("ridge", "quadratic", "waves", "rbf")
CLASSES = ("logistic", "quadratic", "waves", "rbf")
BOTH = ("quadratic", "waves", "rbf")


def run() -> dict[str, Any]:
    started = time.process_time()
    alarms = {name: _false_alarms(draw) for name, draw in _SILENT.items()}
    return {
        "runs": RUNS,
        "rows": N_ROWS,
        "false_alarms": alarms,
        "interval_misses": _misses(),
        "power": {name: _power(name) for name in ("linear", "quadratic", "periodic", "jointly")},
        "given": _given(),
        "cpu_seconds": round(time.process_time() - started),
    }


# -- rows that tell nothing ------------------------------------------------------------------------

Draw = Callable[[np.random.Generator], tuple[Dataset, dict[str, Any]]]


def _number(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    X, z = rng.normal(size=(N_ROWS, D)), rng.normal(size=N_ROWS)
    return Dataset.from_arrays(X, z, random_state=0), {"attackers": NUMBERS}


def _skewed(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    """Draw rows and a number with heavy tails."""
    X, z = rng.standard_t(3, size=(N_ROWS, D)), rng.exponential(size=N_ROWS) ** 2
    return Dataset.from_arrays(X, z, random_state=0), {"attackers": NUMBERS}


def _groups(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    """Draw authors with a mean and an age that their rows share."""
    author = np.arange(N_ROWS) // 3
    X = rng.normal(size=(N_ROWS, D)) + 2 * rng.normal(size=(N_ROWS, D))[author]
    z = rng.normal(size=N_ROWS)[author]
    data = Dataset.from_arrays(X, z, groups=author, random_state=0)
    return data, {"attackers": NUMBERS}


def _several(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    X = rng.normal(size=(N_ROWS, D))
    Z = {"sex": rng.integers(2, size=N_ROWS), "age": rng.normal(size=N_ROWS)}
    return Dataset.from_arrays(X, Z, random_state=0), {"attackers": BOTH}


def _given_class(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    """Draw rows that reveal the task, and a class that is a noisy function of it."""
    y = rng.integers(2, size=N_ROWS)
    X = rng.normal(size=(N_ROWS, D)) + 2 * y[:, None]
    z = np.where(rng.random(N_ROWS) < 0.8, y, 1 - y)
    data = Dataset.from_arrays(X, z, y, random_state=0)
    return data, {"attackers": CLASSES, "given": "y"}


def _given_number(rng: np.random.Generator) -> tuple[Dataset, dict[str, Any]]:
    y = rng.integers(3, size=N_ROWS)
    X = rng.normal(size=(N_ROWS, D)) + y[:, None]
    data = Dataset.from_arrays(X, y + rng.normal(size=N_ROWS), y, random_state=0)
    return data, {"attackers": NUMBERS, "given": "y"}


_SILENT: dict[str, Draw] = {
    "number": _number,
    "number, heavy tails": _skewed,
    "number, groups": _groups,
    "two concepts": _several,
    "class given task": _given_class,
    "number given task": _given_number,
}


def _false_alarms(draw: Draw) -> dict[str, float]:
    leaks = 0
    for seed in range(RUNS):
        data, how = draw(np.random.default_rng(seed))
        leaks += certify(None, data, budget="quick", random_state=seed, **how).lower_bound > 0
    return {"leaks": leaks, "share": leaks / RUNS}


def _misses() -> dict[str, float]:
    """Count how often the 95 % interval of R² misses the truth, for 100 rows."""
    rng = np.random.default_rng(0)
    missed = {}
    for r2 in (0.0, 0.1, 0.5, 0.9):
        misses = 0
        for _ in range(1000):
            signal, noise = rng.normal(size=(2, 100, 1))
            low, high = explained_interval(
                r2**0.5 * signal, r2**0.5 * signal + (1 - r2) ** 0.5 * noise, 0.05
            )
            misses += not low <= r2 <= high
        missed[str(r2)] = misses / 1000
    return missed


# -- laws of which the best attacker is known ------------------------------------------------------


def _power(name: str) -> dict[str, Any]:
    rows = concept_law(name, n=4000, d=8)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    found = certify(None, data, budget="quick")
    return {
        "best": rows.best,
        "found": found.after,
        "attacker": found.strongest.name,
        "verdicts": {part: one.verdict for part, one in found.parts.items()} or found.verdict,
    }


def _given() -> dict[str, Any]:
    """Draw z and rows that are independent given y."""
    rows = concept_law("given", n=4000, d=8)
    data = Dataset.from_arrays(rows.X, rows.z, rows.y, random_state=0)
    without, given = (certify(None, data, budget="quick", given=g) for g in (None, "y"))
    return {
        "without": [without.verdict, without.after],
        "given": [given.verdict, given.after, given.upper_bound],
    }
