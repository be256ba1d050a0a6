"""What rounding errors tell: erased rows as unspot writes them, against the short formulas.

The short formulas are x·P with a square matrix, and x − left(rightᵀ(x − mean)) for LEACE. Attackers
standardise every column and learn from rows that the eraser has not seen. Each attack is made on
all columns, and on the residue alone: the components of rounding size, enlarged.

The sentence vectors also have a column of the smallest steps of half precision. The attackers of
budget quick say what they read if it is erased like the others, and if it leaves as a constant.
They see rows that were normalised again, since the norm of erased unit rows reveals something too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unspot import LEACE, LEOPARD, Cascade, Dataset, Eraser
from unspot.data import statistics
from unspot.datasets import load_glove_gender
from unspot.erasers import Transport
from unspot.evaluation.measure import attack_eraser
from unspot.leopard import ManifoldSolver
from unspot.maps import Projection

#: Sentence vectors with constant columns; not in the package, and used where they are found.
SENTENCES = Path(os.environ.get("UNSPOT_DATA", "."))


def run() -> dict[str, Any]:
    """Measure balanced accuracies; chance is 1/K."""
    figures: dict[str, Any] = {}
    for name, data in _datasets().items():
        erasers = {
            "LEACE": LEACE(),
            "cascade": Cascade(
                second=LEOPARD(rank=0.5, solver=ManifoldSolver(max_rows=1500), random_state=0)
            ),
        }
        for method, estimator in erasers.items():
            eraser = estimator.fit(data.train.X, data.train.z).eraser_
            for dtype in (np.float64, np.float32):
                for how, erase in {"short formula": _short(eraser), "unspot": eraser}.items():
                    key = f"{name}, {method}, {np.dtype(dtype).name}, {how}"
                    figures[key] = _attacked(erase, data, dtype)
        if name != "words":
            figures |= {f"{name}, {key}": found for key, found in _grid(data).items()}
    return figures


def _grid(data: Dataset) -> dict[str, Any]:
    """Measure the strongest attackers with and without a column of the smallest steps."""
    methods = {
        "LEACE": LEACE(),
        "orthogonal LEACE": LEACE(method="orthogonal"),
        "transport": Transport(),
    }
    figures: dict[str, Any] = {}
    for method, estimator in methods.items():
        with _steps_kept():
            kept = estimator.fit(data.train.X, data.train.z).eraser_
        constant = estimator.fit(data.train.X, data.train.z).eraser_
        for how, eraser in {"steps kept": kept, "steps constant": constant}.items():
            attacked = attack_eraser(
                _normalised(eraser), data.validation.joined(data.test), budget="quick"
            )
            low, high = attacked.interval(attacked.strongest)
            figures[f"{method}, {how}"] = {
                "strongest": attacked.strongest.name,
                "balanced accuracy": attacked.strongest.score,
                "interval": [low, high],
                "trees": next(r.score for r in attacked.results if r.name == "trees"),
            }
    X = data.train.X
    collected = statistics.CrossStatistics.from_rows(X, np.zeros((len(X), 1)))
    dropped = np.trace(collected.covariance - collected.settled().covariance)
    figures["share of variance in the steps"] = dropped / np.trace(collected.covariance)
    return figures


def _normalised(eraser: Eraser) -> Callable[[Any], Any]:
    def erase(X: Any) -> Any:
        erased = eraser(X)
        return erased / np.linalg.norm(erased, axis=1, keepdims=True)

    return erase


@contextmanager
def _steps_kept() -> Iterator[None]:
    """Fit as if a column of few steps were like the others."""
    least, statistics.NEGLIGIBLE = statistics.NEGLIGIBLE, 0.0
    try:
        yield
    finally:
        statistics.NEGLIGIBLE = least


def _datasets() -> dict[str, Dataset]:
    words = load_glove_gender()
    found = {"words": words}
    for name in ("tweets_minilm", "bios_minilm"):
        path = SENTENCES / f"{name}.npz"
        if path.exists():
            with np.load(path) as file:
                found[name] = Dataset.from_arrays(
                    file["X"].astype(np.float64), file["z"], random_state=0
                )
        else:
            print(f"  {name}: not here, left out")
    return found


def _short(eraser: Eraser) -> Callable[[Any], Any]:
    first = eraser.maps[0]
    if isinstance(first, Projection):
        return lambda X: X @ (first.U @ first.U.T).astype(X.dtype)
    left, right, mean = first.left, first.right, first.mean  # type: ignore[attr-defined]

    def formula(X: Any) -> Any:
        centred = X - mean.astype(X.dtype)
        return X - (centred @ right.astype(X.dtype)) @ left.astype(X.dtype).T

    return formula


def _attacked(erase: Callable[[Any], Any], data: Dataset, dtype: Any) -> dict[str, float]:
    learn, test = (
        np.asarray(erase(split.X.astype(dtype)), dtype=np.float64)
        for split in (data.validation, data.test)
    )
    z, z_test = data.validation.z, data.test.z
    mean = learn.mean(axis=0)
    _, deviations, directions = np.linalg.svd(learn - mean, full_matrices=False)
    small = directions[deviations < 100 * np.finfo(dtype).eps * deviations[0]].T
    residue = _accuracy((learn - mean) @ small, z, (test - mean) @ small, z_test)
    return {"all columns": _accuracy(learn, z, test, z_test), "residue": residue}


def _accuracy(learn: Any, z: Any, test: Any, z_test: Any) -> float:
    if not learn.shape[1]:
        return float("nan")
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(learn, z)
    guesses = model.predict(test)
    return float(np.mean([np.mean(guesses[z_test == k] == k) for k in np.unique(z_test)]))


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key:60} {value}")
