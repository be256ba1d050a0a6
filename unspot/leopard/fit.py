"""The search for a subspace: rows and a goal in, an orthonormal basis out (Algorithm 1).

``fit_subspace`` draws the rows to fit on, chooses working coordinates, builds the loss (MMD²
between classes, or HSIC with features of any other concept), and lets the solver search.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unspot.checks import warn
from unspot.data.goal import Features, Goal
from unspot.data.rows import generator, sample_and_held_out
from unspot.data.statistics import ClassStatistics, mean_difference_basis, whitening
from unspot.leopard.discrepancy import PairWeights, Term, discrepancy
from unspot.leopard.kernels import GaussianMixture
from unspot.leopard.low_order import AllRows, Blocks, LowOrder, noise
from unspot.leopard.objective import (
    MiniBatches,
    Objective,
    Preservation,
    Preserving,
    Softened,
    narrow,
)
from unspot.leopard.solvers import History, ManifoldSolver, Noise, PaperSolver
from unspot.leopard.subspaces import (
    column_space,
    complement,
    feature_moments_start,
    nearest_projector,
    start,
)
from unspot.machine import one_thread

Array = NDArray[np.float64]
RowNumbers = NDArray[np.int64]
Solver = ManifoldSolver | PaperSolver

#: If the median squared distance from the middle is below this share of the mean one, a few rows
#: are so far away that they decide the bandwidth.
FAR = 1e-6
#: Steps of fewer products than this, n²r for n rows and rank r, run on one thread. They take
#: milliseconds, and waiting for other threads took ten times as long on a busy machine.
FEW_PRODUCTS = 1e8
#: Most rows whose pairs are compared, at a cost of their square.
SAMPLE_ROWS = 10_000
#: Rows of each class whose pairs are compared, and the fewest of all classes, where the low orders
#: count all rows: the pairs of more rows cost more and find nothing more (``benchmarks/speed.py``).
CLASS_ROWS, FEWEST_ROWS = 1_000, 3_000
#: Most rows that are held out.
HELD_OUT_ROWS = 5_000
#: About the spread of HSIC without dependence, for features of unit variance, times the rows: that
#: of MMD² in ``low_order.noise``.
FEATURE_NOISE = 0.1
#: How much removed directions still count in HSIC, which makes the search an order of magnitude
#: less noisy (``Softened``).
SOFT = 0.3
#: Rows and features whose moments a search without classes begins with.
MOMENT_ROWS, MOMENT_FEATURES = 4_000, 8


class Settings(NamedTuple):
    """Parameters of a search; see ``LEOPARD``."""

    rank: int
    solver: Solver
    kernel: GaussianMixture
    metric: str = "euclidean"
    preserve: float = 0.0
    normalise: bool = False
    device: Any = "cpu"
    verbose: bool = False

    @property
    def init(self) -> Any:
        """Return the start that ``subspaces.start`` takes."""
        return self.solver.first_start(self.metric)

    @property
    def starts_from_moments(self) -> bool:
        return isinstance(self.init, str) and self.init == "moments"

    @property
    def on_sphere(self) -> bool:
        """Tell whether classes are matched by the directions of their rows."""
        return self.normalise and self.metric != "whitened"


class Subspace(NamedTuple):
    """Result of a search."""

    U: Array  # (d, r), orthonormal
    history: History
    statistics: ClassStatistics  # mean and covariance of the rows
    rows_used: int


def fit_subspace(X: Any, goal: Goal, settings: Settings, rng: np.random.Generator) -> Subspace:
    """Find the r-dimensional subspace in which rows reveal least about a concept.

    Parameters
    ----------
    X : array of shape (n, d), or rows that are read by number
    goal : Goal
        The concept to erase, the covariate that is given, and the task to keep.
    settings : Settings
    rng : Generator
        Decides the sampled rows and mini-batches.

    Notes
    -----
    O(b²r + nr(d + r)) time per step, for all pairs of b rows and the low orders of n. Up to ten
    classes b is at most 6,000, or 3,000 of them and more rows, and at most 10,000 in any case.
    """
    rows = _draw(X, goal, settings, rng)
    step = min(len(rows.numbers), getattr(settings.solver, "batch_size", None) or len(rows.numbers))
    with one_thread() if step**2 * settings.rank < FEW_PRODUCTS else nullcontext():
        space = Space.of(X, goal, rows, settings)
        if goal.codes is None:
            problem = _match_features(goal, rows, space, settings, rng)
        else:
            problem = _match_classes(X, goal, rows, space, settings)
        V, history = _search(problem, settings, rng)
    U = space.embedding_basis(V.cpu().double().numpy())
    return Subspace(U, history, space.statistics, problem.rows_used)


# -- Rows ------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Rows of a fit, in their roles."""

    train: Any  # (b, d), whose pairs are compared
    numbers: RowNumbers  # (b,)
    held_out: Any  # (h, d)
    held_out_numbers: RowNumbers  # (h,)
    chosen: RowNumbers  # rows to fit on, if their low orders count too

    @property
    def is_sample(self) -> bool:
        return len(self.chosen) > len(self.numbers)


