"""What all erasers that train a network share: inputs, layers, schedule, the frozen result."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.parameters import check_count, check_positive, check_share
from unspot.erasers.scaling import Scaling
from unspot.erasers.training import DivergenceError, Rows, Schedule, train
from unspot.maps import Dense, LayerNorm, Map
from unspot.projections.paper import stratified_batches
from unspot.sampling import sample_and_held_out
from unspot.threads import one_thread

__all__ = [
    "NetworkEraser",
    "Problem",
    "dense",
    "dense_maps",
    "freeze_normalised",
    "mlp",
    "square_mlp",
    "uninitialised",
    "unscaled",
]


#: Weights of a layer up to which a step is work in small pieces, that one thread does best.
_SMALL_LAYER = 256 * 256


@dataclass(frozen=True)
class Problem:
    """What is trained, and by which loss of some rows.

    ``score`` is what to stop by, if it is not the loss; ``steady`` is the part of the module whose
    learning rate does not fall.
    """

    module: nn.Module
    loss: Callable[[Rows], Tensor]
    score: Callable[[Rows], Tensor] | None = None
    steady: nn.Module | None = None


class NetworkEraser(BaseEraser):
    """Base of the erasers that train a network: a subclass calls ``_train``.

    It has the parameters ``n_epochs``, ``batch_size``, ``learning_rate``, ``weight_decay``,
    ``validation_fraction``, ``patience``, ``random_state``, ``device`` and ``verbose``.
    """

    n_epochs: int
    batch_size: int | None
    learning_rate: float
    weight_decay: float
    validation_fraction: float
    patience: int
    random_state: Any
    device: Any
    verbose: bool

    def _train(
        self,
        problem: Problem,
        codes: NDArray[np.int64],
        rng: np.random.Generator,
        freeze: Callable[[], tuple[Map, ...]],
        *,
        batch_size: int | None = None,
    ) -> Eraser:
        """Train, and freeze the best state.

        ``codes`` decide how mini-batches and the held-out part are stratified; ``batch_size``
        stands for a parameter that was left to the method.
        """
        schedule = self._schedule()
        size = check_count("batch_size", self.batch_size if batch_size is None else batch_size)
        module = problem.module.to(self._device)
        score = problem.score or problem.loss
        kept, held = self._split(codes, rng)
        if held is kept:
            schedule = schedule.on_its_own_rows()
        fixed = [held[r] for r in stratified_batches(codes[held], size, rng)]
        try:
            with _threads(module):
                history = train(
                    module,
                    problem.loss,
                    lambda: [kept[r] for r in stratified_batches(codes[kept], size, rng)],
                    lambda: float(np.mean([float(score(r)) for r in fixed])),
                    schedule,
                    steady=problem.steady,
                    verbose=self.verbose,
                    name=type(self).__name__,
                )
        except DivergenceError as error:
            if error.state is not None:
                module.load_state_dict(error.state)
                error.eraser = self.eraser_ = Eraser(freeze(), {"diverged": True})
            raise
        self.history_ = history.losses
        self.n_iter_ = len(history.losses)
        return Eraser(freeze(), {"epochs": self.n_iter_})

    @property
    def _device(self) -> torch.device:
        return torch.device(self.device or "cpu")

    def _tensor(self, rows: NDArray[Any]) -> Tensor:
        """Rows in single precision, where the training is."""
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)).to(self._device)

    def _split(self, codes: NDArray[np.int64], rng: np.random.Generator) -> tuple[Rows, Rows]:
        """Rows to train on and rows to stop by; where those are too few, all rows do both."""
        share = check_share("validation_fraction", self.validation_fraction)
        kept, held = sample_and_held_out(codes, len(codes), rng, held_out_share=share)
        return (kept, held) if len(held) else (kept, kept)

    def _schedule(self) -> Schedule:
        return Schedule(
            n_epochs=check_count("n_epochs", self.n_epochs),
            learning_rate=check_positive("learning_rate", self.learning_rate),
            weight_decay=self.weight_decay,
            patience=check_count("patience", self.patience),
        )


def _threads(module: nn.Module) -> AbstractContextManager[None]:
    """How many threads to train on: for small layers one, else as many as there are."""
    largest = max(p.numel() for p in module.parameters())
    return one_thread() if largest <= _SMALL_LAYER else nullcontext()


def mlp(widths: list[int], rng: np.random.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, initialised without the global generator."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layer = uninitialised(n_in, n_out)
        bound = n_in**-0.5
        for parameter in (layer.weight, layer.bias):
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def uninitialised(n_in: int, n_out: int) -> nn.Linear:
    """A linear layer in single precision, whatever torch's default is: that of ``_tensor``."""
    layer: nn.Linear = torch.nn.utils.skip_init(nn.Linear, n_in, n_out, dtype=torch.float32)
    return layer


def square_mlp(d: int, n_layers: Any, rng: np.random.Generator) -> nn.Sequential:
    """An ``mlp`` whose layers are all as wide as the embeddings."""
    return mlp([d] * (check_count("n_layers", n_layers) + 1), rng)


def dense(layer: nn.Module, *, relu: bool = False) -> Dense:
    """A linear layer as a map, in float64."""
    weight, bias = (p.detach().cpu().numpy().astype(np.float64) for p in layer.parameters())
    return Dense(np.ascontiguousarray(weight.T), bias, relu=relu)


def dense_maps(network: nn.Sequential, scaling: Scaling) -> tuple[Dense, ...]:
    """The layers of an ``mlp`` as maps that take unscaled rows."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    first, *rest = [dense(layer, relu=layer is not layers[-1]) for layer in layers]
    weight = first.weight / scaling.scale
    return (Dense(weight, first.bias - scaling.mean @ weight, first.relu), *rest)


def unscaled(last: Dense, scaling: Scaling) -> Dense:
    """A last layer whose outputs go back to the embeddings' own origin and unit."""
    return Dense(last.weight * scaling.scale, last.bias * scaling.scale + scaling.mean)


def freeze_normalised(network: nn.Sequential, scaling: Scaling) -> tuple[Map, ...]:
    """An ``mlp`` and the normalisation of its output that the rate losses see."""
    layers = dense_maps(network, scaling)
    return (*layers, LayerNorm(layers[-1].n_out))
