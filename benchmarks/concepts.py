"""Numbers, two concepts at once, erasure given a task and with a task to keep, on unseen rows.

Small rows and three seeds, so that it takes minutes; of biographies ten where splits make much of a
difference. Attackers learn from rows that the erasers have not seen and are judged on others.
Biographies and tweets are read from the folder UNSPOT_DATA if they are there: 2,205 rows that are
confounded by their source, a demonstration rather than evidence, and 6,160 rows of MiniLM.
Times are CPU seconds of one thread. With PARTS=number_words,given_bios only these are measured, and
the others stay as the result file has them.
"""

from __future__ import annotations

import json
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
from unspot.erasers import Transport
from unspot.evaluation import fairness, neighbour_overlap
from unspot.lab import KRaM
from unspot.lab.glove import cosines
from unspot.machine import one_thread

Array = NDArray[Any]
SEEDS = (0, 1, 2)
#: Parts with more of them, to know whether small differences are real.
TEN_SEEDS = ("several_bios", "given_bios")
#: Where data are: vectors X, gender z and occupation y; or dialect z and sentiment y.
FOLDER = Path(os.environ.get("UNSPOT_DATA", "."))
BIOS, TWEETS = FOLDER / "bios_minilm.npz", FOLDER / "tweets_minilm.npz"
RESULTS = Path(__file__).parent / "results" / "concepts.json"


def run() -> dict[str, Any]:
    """Compute all figures, as means over the seeds."""
    chosen = os.environ.get("PARTS", "").split(",")
    figures = json.loads(RESULTS.read_text()) if any(chosen) else {}
    figures.pop("versions", None)
    with one_thread():
        parts: dict[str, Callable[[int], dict[str, Any]]] = {
            "several_synthetic": lambda seed: several(*synthetic(seed), seed=seed),
            "given_synthetic": lambda seed: given(*jobs(seed), seed=seed),
            "keep_synthetic": lambda seed: kept(*jobs(seed), seed=seed),
        }
        if BIOS.is_file():
            parts |= {
                "several_bios": lambda seed: several(*biographies_of_two(), seed=seed),
                "given_bios": lambda seed: given(*rows_of(BIOS), seed=seed),
                "keep_bios": lambda seed: kept(*rows_of(BIOS), seed=seed),
                "keep_even": lambda seed: kept(*even(*rows_of(BIOS), seed=seed), seed=seed),
            }
        if TWEETS.is_file():
            parts["given_tweets"] = lambda seed: given(*tweets(seed), seed=seed)
        parts["number_words"] = lambda seed: number(words(seed), seed=seed)
        for name, part in parts.items():
            if any(chosen) and name not in chosen:
                continue
            found = []
            for seed in range(10) if name in TEN_SEEDS else SEEDS:
                found.append(part(seed))
                print(f"  {name}, seed {seed}: {_summary(found[-1:])}", flush=True)
            figures[name] = _summary(found)
            if name in TEN_SEEDS:
                figures[f"{name}, standard errors"] = _summary(found, _error)
    return figures


def _summary(results: list[Any], by: Callable[[Any], Any] = np.mean) -> Any:
    """Summarise figures of equal structure, by default by their means."""
    first = results[0]
    if not isinstance(first, dict):
        return round(float(by(results)), 4)
    return {key: _summary([result[key] for result in results], by) for key in first}


