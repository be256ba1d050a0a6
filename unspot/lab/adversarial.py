"""Adversarial erasure: an autoencoder against an adversary, by gradient reversal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from unspot.checks import check_count
from unspot.data.concept import Classes
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.lab.networks import (
    NetworkEraser,
    RowNumbers,
    Training,
    TrainingTask,
    dense_maps,
    mlp,
    unscaled,
)
from unspot.lab.scaling import Scaling
from unspot.maps import Map


class AdversarialErasure(NetworkEraser):
    """A network that reconstructs the embeddings while an MLP adversary looks for the concept.

    Encoder and adversary are trained together on ‖x − x̂‖² + CE(adversary(x̂), z), where the
    gradient that the adversary sends back to the encoder is reversed and multiplied by
    ``strength``: what lowers the adversary's loss for the one raises it for the other. The erased
    rows are the reconstructions x̂, in the space of the embeddings.

    There is no guarantee: the result beats the adversary of the training, but another one that is
    fitted afterwards and for longer finds more.

    Cost: O(n·(n_layers·d² + d·n_hidden)) per epoch.

    Parameters
    ----------
    strength : float
        The weight of the adversary against the reconstruction.
    n_layers : int
        Layers of the encoder, twice as wide as the embeddings; at least 2. It begins near the
        identity.
    n_hidden : int
        Width of the two hidden layers of the adversary.
    training : mapping, optional
        Settings of ``unspot.lab.networks.Training`` that differ from the default, such as
        ``{"epochs": 50, "batch_size": 512}``.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        The frozen encoder, which needs only numpy. If training diverges, the last state before.
    history_ : list of float
        After every epoch, on the held-out part: the error of the reconstruction plus ``strength``
        times what the adversary knows beyond the class shares, in nats.
    n_iter_ : int
        The number of epochs that were run.

    References
    ----------
    Y. Ganin et al., "Domain-Adversarial Training of Neural Networks", JMLR 2016; Y. Elazar and
    Y. Goldberg, "Adversarial Removal of Demographic Attributes from Text Data", EMNLP 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot.lab import AdversarialErasure
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 4)) * np.where(z == "a", 1, 3)[:, None]
    >>> AdversarialErasure(training={"epochs": 5}, random_state=0).fit(X, z).transform(X).shape
    (200, 4)
    """

    #: Half of the epochs are for the adversary to catch up: only the encoder's learning rate falls.
    default_training: ClassVar[Training] = Training(
        epochs=200, batch_size=256, weight_decay=0.0, decay_at=0.5, game=True
    )

    def __init__(
        self,
        *,
        strength: float = 5.0,
        n_layers: int = 2,
        n_hidden: int = 128,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.strength = strength
        self.n_layers = n_layers
        self.n_hidden = n_hidden
        self.training = training
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        d, n_classes = X.shape[1], len(target.classes)
        rng = generator(self.random_state)
        encoder = near_identity(d, check_count("n_layers", self.n_layers, least=2), rng)
        adversary = mlp([d, self.n_hidden, self.n_hidden, n_classes], rng)
        scaling = Scaling.of(X)
        rows = self._tensor(scaling(X))
        codes = torch.from_numpy(target.codes).to(rows.device)
        shares = target.counts / len(target)
        entropy = float(-np.sum(shares * np.log(shares)))

        def loss(batch: RowNumbers) -> Tensor:
            erased = encoder(rows[batch])
            attack = cross_entropy(adversary(reverse(erased, self.strength)), codes[batch])
            return mse_loss(erased, rows[batch]) + attack

        def score(batch: RowNumbers) -> Tensor:
            erased = encoder(rows[batch])
            leak = entropy - cross_entropy(adversary(erased), codes[batch])
            return mse_loss(erased, rows[batch]) + self.strength * leak.clamp(min=0)

        task = TrainingTask(nn.ModuleList([encoder, adversary]), loss, score, steady=adversary)
        return self._train(task, target.codes, rng, lambda: _freeze(encoder, scaling))


def near_identity(d: int, n_layers: int, rng: np.random.Generator) -> nn.Sequential:
    """An encoder of width 2d that begins as x ↦ x, since x = max(x, 0) − max(−x, 0).

    From a random start the adversary wins while the encoder still learns to reconstruct.
    """
    encoder = mlp([d] + [2 * d] * (n_layers - 1) + [d], rng)
    both = torch.cat([torch.eye(d), -torch.eye(d)])  # (2d, d)
    layers = [layer for layer in encoder if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(0.1)  # some noise remains, so that hidden units differ
            layer.bias.zero_()
        layers[0].weight.add_(both)
        layers[-1].weight.add_(both.T)
        for layer in layers[1:-1]:
            layer.weight.add_(torch.eye(2 * d))
    return encoder


def reverse(x: Tensor, strength: float) -> Tensor:
    """x itself on the way forward, the gradient times −strength on the way back."""
    return x * -strength + (x * (1 + strength)).detach()


def _freeze(encoder: nn.Sequential, scaling: Scaling) -> tuple[Map, ...]:
    """Freeze the encoder as maps from and to the scale of the embeddings."""
    *layers, last = dense_maps(encoder, scaling)
    return (*layers, unscaled(last, scaling))
