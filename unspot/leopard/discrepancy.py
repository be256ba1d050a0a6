"""The erasure loss, one sum over pairs of rows, and its exact gradient.

L = Σ_{a≠b} c_ab k(‖y_a − y_b‖²) for projected rows y and weights c_ab that sum to zero over the
pairs of a row. With the weights of classes it is the unbiased MMD² between classes (Eqs. 4–6). With
c_ab = ψ(z_a)·ψ(z_b) for centred features ψ it is the unbiased HSIC of y and z: MMD² for concepts
without classes, such as numbers, several concepts, or a concept within each value of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspot.leopard.kernels import Factors, GaussianMixture, Tiles, kernel_sums, mean_bandwidth

#: Fewest rows that have an unbiased HSIC.
LEAST_ROWS = 4


class Term(NamedTuple):
    """One term of the loss: weight · Σ_g p_g HSIC(y, ψ) within groups g of rows.

    ``groups`` are codes from 0 up, −1 for rows without a value; None for one group of all rows.
    """

    features: Tensor  # ψ, (n, m)
    weight: float = 1.0
    groups: Tensor | None = None  # (n,)


class _Part(NamedTuple):
    """Rows whose pairs have weights, in the order of their tiles."""

    rows: Tensor
    tiles: Tiles
    weights: list[list[float]] | Factors


@dataclass(frozen=True)
class PairWeights:
    """The weights c_ab of all pairs of n rows, as tables of classes or as products of features.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [2.0], [4.0], [5.0]])
    >>> discrepancy(Y, PairWeights.between([0, 0, 1, 1, 1])).item()
    2.0221...
    >>> discrepancy(Y, PairWeights.of([Term(torch.tensor([-1.0, -1, 1, 1, 1])[:, None])])).item()
    0.8088...
    """

    n_rows: int
    parts: tuple[_Part, ...]
    size: float = 1.0  # sum of the absolute weights of all terms

    @classmethod
    def between(cls, z: Any, device: Any = None) -> PairWeights:
        """Build the weights of the unbiased MMD², summed over all pairs of classes (Eqs. 4–6).

        Parameters
        ----------
        z : integers of shape (n,)
            The class of each row, at least two rows of each.
        device : torch.device, optional
        """
        values = torch.as_tensor(z, device=device)
        if values.ndim != 1:
            raise ValueError(
                f"Got z of shape {tuple(values.shape)}, but expected (n,): a class for each row."
            )
        classes, codes, counts = torch.unique(values, return_inverse=True, return_counts=True)
        if len(classes) < 2 or int(counts.min()) < 2:
            raise ValueError(
                f"Got classes of {counts.tolist()} rows, but expected at least two classes of at "
                "least two rows each."
            )
        tiles = Tiles.of(codes)
        return cls(len(codes), (_Part(tiles.order, tiles, class_weights(tiles.counts)),))

    @classmethod
    def of(cls, terms: Sequence[Term]) -> PairWeights:
        """Build the weights of a sum of HSIC terms. O(nm) time and memory."""
        n = len(terms[0].features)
        whole: list[Factors] = []
        parts = []
        for term in terms:
            rows, codes = _grouped(term.groups, n, term.features.device)
            if not len(rows):
                continue
            factors = _unbiased(term.features[rows].double(), codes, term.weight)
            if int(codes.max()) == 0:  # one group: its rows and others are summed up together
                whole.append(Factors(*(_spread(factor, rows, n) for factor in factors)))
            else:
                tiles = Tiles.of(codes)
                order = tiles.order
                sorted_factors = Factors(factors.left[order], factors.right[order])
                parts.append(_Part(rows[order], tiles, sorted_factors))
        if whole:
            one = torch.zeros(n, dtype=torch.int64, device=whole[0].left.device)
            left, right = (torch.cat(factors, 1) for factors in zip(*whole, strict=True))
            parts.append(_Part(torch.arange(n).to(one), Tiles.of(one), Factors(left, right)))
        if not parts:
            raise ValueError(
                f"Got {n} rows, but expected a group of at least {LEAST_ROWS} rows: fewer have no "
                "unbiased HSIC. Add rows."
            )
        return cls(n, tuple(parts), sum(abs(term.weight) for term in terms))

    def __len__(self) -> int:
        return self.n_rows

    def by_pair(self) -> Iterator[tuple[Tensor, tuple[_Part, ...]]]:
        """Yield the rows and the parts that share a bandwidth if each pair of classes has its own.

        HSIC has no pairs of classes: all its rows share one.
        """
        for part in self.parts:
            if isinstance(part.weights, Factors):
                yield torch.arange(self.n_rows, device=part.rows.device), self.parts
                return
            for i, j in combinations(range(len(part.tiles.counts)), 2):
                chosen = (part.tiles.codes == i) | (part.tiles.codes == j)
                yield part.rows[chosen], PairWeights.between(part.tiles.codes[chosen]).parts


def class_weights(counts: tuple[int, ...]) -> list[list[float]]:
    """Tabulate c_ab of Eqs. 4–6 by the classes of a and b, K × K."""
    K = len(counts)
    return [
        [(K - 1.0) / (n * (n - 1)) if i == j else -1.0 / (n * m) for j, m in enumerate(counts)]
        for i, n in enumerate(counts)
    ]


def _grouped(groups: Tensor | None, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Find the rows of groups that are large enough, and codes of these groups from 0 up."""
    if groups is None:
        groups = torch.zeros(n, dtype=torch.int64, device=device)
    rows = torch.nonzero(groups >= 0)[:, 0]
    _, codes, counts = torch.unique(groups[rows], return_inverse=True, return_counts=True)
    enough = counts[codes] >= LEAST_ROWS
    return rows[enough], torch.unique(codes[enough], return_inverse=True)[1]


