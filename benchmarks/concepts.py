"""Numbers, two concepts at once, erasure given a task and with a task to keep, on unseen rows.

Small rows and three seeds, so that it takes minutes. Attackers learn from rows that the erasers
have not seen and are judged on others. Biographies are read from the folder UNSPOT_DATA if they are
there: 2,205 rows that are confounded by their source, a demonstration rather than evidence. Times
are CPU seconds of one thread.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from unspot import LEACE, LEOPARD, Cascade
from unspot.datasets import load_glove_gender
from unspot.datasets.glove import cosines
from unspot.density import PairWeights, Term, hsic_and_grad, mmd2_and_grad
from unspot.erasers import KRaM
from unspot.evaluation import fairness, neighbour_overlap
from unspot.machine import one_thread

Array = NDArray[Any]
SEEDS = (0, 1, 2)
#: Where ``bios_minilm.npz`` is: vectors X, gender z and occupation y.
BIOS = Path(os.environ.get("UNSPOT_DATA", ".")) / "bios_minilm.npz"


def run() -> dict[str, Any]:
    """All figures, as means over the seeds with the single ones beside."""
    with one_thread():
        figures: dict[str, Any] = {"step": step_ratios()}
        parts: dict[str, Callable[[int], dict[str, Any]]] = {
            "several_synthetic": lambda seed: several(*synthetic(seed), seed=seed),
            "given_synthetic": lambda seed: given(*jobs(seed), seed=seed),
            "keep_synthetic": lambda seed: kept(*jobs(seed), seed=seed),
        }
        if BIOS.is_file():
            parts |= {
                "several_bios": lambda seed: several(*biographies_of_two(seed), seed=seed),
                "given_bios": lambda seed: given(*biographies(seed), seed=seed),
                "keep_bios": lambda seed: kept(*biographies(seed), seed=seed),
            }
        parts["number"] = number_of_words
        for name, part in parts.items():
            found = []
            for seed in SEEDS:
                found.append(part(seed))
                print(f"  {name}, seed {seed}: {_mean(found[-1:])}", flush=True)
            figures[name] = _mean(found)
    return figures


def _mean(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of figures that are nested alike."""
    first = results[0]
    if not isinstance(first, dict):
        return round(float(np.mean(results)), 4)  # type: ignore[return-value]
    return {key: _mean([result[key] for result in results]) for key in first}


# -- Attackers -------------------------------------------------------------------------------------


def views(linear: Any, trees: Any) -> dict[str, Any]:
    """Linear, quadratic and Gaussian views of rows before a linear model, and trees."""
    scaled = StandardScaler()
    return {
        "linear": make_pipeline(scaled, linear),
        "quadratic": make_pipeline(
            PCA(30, random_state=0), PolynomialFeatures(2), StandardScaler(), linear
        ),
        "gaussian": make_pipeline(scaled, _MedianKernel(), linear),
        "trees": trees,
    }


class _MedianKernel(Nystroem):
    """Features of a Gaussian kernel at the mean distance, of 300 landmarks."""

    def __init__(self) -> None:
        super().__init__(n_components=300, random_state=0)

    def fit(self, X: Array, y: Any = None) -> Any:
        self.gamma = 1.0 / (2.0 * max(float(X.var(axis=0).sum()), 1e-12))
        return super().fit(X, y)


