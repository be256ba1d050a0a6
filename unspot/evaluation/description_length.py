"""Description length of a concept given embeddings: how many bits its labels still cost.

Someone who has the embeddings sends the labels to someone else who has them too. What a probe can
predict need not be sent, so the less the embeddings say about the concept, the longer the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count
from unspot.data.concept import read
from unspot.data.groups import group_codes, row_shuffler
from unspot.data.rows import generator
from unspot.evaluation.networks import Recipe, train_networks
from unspot.evaluation.utility import checked_matrix

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Fitter = Callable[[Array, Codes, int, np.random.Generator], "FittedProbe | None"]

#: Where the blocks end (Voita and Titov 2020), as shares of the rows.
FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)

#: Weights λ of the probe: p = λ·probe + (1 − λ)·prior. All are below 1, so that no label is
#: impossible.
TRUST = np.array([0.5, 0.9, 0.99, 0.999])


@dataclass(frozen=True)
class Block:
    """Cost of the labels of rows ``start`` to ``stop``, in coding order."""

    start: int
    stop: int
    bits: float
    prior_bits: float  # their cost under the running class prior only


@dataclass(frozen=True)
class MDL:
    """A description length, and what to compare it with.

    Attributes
    ----------
    bits : float
        Length of the code.
    uniform_bits : float
        Cost under a uniform code: log₂K per label.
    prior_bits : float
        Cost under a code that knows only the class shares: their entropy per label. Nothing is left
        of the concept when ``bits`` is about this much.
    control_bits : float or None
        Code length on permuted labels: the cost of this probe when there is nothing to learn.
    blocks : tuple of Block
        The parts of the code.
    """

    n_rows: int
    n_classes: int
    bits: float
    uniform_bits: float
    prior_bits: float
    control_bits: float | None
    blocks: tuple[Block, ...]

    @property
    def kilobits(self) -> float:
        """Thousand bits."""
        return self.bits / 1000

    @property
    def compression(self) -> float:
        """Uniform over actual length: 1 is no knowledge, more is more of the concept left."""
        return self.uniform_bits / self.bits


def mdl(
    X: Any,
    z: Any,
    *,
    probe: Fitter | None = None,
    control: bool = True,
    max_rows: int | None = None,
    random_state: Any = 0,
    groups: Any = None,
) -> MDL:
    """Compute the minimum description length of labels z given embeddings X.

    Time is about that of fitting the probe twice on all rows (four times with the control).

    Parameters
    ----------
    X : array-like of shape (n, d)
        Embeddings, erased or not.
    z : array-like of shape (n,)
        Labels of the concept, of any type.
    probe : function, optional
        Fits a probe to rows, codes, the number of classes and a generator, as
        ``fit_early_stopped`` does, which is the default.
    control : bool
        Whether to code permuted labels too.
    max_rows : int, optional
        Code a random sample of this many rows.
    random_state : int, Generator or None
        Decides row order, probes and permutation.
    groups : array-like of shape (n,), optional
        Groups of rows: they are sent group by group, so that no probe knows a part of the group
        that it codes.

    Notes
    -----
    The prequential code of Voita and Titov (2020). The rows, in random order, fall into disjoint
    blocks that end at 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25, 50 and 100 %. The first is sent
    by the uniform code; each later block once, by a probe fitted on the rows before it. The probe
    is mixed with the running class prior: a block of labels costs −log₂ Σ w·p(block), over several
    degrees of trust in the probe, of which "none" has w = ½. So an over-confident probe never costs
    more than one bit per block above the prior code.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(1000, 5)), rng.integers(0, 2, size=1000)
    >>> result = mdl(X, z)
    >>> abs(result.bits / result.prior_bits - 1) < 0.05
    True
    >>> mdl(X, X[:, 0] > 0).compression > 2
    True
    """
    X = checked_matrix(X, "X")
    labels = read(z, n_rows=len(X), kind="categories")
    fit = fit_early_stopped if probe is None else probe
    if max_rows is not None:
        check_count("max_rows", max_rows, least=2)
    rng = generator(random_state)
    order = rng.permutation(len(X))
    if groups is not None:
        groups = group_codes(groups, len(X))
        place = rng.permutation(groups.max() + 1)
        order = order[np.argsort(place[groups[order]], kind="stable")]
    order = order[:max_rows]
    ends = block_ends(len(order))
    if groups is not None:
        groups = groups[order]
        ends = _after_groups(ends, groups)
    rows = X.astype(np.float64, copy=False)[order]
    codes, n_classes = labels.codes[order], len(labels.classes)
    blocks = _coded(rows, codes, n_classes, fit, rng, ends)
    control_bits = None
    if control:
        permuted = codes[row_shuffler(codes, groups)(rng)]
        of_control = _coded(rows, permuted, n_classes, fit, rng, ends)
        control_bits = sum(block.bits for block in of_control)
    return MDL(
        n_rows=len(rows),
        n_classes=n_classes,
        bits=sum(block.bits for block in blocks),
        uniform_bits=len(rows) * float(np.log2(n_classes)),
        prior_bits=len(rows) * _entropy(codes),
        control_bits=control_bits,
        blocks=tuple(blocks),
    )


def _after_groups(ends: list[int], groups: Codes) -> list[int]:
    """Move the ends of blocks to the ends of the groups that they are in."""
    last = np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups))
    return np.unique(last[np.searchsorted(last, ends)]).tolist()


def _coded(
    X: Array, codes: Codes, n_classes: int, fit: Fitter, rng: np.random.Generator, ends: list[int]
) -> list[Block]:
    """Code the labels block by block."""
    first = float(ends[0] * np.log2(n_classes))
    blocks = [Block(0, ends[0], first, first)]
    prior = running_prior(codes, n_classes)
    for start, stop in pairwise(ends):
        probe = fit(X[:start], codes[:start], n_classes, rng)
        bits = _block_bits(probe, X[start:stop], codes[start:stop], prior[start:stop])
        blocks.append(Block(start, stop, bits, float(-np.log2(prior[start:stop]).sum())))
    return blocks


def _block_bits(probe: FittedProbe | None, X: Array, codes: Codes, prior: Array) -> float:
    """Compute the bits of a block's labels: a Bayesian mixture over the degrees of trust."""
    by_prior = float(-np.log2(prior).sum())
    if probe is None:
        return by_prior
    p = of_labels(probe, X, codes)
    lengths = np.array([by_prior, *(mixed_bits(p, prior, trust) for trust in TRUST)])
    weights = np.array([0.5, *np.full(len(TRUST), 0.5 / len(TRUST))])
    return float(-np.logaddexp2.reduce(np.log2(weights) - lengths))


