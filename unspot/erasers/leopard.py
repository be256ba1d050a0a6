"""L̄EOPARD: nonlinear erasure by an orthogonal projection that matches densities (Algorithm 1)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unspot.checks import check_rank
from unspot.data.labels import Labels
from unspot.data.sampling import generator, sample_and_held_out
from unspot.data.statistics import ClassStatistics, mean_difference_basis, whitening
from unspot.density import GaussianMixture, mmd2
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.streams import Rows
from unspot.projections import (
    LazyObjective,
    ManifoldSolver,
    Objective,
    PaperSolver,
    Preservation,
    complement,
    narrow,
    nearest_projector,
    start,
)
from unspot.projections.solvers import History
from unspot.scale.processes import class_statistics, team
from unspot.scale.shared_objective import led, shared

__all__ = ["LEOPARD"]

KERNELS = {"paper": GaussianMixture.paper, "reference": GaussianMixture.reference}
METRICS = ("euclidean", "whitened")
#: Of squared distances from the middle, the median that is too small a share of their mean.
FAR = 1e-6


class LEOPARD(BaseEraser):
    """Nonlinear concept erasure by an orthogonal projection of chosen rank.

    Finds the r-dimensional subspace in which the class-conditional densities are as alike as
    can be (unbiased MMD², Eqs. 4–6), and projects on it: P = UUᵀ (Eqs. 1–2). Distances inside
    the kept subspace stay exact. The rank is the dial between erasure and utility.

    Parameters
    ----------
    rank : int, float or "auto"
        r, the dimensions kept: an integer from 1 to d, or a fraction of d. ``"auto"``: the largest
        of a path of ranks at which no attacker has more than ``max_advantage`` over guessing on a
        fifth of the rows, which is set aside for that choice. Certify on yet other rows.
    max_advantage : float
        With ``rank="auto"``, what the strongest attacker may have above guessing in accuracy, every
        class counted alike.
    solver : {"manifold", "paper"}, ManifoldSolver or PaperSolver
        ``"manifold"``: L-BFGS over subspaces with a row budget and held-out stopping.
        ``"paper"``: Algorithm 1 to the letter, with the paper's settings for GloVe;
        ``PaperSolver.preset("bios")`` and ``("dial")`` have the others.
    metric : {"euclidean", "whitened"}
        In which metric densities are matched: that of the embeddings (the paper), or whitened,
        which no affine change of the embeddings can influence.
    preserve : float
        How much to favour subspaces that keep variance, in units of the MMD² that LEACE leaves (1/n
        at least); 0 is the paper. Only with the manifold solver.
    kernel : {"paper", "reference"} or GaussianMixture
    init : {"auto", "pca", "moments", "identity"} or array of shape (d, s)
        Where the search begins. ``"auto"``: the directions of most variance; in the whitened
        metric the moments, which no change of units can influence; for the paper's solver the
        truncated identity. Of an array with more than r columns, such as the basis U of a fit
        of higher rank, the r directions of least discrepancy are taken.
    max_rows : int
        The most rows that the manifold solver works on; its held-out rows come on top.
    random_state : int, RandomState or None
        Decides the sampled rows and mini-batches. The same seed gives the same bits.
    device : str or torch.device, optional
        Where to compute; by default the CPU.
    verbose : bool
        Show progress.

    Attributes
    ----------
    eraser_ : Eraser
        The frozen result.
    history_ : dict of arrays
        ``loss``, ``held_out``, ``evaluations`` and ``seconds``, one entry a step.
    rank_ : int
        The rank as an integer.
    selection_ : Selection
        With ``rank="auto"``: the rule, and the advantage at every rank that it looked at.
    classes_ : ndarray

    Notes
    -----
    O(b²r) time a step and O(bd) memory for b rows. The whole fit costs the same for a million
    rows as for ``max_rows``. ``rank="auto"`` costs about two fits, and a few attacks of seconds
    each.

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
    """

    min_rows_per_class: ClassVar[int] = 2
    reads_rows: ClassVar[bool] = True
    splits_work: ClassVar[bool] = True

    def __init__(
        self,
        rank: int | float | Literal["auto"] = 0.5,
        *,
        max_advantage: float = 0.02,
        solver: Literal["manifold", "paper"] | ManifoldSolver | PaperSolver = "manifold",
        metric: Literal["euclidean", "whitened"] = "euclidean",
        preserve: float = 0.0,
        kernel: Literal["paper", "reference"] | GaussianMixture = "paper",
        init: Any = "auto",
        max_rows: int = 10_000,
        random_state: Any = None,
        device: Any = None,
        verbose: bool = False,
    ) -> None:
        self.rank = rank
        self.max_advantage = max_advantage
        self.solver = solver
        self.metric = metric
        self.preserve = preserve
        self.kernel = kernel
        self.init = init
        self.max_rows = max_rows
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _fit_eraser(self, X: NDArray[Any], target: Labels) -> Eraser:
        solver = self._check()
        if isinstance(self.rank, str):
            return self._fit_auto(X, target)
        self.rank_ = check_rank(self.rank, X.shape[1])
        self._warn_if_all(X.shape[1])
        rng = generator(self.random_state)
        if isinstance(solver, PaperSolver):
            rows, held = np.arange(len(X)), np.arange(0)
            part = X.load() if isinstance(X, Rows) and solver.is_full_batch(len(X)) else X
        else:
            rows, held = team().agree(
                # The MMD² of a few rows is noise, and would choose by chance.
                sample_and_held_out(target.codes, self.max_rows, rng, min_held_out=40)
            )
            part = X[np.concatenate([rows, held])]  # of a file, one reading for both
        if part.dtype not in (np.float32, np.float64):
            part = part.astype(np.float32)
        init = self._init(solver)
        problem = _Problem.of(
            part if part is X else part[: len(rows)],
            target.codes[rows],
            len(target.classes),
            self.metric,
            # K·d² numbers, which only the start from moments looks at.
            per_class=isinstance(init, str) and init == "moments",
        )
        if not isinstance(problem.rows, Rows):
            _warn_of_outliers(problem.rows, problem.unit)
        objective = self._objective(problem)
        checks = []
        if len(held):
            checks = [self._held_out(problem, objective, part[len(rows) :], target.codes[held])]
        parts = shared(team(), objective, *checks)
        begin = problem.working(start(init, problem.statistics, self.rank_))
        V, history = led(team(), parts, lambda: self._search(solver, parts, begin, rng))
        self.history_ = history.arrays()
        U = problem.embedding_basis(V.cpu().double().numpy())
        return Eraser.projection(U, loss=history.loss[history.kept], rows_used=len(rows))

    def _fit_auto(self, X: NDArray[Any], target: Labels) -> Eraser:
        from unspot.ranks.path import fit_auto

        chosen = fit_auto(self, X, target, self.max_advantage)
        self.rank_, self.history_, self.selection_ = (
            chosen.rank_,
            chosen.history_,
            chosen.selection_,
        )
        self._warn_if_all(X.shape[1])
        known = {key: chosen.eraser_.metadata[key] for key in ("loss", "rows_used")}
        selection = {**self.selection_.describe(), "max_advantage": self.max_advantage}
        return Eraser(chosen.eraser_.maps, {**known, "selection": selection})

    def _warn_if_all(self, n_features: int) -> None:
        if self.rank_ == n_features > 1:  # of one feature there is no lower rank
            warnings.warn(
                f"Got rank {self.rank_} of {n_features} dimensions, which keeps them all: LEOPARD "
                "erases nothing. Choose a lower rank.",
                UserWarning,
                stacklevel=4,
            )

    def _check_team(self) -> None:
        super()._check_team()
        if self.rank == "auto" and team().size > 1:
            raise ValueError(
                f"Got rank='auto' and {team().size} processes, but attackers that choose a rank "
                "run in one. Fit without torchrun, or pass the rank as a number."
            )

    def _search(
        self,
        solver: ManifoldSolver | PaperSolver,
        objectives: list[Any],
        begin: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> tuple[torch.Tensor, History]:
        """The solver's way from the start, on one or on all processes."""
        objective, *checks = objectives
        check = checks[0].value if checks else None
        V = objective.new_empty(begin.shape).copy_(torch.from_numpy(begin))
        V = narrow(objective.sample() if objective.is_lazy else objective, V, self.rank_)
        if isinstance(solver, PaperSolver):
            return solver.minimise(objective, V, rng=rng, verbose=self.verbose)
        return solver.minimise(objective, V, held_out=check, verbose=self.verbose)

    def _check(self) -> ManifoldSolver | PaperSolver:
        """The solver, after checks of what does not depend on the data."""
        named = {"manifold": ManifoldSolver(), "paper": PaperSolver()}
        solver = named.get(self.solver) if isinstance(self.solver, str) else self.solver
        if not isinstance(solver, (ManifoldSolver, PaperSolver)):
            raise ValueError(
                f"Got solver={self.solver!r}, but expected 'manifold', 'paper', a ManifoldSolver "
                "or a PaperSolver."
            )
        if self.metric not in METRICS:
            raise ValueError(f"Got metric={self.metric!r}, but expected 'euclidean' or 'whitened'.")
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
        if self.max_rows < 8:
            raise ValueError(f"Got max_rows={self.max_rows!r}, but expected at least 8.")
        return solver

    def _init(self, solver: ManifoldSolver | PaperSolver) -> Any:
        if not (isinstance(self.init, str) and self.init == "auto"):
            return self.init
        if isinstance(solver, PaperSolver):
            return "identity"
        # Begun among the directions of most variance, the search keeps more of them.
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

    def _objective(self, problem: _Problem) -> Any:
        device = torch.device(self.device or "cpu")
        kernel = problem.kernel(self._kernel())
        if isinstance(problem.rows, Rows):
            z = torch.from_numpy(problem.codes)
            return LazyObjective(problem.rows, z, kernel, device)
        X = torch.from_numpy(problem.rows).to(device)
        z = torch.from_numpy(problem.codes).to(device)
        plain = Objective(X, z, kernel)
        if not self.preserve:
            return plain
        # The unit of the trade: the discrepancy that is left when the linear signal is gone, and
        # 1/n where that is noise: of zero, or less, no λ would be worth anything.
        kept = complement(problem.working(mean_difference_basis(problem.statistics)))
        left = max(float(mmd2(X @ X.new_tensor(kept), z, plain.kernel)), 1 / len(X))
        return Objective(X, z, plain.kernel, problem.preservation(X), self.preserve * left)

    def _held_out(
        self, problem: _Problem, objective: Objective, X: NDArray[Any], codes: NDArray[Any]
    ) -> Objective:
        rows = objective.X.new_tensor(problem.coordinates(X))
        z = torch.from_numpy(codes).to(rows.device)
        return Objective(rows, z, objective.kernel, objective.preservation, objective.weight)


