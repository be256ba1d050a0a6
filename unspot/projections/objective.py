"""The function of a subspace that a fit minimises: MMD² or HSIC minus the share of variance kept.

``Objective`` holds its rows in memory, ``LazyObjective`` reads them one mini-batch at a time,
``Softened`` lets directions that go count in part, and ``narrow`` looks at the gradient of an
objective to choose directions inside a subspace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.rows import stratified_batches
from unspot.density import GaussianMixture, PairWeights, discrepancy, discrepancy_and_grad
from unspot.machine import divisible, in_threads

__all__ = [
    "BLOCK_ROWS",
    "LazyObjective",
    "Objective",
    "Preservation",
    "Softened",
    "narrow",
    "project",
    "pull_back",
    "unit_rows",
]


#: Rows of one matrix product.
BLOCK_ROWS = 256


@dataclass(frozen=True)
class Preservation:
    """The share of variance kept by a subspace, tr(UᵀΣU)/tr Σ, as a function of V.

    V is in working coordinates and U = orth(BV) in those of the embeddings, where B is the
    identity or a whitening. Then UUᵀ = BV(VᵀB²V)⁻¹VᵀB, so the share is tr(M⁻¹N)/tr Σ with
    M = VᵀB²V and N = VᵀBΣBV. It is smooth, and the same for every basis of a subspace.
    """

    back_squared: Tensor | None  # B², (d, d); None for the identity
    covariance: Tensor  # BΣB, (d, d)
    variance: float  # tr Σ

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """The share and its gradient with respect to V, (d, r). O(d²r)."""
        AV = V if self.back_squared is None else self.back_squared @ V
        BV = self.covariance @ V
        M, N = V.T @ AV, V.T @ BV
        inverse = torch.linalg.inv(M)
        share = float((inverse * N.T).sum()) / self.variance
        grad = (BV @ inverse - AV @ (inverse @ N @ inverse)) * (2.0 / self.variance)
        return share, grad


def project(X: Tensor, V: Tensor) -> Tensor:
    """XV by blocks of rows, so that the bits of a row do not depend on the other rows. O(ndr)."""
    Y, V = X.new_empty(len(X), V.shape[1]), V.detach()  # other threads do not know of no_grad

    def work(block: slice) -> None:
        torch.mm(X[block], V, out=Y[block])

    deque(_by_blocks(work, X), maxlen=0)
    return Y


def pull_back(X: Tensor, G: Tensor) -> Tensor:
    """XᵀG by blocks of rows, added up in float64. O(ndr)."""
    total = X.new_zeros(X.shape[1], G.shape[1], dtype=torch.float64)
    for part in _by_blocks(lambda block: X[block].T @ G[block], X):
        total += part
    return total


def unit_rows(Y: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Rows of unit norm, and the gradient for Y as a function of the gradient for them. O(nr).

    Examples
    --------
    >>> unit, back = unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    >>> unit.tolist()[1], back(unit).abs().max().item() < 1e-6  # no way along a row changes it
    ([0.0, 0.0], True)
    """
    norms = Y.norm(dim=1, keepdim=True)
    norms[norms == 0] = torch.inf  # a row of zeros stays, and nothing pulls at it
    unit = Y / norms

    def back(gradient: Tensor) -> Tensor:
        return (gradient - (gradient * unit).sum(dim=1, keepdim=True) * unit) / norms

    return unit, back


def _by_blocks(work: Callable[[slice], Any], X: Tensor) -> Iterator[Any]:
    """Results of every block of rows, in order."""
    blocks = (slice(i, i + BLOCK_ROWS) for i in range(0, len(X), BLOCK_ROWS))
    return in_threads(work, blocks, most=divisible() if X.device.type == "cpu" else 1)


