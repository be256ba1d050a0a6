"""A path of ranks: one eraser for each, every fit begun inside the one before.

The rank is the dial between erasure and utility. ``rank_path`` fits many ranks for about the cost
of one, and ``RankPath.select`` chooses among them by a rule, on validation rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from unspot.checks import check_rank
from unspot.data.dataset import Dataset, Lexicon, Split
from unspot.data.labels import encode, encode_as
from unspot.data.sampling import balanced_counts
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.ranks.fits import fits, seeded, stages

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PathPoint", "RankPath", "default_ranks", "rank_path"]

#: The most validation rows that MMD² is measured on: it costs their square.
MAX_HELD_OUT_ROWS = 4096


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One rank of a path.

    Parameters
    ----------
    rank : int
    estimator : estimator
        Fitted; ``rank_`` is its rank.
    held_out : float
        MMD² between the classes on validation rows, the same rows for every rank.
    loss : float or None
        The loss of the fit, where the method has one.
    metrics : mapping of str to (mean, spread over seeds)
        What was asked for, measured on validation rows.
    evaluations : int or None
        Evaluations of loss and gradient that the fit took.
    seconds : float
        Time of the fit.
    """

    rank: int
    estimator: Any
    held_out: float
    loss: float | None = None
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    evaluations: int | None = None
    seconds: float = 0.0

    @property
    def eraser(self) -> Eraser:
        """The frozen eraser of this rank."""
        result: Eraser = self.estimator.eraser_
        return result

    def row(self) -> dict[str, Any]:
        """Plain values: one row of the table."""
        numbers = {"rank": self.rank, "held_out": self.held_out, "loss": self.loss}
        for name, (mean, spread) in self.metrics.items():
            numbers |= {name: mean, f"{name}_spread": spread}
        return numbers | {"evaluations": self.evaluations, "seconds": self.seconds}


@dataclass(frozen=True, eq=False)
class RankPath:
    """Erasers of decreasing rank, what each leaves and costs, and rules to choose one.

    The path holds training and validation rows and never sees test rows: what it chooses can be
    certified on those.
    """

    points: tuple[PathPoint, ...]
    train: Split = field(repr=False)
    validation: Split = field(repr=False)
    method: str = ""
    random_state: int = 0
    lexicon: Lexicon | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    def __getitem__(self, rank: int) -> PathPoint:
        """The point of a rank (not of a position)."""
        for point in self.points:
            if point.rank == rank:
                return point
        raise KeyError(f"Got rank {rank}, but this path has {_listed(self.ranks)}.")

    @property
    def ranks(self) -> tuple[int, ...]:
        """From the highest to the lowest."""
        return tuple(point.rank for point in self.points)

    @property
    def seconds(self) -> float:
        """Time of all fits."""
        return sum(point.seconds for point in self.points)

    def select(self, rule: str = "largest", **options: Any) -> Any:
        """Choose a rank on validation rows, and return its fitted eraser.

        Parameters
        ----------
        rule : {"largest", "mdl", "knee", "utility"}
            ``"largest"``: the largest rank at which the strongest attacker has an advantage of at
            most ``max_advantage`` over guessing. ``"mdl"``: the largest rank at which the
            concept's labels cost at least ``threshold`` of what they cost without the embeddings.
            ``"knee"``: where the curve of erasure against utility bends most. ``"utility"``: the
            smallest rank that still has ``floor`` of utility.
        **options
            Of the rule: see ``unspot.ranks.selection``.

        Returns
        -------
        estimator
            Fitted, with ``rank_`` and with ``selection_``, the rule and what it saw.
        """
        from unspot.ranks.selection import select

        return select(self, rule, **options)

    def to_frame(self) -> pd.DataFrame:
        """One row a rank."""
        try:
            import pandas as pd
        except ImportError:
            raise ImportError('to_frame needs pandas: pip install "unspot[report]"') from None
        return pd.DataFrame([point.row() for point in self.points])

    def to_json(self) -> str:
        """The same numbers as JSON."""
        content = {
            "format": "unspot-path/1",
            "method": self.method,
            "random_state": self.random_state,
            "points": [point.row() for point in self.points],
        }
        return json.dumps(content, indent=1)

    def to_markdown(self) -> str:
        """The same numbers as a table, each metric with its spread."""
        # A metric that is undefined at one rank has its column all the same.
        names = list(dict.fromkeys(name for point in self.points for name in point.metrics))
        header = ["rank", "held-out MMD²", *names, "seconds"]
        lines = [header, ["---:"] * len(header)]
        for point in self.points:
            cells = [_cell(point.metrics.get(name)) for name in names]
            lines.append([str(point.rank), f"{point.held_out:.5f}", *cells, f"{point.seconds:.1f}"])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def rank_path(
    eraser: BaseEraser,
    data: Dataset,
    ranks: Sequence[int | float] | None = None,
    *,
    metrics: Sequence[str] = (),
    seeds: int = 3,
    verbose: bool = False,
) -> RankPath:
    """Fit an eraser at many ranks, each begun inside the subspace of the rank above.

    Parameters
    ----------
    eraser : estimator with a ``rank``
        ``LEOPARD`` and ``Cascade(LEOPARD())`` start warm: from the directions of the previous
        subspace that carry least discrepancy, refined by a few steps; the linear stage of a
        cascade is fitted once. Any other eraser is fitted anew at every rank.
    data : Dataset
        Fitted on ``train`` and measured on ``validation``; ``test`` is not touched.
    ranks : sequence of int or fractions, optional
        In decreasing (or increasing) order; by default nine tenths to one tenth of the features,
        and one twentieth.
    metrics : sequence of str
        Measured at every rank: names of metrics of ``evaluate``, such as "neighbours" or
        "probe".
    seeds : int
        How many times each metric is measured, for its spread.
    verbose : bool
        Show progress.

    Notes
    -----
    One full fit at the highest rank, then about a dozen evaluations, O(b²r) each, a rank.

    Examples
    --------
    >>> from unspot import LEOPARD
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(600) % 2
    >>> X = rng.normal(size=(600, 6))
    >>> X[z == 1, 0] *= 3
    >>> data = Dataset.from_arrays(X, z, random_state=0)
    >>> path = rank_path(LEOPARD(random_state=0), data, ranks=[5, 3, 1])
    >>> path.ranks, path[3].eraser.rank
    ((5, 3, 1), 3)
    """
    _check_seeds(seeds)  # now rather than after the fits
    ranked, stage = stages(eraser, data.train)
    estimator, seed = seeded(ranked)
    checked = check_ranks(ranks, stage.X.shape[1], stage.what)
    held_out = _HeldOut.of(data, estimator, seed)
    points = []
    started = time.perf_counter()
    fitted_ranks = fits(estimator, stage, checked)
    for fitted in tqdm(fitted_ranks, "ranks", len(checked), unit="rank", disable=not verbose):
        seconds = time.perf_counter() - started
        points.append(_point(fitted, held_out, seconds))
        started = time.perf_counter()
    method = type(eraser).__name__
    path = RankPath(tuple(points), data.train, data.validation, method, seed, data.lexicon)
    return with_metrics(path, metrics, seeds=seeds) if metrics else path