@dataclass(frozen=True)
class _Problem:
    """The rows in working coordinates: centred, and whitened if the metric says so."""

    rows: Any  # (n, d), an array or Rows that are read by mini-batches
    codes: NDArray[np.int64]
    statistics: ClassStatistics
    whiten: NDArray[np.float64] | None  # B, (d, d), invertible
    unwhiten: NDArray[np.float64] | None
    #: A power of two near the rows' deviation. In units of it squares fit single precision, and
    #: but for that all bits are as they were.
    unit: float = 1.0

    @classmethod
    def of(
        cls, X: Any, codes: NDArray[np.int64], n_classes: int, metric: str, *, per_class: bool
    ) -> _Problem:
        collect = class_statistics if isinstance(X, Rows) else ClassStatistics.from_rows
        statistics = collect(X, codes, n_classes, per_class=per_class)
        if metric == "whitened":
            problem = cls(X, codes, statistics, *whitening(statistics.covariance, invertible=True))
        else:
            problem = cls(X, codes, statistics, None, None, _unit(statistics))
        return replace(problem, rows=problem.coordinates(X))

    def coordinates(self, X: Any) -> Any:
        """Rows in working coordinates, in the dtype of the rows."""
        if isinstance(X, Rows):
            return X.mapped(self.coordinates)
        centred = (X.astype(np.float64) - self.statistics.mean) / self.unit
        if self.whiten is not None:
            centred = centred @ self.whiten
        return np.ascontiguousarray(centred, dtype=self.rows.dtype)

    def working(self, U: NDArray[np.float64]) -> NDArray[np.float64]:
        """A basis in working coordinates for the span of U in those of the embeddings."""
        return U if self.unwhiten is None or not U.size else nearest_projector(self.unwhiten @ U)

    def embedding_basis(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """The way back: an orthonormal basis in the coordinates of the embeddings."""
        return nearest_projector(V if self.whiten is None else self.whiten @ V)

    def kernel(self, kernel: GaussianMixture) -> GaussianMixture:
        """A kernel for the embeddings, or for whitened ones, in working coordinates."""
        if isinstance(kernel.bandwidth, str):
            return kernel
        return replace(kernel, bandwidth=kernel.bandwidth / self.unit)

    def preservation(self, like: torch.Tensor) -> Preservation:
        cov = self.statistics.covariance / self.unit**2
        if self.whiten is None:
            return Preservation(None, like.new_tensor(cov), float(np.trace(cov)) or 1.0)
        B = self.whiten
        return Preservation(
            like.new_tensor(B.T @ B), like.new_tensor(B.T @ cov @ B), float(np.trace(cov)) or 1.0
        )


def _unit(statistics: ClassStatistics) -> float:
    variance = float(np.diagonal(statistics.covariance).mean())
    return 2.0 ** round(np.log2(variance) / 2) if variance > 0 else 1.0


def _warn_of_outliers(rows: NDArray[Any], unit: float) -> None:
    """Far rows make the bandwidth, a mean distance, so wide that all others look alike."""
    middle = np.median(rows[:: max(1, len(rows) // 1000)], axis=0)
    squares = np.square(rows - middle).sum(axis=1, dtype=np.float64)
    if 0 < np.median(squares) < FAR * squares.mean():
        farthest, usual = unit * np.sqrt([squares.max(), np.median(squares)])
        warnings.warn(
            f"Got rows as far as {farthest:.3g} from the middle, where half of them are within "
            f"{usual:.3g}: beside the far ones, LEOPARD hardly sees differences among the others. "
            "Remove or clip them.",
            UserWarning,
            stacklevel=4,
        )
