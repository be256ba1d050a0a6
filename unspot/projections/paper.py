"""Algorithm 1 to the letter: Adam on U with the penalty γ‖UᵀU − I‖² (Eq. 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from unspot.projections.history import History

__all__ = ["PRESETS", "PaperSolver", "stratified_batches"]


@dataclass(frozen=True)
class PaperSolver:
    """Settings of Algorithm 1; the defaults are the paper's for GloVe.

    Parameters
    ----------
    learning_rate : float
        Adam's, multiplied by 0.1 after half of the epochs.
    epochs : int
        N_e.
    batch_size : int, optional
        Rows of a stratified mini-batch; by default all rows (full batch).
    gamma : float
        The mixing coefficient is γ = gamma/r².
    """

    learning_rate: float = 1e-3
    epochs: int = 1000
    batch_size: int | None = None
    gamma: float = 200.0

    @classmethod
    def preset(cls, name: str) -> PaperSolver:
        """The paper's settings for ``"glove"``, ``"bios"`` or ``"dial"``."""
        if name not in PRESETS:
            raise ValueError(
                f"Got preset {name!r}, but expected one of {', '.join(map(repr, PRESETS))}."
            )
        return PRESETS[name]

    def minimise(
        self, objective: Any, U: Tensor, *, rng: np.random.Generator, verbose: bool = False
    ) -> tuple[Tensor, History]:
        """U after the last epoch, not yet orthonormal, and the history of epochs.

        The objective is an ``Objective``, or what has its class codes ``z`` and ``subset(rows)``.
        """
        U = U.clone().requires_grad_()
        adam = torch.optim.Adam([U], lr=self.learning_rate, weight_decay=0.0)
        decay = torch.optim.lr_scheduler.MultiStepLR(adam, [max(1, self.epochs // 2)], 0.1)
        history = History()
        n_steps = 0
        bar = tqdm(range(self.epochs), desc="Algorithm 1", unit="epoch", disable=not verbose)
        for _ in bar:
            losses = []
            for batch in self._batches(objective, rng):
                losses.append(self._step(batch, U, adam))
                n_steps += 1
            decay.step()
            history.add(float(np.mean(losses)), float("nan"), n_steps)
            bar.set_postfix(loss=f"{history.loss[-1]:.5f}", refresh=False)
        return U.detach(), history

    def _step(self, batch: Any, U: Tensor, adam: torch.optim.Optimizer) -> float:
        r = U.shape[1]
        gram = U.T @ U
        penalty = self.gamma / r**2 * ((gram - torch.eye(r).to(U)) ** 2).sum()
        # The paper measures distances of UUᵀx, in d dimensions. With UᵀU = LLᵀ they are those
        # of (UL)ᵀx in r dimensions: exact, and cheaper by d/r.
        F = U @ torch.linalg.cholesky(gram)
        with torch.no_grad():
            loss, grad_F = batch(F, detach_bandwidth=True)
        adam.zero_grad()
        torch.autograd.backward([penalty, F], [None, grad_F])
        adam.step()
        return float(loss) + float(penalty.detach())

    def is_full_batch(self, n_rows: int) -> bool:
        """Whether every step takes all of n rows."""
        return self.batch_size is None or self.batch_size >= n_rows

    def _batches(self, objective: Any, rng: np.random.Generator) -> Iterator[Any]:
        if self.batch_size is None or self.is_full_batch(len(objective.z)):
            yield objective
            return
        for rows in stratified_batches(objective.z.cpu().numpy(), self.batch_size, rng):
            yield objective.subset(rows)


#: The paper's settings (appendix C).
PRESETS = {
    "glove": PaperSolver(1e-3, 1000, None, 200.0),
    "bios": PaperSolver(5e-4, 100, 8192, 100.0),
    "dial": PaperSolver(5e-4, 200, 2048, 100.0),
}


def stratified_batches(
    codes: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Row numbers of mini-batches that hold every class in its share; no row is left out.

    There are no more batches than the smallest class has pairs, so that each batch has at least
    two rows of every class.
    """
    counts = np.bincount(codes)
    n_batches = max(1, min(round(len(codes) / size), int(counts[counts > 0].min()) // 2))
    # Shuffle each class, deal its rows to the batches in turn.
    order = np.lexsort((rng.random(len(codes)), codes))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turn = np.arange(len(codes)) - starts[codes[order]]
    return [order[turn % n_batches == b] for b in range(n_batches)]
