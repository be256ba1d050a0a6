"""What all erasers that train a network share: inputs, layers, schedule, the frozen result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspot.checks import check_count, check_positive, check_share
from unspot.data.rows import Scaling
from unspot.data.sampling import sample_and_held_out, stratified_batches
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.machine import one_thread
from unspot.maps import Dense, LayerNorm, Map

__all__ = [
    "DivergenceError",
    "History",
    "NetworkEraser",
    "Problem",
    "Schedule",
    "dense",
    "dense_maps",
    "freeze_normalised",
    "mlp",
    "square_mlp",
    "train",
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


# -- The one training loop: mini-batches, Adam, a held-out part that says when to stop -------------


Rows = NDArray[np.int64]
State = dict[str, Any]


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
        kept = (
            "The best state so far is kept in eraser_." if state else "There is no state to keep."
        )
        super().__init__(
            f"Got a loss that is not finite at step {step} with learning_rate={learning_rate:g}, "
            f"but training needs a finite one. {kept} Try a smaller learning rate, such as "
            f"{learning_rate / 10:g}."
        )
        self.step = step
        self.learning_rate = learning_rate
        self.state = state
        self.eraser: Eraser | None = None


@dataclass(frozen=True)
class Schedule:
    """How long to train, and in which steps.

    Parameters
    ----------
    n_epochs : int
        The most epochs.
    learning_rate, weight_decay : float
        Adam's.
    decay_at : float
        The share of the epochs after which the learning rate falls tenfold.
    patience : int
        Epochs without improvement after which the rate falls, and then training ends.
    tolerance : float
        The smallest improvement that counts, relative to the range of the losses so far.
    game : bool
        Whether two players are trained against each other. A game has no loss that falls towards
        its end: all epochs are run, and the last state is kept instead of the best.
    """

    n_epochs: int = 500
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    decay_at: float = 0.8
    patience: int = 100
    tolerance: float = 1e-4
    game: bool = False

    def on_its_own_rows(self) -> Schedule:
        """For training that no held-out rows judge: its loss is smooth, and hides overfitting.

        So it is enough to wait a twentieth as long, for an improvement that is large.
        """
        return replace(self, patience=max(1, self.patience // 20), tolerance=2e-2)


@dataclass
class History:
    """Held-out loss after every epoch, and which epoch was best."""

    losses: list[float] = field(default_factory=list)
    best_epoch: int = 0


def train(
    module: nn.Module,
    loss: Callable[[Rows], Tensor],
    batches: Callable[[], Iterable[Rows]],
    monitor: Callable[[], float],
    schedule: Schedule,
    *,
    steady: nn.Module | None = None,
    verbose: bool = False,
    name: str = "training",
) -> History:
    """Minimise ``loss`` over mini-batches; leave the module in its best state.

    Parameters
    ----------
    module : torch.nn.Module
        What is trained.
    loss : callable
        The loss of a mini-batch, given the numbers of its rows.
    batches : callable
        The mini-batches of one epoch, new ones at each call.
    monitor : callable
        The loss on the held-out part, after each epoch.
    schedule : Schedule
    steady : torch.nn.Module, optional
        A part of the module whose learning rate does not fall.
    verbose : bool
        Show progress.
    name : str
        What the progress bar is called.

    Raises
    ------
    DivergenceError
        At a loss that is not finite.
    """
    from tqdm import tqdm

    optimiser = _adam(module, steady, schedule)
    progress = _Progress(schedule, optimiser)
    with tqdm(range(schedule.n_epochs), desc=name, disable=not verbose, leave=False) as bar:
        for _ in bar:
            for rows in batches():
                progress.step += 1
                value = loss(rows)
                progress.refuse_nonfinite(float(value.detach()))
                optimiser.zero_grad(set_to_none=True)
                value.backward()
                optimiser.step()
            with torch.no_grad():
                value_held_out = monitor()
            if progress.is_over(value_held_out, module):
                break
            bar.set_postfix(loss=f"{value_held_out:.4g}", refresh=False)
    if progress.best is not None:
        module.load_state_dict(progress.best)
    return progress.history


def _adam(module: nn.Module, steady: nn.Module | None, schedule: Schedule) -> torch.optim.Adam:
    held = list(steady.parameters()) if steady is not None else []
    ids = {id(p) for p in held}
    falling = [p for p in module.parameters() if id(p) not in ids]
    return torch.optim.Adam(
        [{"params": falling, "falls": True}, *([{"params": held, "falls": False}] if held else [])],
        lr=schedule.learning_rate,
        weight_decay=schedule.weight_decay,
        fused=falling[0].device.type in ("cpu", "cuda"),
    )


class _Progress:
    """Where training stands: the best state, and how long ago it was."""

    def __init__(self, schedule: Schedule, optimiser: torch.optim.Optimizer) -> None:
        self.schedule = schedule
        self.optimiser = optimiser
        self.history = History()
        self.best: State | None = None
        self.step = 0
        self._lowest = np.inf  # the loss to beat; moves only by improvements that count
        self._waited = 0
        self._decayed = False

    @property
    def learning_rate(self) -> float:
        return float(self.optimiser.param_groups[0]["lr"])

    def refuse_nonfinite(self, value: float) -> None:
        if not np.isfinite(value):
            raise DivergenceError(self.step, self.learning_rate, self.best)

    def is_over(self, value: float, module: nn.Module) -> bool:
        """Take note of an epoch's held-out loss; whether it was the last."""
        self.refuse_nonfinite(value)
        losses = self.history.losses
        if self.schedule.game or not losses or value < min(losses):
            self.best = {k: v.clone() for k, v in module.state_dict().items()}
            self.history.best_epoch = len(losses)
        losses.append(value)
        self._waited = 0 if self._counts(value) else self._waited + 1
        exhausted = self._waited >= self.schedule.patience and not self.schedule.game
        if self._decayed:
            return exhausted
        if exhausted or len(losses) >= self.schedule.decay_at * self.schedule.n_epochs:
            self._decay(module)
        return False

    def _counts(self, value: float) -> bool:
        # A threshold relative to what has been gained so far, so that it has no unit.
        gained = max(self.history.losses) - min(self.history.losses)
        if value < self._lowest - self.schedule.tolerance * gained:
            self._lowest = value
            return True
        return False

    def _decay(self, module: nn.Module) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] *= 0.1 if group["falls"] else 1.0
        self._decayed, self._waited = True, 0
        if self.best is not None:  # go on from the best state rather than from the last
            module.load_state_dict(self.best)