@dataclass(frozen=True)
class Objective:
    """MMD²(XV), or HSIC, − λ·(share of variance kept), and its gradient with respect to V.

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Rows in working coordinates.
    z : Tensor of shape (n,), or PairWeights
        Class codes, or what pairs of rows weigh for any other concept.
    kernel : GaussianMixture
    preservation : Preservation, optional
    weight : float
        λ, already in units of MMD².
    on_sphere : bool
        Whether the projected rows are compared after they are scaled to unit norm.
    """

    is_lazy: ClassVar[bool] = False

    X: Tensor
    z: Tensor | PairWeights
    kernel: GaussianMixture
    preservation: Preservation | None = None
    weight: float = 0.0
    on_sphere: bool = False

    def value(self, V: Tensor) -> float:
        """Only the value, for a third of the cost of value and gradient."""
        Y, _ = self.shown(project(self.X, V))
        return float(discrepancy(Y, self.z, self.kernel)) - self.kept(V)[0]

    def __call__(self, V: Tensor, *, detach_bandwidth: bool = False) -> tuple[float, Tensor]:
        """Value and gradient. O(n²r + ndr)."""
        Y, back = self.shown(project(self.X, V))
        loss, grad_Y = discrepancy_and_grad(
            Y, self.z, self.kernel, detach_bandwidth=detach_bandwidth
        )
        kept, grad_kept = self.kept(V)
        grad = pull_back(self.X, back(grad_Y)).to(V.dtype)
        return float(loss) - kept, grad if grad_kept is None else grad - grad_kept

    def subset(self, rows: NDArray[np.int64]) -> Objective:
        """The objective of a mini-batch, of rows with class codes."""
        assert isinstance(self.z, Tensor)
        index = torch.from_numpy(rows).to(self.X.device)
        return replace(self, X=self.X[index], z=self.z[index])

    def shown(self, Y: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Projected rows as the kernel sees them, and the way back of a gradient."""
        return unit_rows(Y) if self.on_sphere else (Y, lambda gradient: gradient)

    def new_empty(self, shape: tuple[int, int]) -> Tensor:
        """A matrix of the rows' dtype and device."""
        return self.X.new_empty(shape)

    def kept(self, V: Tensor) -> tuple[float, Tensor | None]:
        """λ·(share of variance kept) and its gradient, or 0 and None if λ is 0."""
        if self.preservation is None or self.weight == 0.0:
            return 0.0, None
        share, grad = self.preservation(V)
        return self.weight * share, self.weight * grad


@dataclass(frozen=True)
class LazyObjective:
    """An objective for mini-batches only, whose rows are read when a batch needs them.

    Parameters
    ----------
    rows : array-like of shape (n, d)
        In working coordinates. ``rows[numbers]`` reads some of them.
    z : Tensor of shape (n,)
        Class codes, on the CPU.
    kernel : GaussianMixture
    device : torch.device
    on_sphere : bool
    """

    is_lazy: ClassVar[bool] = True

    rows: Any
    z: Tensor
    kernel: GaussianMixture
    device: torch.device
    on_sphere: bool = False

    def subset(self, rows: NDArray[np.int64]) -> Objective:
        """The objective of a mini-batch. Reads its rows."""
        X = torch.from_numpy(self.rows[rows]).to(self.device)
        z = self.z[torch.from_numpy(rows)].to(self.device)
        return Objective(X, z, self.kernel, on_sphere=self.on_sphere)

    shown = Objective.shown

    def sample(self, size: int = 8192) -> Objective:
        """The objective of one batch of about ``size`` rows, the same batch in every call."""
        return self.subset(stratified_batches(self.z.numpy(), size, np.random.default_rng(0))[0])

    def new_empty(self, shape: tuple[int, int]) -> Tensor:
        """A matrix of the rows' dtype and device."""
        return torch.from_numpy(np.empty(shape, self.rows.dtype)).to(self.device)

    def kept(self, V: Tensor) -> tuple[float, Tensor | None]:
        """As ``Objective.kept``: there is no such term here."""
        return 0.0, None


@dataclass(frozen=True)
class Softened:
    """An objective in which directions that go count in part: rows are XS, S = αI + (1−α)VVᵀ.

    Say that one direction tells the concept by its variance, by s. A direction at an angle θ to
    those that stay then tells it by sθ², and the loss at α = 0 is (sθ² + e)² with an error e of
    1/√n: any θ² up to |e/s| looks as good as zero, since what the direction tells can cancel e.
    With α > 0 the loss also has the term 2α²s²θ², and θ² is only of the order of e²/s².

    Parameters
    ----------
    objective : Objective
    share : float
        α, in [0, 1). At 0 the value is that of the objective (which then must not favour variance).

    Notes
    -----
    A step costs as much as one of rank d.

    Examples
    --------
    >>> from unspot.density import GaussianMixture
    >>> X = torch.randn((50, 3), generator=torch.Generator().manual_seed(0))
    >>> hard = Objective(X, torch.arange(50) % 2, GaussianMixture.paper())
    >>> V = torch.eye(3)[:, :2]
    >>> abs(Softened(hard, 0.0).value(V) - hard.value(V)) < 1e-6
    True
    """

    objective: Objective
    share: float

    def value(self, V: Tensor) -> float:
        """Only the value."""
        loss = self.objective.value(self._metric(V))
        return loss + self._kept_of_all() - self.objective.kept(V)[0]

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Value and gradient."""
        loss, grad_S = self.objective(self._metric(V))
        kept, grad_kept = self.objective.kept(V)
        grad = (1.0 - self.share) * ((grad_S + grad_S.T) @ V)
        value = loss + self._kept_of_all() - kept
        return value, grad if grad_kept is None else grad - grad_kept

    def _metric(self, V: Tensor) -> Tensor:
        return self.share * torch.eye(len(V)).to(V) + (1.0 - self.share) * (V @ V.T)

    def _kept_of_all(self) -> float:
        """What the objective has subtracted: S spans all directions, which keep all variance."""
        return self.objective.weight if self.objective.preservation is not None else 0.0


def narrow(objective: Objective, V: Tensor, rank: int) -> Tensor:
    """The r directions in span(V) in which the classes differ least, as an orthonormal (d, r).

    In a metric M the loss depends on (y − y′)ᵀM(y − y′) for y = Vᵀx, and its gradient at M = I is
    D = ½YᵀG with G = ∂L/∂Y. Without a direction v, the loss falls by about vᵀDv. So the
    eigenvectors of the smallest eigenvalues of D stay. At most half of the dimensions are removed
    before D is computed again, since D depends on the subspace.

    Parameters
    ----------
    objective : Objective
        The loss. Best on other rows than those that V was fitted on, where all directions of V
        look better than they are.
    V : Tensor of shape (d, s)
        Orthonormal, s ≥ r.
    rank : int
        r.

    Notes
    -----
    Computes one gradient each time it halves the dimension: O(n²s) time.

    Examples
    --------
    >>> from unspot.density import GaussianMixture
    >>> z = torch.arange(400) % 2
    >>> X = torch.randn((400, 3), generator=torch.Generator().manual_seed(0))
    >>> X[z == 1, 1] *= 4
    >>> V = narrow(Objective(X, z, GaussianMixture.paper()), torch.eye(3), 2)
    >>> bool(V[1].norm() < 0.3)  # the direction in which the classes differ is gone
    True
    """
    while V.shape[1] > rank:
        smaller = max(rank, V.shape[1] // 2)
        # The gradient is XᵀG, since Vᵀ times that of the term for variance is zero.
        _, gradient = objective(V)
        D = 0.5 * (V.T @ gradient).double()
        term = objective.preservation
        if term is not None and objective.weight != 0.0:  # what each direction adds to that term
            N = (V.T @ term.covariance @ V).double()
            if term.back_squared is not None:
                N = torch.linalg.solve((V.T @ term.back_squared @ V).double(), N)
            D = D - N * (objective.weight / term.variance)
        _, vectors = torch.linalg.eigh((D + D.T) / 2)
        V = V @ vectors[:, :smaller].to(V.dtype)
    return V
