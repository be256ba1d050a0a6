"""
From concept-erasure or fairlearn
=================================

The same linear erasure by three packages, and what a nonlinear attacker reads after each.
"""

# %%
# Two classes that differ in their means and in their spread.

import time

import numpy as np

from unspot import LEACE, LEOPARD, Cascade, Dataset
from unspot.evaluation import attack

rng = np.random.default_rng(0)
n, d = 12_000, 32
z = rng.integers(0, 2, n)
X = rng.normal(size=(n, d)) * np.where(z == 1, 1.6, 1.0)[:, None] ** (np.arange(d) < 6)
X[:, :4] += 0.7 * z[:, None]
data = Dataset.from_arrays(X.astype(np.float32), z, random_state=0)
train, validation, test = data

# %%
# Each as a function of rows. ``CorrelationRemover`` needs the concept of every new row too.


def concept_erasure():
    import torch
    from concept_erasure import LeaceFitter

    fitter = LeaceFitter.fit(torch.tensor(train.X), torch.tensor(train.z))
    return lambda split: fitter.eraser(torch.tensor(split.X)).numpy()


def fairlearn():
    from fairlearn.preprocessing import CorrelationRemover

    joined = lambda split: np.column_stack([split.X, split.z])  # noqa: E731
    remover = CorrelationRemover(sensitive_feature_ids=[d]).fit(joined(train))
    return lambda split: remover.transform(joined(split))


def leace():
    eraser = LEACE().fit(train.X, train.z)
    return lambda split: eraser.transform(split.X)


def cascade():
    eraser = Cascade(LEOPARD(rank=25, random_state=0)).fit(train.X, train.z)
    return lambda split: eraser.transform(split.X)


methods = {
    "concept-erasure, LEACE": concept_erasure,
    "fairlearn, CorrelationRemover": fairlearn,
    "unspot, LEACE": leace,
    "unspot, cascade of rank 25": cascade,
}
for name, method in methods.items():
    began = time.perf_counter()
    try:
        erase = method()
    except ImportError as error:
        print(f"{name:30} not installed ({error.name})")
        continue
    seconds = time.perf_counter() - began
    learn, judge = erase(validation), erase(test)
    results = attack(learn, validation.z, judge, test.z, budget="quick")
    best = max(results, key=lambda result: result.balanced_accuracy)
    linear = next(result for result in results if result.name == "logistic")
    print(
        f"{name:30} linear {100 * linear.balanced_accuracy:5.1f} %   "
        f"strongest {100 * best.balanced_accuracy:5.1f} % ({best.name})   fit {seconds:.2f} s"
    )
