"""Kernelised erasure: linear erasure in the feature space of a kernel, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from torch import Tensor
from torch.nn.functional import mse_loss, one_hot

from unspot.checks import check_bandwidth, check_count
from unspot.data.concept import Classes
from unspot.data.rows import generator, sample_and_held_out
from unspot.data.statistics import CrossStatistics
from unspot.eraser import Eraser
from unspot.erasers.leace import LEACE
from unspot.lab.maps import Nystrom
from unspot.lab.networks import (
    NetworkEraser,
    RowNumbers,
    Training,
    TrainingTask,
    dense,
    uninitialised,
    unscaled,
)
from unspot.lab.scaling import Scaling
from unspot.maps import Map

Array = NDArray[np.float64]

#: RowNumbers whose distances decide the median bandwidth.
_BANDWIDTH_ROWS = 1000
#: The features that guard the way back: the leading ones, which a probe can learn.
_GUARD_FEATURES = 128
#: Ridge of the probe that guards the way back, relative to the mean variance of its features.
_GUARD_RIDGE = 1e-2
#: Ridge of the regression that the way back starts from, relative to the same.
_START_RIDGE = 1e-3


class KernelErasure(NetworkEraser):
    """Erase what a linear classifier could find in the feature space of a Gaussian kernel.

    LEACE removes the concept from Nyström features φ(x) of the rows: φ′ = Pφ(x). A regression
    x̂ = Bφ′ + c leads back to the embeddings. A plain regression would bring the concept back
    wherever x is not linearly correlated with it, because φ(x̂) is not φ′. So B and c also keep
    the concept out of φ(x̂): they minimise ‖x̂ − x‖² (per unit of variance) plus ``strength``
    times the share of z that a ridge regression finds in φ(x̂).

    The concept is erased only for this kernel: a probe with another kernel or bandwidth, or a
    network, may still find it, as Ravfogel et al. show.

    Cost: O(n·m·(d + m) + m³) for m landmarks and up to ``max_rows`` rows, and O(n·m·d) per epoch
    of the regression; O(m(d + m)) per row to apply.

    Parameters
    ----------
    n_landmarks : int
        m, the landmarks of the Nyström features, drawn at random from the rows.
    bandwidth : "median" or float
        σ of the kernel exp(−‖x − x′‖²/(2σ²)); "median" is the median distance of pairs of rows, or
        their mean distance where most are equal.
    strength : float
        The weight of keeping the concept out of φ(x̂) against being near to x.
    max_rows : int
        The most rows to fit on, drawn at random.
    training : mapping, optional
        Settings of ``unspot.lab.networks.Training`` that differ from the default, such as
        ``{"epochs": 50, "batch_size": 512}``.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        Nyström features, oblique projection, regression: three maps that need only numpy.
    bandwidth_ : float
        The kernel's σ.
    history_ : list of float
        The regression's held-out loss after every epoch.
    n_iter_ : int
        The number of epochs that were run.

    References
    ----------
    S. Ravfogel et al., "Adversarial Concept Erasure in Kernel Space", EMNLP 2022.

    Examples
    --------
    >>> from unspot.lab import KernelErasure
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["in", "out"], 100)
    >>> X = rng.normal(size=(200, 3)) * np.where(z == "in", 1, 3)[:, None]
    >>> eraser = KernelErasure(n_landmarks=50, training={"epochs": 5}, random_state=0).fit(X, z)
    >>> eraser.transform(X).shape
    (200, 3)
    """

    default_training: ClassVar[Training] = Training(
        epochs=100, batch_size=512, learning_rate=1e-2, weight_decay=0.0, patience=20
    )

    def __init__(
        self,
        *,
        n_landmarks: int = 512,
        bandwidth: float | Literal["median"] = "median",
        strength: float = 10.0,
        max_rows: int = 10_000,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.bandwidth = bandwidth
        self.strength = strength
        self.max_rows = max_rows
        self.training = training
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        rng = generator(self.random_state)
        budget = min(check_count("max_rows", self.max_rows, least=2), len(X))
        sample, _ = sample_and_held_out(target.codes, budget, rng, held_out_share=0.0)
        rows, codes = X[sample].astype(np.float64), target.codes[sample]
        scaling = Scaling.of(rows)
        self.bandwidth_ = self._sigma(rows, rng)
        features = self._features(rows, rng)
        linear = LEACE().fit(features(rows), codes).eraser_
        erased = linear(features(rows))
        # The guard is the same kernel in the units of the training, with its leading features.
        guard = Nystrom(
            scaling(features.landmarks),
            features.whitening[:, :_GUARD_FEATURES],
            self.bandwidth_ / scaling.scale,
        )
        task = self._way_back(guard, erased, scaling(rows), codes)

        def freeze() -> tuple[Map, ...]:
            return (features, *linear.maps, unscaled(dense(task.module), scaling))

        return self._train(task, codes, rng, freeze)

    def _features(self, X: Array, rng: np.random.Generator) -> Nystrom:
        """Nyström features, the leading ones first."""
        m = min(check_count("n_landmarks", self.n_landmarks), len(X))
        landmarks = X[rng.choice(len(X), size=m, replace=False)]
        raw = Nystrom(landmarks, np.eye(len(landmarks)), self.bandwidth_)
        values, vectors = np.linalg.eigh(raw.kernel(landmarks))
        # Below the cut-off the eigenvalues are rounding, and features of them would be noise.
        leading = np.flatnonzero(values > 1e-8 * values[-1])[::-1]
        whitening = vectors[:, leading] / np.sqrt(values[leading])
        return Nystrom(landmarks, np.ascontiguousarray(whitening), self.bandwidth_)

    def _way_back(
        self, features: Nystrom, erased: Array, scaled: Array, codes: NDArray[np.int64]
    ) -> TrainingTask:
        """Start the regression from erased features at its optimum without the guard."""
        back = uninitialised(erased.shape[1], scaled.shape[1])
        weight, bias = _ridge_regression(erased, scaled)
        with torch.no_grad():
            back.weight.copy_(torch.from_numpy(weight.T))
            back.bias.copy_(torch.from_numpy(bias))
        inputs, outputs = self._tensor(erased), self._tensor(scaled)
        concept = one_hot(torch.from_numpy(codes)).to(inputs)

        def loss(batch: RowNumbers) -> Tensor:
            reconstructed = back(inputs[batch])
            leak = explained_share(features.in_own_precision(reconstructed), concept[batch])
            return mse_loss(reconstructed, outputs[batch]) + self.strength * leak

        return TrainingTask(back, loss)

    def _sigma(self, X: Array, rng: np.random.Generator) -> float:
        rows = rng.choice(len(X), size=min(_BANDWIDTH_ROWS, len(X)), replace=False)
        distances = pdist(X[rows])
        # The median; the mean where most pairs are equal, and 1 where all are.
        typical = float(np.median(distances)) or float(distances.mean()) or 1.0
        return check_bandwidth(self.bandwidth) or typical


def explained_share(features: Tensor, concept: Tensor) -> Tensor:
    """Share of the concept's variance that a ridge regression on the features explains."""
    phi = features - features.mean(0)
    z = concept - concept.mean(0)
    gram = phi.T @ phi  # (q, q)
    ridge = _GUARD_RIDGE * gram.diagonal().mean() + torch.finfo(gram.dtype).tiny
    cross = phi.T @ z
    weights = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), cross)
    return (cross * weights).sum() / (z * z).sum()


def _ridge_regression(features: Array, rows: Array) -> tuple[Array, Array]:
    """Weights (q, d) and intercepts (d,)."""
    joint = CrossStatistics.from_rows(features, rows)
    q = features.shape[1]
    scatter, cross = joint.joint_scatter[:q, :q], joint.joint_scatter[:q, q:]
    penalty = _START_RIDGE * max(np.trace(scatter) / q, np.finfo(float).tiny)
    weight = np.linalg.solve(scatter + penalty * np.eye(q), cross)
    return weight, joint.joint_mean[q:] - joint.mean @ weight
