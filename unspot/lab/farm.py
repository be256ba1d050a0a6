"""FaRM: a network that makes the classes equally large, by rate distortion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.checks import check_positive
from unspot.data.concept import Classes
from unspot.eraser import Eraser
from unspot.lab.coding_rate import class_rate, coding_rate
from unspot.lab.networks import NetworkEraser, RowNumbers


class FaRM(NetworkEraser):
    """Fairness-aware rate maximisation: a nonlinear eraser of categories.

    A network of ``n_layers`` layers as wide as the embeddings is trained to maximise
    R(Z) + Σₖ (nₖ/n) R(Zₖ), the coding rates of all rows and of each class, where its output Z is
    normalised row by row to a sphere. Every class is then spread over the whole space, so none
    stands out. The erased rows are that normalised output: a new space, in which no coordinate
    keeps its old meaning.

    Cost: an epoch of n rows takes O(n·n_layers·d²) for the network and O(n·d²) for the rates.

    Parameters
    ----------
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
    S. Basu Roy Chowdhury and S. Chaturvedi, "Learning Fair Representations via Rate-Distortion
    Maximization", TACL 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot.lab import FaRM
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 4)) * np.where(z == "a", 1, 3)[:, None]
    >>> FaRM(training={"epochs": 5}, random_state=0).fit(X, z).transform(X).shape
    (200, 4)
    """

    def __init__(
        self,
        *,
        n_layers: int = 4,
        distortion: float = 0.5,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_layers = n_layers
        self.distortion = distortion
        self.training = training
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        distortion = check_positive("distortion", self.distortion)
        codes = torch.from_numpy(target.codes).to(self._device)

        def loss(Z: Tensor, rows: Tensor, batch: RowNumbers) -> Tensor:
            return -farm_objective(Z, codes[batch], distortion=distortion)

        return self._train_on_sphere(X, self.n_layers, loss, target.codes)


def farm_objective(Z: Tensor, codes: Tensor, *, distortion: float) -> Tensor:
    """R(Z) + Σₖ (nₖ/n) R(Zₖ)."""
    by_class = class_rate(Z, codes, int(codes.max()) + 1, distortion=distortion)
    return coding_rate(Z, distortion=distortion) + by_class
