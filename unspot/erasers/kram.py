"""KRaM: kernelised rate distortion, for categories and for continuous concepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.checks import check_bandwidth, check_choice, check_positive
from unspot.data.labels import Labels, Measurements
from unspot.data.rows import Scaling
from unspot.data.sampling import generator
from unspot.eraser import Eraser
from unspot.erasers.coding_rate import coding_rate, kernel_rate, matched_rate
from unspot.erasers.networks import (
    NetworkEraser,
    RowNumbers,
    TrainingTask,
    freeze_normalised,
    square_mlp,
)
from unspot.maps import LayerNorm
from unspot.maps.nonlinear import squared_distances

__all__ = ["KRaM"]

Rate = Callable[[Tensor, RowNumbers], Tensor]

#: RowNumbers whose distances decide the median bandwidth.
_BANDWIDTH_ROWS = 1000


class KRaM(NetworkEraser):
    """Kernelised rate maximisation: a nonlinear eraser of categories or of numbers.

    A network is trained to maximise R(Z|K) − λ·|R(Z) − R(X)|: rows with a similar concept (by the
    kernel K on z) are pushed apart, while the rate of all rows stays near that of the embeddings.
    Z is the network's output, normalised row by row to a sphere, and so is X in R(X), because
    rates compare only at the same scale. The erased rows are that normalised output.

    Cost: for categories, K is 1[z = z′] and the determinant is a sum over classes, O(n·d²) an
    epoch beside the network's O(n·n_layers·d²). For a continuous concept a mini-batch of b rows
    costs O(b³), so that an epoch costs O(n·b²).

    Parameters
    ----------
    concept : {"categories", "continuous"}
        Whether z is a label, or a number (or a vector of numbers) for each row.
    kernel : {"gaussian", "laplacian"}
        K for a continuous concept: exp(−‖z − z′‖²/(2σ²)) or exp(−‖z − z′‖/σ), on columns of z in
        units of their standard deviation.
    bandwidth : "median" or float
        σ; "median" is the median distance of pairs of rows.
    balance : float
        λ, the weight of keeping the rate.
    n_layers : int
        Layers of the network; 4 for word embeddings and short texts, 7 for tweets in the papers.
    n_epochs : int
        The most epochs. The learning rate falls tenfold after 80 % of them, or earlier when the
        held-out objective stops improving; when it stops again, training ends.
    batch_size : int, optional
        By default 1024 for categories, 256 for a continuous concept.
    learning_rate, weight_decay : float
        Adam's.
    distortion : float
        ε² of the coding rate.
    validation_fraction : float
        The stratified part that is held out to say when to stop; 0 for none.
    patience : int
        Epochs without improvement that are waited for.
    random_state : int, RandomState or None
    device : str or torch.device, optional
        Where to train; the CPU if None.
    verbose : bool
        Show progress.

    Attributes
    ----------
    eraser_ : Eraser
        The frozen network, which needs numpy alone. If training diverges, the best state before.
    history_ : list of float
        The held-out loss (the negative objective) after every epoch.
    n_iter_ : int
        Epochs run.

    References
    ----------
    S. Basu Roy Chowdhury et al., "Robust Concept Erasure via Kernelized Rate-Distortion
    Maximization", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot.erasers import KRaM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> age = np.abs(X[:, 0])
    >>> eraser = KRaM(concept="continuous", n_epochs=5, random_state=0).fit(X, age)
    >>> eraser.transform(X).shape
    (200, 4)
    """

    def __init__(
        self,
        *,
        concept: Literal["categories", "continuous"] = "categories",
        kernel: Literal["gaussian", "laplacian"] = "gaussian",
        bandwidth: float | Literal["median"] = "median",
        balance: float = 0.7,
        n_layers: int = 4,
        n_epochs: int = 500,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 5e-4,
        distortion: float = 0.5,
        validation_fraction: float = 0.1,
        patience: int = 100,
        random_state: Any = None,
        device: Any = None,
        verbose: bool = False,
    ) -> None:
        self.concept = concept
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.balance = balance
        self.n_layers = n_layers
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.distortion = distortion
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _fit_eraser(self, X: NDArray[Any], target: Labels | Measurements) -> Eraser:
        rng = generator(self.random_state)
        network = square_mlp(X.shape[1], self.n_layers, rng)
        check_positive("distortion", self.distortion)
        scaling = Scaling.of(X)
        rows = self._tensor(scaling(X))
        normalise = LayerNorm(X.shape[1])
        if isinstance(target, Labels):
            rate, strata, default = self._categorical(target), target.codes, 1024
        else:
            rate, default = self._continuous(target), 256
            strata = np.zeros(len(X), dtype=np.int64)

        def loss(batch: RowNumbers) -> Tensor:
            Z = normalise(network(rows[batch]))
            drift = self._rate(Z) - self._rate(normalise(rows[batch]))
            return self.balance * drift.abs() - rate(Z, batch)

        return self._train(
            TrainingTask(network, loss),
            strata,
            rng,
            lambda: freeze_normalised(network, scaling),
            batch_size=default if self.batch_size is None else self.batch_size,
        )

    def _rate(self, Z: Tensor) -> Tensor:
        return coding_rate(Z, distortion=self.distortion)

    def _categorical(self, labels: Labels) -> Rate:
        codes = torch.from_numpy(labels.codes)

        def rate(Z: Tensor, batch: RowNumbers) -> Tensor:
            return matched_rate(
                Z, codes[batch].to(Z.device), len(labels.classes), distortion=self.distortion
            )

        return rate

    def _continuous(self, target: Measurements) -> Rate:
        spread = target.values.std(axis=0)
        z = target.values / np.where(spread > 0, spread, 1.0)
        concept = torch.from_numpy((z - z.mean(axis=0)).astype(np.float32))
        sigma = self._sigma(concept)
        kernel = concept_kernel(self.kernel)

        def rate(Z: Tensor, batch: RowNumbers) -> Tensor:
            K = kernel(concept[batch].to(Z.device), sigma)
            return kernel_rate(Z, K, distortion=self.distortion)

        return rate

    def _sigma(self, concept: Tensor) -> float:
        given = check_bandwidth(self.bandwidth)
        # An even sample of rows in order of the concept stands for all of them.
        order = torch.argsort(concept[:, 0], stable=True)
        step = max(1, len(order) // _BANDWIDTH_ROWS)
        return given or median_distance(concept[order[::step]])


def concept_kernel(name: str) -> Callable[[Tensor, float], Tensor]:
    """The kernel matrix of the rows of z, for a bandwidth."""
    check_choice("kernel", name, ("gaussian", "laplacian"))
    if name == "gaussian":
        return lambda z, sigma: torch.exp(squared_distances(z, z) / (-2 * sigma**2))
    return lambda z, sigma: torch.exp(-squared_distances(z, z).sqrt() / sigma)


def median_distance(z: Tensor) -> float:
    """The median distance of pairs of rows; their mean where most are equal."""
    distances = torch.pdist(z.double())
    middle = float(distances.median())
    return middle if middle > 0 else float(distances.mean())