def of_labels(probe: FittedProbe, X: Array, codes: Codes) -> Array:
    """Return the probability that the probe gives to each row's label."""
    return np.asarray(probe.probabilities(X)[np.arange(len(X)), codes])


def mixed_bits(p: Array, prior: Array, trust: float) -> float:
    return float(-np.log2(trust * p + (1 - trust) * prior).sum())


def running_prior(codes: Codes, n_classes: int) -> Array:
    """Compute the probability of each label by the labels before it.

    The Krichevsky–Trofimov estimate, which starts with half a count per class: a class that has
    not come up yet is unlikely, not impossible.
    """
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    before = np.empty(len(codes))
    before[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)
    return np.asarray((before + 0.5) / (np.arange(len(codes)) + n_classes / 2))


def block_ends(n: int) -> list[int]:
    """Compute the ends of the blocks of n rows, of at least one row each."""
    return sorted({max(1, round(fraction * n)) for fraction in FRACTIONS})


def _entropy(codes: Codes) -> float:
    counts = np.bincount(codes)
    shares = counts[counts > 0] / len(codes)
    return float(-(shares * np.log2(shares)).sum())


# -- The probe that a description length is measured with: networks stopped before they overfit ----


#: With fewer rows there is nothing to hold out for early stopping.
MIN_ROWS = 16
N_NETWORKS = 3


@dataclass(frozen=True)
class FittedProbe:
    """Probabilities by class code, and the rows of its prefix that it was not fitted on."""

    probabilities: Callable[[Array], Array]  # (n, d) → (n, K)
    held_out: NDArray[np.int64]


def fit_early_stopped(
    X: Array, codes: Codes, n_classes: int, rng: np.random.Generator
) -> FittedProbe | None:
    """Fit three networks on four fifths of the rows, each stopped by its log-loss on the rest.

    Inputs are standardised, so that an eraser cannot hide a concept by shrinking it. Returns None
    where nothing can be fitted: fewer than 16 rows, or a single class. O(epochs·n·d·100).
    """
    n = len(X)
    if n < MIN_ROWS:
        return None
    order = rng.permutation(n)
    held_out, fitted = order[: n // 5], order[n // 5 :]
    if len(np.unique(codes[fitted])) < 2:
        return None
    mean, scale = standardisation(X[fitted])
    Z = ((X - mean) / scale).astype(np.float32)
    recipe = Recipe(
        learning_rate=2e-3,
        batch_size=int(np.clip(len(fitted) // 20, 16, 256)),
        epochs=60,
        l2=1e-3,
        tolerance=1e-3,
        patience=4,
    )
    seeds = [int(seed) for seed in rng.integers(2**31, size=N_NETWORKS)]
    validation = (Z[held_out], codes[held_out])
    networks = train_networks(
        Z[fitted], codes[fitted], n_classes, recipe, seeds, validation=validation
    )

    def probabilities(rows: Array) -> Array:
        log_p = networks.log_probabilities(((rows - mean) / scale).astype(np.float32)).numpy()
        return np.exp(log_p.astype(np.float64)).mean(axis=0)  # (S, n, K) → (n, K)

    return FittedProbe(probabilities, held_out)


def standardisation(X: Array) -> tuple[Array, Array]:
    """Compute mean and scale of the columns; (nearly) constant columns keep their unit."""
    scale = X.std(axis=0)
    scale[scale <= 1e-7 * scale.max(initial=0.0)] = 1.0
    return X.mean(axis=0), scale
