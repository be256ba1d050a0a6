"""Mixtures of Gaussian kernels, their bandwidth, and their sums over all pairs of rows in tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from unspot.checks import check_bandwidth, check_count
from unspot.machine import divisible, in_threads

Bandwidth = Literal["pooled", "pair"] | float


@dataclass(frozen=True)
class GaussianMixture:
    """k(x, x′) = Σᵢ exp(−‖x − x′‖² / (mᵢσ²)), the mixture of kernels of §4.2.

    Parameters
    ----------
    multipliers : tuple of float
        The mᵢ. A Gaussian of bandwidth ασ, written exp(−d²/2(ασ)²), has m = 2α².
    bandwidth : {"pooled", "pair"} or float
        σ. ``"pooled"``: the root mean squared pairwise distance of all rows (the paper's mean
        heuristic, in closed form in O(nd)). ``"pair"``: the same, for every pair of classes
        separately. A number: that σ.

    Examples
    --------
    >>> GaussianMixture.paper().multipliers
    (0.03125, 0.125, 0.5, 2.0, 8.0)
    >>> GaussianMixture.reference(n_kernels=2).multipliers
    (0.5, 1.0)
    """

    multipliers: tuple[float, ...]
    bandwidth: Bandwidth = "pooled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "multipliers", tuple(sorted(float(m) for m in self.multipliers)))
        if not self.multipliers or self.multipliers[0] <= 0:
            raise ValueError(
                f"Got multipliers={self.multipliers}, but expected one or more positive numbers."
            )
        check_bandwidth(self.bandwidth, ("pooled", "pair"))

    @classmethod
    def paper(cls, n_kernels: int = 5, bandwidth: Bandwidth = "pooled") -> GaussianMixture:
        """Make the mixture of the paper's text: σᵢ = αᵢσ with α = ⅛, ¼, ½, 1, 2 for five kernels.

        The paper lists α only for five kernels. For other numbers α are powers of two up to 1 or
        more: {1}, {½, 1}, {2⁻⁶ … 2³} for one, two and ten kernels.
        """
        top = max(0, (check_count("n_kernels", n_kernels) - 1) // 2 - 1)
        exponents = range(top - n_kernels + 1, top + 1)
        return cls(tuple(2.0 * 4.0**e for e in exponents), bandwidth)

    @classmethod
    def reference(cls, n_kernels: int = 5, bandwidth: Bandwidth = "pooled") -> GaussianMixture:
        """Make the mixture behind the paper's tables: mᵢ = 2^(i − ⌊M/2⌋), so {¼, ½, 1, 2, 4}."""
        half = check_count("n_kernels", n_kernels) // 2
        exponents = range(-half, n_kernels - half)
        return cls(tuple(2.0**e for e in exponents), bandwidth)

    def __call__(self, squared_distances: Tensor, sigma2: Tensor | float) -> Tensor:
        """Evaluate the kernel at squared distances, by definition; tests compare it with tiles."""
        values = [torch.exp(-squared_distances / (m * sigma2)) for m in self.multipliers]
        return torch.stack(values).sum(0)


def as_kernel(kernel: Any) -> GaussianMixture:
    """Return a mixture of kernels by its name, or check that it is one."""
    named = {"paper": GaussianMixture.paper, "reference": GaussianMixture.reference}
    if isinstance(kernel, GaussianMixture):
        return kernel
    if kernel not in named:
        raise ValueError(
            f"Got kernel={kernel!r}, but expected 'paper', 'reference' or a GaussianMixture."
        )
    return named[kernel]()


def mean_bandwidth(Y: Tensor) -> Tensor:
    """Compute σ², the mean squared distance of all pairs of rows, as 2n/(n−1)·tr Cov(Y).

    Takes O(nr) time, where the sum over pairs in §4.2 takes O(n²r). Differentiable.
    """
    n = len(Y)
    centred = Y - Y.mean(0)
    return 2.0 / max(n - 1, 1) * (centred * centred).sum(dtype=torch.float64)


# -- Sums over all pairs of rows, tile by tile, so that no n×n matrix is held in memory ------------


#: 512² float32 values are 1 MB, so a tile fits into the second-level cache.
TILE_ROWS = 512
#: Classes smaller than this share of a tile are put together.
SMALL = 0.25


