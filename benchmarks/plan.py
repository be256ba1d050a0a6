"""Does a plan come true? What linear erasure leaves on fresh rows, planned and measured.

A plan is made of n rows. LEACE is fitted on the share of them that a plan calls rows of the fit.
On all other rows it is measured how far apart the means of the pair that the plan names still are
(``apart``: the advantage of an attacker who knows the residual), and what linear attackers that
learn from one half of them gain on the other half (``attacker``). Words are those
of the package; tweets are used where they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot import LEACE, plan
from unspot.choice.plan import FIT, advantage_between, squared_shifts
from unspot.datasets import load_glove_gender
from unspot.evaluation import attack

TWEETS = Path(os.environ.get("UNSPOT_DATA", "."), "tweets_minilm.npz")

SIZES = {"words": (1_000, 2_000, 4_000, 8_000), "tweets": (1_000, 2_000, 4_000)}
SEEDS = 3


def run() -> dict[str, Any]:
    """Compute means over seeds by data set and number of rows."""
    words = load_glove_gender()
    sets = {"words": tuple(np.concatenate([getattr(s, key) for s in words]) for key in "Xz")}
    if TWEETS.exists():
        with np.load(TWEETS) as file:
            sets["tweets"] = file["X"].astype(np.float32), file["z"]
    figures: dict[str, Any] = {}
    for name, (X, z) in sets.items():
        for n in SIZES[name]:
            cells = [_measured(X, z, n, seed) for seed in range(SEEDS)]
            key = f"{name}, {X.shape[1]} features, {n} rows"
            figures[key] = {what: float(np.mean([c[what] for c in cells])) for what in cells[0]}
            print(f"  {key}: {figures[key]}", flush=True)
    return figures


def _measured(X: NDArray[Any], z: NDArray[Any], n: int, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(X))
    given, fresh = order[:n], order[n:]
    planned = plan(X[given], z[given])
    fitted = given[: round(FIT * n)]
    erased = LEACE().fit(X[fitted], z[fitted]).transform(X[fresh]).astype(np.float64)
    classes, codes = np.unique(z[fresh], return_inverse=True)
    first, second = (list(map(str, classes)).index(name) for name in planned.linear.pair)
    _, squares = squared_shifts(erased, codes, np.bincount(codes))
    of_pair = np.flatnonzero((codes == first) | (codes == second))
    learn, judge = np.array_split(of_pair, 2)  # fresh rows are in random order
    attackers = attack(
        erased[learn],
        codes[learn],
        erased[judge],
        codes[judge],
        attackers=["logistic", "whitened-logistic"],
        random_state=seed,
    )
    return {
        "planned": planned.linear.advantage,
        "apart": advantage_between(float(squares[first, second])),
        "attacker": max(result.advantage for result in attackers),
    }
