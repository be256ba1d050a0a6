"""Looking every night: false alarms of a monitor and of a test that is repeated, and its price.

Guesses are simulated: two classes in equal shares, and one attacker with a given advantage. Nobody
learns, so that a run takes milliseconds, and rates are of many runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import binom

from unspot.evaluation.betting import N_BETS, growth, log_mean_exp, mean_recall_bound
from unspot.evaluation.inference import balanced_interval

ALPHA, NIGHTS, SIZE = 0.05, 30, 100
SHARES = np.array([0.5, 0.5])


def run() -> dict[str, Any]:
    """Shares of runs, and rows."""
    figures: dict[str, Any] = {"nights": NIGHTS, "rows of a night": SIZE}
    alarms = np.array([_alarms(seed, 0.0) for seed in range(1000)])
    figures["false alarms of a test repeated every night"] = float((alarms[:, 0] > 0).mean())
    figures["false alarms of the monitor"] = float((alarms[:, 1] > 0).mean())
    for advantage in (0.05, 0.1):
        found = np.array([_alarms(seed, advantage)[1] for seed in range(200)])
        figures[f"leak of {advantage}: found within {NIGHTS} nights"] = float((found > 0).mean())
        figures[f"leak of {advantage}: median rows until found"] = float(
            np.median(np.where(found > 0, found * SIZE, np.inf))
        )
    for n_attackers in (1, 7):
        once, always = (_rows_to_bound(bound, n_attackers) for bound in (_once, _always))
        figures[f"rows to bound by 0.05, {n_attackers} attackers, once"] = once
        figures[f"rows to bound by 0.05, {n_attackers} attackers, at all times"] = always
    return figures


def _alarms(seed: int, advantage: float) -> tuple[int, int]:
    """The first night of an alarm, or 0: of an exact test every night, and of the monitor."""
    rng = np.random.default_rng(seed)
    wealth, hits, first = np.zeros(N_BETS), 0, [0, 0]
    for night in range(1, NIGHTS + 1):
        codes = rng.integers(2, size=SIZE)
        guesses = np.where(rng.random(SIZE) < 2 * advantage, codes, rng.integers(2, size=SIZE))
        hits += int((guesses == codes).sum())
        wealth += growth(guesses, 0.3 + 0.4 * np.eye(2)[guesses], SHARES, codes, [seed, night])
        alarms = (
            binom.sf(hits - 1, night * SIZE, 0.5) <= ALPHA,
            log_mean_exp(wealth) >= np.log(1 / ALPHA),
        )
        first = [old or night * int(now) for old, now in zip(first, alarms, strict=True)]
    return first[0], first[1]


def _once(n: int, alpha: float) -> float:
    return balanced_interval(SHARES, n * SHARES, alpha)[1]


def _always(n: int, alpha: float) -> float:
    return mean_recall_bound(n * SHARES / 2, n * SHARES, SHARES, alpha)


def _rows_to_bound(bound: Any, n_attackers: int) -> int:
    """Rows after which an attacker that is right on half of them has at most 5 points."""
    return next(n for n in range(100, 100_000, 20) if bound(n, ALPHA / n_attackers) <= 0.55)
