"""The one training loop: mini-batches, Adam, a held-out part that says when to stop.

The learning rate falls tenfold once, at a fixed share of the epochs or when the held-out loss no
longer improves, whichever comes first; when it stops improving again, training ends. The best
state on the held-out part is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspot.eraser import Eraser

__all__ = ["DivergenceError", "History", "Schedule", "train"]

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