def _error(values: list[float]) -> float:
    """Compute the standard error of a mean over splits."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


# -- Attackers -------------------------------------------------------------------------------------


def views(linear: Any, trees: Any) -> dict[str, Any]:
    """Build a linear model on raw, quadratic and Gaussian features, and trees."""
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
    """Approximate a Gaussian kernel at the mean distance with 300 landmarks."""

    def __init__(self) -> None:
        super().__init__(n_components=300, random_state=0)

    def fit(self, X: Array, y: Any = None) -> Any:
        self.gamma = 1.0 / (2.0 * max(float(X.var(axis=0).sum()), 1e-12))
        return super().fit(X, y)


def explained(learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    """Compute R² of the best of four regressors; the quadratic one sees 30 dimensions."""
    models = views(RidgeCV(np.logspace(-2, 5, 15)), HistGradientBoostingRegressor(max_iter=60))
    return max(_r2(model, learn, test) for model in _fitting(models, learn[0]))


def _r2(model: Any, learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    return float(r2_score(test[1], model.fit(*learn).predict(test[0])))


def advantage(learn: tuple[Array, Array], test: tuple[Array, Array]) -> float:
    """Compute the advantage of the best of four classifiers, in balanced accuracy."""
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
    """Split rows into those of the fit, of the attackers, and of the test."""
    return np.array_split(np.random.default_rng(seed).permutation(n), 3)


def _seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


# -- A number --------------------------------------------------------------------------------------


Parts = list[tuple[Array, Array]]


def words(seed: int, rows: int = 1500) -> Parts:
    """Load words and their gender score, in three parts.

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
    return parts


def number(parts: Parts, *, seed: int) -> dict[str, Any]:
    """Measure R² of the best regressor, A_50%, and R² after LEACE at that A_50%.

    LEACE itself keeps most. To compare at equal A_50%, what it erased goes on to fewer principal
    components, and between these its R² is interpolated.
    """
    fit, learn, test = parts
    d = fit[0].shape[1]

    def measured(erase: Callable[[Array], Array]) -> dict[str, float]:
        erased = [(erase(X), numbers) for X, numbers in (learn, test)]
        kept = neighbour_overlap(test[0], erased[1][0], max_queries=500)
        return {"R2": explained(*erased), "A_50": kept}

    linear = LEACE().fit(*fit)
    spread = PCA(random_state=0).fit(linear.transform(fit[0]))
    path = [measured(linear.transform)]
    for share in (0.7, 0.5, 0.35):
        U = spread.components_[: round(share * d)].T
        path.append(measured(lambda X, U=U: linear.transform(X) @ U))
    methods: dict[str, Any] = {"LEACE": LEACE()}
    ranks = [round(share * d) for share in (0.9, 0.75, 0.5)]
    for rank in ranks:
        inner = LEOPARD(rank=rank, random_state=seed)
        methods[f"LEOPARD {rank}"] = Cascade(second=inner)
    methods["Transport"] = moved = Transport()
    for rank in ranks[:2]:
        inner = LEOPARD(rank=rank, random_state=seed)
        methods[f"Transport, LEOPARD {rank}"] = Cascade(moved, inner)
    methods["KRaM"] = KRaM(training={"epochs": 40}, random_state=seed)
    found: dict[str, Any] = {"before": {"R2": explained(learn, test), "A_50": 1.0, "seconds": 0.0}}
    for name, method in methods.items():
        _, seconds = _seconds(lambda method=method: method.fit(*fit))
        found[name] = {**measured(method.transform), "seconds": seconds}
    by_kept = sorted((cell["A_50"], cell["R2"]) for cell in path)
    for cell in found.values():
        cell["LEACE at this A_50"] = float(np.interp(cell["A_50"], *zip(*by_kept, strict=True)))
    return found


# -- Two concepts ----------------------------------------------------------------------------------


