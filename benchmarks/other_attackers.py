"""Would LightGBM, or attackers that answer together, find more than the attackers of a budget?

The rows of biographies and words are erased by LEACE and by the cascade. Attackers of budget
standard learn from rows that no eraser was fitted on; so do LightGBM (if it is installed), in two
views, and a logistic regression on the log-probabilities of all attackers. That one learns from
the validation part of the attackers' rows, which some of them have seen too: a fair stack would
need every attacker twice.

Run: python -m benchmarks other_attackers
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.promise import BIOGRAPHIES
from unspot import LEACE, LEOPARD, Cascade, Dataset
from unspot.data.labels import encode
from unspot.datasets import load_glove_gender
from unspot.evaluation import attackers as family
from unspot.evaluation.attack_models import TrainingRows, principal, standardised
from unspot.evaluation.inference import recalls

Array = NDArray[Any]
SEEDS = {"biographies": 3, "words": 1}


def run() -> dict[str, Any]:
    """Balanced accuracy of the strongest attacker and of the others, by data, seed and eraser."""
    cells = {
        f"{name}, seed {seed}, {eraser}": _cell(data, erasure, seed)
        for name, seeds in SEEDS.items()
        for seed in range(seeds)
        for data in (_split(name, seed),)
        for eraser, erasure in _erasers(data, seed).items()
    }
    for name, cell in cells.items():
        print(f"  {name}: {cell}", flush=True)
    return cells


def _split(name: str, seed: int) -> Dataset:
    if name == "words":
        parts = list(load_glove_gender())
        X, z = (np.concatenate([getattr(part, key) for part in parts]) for key in "Xz")
    else:
        with np.load(BIOGRAPHIES) as arrays:
            X, z = arrays["X"], arrays["z"]
    return Dataset.from_arrays(X.astype(float), z, sizes=(0.5, 0.3, 0.2), random_state=seed)


def _erasers(data: Dataset, seed: int) -> dict[str, Any]:
    rank = data.train.X.shape[1] // 4 * (2 if data.train.X.shape[1] == 100 else 1)
    return {
        "LEACE": LEACE(),
        f"cascade of rank {rank}": Cascade(LEOPARD(rank=rank, random_state=seed)),
    }


def _cell(data: Dataset, estimator: Any, seed: int) -> dict[str, Any]:
    eraser = estimator.fit(data.train.X, data.train.z)
    learn, test = (eraser.transform(part.X) for part in (data.validation, data.test))
    labels = encode(data.validation.z)
    codes = np.searchsorted(labels.classes, data.test.z)
    rows, names, effort, own_seed = family._prepared(learn, labels, "standard", None, seed)
    scores, on_validation, on_test = {}, [], []
    for name in names:
        guess = family._learned(name, rows, effort, own_seed)
        probabilities, guesses = guess(test)
        scores[name] = float(recalls(guesses, codes, rows.n_classes).mean())
        on_validation.append(guess(rows.validation.X)[0])
        on_test.append(probabilities)
    strongest = max(scores, key=lambda name: scores[name])
    stack = LogisticRegression(C=0.001, max_iter=2000)
    stack.fit(_logs(on_validation), rows.validation.codes)
    together = stack.predict_proba(_logs(on_test))
    return {
        "strongest": strongest,
        "strongest_score": scores[strongest],
        "trees": scores["trees"],
        "rotated-trees": scores["rotated-trees"],
        **_lightgbm(rows, test, codes),
        "mean": _score(np.mean(on_test, axis=0), rows, codes),
        "stack": _score(together, rows, codes),
    }


def _logs(probabilities: list[Array]) -> Array:
    return np.log(np.clip(np.hstack(probabilities), 1e-4, 1))


def _score(probabilities: Array, rows: TrainingRows, codes: Array) -> float:
    guesses = (probabilities / rows.shares).argmax(axis=1)
    return float(recalls(guesses, codes, rows.n_classes).mean())


def _lightgbm(rows: TrainingRows, test: Array, codes: Array) -> dict[str, float]:
    try:
        import lightgbm
    except ImportError:
        return {}
    found = {}
    for name, view in {
        "lightgbm": standardised(rows.X),
        "rotated-lightgbm": principal(rows.X),
    }.items():
        seen = rows.seen_as(view)
        model = lightgbm.LGBMClassifier(
            n_estimators=1000,
            learning_rate=0.05,
            colsample_bytree=0.2,
            subsample=0.8,
            subsample_freq=1,
            n_jobs=1,
            verbose=-1,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # names of columns, which arrays have not
            model.fit(
                seen.fitted.X,
                seen.fitted.codes,
                eval_set=[(seen.validation.X, seen.validation.codes)],
                callbacks=[lightgbm.early_stopping(50, verbose=False)],
            )
            found[name] = _score(model.predict_proba(view(test)), rows, codes)
    return found