def _draw(X: Any, goal: Goal, settings: Settings, rng: np.random.Generator) -> _Rows:
    """Draw the rows to fit on, and held-out rows to stop by; the paper's solver takes all rows."""
    solver = settings.solver
    if isinstance(solver, PaperSolver):
        numbers = np.arange(len(X))
        whole = X.load() if hasattr(X, "load") and solver.is_full_batch(len(X)) else X
        return _Rows(_floats(whole), numbers, X[:0], numbers[:0], numbers)
    if goal.codes is not None:
        labelled, strata = np.arange(len(X)), goal.codes
        most, least = solver.max_rows, 40  # the MMD² of fewer held-out rows is noise
    else:
        labelled = np.flatnonzero(~np.isnan(goal.numbers.reshape(len(goal), -1)).all(axis=1))
        strata = np.zeros(len(labelled), dtype=np.int64)
        most, least = min(solver.max_rows, SAMPLE_ROWS), 100  # as 40 of each class
    chosen, held_out = sample_and_held_out(
        strata, most, rng, min_held_out=least, max_held_out=HELD_OUT_ROWS
    )
    train, n_pairs = chosen, _rows_of_pairs(goal, settings, len(chosen))
    if len(chosen) > n_pairs:
        part, _ = sample_and_held_out(strata[chosen], n_pairs, rng, held_out_share=0.0)
        train = chosen[part]
    train, held_out, chosen = (labelled[part] for part in (train, held_out, chosen))
    read = _floats(X[np.concatenate([train, held_out])])  # a file is read once for both
    return _Rows(read[: len(train)], train, read[len(train) :], held_out, chosen)


def _rows_of_pairs(goal: Goal, settings: Settings, n_rows: int) -> int:
    """Choose the number of rows whose pairs are compared, of n rows to fit on."""
    few = min(SAMPLE_ROWS, max(FEWEST_ROWS, CLASS_ROWS * goal.n_classes))
    # The low orders cost as much as the pairs of twice as many rows.
    return few if n_rows > 2 * few and _sums_low_orders(goal, settings) else SAMPLE_ROWS


def _sums_low_orders(goal: Goal, settings: Settings) -> bool:
    """Tell whether rows beyond the sample count by their low orders.

    Those of HSIC are not summed, and the moments of rows of unit norm are no function of the
    moments of all rows.
    """
    small = LowOrder.is_small(goal.n_classes, settings.rank, settings.kernel)
    return goal.codes is not None and not settings.on_sphere and small


def _floats(X: Any) -> Any:
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


# -- Working coordinates ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """Working coordinates: centred, and whitened if the metric says so."""

    statistics: ClassStatistics
    dtype: Any
    whiten: Array | None = None  # B, (d, d), invertible
    unwhiten: Array | None = None
    #: A power of two near the standard deviation of the rows. In this unit squares fit single
    #: precision, and no other bits change.
    unit: float = 1.0
    #: Whether rows are compared by direction, as they are if the eraser scales them to unit norm.
    #: They are then not centred, since a direction is seen from the origin.
    on_sphere: bool = False

    @classmethod
    def of(cls, X: Any, goal: Goal, rows: _Rows, settings: Settings) -> Space:
        """Choose the coordinates by mean and covariance of as many rows as there are."""
        codes, K = goal.codes, goal.n_classes
        if codes is None:
            codes, K = np.zeros(len(X), dtype=np.int64), 1
        elif not rows.is_sample:
            X, codes = rows.train, codes[rows.numbers]
        # The scatter of each class is K·d² numbers, which only the start from moments needs.
        per_class = goal.codes is not None and settings.starts_from_moments
        statistics = ClassStatistics.from_rows(X, codes, K, per_class=per_class).settled()
        dtype = rows.train.dtype
        if settings.metric == "whitened":
            return cls(statistics, dtype, *whitening(statistics.covariance, invertible=True))
        variance = float(np.diagonal(statistics.covariance).mean())
        unit = 2.0 ** round(np.log2(variance) / 2) if variance > 0 else 1.0
        on_sphere = settings.on_sphere and goal.codes is not None
        return cls(statistics, dtype, unit=unit, on_sphere=on_sphere)

    def coordinates(self, X: Any) -> Any:
        """Return rows in working coordinates."""
        if hasattr(X, "mapped"):  # rows on disk, changed when they are read
            return X.mapped(self.coordinates)
        centre = 0.0 if self.on_sphere else self.statistics.mean
        centred = (X.astype(np.float64) - centre) / self.unit
        if self.whiten is not None:
            centred = centred @ self.whiten
        return np.ascontiguousarray(centred, dtype=self.dtype)

    def working(self, U: Array) -> Array:
        """Return a basis in working coordinates for the span of U in those of the embeddings."""
        return U if self.unwhiten is None or not U.size else nearest_projector(self.unwhiten @ U)

    def embedding_basis(self, V: Array) -> Array:
        """Return an orthonormal basis of V's span in the coordinates of the embeddings."""
        return nearest_projector(V if self.whiten is None else self.whiten @ V)

    def kernel(self, kernel: GaussianMixture) -> GaussianMixture:
        """Return a kernel for embeddings, or for whitened ones, in working coordinates."""
        if isinstance(kernel.bandwidth, str) or self.on_sphere:
            return kernel
        return replace(kernel, bandwidth=kernel.bandwidth / self.unit)

    def preservation(self, like: torch.Tensor, weight: float) -> Preservation:
        """Return the share of variance that a subspace keeps, times a weight, by V."""
        cov = self.statistics.covariance / self.unit**2
        total = float(np.trace(cov)) or 1.0
        if self.whiten is None:
            return Preservation(None, like.new_tensor(cov), total, weight)
        B = self.whiten
        return Preservation(like.new_tensor(B.T @ B), like.new_tensor(B.T @ cov @ B), total, weight)