def synthetic(seed: int, n: int = 6000, d: int = 20) -> tuple[Array, dict[str, Array], int]:
    """Draw a class that scales one direction, and a number that depends on a square."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = rng.integers(2, size=n)
    X[:, 0] *= np.where(z == 1, 3.0, 1.0)
    X[:, 1] += z
    age = X[:, 2] ** 2 + X[:, 3] + 0.5 * rng.normal(size=n)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X @ Q, {"z": z, "age": age}, 14


def biographies_of_two() -> tuple[Array, dict[str, Array], int]:
    """Load gender, and whether the occupation is in medicine."""
    X, z, y = rows_of(BIOS)
    return X, {"gender": z, "medicine": np.isin(y, ["surgeon", "nurse", "physician"])}, 150


def rows_of(path: Path) -> tuple[Array, Array, Array]:
    """Load vectors, concept and task."""
    with np.load(path) as file:
        return file["X"].astype(np.float32), file["z"], file["y"]


def several(X: Array, Z: dict[str, Array], rank: int, *, seed: int) -> dict[str, Any]:
    """Compare one fit of two concepts with two fits in a row, at the same rank."""
    fit, learn, test = _thirds(len(X), seed)
    at = {name: column[fit] for name, column in Z.items()}
    half = (X.shape[1] + rank) // 2

    def together() -> Callable[[Array], Array]:
        return Cascade(rank=rank, random_state=seed).fit(X[fit], at).reduce

    def in_a_row() -> Callable[[Array], Array]:
        first, second = at
        one = Cascade(rank=half, random_state=seed)
        one.fit(X[fit], at[first])
        two = Cascade(rank=rank, random_state=seed)
        two.fit(one.reduce(X[fit]), at[second])
        return lambda rows: two.reduce(one.reduce(rows))

    found: dict[str, Any] = {}
    for name, work in (("together", together), ("in a row", in_a_row)):
        erase, seconds = _seconds(work)
        rows = [erase(X[part]) for part in (learn, test)]
        leaks = {}
        for concept, column in Z.items():
            attack = explained if column.dtype.kind == "f" else advantage
            leaks[concept] = attack((rows[0], column[learn]), (rows[1], column[test]))
        kept = neighbour_overlap(X[test], rows[1], max_queries=500)
        found[name] = {**leaks, "A_50": kept, "seconds": seconds}
    both, first = found["together"], found["in a row"]
    found["together less in a row"] = {name: both[name] - first[name] for name in (*Z, "A_50")}
    found["ratio of seconds"] = both["seconds"] / first["seconds"]
    return found


# -- A task ----------------------------------------------------------------------------------------


def jobs(seed: int, n: int = 3000, d: int = 20) -> tuple[Array, Array, Array]:
    """Draw three jobs, a correlated class, and rows that depend on both."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    z = (rng.random(n) < np.array([0.2, 0.5, 0.8])[y]).astype(int)
    X = rng.normal(size=(n, d))
    X[:, :3] += 1.5 * np.eye(3)[y]  # the job
    X[:, 3] += 1.5 * z  # the class, whatever the job
    X[:, 0] += 1.0 * z * (y == 0)  # where it makes a job look like more or less of itself
    X[:, 4] *= np.where(z == 1, 2.0, 1.0)
    return X @ np.linalg.qr(rng.normal(size=(d, d)))[0], z, y


def tweets(seed: int, share: float = 0.2) -> tuple[Array, Array, Array]:
    """Sample tweets so that the dialect predicts the sentiment.

    In the data all four cells are of one size, and nothing that a task explains could stay.
    """
    X, z, y = rows_of(TWEETS)
    rng = np.random.default_rng(seed)
    rare = np.equal(*(np.unique(column, return_inverse=True)[1] for column in (z, y)))
    chosen = ~rare | (rng.random(len(z)) < share / (1 - share))
    return X[chosen], z[chosen], y[chosen]


