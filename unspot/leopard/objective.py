"""The function of a subspace that a fit minimises: the loss of XV minus the share of variance kept.

``Objective`` holds its rows in memory, ``MiniBatches`` makes one of each mini-batch, ``Softened``
lets removed directions count in part, ``Preserving`` favours variance, and ``narrow`` looks at the
gradient of an objective to choose directions inside a subspace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspot.data.rows import stratified_batches
from unspot.leopard.discrepancy import PairWeights, discrepancy, discrepancy_and_grad
from unspot.leopard.kernels import GaussianMixture
from unspot.machine import divisible, in_threads

#: Rows of one matrix product.
BLOCK_ROWS = 256


@dataclass(frozen=True)
class Preservation:
    """λ times the share of variance kept by a subspace, tr(UᵀΣU)/tr Σ, as a function of V.

    V is in working coordinates and U = orth(BV) in those of the embeddings, where B is the
    identity or a whitening. Then UUᵀ = BV(VᵀB²V)⁻¹VᵀB, so the share is tr(M⁻¹N)/tr Σ with
    M = VᵀB²V and N = VᵀBΣBV. It is smooth, and the same for every basis of a subspace.
    """

    back_squared: Tensor | None  # B², (d, d); None for the identity
    covariance: Tensor  # BΣB, (d, d)
    variance: float  # tr Σ
    weight: float = 1.0  # λ, in units of the loss

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Compute the value and its gradient with respect to V, (d, r). O(d²r)."""
        AV = V if self.back_squared is None else self.back_squared @ V
        BV = self.covariance @ V
        M, N = V.T @ AV, V.T @ BV
        inverse = torch.linalg.inv(M)
        unit = self.weight / self.variance
        grad = (BV @ inverse - AV @ (inverse @ N @ inverse)) * (2.0 * unit)
        return unit * float((inverse * N.T).sum()), grad

    def of_directions(self, V: Tensor) -> Tensor:
        """Compute the matrix whose quadratic form is what each direction of span(V) adds."""
        N = (V.T @ self.covariance @ V).double()
        if self.back_squared is not None:
            N = torch.linalg.solve((V.T @ self.back_squared @ V).double(), N)
        return N * (self.weight / self.variance)


def project(X: Tensor, V: Tensor) -> Tensor:
    """Compute XV by blocks of rows, so that a row's bits do not depend on other rows. O(ndr)."""
    Y, V = X.new_empty(len(X), V.shape[1]), V.detach()  # other threads do not know of no_grad

    def work(block: slice) -> None:
        torch.mm(X[block], V, out=Y[block])

    deque(_by_blocks(work, X), maxlen=0)
    return Y


def pull_back(X: Tensor, G: Tensor) -> Tensor:
    """Compute XᵀG by blocks of rows, added up in float64. O(ndr)."""
    total = X.new_zeros(X.shape[1], G.shape[1], dtype=torch.float64)
    for part in _by_blocks(lambda block: X[block].T @ G[block], X):
        total += part
    return total