def _unbiased(psi: Tensor, codes: Tensor, weight: float) -> Factors:
    """Factorise c_ab = w·p_g/(n(n − 3))·(ψ_a·ψ_b + u_a + u_b) in groups g of n rows.

    That is the unbiased HSIC of Song et al. (2012), written as a sum over pairs: u makes the
    weights of the pairs of every row, the pair with itself left out, sum to zero.
    """
    counts = torch.bincount(codes).double()
    sums = torch.zeros(len(counts), psi.shape[1]).to(psi).index_add_(0, codes, psi)
    n = counts[codes]
    psi = psi - (sums / counts[:, None])[codes]  # changes no weight, and keeps digits
    excess = -(psi * psi).sum(1)  # Σ_{b≠a} ψ_a·ψ_b of centred features
    total = torch.zeros(len(counts)).to(psi).index_add_(0, codes, excess)[codes]
    u = total / (2 * (n - 1) * (n - 2)) - excess / (n - 2)
    scale = (weight * n / len(psi) / (n * (n - 3)))[:, None]
    ones = torch.ones_like(u)[:, None]
    return Factors(
        scale * torch.cat([psi, u[:, None], ones], 1), torch.cat([psi, ones, u[:, None]], 1)
    )


def _spread(values: Tensor, rows: Tensor, n: int) -> Tensor:
    """Place values of some of n rows among zeros."""
    if len(rows) == n:
        return values
    return values.new_zeros(n, values.shape[1]).index_copy_(0, rows, values)


# -- The loss --------------------------------------------------------------------------------------


def discrepancy(Y: Tensor, weights: PairWeights, kernel: GaussianMixture | None = None) -> Tensor:
    """Compute L = Σ_{a≠b} c_ab k(‖y_a − y_b‖²).

    An unbiased estimate: its mean is zero if rows and concept are independent, so it may be
    negative.

    Parameters
    ----------
    Y : Tensor of shape (n, r)
        Projected embeddings.
    weights : PairWeights
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.

    Notes
    -----
    O(n²(r + m)) time for m features (0 for classes), O(n(r + m)) memory.
    """
    return _value_and_grad(Y, weights, kernel, gradient=False)[0]


