"""Users of ten rows each, with one label for each user: certificates by row and by group.

The label has nothing to do with the rows, but rows of one user resemble each other. Both kinds of
certificate see the same splits, of whole users. Then a leak, to see what groups cost in power.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from unspot import Dataset, certify
from unspot.evaluation.certificate import Certificate

#: Users, how far apart their classes are in deviations of users, and runs.
LAWS = {"60 users, no leak": (60, 0.0, 100), "200 users, a leak of 1.5": (200, 1.5, 20)}


def run() -> dict[str, Any]:
    """Compute shares of the runs with each outcome."""
    figures: dict[str, Any] = {}
    for name, (n_users, leak, n_runs) in LAWS.items():
        found = [_certified(_users(n_users, leak, seed), seed) for seed in range(n_runs)]
        for how, listed in zip(("by row", "by group"), zip(*found, strict=True), strict=True):
            figures[f"{name}, {how}"] = {
                "runs": n_runs,
                **_summary([one for one, _ in listed]),
                "warned": float(np.mean([warned for _, warned in listed])),
            }
    return figures


def _users(n_users: int, leak: float, seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), 10)
    z = rng.permutation(np.arange(n_users) % 2)[users]
    X = rng.normal(size=(n_users, 10))[users] + 0.3 * rng.normal(size=(len(users), 10))
    X[:, 0] += leak * z
    return Dataset.from_arrays(X, z, groups=users, random_state=seed)


def _certified(data: Dataset, seed: int) -> list[tuple[Certificate, bool]]:
    """Certify by row and by group, and record warnings."""
    bare = Dataset(*(replace(split, groups=None) for split in data))
    found = []
    for rows in (bare, data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            certificate = certify(None, rows, budget="quick", random_state=seed)
        found.append((certificate, any("look grouped" in str(w.message) for w in caught)))
    return found


def _summary(certificates: list[Certificate]) -> dict[str, float]:
    alpha = certificates[0].alpha
    covering = [
        all(a.interval[0] <= 0 <= a.interval[1] for a in one.attackers) for one in certificates
    ]
    return {
        "leaks": float(np.mean([one.lower_bound > 0 for one in certificates])),
        "by the two-sample test": float(np.mean([one.p_value <= alpha for one in certificates])),
        "all intervals hold no advantage": float(np.mean(covering)),
        "confirmable": float(np.median([one.confirmable for one in certificates])),
    }
