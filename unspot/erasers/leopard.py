"""L̄EOPARD: nonlinear erasure by an orthogonal projection that matches densities (Algorithm 1)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from unspot.checks import check_choice, check_rank, warn
from unspot.data.goal import Goal
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.erasers.base import ANY_GOAL, BaseEraser, Fit

try:
    from unspot.leopard import GaussianMixture, ManifoldSolver, PaperSolver
    from unspot.leopard.fit import Settings, fit_subspace
    from unspot.leopard.kernels import as_kernel
    from unspot.leopard.solvers import as_solver
except ModuleNotFoundError as error:
    raise ImportError(f"LEOPARD needs {error.name}: pip install {error.name}.") from error


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
        ``PaperSolver.preset("bios")`` and ``("dial")`` have the others. Where the search begins,
        and how many rows and steps it takes, are parameters of the solver.
    metric : {"euclidean", "standardised", "whitened"}
        The metric in which densities are matched: that of the embeddings (the paper); of columns
        that are divided by their standard deviations, for tables whose columns have different
        units (erased rows have the units of the rows again, P is not symmetric); or whitened,
        so that no affine change of the embeddings changes the result. That needs more rows than
        features: with fewer, whitened rows are all equally far apart and rounding decides.
    preserve : float
        How much to favour subspaces that keep variance, in units of the MMD² that LEACE leaves (1/n
        at least); 0 is the paper. Only with the manifold solver. MMD-based fair PCA has the same
        two terms, with a constraint in place of a weight: values such as 0.1, 0.3 and 1 are ours.
    kernel : {"paper", "reference"} or GaussianMixture
    random_state : int, RandomState or None
        Decides the sampled rows and mini-batches. The same seed gives the same bits.
    device : str or torch.device, optional
        Where to compute; by default the CPU.
    verbose : bool
        Show progress.
    normalise : bool
        Scale erased rows to unit norm. Densities are then matched on the unit sphere, where at most
        10,000 rows are looked at; with another metric, they are matched before that step.

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
    O(b²r + nr(d + r)) time per step for n rows, of which all pairs of b are looked at, and
    O(bd + Kr²) memory: b is 3,000 for up to three classes, 1,000 per class for more, and 10,000 at
    most. ``rank="auto"`` costs about two fits, and a few attacks of seconds each; with
    cross-fitting five paths on two fifths of the rows more.

    Numbers, several concepts, and what is ``given`` or to ``keep`` have features ψ instead of
    classes (``unspot.data.features``), and the loss is HSIC instead of MMD²
    (``unspot.leopard.discrepancy``). It is fitted on at most 10,000 rows, since low orders of HSIC
    are not summed over all; mean and covariance are those of all rows. They need the manifold
    solver, whose steps then cost as those of rank d, since removed directions count in part.

    Examples
    --------
    >>> import numpy as np
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
    >>> P = LEOPARD(rank=3, random_state=0).fit(X, age).eraser_.P
    >>> bool(P[1, 1] < 0.05)
    True
    >>> P = LEOPARD(rank=3, random_state=0).fit(X, {"z": z, "age": age}).eraser_.P
    >>> bool(P[0, 0] < 0.1 and P[1, 1] < 0.1)
    True
    """

    takes: ClassVar[tuple[str, ...]] = ANY_GOAL
    reads_rows: ClassVar[bool] = True
    min_rows_per_class: ClassVar[int] = 2

    def __init__(
        self,
        rank: int | float | Literal["auto"] = 0.5,
        *,
        max_advantage: float | None = None,
        metric: Literal["euclidean", "standardised", "whitened"] = "euclidean",
        preserve: float = 0.0,
        kernel: Literal["paper", "reference"] | GaussianMixture = "paper",
        solver: Literal["manifold", "paper"] | ManifoldSolver | PaperSolver = "manifold",
        normalise: bool = False,
        random_state: Any = None,
        device: Any = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.max_advantage = max_advantage
        self.metric = metric
        self.preserve = preserve
        self.kernel = kernel
        self.solver = solver
        self.normalise = normalise
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        solver, kernel = as_solver(self.solver), as_kernel(self.kernel)
        self._check(solver, goal)
        selection = self.select_rank(self, X, goal) if self.rank == "auto" else None
        self.rank_ = check_rank(selection.rank if selection else self.rank, X.shape[1])
        facts = {}
        if selection is not None:
            self.selection_, facts = selection, {"selection": selection.describe()}
        elif self.rank_ >= (most := min(X.shape[1], len(X) - 1)) > 1:  # with one there is no lower
            some = " in which rows vary" * (most < X.shape[1])
            warn(
                f"Got rank {self.rank_} of {most} dimensions{some}, which keeps them all: LEOPARD "
                "erases nothing. Choose a lower rank."
            )
        settings = Settings(
            self.rank_,
            solver,
            kernel,
            self.metric,
            self.preserve,
            self.normalise,
            self.device or "cpu",
            self.verbose,
        )
        subspace = fit_subspace(X, goal, settings, generator(self.random_state))
        history = subspace.history
        self.history_ = history.arrays()
        facts |= {"loss": history.loss[history.kept], "rows_used": subspace.rows_used}
        # The statistics may be of fewer rows, since some stop the search.
        whole = isinstance(X, np.ndarray)
        mean = X.mean(axis=0, dtype=np.float64) if whole else subspace.statistics.mean
        return Fit(Eraser.projection(subspace.U, mean, **facts), subspace.statistics)

    def select_rank(self, whole: BaseEraser, X: Any, goal: Goal) -> Any:
        """Choose the rank for this eraser, or for the cascade around it.

        The cascade is fitted anew on the rows that do not choose, all of its stages: rows that the
        first stage has seen would look cleaner than new ones.
        """
        from unspot.choice.path import fit_auto

        solver = as_solver(self.solver)
        self._check(solver, goal)
        return fit_auto(
            whole,
            X,
            goal,
            self.max_advantage,
            random_state=self.random_state,
            max_rows=getattr(solver, "max_rows", 1_000_000),
        ).selection_

    def _check(self, solver: ManifoldSolver | PaperSolver, goal: Goal) -> None:
        """Check the parameters, alone and for the goal."""
        check_choice("metric", self.metric, ("euclidean", "standardised", "whitened"))
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
        if goal.codes is None and isinstance(solver, PaperSolver):
            raise ValueError(
                f"Got solver={self.solver!r} for what is not one concept of categories, but "
                "expected solver='manifold': the paper's algorithm knows classes only."
            )
        if goal.conditions and self.rank == "auto":
            raise ValueError(
                "Got rank='auto' with given=… or keep=…, but expected a rank as a number: "
                "attackers choose it without conditions. unspot.erase(X, z, given=…) chooses one."
            )
