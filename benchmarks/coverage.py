"""How often the bounds of a certificate are right, and how much a seed decides of them.

Laws with a leak and without, of several kinds. The truth is what the same attackers reach on 20,000
fresh rows when they learn from half as many rows as are certified, on average over many draws. An
error is a lower bound above the strongest attacker's true advantage, or an upper bound below it; a
false alarm is a lower bound above zero where nothing leaks. The seeds of one certificate are those
of tweets after LEACE, read from the folder in UNSPOT_DATA, and left out without it.

Run: python -m benchmarks coverage
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot import Cascade, certify
from unspot.data.dataset import Split
from unspot.evaluation.measure import attack_halves, attack_splits
from unspot.machine import one_thread

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, int, float], Split]

REPETITIONS, TRUTHS, FRESH = 400, 40, 20_000
N, D = 600, 10
ATTACKERS = ("logistic", "quadratic", "trees")
SEEDS = 10


def _rows(rng: np.random.Generator, z: Array, leak: float, groups: Array | None = None) -> Split:
    """Draw rows whose first column is shifted by the standardised concept."""
    X = rng.normal(size=(len(z), D))
    codes = np.asarray(z, dtype=float)
    X[:, 0] += leak * (codes - codes.mean()) / codes.std()
    return Split(X, z, groups=groups)


def _balanced(rng: np.random.Generator, n: int, leak: float) -> Split:
    return _rows(rng, rng.integers(2, size=n), leak)


def _rare(rng: np.random.Generator, n: int, leak: float) -> Split:
    return _rows(rng, (rng.random(n) < 0.1).astype(int), leak)


def _five(rng: np.random.Generator, n: int, leak: float) -> Split:
    return _rows(rng, rng.integers(5, size=n), leak)


def _number(rng: np.random.Generator, n: int, leak: float) -> Split:
    return _rows(rng, rng.normal(size=n), leak)


def _grouped(rng: np.random.Generator, n: int, leak: float) -> Split:
    """Rows of a group share a class, and a shift of their own in every column."""
    groups = np.arange(n) // 4
    labels = rng.integers(2, size=groups.max() + 1)
    rows = _rows(rng, labels[groups], leak, groups)
    return Split(rows.X + rng.normal(size=(len(labels), D))[groups], rows.concept, groups=groups)


LAWS: dict[str, Draw] = {
    "balanced": _balanced,
    "90:10": _rare,
    "five classes": _five,
    "groups": _grouped,
    "a number": _number,
}


def run() -> dict[str, Any]:
    """Count errors and false alarms, and measure how much the seed decides."""
    figures: dict[str, Any] = {}
    with one_thread():
        for name, draw in LAWS.items():
            for leak in (0.0, 0.3):
                key = f"{name}, {'a leak' if leak else 'no leak'}"
                figures[key] = _errors(draw, leak)
                print(f"  {key}: {figures[key]}", flush=True)
        figures |= _seeds()
    return figures


def _errors(draw: Draw, leak: float) -> dict[str, float]:
    truth = _truth(draw, leak)
    wrong, widths, former = np.zeros(3), [], []
    for i in range(REPETITIONS):
        rows = draw(np.random.default_rng([i, 1]), N, leak)
        attacked = attack_halves(rows, attackers=ATTACKERS, budget="quick", random_state=i)
        low, high = attacked.bounds()
        wrong += np.array([low > truth, high < truth, low > 0])
        widths.append(high - low)
        # One half judges once, as before there were halvings.
        low, high = attack_splits(*rows.halves(i), attackers=ATTACKERS, budget="quick").bounds()
        former.append(high - low)
    above, below, alarms = (wrong / REPETITIONS).tolist()
    found = {"truth": round(truth, 4), "too high": above, "too low": below}
    found |= {} if leak else {"false alarms": alarms}
    ratio = float(np.mean(widths) / np.mean(former))
    return found | {"width": float(np.mean(widths)), "width / one half": round(ratio, 3)}


def _truth(draw: Draw, leak: float) -> float:
    """Average what each attacker reaches on fresh rows, and return the strongest's."""
    if not leak:
        return 0.0
    advantages = []
    for i in range(TRUTHS):
        rng = np.random.default_rng([i, 2])
        learn, fresh = draw(rng, N // 2, leak), draw(rng, FRESH, leak)
        attacked = attack_splits(learn, fresh, attackers=ATTACKERS, budget="quick")
        advantages.append([result.advantage for result in attacked.results])
    return float(np.mean(advantages, axis=0).max())


def _seeds() -> dict[str, Any]:
    path = Path(os.environ.get("UNSPOT_DATA", "."), "tweets_minilm.npz")
    if not path.exists():
        print("  tweets: left out, UNSPOT_DATA has no tweets_minilm.npz")
        return {}
    with np.load(path, allow_pickle=True) as file:
        X, z = file["X"].astype(np.float32), file["z"]
    fit, test, _ = np.split(np.random.default_rng(0).permutation(len(X)), [3500, 6000])
    eraser = Cascade(rank=50, random_state=0).fit(X[fit], z[fit])
    figures = {}
    for budget in ("quick", "standard"):
        found = [certify(eraser, X[test], z[test], budget=budget, random_state=s) for s in
                 range(SEEDS)]  # fmt: skip
        bounds = [certificate.upper_bound for certificate in found]
        key = f"tweets, cascade of rank 50, 2,500 rows, {budget}"
        figures[key] = {
            "upper bounds": [round(bound, 4) for bound in bounds],
            "standard deviation": round(float(np.std(bounds)), 4),
        }
        print(f"  {key}: {figures[key]}", flush=True)
    return figures