# -- The loss --------------------------------------------------------------------------------------


class _Problem(NamedTuple):
    """Input of a solver."""

    loss: Any  # Objective, AllRows or MiniBatches
    start: torch.Tensor  # (d, s), s ≥ r
    rows_used: int
    held_out: Objective | None = None
    noise: Noise | None = None
    soft: bool = False
    preservation: Preservation | None = None


def _match_classes(X: Any, goal: Goal, rows: _Rows, space: Space, settings: Settings) -> _Problem:
    """Match the densities of classes by MMD² (Eqs. 4–6)."""
    assert goal.codes is not None
    device, kernel, solver = settings.device, space.kernel(settings.kernel), settings.solver
    codes, train = goal.codes[rows.numbers], space.coordinates(rows.train)
    begin = space.working(start(settings.init, space.statistics, settings.rank))
    begin = begin.astype(space.dtype)
    V = torch.from_numpy(begin).to(device)
    if isinstance(train, np.ndarray) and not space.on_sphere:  # where no row is far
        _warn_of_outliers(train, space.unit)
    if isinstance(solver, PaperSolver) and not solver.is_full_batch(len(codes)):
        return _Problem(MiniBatches(train, codes, kernel, device, space.on_sphere), V, len(codes))
    weights = PairWeights.between(codes, device)
    loss = Objective(torch.from_numpy(train).to(device), weights, kernel, on_sphere=space.on_sphere)
    preservation = None
    if settings.preserve:
        # The unit of the trade is the loss that is left without the linear signal. Where that is
        # noise it is 1/n: with zero, or less, no λ would have an effect.
        U = complement(space.working(mean_difference_basis(space.statistics)))
        left = max(loss.value(loss.X.new_tensor(U)), 1 / len(codes))
        preservation = space.preservation(loss.X, settings.preserve * left)
    held_out, checked = None, goal.codes[rows.held_out_numbers]
    if len(checked):
        coordinates = loss.X.new_tensor(space.coordinates(rows.held_out))
        held_out = replace(loss, X=coordinates, weights=PairWeights.between(checked, device))
    if not rows.is_sample or not _sums_low_orders(goal, settings):
        return _Problem(loss, V, len(codes), held_out, preservation=preservation)
    covariance = torch.cov(loss.X.T)  # for the same bandwidth as the loss
    low_of_sample, low_of_all = (
        LowOrder(blocks, blocks.counts, kernel, covariance)
        for blocks in (
            Blocks(rows.train, codes, np.arange(len(codes)), goal.n_classes, space.coordinates),
            Blocks(X, goal.codes, rows.chosen, goal.n_classes, space.coordinates),
        )
    )
    level = Noise(noise(low_of_all.counts), noise(np.bincount(checked).tolist()))
    whole = AllRows(loss, low_of_sample, low_of_all)
    return _Problem(whole, V, len(rows.chosen), held_out, level, preservation=preservation)