def even(X: Array, z: Array, y: Array, *, seed: int) -> tuple[Array, Array, Array]:
    """Balance the classes within every value of the task."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in np.unique(y):
        cells = [np.flatnonzero((y == task) & (z == k)) for k in np.unique(z)]
        rows += [rng.permutation(cell)[: min(map(len, cells))] for cell in cells]
    chosen = np.concatenate(rows)
    return X[chosen], z[chosen], y[chosen]


def given(X: Array, z: Array, y: Array, *, seed: int) -> dict[str, Any]:
    """Measure the TPR gap of a task classifier before and after erasure.

    Each third is judged once, since rates of a few rows are noise: of 2,205 biographies six are of
    men who are nurses. The second gap is that of tasks with 20 rows of each class. Those by chance
    are of classes that are drawn by lot within each task, so that none is treated in another way.
    """
    rank = 3 * X.shape[1] // 4
    ways: dict[str, tuple[Any, bool]] = {
        "before": (None, False),
        "LEACE": (LEACE(), False),
        "LEACE given": (LEACE(), True),
        "LEOPARD": (Cascade(rank=rank, random_state=seed), False),
        "LEOPARD given": (Cascade(rank=rank, random_state=seed), True),
    }
    tasks = np.unique(y)
    cells = np.array([[np.sum((y == task) & (z == k)) for k in np.unique(z)] for task in tasks])
    large = tasks[cells.min(axis=1) >= 20]
    lots = [_drawn_within(y, z, draw) for draw in range(50)]
    parts = _thirds(len(X), seed)
    found = {}
    for name, (method, conditional) in ways.items():
        guesses = np.empty_like(y)
        for turn in range(3):
            fit, learn, test = (parts[(turn + i) % 3] for i in range(3))
            rows = X if method is None else _erased(method, conditional, X, z, y, fit)
            guesses[test] = _head().fit(rows[learn], y[learn]).predict(rows[test])
        found[name] = {
            "RMS TPR gap": fairness(y, guesses, z).rms_gap,
            "by chance": _quadratic_mean([_rms_gap(y, guesses, lot, tasks) for lot in lots]),
            "of large tasks": _rms_gap(y, guesses, z, large),
            "by chance, large": _quadratic_mean([_rms_gap(y, guesses, lot, large) for lot in lots]),
            "accuracy": float(np.mean(guesses == y)),
        }
    return found


def _erased(method: Any, conditional: bool, X: Array, z: Array, y: Array, fit: Array) -> Array:
    task = y[fit] if conditional else None
    return np.asarray(method.fit(X[fit], z[fit], given=task).transform(X))


def _drawn_within(y: Array, z: Array, seed: int) -> Array:
    """Permute the classes within each task."""
    rng, drawn = np.random.default_rng(seed), z.copy()
    for task in np.unique(y):
        drawn[y == task] = rng.permutation(z[y == task])
    return drawn


def _rms_gap(y: Array, guesses: Array, z: Array, tasks: Array) -> float:
    """Compute the RMS gap of ``fairness`` on some tasks."""
    gaps = [
        np.subtract(*(np.mean(guesses[(y == task) & (z == k)] == task) for k in np.unique(z)))
        for task in tasks
    ]
    return _quadratic_mean(gaps)


def _quadratic_mean(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def kept(X: Array, z: Array, y: Array, *, seed: int) -> dict[str, Any]:
    """Measure task classifiers from before and after erasure, and a linear attacker."""
    fit, learn, test = _thirds(len(X), seed)
    head = _head().fit(X[fit], y[fit])
    found = {}
    for name, task in (("before", None), ("LEACE", None), ("LEACE keep", y[fit])):
        rows = X if name == "before" else LEACE().fit(X[fit], z[fit], keep=task).transform(X)
        seen, unseen = (_head().fit(rows[part], z[part]) for part in (fit, learn))
        guess = balanced_accuracy_score
        again = _head().fit(rows[fit], y[fit])
        found[name] = {
            "frozen head": float(np.mean(head.predict(rows[test]) == y[test])),
            "new head": float(np.mean(again.predict(rows[test]) == y[test])),
            "linear z, fitted rows": float(guess(z[fit], seen.predict(rows[fit]))),
            "linear z, unseen rows": float(guess(z[test], unseen.predict(rows[test]))),
        }
    return found


def _head() -> Any:
    return LogisticRegression(C=1.0, class_weight="balanced", max_iter=500)


if __name__ == "__main__":
    run()
