"""The search of L̄EOPARD on few pairs of rows against that on many: CPU time, leak and neighbours.

Ratios of one run on one thread. The search "before" compares the pairs of up to 10,000 rows and
waits for its whole patience. Attackers learn from half of the rows that no fit has seen, and are
judged on the other half. Tweets and biographies (MiniLM), and digits, are read from the folder that
the environment variable UNSPOT_DATA names, and are left out without it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.unseen import gaussians
from unspot import LEOPARD, Cascade
from unspot.datasets import load_glove_gender, load_translations
from unspot.datasets.synthetic import law
from unspot.evaluation import attack, neighbour_overlap
from unspot.leopard import fit, solvers
from unspot.machine import one_thread

Array = NDArray[Any]
SEEDS = 3
ATTACKERS = ("quadratic", "rbf", "mlp-64", "trees")
FILES = {"tweets": "tweets_minilm", "biographies": "bios_minilm", "digits": "digits_source"}
RANKS = {
    "words": 50,
    "verses": 192,
    "tweets": 190,
    "biographies": 190,
    "digits": 64,
    "gaussians": 19,
    "xor": 20,
}


def run() -> dict[str, Any]:
    """Measure both searches on every data set that is there."""
    figures: dict[str, Any] = {}
    with one_thread():
        for name in RANKS:
            if name not in FILES or _file(name).exists():
                figures[name] = _compare(name)
                print(f"  {name}: {figures[name]}", flush=True)
    return figures


def _compare(name: str) -> dict[str, Any]:
    cells = [
        {"before": _former_search(name, seed), "now": _search(name, seed)} for seed in range(SEEDS)
    ]
    return {
        quantity: {which: [cell[which][quantity] for cell in cells] for which in ("before", "now")}
        for quantity in ("seconds", "leak", "A_50", "evaluations")
    }


def _former_search(name: str, seed: int) -> dict[str, float]:
    today = fit.FEWEST_ROWS, solvers.LEAST_STEPS
    fit.FEWEST_ROWS, solvers.LEAST_STEPS = fit.SAMPLE_ROWS, 10**9
    try:
        return _search(name, seed)
    finally:
        fit.FEWEST_ROWS, solvers.LEAST_STEPS = today


def _search(name: str, seed: int) -> dict[str, float]:
    X, z = _rows(name, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    fitted, unseen = np.array_split(order, 2)
    learn, judge = np.array_split(unseen, 2)
    eraser = Cascade(second=LEOPARD(RANKS[name], random_state=seed))
    began = time.process_time()
    eraser.fit(X[fitted], z[fitted])
    seconds = time.process_time() - began
    results = attack(
        eraser.reduce(X[learn]),
        z[learn],
        eraser.reduce(X[judge]),
        z[judge],
        attackers=ATTACKERS,
    )
    return {
        "seconds": round(seconds, 2),
        "leak": round(max(result.advantage for result in results), 4),
        "A_50": round(neighbour_overlap(X[judge], eraser.reduce(X[judge]), max_queries=1000), 4),
        "evaluations": int(eraser.history_["evaluations"][-1]),
    }


def _rows(name: str, seed: int) -> tuple[Array, Array]:
    if name in FILES:
        with np.load(_file(name), allow_pickle=True) as file:
            return file["X"].astype(np.float32), file["z"]
    if name == "gaussians":
        X, z, _ = gaussians(seed)
        return X[:24_000], z[:24_000]
    if name == "xor":
        rows = law("xor", n=24_000, d=40, random_state=seed)
        return rows.X.astype(np.float32), rows.z
    data = load_glove_gender() if name == "words" else load_translations()
    X, z = (np.concatenate([getattr(split, part) for split in data]) for part in "Xz")
    return X, z


def _file(name: str) -> Path:
    return Path(os.environ.get("UNSPOT_DATA", "."), f"{FILES[name]}.npz")
