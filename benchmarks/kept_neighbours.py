"""Why nearest neighbours read words that no other attacker reads: kept neighbours share a class.

On the words of ``benchmarks/unseen.py``: the row to learn from that is nearest to a test row after
erasure was one of its nearest before (``kept``, of 50) or was not. ``agree`` is how often it has
the class of the test row, above guessing, for both. ``same spelling`` leaves out rows that begin
with the same four letters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from benchmarks.unseen import ATTACK, TEST, glove, glove_words
from unspot import LEOPARD, Cascade

SIZES, NEAR = (2_500, 10_000, 40_000), 50


def run(seed: int = 0) -> dict[str, Any]:
    """Shares by the rows of the fit; nothing without the words."""
    data = glove(seed)
    if data is None:
        return {}
    X, z, rank = data
    first = TEST + ATTACK
    before = _nearest(X[:first])
    start = np.array([word[:4] for word in glove_words(seed)[:first]])
    figures: dict[str, Any] = {"agree before": _agree(before[:, 0], z)}
    for n in SIZES:
        eraser = Cascade(LEOPARD(rank, random_state=0)).fit(
            X[first : first + n], z[first : first + n]
        )
        near = _nearest(eraser.reduce(X[:first]))
        kept = (near[:, :1] == before).any(axis=1)
        other = start[near] != start[:TEST, None]  # (TEST, NEAR)
        another = near[np.arange(TEST), other.argmax(axis=1)]
        figures[f"{n} rows"] = {
            "kept": float(kept.mean()),
            "agree": _agree(near[:, 0], z),
            "agree, kept": _agree(near[:, 0], z, kept),
            "agree, not kept": _agree(near[:, 0], z, ~kept),
            "agree, not same spelling": _agree(another, z),
        }
        print(f"  {n} rows: {figures[f'{n} rows']}", flush=True)
    return figures


def _nearest(X: NDArray[Any]) -> NDArray[np.int64]:
    """The rows to learn from that are nearest to each test row, the nearest first."""
    index = NearestNeighbors(n_neighbors=NEAR, algorithm="brute").fit(X[TEST:])
    nearby: NDArray[np.int64] = index.kneighbors(X[:TEST], return_distance=False)
    return nearby + TEST


def _agree(near: NDArray[Any], z: NDArray[Any], of: Any = slice(None)) -> float:
    """How often a row has the class of its test row, above guessing between three."""
    return float(np.mean(z[near][of] == z[:TEST][of])) - 1 / 3