def with_metrics(path: RankPath, metrics: Sequence[str], *, seeds: int = 3) -> RankPath:
    """The same path with more metrics, measured on its validation rows."""
    from unspot.evaluation.run import on_validation, over_seeds

    _check_seeds(seeds)
    data = on_validation(path.train, path.validation, path.lexicon)
    points = []
    for point in path.points:
        found = over_seeds(point.eraser, data, metrics, seeds=seeds, random_state=path.random_state)
        points.append(replace(point, metrics={**point.metrics, **found}))
    return replace(path, points=tuple(points))


def check_ranks(
    ranks: Iterable[int | float] | None, n_features: int, what: str = "the number of features"
) -> tuple[int, ...]:
    """Ranks as integers in decreasing order; mixed order, repeats and outliers are errors."""
    if ranks is None:
        return default_ranks(n_features)
    given = list(ranks)
    if not given:
        raise ValueError("Got no ranks, but expected at least one, such as ranks=[75, 50, 25].")
    checked = [check_rank(rank, n_features, what) for rank in given]
    falling = sorted(checked, reverse=True)
    if checked not in (falling, falling[::-1]) or len(set(checked)) < len(checked):
        raise ValueError(
            f"Got ranks {_listed(given)}, but expected them in decreasing order without repeats: "
            f"{_listed(sorted(set(checked), reverse=True))}."
        )
    return tuple(falling)


def _check_seeds(seeds: Any) -> None:
    if isinstance(seeds, bool) or not isinstance(seeds, (int, np.integer)) or seeds < 1:
        raise ValueError(f"Got seeds={seeds!r}, but expected a whole number of at least one.")


def default_ranks(n_features: int) -> tuple[int, ...]:
    """Nine tenths to one tenth of the features, and one twentieth.

    Examples
    --------
    >>> default_ranks(100)
    (90, 80, 70, 60, 50, 40, 30, 20, 10, 5)
    """
    shares = [*(np.arange(9, 0, -1) / 10), 0.05]
    return tuple(sorted({max(1, round(share * n_features)) for share in shares}, reverse=True))


def _point(fitted: Any, held_out: _HeldOut, seconds: float) -> PathPoint:
    history = getattr(fitted, "history_", {})
    losses, counts = history.get("loss", ()), history.get("evaluations", ())
    return PathPoint(
        fitted.rank_,
        fitted,
        held_out(fitted.eraser_),
        loss=float(losses[-1]) if len(losses) else None,
        evaluations=int(counts[-1]) if len(counts) else None,
        seconds=seconds,
    )


@dataclass(frozen=True)
class _HeldOut:
    """MMD² on some validation rows: the same for every rank."""

    X: NDArray[Any]
    codes: NDArray[np.int64]
    kernel: Any

    @classmethod
    def of(cls, data: Dataset, estimator: Any, seed: int) -> _HeldOut:
        classes = encode(data.train.z, n_rows=len(data.train)).classes
        codes = encode_as(data.validation.z, classes)
        rng = np.random.default_rng(seed)
        taken = balanced_counts(np.bincount(codes), MAX_HELD_OUT_ROWS)
        rows = np.sort(
            np.concatenate(
                [rng.permutation(np.flatnonzero(codes == k))[:n] for k, n in enumerate(taken)]
            )
        )
        return cls(np.asarray(data.validation.X[rows]), codes[rows], _kernel(estimator))

    def __call__(self, eraser: Eraser) -> float:
        import torch

        from unspot.density import mmd2

        Y = np.array(eraser.reduce(self.X))
        return float(mmd2(torch.from_numpy(Y), self.codes, self.kernel))


def _kernel(estimator: Any) -> Any:
    """The estimator's own kernel, if it has one that MMD² can use; else the paper's."""
    from unspot.erasers.leopard import KERNELS, LEOPARD

    if not isinstance(estimator, LEOPARD):
        return None
    return KERNELS[estimator.kernel]() if estimator.kernel in KERNELS else estimator.kernel


def _cell(value: tuple[float, float] | None) -> str:
    if value is None:
        return "–"
    mean, spread = value
    return f"{mean:.3f} ± {spread:.3f}" if spread else f"{mean:.3f}"


def _listed(ranks: Iterable[Any]) -> str:
    return ", ".join(str(rank) for rank in ranks)
