"""What happened during a fit, step by step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["History"]


@dataclass
class History:
    """Loss, held-out loss, evaluations and seconds, one entry a step."""

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
        """The columns as arrays, for ``history_``."""
        return {
            name: np.asarray(getattr(self, name), dtype=float)
            for name in ("loss", "held_out", "evaluations", "seconds")
        }
