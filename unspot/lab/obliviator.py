"""Obliviator: dependence on the concept taken out of random features, round after round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from torch import Tensor

from unspot.checks import check_choice, check_count, check_positive, check_share
from unspot.data.goal import Goal
from unspot.data.rows import generator, sample_and_held_out, stratified_batches
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit
from unspot.lab.classifiers import fit_classifier, out_of_fold_scores
from unspot.lab.inlp import balanced_accuracy, chance_bar
from unspot.lab.maps import Fourier
from unspot.lab.networks import dense, mlp
from unspot.lab.scaling import Scaling, rows_within_support
from unspot.leopard.subspaces import column_space, complement
from unspot.maps import Dense, Expand, Map, Normalise

__all__ = ["Obliviator", "Preserved", "dependence", "fourier", "preserved_directions"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: τ of the rows of the round before, of the input and of the task, as published.
_WITHOUT_TASK, _WITH_TASK = (0.1, 0.05, 0.0), (0.05, 0.02, 4.0)
#: The same where directions are chosen.
_IN_DIRECTIONS = (1.0, 0.2, 2.0)
#: Of AdamW, as published.
_WEIGHT_DECAY = 1e-2
#: Random features of what is kept, and of the probe that says when to stop.
_KEPT_FEATURES, _PROBE_FEATURES = 300, 500
#: Rows whose distances decide the bandwidth of a kernel.
_BANDWIDTH_ROWS = 1000
#: The settings of the published code that differ from the defaults.
_PUBLISHED = {
    **{"n_rounds": 15, "n_steps": 30, "learning_rate": 5e-4, "width": 512},
    **{"n_random_features": 3072, "batch_size": 32_768, "max_rows": 2**31},
}
_PRESETS: dict[str, dict[str, Any]] = {
    "unsupervised": {**_PUBLISHED, "threshold": 5e-5},
    "supervised": {**_PUBLISHED, "threshold": 1e-5},
}


class Preserved(NamedTuple):
    """Something that erased rows shall still tell: features, and the weights of both steps."""

    features: Array  # (n, m)
    weight: float
    in_directions: float


class Obliviator(BaseEraser):
    """A cascade of kernels that removes dependence on the concept and preserves the rest.

    A round has two steps. A layer of a network, ε, is trained so that its output u = ε(x)/‖ε(x)‖
    depends little on the concept and much on the rows: it minimises
    D(u, z) − τ₁D(u, x) − τ₂D(u, x₀) − τ₃D(u, y), where x are the rows of the round before, x₀ those
    of the input, y is a task if one is given, and D = √HSIC by random Fourier features. Then φ(u),
    such features of u, lose the directions that correlate with the concept, and of the others those
    stay that correlate most with x, x₀ and y. What is left, scaled to unit norm, are the rows of
    the next round.

    ``fit(X, z, keep=y)`` is the supervised form. After every round a probe with a kernel of its own
    learns from held-out rows, which no step has seen, and is tested on others of them.

    The erased rows are a new space of at most as many coordinates; no column keeps its meaning. No
    attacker but the probe is guarded against.

    Cost: a round costs O(n·m·(h + 300)) for h hidden units and m random features, times a step,
    and O(m³). To apply: O(h(d + m)) per row and round.

    Parameters
    ----------
    n_rounds : int
        The most rounds. The published code has up to 15.
    n_steps : int
        Steps of a network in a round, 10 to 30 in the paper, with many more rows each.
    learning_rate : float
        Of these steps. The published code has 5e-4, by which few rows are hardly erased.
    n_random_features : int
        m, from one for each class to one for each row. The published code has about 3,000.
    width : int
        h, the hidden units.
    weights : sequence of three floats, optional
        τ₁, τ₂ and τ₃. By default those of the paper: 0.1, 0.05 and none without a task, or 0.05,
        0.02 and 4 with one.
    threshold : float
        Directions below this share of the strongest are dropped.
    batch_size : int
        Rows of a step.
    max_rows : int
        The most rows to fit on; of more, a stratified sample.
    tolerance : float
        Rounds end when the held-out balanced accuracy is at most this many standard errors above
        that of a guess. If none gets there, the first one counts that is as near to the best. Below
        0 all rounds are run.
    validation_fraction : float
        The stratified part that is held out to say when to stop; 0 for none.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        Its metadata have the number of ``rounds``.
    accuracies_ : list of float
        The held-out balanced accuracy after each round.
    classes_ : ndarray

    References
    ----------
    R. Akbari, S. Afshari, V. N. Boddeti, "Obliviator Reveals the Cost of Nonlinear Guardedness in
    Concept Erasure", NeurIPS 2025.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 300)
    >>> X = rng.normal(size=(600, 3)) * np.where(z, 3, 1)[:, None]
    >>> moved = Obliviator(n_rounds=3, random_state=0).fit_transform(X, z)
    >>> moved.shape, bool(np.allclose(np.linalg.norm(moved, axis=1), 1))
    ((600, 3), True)
    """

    min_rows_per_class: ClassVar[int] = 2

    takes: ClassVar[tuple[str, ...]] = ("categories", "keep")

    def __init__(
        self,
        *,
        n_rounds: int = 10,
        n_steps: int = 40,
        learning_rate: float = 5e-3,
        n_random_features: int = 1000,
        width: int = 256,
        weights: Sequence[float] | None = None,
        threshold: float = 1e-4,
        batch_size: int = 2048,
        max_rows: int = 20_000,
        tolerance: float = 1.0,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.n_random_features = n_random_features
        self.width = width
        self.weights = weights
        self.threshold = threshold
        self.batch_size = batch_size
        self.max_rows = max_rows
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def preset(cls, name: str, **settings: Any) -> Obliviator:
        """Settings of the published code, "unsupervised" or "supervised", with others changed.

        They are for a GPU: a fit takes the tenfold time or more.
        """
        return cls(**{**_PRESETS[check_choice("preset", name, _PRESETS)], **settings})

    def _fit_goal(self, X: NDArray[Any], goal: Goal) -> Fit:
        rng = generator(self.random_state)
        S, inside = rows_within_support(X)
        scaling = Scaling.of(inside)
        rounds = self._rounds(scaling(inside), goal, rng)
        encoder, *rest = [step for steps in rounds for step in steps]
        first = _of_rows(encoder, scaling, S)
        coordinates = Expand(np.eye(X.shape[1])[:, : rest[-1].n_out])
        return Fit(Eraser((first, *rest, coordinates), {"rounds": len(rounds)}))

    def _rounds(self, X: Array, goal: Goal, rng: np.random.Generator) -> list[tuple[Any, ...]]:
        """Fit rounds until a probe on held-out rows guesses."""
        codes = goal.erase.codes
        share = check_share("validation_fraction", self.validation_fraction)
        n_rows = check_count("max_rows", self.max_rows)
        train, held_out = sample_and_held_out(codes, n_rows, rng, held_out_share=share)
        rows, others = X[train], X[held_out if len(held_out) else train]
        z = codes[held_out if len(held_out) else train]
        targets = self._targets(rows, goal.take(train), rng)
        bar = chance_bar(z, self.tolerance)
        self.accuracies_: list[float] = []
        rounds: list[tuple[Any, ...]] = []
        while len(rounds) < check_count("n_rounds", self.n_rounds):
            rounds.append(self._round(rows, codes[train], targets(rows), rng))
            for step in rounds[-1]:
                rows, others = step(rows), step(others)
            self.accuracies_.append(probe_accuracy(others, z, rng))
            if self.accuracies_[-1] <= bar:
                break
        near = max(bar, min(self.accuracies_) + bar - 1 / len(np.unique(z)))
        enough = np.flatnonzero(np.array(self.accuracies_) <= near)
        return rounds[: enough[0] + 1] if len(enough) else rounds

    def _targets(
        self, first: Array, goal: Goal, rng: np.random.Generator
    ) -> Callable[[Array], tuple[Array, list[Preserved]]]:
        """Make features of the concept, and of all that is preserved, from the rows of a round."""
        weights = self._weights(has_task=goal.keep is not None)
        z = goal.erase.features()
        y = None if goal.keep is None else goal.keep.features(rng)
        of_first = fourier(first, _KEPT_FEATURES, rng)(first)

        def targets(rows: Array) -> tuple[Array, list[Preserved]]:
            # In the first round both are the same rows.
            before = of_first if rows is first else fourier(rows, _KEPT_FEATURES, rng)(rows)
            features = [before, None if rows is first else of_first, y]
            preserved = [
                Preserved(of_one, *both)
                for of_one, *both in zip(features, weights, _IN_DIRECTIONS, strict=True)
                if of_one is not None
            ]
            return z, preserved

        return targets

    def _weights(self, *, has_task: bool) -> Sequence[float]:
        if self.weights is None:
            return _WITH_TASK if has_task else _WITHOUT_TASK
        weights = np.asarray(self.weights, dtype=float)
        if weights.shape != (3,) or not (weights >= 0).all():
            raise ValueError(
                f"Got weights={self.weights!r}, but expected three numbers of at least 0: of the "
                "rows of the round before, of the input and of the task."
            )
        return tuple(weights.tolist())

    def _n_features(self, codes: Codes) -> int:
        n_features = check_count("n_random_features", self.n_random_features)
        n_classes = len(np.unique(codes))
        if n_features < n_classes:
            raise ValueError(
                f"Got n_random_features={n_features} for {n_classes} classes, but expected at "
                f"least {n_classes}: a round removes one direction fewer than there are classes, "
                "and something must be left. Use hundreds, or merge classes."
            )
        return n_features

    def _round(
        self,
        rows: Array,
        codes: Codes,
        targets: tuple[Array, list[Preserved]],
        rng: np.random.Generator,
    ) -> tuple[Map, ...]:
        z, preserved = targets
        n_features = min(self._n_features(codes), len(rows))
        encoder = self._encoder(rows, codes, targets, n_features, rng)
        norm = Normalise(encoder.n_out)
        u = norm(encoder(rows))
        lift = fourier(u, n_features, rng)
        w = lift(u)
        V = preserved_directions(w, z, preserved, check_positive("threshold", self.threshold))
        # Rounded now, so that the rows of the fit see what is stored.
        V = V[:, : min(rows.shape[1], encoder.n_out)].astype(np.float32)
        left = Dense(V, -w.mean(axis=0) @ V)
        return encoder, norm, lift, left, Normalise(left.n_out)

    def _encoder(
        self,
        rows: Array,
        codes: Codes,
        targets: tuple[Array, list[Preserved]],
        n_features: int,
        rng: np.random.Generator,
    ) -> Dense:
        """Train one layer of a network."""
        network = mlp([rows.shape[1], check_count("width", self.width)], rng)
        norm = Normalise(self.width)
        x, z = _tensor(rows), _tensor(targets[0])
        preserved = [(_tensor(part.features), part.weight) for part in targets[1] if part.weight]
        batches = _batches(codes, check_count("batch_size", self.batch_size), rng)

        def encoded(part: Any) -> Tensor:
            return norm(network(x[part]).clip(min=0))

        with torch.no_grad():
            lift = fourier(encoded(next(batches)).numpy(), n_features, rng)
        rate = check_positive("learning_rate", self.learning_rate)
        adam = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=_WEIGHT_DECAY)
        for _ in range(check_count("n_steps", self.n_steps, least=0)):
            part = next(batches)
            phi = lift(encoded(part))
            loss = dependence(phi, z[part])
            for features, weight in preserved:
                loss = loss - weight * dependence(phi, features[part])
            adam.zero_grad(set_to_none=True)
            loss.backward()
            adam.step()
        return dense(network[0], relu=True)


def dependence(a: Tensor, b: Tensor) -> Tensor:
    """√HSIC of two sets of features: the Frobenius norm of their covariance.

    Examples
    --------
    >>> a = torch.tensor([[-1.0], [1.0]])
    >>> float(dependence(a, a)), float(dependence(a, torch.ones(2, 1)))
    (1.0, 0.0)
    """
    return torch.linalg.norm((a - a.mean(0)).T @ (b - b.mean(0))) / len(a)


def preserved_directions(
    w: Array, z: Array, preserved: Sequence[Preserved], threshold: float
) -> Array:
    """Directions (m, r) of features w that do not correlate with z, the most useful first.

    They are eigenvectors of Qᵀ(Σᵢ τᵢCᵢCᵢᵀ/‖Cᵢ‖²)Q, where Cᵢ is the covariance of w with what is
    preserved and Q a basis of the directions whose covariance with z is zero. Those stay whose
    eigenvalue is above the threshold times the largest, and one at least.
    """
    centred = (w - w.mean(axis=0)) / len(w)
    # A covariance below this is rounding: features are of about unit size.
    Q = complement(column_space(centred.T @ z, floor=1e-12))
    gain = np.zeros((len(Q), len(Q)))
    for features, _, weight in preserved:
        C = centred.T @ (features - features.mean(axis=0))
        gain += weight * (C @ C.T) / max(np.linalg.norm(C, 2) ** 2, np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(Q.T @ gain @ Q)
    n = max(1, int((values > threshold * values[-1]).sum()))
    return np.asarray(Q @ vectors[:, : -n - 1 : -1])


def fourier(rows: NDArray[Any], n_features: int, rng: np.random.Generator) -> Fourier:
    """Random features of the Gaussian kernel at the median distance of rows."""
    distances = pdist(rows[:: -(-len(rows) // _BANDWIDTH_ROWS)])
    # The median; the mean where most pairs are equal, and 1 where all are.
    bandwidth = float(np.median(distances)) or float(distances.mean()) or 1.0
    weight = rng.normal(size=(rows.shape[1], n_features)) / bandwidth
    bias = rng.uniform(0, 2 * np.pi, n_features)
    return Fourier(weight.astype(np.float32), bias.astype(np.float32))


def probe_accuracy(rows: Array, codes: Codes, rng: np.random.Generator) -> float:
    """Balanced accuracy of a logistic probe on random features, on rows that it has not seen."""
    fit = partial(fit_classifier, "logistic", rng=rng, n_epochs=1)
    features = fourier(rows, min(_PROBE_FEATURES, len(rows)), rng)(rows)
    return balanced_accuracy(codes, out_of_fold_scores(fit, features, codes, rng, 2).argmax(-1))


def _of_rows(encoder: Dense, scaling: Scaling, S: Array | None) -> Dense:
    """Make the first layer take unscaled rows in all their directions."""
    W = encoder.weight / scaling.scale
    return Dense(W if S is None else S @ W, encoder.bias - scaling.mean @ W, encoder.relu)


def _batches(codes: Codes, size: int, rng: np.random.Generator) -> Iterator[Codes]:
    while True:
        yield from stratified_batches(codes, size, rng)


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
