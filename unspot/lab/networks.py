"""Training of network erasers: layers, the training loop, the frozen result.

A subclass of ``NetworkEraser`` says what to train, by a ``TrainingTask``; ``_train`` runs it. The
loop takes mini-batches with Adam, and a held-out part of the rows decides when to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspot.checks import check_count, check_positive, check_share, did_you_mean
from unspot.data.rows import generator, sample_and_held_out, stratified_batches
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.io.progress import phase
from unspot.lab.maps import LayerNorm
from unspot.lab.scaling import Scaling
from unspot.maps import Dense, Map

__all__ = [
    "DivergenceError",
    "NetworkEraser",
    "RowNumbers",
    "Training",
    "TrainingTask",
    "dense",
    "dense_maps",
    "mlp",
    "train_network",
    "uninitialised",
    "unscaled",
]

RowNumbers = NDArray[np.int64]
State = dict[str, Any]


@dataclass(frozen=True)
class Training:
    """Settings of training that all network erasers share.

    Parameters
    ----------
    epochs : int
        The most epochs. The learning rate falls tenfold after a share ``decay_at`` of them, or
        earlier when the validation loss stops improving; when it stops again, training ends.
    batch_size : int
    learning_rate, weight_decay : float
        Parameters of Adam.
    validation_fraction : float
        The stratified share of rows that are held out to say when to stop; 0 for none.
    patience : int
        The number of epochs without improvement to wait for.
    decay_at : float
    tolerance : float
        The smallest improvement that counts, relative to the range of the losses so far.
    game : bool
        Whether two players are trained against each other. A game has no loss that falls towards
        its end: all epochs are run, and the last state is kept instead of the best.
    device : str or torch.device, optional
        Where to train; the CPU if None.
    verbose : bool
        Show progress.
    """

    epochs: int = 500
    batch_size: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    validation_fraction: float = 0.1
    patience: int = 100
    decay_at: float = 0.8
    tolerance: float = 1e-4
    game: bool = False
    device: Any = None
    verbose: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_share("validation_fraction", self.validation_fraction)

    def without_validation(self) -> Training:
        """Adapt to a loss of training rows, which is smooth and hides overfitting.

        The patience is a twentieth, and only larger gains count.
        """
        return replace(self, patience=max(1, self.patience // 20), tolerance=2e-2)


@dataclass(frozen=True)
class TrainingTask:
    """A module to train, and its loss.

    Parameters
    ----------
    module : torch.nn.Module
    loss : callable
        The loss of a mini-batch, given the numbers of its rows.
    score : callable, optional
        What decides when to stop; by default the loss.
    steady : torch.nn.Module, optional
        The part of the module whose learning rate does not fall.
    """

    module: nn.Module
    loss: Callable[[RowNumbers], Tensor]
    score: Callable[[RowNumbers], Tensor] | None = None
    steady: nn.Module | None = None


class NetworkEraser(BaseEraser):
    """Base of the erasers that train a network: ``_fit_eraser`` of a subclass calls ``_train``.

    A subclass has the parameters ``training``, settings that differ from its
    ``default_training``, and ``random_state``.
    """

    default_training: ClassVar[Training] = Training()
    training: Mapping[str, Any] | None
    random_state: Any

    @property
    def _training(self) -> Training:
        settings = dict(self.training or {})
        names = [f.name for f in fields(Training)]
        for name in settings:
            if name not in names:
                raise ValueError(
                    f"Got {name!r} in training, but expected some of {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        return replace(self.default_training, **settings)

    def _train_on_sphere(
        self,
        X: NDArray[Any],
        n_layers: Any,
        loss: Callable[[Tensor, Tensor, RowNumbers], Tensor],
        codes: NDArray[np.int64],
        training: Training | None = None,
    ) -> Eraser:
        """Train a network of layers as wide as the rows, whose output is normalised row by row.

        ``loss`` takes the normalised outputs of a mini-batch, its rows as the network sees them,
        and the numbers of these rows.
        """
        d = X.shape[1]
        rng = generator(self.random_state)
        network = mlp([d] * (check_count("n_layers", n_layers) + 1), rng)
        scaling, normalise = Scaling.of(X), LayerNorm(d)
        rows = self._tensor(scaling(X))
        task = TrainingTask(
            network, lambda batch: loss(normalise(network(rows[batch])), rows[batch], batch)
        )
        return self._train(
            task, codes, rng, lambda: (*dense_maps(network, scaling), normalise), training
        )

    def _train(
        self,
        task: TrainingTask,
        codes: NDArray[np.int64],
        rng: np.random.Generator,
        freeze: Callable[[], tuple[Map, ...]],
        training: Training | None = None,
    ) -> Eraser:
        """Train, and freeze the best state.

        ``codes`` decide how mini-batches and the validation rows are stratified.
        """
        training = training or self._training
        size, share = training.batch_size, training.validation_fraction
        task.module.to(self._device)
        score = task.score or task.loss
        rows, held_out = sample_and_held_out(codes, len(codes), rng, held_out_share=share)
        if not len(held_out):
            held_out, training = rows, training.without_validation()
        checks = [held_out[part] for part in stratified_batches(codes[held_out], size, rng)]
        try:
            self.history_ = train_network(
                task,
                lambda: [rows[part] for part in stratified_batches(codes[rows], size, rng)],
                lambda: float(np.mean([float(score(part)) for part in checks])),
                training,
            )
        except DivergenceError as error:
            if error.state is not None:
                task.module.load_state_dict(error.state)
                error.eraser = self.eraser_ = Eraser(freeze(), {"diverged": True})
            raise
        self.n_iter_ = len(self.history_)
        return Eraser(freeze(), {"epochs": self.n_iter_})

    @property
    def _device(self) -> torch.device:
        return torch.device(self._training.device or "cpu")

    def _tensor(self, rows: NDArray[Any]) -> Tensor:
        """Rows in single precision, on the device of the training."""
        return torch.from_numpy(np.ascontiguousarray(rows, dtype=np.float32)).to(self._device)


# -- The training loop -----------------------------------------------------------------------------


class DivergenceError(ValueError):
    """Training met a loss that is not finite.

    Attributes
    ----------
    step : int
        The step at which it happened, from 1.
    learning_rate : float
        The learning rate of that step.
    state : dict or None
        The network's best state before, or None if there was none yet.
    eraser : Eraser or None
        The eraser of that state; the estimator keeps the same as its ``eraser_``.
    """

    def __init__(self, step: int, learning_rate: float, state: State | None) -> None:
        state_note = "The best state is kept in eraser_." if state else "There is no state to keep."
        super().__init__(
            f"Got a loss that is not finite at step {step} with learning_rate={learning_rate:g}, "
            f"but training needs a finite one. {state_note} Try a smaller learning rate, such as "
            f"{learning_rate / 10:g}."
        )
        self.step = step
        self.learning_rate = learning_rate
        self.state = state
        self.eraser: Eraser | None = None


def train_network(
    task: TrainingTask,
    batches: Callable[[], Iterable[RowNumbers]],
    monitor: Callable[[], float],
    training: Training,
) -> list[float]:
    """Minimise the loss over mini-batches; leave the module in its best state.

    Parameters
    ----------
    task : TrainingTask
    batches : callable
        The mini-batches of one epoch, new ones at each call.
    monitor : callable
        The loss on the held-out part, after each epoch.
    training : Training

    Returns
    -------
    losses : list of float
        The held-out loss after every epoch.

    Raises
    ------
    DivergenceError
        At a loss that is not finite.
    """
    optimiser = _adam(task.module, task.steady, training)
    progress = _Progress(task.module, training, optimiser)
    with phase("Training", training.epochs, unit="epochs", verbose=training.verbose) as here:
        for _ in range(training.epochs):
            for rows in batches():
                progress.step += 1
                loss = task.loss(rows)
                progress.refuse_nonfinite(float(loss.detach()))
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
            with torch.no_grad():
                held_out_loss = monitor()
            if progress.is_over(held_out_loss):
                break
            here.note = f"held-out loss {held_out_loss:.4g}"
            here.advance()
    progress.restore_best()
    return progress.losses


def _adam(module: nn.Module, steady: nn.Module | None, training: Training) -> torch.optim.Adam:
    fixed = list(steady.parameters()) if steady is not None else []
    ids = {id(p) for p in fixed}
    falling = [p for p in module.parameters() if id(p) not in ids]
    groups = [{"params": falling, "falls": True}]
    if fixed:
        groups.append({"params": fixed, "falls": False})
    return torch.optim.Adam(
        groups,
        lr=training.learning_rate,
        weight_decay=training.weight_decay,
        fused=falling[0].device.type in ("cpu", "cuda"),
    )


class _Progress:
    """Progress of a training: the best state, and how long ago it was."""

    def __init__(
        self, module: nn.Module, training: Training, optimiser: torch.optim.Optimizer
    ) -> None:
        self.module = module
        self.training = training
        self.optimiser = optimiser
        self.losses: list[float] = []
        self.step = 0
        self._best: State | None = None
        self._lowest = np.inf  # the loss to beat; moves only by improvements that count
        self._waited = 0
        self._decayed = False

    def refuse_nonfinite(self, loss: float) -> None:
        if not np.isfinite(loss):
            learning_rate = float(self.optimiser.param_groups[0]["lr"])
            raise DivergenceError(self.step, learning_rate, self._best)

    def is_over(self, loss: float) -> bool:
        """Take note of an epoch's held-out loss; whether it was the last epoch."""
        self.refuse_nonfinite(loss)
        if self.training.game or not self.losses or loss < min(self.losses):
            self._best = {k: v.clone() for k, v in self.module.state_dict().items()}
        self.losses.append(loss)
        self._waited = 0 if self._counts(loss) else self._waited + 1
        exhausted = self._waited >= self.training.patience and not self.training.game
        if self._decayed:
            return exhausted
        if exhausted or len(self.losses) >= self.training.decay_at * self.training.epochs:
            self._decay()
        return False

    def restore_best(self) -> None:
        if self._best is not None:
            self.module.load_state_dict(self._best)

    def _counts(self, loss: float) -> bool:
        # A threshold relative to the gain so far has no unit.
        gained = max(self.losses) - min(self.losses)
        if loss < self._lowest - self.training.tolerance * gained:
            self._lowest = loss
            return True
        return False

    def _decay(self) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] *= 0.1 if group["falls"] else 1.0
        self._decayed, self._waited = True, 0
        self.restore_best()  # go on from the best state rather than from the last


# -- Layers, and the maps that they become ---------------------------------------------------------


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
    """A linear layer in single precision, as ``_tensor``, whatever torch's default is."""
    return torch.nn.utils.skip_init(nn.Linear, n_in, n_out, dtype=torch.float32)


def dense(layer: nn.Module, *, relu: bool = False) -> Dense:
    """A linear layer as a map, in float64."""
    weight, bias = (p.detach().cpu().numpy().astype(np.float64) for p in layer.parameters())
    return Dense(np.ascontiguousarray(weight.T), bias, relu=relu)


def dense_maps(network: nn.Sequential, scaling: Scaling) -> tuple[Dense, ...]:
    """Turn the layers of an ``mlp`` into maps that take unscaled rows."""
    layers = [layer for layer in network if isinstance(layer, nn.Linear)]
    first, *rest = [dense(layer, relu=layer is not layers[-1]) for layer in layers]
    weight = first.weight / scaling.scale
    return (Dense(weight, first.bias - scaling.mean @ weight, first.relu), *rest)


def unscaled(last: Dense, scaling: Scaling) -> Dense:
    """A last layer whose outputs are in the origin and unit of the embeddings."""
    return Dense(last.weight * scaling.scale, last.bias * scaling.scale + scaling.mean)
