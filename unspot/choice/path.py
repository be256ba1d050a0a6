"""A path of ranks: one eraser per rank, behind one first stage.

The rank decides between erasure and utility. ``rank_path`` fits ten ranks, and ``RankPath.select``
chooses one of them on validation rows. Each is fitted from scratch: a fit that starts inside the
subspace of the rank above keeps fewer neighbours at the same leak.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_count, check_rank, check_share, default_ranks, require
from unspot.choice.selection import select, way_to_decide
from unspot.data.dataset import Dataset, Split, stratified_parts
from unspot.data.goal import Goal
from unspot.data.rows import as_seed, balanced_counts, generator
from unspot.eraser import Eraser
from unspot.erasers.base import fit_concept
from unspot.erasers.cascade import Cascade, FirstStage
from unspot.erasers.leopard import LEOPARD
from unspot.evaluation.evaluations import after_refit, check_metrics, on_validation, over_seeds
from unspot.io.progress import steps
from unspot.leopard import mmd2
from unspot.leopard.kernels import as_kernel
from unspot.tables import Number, markdown, number_text

if TYPE_CHECKING:
    import pandas as pd

#: The largest number of validation rows for MMD², whose cost grows with their square.
MAX_HELD_OUT_ROWS = 4096
#: The share of the rows that ``rank="auto"`` sets aside to choose the rank.
ASIDE = 0.4
#: The number of rows that fit the path which it chooses from.
ROWS_OF_CHOICE = 10_000
#: Fewest rows of a class from which an attacker can be distinguished from chance.
MIN_ASIDE = 10


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One rank of a path.

    Parameters
    ----------
    rank : int
    estimator : estimator
        Fitted; ``rank_`` is its rank.
    held_out : float
        MMD² between the classes on validation rows, the same rows for every rank; of a number,
        between its tenths.
    loss : float or None
        The loss of the fit, if the method has one.
    metrics : mapping of str to (mean, spread over seeds)
        Metrics on validation rows.
    evaluations : int or None
        The number of evaluations of loss and gradient in the fit.
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
        """Return the frozen eraser of this rank."""
        return _frozen(self.estimator)

    def row(self) -> dict[str, Any]:
        """Write one row of the table, as plain values."""
        numbers = {"rank": self.rank, "held_out": self.held_out, "loss": self.loss}
        for name, (mean, spread) in self.metrics.items():
            numbers |= {name: mean, f"{name}_spread": spread}
        return numbers | {"evaluations": self.evaluations, "seconds": self.seconds}

    def measured(
        self, data: Dataset, metrics: Sequence[str], *, seeds: int, random_state: int
    ) -> PathPoint:
        """Measure metrics on the test rows of the data."""
        eraser = self.estimator and self.eraser  # none leaves the rows as they are
        scores = over_seeds(eraser, data, metrics, seeds=seeds, random_state=random_state)
        return replace(self, metrics=scores)


@dataclass(frozen=True, eq=False)
class RankPath:
    """Erasers of decreasing rank, their metrics, and the choice of one of them.

    Choices are made on the validation rows of ``data``. What was chosen is fitted again on train
    and validation rows, and certified on test rows: ``certify(chosen, path.unseen)``.

    Parameters
    ----------
    points : tuple of PathPoint
    data : Dataset
    method : str
    random_state : int
    eraser : estimator, optional
        Unfitted. Without it a choice is not fitted again.
    refine : bool
        Whether a rank between two of the path may be chosen. It may between the default ranks,
        and not between those that someone listed.
    original : PathPoint or None
        The rows without erasure, from ``with_original``.
    """

    points: tuple[PathPoint, ...]
    data: Dataset = field(repr=False)
    method: str = ""
    random_state: int = 0
    eraser: Any = field(default=None, repr=False)
    refine: bool = False
    original: PathPoint | None = None

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    def __getitem__(self, rank: int) -> PathPoint:
        """Return the point with this rank (not at this position)."""
        for point in self.points:
            if point.rank == rank:
                return point
        raise KeyError(f"Got rank {rank}, but this path has {_listed(self.ranks)}.")

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the ranks, from the highest to the lowest."""
        return tuple(point.rank for point in self.points)

    @property
    def seconds(self) -> float:
        """Sum the time of all fits."""
        return sum(point.seconds for point in self.points)

    @cached_property
    def judged(self) -> Dataset:
        """Return the data that choices are made on: its test rows are validation rows."""
        return on_validation(self.data, self.random_state)

    @cached_property
    def unseen(self) -> Dataset:
        """Return data whose test rows had no part in the choice, to certify it on.

        Its train rows are the train and validation rows of ``data``. Attackers learn from one half
        of the test rows and are judged on the other.
        """
        return after_refit(self.data, self.random_state)

    def at(self, rank: int) -> PathPoint:
        """Return the point of a rank; between two ranks it is fitted when first asked for."""
        if rank in self.ranks:
            return self[rank]
        if rank not in self._fitted:
            self._fitted[rank] = self._fit_between(rank)
        return self._fitted[rank]

    @cached_property
    def _fitted(self) -> dict[int, PathPoint]:
        """Cache the points that ``at`` has fitted."""
        return {}

    @cached_property
    def bounds_known(self) -> dict[Any, float]:
        """Cache the bounds that a choice has measured, for the next choice."""
        return {}

    def _fit_between(self, rank: int) -> PathPoint:
        ranked = _Ranked.of(self.eraser, self.data.train)
        started = time.perf_counter()
        fitted = next(ranked.fits([rank]))
        held_out = held_out_discrepancy(self.data, ranked.estimator, self.random_state)
        return _point(fitted, held_out, time.perf_counter() - started)

    def with_original(self, *, seeds: int = 1) -> RankPath:
        """Add the metrics of the original rows."""
        point = PathPoint(self.data.n_features, None, held_out=float("nan"))
        return replace(self, original=self._measured(point, seeds))

    def _measured(self, point: PathPoint, seeds: int) -> PathPoint:
        names = list(self.points[0].metrics)
        how = {"seeds": seeds, "random_state": self.random_state}
        return point.measured(self.judged, names, **how) if names else point

    def fit_again(self, rank: int) -> Any:
        """Fit a rank on train and validation rows, and so not on test rows."""
        return next(_Ranked.of(self.eraser, self.unseen.train).fits([rank]))

    def fold(self, rows: Split, fit: NDArray[np.int64]) -> RankPath:
        """Fit the path on these rows only, once."""
        key = fit.tobytes()
        if key not in self._folds:
            concept = rows.concept if rows.table is None else rows.table
            train = Split(rows.X[fit], concept.take(fit))
            self._folds[key] = rank_path(self.eraser, Dataset(train, train, train), self.ranks)
        return self._folds[key]

    @cached_property
    def _folds(self) -> dict[bytes, RankPath]:
        return {}

    select = select

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a data frame, one row per rank."""
        require("to_frame", "report", "pandas")
        import pandas as pd

        return pd.DataFrame([point.row() for point in self.points])

    def to_json(self) -> str:
        """Write the numbers as JSON."""
        content: dict[str, Any] = {
            "format": "unspot-path/1",
            "method": self.method,
            "random_state": self.random_state,
            "points": [point.row() for point in self.points],
            "metadata": self.facts(),
        }
        if self.original is not None:
            content["original"] = {**self.original.row(), "held_out": None}
        return json.dumps(content, indent=1)

    def facts(self) -> dict[str, Any]:
        """Return metadata with the names of an evaluation's."""
        classes = list(map(str, self.data.train.concept.describe()["classes"] or ()))
        rows = {"train": len(self.data.train), "validation": len(self.data.validation)}
        return {
            "data": self.data.name,
            "concept": self.data.concept,
            "classes": classes or None,
            "chance": 1 / len(classes) if classes else None,
            "n_rows": rows,
            "n_features": self.data.n_features,
        }

    def to_markdown(self) -> str:
        """Write the numbers as a Markdown table, each metric with its spread."""
        # A metric that is undefined at some ranks still has a column.
        names = list(dict.fromkeys(name for point in self.points for name in point.metrics))
        rows = [["rank", "held-out MMD²", *names, "seconds"]]
        for point in (*([] if self.original is None else [self.original]), *self.points):
            cells = [_cell(point.metrics.get(name)) for name in names]
            first = ["before", "–"] if point is self.original else None
            first = first or [str(point.rank), f"{point.held_out:.5f}"]
            rows.append([*first, *cells, f"{point.seconds:.1f}"])
        return markdown(rows) + "\n"


