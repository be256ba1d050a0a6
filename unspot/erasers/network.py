"""What all erasers that train a network share: inputs, layers, schedule, the frozen result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.training import (
    DivergenceError,
    Rows,
    Schedule,
    held_out,
    stratified_batches,
    train,
)
from unspot.maps import Dense, Map

__all__ = ["NetworkEraser", "Scaling", "dense_maps", "mlp"]


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − mean)/scale with one scale for all features, so that units do not matter."""

    mean: NDArray[np.float64]  # (d,)
    scale: float

    @classmethod
    def of(cls, X: NDArray[Any]) -> Scaling:
        mean = X.mean(axis=0, dtype=np.float64)
        # In float64 and around the mean: a common offset must not swallow the spread.
        variance = float(np.mean([np.mean((X[:, j] - mean[j]) ** 2) for j in range(X.shape[1])]))
        return cls(mean, float(np.sqrt(variance)) or 1.0)

    def __call__(self, X: NDArray[Any], device: torch.device) -> Tensor:
        scaled = ((X - self.mean) / self.scale).astype(np.float32)
        return torch.from_numpy(scaled).to(device)


class NetworkEraser(BaseEraser):
    """Base of the erasers that train a network; a subclass writes ``_prepare`` and ``_maps``.

    It has the parameters ``n_epochs``, ``batch_size``, ``learning_rate``, ``weight_decay``,
    ``validation_fraction``, ``patience``, ``random_state``, ``device`` and ``verbose``.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    validation_fraction: float
    patience: int
    random_state: Any
    device: Any
    verbose: bool

    def _train(
        self,
        X: NDArray[Any],
        codes: NDArray[np.int64],
        build: Callable[[Tensor, torch.Generator], tuple[nn.Module, Callable[[Rows], Tensor]]],
        freeze: Callable[[nn.Module, Scaling], tuple[Map, ...]],
    ) -> Eraser:
        """Train what ``build`` makes of the scaled rows; freeze its best state.

        ``build`` returns the module and the loss of some of the rows. ``codes`` decide how
        mini-batches and the held-out part are stratified.
        """
        self._check_schedule()
        rng = check_random_state(self.random_state)
        device = torch.device(self.device or "cpu")
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        scaling = Scaling.of(X)
        module, loss = build(scaling(X, device), generator)
        module.to(device)
        kept, held = held_out(codes, self.validation_fraction, rng)
        fixed = [held[rows] for rows in stratified_batches(codes[held], self.batch_size, rng)]
        try:
            history = train(
                module,
                loss,
                lambda: (kept[r] for r in stratified_batches(codes[kept], self.batch_size, rng)),
                lambda: float(np.mean([float(loss(rows)) for rows in fixed])),
                self._schedule(),
                verbose=self.verbose,
                name=type(self).__name__,
            )
        except DivergenceError as error:
            if error.state is not None:
                module.load_state_dict(error.state)
                error.eraser = self.eraser_ = Eraser(freeze(module, scaling), {"diverged": True})
            raise
        self.history_ = history.losses
        self.n_iter_ = len(history.losses)
        return Eraser(freeze(module, scaling), {"epochs": self.n_iter_})

    def _schedule(self) -> Schedule:
        return Schedule(
            n_epochs=self.n_epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
        )

    def _check_schedule(self) -> None:
        for name in ("n_epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"Got {name}={value!r}, but expected an integer of at least 1.")
        if not self.learning_rate > 0:
            raise ValueError(
                f"Got learning_rate={self.learning_rate!r}, but expected a positive number."
            )
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"Got validation_fraction={self.validation_fraction!r}, but expected a number "
                "from 0 (no held-out part) to below 1."
            )


def mlp(widths: list[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, initialised from a generator of their own."""
    layers: list[nn.Module] = []
    for n_in, n_out in zip(widths, widths[1:], strict=False):
        layer = torch.nn.utils.skip_init(nn.Linear, n_in, n_out)
        bound = n_in**-0.5
        for parameter in (layer.weight, layer.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def dense_maps(network: nn.Sequential, scaling: Scaling) -> tuple[Map, ...]:
    """The layers of an ``mlp`` as maps that take unscaled rows."""
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    weights = [w.weight.detach().cpu().numpy().astype(np.float64).T for w in linear]
    biases = [w.bias.detach().cpu().numpy().astype(np.float64) for w in linear]
    biases[0] = biases[0] - (scaling.mean / scaling.scale) @ weights[0]
    weights[0] = weights[0] / scaling.scale
    last = len(linear) - 1
    return tuple(
        Dense(np.ascontiguousarray(W), b, relu=i < last)
        for i, (W, b) in enumerate(zip(weights, biases, strict=True))
    )
