"""The objective of one batch, worked on by several processes: same value, same gradient.

One process leads: it runs the solver, and sends each point V that the solver tries. The others
serve: they wait for a point, do their share of the work, and wait again. There is only one search,
so the processes cannot disagree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.density import discrepancy, discrepancy_and_grad
from unspot.projections.low_order import LowOrder
from unspot.projections.objective import BLOCK_ROWS, project, pull_back
from unspot.scale.processes import Team

__all__ = ["SharedObjective", "searched_together"]

T = TypeVar("T")
STOP, VALUE, GRADIENT, DETACHED = range(4)  # what the leader may ask for


class SharedObjective:
    """An objective whose rows and tiles are split over a team; called on the leader.

    Every process projects its rows (O(ndr/m) for m processes), gathers the projected rows of all
    (n×r), sums its share of the tile pairs (O(n²r/m)), and adds its gradient to that of the
    others. σ and the class counts are those of all rows. Products are cut and added up as in
    ``Objective``, so the result is that of one process but for the last bit of a double.

    Parameters
    ----------
    objective : Objective or LazyObjective
    team : Team
    number : int
        Its place among the objectives that are served.
    rows : Tensor of integers, optional
        The rows of a mini-batch; by default all.
    """

    def __init__(self, objective: Any, team: Team, number: int, rows: Tensor | None = None) -> None:
        self._objective, self._team, self._number, self._rows = objective, team, number, rows
        self.z = objective.z if rows is None else objective.z[rows]
        self.kernel = objective.kernel

    def __getattr__(self, name: str) -> Any:
        # What only the leader looks at: rows, the dtype of a matrix, the term that keeps variance.
        return getattr(self._objective, name)

    def value(self, V: Tensor) -> float:
        """As ``Objective.value``."""
        value, _ = self._lead(VALUE, V)
        return value - self._objective.kept(V)[0]

    def __call__(self, V: Tensor, *, detach_bandwidth: bool = False) -> tuple[float, Tensor]:
        """As ``Objective.__call__``."""
        value, grad = self._lead(DETACHED if detach_bandwidth else GRADIENT, V)
        assert grad is not None
        kept, grad_kept = self._objective.kept(V)
        return value - kept, grad if grad_kept is None else grad - grad_kept

    def subset(self, rows: NDArray[np.int64]) -> SharedObjective:
        """The objective of a mini-batch."""
        return SharedObjective(self._objective, self._team, self._number, torch.from_numpy(rows))

    def _lead(self, what: int, V: Tensor) -> tuple[float, Tensor | None]:
        n_rows = -1 if self._rows is None else len(self._rows)
        self._team.broadcast(torch.tensor([what, self._number, n_rows, *V.shape]))
        if self._rows is not None:
            self._team.broadcast(self._rows)
        return self.work(what, self._team.broadcast(V.detach().contiguous()))

    def serve(self, what: int, n_rows: int, shape: tuple[int, int]) -> None:
        """Do this process's share of what the leader asked for."""
        rows = None if n_rows < 0 else self._team.broadcast(torch.empty(n_rows, dtype=torch.int64))
        V = self._team.broadcast(self._objective.new_empty(shape))
        type(self)(self._objective, self._team, self._number, rows).work(what, V)

    def work(self, what: int, V: Tensor) -> tuple[float, Tensor | None]:
        """Value and gradient, on all processes at once."""
        team, n = self._team, len(self.z)
        X = self._own_rows()
        Y, back = self._objective.shown(team.gather_rows(project(X, V), n, BLOCK_ROWS))
        share = (team.rank, team.size)
        if what == VALUE:
            value = discrepancy(Y, self.z, self.kernel, share=share)
            return float(team.sum(value)), None
        value, grad_Y = discrepancy_and_grad(
            Y, self.z, self.kernel, detach_bandwidth=what == DETACHED, share=share
        )
        grad_Y = back(team.sum(grad_Y)).to(Y.dtype)
        grad = pull_back(X, grad_Y[team.slice(n, BLOCK_ROWS)])
        total = team.sum(torch.cat([grad.view(-1), value.view(1)]))  # one message for both
        return float(total[-1]), total[:-1].view_as(grad).to(V.dtype)

    def _own_rows(self) -> Tensor:
        mine = self._team.slice(len(self.z), BLOCK_ROWS)
        if self._rows is None:
            return self._objective.X[mine]
        return self._objective.subset(self._rows[mine].numpy()).X


class SharedLowOrder(SharedObjective):
    """Low orders of MMD²: every process sums over its share of the rows."""

    def __init__(self, objective: Any, team: Team, number: int, rows: Tensor | None = None) -> None:
        self._objective, self._team, self._number, self._rows = objective, team, number, rows

    def work(self, what: int, V: Tensor) -> tuple[float, Tensor | None]:
        """Value and gradient, on all processes at once."""
        share = (self._team.rank, self._team.size)
        value, grad = self._objective(V, share=share, add=self._team.sum)
        return value, grad


def _shared(objective: Any, team: Team, number: int) -> SharedObjective:
    kind = SharedLowOrder if isinstance(objective, LowOrder) else SharedObjective
    return kind(objective, team, number)


def searched_together(
    team: Team, objectives: Mapping[str, Any], search: Callable[[dict[str, Any]], T]
) -> T:
    """The result of a search on the leader, while the other processes serve its objectives."""
    split = {name: _shared(each, team, i) for i, (name, each) in enumerate(objectives.items())}
    result: T | None = None
    if team.leads:
        # An error ends this process, and with it the job: the others cannot be told within a sum.
        result = search(split)
        team.broadcast(torch.tensor([STOP, 0, 0, 0, 0]))
    else:
        served = list(split.values())
        while (order := team.broadcast(torch.zeros(5, dtype=torch.int64)).tolist())[0] != STOP:
            what, number, n_rows, *shape = order
            served[number].serve(what, n_rows, tuple(shape))
    return cast(T, team.agree(result))