def rank_path(
    eraser: Any,
    data: Dataset,
    ranks: Sequence[int | float] | None = None,
    *,
    metrics: Sequence[str] = (),
    seeds: int = 3,
    verbose: bool = False,
) -> RankPath:
    """Fit an eraser at many ranks, and measure each.

    Parameters
    ----------
    eraser : estimator with a ``rank``
        ``LEOPARD``, ``Cascade``, whose first stage is fitted once, or any other eraser or
        transformer of your own with a parameter ``rank``.
    data : Dataset
        Erasers are fitted on ``train`` and measured on ``validation``; ``test`` is not used.
    ranks : sequence of int or fractions, optional
        In decreasing (or increasing) order; by default nine tenths to one tenth of the features,
        and one twentieth.
    metrics : sequence of str
        Metrics of ``evaluate``, such as "neighbours" or "probe", to measure at every rank.
    seeds : int
        The number of times that each metric is measured, for its spread.
    verbose : bool
        Show progress.

    Notes
    -----
    Ctrl-C ends the path with the ranks that are done.

    One fit per rank.

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
    check_count("seeds", seeds)  # before the fits, which take long
    check_metrics(metrics, data)
    eraser, seed = _seeded(eraser)
    ranked = _Ranked.of(eraser, data.train)
    judged = on_validation(data, seed)
    checked = check_ranks(ranks, ranked.X.shape[1], ranked.what)
    held_out = held_out_discrepancy(data, ranked.estimator, seed)
    points = []
    started = time.perf_counter()
    fitted_ranks = ranked.fits(checked)
    try:
        for _ in steps(checked, "Rank", alone=True, verbose=verbose):
            point = _point(next(fitted_ranks), held_out, seconds=time.perf_counter() - started)
            if metrics:
                point = point.measured(judged, metrics, seeds=seeds, random_state=seed)
            points.append(point)
            started = time.perf_counter()
    except KeyboardInterrupt:
        if not points:
            raise
        warnings.warn(
            f"Stopped after rank {points[-1].rank}: lower ranks are missing.", stacklevel=2
        )
    method = type(eraser).__name__
    return RankPath(tuple(points), data, method, seed, eraser, refine=ranks is None)


def check_ranks(
    ranks: Iterable[int | float] | None, n_features: int, what: str = "the number of features"
) -> tuple[int, ...]:
    """Check ranks, and return them as integers in decreasing order."""
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


# -- Fits at decreasing ranks ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Ranked:
    """An estimator whose rank varies, and the rows that it is fitted on.

    In a cascade these are its second stage, and the rows behind its first stage.
    """

    estimator: Any
    X: NDArray[Any]
    train: Split
    around: tuple[Cascade, Goal, FirstStage] | None = None

    @classmethod
    def of(cls, eraser: Any, train: Split) -> _Ranked:
        """Prepare the fits of an eraser; the first stage of a cascade is fitted here."""
        ranked = cls(eraser, np.asarray(train.X), train)
        if isinstance(eraser, Cascade):
            goal = eraser.read_goal(train.concept, n_rows=len(train))
            first = clone(eraser).fit_first(ranked.X, goal)
            ranked = cls(eraser.second_stage(), first.rows, train, (eraser, goal, first))
        estimator = ranked.estimator
        parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else ()
        if "rank" not in parameters:
            raise ValueError(
                f"Got {type(estimator).__name__}, which has no rank, but expected an eraser with "
                "one, such as LEOPARD() or Cascade(), or your own with a parameter rank."
            )
        return ranked

    @property
    def what(self) -> str:
        """Name the number of columns of ``X``, for messages."""
        return "the number of features" if self.around is None else self.around[-1].what

    def fits(self, ranks: Sequence[int]) -> Iterator[Any]:
        """Fit the estimator at each rank."""
        for rank in ranks:
            fitted = clone(self.estimator).set_params(rank=rank)
            with warnings.catch_warnings():  # a path may include the full rank
                warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
                fit_concept(fitted, self.X, self.train.concept)
            yield self._whole(fitted, rank)

    def _whole(self, fitted: Any, rank: int) -> Any:
        """Return the fitted estimator for the embeddings, with its rank."""
        if self.around is not None:
            cascade, goal, first = self.around
            whole, rows = clone(cascade).set_params(rank=rank), np.asarray(self.train.X)
            fitted = whole._freeze(rows, goal, whole.joined(first, fitted), rows)
        fitted.rank_ = rank
        return fitted


def _seeded(eraser: Any) -> tuple[Any, int]:
    """Clone an eraser with a number as its seed, and return that number too."""
    ranked = eraser.second_stage() if isinstance(eraser, Cascade) else eraser
    seed = as_seed(getattr(ranked, "random_state", 0))
    if not hasattr(eraser, "random_state"):
        return eraser, seed
    return clone(eraser).set_params(random_state=seed), seed


@dataclass(frozen=True)
class _TransformerEraser:
    """A fitted transformer with the interface of an eraser."""

    transformer: Any

    def __call__(self, X: Any) -> NDArray[Any]:
        return np.asarray(self.transformer.transform(X))

    reduce = __call__


def _frozen(fitted: Any) -> Any:
    """Return the eraser of a fit, or wrap another transformer."""
    return fitted.eraser_ if hasattr(fitted, "eraser_") else _TransformerEraser(fitted)


# -- The automatic rank ----------------------------------------------------------------------------


def fit_auto(
    estimator: Any,
    X: Any,
    goal: Goal,
    max_advantage: float | None,
    *,
    random_state: Any = None,
    max_rows: int = 1_000_000,
) -> Any:
    """Fit an estimator with ``rank="auto"``: its training rows decide the rank.

    Two fifths of the rows, stratified, are set aside. The others fit a path of the default ranks,
    and those aside choose the largest that will do. Where they are too few to decide the bound, all
    rows are cross-fitted. If there are many rows, a sample is used: 10,000 rows to fit and two
    thirds as many to choose, or more if a class is rare, so that files of any size have the same
    cost. The estimator that is returned was fitted on a part of the rows; its rank is the answer.

    Parameters
    ----------
    estimator : LEOPARD, or Cascade around one
        Unfitted.
    X : array of shape (n, d), or ``Rows``
    goal : Goal
        Rows of one of its groups stay together. Attackers choose without conditions.
    max_advantage : float or None
    random_state : int, RandomState or None
        Decides the sample.
    max_rows : int
        Caps its rows that fit.
    """
    if max_advantage is not None:
        check_share("max_advantage", max_advantage)
    share = _share_to_choose_with(goal.erase, max_rows)
    sizes = (share * (1 - ASIDE), share * ASIDE, *([1.0 - share] if share < 1.0 else []))
    rng = generator(random_state)
    parts = stratified_parts(goal.erase.strata, sizes, rng, goal.groups)[:2]
    _refuse_small_classes(goal.erase, parts[1])
    some = ((_floats(X[rows]), goal.take(rows)) for rows in parts)
    train, aside = (Split(rows, part.erase, groups=part.groups) for rows, part in some)
    data = Dataset(train, aside, aside)
    way_to_decide(data, max_advantage)  # before the fits, which take long
    # The caller fits again, on all rows: there are no test rows here.
    path = rank_path(estimator, data)
    return path.select(refit=False, max_advantage=max_advantage)


def _share_to_choose_with(labels: Any, max_rows: int) -> float:
    """Compute the share of the rows that choose a rank: enough of the rarest class."""
    usual = ROWS_OF_CHOICE / (1 - ASIDE) / len(labels)
    for_the_rarest = (MIN_ASIDE + 1) / ASIDE / labels.fewest_rows()[0]
    return min(1.0, max(usual, for_the_rarest), max_rows / (1 - ASIDE) / len(labels))


def _refuse_small_classes(labels: Any, aside: NDArray[np.int64]) -> None:
    n_aside, _ = labels.take(aside).fewest_rows()
    if n_aside >= MIN_ASIDE:
        return
    (n_of_class, of), n_rows = labels.fewest_rows(), len(labels)
    way_out = "more rows of that class"
    if n_of_class - round((1 - ASIDE) * n_of_class) >= MIN_ASIDE:
        # One row more, since parts are rounded.
        wanted = (MIN_ASIDE + 1) / ASIDE / n_of_class  # the share of the rows in the sample
        enough = min(n_rows, ceil(wanted * (1 - ASIDE) * n_rows))
        way_out = f"a larger max_rows, which sets more of them aside: {enough} is enough"
    raise ValueError(
        f"Got rank='auto' and {n_of_class} rows {of}, of "
        f"which {n_aside} are set aside to choose the rank, but expected at least "
        f"{MIN_ASIDE}. Pass a number as the rank, or {way_out}."
    )


def _floats(X: NDArray[Any]) -> NDArray[Any]:
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


def _point(fitted: Any, held_out: Callable[[Eraser], float], seconds: float) -> PathPoint:
    history = getattr(fitted, "history_", {})
    losses, counts = history.get("loss", ()), history.get("evaluations", ())
    return PathPoint(
        fitted.rank_,
        fitted,
        held_out(_frozen(fitted)),
        loss=float(losses[-1]) if len(losses) else None,
        evaluations=int(counts[-1]) if len(counts) else None,
        seconds=seconds,
    )


def held_out_discrepancy(data: Dataset, estimator: Any, seed: int) -> Callable[[Eraser], float]:
    """Return a function of erasers: MMD² between the classes on the same validation rows.

    A number has bins for classes, and several concepts have cells. The kernel is that of the
    estimator if it is a LEOPARD, or else the paper's.
    """
    codes = data.validation.concept.strata
    rng = np.random.default_rng(seed)
    taken = balanced_counts(np.bincount(codes), MAX_HELD_OUT_ROWS)
    by_class = [rng.permutation(np.flatnonzero(codes == k))[:n] for k, n in enumerate(taken)]
    rows = np.sort(np.concatenate(by_class))
    X, codes = np.asarray(data.validation.X[rows]), codes[rows]
    kernel = as_kernel(estimator.kernel if isinstance(estimator, LEOPARD) else "paper")

    def discrepancy(eraser: Eraser) -> float:
        return float(mmd2(torch.from_numpy(np.array(eraser.reduce(X))), codes, kernel))

    return discrepancy


def _cell(value: tuple[float, float] | None) -> str:
    return number_text(None if value is None else Number(value[0], value[1] or None))


def _listed(ranks: Iterable[Any]) -> str:
    return ", ".join(str(rank) for rank in ranks)
