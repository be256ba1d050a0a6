"""Learning curves carried on, against what was then measured with as many rows.

Attackers: the curve of n rows says what 10n rows give; the same attacker then learns from 10n
others. Erasers: the curve of half of the rows says what all of them leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from unspot import LEACE, LEOPARD, Cascade, Dataset, learning_curve
from unspot.data.dataset import Split
from unspot.datasets import load_glove_gender
from unspot.datasets.synthetic import law
from unspot.erasers import MomentMatching
from unspot.evaluation.learning import attack_curve
from unspot.evaluation.unseen import attack_eraser

ATTACKERS = ("logistic", "quadratic", "mlp-64")
LAWS = {"mean": 40, "variance": 20, "xor": 10}
N_ROWS, N_RUNS = 600, 8
ERASERS = {
    "moment matching": (MomentMatching(), 3),
    "cascade, rank 50": (Cascade(LEOPARD(rank=50)), 1),
}


def run() -> dict[str, Any]:
    """How often intervals hold what came, and the mean error, by law and by eraser."""
    figures: dict[str, Any] = {}
    for name, d in LAWS.items():
        cases = [_case_of_law(name, d, seed) for seed in range(N_RUNS)]
        figures[f"attackers, {name} in {d} dimensions"] = _summary(cases)
    words = load_glove_gender()
    cases = [_case_of_words(words, seed) for seed in range(N_RUNS)]
    figures["attackers, words after LEACE"] = _summary(cases)
    for name, (eraser, n_runs) in ERASERS.items():
        figures[f"eraser, words, {name}"] = [_halved(eraser, words, s) for s in range(n_runs)]
    return figures


def _case_of_law(name: str, d: int, seed: int) -> dict[str, float]:
    rows = law(name, n=11 * N_ROWS, d=d, random_state=seed)
    pool = Split(rows.X, rows.z)
    return _carried_on(
        None,
        pool.take(np.arange(N_ROWS)),
        pool.take(np.arange(N_ROWS, 11 * N_ROWS)),
        Split(*rows.sample(2000, random_state=1000 + seed)),
        Split(*rows.sample(10_000, random_state=2000 + seed)),
        seed,
    )


def _case_of_words(words: Dataset, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    train, test = rng.permutation(len(words.train)), rng.permutation(len(words.test))
    n = (len(train) - 3000) // 11
    fit, few, many = np.split(train[: 3000 + 11 * n], [3000, 3000 + n])
    part = words.train.take(fit)
    eraser = LEACE().fit(part.X, part.z)
    halves = (words.test.take(np.sort(half)) for half in np.array_split(test, 2))
    return _carried_on(eraser, words.train.take(few), words.train.take(many), *halves, seed)


def _carried_on(
    eraser: Any, few: Split, many: Split, test: Split, fresh: Split, seed: int
) -> dict[str, float]:
    """What a curve of few rows says of many, and what they then give on fresh test rows."""
    how: dict[str, Any] = {"budget": "quick", "random_state": seed}
    attacked = attack_eraser(eraser, Dataset(few, few, test), attackers=ATTACKERS, **how)
    curve = attack_curve(attacked, budget="quick", seed=seed)
    assert curve is not None
    came = attack_eraser(eraser, Dataset(many, many, fresh), attackers=[curve.attacker], **how)
    return {
        "now": attacked.strongest.advantage,
        "said": curve.advantage,
        "low": curve.interval[0],
        "high": curve.interval[1],
        "told": float(curve.can_tell),
        "came": came.strongest.advantage,
    }


def _summary(cases: list[dict[str, float]]) -> dict[str, Any]:
    columns = {key: np.array([case[key] for case in cases]) for key in cases[0]}
    inside = (columns["low"] <= columns["came"]) & (columns["came"] <= columns["high"])
    return {
        "runs": len(cases),
        "inside the interval": int(inside.sum()),
        "told": int(columns["told"].sum()),
        "advantage now": float(columns["now"].mean()),
        "said of ten times the rows": float(columns["said"].mean()),
        "came": float(columns["came"].mean()),
        "width of the interval": float((columns["high"] - columns["low"]).mean()),
    }


def _halved(eraser: Any, words: Dataset, seed: int) -> dict[str, Any]:
    """What the curve of half of the rows says of all of them, and what they leave."""
    half = np.sort(np.random.default_rng(seed).permutation(len(words.train))[::2])
    data = replace(words, train=words.train.take(half))
    curve = learning_curve(eraser, data, attackers=ATTACKERS, random_state=seed)
    whole = eraser.fit(words.train.X, words.train.z)
    came = attack_eraser(
        whole, words, attackers=ATTACKERS, budget="quick", random_state=seed
    ).strongest.advantage
    return {
        "rows": curve.n_rows,
        "advantage": curve.fitted,
        "exponent": curve.exponent,
        "exponent interval": curve.exponent_interval,
        "said of twice the rows": curve.advantage,
        "interval": curve.interval,
        "outcome": curve.outcome,
        "came": came,
    }
