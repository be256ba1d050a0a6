"""KRaM: kernelised rate distortion, for categories and for continuous concepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.checks import check_bandwidth, check_choice, check_positive
from unspot.data.concept import Classes, Number
from unspot.eraser import Eraser
from unspot.lab.coding_rate import coding_rate, kernel_rate, matched_rate
from unspot.lab.maps import LayerNorm, squared_distances
from unspot.lab.networks import NetworkEraser, RowNumbers

__all__ = ["KRaM"]

#: Rows whose distances decide the median bandwidth.
_BANDWIDTH_ROWS = 1000


class KRaM(NetworkEraser):
    """Kernelised rate maximisation: a nonlinear eraser of categories or of numbers.

    A network is trained to maximise R(Z|K) − λ·|R(Z) − R(X)|: rows with a similar concept (by the
    kernel K on z) are pushed apart, while the rate of all rows stays near that of the embeddings.
    Z is the network's output, normalised row by row to a sphere, and so is X in R(X), because
    rates compare only at the same scale. The erased rows are that normalised output.

    Cost: for categories, K is 1[z = z′] and the determinant is a sum over classes, O(n·d²) per
    epoch, besides the network's O(n·n_layers·d²). For a continuous concept a mini-batch of b rows
    costs O(b³), so that an epoch costs O(n·b²).

    Parameters
    ----------
    kernel : {"gaussian", "laplacian"}
        K for a continuous concept: exp(−‖z − z′‖²/(2σ²)) or exp(−‖z − z′‖/σ), on columns of z in
        units of their standard deviation.
    bandwidth : "median" or float
        σ; "median" is the median distance of pairs of rows.
    balance : float
        λ, the weight of keeping the rate.
    n_layers : int
        Layers of the network; 4 for word embeddings and short texts, 7 for tweets in the papers.
    distortion : float
        ε² of the coding rate.
    training : mapping, optional
        Settings of ``unspot.lab.networks.Training`` that differ from the default, such as
        ``{"epochs": 50, "batch_size": 512}``.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        The frozen network, which needs only numpy. If training diverges, the best state before.
    history_ : list of float
        The held-out loss (the negative objective) after every epoch.
    n_iter_ : int
        The number of epochs that were run.

    References
    ----------
    S. Basu Roy Chowdhury et al., "Robust Concept Erasure via Kernelized Rate-Distortion
    Maximization", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot.lab import KRaM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> age = np.abs(X[:, 0])
    >>> eraser = KRaM(training={"epochs": 5}, random_state=0).fit(X, age)
    >>> eraser.transform(X).shape
    (200, 4)
    """

    takes: ClassVar[tuple[str, ...]] = ("categories", "continuous")

    def __init__(
        self,
        *,
        kernel: Literal["gaussian", "laplacian"] = "gaussian",
        bandwidth: float | Literal["median"] = "median",
        balance: float = 0.7,
        n_layers: int = 4,
        distortion: float = 0.5,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.balance = balance
        self.n_layers = n_layers
        self.distortion = distortion
        self.training = training
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        check_positive("distortion", self.distortion)
        training = self._training
        if target.has_classes:
            concept_rate, codes = self._rate_of_categories(target), target.codes
        else:
            concept_rate, codes = self._rate_of_numbers(target), np.zeros(len(X), dtype=np.int64)
            if "batch_size" not in (self.training or {}):  # a step is cubic in its rows
                training = replace(training, batch_size=256)
        normalise = LayerNorm(X.shape[1])

        def loss(Z: Tensor, rows: Tensor, batch: RowNumbers) -> Tensor:
            drift = self._rate(Z) - self._rate(normalise(rows))
            return self.balance * drift.abs() - concept_rate(Z, batch)

        return self._train_on_sphere(X, self.n_layers, loss, codes, training)

    def _rate(self, Z: Tensor) -> Tensor:
        return coding_rate(Z, distortion=self.distortion)

    def _rate_of_categories(self, labels: Classes) -> Callable[[Tensor, RowNumbers], Tensor]:
        codes, n_classes = torch.from_numpy(labels.codes).to(self._device), len(labels.classes)
        return lambda Z, batch: matched_rate(Z, codes[batch], n_classes, distortion=self.distortion)

    def _rate_of_numbers(self, target: Number) -> Callable[[Tensor, RowNumbers], Tensor]:
        spread = target.coordinates.std(axis=0)
        z = target.coordinates / np.where(spread > 0, spread, 1.0)
        concept = self._tensor(z - z.mean(axis=0))
        sigma = self._sigma(concept.cpu())
        kernel = concept_kernel(self.kernel)
        return lambda Z, batch: kernel_rate(
            Z, kernel(concept[batch], sigma), distortion=self.distortion
        )

    def _sigma(self, concept: Tensor) -> float:
        given = check_bandwidth(self.bandwidth)
        # An even sample of rows in order of the concept stands for all of them.
        order = torch.argsort(concept[:, 0], stable=True)
        step = max(1, len(order) // _BANDWIDTH_ROWS)
        return given or median_distance(concept[order[::step]])


def concept_kernel(name: str) -> Callable[[Tensor, float], Tensor]:
    """Choose the kernel matrix of the rows of z, as a function of the bandwidth."""
    check_choice("kernel", name, ("gaussian", "laplacian"))
    if name == "gaussian":
        return lambda z, sigma: torch.exp(squared_distances(z, z) / (-2 * sigma**2))
    return lambda z, sigma: torch.exp(-squared_distances(z, z).sqrt() / sigma)


def median_distance(z: Tensor) -> float:
    """Compute the median distance of pairs of rows, or their mean where most are equal."""
    distances = torch.pdist(z.double())
    middle = float(distances.median())
    return middle if middle > 0 else float(distances.mean())
