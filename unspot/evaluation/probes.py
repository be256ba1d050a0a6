"""Probes as in the paper: a small scikit-learn perceptron, over several seeds.

A probe says what an ordinary classifier makes of the embeddings. It is not an adversary: weak
probes flatter erasure, and ``unspot.evaluation.attackers`` has the strong ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from unspot.data.labels import Labels, encode, encode_as
from unspot.data.rows import refuse_nonfinite
from unspot.data.sampling import generator
from unspot.machine import one_thread

__all__ = [
    "PRESETS",
    "Networks",
    "Probe",
    "ProbeScores",
    "Recipe",
    "probe_accuracy",
    "probe_predictions",
    "train",
]


@dataclass(frozen=True)
class Probe:
    """Settings of scikit-learn's ``MLPClassifier``: one hidden layer, ReLU, Adam."""

    learning_rate: float = 1e-3
    batch_size: int = 200
    max_iter: int = 20
    hidden: int = 100
    alpha: float = 1e-4


#: ``paper`` is what the paper's text says; ``reference`` is what made its published tables.
PRESETS: dict[str, Probe] = {
    "paper": Probe(learning_rate=1e-4, batch_size=512, max_iter=20),
    "reference": Probe(),
}


@dataclass(frozen=True)
class ProbeScores:
    """Accuracies of one probe over seeds."""

    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds."""
        return float(np.std(self.scores))

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.spread:.1f} %"


def probe_accuracy(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    preset: str | Probe = "paper",
    seeds: int = 5,
    random_state: Any = 0,
    engine: str = "torch",
) -> ProbeScores:
    """Accuracy of the paper's probe, over several seeds.

    Parameters
    ----------
    X_train, X_test : array-like of shape (n, d)
        Embeddings; a probe sees them as they are, not standardised.
    z_train, z_test : array-like of shape (n,)
        Labels of any type: the concept's, or a task's.
    preset : "paper", "reference" or Probe
        Learning rate 1e-4, batches of 512 and 20 iterations as in the paper's text; or 1e-3, 200
        and 20, scikit-learn's defaults, as behind the paper's tables.
    seeds : int
        How many networks.
    random_state : int, Generator or None
        Decides the seeds.
    engine : "torch" or "sklearn"
        ``torch`` trains all seeds in one batched pass by scikit-learn's rules; ``sklearn`` fits
        ``MLPClassifier`` once a seed.

    Notes
    -----
    O(seeds·n·d·100) time an iteration, O(nd) memory.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> X_test, z_test = rows.sample(500, random_state=1)
    >>> scores = probe_accuracy(rows.X, rows.z, X_test, z_test, preset="reference", seeds=3)
    >>> len(scores.scores), scores.mean > 0.8
    (3, True)
    """
    codes = encode_as(z_test, encode(z_train, name="z_train").classes, name="z_test")
    predicted = probe_predictions(
        X_train,
        z_train,
        X_test,
        preset=preset,
        seeds=seeds,
        random_state=random_state,
        engine=engine,
    )
    if predicted.shape[1] != len(codes):
        raise ValueError(
            f"Got {len(codes)} labels in z_test for {predicted.shape[1]} rows of X_test, but "
            "expected one label for each row."
        )
    return ProbeScores(tuple(float(share) for share in (predicted == codes).mean(axis=1)))


def probe_predictions(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    *,
    preset: str | Probe = "paper",
    seeds: int = 5,
    random_state: Any = 0,
    engine: str = "torch",
) -> NDArray[np.int64]:
    """Predicted codes (seeds, n_test) of the probe: positions among the sorted training classes.

    Parameters are those of ``probe_accuracy``.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=500, d=5)
    >>> probe_predictions(rows.X, rows.z, rows.X[:3], seeds=2).shape
    (2, 3)
    """
    probe = _preset(preset)
    if engine not in _ENGINES:
        raise ValueError(f"Got engine={engine!r}, but expected 'torch' or 'sklearn'.")
    if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or seeds < 1:
        raise ValueError(f"Got seeds={seeds!r}, but expected a whole number of at least one.")
    rows, test_rows = _rows(X_train, "X_train"), _rows(X_test, "X_test")
    if rows.shape[1] != test_rows.shape[1]:
        raise ValueError(
            f"Got {test_rows.shape[1]} features in X_test and {rows.shape[1]} in X_train, but "
            "expected the same number."
        )
    labels = encode(z_train, n_rows=len(rows), name="z_train")
    numbers = generator(random_state).integers(2**31, size=int(seeds))
    return _ENGINES[engine](rows, labels, test_rows, probe, [int(s) for s in numbers])


def _torch_engine(
    X: NDArray[Any], labels: Labels, X_test: NDArray[Any], probe: Probe, seeds: list[int]
) -> NDArray[np.int64]:

    recipe = Recipe(
        hidden=(probe.hidden,),
        learning_rate=probe.learning_rate,
        batch_size=probe.batch_size,
        epochs=probe.max_iter,
        l2=probe.alpha,
    )
    rows, test_rows = X.astype(np.float32), X_test.astype(np.float32)
    networks = train(rows, labels.codes, len(labels.classes), recipe, seeds)
    return networks.log_probabilities(test_rows).argmax(dim=2).numpy()


def _sklearn_engine(
    X: NDArray[Any], labels: Labels, X_test: NDArray[Any], probe: Probe, seeds: list[int]
) -> NDArray[np.int64]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    predictions = []
    for seed in seeds:
        model = MLPClassifier(
            (probe.hidden,),
            alpha=probe.alpha,
            batch_size=min(probe.batch_size, len(X)),
            learning_rate_init=probe.learning_rate,
            max_iter=probe.max_iter,
            random_state=seed,
        )
        with warnings.catch_warnings():  # twenty iterations are the recipe, not an accident
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, labels.codes)
        predictions.append(model.predict(X_test))
    return np.stack(predictions).astype(np.int64)


_Engine = Callable[[NDArray[Any], Labels, NDArray[Any], Probe, list[int]], NDArray[np.int64]]
_ENGINES: dict[str, _Engine] = {"torch": _torch_engine, "sklearn": _sklearn_engine}


def _preset(preset: str | Probe) -> Probe:
    if isinstance(preset, Probe):
        return preset
    if preset not in PRESETS:
        near = get_close_matches(str(preset), PRESETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"Got preset={preset!r}, but expected {' or '.join(map(repr, PRESETS))}, or a "
            f"Probe(…).{hint}"
        )
    return PRESETS[preset]


def _rows(X: Any, name: str) -> NDArray[Any]:
    from sklearn.utils.validation import check_array

    refuse_nonfinite(X)
    rows: NDArray[Any] = check_array(X, dtype=[np.float64, np.float32], input_name=name)
    return rows


# -- Several multilayer perceptrons of one shape, trained in one batched pass ----------------------


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
        """Inputs of every layer, and the logits last: each (S, n, width)."""
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
    def log_probabilities(self, X: NDArray[np.float32]) -> Tensor:
        """(S, n, K)."""
        return torch.cat([self._chunk(rows) for rows in torch.as_tensor(X).split(_CHUNK)], dim=1)

    def _chunk(self, rows: Tensor) -> Tensor:
        shared = rows.expand(len(self.weights[0]), *rows.shape)
        return _log_probabilities(self.activations(shared)[-1])


@torch.no_grad()
@one_thread()
def train(
    X: NDArray[np.float32],
    codes: NDArray[np.int64],
    n_classes: int,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    validation: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None,
) -> Networks:
    """Train one network for each seed, all of them in one pass.

    Parameters
    ----------
    X, codes : arrays of shape (n, d) and (n,)
        Training rows in single precision and their classes 0…K−1.
    n_classes : int
        K, of which some may have no row.
    recipe : Recipe
        Shape and schedule; the batch size is cut to n.
    seeds : sequence of int
        One for each network: its start and the order of its batches.
    validation : pair of arrays, optional
        Rows on which to stop early; every network then keeps its best epoch.

    Notes
    -----
    O(S·n·Σ widths products) time an epoch, O(S·batch·width) memory beside the data.
    """
    rows, targets = torch.as_tensor(X), torch.as_tensor(codes)
    outputs = 1 if n_classes == 2 else n_classes
    networks = Networks((rows.shape[1], *recipe.hidden, outputs), len(seeds))
    generators = networks.initialise(seeds)
    adam, stop = _Adam(networks, recipe.learning_rate), _Stop(networks, recipe)
    for _ in range(recipe.epochs):
        order = torch.stack([torch.randperm(len(rows), generator=g) for g in generators])
        loss = _epoch(networks, adam, rows, targets, order, recipe)
        if validation is not None:
            loss = _loss(networks.log_probabilities(validation[0]), validation[1])
        adam.active = stop.update(loss, keep_best=validation is not None)
        if not adam.active.any():
            break
    stop.restore()
    return networks


def _epoch(
    networks: Networks, adam: _Adam, X: Tensor, codes: Tensor, order: Tensor, recipe: Recipe
) -> Tensor:
    """One pass over the rows, each network in its own order; the mean training losses (S,)."""
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
    """Mean log-loss (S,), and the gradient of the summed one at the logits (S, b, outputs)."""
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


def _loss(log_p: Tensor, codes: NDArray[np.int64]) -> Tensor:
    picked = torch.as_tensor(codes).expand(len(log_p), -1)[:, :, None]
    return -log_p.gather(2, picked).mean(dim=(1, 2))


class _Adam:
    """Adam as scikit-learn's: the bias corrections are in the step, ε beside the raw root."""

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
    """Counts, for every network, the epochs without progress."""

    def __init__(self, networks: Networks, recipe: Recipe) -> None:
        S = len(networks.weights[0])
        self.networks, self.recipe = networks, recipe
        self.lowest = torch.full((S,), float("inf"), dtype=torch.float32)
        self.waited = torch.zeros(S, dtype=torch.int64)
        self.best: Tensor | None = None

    def update(self, loss: Tensor, *, keep_best: bool) -> Tensor:
        """Whether each network goes on."""
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