def unit_rows(Y: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Scale rows to unit norm, and return the way back of a gradient to Y. O(nr).

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
    """Yield the results of every block of rows, in order."""
    blocks = (slice(i, i + BLOCK_ROWS) for i in range(0, len(X), BLOCK_ROWS))
    return in_threads(work, blocks, most=divisible() if X.device.type == "cpu" else 1)


@dataclass(frozen=True)
class Objective:
    """L(XV) and its gradient with respect to V.

    Parameters
    ----------
    X : Tensor of shape (n, d)
        Rows in working coordinates.
    weights : PairWeights
        MMD² between classes, or HSIC with features of any other concept.
    kernel : GaussianMixture
    on_sphere : bool
        Whether the projected rows are compared after they are scaled to unit norm.
    """

    X: Tensor
    weights: PairWeights
    kernel: GaussianMixture
    on_sphere: bool = False

    def value(self, V: Tensor) -> float:
        """Compute only the value, for a third of the cost of value and gradient."""
        Y, _ = self._shown(project(self.X, V))
        return float(discrepancy(Y, self.weights, self.kernel))

    def __call__(self, V: Tensor, *, detach_bandwidth: bool = False) -> tuple[float, Tensor]:
        """Compute value and gradient. O(n²r + ndr)."""
        Y, back = self._shown(project(self.X, V))
        loss, grad_Y = discrepancy_and_grad(
            Y, self.weights, self.kernel, detach_bandwidth=detach_bandwidth
        )
        return float(loss), pull_back(self.X, back(grad_Y)).to(V.dtype)

    def _shown(self, Y: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return projected rows as the kernel sees them, and the way back of a gradient."""
        return unit_rows(Y) if self.on_sphere else (Y, lambda gradient: gradient)


@dataclass(frozen=True)
class MiniBatches:
    """Objectives of stratified mini-batches, whose rows are read when a batch needs them.

    Parameters
    ----------
    rows : array-like of shape (n, d)
        In working coordinates. ``rows[numbers]`` reads some of them.
    codes : array of shape (n,)
        Class codes.
    kernel : GaussianMixture
    device : torch.device
    on_sphere : bool
    """

    rows: Any
    codes: NDArray[np.int64]
    kernel: GaussianMixture
    device: torch.device
    on_sphere: bool = False

    def epoch(self, batch_size: int, rng: np.random.Generator) -> Iterator[Objective]:
        """Yield the objectives of one pass over all rows."""
        for rows in stratified_batches(self.codes, batch_size, rng):
            yield self._objective(rows)

    def sample(self, size: int = 8192) -> Objective:
        """Return the objective of about ``size`` rows, the same rows in every call."""
        rows = stratified_batches(self.codes, size, np.random.default_rng(0))[0]
        return self._objective(rows)

    def _objective(self, rows: NDArray[np.int64]) -> Objective:
        X = torch.from_numpy(self.rows[rows]).to(self.device)
        weights = PairWeights.between(self.codes[rows], self.device)
        return Objective(X, weights, self.kernel, on_sphere=self.on_sphere)


@dataclass(frozen=True)
class Softened:
    """An objective in which removed directions count in part: rows are XS, S = αI + (1−α)VVᵀ.

    Say that one direction shows the concept by its variance, by s. A direction at an angle θ to
    those that stay then shows it by sθ², and the loss at α = 0 is (sθ² + e)² with an error e of
    1/√n: any θ² up to |e/s| looks as good as zero, since what the direction shows can cancel e.
    With α > 0 the loss also has the term 2α²s²θ², and θ² is only of the order of e²/s².

    Parameters
    ----------
    objective : Objective
    share : float
        α, in [0, 1). At 0 the value is that of the objective.

    Notes
    -----
    A step costs as much as one of rank d.

    Examples
    --------
    >>> X = torch.randn((50, 3), generator=torch.Generator().manual_seed(0))
    >>> hard = Objective(X, PairWeights.between(torch.arange(50) % 2), GaussianMixture.paper())
    >>> V = torch.eye(3)[:, :2]
    >>> abs(Softened(hard, 0.0).value(V) - hard.value(V)) < 1e-6
    True
    """

    objective: Objective
    share: float

    def value(self, V: Tensor) -> float:
        """Compute only the value."""
        return self.objective.value(self._metric(V))

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Compute value and gradient."""
        loss, grad_S = self.objective(self._metric(V))
        return loss, (1.0 - self.share) * ((grad_S + grad_S.T) @ V)

    def _metric(self, V: Tensor) -> Tensor:
        return self.share * torch.eye(len(V)).to(V) + (1.0 - self.share) * (V @ V.T)


@dataclass(frozen=True)
class Preserving:
    """Any of these losses minus λ·(share of variance kept)."""

    objective: Any
    term: Preservation

    def value(self, V: Tensor) -> float:
        """Compute only the value."""
        return float(self.objective.value(V)) - self.term(V)[0]

    def __call__(self, V: Tensor) -> tuple[float, Tensor]:
        """Compute value and gradient."""
        (loss, grad), (preserved, grad_preserved) = self.objective(V), self.term(V)
        return loss - preserved, grad - grad_preserved


def narrow(
    objective: Any, V: Tensor, rank: int, preservation: Preservation | None = None
) -> Tensor:
    """Choose the r directions in span(V) in which the classes differ least, orthonormal (d, r).

    In a metric M the loss depends on (y − y′)ᵀM(y − y′) for y = Vᵀx, and its gradient at M = I is
    D = ½YᵀG with G = ∂L/∂Y. Without a direction v, the loss falls by about vᵀDv. So the
    eigenvectors of the smallest eigenvalues of D stay. At most half of the dimensions are removed
    before D is computed again, since D depends on the subspace.

    Parameters
    ----------
    objective : Objective or AllRows
        The loss. Best on other rows than those that V was fitted on, where all directions of V
        look better than they are.
    V : Tensor of shape (d, s)
        Orthonormal, s ≥ r.
    rank : int
        r.
    preservation : Preservation, optional
        Favours directions of much variance.

    Notes
    -----
    Computes one gradient each time it halves the dimension: O(n²s) time.

    Examples
    --------
    >>> z = torch.arange(400) % 2
    >>> X = torch.randn((400, 3), generator=torch.Generator().manual_seed(0))
    >>> X[z == 1, 1] *= 4
    >>> V = narrow(Objective(X, PairWeights.between(z), GaussianMixture.paper()), torch.eye(3), 2)
    >>> bool(V[1].norm() < 0.3)  # the direction in which the classes differ is gone
    True
    """
    while V.shape[1] > rank:
        smaller = max(rank, V.shape[1] // 2)
        _, gradient = objective(V)
        D = 0.5 * (V.T @ gradient).double()
        if preservation is not None:
            D = D - preservation.of_directions(V)
        _, vectors = torch.linalg.eigh((D + D.T) / 2)
        V = V @ vectors[:, :smaller].to(V.dtype)
    return V
