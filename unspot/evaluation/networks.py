"""Several multilayer perceptrons of one shape, trained in one batched pass as scikit-learn does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from unspot.machine import one_thread

_CHUNK = 8192  # rows predicted at once


@dataclass(frozen=True)
class Recipe:
    """The shape of a network and how it is trained.

    Training ends after ``epochs``, or when the loss has not fallen by ``tolerance`` for more than
    ``patience`` epochs: the training loss, as scikit-learn's, or with validation rows theirs, and
    then the best epoch is kept.
    """

    hidden: tuple[int, ...] = (100,)
    learning_rate: float = 1e-3
    batch_size: int = 200
    epochs: int = 20
    l2: float = 1e-4
    tolerance: float = 1e-4
    patience: int = 10


class Networks:
    """S networks of one shape; parameters of a layer lie side by side, (S, inputs, outputs)."""

    #: Whether the outputs are numbers, and not logits of classes.
    of_numbers = False

    def __init__(self, widths: Sequence[int], n_networks: int) -> None:
        shapes = [
            shape
            for fan_in, fan_out in pairwise(widths)
            for shape in ((n_networks, fan_in, fan_out), (n_networks, 1, fan_out))
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        # One flat vector, so that an optimiser step is a handful of operations.
        self.flat = torch.zeros(sum(sizes), dtype=torch.float32)
        self.gradient = torch.zeros_like(self.flat)
        self.owner = torch.cat(
            [torch.arange(n_networks).repeat_interleave(s[1] * s[2]) for s in shapes]
        )
        self.parameters = _views(self.flat, shapes, sizes)
        self.gradients = _views(self.gradient, shapes, sizes)

    @property
    def weights(self) -> list[Tensor]:
        return self.parameters[0::2]

    @property
    def biases(self) -> list[Tensor]:
        return self.parameters[1::2]

    def initialise(self, seeds: Sequence[int]) -> list[torch.Generator]:
        """Draw every network from a generator of its own, which then decides its batches."""
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        for W, b in zip(self.weights, self.biases, strict=True):
            bound = (6 / (W.shape[1] + W.shape[2])) ** 0.5
            for i, g in enumerate(generators):
                for parameter in (W, b):
                    parameter[i] = _uniform(parameter[i].shape, bound, g)
        return generators

    def activations(self, X: Tensor) -> list[Tensor]:
        """Compute the inputs of every layer, and the logits last: each (S, n, width)."""
        layers = [X]
        for i, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            out = torch.baddbmm(b, layers[-1], W)
            layers.append(out.relu_() if i + 1 < len(self.weights) else out)
        return layers

    def backpropagate(self, layers: list[Tensor], delta: Tensor, l2: float) -> None:
        """Fill ``gradient``, from the loss's gradient ``delta`` (S, b, outputs) at the logits."""
        for i in reversed(range(len(self.weights))):
            torch.bmm(layers[i].mT, delta, out=self.gradients[2 * i])
            torch.sum(delta, dim=1, keepdim=True, out=self.gradients[2 * i + 1])
            self.gradients[2 * i].add_(self.weights[i], alpha=l2 / delta.shape[1])
            if i:
                delta = torch.bmm(delta, self.weights[i].mT)
                # The derivative of ReLU in one pass: zero where the output is not positive.
                delta = torch.ops.aten.threshold_backward(delta, layers[i], 0)

    def squared_weights(self) -> Tensor:
        return sum((W**2).sum(dim=(1, 2)) for W in self.weights)  # type: ignore[return-value]

    @torch.no_grad()
    @one_thread()
    def outputs(self, X: NDArray[np.float32]) -> Tensor:
        """Compute logits, or predicted numbers: (S, n, outputs)."""
        S, chunks = len(self.weights[0]), torch.as_tensor(X).split(_CHUNK)
        shared = (rows.expand(S, *rows.shape) for rows in chunks)
        return torch.cat([self.activations(rows)[-1] for rows in shared], dim=1)

    def log_probabilities(self, X: NDArray[np.float32]) -> Tensor:
        """Compute logarithms of class probabilities (S, n, K)."""
        return _log_probabilities(self.outputs(X))

    def predict(self, X: NDArray[np.float32]) -> Tensor:
        """Predict probabilities (S, n, K), or numbers (S, n, m)."""
        return self.outputs(X) if self.of_numbers else self.log_probabilities(X).exp()


