"""Two solvers: L-BFGS on the Grassmann manifold, and the paper's Algorithm 1.

``ManifoldSolver`` minimises the loss without a penalty. Since the loss depends only on the span of
V, V is kept orthonormal by a polar retraction, the gradient is projected to the tangent space,
(I − VVᵀ)G, and curvature is learned from past steps. There is neither γ nor a learning rate to
choose, and V is orthonormal at every step.

``PaperSolver`` is Algorithm 1 as printed: Adam on U, with the penalty γ‖UᵀU − I‖² (Eq. 7).
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.checks import check_choice, check_count
from unspot.io.progress import phase
from unspot.leopard.objective import MiniBatches

#: Steps without a gain after which the rate of the search is judged.
LEAST_STEPS = 3

ValueAndGradient = Callable[[Tensor], tuple[float, Tensor]]


@dataclass
class History:
    """Loss, held-out loss, evaluations and seconds, with one entry per step."""

    loss: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    kept: int = -1  # the step whose subspace is the result

    def add(self, loss: float, held_out: float, evaluations: int) -> None:
        self.loss.append(loss)
        self.held_out.append(held_out)
        self.evaluations.append(evaluations)
        self.seconds.append(time.perf_counter() - self.started)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the columns as arrays, for ``history_``."""
        return {
            name: np.asarray(getattr(self, name), dtype=float)
            for name in ("loss", "held_out", "evaluations", "seconds")
        }


@dataclass(frozen=True)
class ManifoldSolver:
    """Settings of the Grassmann L-BFGS.

    Parameters
    ----------
    max_evaluations : int
        The largest number of evaluations of loss and gradient.
    memory : int
        The number of past steps from which curvature is learned.
    patience : int
        Stop after this number of steps without a better held-out loss.
    tolerance : float
        A loss is better if it is lower than the best so far by this share of it.
    on_interrupt : {"raise", "keep"}
        Effect of Ctrl-C: end the fit with ``KeyboardInterrupt``, or with the best subspace so far.
    init : {"auto", "pca", "moments", "identity"} or array of shape (d, s)
        Where the search begins. ``"auto"``: the directions of most variance; in the whitened
        metric the moments, which do not depend on units. An array may have more than r columns,
        such as the basis U of a fit of higher rank: the search then begins in its r directions of
        least discrepancy.
    max_rows : int
        The most rows to fit on, without the held-out rows. A cap saves time and leaks: with 10,000
        of 40,000 words the strongest attacker on unseen rows has 9.0 points above guessing instead
        of 6.9, in 0.6 of the time (``benchmarks/unseen.py``).
    """

    max_evaluations: int = 150
    memory: int = 12
    patience: int = 10
    tolerance: float = 1e-2
    on_interrupt: Literal["raise", "keep"] = "raise"
    init: Any = field(default="auto", repr=False, compare=False)  # may be a large array
    max_rows: int = 1_000_000

    def __post_init__(self) -> None:
        check_choice("on_interrupt", self.on_interrupt, ("raise", "keep"))
        check_count("max_rows", self.max_rows, least=8)

    def first_start(self, metric: str) -> Any:
        """Return the start that ``subspaces.start`` takes, for a metric."""
        if not (isinstance(self.init, str) and self.init == "auto"):
            return self.init
        # A search that begins in the directions of most variance keeps more of them.
        return "moments" if metric == "whitened" else "pca"

    def minimise(
        self,
        objective: ValueAndGradient,
        V: Tensor,
        *,
        held_out: Callable[[Tensor], float] | None = None,
        noise: Noise | None = None,
        rng: np.random.Generator | None = None,
        verbose: bool = False,
    ) -> tuple[Tensor, History]:
        """Return the subspace with the lowest held-out loss of all steps, and the history.

        Without held-out rows, the training loss decides. With ``noise`` it decides too: a step is
        kept if it is lower than that of the kept one by more than noise, and held-out rows do not
        object, with a loss above their lowest by more than noise.
        """
        search = _Search(objective, V, self.memory)
        history, progress = History(), _Progress(self, noise)
        best_V = V
        try:
            with phase("Matching", self.max_evaluations, unit="steps", verbose=verbose) as here:
                while True:
                    score = search.loss if held_out is None else held_out(search.V)
                    history.add(search.loss, score, search.evaluations)
                    here.advance(search.evaluations - here.done)
                    here.note = f"{'' if held_out is None else 'held-out '}loss {score:.4g}"
                    if progress.keeps(search.loss, score):
                        best_V, history.kept = search.V, len(history.loss) - 1
                    out_of_budget = search.evaluations >= self.max_evaluations
                    if progress.is_over or out_of_budget or not search.step():
                        break
        except KeyboardInterrupt:
            if self.on_interrupt == "raise" or history.kept < 0:
                raise
        return best_V, history


class Noise(NamedTuple):
    """Differences of the losses that say nothing."""

    loss: float
    held_out: float


