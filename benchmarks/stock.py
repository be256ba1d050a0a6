"""Stock classifiers against the attackers: does a default setting read what our strongest misses?

Classifiers of scikit-learn with their defaults, on standardised columns where that is usual, learn
from the same rows as the attackers of budgets "quick" and "standard", and are judged on the same
unseen rows: the laws of `power` and of the package, parities of three of sixty columns, and real
vectors before and after LEACE, Transport and Cascade. Real vectors are read from the folder that
the environment variable UNSPOT_DATA names, and are left out without it.

Run: python -m benchmarks stock
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.power import LAWS
from unspot import LEACE, Cascade
from unspot.datasets.synthetic import LAWS as PACKAGE_LAWS
from unspot.datasets.synthetic import law
from unspot.erasers import Transport
from unspot.evaluation.attackers import attack
from unspot.evaluation.inference import recalls
from unspot.machine import one_thread

Array = NDArray[Any]
Cell = tuple[str, Array, Array, Array, Array]  # name, rows and classes to learn from, to judge on

N_LEARN, N_TEST = 2_000, 4_000
FILES = ("tweets_minilm", "bios_minilm", "code_language", "snippets_source", "digits_source",
         "cells_dataset")  # fmt: skip
STOCK = (HistGradientBoostingClassifier, RandomForestClassifier, ExtraTreesClassifier,
         GradientBoostingClassifier, MLPClassifier, SVC, KNeighborsClassifier, LogisticRegression,
         QuadraticDiscriminantAnalysis, GaussianNB)  # fmt: skip
#: These see standardised columns, as in a usual pipeline.
SCALED = (MLPClassifier, SVC, KNeighborsClassifier, LogisticRegression)
#: Exact boosting costs minutes on wide rows of many classes.
MOST_FOR_EXACT_BOOSTING = 500_000


def run() -> dict[str, Any]:
    """Compare the best stock classifier with our strongest attacker in every cell."""
    cells = {}
    for name, *rows in (*_laws(), *_parities(), *_vectors()):
        cells[name] = found = compared(*rows)
        print(
            f"  {name:40} stock {100 * found['stock']:5.1f} ({found['best_stock']}), quick "
            f"{100 * found['quick']:5.1f} ({found['best_quick']}), standard "
            f"{100 * found['standard']:5.1f} ({found['best_standard']}), short by "
            f"{100 * found['short_quick']:5.1f} {100 * found['short_standard']:5.1f} "
            f"± {100 * found['error']:.1f}",
            flush=True,
        )
    beaten = {
        budget: [n for n, c in cells.items() if c[f"short_{budget}"] > 2 * c["error"]]
        for budget in ("quick", "standard")
    }
    return {"rows": N_LEARN, "beaten": beaten, "cells": cells}


@one_thread()
def compared(X: Array, z: Array, X_test: Array, z_test: Array) -> dict[str, Any]:
    """Measure balanced advantages over guessing, and the standard error of a difference."""
    K = len(np.unique(z))
    stock = {}
    for kind in STOCK:
        if kind is GradientBoostingClassifier and X.size * K > MOST_FOR_EXACT_BOOSTING:
            continue
        model = kind(**({"random_state": 0} if "random_state" in kind().get_params() else {}))
        model = make_pipeline(StandardScaler(), model) if kind in SCALED else model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                guesses = model.fit(X, z).predict(X_test)
            except np.linalg.LinAlgError:  # rows of low rank
                continue
        stock[kind.__name__] = float(recalls(guesses, z_test, K).mean()) - 1 / K
    best = max(stock, key=lambda name: stock[name])
    found: dict[str, Any] = {"stock": stock[best], "best_stock": best, "all_stock": stock}
    counts = np.bincount(z_test, minlength=K)
    right = stock[best] + 1 / K
    # Of two models that are independent; they are not, so it is less.
    found["error"] = float(np.sqrt(2 * right * (1 - right) * (1 / counts).sum()) / K)
    found["error"] = max(found["error"], 0.002)
    for budget in ("quick", "standard"):
        started = time.process_time()
        results = attack(X, z, X_test, z_test, budget=budget)
        strongest = max(results, key=lambda result: result.advantage)
        found[budget], found[f"best_{budget}"] = strongest.advantage, strongest.name
        found[f"short_{budget}"] = stock[best] - strongest.advantage
        found[f"{budget}_cpu_seconds"] = time.process_time() - started
        found[f"all_{budget}"] = {result.name: result.advantage for result in results}
    return found


def _laws() -> Iterator[Cell]:
    for name, this in LAWS.items():
        X, z = this.draw(np.random.default_rng(1), N_LEARN)
        yield name, X, z, *this.draw(np.random.default_rng(2), N_TEST)
    for name in PACKAGE_LAWS:
        rows = law(name, n=N_LEARN, d=20)
        yield f"law {name}", rows.X, rows.z, *rows.sample(N_TEST, random_state=1)


def _parities() -> Iterator[Cell]:
    X = np.random.default_rng(0).normal(size=(N_LEARN + N_TEST, 60))
    bits = (X > 0).astype(float)
    z = (X[:, [3, 20, 41]] > 0).sum(axis=1) % 2
    wrong = z ^ (np.random.default_rng(1).random(len(z)) < 0.1)
    for name, rows, classes in (
        ("three of 60 signs", X, z),
        ("three of 60 bits", bits, z),
        ("three of 60 bits, 10 % wrong", bits, wrong),
    ):
        yield name, rows[:N_LEARN], classes[:N_LEARN], rows[N_LEARN:], classes[N_LEARN:]


def _vectors() -> Iterator[Cell]:
    """A third of the rows fits erasers; attackers learn from at most N_LEARN of the others."""
    for name in FILES:
        file = Path(os.environ.get("UNSPOT_DATA", "."), f"{name}.npz")
        if not file.exists():
            print(f"  {name}: not in {file.parent}, left out")
            continue
        data = np.load(file)
        order = np.random.default_rng(0).permutation(len(data["X"]))
        X, z = (
            data["X"].astype(np.float32)[order],
            np.unique(data["z"], return_inverse=True)[1][order],
        )
        fit, learn, _ = np.split(np.arange(len(X)), [len(X) // 3, 2 * len(X) // 3])
        learn = learn[:N_LEARN]
        test = np.arange(2 * len(X) // 3, len(X))
        erasers = {"as given": None, "LEACE": LEACE(), "transport": Transport(),
                   "cascade": Cascade(rank=X.shape[1] // 2, random_state=0)}  # fmt: skip
        for method, eraser in erasers.items():
            rows = X if eraser is None else eraser.fit(X[fit], z[fit]).transform(X)
            yield f"{name}, {method}", rows[learn], z[learn], rows[test], z[test]
