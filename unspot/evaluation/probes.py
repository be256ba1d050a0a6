"""Probes as in the paper: a small scikit-learn perceptron, over several seeds.

A probe says what an ordinary classifier makes of the embeddings. It is not an adversary: weak
probes flatter erasure, and ``unspot.evaluation.attackers`` has the strong ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.erasers.base import refuse_nonfinite
from unspot.labels import Labels, encode, encode_as
from unspot.sampling import generator

__all__ = ["PRESETS", "Probe", "ProbeScores", "probe_accuracy", "probe_predictions"]


@dataclass(frozen=True)
class Probe:
    """Settings of scikit-learn's ``MLPClassifier``: one hidden layer, ReLU, Adam."""

    learning_rate: float = 1e-3
    batch_size: int = 200
    max_iter: int = 20
    hidden: int = 100
    alpha: float = 1e-4


#: ``paper`` is what the paper's text says; ``reference`` is what made its published tables.
PRESETS: dict[str, Probe] = {
    "paper": Probe(learning_rate=1e-4, batch_size=512, max_iter=20),
    "reference": Probe(),
}


@dataclass(frozen=True)
class ProbeScores:
    """Accuracies of one probe over seeds."""

    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds."""
        return float(np.std(self.scores))

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.spread:.1f} %"


def probe_accuracy(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    preset: str | Probe = "paper",
    seeds: int = 5,
    random_state: Any = 0,
    engine: str = "torch",
) -> ProbeScores:
    """Accuracy of the paper's probe, over several seeds.

    Parameters
    ----------
    X_train, X_test : array-like of shape (n, d)
        Embeddings; a probe sees them as they are, not standardised.
    z_train, z_test : array-like of shape (n,)
        Labels of any type: the concept's, or a task's.
    preset : "paper", "reference" or Probe
        Learning rate 1e-4, batches of 512 and 20 iterations as in the paper's text; or 1e-3, 200
        and 20, scikit-learn's defaults, as behind the paper's tables.
    seeds : int
        How many networks.
    random_state : int, Generator or None
        Decides the seeds.
    engine : "torch" or "sklearn"
        ``torch`` trains all seeds in one batched pass by scikit-learn's rules; ``sklearn`` fits
        ``MLPClassifier`` once a seed.

    Notes
    -----
    O(seeds·n·d·100) time an iteration, O(nd) memory.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> X_test, z_test = rows.sample(500, random_state=1)
    >>> scores = probe_accuracy(rows.X, rows.z, X_test, z_test, preset="reference", seeds=3)
    >>> len(scores.scores), scores.mean > 0.8
    (3, True)
    """
    codes = encode_as(z_test, encode(z_train, name="z_train").classes, name="z_test")
    predicted = probe_predictions(
        X_train,
        z_train,
        X_test,
        preset=preset,
        seeds=seeds,
        random_state=random_state,
        engine=engine,
    )
    if predicted.shape[1] != len(codes):
        raise ValueError(
            f"Got {len(codes)} labels in z_test for {predicted.shape[1]} rows of X_test, but "
            "expected one label for each row."
        )
    return ProbeScores(tuple(float(share) for share in (predicted == codes).mean(axis=1)))


def probe_predictions(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    *,
    preset: str | Probe = "paper",
    seeds: int = 5,
    random_state: Any = 0,
    engine: str = "torch",
) -> NDArray[np.int64]:
    """Predicted codes (seeds, n_test) of the probe: positions among the sorted training classes.

    Parameters are those of ``probe_accuracy``.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=500, d=5)
    >>> probe_predictions(rows.X, rows.z, rows.X[:3], seeds=2).shape
    (2, 3)
    """
    probe = _preset(preset)
    if engine not in _ENGINES:
        raise ValueError(f"Got engine={engine!r}, but expected 'torch' or 'sklearn'.")
    if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or seeds < 1:
        raise ValueError(f"Got seeds={seeds!r}, but expected a whole number of at least one.")
    rows, test_rows = _rows(X_train, "X_train"), _rows(X_test, "X_test")
    if rows.shape[1] != test_rows.shape[1]:
        raise ValueError(
            f"Got {test_rows.shape[1]} features in X_test and {rows.shape[1]} in X_train, but "
            "expected the same number."
        )
    labels = encode(z_train, n_rows=len(rows), name="z_train")
    numbers = generator(random_state).integers(2**31, size=int(seeds))
    return _ENGINES[engine](rows, labels, test_rows, probe, [int(s) for s in numbers])


def _torch_engine(
    X: NDArray[Any], labels: Labels, X_test: NDArray[Any], probe: Probe, seeds: list[int]
) -> NDArray[np.int64]:
    from unspot.evaluation.networks import Recipe, train

    recipe = Recipe(
        hidden=(probe.hidden,),
        learning_rate=probe.learning_rate,
        batch_size=probe.batch_size,
        epochs=probe.max_iter,
        l2=probe.alpha,
    )
    rows, test_rows = X.astype(np.float32), X_test.astype(np.float32)
    networks = train(rows, labels.codes, len(labels.classes), recipe, seeds)
    return networks.log_probabilities(test_rows).argmax(dim=2).numpy()


def _sklearn_engine(
    X: NDArray[Any], labels: Labels, X_test: NDArray[Any], probe: Probe, seeds: list[int]
) -> NDArray[np.int64]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    predictions = []
    for seed in seeds:
        model = MLPClassifier(
            (probe.hidden,),
            alpha=probe.alpha,
            batch_size=min(probe.batch_size, len(X)),
            learning_rate_init=probe.learning_rate,
            max_iter=probe.max_iter,
            random_state=seed,
        )
        with warnings.catch_warnings():  # twenty iterations are the recipe, not an accident
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, labels.codes)
        predictions.append(model.predict(X_test))
    return np.stack(predictions).astype(np.int64)


_Engine = Callable[[NDArray[Any], Labels, NDArray[Any], Probe, list[int]], NDArray[np.int64]]
_ENGINES: dict[str, _Engine] = {"torch": _torch_engine, "sklearn": _sklearn_engine}


def _preset(preset: str | Probe) -> Probe:
    if isinstance(preset, Probe):
        return preset
    if preset not in PRESETS:
        near = get_close_matches(str(preset), PRESETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"Got preset={preset!r}, but expected {' or '.join(map(repr, PRESETS))}, or a "
            f"Probe(…).{hint}"
        )
    return PRESETS[preset]


def _rows(X: Any, name: str) -> NDArray[Any]:
    from sklearn.utils.validation import check_array

    refuse_nonfinite(X)
    rows: NDArray[Any] = check_array(X, dtype=[np.float64, np.float32], input_name=name)
    return rows
