"""L̄EOPARD: nonlinear erasure by an orthogonal projection that matches densities (Algorithm 1)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_choice, check_count, check_rank
from unspot.data.concepts import KINDS
from unspot.data.labels import Labels
from unspot.data.rows import generator, sample_and_held_out
from unspot.data.statistics import ClassStatistics, mean_difference_basis, whitening
from unspot.density import GaussianMixture, PairWeights, Term, hsic
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, refuse_unused_groups, warn
from unspot.erasers.goals import Features, Goal, as_goal
from unspot.erasers.streams import Blocks, Rows
from unspot.machine import one_thread
from unspot.projections import (
    AllRows,
    LazyObjective,
    LowOrder,
    ManifoldSolver,
    Objective,
    PaperSolver,
    Preservation,
    Softened,
    column_space,
    complement,
    feature_moments_start,
    narrow,
    nearest_projector,
    start,
)
from unspot.projections.low_order import noise as spread
from unspot.projections.solvers import History, Noise

__all__ = ["LEOPARD"]

Solver = ManifoldSolver | PaperSolver
KERNELS = {"paper": GaussianMixture.paper, "reference": GaussianMixture.reference}
#: If the median squared distance from the middle is below this share of the mean one, a few rows
#: are so far away that they decide the bandwidth.
FAR = 1e-6
#: Steps of fewer products than this, n²r for n rows and rank r, run on one thread. They take
#: milliseconds, and waiting for other threads took ten times as long on a busy machine. On one
#: thread the bits do not depend on the number of threads either.
FEW_PRODUCTS = 1e8
#: Rows whose pairs are looked at, at a cost of their square. Of more rows only low orders are.
SAMPLE_ROWS = 10_000
#: About the spread of HSIC without dependence, for features of unit variance, times the rows: that
#: of MMD² in ``unspot.projections.low_order``.
FEATURE_NOISE = 0.1
#: How much directions that go still count while concepts without classes are searched for, which
#: makes the search an order of magnitude less noisy (``unspot.projections.Softened``).
SOFT = 0.3
#: Rows and features whose moments a search without classes begins with.
MOMENT_ROWS, MOMENT_FEATURES = 4_000, 8
#: The most rows that are held out.
HELD_OUT_ROWS = 5_000


class LEOPARD(BaseEraser):
    """Nonlinear concept erasure by an orthogonal projection of chosen rank.

    Finds the r-dimensional subspace in which the class-conditional densities are as similar as
    possible (unbiased MMD², Eqs. 4–6), and projects on it: P = UUᵀ (Eqs. 1–2). Distances inside
    that subspace stay exact. A lower rank erases more and keeps less.

    Parameters
    ----------
    rank : int, float or "auto"
        r, the dimensions to keep: an integer from 1 to d, or a fraction of d. ``"auto"``: the
        largest rank of a path at which no attacker has more than ``max_advantage`` over guessing.
        Two fifths of the rows choose it (all rows by cross-fitting, where these cannot decide the
        bound), then all rows fit, a cascade's first stages too; certify on other rows.
    max_advantage : float, optional
        With ``rank="auto"``, the most that the strongest attacker may have above guessing, in
        balanced accuracy; of a number, the share of its variance that may be explained. Of several
        concepts it holds for each, and for their combination. By default 0.05, or the smallest that
        the rows can decide.
    solver : {"manifold", "paper"}, ManifoldSolver or PaperSolver
        ``"manifold"``: L-BFGS over subspaces on all rows, with held-out stopping.
        ``"paper"``: Algorithm 1 to the letter, with the paper's settings for GloVe;
        ``PaperSolver.preset("bios")`` and ``("dial")`` have the others.
    metric : {"euclidean", "whitened"}
        The metric in which densities are matched: that of the embeddings (the paper), or whitened,
        so that no affine change of the embeddings changes the result. That needs more rows than
        features: with fewer, whitened rows are all equally far apart and rounding decides.
    preserve : float
        How much to favour subspaces that keep variance, in units of the MMD² that LEACE leaves (1/n
        at least); 0 is the paper. Only with the manifold solver. MMD-based fair PCA has the same
        two terms, with a constraint in place of a weight: values such as 0.1, 0.3 and 1 are ours.
    kernel : {"paper", "reference"} or GaussianMixture
    init : {"auto", "pca", "moments", "identity"} or array of shape (d, s)
        Where the search begins. ``"auto"``: the directions of most variance; in the whitened
        metric the moments, which do not depend on units; for the paper's solver the truncated
        identity. An array may have more than r columns, such as the basis U of a fit of higher
        rank: the search then begins in its r directions of least discrepancy.
    concept : {"categories", "continuous"} or dict
        Whether z is a label, or a number (or a vector of numbers) for each row. Of a table, the
        kinds of columns by name, where their values do not show it.
    max_rows : int
        The most rows that the manifold solver works on, without its held-out rows. A cap saves time
        and leaks: with 10,000 of 40,000 words the strongest attacker on unseen rows has 9.0 points
        above guessing instead of 6.9 (without nearest neighbours 8.5 instead of 4.7), and A_50% is
        0.795 instead of 0.782, in 0.6 of the time (``benchmarks/unseen.py``).
    random_state : int, RandomState or None
        Decides the sampled rows and mini-batches. The same seed gives the same bits.
    device : str or torch.device, optional
        Where to compute; by default the CPU.
    verbose : bool
        Show progress.
    normalise : bool
        Scale erased rows to unit norm. Densities are then matched on the unit sphere, where at most
        10,000 rows are looked at; with the whitened metric, they are matched before that step.

    Attributes
    ----------
    eraser_ : Eraser
        The frozen result.
    history_ : dict of arrays
        ``loss``, ``held_out``, ``evaluations`` and ``seconds``, one entry per step.
    rank_ : int
        The rank as an integer.
    selection_ : Selection
        With ``rank="auto"``: the rule, and the advantage at every rank that was tried.
    classes_ : ndarray

    Notes
    -----
    O(b²r + nr(d + r)) time per step for n rows, of which all pairs of b ≤ 10,000 are looked at, and
    O(bd + Kr²) memory. ``rank="auto"`` costs about two fits, and a few attacks of seconds each;
    with cross-fitting five paths on two fifths of the rows more.

    Numbers, several concepts, and what is ``given`` or to ``keep`` have features ψ
    instead of classes (``unspot.data.features``), and the loss is HSIC instead of MMD²
    (``unspot.density.hsic``). It is fitted on at most 10,000 rows, since low orders of HSIC are
    not summed over all; mean and covariance are those of all rows. They need the manifold solver,
    whose steps then cost as those of rank d, since directions that go count in part.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 5))
    >>> X[z == 1, 0] *= 3  # the variance of one direction tells the classes apart
    >>> eraser = LEOPARD(rank=3, random_state=0).fit(X, z)
    >>> eraser.reduce(X).shape
    (400, 3)
    >>> bool(eraser.eraser_.P[0, 0] < 0.05)  # that direction is gone
    True

    A number, and two concepts at once:

    >>> z, X = np.repeat([0, 1], 1500), rng.normal(size=(3000, 5))
    >>> X[z == 1, 0] *= 3
    >>> age = 40 + 10 * X[:, 1] ** 2 + rng.normal(size=3000)
    >>> P = LEOPARD(rank=3, concept="continuous", random_state=0).fit(X, age).eraser_.P
    >>> bool(P[1, 1] < 0.05)
    True
    >>> P = LEOPARD(rank=3, random_state=0).fit(X, {"z": z, "age": age}).eraser_.P
    >>> bool(P[0, 0] < 0.1 and P[1, 1] < 0.1)
    True
    """

    min_rows_per_class: ClassVar[int] = 2
    reads_rows: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = KINDS
    takes_goals: ClassVar[bool] = True

    def __init__(
        self,
        rank: int | float | Literal["auto"] = 0.5,
        *,
        max_advantage: float | None = None,
        solver: Literal["manifold", "paper"] | ManifoldSolver | PaperSolver = "manifold",
        metric: Literal["euclidean", "whitened"] = "euclidean",
        preserve: float = 0.0,
        kernel: Literal["paper", "reference"] | GaussianMixture = "paper",
        init: Any = "auto",
        concept: str | Mapping[str, str] = "categories",
        max_rows: int = 1_000_000,
        random_state: Any = None,
        device: Any = None,
        verbose: bool = False,
        normalise: bool = False,
    ) -> None:
        self.rank = rank
        self.max_advantage = max_advantage
        self.solver = solver
        self.metric = metric
        self.preserve = preserve
        self.kernel = kernel
        self.init = init
        self.concept = concept
        self.max_rows = max_rows
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.normalise = normalise

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        z: Any = None,
        given: Any = None,
        keep: Any = None,
        groups: Any = None,
    ) -> BaseEraser:
        """Learn the eraser, as ``BaseEraser.fit`` says.

        Parameters
        ----------
        X, y, z, given, keep
            As in every eraser.
        groups : array-like of shape (n,), optional
            With ``rank="auto"``: what rows come in, such as the author of each text. Rows of one
            group are then either fitted on or set aside to choose the rank.
        """
        refuse_unused_groups(groups, self)
        return self._fit_on(X, y, z, given=given, keep=keep, groups=groups)

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        solver = self._checked_solver()
        has_classes = isinstance(target, Labels)
        if not has_classes:
            self._refuse_without_classes(solver, target)
        selection = self.__dict__.pop("_selected", None) or self._selection_for(self, X, target)
        if selection is not None:
            return self._fit_selected(selection, X, target)
        self.rank_ = check_rank(self.rank, X.shape[1])
        self._warn_if_all(X.shape[1])
        rng = generator(self.random_state)
        if not has_classes:
            return self._fit_goal(solver, X, as_goal(target), rng)
        rows = self._samples(solver, X, target.codes, rng)
        few = self._rows_of_step(solver, rows.train) ** 2 * self.rank_ < FEW_PRODUCTS
        with one_thread() if few else nullcontext():
            return self._fit_samples(solver, rows, len(target.classes), rng)

    def _refuse_without_classes(self, solver: Solver, target: Any) -> None:
        if isinstance(solver, PaperSolver):
            raise ValueError(
                f"Got solver={self.solver!r} for what is not one concept of categories, but "
                "expected solver='manifold': the paper's algorithm knows classes only."
            )
        if self.rank == "auto" and isinstance(target, Goal):
            raise ValueError(
                "Got rank='auto' with given=… or keep=…, but expected a rank as a number: "
                "attackers that choose a rank judge concepts alone. Choose by certify(given='y')."
            )

    def _fit_goal(self, solver: Solver, X: Any, goal: Goal, rng: np.random.Generator) -> Eraser:
        """The fit for concepts that have features instead of classes."""
        labelled = np.flatnonzero(~np.isnan(goal.numbers.reshape(len(goal), -1)).all(axis=1))
        chosen = sample_and_held_out(
            np.zeros(len(labelled), dtype=np.int64),
            min(self.max_rows, SAMPLE_ROWS),
            rng,
            min_held_out=100,  # as 40 of each class: the HSIC of fewer rows is noise
            max_held_out=HELD_OUT_ROWS,
        )
        rows, held_out = (labelled[part] for part in chosen)
        numbers = np.concatenate([rows, held_out])
        part, goal = _floats(X[numbers]), goal.take(numbers)
        cut = len(rows)
        train = _Sample(part[:cut], np.zeros(cut, dtype=np.int64))
        everything = _Sample(X, np.zeros(len(X), dtype=np.int64))
        space = _Space.of(_FitRows(train, None, everything), 1, self.metric, per_class=False)
        self._row_statistics = space.statistics
        with one_thread() if cut**2 * self.rank_ < FEW_PRODUCTS else nullcontext():
            seed = int(rng.integers(2**31))
            objectives, begin = self._goal_parts(space, part, cut, goal, generator(seed))
            return self._searched(solver, space, objectives, begin, rng, len(rows))

    def _goal_parts(
        self, space: _Space, part: NDArray[Any], cut: int, goal: Goal, rng: np.random.Generator
    ) -> tuple[dict[str, Any], NDArray[np.float64]]:
        """The loss on the rows before the cut, that on the rows after it, and where to begin."""
        erase = goal.terms(rng)
        coordinates = space.coordinates(part)
        _warn_of_outliers(coordinates[:cut], space.unit)
        X = torch.from_numpy(coordinates).to(torch.device(self.device or "cpu"))
        kernel = space.kernel(self._kernel())
        # Units of other terms are what is left without the linear signal.
        beside = _beside(coordinates[:cut], goal.design()[:cut])
        Y = X[:cut] @ X.new_tensor(beside)
        left = max(float(hsic(Y, _pair_weights(erase, slice(cut), X), kernel)), 1 / cut)
        if goal.keep is not None:
            kept = Features(goal.keep.features(generator(rng)), 1.0, None)
            told = max(float(hsic(Y, _pair_weights([kept], slice(cut), X), kernel)), 1 / cut)
            erase = [*erase, kept._replace(weight=-left / told)]
        preservation = space.preservation(X) if self.preserve else None

        def objective(rows: slice) -> Objective:
            pairs = _pair_weights(erase, rows, X)
            return Objective(X[rows], pairs, kernel, preservation, self.preserve * left)

        objectives = {"loss": objective(slice(cut))}
        if cut < len(part):
            objectives["held out"] = objective(slice(cut, len(part)))
        psi = np.hstack([term.psi for term in erase if term.weight > 0])[:cut]
        return objectives, self._goal_start(space, part[:cut], psi)

    def _goal_start(
        self, space: _Space, X: NDArray[Any], psi: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        init = self._init(ManifoldSolver())
        if not (isinstance(init, str) and init == "moments"):
            return space.working(start(init, space.statistics, self.rank_))
        strongest = np.argsort(-np.square(psi).sum(axis=0), kind="stable")[:MOMENT_FEATURES]
        centred = X[:MOMENT_ROWS].astype(np.float64) - space.statistics.mean
        features = psi[:MOMENT_ROWS, strongest]
        covariance = space.statistics.covariance
        return space.working(feature_moments_start(centred, features, covariance, self.rank_))

    def _fit_samples(
        self, solver: Solver, rows: _FitRows, n_classes: int, rng: np.random.Generator
    ) -> Eraser:
        init = self._init(solver)
        # The scatter of each class is K·d² numbers, which only the start from moments needs.
        moments = isinstance(init, str) and init == "moments"
        space = _Space.of(rows, n_classes, self.metric, per_class=moments)
        if self.normalise and self.metric == "euclidean":
            space = replace(space, on_sphere=True)
        self._row_statistics = space.statistics
        objectives = self._objectives(space, rows, n_classes)
        begin = space.working(start(init, space.statistics, self.rank_))
        used = rows.chosen if "low of all" in objectives else rows.train.codes
        return self._searched(solver, space, objectives, begin, rng, len(used))

    def _searched(
        self,
        solver: Solver,
        space: _Space,
        objectives: dict[str, Any],
        begin: NDArray[np.float64],
        rng: np.random.Generator,
        rows_used: int,
    ) -> Eraser:
        """The projection that a search finds."""
        V, history = self._search(solver, objectives, begin, rng)
        self.history_ = history.arrays()
        U = space.embedding_basis(V.cpu().double().numpy())
        return Eraser.projection(U, loss=history.loss[history.kept], rows_used=rows_used)

    def _selection_for(self, whole: BaseEraser, X: Any, target: Any) -> Any:
        """With ``rank="auto"``, the rank for this eraser, or for the cascade around it.

        The cascade is fitted anew on the rows that do not choose, all of its stages: rows that the
        first stage has seen would look cleaner than new ones. A cascade leaves it in ``_selected``.
        """
        if self.rank != "auto" or isinstance(target, Goal):
            return None
        from unspot.choice.path import fit_auto

        how = {"random_state": self.random_state, "max_rows": self.max_rows}
        return fit_auto(whole, X, target, self.max_advantage, **how).selection_

    def _fit_selected(self, selection: Any, X: NDArray[Any], target: Any) -> Eraser:
        self.selection_ = selection
        # Again on all rows: those set aside to choose the rank have served.
        again = clone(self).set_params(rank=selection.rank)
        with warnings.catch_warnings():  # all ranks may do, behind a linear stage
            warnings.filterwarnings("ignore", message=".*LEOPARD erases nothing")
            eraser = again._fit_eraser(X, target)
        for name in ("rank_", "history_", "_row_statistics"):
            setattr(self, name, getattr(again, name))
        return Eraser(eraser.maps, {**eraser.metadata, "selection": selection.describe()})

    def _warn_if_all(self, n_features: int) -> None:
        if self.rank_ == n_features > 1:  # with one feature there is no lower rank
            warn(
                f"Got rank {self.rank_} of {n_features} dimensions, which keeps them all: LEOPARD "
                "erases nothing. Choose a lower rank."
            )

    def _samples(
        self, solver: Solver, X: Any, codes: NDArray[np.int64], rng: np.random.Generator
    ) -> _FitRows:
        """Rows to fit on, and held-out rows to stop by; the paper's solver fits on all rows."""
        if isinstance(solver, PaperSolver):
            whole = X.load() if isinstance(X, Rows) and solver.is_full_batch(len(X)) else X
            return _FitRows(_Sample(_floats(whole), codes))
        chosen, rows, held_out = self._row_numbers(codes, rng)
        part = _floats(X[np.concatenate([rows, held_out])])  # a file is read once for both
        train = _Sample(part[: len(rows)], codes[rows])
        check = _Sample(part[len(rows) :], codes[held_out]) if len(held_out) else None
        everything = _Sample(X, codes) if len(chosen) > len(rows) else None
        return _FitRows(train, check, everything, chosen)

    def _row_numbers(
        self, codes: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows to fit on, those of them whose pairs are looked at, and held-out rows."""
        # The MMD² of fewer held-out rows is noise, and would choose by chance.
        chosen, held_out = sample_and_held_out(
            codes, self.max_rows, rng, min_held_out=40, max_held_out=HELD_OUT_ROWS
        )
        if len(chosen) <= SAMPLE_ROWS:
            return chosen, chosen, held_out
        part, _ = sample_and_held_out(codes[chosen], SAMPLE_ROWS, rng, held_out_share=0.0)
        return chosen, chosen[part], held_out

    def _rows_of_step(self, solver: Solver, train: _Sample) -> int:
        n = len(train.codes)
        return min(n, solver.batch_size or n) if isinstance(solver, PaperSolver) else n

    def _objectives(self, space: _Space, given: _FitRows, n_classes: int) -> dict[str, Any]:
        """The loss on the rows to fit on, and others that correct it or tell when to stop."""
        device = torch.device(self.device or "cpu")
        kernel = space.kernel(self._kernel())
        train, held_out = given.train, given.held_out
        rows, z = space.coordinates(train.X), torch.from_numpy(train.codes)
        if isinstance(rows, Rows):
            return {"loss": LazyObjective(rows, z, kernel, device, space.on_sphere)}
        if not space.on_sphere:  # where no row is far
            _warn_of_outliers(rows, space.unit)
        objective = Objective(
            torch.from_numpy(rows).to(device), z.to(device), kernel, on_sphere=space.on_sphere
        )
        if self.preserve:
            objective = self._preserving(objective, space)
        objectives: dict[str, Any] = {"loss": objective}
        if held_out is not None:
            X = objective.X.new_tensor(space.coordinates(held_out.X))
            z = torch.from_numpy(held_out.codes).to(X.device)
            objectives["held out"] = replace(objective, X=X, z=z)
        # The moments of rows of unit norm are no function of the moments of all rows.
        has_low_order = not space.on_sphere and LowOrder.is_small(n_classes, self.rank_, kernel)
        if given.everything is not None and has_low_order:
            low = partial(self._low_order, space, objective, n_classes)
            objectives["low of sample"] = low(train, np.arange(len(rows)))
            objectives["low of all"] = low(given.everything, given.chosen)
        return objectives

    def _low_order(
        self,
        space: _Space,
        objective: Objective,
        n_classes: int,
        sample: _Sample,
        rows: NDArray[np.int64],
    ) -> LowOrder:
        """The low orders of the objective, for some rows of a sample."""
        return LowOrder(
            Blocks(sample.X, sample.codes, rows, n_classes, space.coordinates),
            tuple(np.bincount(sample.codes[rows], minlength=n_classes).tolist()),
            objective.kernel,
            torch.cov(objective.X.T),  # of the same bandwidth as the objective
        )

    def _preserving(self, objective: Objective, space: _Space) -> Objective:
        """The objective with a term that favours variance."""
        # The unit of the trade is the discrepancy that is left without the linear signal. Where
        # that is noise it is 1/n: with zero, or less, no λ would have an effect.
        U = complement(space.working(mean_difference_basis(space.statistics)))
        X = objective.X
        left = max(objective.value(X.new_tensor(U)), 1 / len(X))
        return replace(objective, preservation=space.preservation(X), weight=self.preserve * left)

    def _search(
        self,
        solver: Solver,
        objectives: dict[str, Any],
        begin: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> tuple[torch.Tensor, History]:
        """Run the solver from the start."""
        objective, check, noise = objectives["loss"], objectives.get("held out"), None
        if "low of all" in objectives:
            low = objectives["low of all"]
            objective = AllRows(objective, objectives["low of sample"], low)
            held_out_counts = torch.bincount(check.z).tolist() if check else ()
            noise = Noise(spread(low.counts), spread(held_out_counts))
        elif check and isinstance(objective.z, PairWeights):
            sizes = (FEATURE_NOISE * objective.z.size / len(part.z) for part in (objective, check))
            noise = Noise(*sizes)
        V = objective.new_empty(begin.shape).copy_(torch.from_numpy(begin))
        V = narrow(objective.sample() if objective.is_lazy else objective, V, self.rank_)
        if isinstance(objective.z, PairWeights):
            objective, check = (part and Softened(part, SOFT) for part in (objective, check))
        if isinstance(solver, PaperSolver):
            return solver.minimise(objective, V, rng=rng, verbose=self.verbose)
        held_out = check.value if check else None
        return solver.minimise(objective, V, held_out=held_out, noise=noise, verbose=self.verbose)

    def _checked_solver(self) -> Solver:
        """The solver, after checks of all parameters that do not depend on the data."""
        named = {"manifold": ManifoldSolver(), "paper": PaperSolver()}
        solver = named.get(self.solver) if isinstance(self.solver, str) else self.solver
        if not isinstance(solver, (ManifoldSolver, PaperSolver)):
            raise ValueError(
                f"Got solver={self.solver!r}, but expected 'manifold', 'paper', a ManifoldSolver "
                "or a PaperSolver."
            )
        check_choice("metric", self.metric, ("euclidean", "whitened"))
        check_count("max_rows", self.max_rows, least=8)
        if not self.preserve >= 0:
            raise ValueError(f"Got preserve={self.preserve!r}, but expected a number from 0 up.")
        if self.preserve and isinstance(solver, PaperSolver):
            raise ValueError(
                f"Got preserve={self.preserve!r} with the paper's solver, which has no such term. "
                "Use solver='manifold', or preserve=0."
            )
        if isinstance(self.rank, str) and self.rank != "auto":
            raise ValueError(
                f"Got rank={self.rank!r}, but expected an integer, a fraction of the features "
                "between 0 and 1, or 'auto'."
            )
        return solver

    def _init(self, solver: Solver) -> Any:
        if not (isinstance(self.init, str) and self.init == "auto"):
            return self.init
        if isinstance(solver, PaperSolver):
            return "identity"
        # A search that begins in the directions of most variance keeps more of them.
        return "moments" if self.metric == "whitened" else "pca"

    def _kernel(self) -> GaussianMixture:
        if isinstance(self.kernel, GaussianMixture):
            return self.kernel
        if self.kernel not in KERNELS:
            raise ValueError(
                f"Got kernel={self.kernel!r}, but expected 'paper', 'reference' or a "
                "GaussianMixture."
            )
        return KERNELS[self.kernel]()


class _Sample(NamedTuple):
    """Rows, and the codes of their classes."""

    X: Any  # (n, d), an array, or Rows that are read by mini-batches
    codes: NDArray[np.int64]


class _FitRows(NamedTuple):
    """The rows of a fit, in their roles."""

    train: _Sample  # whose pairs are looked at
    held_out: _Sample | None = None
    everything: _Sample | None = None  # if there are more rows than that
    chosen: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # those of them to fit on


@dataclass(frozen=True)
class _Space:
    """Working coordinates: centred, and whitened if the metric says so."""

    statistics: ClassStatistics
    dtype: Any
    whiten: NDArray[np.float64] | None = None  # B, (d, d), invertible
    unwhiten: NDArray[np.float64] | None = None
    #: A power of two near the standard deviation of the rows. In this unit squares fit single
    #: precision, and no other bits change.
    unit: float = 1.0
    #: Whether rows are compared by direction, as they are if the eraser scales them to unit norm.
    #: They are then not centred, since a direction is seen from the origin.
    on_sphere: bool = False

    @classmethod
    def of(cls, rows: _FitRows, n_classes: int, metric: str, *, per_class: bool) -> _Space:
        # More rows tell mean and covariance better; who is held out makes no difference to these.
        X, codes = rows.everything or rows.train
        dtype = rows.train.X.dtype
        statistics = ClassStatistics.from_rows(X, codes, n_classes, per_class=per_class).settled()
        if metric == "whitened":
            return cls(statistics, dtype, *whitening(statistics.covariance, invertible=True))
        variance = float(np.diagonal(statistics.covariance).mean())
        unit = 2.0 ** round(np.log2(variance) / 2) if variance > 0 else 1.0
        return cls(statistics, dtype, unit=unit)

    def coordinates(self, X: Any) -> Any:
        """Rows in working coordinates."""
        if isinstance(X, Rows):
            return X.mapped(self.coordinates)
        centre = 0.0 if self.on_sphere else self.statistics.mean
        centred = (X.astype(np.float64) - centre) / self.unit
        if self.whiten is not None:
            centred = centred @ self.whiten
        return np.ascontiguousarray(centred, dtype=self.dtype)

    def working(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        """A basis in working coordinates for the span of U in those of the embeddings."""
        return U if self.unwhiten is None or not U.size else nearest_projector(self.unwhiten @ U)

    def embedding_basis(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """The way back: an orthonormal basis in the coordinates of the embeddings."""
        return nearest_projector(V if self.whiten is None else self.whiten @ V)

    def kernel(self, kernel: GaussianMixture) -> GaussianMixture:
        """A kernel for the embeddings, or for whitened ones, in working coordinates."""
        if isinstance(kernel.bandwidth, str) or self.on_sphere:
            return kernel
        return replace(kernel, bandwidth=kernel.bandwidth / self.unit)

    def preservation(self, like: torch.Tensor) -> Preservation:
        cov = self.statistics.covariance / self.unit**2
        total = float(np.trace(cov)) or 1.0
        if self.whiten is None:
            return Preservation(None, like.new_tensor(cov), total)
        B = self.whiten
        return Preservation(like.new_tensor(B.T @ B), like.new_tensor(B.T @ cov @ B), total)


def _beside(X: NDArray[Any], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Basis of the directions of centred rows that do not correlate with the columns."""
    floor = 1e-6 * float(np.sqrt(np.square(X).sum() * np.square(columns).mean()))
    basis = column_space(X.T.astype(np.float64) @ columns, floor=floor)
    return complement(basis) if basis.shape[1] < len(basis) else np.eye(len(basis))


def _pair_weights(parts: Sequence[Features], rows: slice, X: torch.Tensor) -> PairWeights:
    def on_device(values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(X.device)

    return PairWeights.of(
        [
            Term(on_device(psi), weight, None if groups is None else on_device(groups))
            for psi, weight, groups in (part.part(rows) for part in parts)
        ]
    )


def _floats(X: Any) -> Any:
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32)


def _warn_of_outliers(rows: NDArray[Any], unit: float) -> None:
    """Far rows make the bandwidth, a mean distance, so wide that all others look alike."""
    middle = np.median(rows[:: max(1, len(rows) // 1000)], axis=0)
    squares = np.square(rows - middle).sum(axis=1, dtype=np.float64)
    if 0 < np.median(squares) < FAR * squares.mean():
        farthest, usual = unit * np.sqrt([squares.max(), np.median(squares)])
        warn(
            f"Got rows as far as {farthest:.3g} from the middle, where half of them are within "
            f"{usual:.3g}: next to such rows, LEOPARD hardly sees differences among the others. "
            "Remove or clip them."
        )