class Tile(NamedTuple):
    """Some rows of one class, or all rows of several small ones."""

    first: int  # its first class
    last: int  # and its last
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    @property
    def is_mixed(self) -> bool:
        return self.first < self.last


@dataclass(frozen=True)
class Tiles:
    """Rows in class order, cut into tiles."""

    order: Tensor  # (n,), row numbers sorted by class
    codes: Tensor  # (n,), their classes
    counts: tuple[int, ...]  # rows of every class
    cuts: tuple[Tile, ...]

    @classmethod
    def of(cls, z: Tensor, tile_rows: int = TILE_ROWS) -> Tiles:
        """Build tiles for class codes z. O(n log n)."""
        order = torch.argsort(z, stable=True)
        counts = torch.bincount(z).tolist()
        small = [count < SMALL * tile_rows for count in counts]
        cuts: list[Tile] = []
        start = 0
        for k, count in enumerate(counts):
            before = cuts[-1] if cuts else None
            if before and small[k] and small[before.first] and before.n_rows + count <= tile_rows:
                cuts[-1] = before._replace(last=k, stop=start + count)
            else:
                cuts += [
                    Tile(k, k, start + i, start + min(i + tile_rows, count))
                    for i in range(0, count, tile_rows)
                ]
            start += count
        return cls(order, z[order], tuple(counts), tuple(cuts))

    def pairs(self) -> Iterator[tuple[Tile, Tile]]:
        """Iterate over the upper triangle of tile pairs."""
        return combinations_with_replacement(self.cuts, 2)

    def pairs_within(self) -> Iterator[tuple[Tile, Tile]]:
        """Iterate over the tile pairs that have a class in common."""
        return (pair for pair in self.pairs() if pair[0].last >= pair[1].first)


class Factors(NamedTuple):
    """Weights of pairs by m numbers a row: c_ab = left_a·right_b, within the classes of the tiles.

    Rows are in the order of the tiles. The product of both must be symmetric.
    """

    left: Tensor  # (n, m)
    right: Tensor  # (n, m)


def kernel_sums(
    Y: Tensor,
    tiles: Tiles,
    weights: list[list[float]] | Factors,
    multipliers: tuple[float, ...],
    sigma2: float,
    *,
    gradient: bool,
) -> tuple[float, Tensor | None]:
    """Compute Σ_{a≠b} c_ab k(‖y_a − y_b‖²) and its gradient in Y at fixed σ, in float64.

    Parameters
    ----------
    Y : Tensor of shape (n, r)
        Rows in the order of ``tiles``.
    weights : K × K list, or Factors
        c_ab by the classes of a and b, symmetric; or as products, and zero between classes.
    multipliers, sigma2
        The mixture, with the widest kernel last.
    gradient : bool
        Whether to compute the gradient too: three products per tile instead of one.

    Notes
    -----
    O(n²r) time, O(nr + tile²) memory. ∂L/∂Y = 4(diag(W1) − W)Y with W_ab = c_ab k′(d²_ab). Factors
    of m columns add a product of m columns to the one to three of r.
    """
    scale = 1.0 / (multipliers[-1] * sigma2)
    powers = [multipliers[-1] / m for m in reversed(multipliers)]  # 1 = p₁ < p₂ < …
    left, right, padded = _augmented(Y, scale)
    # Tiles are added up in float64, so that rounding errors do not grow with n.
    G = torch.zeros_like(padded, dtype=torch.float64) if gradient else None
    most = max((tile.n_rows for tile in tiles.cuts), default=0)
    # The memory of two tiles or three, used again by each thread.
    spare: list[Tensor] = []
    weigh = _by_factors if isinstance(weights, Factors) else _by_classes
    weight_of_tile = weigh(weights, tiles, Y)  # type: ignore[arg-type]
    pairs = tiles.pairs_within if isinstance(weights, Factors) else tiles.pairs

    def work(pair: tuple[Tile, Tile]) -> tuple[float, Tensor | None, Tensor | None]:
        a, b = pair
        A, B = slice(a.start, a.stop), slice(b.start, b.stop)
        on_diagonal = a is b
        buffers = spare.pop() if spare else Y.new_empty(3 if weigh is _by_factors else 2, most**2)
        E, W, *more = (buffer[: a.n_rows * b.n_rows].view(a.n_rows, b.n_rows) for buffer in buffers)
        c = weight_of_tile(a, b, *more)
        torch.mm(left[A], right[B].T, out=E).exp_()  # exp(−d²/(m σ²)) of the widest m
        if on_diagonal:
            E.fill_diagonal_(0.0)  # a row and itself are no pair
        value = _sum_powers(E, W if gradient else None, powers, c)
        of_a = of_b = None
        if gradient:
            W.mul_(c)
            of_a = W @ padded[B]
            of_b = None if on_diagonal else W.T @ padded[A]
        spare.append(buffers)
        return value if on_diagonal else 2.0 * value, of_a, of_b

    total = 0.0
    n_threads = divisible() if Y.device.type == "cpu" else 1
    # Results come in the order of the pairs, so the sums do not depend on the number of threads.
    results = in_threads(work, pairs(), most=n_threads)
    for (a, b), (value, of_a, of_b) in zip(pairs(), results, strict=True):
        total += value
        if G is not None and of_a is not None:
            G[a.start : a.stop] += of_a
            if of_b is not None:
                G[b.start : b.stop] += of_b
    if G is None:
        return total, None
    # The column of ones has become W1. The sign and the factor come from k′ = −scale·Σ pᵢeᵢ.
    return total, (G[:, -1:] * Y - G[:, :-1]).mul_(-4.0 * scale)


