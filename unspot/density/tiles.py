"""Sums of a kernel over all pairs of rows, in cache-sized tiles: no n×n matrix is ever held.

Rows are sorted by class and cut into tiles of one class, so the weight of a pair is one number for
a whole tile, and only the upper triangle is walked. Small classes share a tile, which has a weight
for every pair in it: of one each, many classes would make their square of tiles. A tile costs three
matrix products (distances, and the two halves of the gradient) and one exponential: the other
kernels of a preset are powers of the widest one, had by squaring.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["TILE_ROWS", "Tiles", "kernel_sums"]

#: 512² float32 values are 1 MB: a tile stays in the second-level cache while it is worked on.
TILE_ROWS = 512


#: Classes of less than this share of a tile have one together.
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
        """Tiles for class codes z. O(n log n)."""
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

    def pairs(self, share: tuple[int, int] = (0, 1)) -> Iterator[tuple[Tile, Tile]]:
        """The upper triangle of tile pairs, or every m-th of them for process i of m."""
        i, m = share
        number = 0
        for a, left in enumerate(self.cuts):
            for right in self.cuts[a:]:
                if number % m == i:
                    yield left, right
                number += 1


def kernel_sums(
    Y: Tensor,
    tiles: Tiles,
    weights: list[list[float]],
    multipliers: tuple[float, ...],
    sigma2: float,
    *,
    gradient: bool,
    share: tuple[int, int] = (0, 1),
) -> tuple[float, Tensor | None]:
    """Σ_{a≠b} c_ab k(‖y_a − y_b‖²) and its gradient in Y at fixed σ, in float64.

    Parameters
    ----------
    Y : Tensor of shape (n, r)
        Rows in the order of ``tiles``.
    weights : K × K list
        c_ab by the classes of a and b, symmetric.
    multipliers, sigma2
        The mixture: widest last.
    gradient : bool
        Whether the gradient is wanted too (three products a tile instead of one).
    share : (i, m)
        Sum over every m-th tile pair only, from the i-th: the shares of m processes add up.

    Notes
    -----
    O(n²r) time, O(nr + tile²) memory. ∂L/∂Y = 4(diag(W1) − W)Y with W_ab = c_ab k′(d²_ab).
    """
    scale = 1.0 / (multipliers[-1] * sigma2)
    powers = [multipliers[-1] / m for m in reversed(multipliers)]  # 1 = p₁ < p₂ < …
    left, right, padded = _augmented(Y, scale)
    # Tiles are added up in float64, where their order hardly matters: so the shares of several
    # processes give what one process gives, and rounding does not grow with n.
    G = torch.zeros_like(padded, dtype=torch.float64) if gradient else None
    most = max((tile.n_rows for tile in tiles.cuts), default=0)
    buffers, product = _TileBuffers(Y, most), torch.empty_like(padded[:most])
    # In float64: parts of either sign, far larger than their sum, are added up with it.
    weight_of = torch.tensor(weights, dtype=torch.float64, device=Y.device)
    total = 0.0
    for a, b in tiles.pairs(share):
        A, B = slice(a.start, a.stop), slice(b.start, b.stop)
        on_diagonal = a is b
        c: float | Tensor = weights[a.first][b.first]
        if a.is_mixed or b.is_mixed:
            c = weight_of[tiles.codes[A]][:, tiles.codes[B]]
        E, W = buffers.views(a.n_rows, b.n_rows)
        torch.mm(left[A], right[B].T, out=E).exp_()  # exp(−d²/(m σ²)) of the widest m
        if on_diagonal:
            E.fill_diagonal_(0.0)  # a row is no pair with itself
        value = _sum_powers(E, W if gradient else None, powers, c)
        total += value if on_diagonal else 2.0 * value
        if G is not None:
            W.mul_(c)
            G[A] += torch.mm(W, padded[B], out=product[: a.n_rows])
            if not on_diagonal:
                G[B] += torch.mm(W.T, padded[A], out=product[: b.n_rows])
    if G is None:
        return total, None
    # The column of ones has collected W1; k′ = −scale·Σ pᵢeᵢ gives the sign and the factor.
    return total, (G[:, -1:] * Y - G[:, :-1]).mul_(-4.0 * scale)


class _TileBuffers:
    """Memory of two tiles, used again for every tile."""

    def __init__(self, like: Tensor, rows: int) -> None:
        self._E = like.new_empty(rows * rows)
        self._W = like.new_empty(rows * rows)

    def views(self, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        n = rows * columns
        return self._E[:n].view(rows, columns), self._W[:n].view(rows, columns)


def _augmented(Y: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with two more columns, so that one product gives −scale·d², and rows with a one."""
    S = Y * math.sqrt(2.0 * scale)
    norms = (S * S).sum(1, keepdim=True).mul_(-0.5)
    ones = torch.ones_like(norms)
    return (
        torch.cat([S, norms, ones], 1),
        torch.cat([S, ones, norms], 1),
        torch.cat([Y, ones], 1),
    )


def _sum_powers(E: Tensor, W: Tensor | None, powers: list[float], c: float | Tensor) -> float:
    """Σᵢ ΣcE^pᵢ; W becomes Σᵢ pᵢE^pᵢ. E is overwritten.

    The chain stops where the rest is below rounding: with S = ΣE^p ≥ max E^p, the next term is
    at most ratio·S^(ratio − 1) of this one, element by element. In many dimensions the narrow
    kernels vanish, and so does their cost.
    """
    if W is not None:
        W.copy_(E)
    S = float(E.sum())
    total = _weighted(E, S, c)
    negligible = torch.finfo(E.dtype).eps * 1e-2
    for before, p in pairwise(powers):
        ratio = p / before
        if ratio * S ** (ratio - 1) < negligible:
            break
        _raise(E, ratio)
        S = float(E.sum())
        total += _weighted(E, S, c)
        if W is not None:
            W.add_(E, alpha=p)
    return total if isinstance(c, Tensor) else c * total


def _weighted(E: Tensor, S: float, c: float | Tensor) -> float:
    """Σ cE for a weight of every pair; the sum S, if one weight of all is still to come."""
    return float((E * c).sum()) if isinstance(c, Tensor) else S


def _raise(E: Tensor, exponent: float) -> None:
    """E ← E^exponent in place: by squaring where the exponent is a power of two."""
    squarings = math.log2(exponent)
    if squarings == int(squarings):
        for _ in range(int(squarings)):
            E.mul_(E)
    else:
        E.pow_(exponent)