def discrepancy_and_grad(
    Y: Tensor,
    weights: PairWeights,
    kernel: GaussianMixture | None = None,
    *,
    detach_bandwidth: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute the loss and its gradient with respect to Y, in closed form.

    Parameters
    ----------
    Y, weights, kernel
        See ``discrepancy``.
    detach_bandwidth : bool
        Treat σ as a constant, as the paper's code does. By default the gradient includes how σ
        depends on Y, so that it is the gradient of ``discrepancy``.

    Notes
    -----
    O(n²r) time, as much as 1.5 products of an n×r and an r×n matrix; O(nr) memory.
    """
    value, grad = _value_and_grad(Y, weights, kernel, gradient=True, detach=detach_bandwidth)
    assert grad is not None
    return value, grad.to(Y.dtype)


def mmd2(Y: Tensor, z: Any, kernel: GaussianMixture | None = None) -> Tensor:
    """Compute the unbiased MMD² of rows and their class codes z, (n,) (Eqs. 4–6).

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [0.0], [1.0]])
    >>> mmd2(Y, [0, 0, 1, 1], GaussianMixture((2.0,), bandwidth=1.0)).item()
    -0.3934...
    """
    return discrepancy(Y, PairWeights.between(z, Y.device), kernel)


def hsic(Y: Tensor, features: Any, kernel: GaussianMixture | None = None) -> Tensor:
    """Compute the unbiased HSIC of rows and features, (n,) or (n, m)."""
    return discrepancy(Y, _of_features(features, Y.device), kernel)


def _of_features(z: Any, device: Any = None) -> PairWeights:
    psi = torch.as_tensor(z, device=device)
    return PairWeights.of([Term(psi[:, None] if psi.ndim == 1 else psi)])


class MMDLoss(nn.Module):
    """Density matching for any training loop: ``MMDLoss()(features, classes)``.

    The forward pass computes value and gradient together, tile by tile. A step takes O(n²r) time
    and O(nr) memory, and autograd stores no n×n matrices.

    Parameters
    ----------
    kernel : GaussianMixture, optional
        By default the paper's five kernels with a pooled bandwidth.
    detach_bandwidth : bool
        Treat σ as a constant in the gradient.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [2.0], [4.0]], requires_grad=True)
    >>> MMDLoss()(Y, torch.tensor([0, 0, 1, 1])).backward()
    >>> Y.grad.shape
    torch.Size([4, 1])
    """

    _weights = staticmethod(PairWeights.between)

    def __init__(
        self, kernel: GaussianMixture | None = None, *, detach_bandwidth: bool = False
    ) -> None:
        super().__init__()
        self.kernel = kernel or GaussianMixture.paper()
        self.detach_bandwidth = detach_bandwidth

    def forward(self, Y: Tensor, z: Any) -> Tensor:
        return _Tiled.apply(Y, self._weights(z, Y.device), self)


class HSICLoss(MMDLoss):
    """Independence of any features for any training loop: ``HSICLoss()(rows, features)``.

    Like ``MMDLoss``, but the concept has features instead of classes: a number itself finds linear
    dependence on it, and ``unspot.data.features.number_features`` finds any.

    Examples
    --------
    >>> Y = torch.tensor([[0.0], [1.0], [2.0], [4.0]], requires_grad=True)
    >>> HSICLoss()(Y, torch.tensor([0.1, 0.3, 0.2, 0.9])).backward()
    >>> Y.grad.shape
    torch.Size([4, 1])
    """

    _weights = staticmethod(_of_features)


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Y: Tensor, weights: PairWeights, loss: MMDLoss) -> Tensor:
        if not ctx.needs_input_grad[0]:
            return discrepancy(Y, weights, loss.kernel).to(Y.dtype)
        value, grad = discrepancy_and_grad(
            Y.detach(), weights, loss.kernel, detach_bandwidth=loss.detach_bandwidth
        )
        ctx.save_for_backward(grad)
        return value.to(Y.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = ctx.saved_tensors
        return upstream * grad, None, None


def _value_and_grad(
    Y: Tensor,
    weights: PairWeights,
    kernel: GaussianMixture | None,
    *,
    gradient: bool,
    detach: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute the loss, and its gradient in float64 if it is wanted."""
    kernel = kernel or GaussianMixture.paper()
    if Y.ndim != 2 or len(Y) != len(weights):
        raise ValueError(
            f"Got Y of shape {tuple(Y.shape)} and weights of {len(weights)} rows, but expected "
            "(n, r) and the same number of rows."
        )
    if Y.element_size() < 4:  # in half precision squares overflow and sums lose digits
        Y = Y.float()
    if kernel.bandwidth != "pair":
        value, grad = _one_bandwidth(Y, weights.parts, kernel, gradient, detach)
        return Y.new_full((), value, dtype=torch.float64), grad
    total = 0.0
    whole = torch.zeros_like(Y, dtype=torch.float64) if gradient else None
    for rows, parts in weights.by_pair():
        value, grad = _one_bandwidth(Y[rows], parts, kernel, gradient, detach)
        total += value
        if whole is not None and grad is not None:
            whole.index_add_(0, rows, grad)
    return Y.new_full((), total, dtype=torch.float64), whole


def _one_bandwidth(
    Y: Tensor, parts: tuple[_Part, ...], kernel: GaussianMixture, gradient: bool, detach: bool
) -> tuple[float, Tensor | None]:
    is_one = len(parts) == 1 and len(parts[0].rows) == len(Y)
    Y = Y[parts[0].rows] if is_one else Y  # sorted once, for what follows
    centred = Y - Y.mean(0)  # keeps distances, with smaller rounding errors
    if isinstance(kernel.bandwidth, str):
        sigma2 = float(mean_bandwidth(centred)) or 1.0  # if all rows are equal, any σ will do
    else:
        sigma2, detach = float(kernel.bandwidth) ** 2, True
    total = 0.0
    grad = torch.zeros_like(Y, dtype=torch.float64) if gradient else None
    for rows, tiles, weights in parts:
        y = centred if is_one else centred[rows]
        value, part = kernel_sums(y, tiles, weights, kernel.multipliers, sigma2, gradient=gradient)
        total += value
        if part is not None and grad is not None:
            grad = part if is_one else grad.index_add_(0, rows, part)
    if grad is None:
        return total, None
    if not detach:
        # L depends only on Y/σ, so ∂L/∂σ² = −⟨Y, ∂L/∂Y⟩/2σ²; and ∂σ²/∂Y = 4(Y − Ȳ)/(n − 1).
        dot = float((centred * grad).sum(dtype=torch.float64))
        grad.add_(centred, alpha=-2.0 * dot / (sigma2 * max(len(Y) - 1, 1)))
    return total, torch.empty_like(grad).index_copy_(0, parts[0].rows, grad) if is_one else grad