def _by_classes(
    weights: list[list[float]], tiles: Tiles, Y: Tensor
) -> Callable[..., float | Tensor]:
    """Return the weights of a pair of tiles: one number, or one for each pair of rows."""
    # In float64, since the terms are far larger than their sum.
    weight_of = torch.tensor(weights, dtype=torch.float64, device=Y.device)

    def weigh(a: Tile, b: Tile) -> float | Tensor:
        if not (a.is_mixed or b.is_mixed):
            return weights[a.first][b.first]
        return weight_of[tiles.codes[a.start : a.stop]][:, tiles.codes[b.start : b.stop]]

    return weigh


def _by_factors(weights: Factors, tiles: Tiles, Y: Tensor) -> Callable[..., float | Tensor]:
    """Like ``_by_classes`` for factorised weights; writes into ``out``."""
    left, right = (factor.to(Y) for factor in weights)

    def weigh(a: Tile, b: Tile, out: Tensor) -> Tensor:
        A, B = slice(a.start, a.stop), slice(b.start, b.stop)
        torch.mm(left[A], right[B].T, out=out)
        if a.is_mixed or b.is_mixed:
            out.masked_fill_(tiles.codes[A][:, None] != tiles.codes[B], 0.0)
        return out

    return weigh


def _augmented(Y: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Build left and right factors of −scale·d², and append a column of ones to Y."""
    S = Y * math.sqrt(2.0 * scale)
    norms = (S * S).sum(1, keepdim=True).mul_(-0.5)
    ones = torch.ones_like(norms)
    left, right = torch.cat([S, norms, ones], 1), torch.cat([S, ones, norms], 1)
    return left, right, torch.cat([Y, ones], 1)


def _sum_powers(E: Tensor, W: Tensor | None, powers: list[float], c: float | Tensor) -> float:
    """Compute Σᵢ Σ cE^pᵢ for one weight c or one per pair; W becomes Σᵢ pᵢE^pᵢ. Overwrites E.

    Stops where the rest is below rounding: with S = ΣE^p ≥ max E^p, the next term is at most
    ratio·S^(ratio − 1) of this one, element by element. In many dimensions the narrow kernels are
    that small, and then cost nothing.
    """
    one_weight = not isinstance(c, Tensor)
    negligible = torch.finfo(E.dtype).eps * 1e-2
    if W is not None:
        W.copy_(E)
    S = float(E.sum())
    total = S if one_weight else float((E * c).sum())
    for before, p in pairwise(powers):
        ratio = p / before
        if ratio * S ** (ratio - 1) < negligible:
            break
        _raise(E, ratio)
        S = float(E.sum())
        total += S if one_weight else float((E * c).sum())
        if W is not None:
            W.add_(E, alpha=p)
    return total if isinstance(c, Tensor) else c * total


def _raise(E: Tensor, exponent: float) -> None:
    """Compute E^exponent in place, by squaring if the exponent is a power of two."""
    squarings = math.log2(exponent)
    if squarings == int(squarings):
        for _ in range(int(squarings)):
            E.mul_(E)
    else:
        E.pow_(exponent)
