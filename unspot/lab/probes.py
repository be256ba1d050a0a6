"""Probes as in the paper: a small scikit-learn perceptron, over several seeds.

A probe says what an ordinary classifier makes of the embeddings. It is not an adversary: weak
probes flatter erasure, and ``unspot.evaluation.attackers`` has the strong ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count, did_you_mean
from unspot.data.columns import encode_as
from unspot.data.concept import Classes
from unspot.data.rows import generator, in_memory, refuse_extreme, refuse_nonfinite

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

    @classmethod
    def of(cls, predictions: NDArray[np.int64], codes: NDArray[np.int64]) -> ProbeScores:
        """Score predicted codes (seeds, n) against the true ones (n,)."""
        return cls(tuple(float(share) for share in (predictions == codes).mean(axis=1)))

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
        The number of networks.
    random_state : int, Generator or None
        Decides the seeds.

    Notes
    -----
    O(seeds·n·d·100) time per iteration, O(nd) memory: all seeds train in one batched pass.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> X_test, z_test = rows.sample(500, random_state=1)
    >>> scores = probe_accuracy(rows.X, rows.z, X_test, z_test, preset="reference", seeds=3)
    >>> len(scores.scores), scores.mean > 0.8
    (3, True)
    """
    X, labels, X_test = checked_rows(X_train, z_train, X_test)
    codes = checked_codes(z_test, labels, len(X_test))
    predictions = predict_codes(
        X, labels, X_test, preset=preset, seeds=seeds, random_state=random_state
    )
    return ProbeScores.of(predictions, codes)


def probe_predictions(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    *,
    preset: str | Probe = "paper",
    seeds: int = 5,
    random_state: Any = 0,
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
    rows = checked_rows(X_train, z_train, X_test)
    return predict_codes(*rows, preset=preset, seeds=seeds, random_state=random_state)


def predict_codes(
    X: NDArray[Any],
    labels: Classes,
    X_test: NDArray[Any],
    *,
    preset: str | Probe = "paper",
    seeds: int,
    random_state: Any,
) -> NDArray[np.int64]:
    """``probe_predictions`` of rows that are checked and labels that are encoded."""
    from unspot.evaluation.networks import Recipe, train_networks

    check_count("seeds", seeds)
    probe = _probe(preset)
    recipe = Recipe(
        hidden=(probe.hidden,),
        learning_rate=probe.learning_rate,
        batch_size=probe.batch_size,
        epochs=probe.max_iter,
        l2=probe.alpha,
    )
    numbers = generator(random_state).integers(2**31, size=int(seeds))
    networks = train_networks(
        X.astype(np.float32), labels.codes, len(labels.classes), recipe, numbers.tolist()
    )
    return networks.log_probabilities(X_test.astype(np.float32)).argmax(dim=2).numpy()


def _probe(preset: str | Probe) -> Probe:
    if isinstance(preset, Probe):
        return preset
    if preset not in PRESETS:
        raise ValueError(
            f"Got preset={preset!r}, but expected {' or '.join(map(repr, PRESETS))}, or a "
            f"Probe(…).{did_you_mean(preset, PRESETS)}"
        )
    return PRESETS[preset]


# -- rows to learn from and rows to judge on, of probes and attackers ------------------------------


def checked_rows(
    X_train: Any, z_train: Any, X_test: Any, dtype: Any = (np.float64, np.float32)
) -> tuple[NDArray[Any], Classes, NDArray[Any]]:
    """Training rows, their labels and test rows: finite numbers of the same features."""
    rows, test_rows = rows_of_both(X_train, X_test, dtype)
    return rows, Classes.read(z_train, n_rows=len(rows), name="z_train"), test_rows


def rows_of_both(
    X_train: Any, X_test: Any, dtype: Any = (np.float64, np.float32)
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Training rows and test rows: finite numbers of the same features."""
    from sklearn.utils.validation import check_array

    def checked(X: Any, name: str) -> NDArray[Any]:
        X = in_memory(X)
        refuse_nonfinite(X)
        rows: NDArray[Any] = check_array(X, dtype=dtype, input_name=name)
        refuse_extreme(rows)
        return rows

    rows, test_rows = checked(X_train, "X_train"), checked(X_test, "X_test")
    if rows.shape[1] != test_rows.shape[1]:
        raise ValueError(
            f"Got {test_rows.shape[1]} features in X_test and {rows.shape[1]} in X_train, but "
            "expected the same number."
        )
    return rows, test_rows


def checked_codes(z_test: Any, labels: Classes, n_rows: int) -> NDArray[np.int64]:
    """Codes of test labels among the classes of the training labels."""
    codes = encode_as(z_test, labels.classes, name="z_test")
    if len(codes) != n_rows:
        raise ValueError(
            f"Got {len(codes)} labels in z_test for {n_rows} rows of X_test, but expected one "
            "label for each row."
        )
    return codes
