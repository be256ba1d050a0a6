"""Description length as the tables of the paper (and of FaRM and KRaM) have it. It is not a code.

For each block the probe is scored on the whole prefix up to the block's end, the rows it was fitted
on included, so that about 2.002·n labels are counted, half of them by a probe that has seen them,
and 1024 bits are a kilobit. It measures a mean of training and test cross-entropy, doubled. On
labels independent of X it saturates at n·(0.001·log₂K + 2.001·H)/1024. Use it to compare with those
tables, and nothing else.
"""

from __future__ import annotations

import warnings
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.rows import generator
from unspot.evaluation.description_length import (
    TRUST,
    FittedProbe,
    block_ends,
    fit_early_stopped,
    mixed_bits,
    of_labels,
)
from unspot.lab.probes import PRESETS, Probe

__all__ = ["fit_estimator", "paper_bits"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


def paper_bits(
    X: NDArray[Any], labels: Any, *, probe: str = "early-stopped", random_state: Any = 0
) -> float:
    """Count the bits of the paper's scheme for encoded labels.

    Parameters
    ----------
    X : array of shape (n, d)
    labels : Classes
    probe : {"early-stopped", "paper", "reference"}
        The presets are not mixed with the prior, and may cost far more than a coin; the
        early-stopped probe is, where it does not clearly beat the prior on its held-out rows.
    random_state : int, Generator or None
    """
    fit: Any = fit_early_stopped
    if probe != "early-stopped":
        fit = partial(fit_estimator, _preset_estimator(PRESETS[probe]))
    rng = generator(random_state)
    order = rng.permutation(len(X))
    ends = block_ends(len(order))
    rows, codes = X.astype(np.float64, copy=False)[order], labels.codes[order]
    K = len(labels.classes)
    total = float(ends[0] * np.log2(K))
    for start, stop in pairwise(ends):
        fitted = fit(rows[:start], codes[:start], K, rng)
        total += _prefix_bits(fitted, rows[:stop], codes[:stop], start, K)
    return total


def _prefix_bits(
    probe: FittedProbe | None, X: Array, codes: Codes, start: int, n_classes: int
) -> float:
    """Count the bits of all labels of a prefix, those that the probe was fitted on included."""
    # One prior for all rows, from those before the block: the running one would start from zero.
    counts = np.bincount(codes[:start], minlength=n_classes) + 0.5
    shares = (counts / counts.sum())[codes]
    if probe is None:
        return float(-np.log2(shares).sum())
    p = of_labels(probe, X, codes)
    judges = probe.held_out
    trust = _earned_trust(p[judges], shares[judges]) if len(judges) else TRUST[-1]
    return mixed_bits(p, shares, trust)


def _earned_trust(p: Array, prior: Array) -> float:
    """The best trust on rows the probe was not fitted on; none unless it clearly beats the prior.

    Clearly is by three standard errors: the rows also stopped the probe, and so favour it.
    """
    bits = -np.log2(TRUST[:, None] * p + (1 - TRUST[:, None]) * prior)  # (trusts, m)
    best = int(np.argmin(bits.sum(axis=1)))
    gain = -np.log2(prior) - bits[best]
    clear = gain.mean() > 3 * gain.std() / np.sqrt(len(gain))
    return float(TRUST[best]) if clear else 0.0


def _preset_estimator(preset: Probe) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (preset.hidden,),
        alpha=preset.alpha,
        batch_size=preset.batch_size,
        learning_rate_init=preset.learning_rate,
        max_iter=preset.max_iter,
    )


def fit_estimator(
    estimator: Any, X: Array, codes: Codes, n_classes: int, rng: np.random.Generator
) -> FittedProbe | None:
    """Fit a clone of a scikit-learn classifier on all the rows, as they are, without a guard."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    if len(np.unique(codes)) < 2:
        return None
    model = clone(estimator)
    if "random_state" in model.get_params():
        model.set_params(random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        # Probes are given few iterations on purpose, and early prefixes are small.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Got `batch_size`")
        model.fit(X, codes)

    def probabilities(rows: Array) -> Array:
        by_class = np.zeros((len(rows), n_classes))  # a class that it has not seen gets none
        by_class[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(rows)
        return by_class

    return FittedProbe(probabilities, np.arange(0))