@torch.no_grad()
@one_thread()
def train_networks(
    X: NDArray[np.float32],
    codes: NDArray[Any],
    n_classes: int,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    validation: tuple[NDArray[np.float32], NDArray[Any]] | None = None,
) -> Networks:
    """Train one network for each seed, all of them in one pass.

    Parameters
    ----------
    X, codes : arrays of shape (n, d) and (n,)
        Training rows in single precision and their classes 0…K−1; or numbers (n, m) in single
        precision, which are learned by least squares.
    n_classes : int
        K, of which some may have no row. Numbers have none.
    recipe : Recipe
        Shape and schedule; the batch size is cut to n.
    seeds : sequence of int
        One for each network: its start and the order of its batches.
    validation : pair of arrays, optional
        Rows on which to stop early; every network then keeps its best epoch.

    Notes
    -----
    O(S·n·Σ widths products) time per epoch, O(S·batch·width) memory besides the data.
    """
    rows, targets = torch.as_tensor(X), torch.as_tensor(codes)
    outputs = 1 if n_classes == 2 else n_classes
    if targets.is_floating_point():
        outputs = targets.shape[1]
    networks = Networks((rows.shape[1], *recipe.hidden, outputs), len(seeds))
    networks.of_numbers = targets.is_floating_point()
    generators = networks.initialise(seeds)
    adam, stop = _Adam(networks, recipe.learning_rate), _Stop(networks, recipe)
    for _ in range(recipe.epochs):
        order = torch.stack([torch.randperm(len(rows), generator=g) for g in generators])
        loss = _epoch(networks, adam, rows, targets, order, recipe)
        if validation is not None:
            X_held_out, held_out = validation
            repeated = torch.as_tensor(held_out).expand(len(seeds), *held_out.shape)
            loss, _ = _loss_and_delta(networks.outputs(X_held_out), repeated)
        adam.active = stop.update(loss, keep_best=validation is not None)
        if not adam.active.any():
            break
    stop.restore()
    return networks


def _epoch(
    networks: Networks, adam: _Adam, X: Tensor, codes: Tensor, order: Tensor, recipe: Recipe
) -> Tensor:
    """Run one epoch, each network in its own row order; return mean training losses (S,)."""
    total = torch.zeros(len(order), dtype=torch.float32)
    for batch in order.split(min(recipe.batch_size, len(X)), dim=1):  # (S, b)
        S, b = batch.shape
        layers = networks.activations(X.index_select(0, batch.reshape(-1)).view(S, b, -1))
        loss, delta = _loss_and_delta(layers[-1], codes[batch])
        total += b * loss
        networks.backpropagate(layers, delta.div_(b), recipe.l2)
        adam.step()
    # scikit-learn adds the penalty of every batch; over an epoch that hardly moves, so once here.
    n_batches = -(-len(X) // min(recipe.batch_size, len(X)))
    return (total + n_batches * recipe.l2 / 2 * networks.squared_weights()) / len(X)


def _loss_and_delta(logits: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the mean log-loss (S,), and the gradient of its sum at the logits (S, b, outputs).

    For continuous targets, the loss is half the squared error.
    """
    if codes.is_floating_point():
        delta = logits - codes
        return (delta**2).sum(dim=2).mean(dim=1) / 2, delta
    log_p = _log_probabilities(logits)
    chosen = log_p.gather(2, codes[:, :, None])
    delta = log_p[:, :, 1:].exp() if logits.shape[2] == 1 else log_p.exp()
    if logits.shape[2] == 1:
        delta -= codes[:, :, None]
    else:
        delta.scatter_add_(2, codes[:, :, None], torch.full_like(chosen, -1.0))
    return -chosen.mean(dim=(1, 2)), delta


def _log_probabilities(logits: Tensor) -> Tensor:
    if logits.shape[2] == 1:
        return torch.cat([functional.logsigmoid(-logits), functional.logsigmoid(logits)], dim=2)
    return torch.log_softmax(logits, dim=2)


class _Adam:
    """Adam as in scikit-learn: bias corrections in the step size, ε added to the raw root."""

    def __init__(self, networks: Networks, learning_rate: float) -> None:
        self.networks, self.learning_rate, self.t = networks, learning_rate, 0
        self.first, self.second = (torch.zeros_like(networks.flat) for _ in range(2))
        self.active = torch.ones(len(networks.weights[0]), dtype=torch.bool)

    def step(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self.t += 1
        gradient = self.networks.gradient
        self.first.lerp_(gradient, 1 - beta1)
        self.second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        rate = self.learning_rate * (1 - beta2**self.t) ** 0.5 / (1 - beta1**self.t)
        update = self.first / self.second.sqrt().add_(epsilon)
        if not self.active.all():  # a network that has stopped stands still
            update *= self.active[self.networks.owner]
        self.networks.flat.sub_(update, alpha=rate)


class _Stop:
    """Early stopping: counts each network's epochs without progress."""

    def __init__(self, networks: Networks, recipe: Recipe) -> None:
        S = len(networks.weights[0])
        self.networks, self.recipe = networks, recipe
        self.lowest = torch.full((S,), float("inf"), dtype=torch.float32)
        self.waited = torch.zeros(S, dtype=torch.int64)
        self.best: Tensor | None = None

    def update(self, loss: Tensor, *, keep_best: bool) -> Tensor:
        """Tell which networks go on training."""
        stuck = loss > self.lowest - self.recipe.tolerance
        self.waited = torch.where(stuck, self.waited + 1, 0)
        if keep_best:
            better = (loss < self.lowest)[self.networks.owner]
            old = self.networks.flat if self.best is None else self.best
            self.best = torch.where(better, self.networks.flat, old)
        self.lowest = torch.minimum(self.lowest, loss)
        return self.waited <= self.recipe.patience

    def restore(self) -> None:
        if self.best is not None:
            self.networks.flat.copy_(self.best)


def _views(flat: Tensor, shapes: list[tuple[int, int, int]], sizes: list[int]) -> list[Tensor]:
    return [part.view(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True)]


def _uniform(shape: torch.Size, bound: float, generator: torch.Generator) -> Tensor:
    uniform = torch.rand(shape, generator=generator, dtype=torch.float32)
    return (2 * uniform - 1) * bound