def explained(learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    """R² of the best of four regressors, which sees no more than 30 dimensions quadratically."""
    models = views(RidgeCV(np.logspace(-2, 5, 15)), HistGradientBoostingRegressor(max_iter=60))
    return max(_r2(model, learn, test) for model in _fitting(models, learn[0]))


def _r2(model: Any, learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    return float(r2_score(test[1], model.fit(*learn).predict(test[0])))


def advantage(learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    """What the best of four classifiers has over guessing, in balanced accuracy."""
    linear = LogisticRegression(C=0.1, class_weight="balanced", max_iter=300)
    trees = HistGradientBoostingClassifier(max_iter=60, class_weight="balanced")
    guess = 1.0 / len(np.unique(test[1]))
    return max(
        float(balanced_accuracy_score(test[1], model.fit(*learn).predict(test[0]))) - guess
        for model in _fitting(views(linear, trees), learn[0])
    )


def _fitting(models: dict[str, Any], X: Array) -> list[Any]:
    if X.shape[1] < 30:
        models["quadratic"].set_params(pca__n_components=X.shape[1])
    return list(models.values())


def _thirds(n: int, seed: int) -> list[NDArray[np.int64]]:
    """Rows to erase with, rows to learn from and rows to judge on."""
    return np.array_split(np.random.default_rng(seed).permutation(n), 3)


def _seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


# -- One step of the loss --------------------------------------------------------------------------


def step_ratios(rows: int = 4096) -> dict[str, Any]:
    """Times of value and gradient with m features of the concept, over those with two classes."""
    import torch

    g = torch.Generator().manual_seed(0)
    found = {}
    for r, m in ((32, 8), (50, 24), (125, 24), (125, 50)):
        Y, z = torch.randn(rows, r, generator=g), torch.arange(rows) % 2
        weights = PairWeights.of([Term(torch.randn(rows, m, generator=g))])
        classes, features = [], []
        for _ in range(5):
            classes.append(_seconds(lambda Y=Y, z=z: mmd2_and_grad(Y, z))[1])
            features.append(_seconds(lambda Y=Y, w=weights: hsic_and_grad(Y, w))[1])
        found[f"r={r}, m={m}"] = {
            "ratio": round(min(features) / min(classes), 3),
            "allowed": round((1 + m / r) * 1.3, 3),
        }
    return found


# -- A number --------------------------------------------------------------------------------------


def number_of_words(seed: int, rows: int = 1500) -> dict[str, Any]:
    """The gender score of words: what the best regressor explains, and what is kept (A_50%).

    The score of a word is its cosine with the direction from female to male words, the difference
    of the means of both classes of the bundle.
    """
    data = load_glove_gender()
    z = np.asarray(data.train.z)
    direction = data.train.X[z == "male"].mean(0) - data.train.X[z == "female"].mean(0)
    direction = direction / np.linalg.norm(direction)
    parts = []
    rng = np.random.default_rng(seed)
    for split in data:
        X = split.X[np.sort(rng.permutation(len(split))[:rows])].astype(np.float64)
        parts.append((X, np.asarray(cosines(X, direction), dtype=np.float64)))
    fit, learn, test = parts
    methods: dict[str, Any] = {"LEACE": LEACE(concept="continuous")}
    for rank in (90, 75, 50):
        methods[f"LEOPARD {rank}"] = Cascade(
            LEOPARD(rank=rank, concept="continuous", random_state=seed)
        )
    methods["KRaM"] = KRaM(concept="continuous", n_epochs=40, random_state=seed)
    found = {"before": {"R2": explained(learn, test), "A_50": 1.0, "seconds": 0.0}}
    for name, method in methods.items():
        _, seconds = _seconds(lambda method=method: method.fit(*fit))
        erased = [(method.transform(X), numbers) for X, numbers in (learn, test)]
        found[name] = {
            "R2": explained(*erased),
            "A_50": neighbour_overlap(test[0], erased[1][0], max_queries=500),
            "seconds": seconds,
        }
    return found


# -- Two concepts ----------------------------------------------------------------------------------


def synthetic(seed: int, n: int = 6000, d: int = 20) -> tuple[Array, dict[str, Array], int]:
    """A class that scales one direction, and a number that the square of another tells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = rng.integers(2, size=n)
    X[:, 0] *= np.where(z == 1, 3.0, 1.0)
    X[:, 1] += z
    age = X[:, 2] ** 2 + X[:, 3] + 0.5 * rng.normal(size=n)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ Q, {"z": z, "age": age}, 14


def biographies_of_two(seed: int) -> tuple[Array, dict[str, Array], int]:
    """Gender, and whether the occupation is in medicine: the data's own label, in two groups."""
    X, z, y = biographies(seed)
    return X, {"gender": z, "medicine": np.isin(y, ["surgeon", "nurse", "physician"])}, 150


def biographies(seed: int) -> tuple[Array, Array, Array]:
    """Vectors, gender and occupation."""
    with np.load(BIOS) as file:
        return file["X"].astype(np.float32), file["z"], file["y"]


def several(X: Array, Z: dict[str, Array], rank: int, *, seed: int) -> dict[str, Any]:
    """One fit of two concepts against one fit after the other, to the same rank."""
    fit, learn, test = _thirds(len(X), seed)
    at = {name: column[fit] for name, column in Z.items()}
    kinds = {
        name: "continuous" if column.dtype.kind == "f" else "categories"
        for name, column in Z.items()
    }
    half = (X.shape[1] + rank) // 2

    def together() -> Callable[[Array], Array]:
        return Cascade(LEOPARD(rank=rank, random_state=seed)).fit(X[fit], at).reduce

    def in_a_row() -> Callable[[Array], Array]:
        first, second = at
        one = Cascade(LEOPARD(rank=half, concept=kinds[first], random_state=seed))
        one.fit(X[fit], at[first])
        two = Cascade(LEOPARD(rank=rank, concept=kinds[second], random_state=seed))
        two.fit(one.reduce(X[fit]), at[second])
        return lambda rows: two.reduce(one.reduce(rows))

    found: dict[str, Any] = {}
    for name, work in (("together", together), ("in a row", in_a_row)):
        erase, seconds = _seconds(work)
        rows = [erase(X[part]) for part in (learn, test)]
        leaks = {}
        for concept, column in Z.items():
            attack = explained if kinds[concept] == "continuous" else advantage
            leaks[concept] = attack((rows[0], column[learn]), (rows[1], column[test]))
        kept = neighbour_overlap(X[test], rows[1], max_queries=500)
        found[name] = {**leaks, "A_50": kept, "seconds": seconds}
    found["ratio of seconds"] = found["together"]["seconds"] / found["in a row"]["seconds"]
    return found


# -- A task ----------------------------------------------------------------------------------------


def jobs(seed: int, n: int = 3000, d: int = 20) -> tuple[Array, Array, Array]:
    """Three jobs, a class that is more common in some, and rows that tell both and each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    z = (rng.random(n) < np.array([0.2, 0.5, 0.8])[y]).astype(int)
    X = rng.normal(size=(n, d))
    X[:, :3] += 1.5 * np.eye(3)[y]  # the job
    X[:, 3] += 1.5 * z  # the class, whatever the job
    X[:, 0] += 1.0 * z * (y == 0)  # where it makes a job look like more or less of itself
    X[:, 4] *= np.where(z == 1, 2.0, 1.0)
    return X @ np.linalg.qr(rng.normal(size=(d, d)))[0], z, y


def given(X: Array, z: Array, y: Array, *, seed: int) -> dict[str, Any]:
    """The gap of true positive rates of a classifier of the task, after three ways to erase."""
    fit, learn, test = _thirds(len(X), seed)
    rank = 3 * X.shape[1] // 4
    ways: dict[str, tuple[Any, Any]] = {
        "before": (None, None),
        "LEACE": (LEACE(), None),
        "LEACE given": (LEACE(), y[fit]),
        "LEOPARD": (Cascade(LEOPARD(rank=rank, random_state=seed)), None),
        "LEOPARD given": (Cascade(LEOPARD(rank=rank, random_state=seed)), y[fit]),
    }
    found = {}
    for name, (method, task) in ways.items():
        rows = X if method is None else method.fit(X[fit], z[fit], given=task).transform(X)
        head = _head().fit(rows[learn], y[learn])
        guesses = head.predict(rows[test])
        gap = fairness(y[test], guesses, z[test]).rms_gap
        found[name] = {"RMS TPR gap": gap, "accuracy": float(np.mean(guesses == y[test]))}
    return found


def kept(X: Array, z: Array, y: Array, *, seed: int) -> dict[str, Any]:
    """A classifier of the task that was fitted before erasure, and what a linear one finds of z."""
    fit, learn, test = _thirds(len(X), seed)
    head = _head().fit(X[fit], y[fit])
    found = {}
    for name, task in (("before", None), ("LEACE", None), ("LEACE keep", y[fit])):
        rows = X if name == "before" else LEACE().fit(X[fit], z[fit], keep=task).transform(X)
        seen, unseen = (_head().fit(rows[part], z[part]) for part in (fit, learn))
        guess = balanced_accuracy_score
        found[name] = {
            "frozen head": float(np.mean(head.predict(rows[test]) == y[test])),
            "linear z, fitted rows": float(guess(z[fit], seen.predict(rows[fit]))),
            "linear z, unseen rows": float(guess(z[test], unseen.predict(rows[test]))),
        }
    return found


def _head() -> Any:
    return LogisticRegression(C=1.0, class_weight="balanced", max_iter=500)


if __name__ == "__main__":
    run()