def _match_features(
    goal: Goal, rows: _Rows, space: Space, settings: Settings, rng: np.random.Generator
) -> _Problem:
    """Make rows independent of features of any concept by HSIC."""
    rng, cut = generator(int(rng.integers(2**31))), len(rows.numbers)
    goal = goal.take(np.concatenate([rows.numbers, rows.held_out_numbers]))
    terms = goal.terms(rng)
    coordinates = space.coordinates(np.concatenate([rows.train, rows.held_out]))
    _warn_of_outliers(coordinates[:cut], space.unit)
    tensor = torch.from_numpy(coordinates).to(settings.device)
    kernel = space.kernel(settings.kernel)
    # Units of other terms are what is left without the linear signal.
    basis = _uncorrelated(coordinates[:cut], goal.design()[:cut])
    Y = tensor[:cut] @ tensor.new_tensor(basis)

    def remainder(terms: Sequence[Features]) -> float:
        return max(float(discrepancy(Y, _weights(terms, slice(cut), Y), kernel)), 1 / cut)

    left = remainder(terms)
    psi = np.hstack([term.psi for term in terms])[:cut]
    if goal.keep is not None:
        task = Features(goal.keep.features(rng), 1.0, None)
        terms = [*terms, task._replace(weight=-left / remainder([task]))]
    preservation = None
    if settings.preserve:
        preservation = space.preservation(tensor, settings.preserve * left)

    def objective(part: slice) -> Objective:
        return Objective(tensor[part], _weights(terms, part, tensor), kernel)

    loss, held_out, level = objective(slice(cut)), None, None
    if cut < len(tensor):
        held_out = objective(slice(cut, len(tensor)))
        level = Noise(*(FEATURE_NOISE * p.weights.size / len(p.weights) for p in (loss, held_out)))
    begin = _feature_start(settings, space, rows.train, psi).astype(space.dtype)
    V = torch.from_numpy(begin).to(tensor)
    return _Problem(loss, V, cut, held_out, level, soft=True, preservation=preservation)


def _weights(terms: Sequence[Features], rows: slice, like: torch.Tensor) -> PairWeights:
    def on_device(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(like.device)

    return PairWeights.of(
        [
            Term(on_device(psi), weight, None if groups is None else on_device(groups))
            for psi, weight, groups in (term.part(rows) for term in terms)
        ]
    )


def _uncorrelated(X: NDArray[Any], columns: Array) -> Array:
    """Return a basis of the directions of centred rows that do not correlate with the columns."""
    floor = 1e-6 * float(np.sqrt(np.square(X).sum() * np.square(columns).mean()))
    basis = column_space(X.T.astype(np.float64) @ columns, floor=floor)
    return complement(basis) if basis.shape[1] < len(basis) else np.eye(len(basis))


def _feature_start(settings: Settings, space: Space, X: NDArray[Any], psi: Array) -> Array:
    rank = settings.rank
    if not settings.starts_from_moments:
        return space.working(start(settings.init, space.statistics, rank))
    strongest = np.argsort(-np.square(psi).sum(axis=0), kind="stable")[:MOMENT_FEATURES]
    centred = X[:MOMENT_ROWS].astype(np.float64) - space.statistics.mean
    features = psi[:MOMENT_ROWS, strongest]
    return space.working(
        feature_moments_start(centred, features, space.statistics.covariance, rank)
    )


def _search(
    problem: _Problem, settings: Settings, rng: np.random.Generator
) -> tuple[torch.Tensor, History]:
    """Narrow the start to the rank, and minimise the loss from there."""
    term, loss = problem.preservation, problem.loss
    seen = loss.sample() if isinstance(loss, MiniBatches) else loss
    V = narrow(seen, problem.start, settings.rank, term)

    def whole(part: Any) -> Any:
        part = Softened(part, SOFT) if problem.soft else part
        return part if term is None else Preserving(part, term)

    return settings.solver.minimise(
        whole(loss),
        V,
        held_out=None if problem.held_out is None else whole(problem.held_out).value,
        noise=problem.noise,
        rng=rng,
        verbose=settings.verbose,
    )


def _warn_of_outliers(rows: NDArray[Any], unit: float) -> None:
    """Warn of far rows: they make the bandwidth so wide that all others look alike."""
    middle = np.median(rows[:: max(1, len(rows) // 1000)], axis=0)
    squares = np.square(rows - middle).sum(axis=1, dtype=np.float64)
    if 0 < np.median(squares) < FAR * squares.mean():
        farthest, usual = unit * np.sqrt([squares.max(), np.median(squares)])
        warn(
            f"Got rows as far as {farthest:.3g} from the middle, where half of them are within "
            f"{usual:.3g}: next to such rows, LEOPARD hardly sees differences among the others. "
            "Remove or clip them."
        )