class _Progress:
    """Best step so far, and the number of steps without improvement."""

    def __init__(self, solver: ManifoldSolver, noise: Noise | None) -> None:
        self._tolerance, self._patience, self._noise = solver.tolerance, solver.patience, noise
        self._best = self._to_beat = self._loss = math.inf
        self._steps_without_gain = 0

    def keeps(self, loss: float, score: float) -> bool:
        """Tell whether this step is the best so far."""
        if self._noise is None:
            margin = self._tolerance * abs(self._to_beat) if math.isfinite(self._to_beat) else 0.0
            keep, advances, reached = score < self._best, score < self._to_beat - margin, score
        else:
            allowed = score <= self._best + self._noise.held_out
            keep = advances = allowed and loss < self._to_beat - self._noise.loss
            reached = loss
        self._best = min(self._best, score)
        self._steps_without_gain = 0 if advances else self._steps_without_gain + 1
        self._loss = loss
        if advances:
            self._to_beat = reached
        return keep

    @property
    def is_over(self) -> bool:
        """Tell whether patience is at its end, or no gain is in sight.

        Steps gain less and less. If the rate of the steps since the last gain is too small for
        another one within the patience, waiting is in vain.
        """
        steps = self._steps_without_gain
        if self._noise is None or steps < LEAST_STEPS:
            return steps >= self._patience
        rate = (self._to_beat - self._loss) / steps
        return steps >= self._patience or rate * self._patience < self._noise.loss


class _Search:
    """One descent: the point V, its loss and gradient, and the memory of past steps."""

    def __init__(self, objective: ValueAndGradient, V: Tensor, memory: int) -> None:
        self._objective = objective
        self._pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
        self.evaluations = 0
        self.V = V
        self.loss, self._g = self._evaluate(V)

    def step(self) -> bool:
        """Move downhill once. False if no step lowers the loss."""
        norm = float(self._g.norm())
        if norm <= 1e-12 or not math.isfinite(norm):
            return False
        direction = self._direction()
        slope = float((direction * self._g).sum())
        if slope >= 0:  # the learned curvature is wrong: forget it
            self._pairs.clear()
            direction, slope = -self._g, -(norm**2)
        moved = self._line_search(direction, slope)
        if moved is None and self._pairs:
            self._pairs.clear()
            moved = self._line_search(-self._g, -(norm**2))
        if moved is None:
            return False
        self._accept(*moved)
        return True

    def _evaluate(self, V: Tensor) -> tuple[float, Tensor]:
        self.evaluations += 1
        loss, G = self._objective(V)
        return loss, _tangent(V, G)

    def _direction(self) -> Tensor:
        """Compute −(inverse curvature) × gradient by the two-loop recursion of L-BFGS."""
        q = self._g.clone()
        alphas = []
        for s, y, rho in reversed(self._pairs):
            alpha = rho * float((s * q).sum())
            q.sub_(y, alpha=alpha)
            alphas.append(alpha)
        if self._pairs:
            _, y, rho = self._pairs[-1]
            q.mul_(1.0 / (rho * float((y * y).sum())))
        for (s, y, rho), alpha in zip(self._pairs, reversed(alphas), strict=True):
            q.add_(s, alpha=alpha - rho * float((y * q).sum()))
        return -_tangent(self.V, q)

    def _line_search(self, p: Tensor, slope: float) -> tuple[Tensor, float, Tensor, Tensor] | None:
        """Backtrack with interpolation until the loss falls enough (Armijo's rule)."""
        # Without curvature the length of a step is unknown: begin with about one radian.
        t = 1.0 if self._pairs else 1.0 / float(p.norm())
        for _ in range(12):
            V = _retract(self.V + t * p)
            loss, g = self._evaluate(V)
            if loss <= self.loss + 1e-4 * t * slope:
                return V, loss, g, t * p
            curve = loss - self.loss - t * slope
            t *= min(0.5, max(0.1, -0.5 * t * slope / curve)) if curve > 0 else 0.5
        return None

    def _accept(self, V: Tensor, loss: float, g: Tensor, step: Tensor) -> None:
        # Steps and gradients of different points lie in different tangent spaces: project the
        # remembered ones to the new one.
        carried = [(_tangent(V, s), _tangent(V, y)) for s, y, _ in self._pairs]
        self._pairs.clear()
        for s, y in carried:
            sy = float((s * y).sum())
            if sy > 0:
                self._pairs.append((s, y, 1.0 / sy))
        s, y = _tangent(V, step), g - _tangent(V, self._g)
        sy = float((s * y).sum())
        if sy > 1e-10 * float(s.norm()) * float(y.norm()):
            self._pairs.append((s, y, 1.0 / sy))
        self.V, self.loss, self._g = V, loss, g


