"""Fitting by several processes that ``torchrun`` starts: exact, and the same bits on all of them.

The discrepancy of a global batch is not the mean of the processes' own. So every process projects
its share of the rows, the projected rows are gathered, each process sums its share of the tiles,
and gradients are added up. One process, the leader, runs the solver; the others serve it. So they
cannot disagree, however their hardware rounds.

    torchrun --nproc-per-node 4 -m unspot fit data.npy --labels z.npy --rank 125 -o out.safetensors
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from unspot.data.statistics import ClassStatistics, CrossStatistics

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Team", "context", "team"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds of thirty years: torch cannot count longer timeouts, or infinity.
_FOREVER = 1e9


@dataclass(frozen=True)
class Team:
    """The processes of one fit. Alone, every operation is the identity.

    Parameters
    ----------
    rank : int
        The number of this process; 0 leads.
    size : int
        How many processes there are.

    Examples
    --------
    >>> Team().leads, Team(1, 2).slice(5)
    (True, slice(2, 5, None))
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process runs the solver, writes and prints."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self.size == 1

    def slice(self, n: int, block: int = 1) -> slice:
        """This process's share of n rows, cut where blocks of rows end."""
        return _share(n, block, self.rank, self.size)

    def agree(self, value: T) -> T:
        """The leader's value, on every process."""
        if self.is_alone:
            return value
        box = [value if self.leads else None]
        with _collective() as dist:
            dist.broadcast_object_list(box, src=0)
        return box[0]  # type: ignore[return-value]

    def gather(self, values: T) -> list[T]:
        """The values of all processes, by rank."""
        if self.is_alone:
            return [values]
        boxes: list[Any] = [None] * self.size
        with _collective() as dist:
            dist.all_gather_object(boxes, values)
        return boxes

    def broadcast(self, tensor: Tensor) -> Tensor:
        """The leader's tensor, in place."""
        if not self.is_alone:
            with _collective() as dist:
                dist.broadcast(tensor, src=0)
        return tensor

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if not self.is_alone:
            with _collective() as dist:
                dist.all_reduce(tensor)
        return tensor

    def gather_rows(self, rows: Tensor, n: int, block: int = 1) -> Tensor:
        """All n rows, from the ``slice`` of them that each process has."""
        if self.is_alone:
            return rows
        import torch

        shares = [_share(n, block, i, self.size) for i in range(self.size)]
        lengths = [share.stop - share.start for share in shares]
        padded = rows.new_zeros(max(lengths), rows.shape[1])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in shares]
        with _collective() as dist:
            dist.all_gather(parts, padded)
        return torch.cat([part[:m] for part, m in zip(parts, lengths, strict=True)])


_ALONE = Team()
_TEAM: ContextVar[Team] = ContextVar("team", default=_ALONE)


def team() -> Team:
    """The processes to fit with: those of the surrounding ``context``, or only this one."""
    return _TEAM.get()


@contextmanager
def context(*, timeout: float = 600.0) -> Iterator[Team]:
    """Join the processes that ``torchrun`` started; without it, there is only this one.

    Inside, the fits of LEOPARD, LEACE and Cascade split their work. All processes must make the
    same calls, and all get the same eraser. Arrays and files are the same for all. Streams of
    batches are not: each process passes its own part, and all get LEACE of the whole.

    Parameters
    ----------
    timeout : float
        Seconds to wait for another process before the job fails.

    Notes
    -----
    Uses gloo on CPU, and nccl for tensors on CUDA. Only the process that ``leads`` should write.
    """
    if not 0 < timeout < _FOREVER:
        raise ValueError(f"Got timeout={timeout}, but expected seconds: a number above 0.")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    import torch

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _stopped_by_signal():
        with _collective() as dist:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timedelta(seconds=timeout)
            )
        joined = Team(dist.get_rank(), size)
        token = _TEAM.set(joined)
        try:
            yield joined
        finally:
            _TEAM.reset(token)
            dist.destroy_process_group()


def class_statistics(
    X: Any, codes: np.ndarray, n_classes: int, *, per_class: bool = True
) -> ClassStatistics:
    """``ClassStatistics.from_rows`` with the rows split over the team, merged by rank."""
    share = team().slice(X.shape[0])
    return _merged(
        ClassStatistics.from_rows(_part(X, share), codes[share], n_classes, per_class=per_class)
    )


def cross_statistics(X: Any, Z: np.ndarray) -> CrossStatistics:
    """``CrossStatistics.from_rows`` with the rows split over the team, merged by rank."""
    share = team().slice(X.shape[0])
    return _merged(CrossStatistics.from_rows(_part(X, share), Z[share]))


def _merged(statistics: Any) -> Any:
    """The statistics of all processes in one."""
    return reduce(lambda total, part: total.merge(part), team().gather(statistics))


def _part(X: Any, rows: slice) -> Any:
    return X[rows] if isinstance(X, np.ndarray) else X.part(rows.start, rows.stop)


def _share(n: int, block: int, i: int, m: int) -> slice:
    """The i-th of m shares of n rows, in whole blocks, as even as possible."""
    blocks = -(-n // block)
    return slice(min(blocks * i // m * block, n), min(blocks * (i + 1) // m * block, n))


@contextmanager
def _collective() -> Iterator[Any]:
    """torch.distributed, with errors of the network as one sentence: nobody knows who is lost."""
    import torch.distributed as dist

    try:
        yield dist
    except RuntimeError as error:
        logger.debug("torch.distributed: %s", error)
        raise ConnectionError(
            "Lost another process of this job: it ended, or did not answer within the timeout. "
            "Its own message, if it had one, is above. Nothing was written; start the job again."
        ) from error


@contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """SIGTERM as an error: torchrun sends it to the others when one process has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise ConnectionError(
            "Stopped by SIGTERM, which torchrun sends when another process of the job has ended. "
            "Nothing was written; start the job again."
        )

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
