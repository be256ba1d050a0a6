"""Classifiers that some methods ask for the class of a row: fitted here, frozen as arrays.

They are logistic, or a network of one hidden layer in parallel with the linear part. Both become
the arrays of ``unspot.lab.maps.Classifier``, in units of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from unspot.checks import check_choice, check_count
from unspot.data.rows import sample_and_held_out, stratified_batches
from unspot.evaluation.attack_models import quiet_logistic
from unspot.lab.maps import Classifier
from unspot.lab.scaling import Scaling

__all__ = ["CLASSIFIERS", "cooled", "fit_classifier", "out_of_fold_scores", "temperature"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

CLASSIFIERS = ("logistic", "network")
#: The hidden layer of the network, and the rows of a step.
_WIDTH, _BATCH = 128, 256


def fit_classifier(
    kind: str, X: Array, codes: Codes, rng: np.random.Generator, *, n_epochs: int
) -> Classifier:
    """A classifier of the codes 0…K−1, each of which must occur.

    Parameters
    ----------
    kind : {"logistic", "network"}
    X : (n, d)
    codes : (n,)
    rng : Generator
    n_epochs : int
        The most epochs of the network; a held-out tenth of the rows says when to stop.
    """
    scaling = Scaling.of(X)
    rows = scaling(X)
    if check_choice("classifier", kind, CLASSIFIERS) == "logistic":
        coef, intercept = _logistic(rows, codes)
        arrays = {}
    else:
        arrays = _network(rows, codes, rng, check_count("n_epochs", n_epochs))
        coef, intercept = arrays.pop("coef"), arrays.pop("intercept")
        hidden = arrays["hidden"] / scaling.scale
        arrays |= {"hidden": hidden, "hidden_bias": arrays["hidden_bias"] - scaling.mean @ hidden}
    coef = coef / scaling.scale
    return Classifier(coef=coef, intercept=intercept - scaling.mean @ coef, **arrays)


def out_of_fold_scores(
    fit: Callable[[Array, Codes], Classifier],
    X: Array,
    codes: Codes,
    rng: np.random.Generator,
    n_folds: int,
) -> Array:
    """Scores (n, K) of every row by a classifier that has not seen it.

    There are fewer folds if a class has fewer rows, so that all classes are in all fits.
    """
    counts = np.bincount(codes)
    n_folds = min(check_count("n_folds", n_folds, least=2), int(counts.min()))
    fold = _folds(codes, n_folds, rng)
    scores = np.empty((len(X), len(counts)))
    for i in range(n_folds):
        scores[fold == i] = fit(X[fold != i], codes[fold != i]).scores(X[fold == i])
    return scores


def temperature(scores: Array, codes: Codes) -> float:
    """Calibrate by one number: the T for which softmax(scores/T) has the least log-loss.

    Examples
    --------
    >>> scores = 4 * np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])  # too sure: one of four is wrong
    >>> round(temperature(scores, np.array([0, 0, 1, 1])), 1)
    3.6
    """
    centred = scores - scores.max(axis=1, keepdims=True)

    def log_loss(log_temperature: float) -> float:
        logits = centred / np.exp(log_temperature)
        normaliser = np.log(np.exp(logits).sum(axis=1))
        return float(np.mean(normaliser - logits[np.arange(len(codes)), codes]))

    return float(np.exp(minimize_scalar(log_loss, bounds=(-5, 5), method="bounded").x))


def cooled(classifier: Classifier, by: float) -> dict[str, Array]:
    """Divide the scores of a classifier by a temperature."""
    arrays = classifier.arrays()
    outputs = ("coef", "intercept", "hidden_coef")
    return {name: array / by if name in outputs else array for name, array in arrays.items()}


def _folds(codes: Codes, n_folds: int, rng: np.random.Generator) -> Codes:
    """Assign each row to a fold: the rows of every class are shuffled and dealt in turn."""
    order = np.lexsort((rng.random(len(codes)), codes))
    counts = np.bincount(codes)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    fold = np.empty(len(codes), dtype=np.int64)
    fold[order] = (np.arange(len(codes)) - starts[codes[order]]) % n_folds
    return fold


def _logistic(rows: Array, codes: Codes) -> tuple[Array, Array]:
    with quiet_logistic():  # coefficients that are nearly optimal classify nearly as well
        model = LogisticRegression(max_iter=200, tol=1e-4).fit(rows, codes)
    coef, intercept = model.coef_.T, model.intercept_
    if coef.shape[1] == 1:  # of two classes scikit-learn has the second alone
        coef = np.hstack([np.zeros_like(coef), coef])
        intercept = np.concatenate([[0.0], intercept])
    return coef, intercept


def _network(
    rows: Array, codes: Codes, rng: np.random.Generator, n_epochs: int
) -> dict[str, Array]:
    import torch

    from unspot.lab.networks import Training, TrainingTask, dense, mlp, train_network

    n_classes = int(codes.max()) + 1
    linear = mlp([rows.shape[1], n_classes], rng)
    layers = mlp([rows.shape[1], _WIDTH, n_classes], rng)
    x = torch.from_numpy(rows.astype(np.float32))
    z = torch.from_numpy(codes)

    def loss(part: Any) -> Any:
        scores = linear(x[part]) + layers(x[part])
        return torch.nn.functional.cross_entropy(scores, z[part])

    train, held_out = sample_and_held_out(codes, len(codes), rng)
    training = Training(epochs=n_epochs, patience=5)
    if not len(held_out):
        held_out, training = train, training.without_validation()
    train_network(
        TrainingTask(torch.nn.ModuleList([linear, layers]), loss),
        lambda: [train[part] for part in stratified_batches(codes[train], _BATCH, rng)],
        lambda: float(loss(held_out)),
        training,
    )
    first, last, skip = dense(layers[0]), dense(layers[2]), dense(linear[0])
    return {
        "coef": skip.weight,
        "intercept": skip.bias + last.bias,
        "hidden": first.weight,
        "hidden_bias": first.bias,
        "hidden_coef": last.weight,
    }