def _tangent(V: Tensor, G: Tensor) -> Tensor:
    """Compute (I − VVᵀ)G, the part of G that changes the span of V."""
    return G - V @ (V.T @ G)


def _retract(A: Tensor) -> Tensor:
    """Compute the orthonormal basis of A's span nearest to A, its polar factor A(AᵀA)^(−½).

    Unlike QR it commutes with a change of basis. So the remembered steps stay in the same
    coordinates, and the search does not depend on the basis of its start.
    """
    values, vectors = torch.linalg.eigh(A.T @ A)
    return A @ (vectors * values.rsqrt()) @ vectors.T


@dataclass(frozen=True)
class PaperSolver:
    """Settings of Algorithm 1; the defaults are the paper's for GloVe.

    Parameters
    ----------
    learning_rate : float
        The learning rate of Adam, multiplied by 0.1 after half of the epochs.
    epochs : int
        The number of passes over the rows, N_e.
    batch_size : int, optional
        The number of rows of a stratified mini-batch; by default all rows.
    gamma : float
        The mixing coefficient is γ = gamma/r².
    init : {"identity", "pca", "moments"} or array of shape (d, s)
        Where the search begins; the truncated identity in the paper.
    """

    learning_rate: float = 1e-3
    epochs: int = 1000
    batch_size: int | None = None
    gamma: float = 200.0
    init: Any = field(default="identity", repr=False, compare=False)

    def first_start(self, metric: str) -> Any:
        """Return the start that ``subspaces.start`` takes."""
        return self.init

    @classmethod
    def preset(cls, name: str) -> PaperSolver:
        """Return the paper's settings for ``"glove"``, ``"bios"`` or ``"dial"``."""
        return PRESETS[check_choice("preset", name, PRESETS)]

    def minimise(
        self,
        objective: Any,
        U: Tensor,
        *,
        rng: np.random.Generator,
        held_out: Callable[[Tensor], float] | None = None,
        noise: Noise | None = None,
        verbose: bool = False,
    ) -> tuple[Tensor, History]:
        """Return U after the last epoch, not yet orthonormal, and the history, one entry per epoch.

        The objective is an ``Objective`` of all rows, or ``MiniBatches``.
        """
        U = U.clone().requires_grad_()
        adam = torch.optim.Adam([U], lr=self.learning_rate, weight_decay=0.0)
        decay = torch.optim.lr_scheduler.MultiStepLR(adam, [max(1, self.epochs // 2)], 0.1)
        history = History()
        n_steps = 0
        with phase("Matching", self.epochs, unit="epochs", verbose=verbose) as here:
            for _ in range(self.epochs):
                losses = []
                for batch in self._epoch(objective, rng):
                    losses.append(self._step(batch, U, adam))
                    n_steps += 1
                decay.step()
                history.add(float(np.mean(losses)), float("nan"), n_steps)
                here.note = f"loss {history.loss[-1]:.4g}"
                here.advance()
        return U.detach(), history

    def _step(self, batch: Any, U: Tensor, adam: torch.optim.Optimizer) -> float:
        r = U.shape[1]
        gram = U.T @ U
        penalty = self.gamma / r**2 * ((gram - torch.eye(r).to(U)) ** 2).sum()
        # The paper takes distances between UUᵀx, in d dimensions. With UᵀU = LLᵀ they equal those
        # between (UL)ᵀx in r dimensions, which cost less by a factor of d/r.
        F = U @ torch.linalg.cholesky(gram)
        with torch.no_grad():
            loss, grad_F = batch(F, detach_bandwidth=True)
        adam.zero_grad()
        torch.autograd.backward([penalty, F], [None, grad_F])
        adam.step()
        return float(loss) + float(penalty.detach())

    def is_full_batch(self, n_rows: int) -> bool:
        """Tell whether every step uses all of n rows."""
        return self.batch_size is None or self.batch_size >= n_rows

    def _epoch(self, objective: Any, rng: np.random.Generator) -> Iterator[Any]:
        if isinstance(objective, MiniBatches):
            assert self.batch_size is not None
            return objective.epoch(self.batch_size, rng)
        return iter([objective])


def as_solver(solver: Any) -> ManifoldSolver | PaperSolver:
    """Return a solver by its name, or check that it is one."""
    named = {"manifold": ManifoldSolver(), "paper": PaperSolver()}
    chosen = named.get(solver) if isinstance(solver, str) else solver
    if not isinstance(chosen, (ManifoldSolver, PaperSolver)):
        raise ValueError(
            f"Got solver={solver!r}, but expected 'manifold', 'paper', a ManifoldSolver or a "
            "PaperSolver."
        )
    return chosen


#: The paper's settings (appendix C).
PRESETS = {
    "glove": PaperSolver(1e-3, 1000, None, 200.0),
    "bios": PaperSolver(5e-4, 100, 8192, 100.0),
    "dial": PaperSolver(5e-4, 200, 2048, 100.0),
}
