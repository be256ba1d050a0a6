"""Elementary maps: projections, oblique updates, coordinates of a subspace, and nonlinear steps.

A linear map goes down to the r coordinates of what it keeps, and back up. What comes out is then a
function of these r numbers, rounding included, so nobody can read more from it than from them, at
whatever scale they look. A product with a square matrix has not this property: its rounding errors
fill the removed directions with a function of what was removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map


def range_basis(P: Array) -> Array:
    """Compute an orthonormal basis (d, r) of the range of a matrix, r its numerical rank.

    Embeddings may have a column of size 1e-33, for which LEACE has a factor of 1e30. Columns of P
    are scaled to unit norm at most, which keeps the range, so that none hides the others.

    Examples
    --------
    >>> range_basis(np.diag([1e30, 1.0, 1e-17])).round(6)
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    scaled = P / np.maximum(np.linalg.norm(P, axis=0), 1.0)
    left, values, _ = np.linalg.svd(scaled, full_matrices=False)
    return np.ascontiguousarray(left[:, values > 1e-8])


class Reflections:
    """Coordinates of rows beside a small subspace, through q Householder reflections.

    The reflections H = I − YTYᵀ turn the subspace to the first q axes, so that the coordinates
    beside it are the other d − q numbers of xH. Cost per row: 8dq, without any d × d matrix.

    Parameters
    ----------
    basis : array of shape (d, q)
        Linearly independent columns that span the subspace.
    """

    def __init__(self, basis: Array) -> None:
        packed, factors = np.linalg.qr(basis, mode="raw")
        self.q = q = len(factors)
        self.Y = np.tril(packed.T, -1) + np.eye(*basis.shape)  # (d, q)
        self.T = np.zeros((q, q))
        for i, factor in enumerate(factors):
            self.T[:i, i] = -factor * self.T[:i, :i] @ (self.Y[:, :i].T @ self.Y[:, i])
            self.T[i, i] = factor

    def kept(self, x: Any) -> Any:
        """Rows without their part in the subspace: a function of d − q numbers per row."""
        Y, T = like(self.Y, x), like(self.T, x)
        beside = x[..., self.q :] - ((x @ Y) @ T) @ Y[self.q :].T  # (…, d − q)
        back = -((beside @ Y[self.q :]) @ T.T) @ Y.T
        back[..., self.q :] += beside
        return back


@register_map
@dataclass(frozen=True, eq=False)
class Projection(Map):
    """x ↦ UUᵀx, or m + UUᵀ(x − m) with a mean: the orthogonal projector of Eqs. 1–2."""

    kind: ClassVar[str] = "projection"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"U": "dr", "mean": "d"}

    U: Array  # (d, r), orthonormal columns
    mean: Array | None = None  # (d,)

    def __call__(self, x: Any) -> Any:
        mean = 0.0 if self.mean is None else like(self.mean, x)
        d, r = self.U.shape
        if 3 * r <= 2 * d:
            return self.coordinates(x) @ like(self.U, x).T + mean
        projected = self._rest.kept(x - mean)  # cheaper for a small complement
        if self._constant.any():  # exactly zero: the reflections mix all columns
            projected = projected * like(~self._constant, x)
        return projected + mean

    @cached_property
    def _constant(self) -> Array:
        """Find the columns that no kept direction touches, (d,)."""
        return np.asarray(~self.U.any(axis=1))

    @cached_property
    def _rest(self) -> Reflections:
        """Reflections by which the complement of the subspace is cut off."""
        d, r = self.U.shape
        # Random vectors without their part in the subspace: cheaper than a basis of all d.
        rest = np.random.default_rng(0).normal(size=(d, d - r))
        for _ in range(2):  # the second time takes away what rounding left
            rest, _ = np.linalg.qr(rest - self.U @ (self.U.T @ rest))
        return Reflections(rest)

    def coordinates(self, x: Any) -> Any:
        """x ↦ Uᵀx, or Uᵀ(x − m): the coordinates (…, r) in the subspace."""
        centred = x if self.mean is None else x - like(self.mean, x)
        return centred @ like(self.U, x)


@register_map
@dataclass(frozen=True, eq=False)
class Oblique(Map):
    """x ↦ x − left(rightᵀ(x − mean)): an affine update of low rank, as in LEACE.

    The result is brought to coordinates in the range of P = I − left·rightᵀ and back. By itself the
    formula would leave rounding errors outside of it, which are a function of what was removed.
    """

    kind: ClassVar[str] = "oblique"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"left": "dq", "right": "dq", "mean": "d"}

    left: Array  # (d, q)
    right: Array  # (d, q)
    mean: Array  # (d,)

    def __call__(self, x: Any) -> Any:
        mean = like(self.mean, x)
        centred = x - mean
        d, q = self._removed.shape
        if 3 * q <= d:
            moved = centred - (centred @ like(self.right, x)) @ like(self.left, x).T
            kept = self._rest.kept(moved)
        else:  # cheaper for a large complement
            down, up = self.down_and_up
            kept = (centred @ like(down, x)) @ like(up, x).T
        if self._constant.any():  # exactly zero: the reflections mix all columns
            kept = kept * like(~self._constant, x)
        return kept + mean

    def without(self, N: Array, mean: Array) -> Oblique:
        """Restrict the map to rows that do not vary along N around the mean.

        One map and not two: what one step leaves beside the subspace, the next would bring back.
        N has orthonormal columns.
        """
        left, right = (np.hstack([A - N @ (N.T @ A), N]) for A in (self.left, self.right))
        return Oblique(left, right, mean)

    @cached_property
    def _removed(self) -> Array:
        """Basis (d, q) of the complement of the range."""
        # It is all v with v = right(leftᵀv): v = right·w where (I − leftᵀ·right)w = 0.
        _, values, rows = np.linalg.svd(np.eye(self.left.shape[1]) - self.left.T @ self.right)
        return np.asarray(self.right @ rows[values < 1e-6].T)

    @cached_property
    def _rest(self) -> Reflections:
        """Reflections by which the complement of the range is cut off."""
        return Reflections(self._removed)

    @cached_property
    def down_and_up(self) -> tuple[Array, Array]:
        """Compute the way to coordinates in the range and back, each (d, r)."""
        removed = self._removed / np.linalg.norm(self._removed, axis=0)
        up = np.linalg.qr(removed, mode="complete")[0][:, removed.shape[1] :]
        # Again, for columns of small units: what is left of their share counts in these units.
        up = up - removed @ np.linalg.lstsq(removed, up, rcond=None)[0]
        return up - self.right @ (self.left.T @ up), up

    @cached_property
    def _constant(self) -> Array:
        """Find the columns that are removed altogether, (d,): rows of left·rightᵀ as in I."""
        constant = (self.left.max(axis=1, initial=0) == 1) & (
            np.count_nonzero(self.left, axis=1) == 1
        )
        columns = np.flatnonzero(constant)
        rows = self.left[columns] @ self.right.T
        rows[np.arange(len(columns)), columns] -= 1
        constant[columns] = ~rows.any(axis=1)
        return constant


@register_map
@dataclass(frozen=True, eq=False)
class Compress(Map):
    """x ↦ Uᵀx: coordinates in a subspace."""

    kind: ClassVar[str] = "compress"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"U": "dr"}
    ends: ClassVar[str] = "dr"

    U: Array  # (d, r)

    def __call__(self, x: Any) -> Any:
        return x @ like(self.U, x)


@register_map
@dataclass(frozen=True, eq=False)
class Expand(Map):
    """y ↦ Uy: back from coordinates in a subspace to the whole space."""

    kind: ClassVar[str] = "expand"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"U": "dr"}
    ends: ClassVar[str] = "rd"

    U: Array  # (d, r)

    def __call__(self, x: Any) -> Any:
        return x @ like(self.U, x).T


@register_map
@dataclass(frozen=True, eq=False)
class Dense(Map):
    """x ↦ xW + b, followed by max(·, 0) if ``relu``. Cost: 2·d_in·d_out per row.

    Examples
    --------
    >>> import numpy as np
    >>> layer = Dense(np.array([[1.0, -1.0]]), np.array([0.5, 0.5]), relu=True)
    >>> layer(np.array([[2.0]]))
    array([[2.5, 0. ]])
    """

    kind: ClassVar[str] = "dense"
    shapes: ClassVar[Mapping[str, str]] = {"weight": "io", "bias": "o"}
    ends: ClassVar[str] = "io"

    weight: Array  # (d_in, d_out)
    bias: Array  # (d_out,)
    relu: bool = False

    def __call__(self, x: Any) -> Any:
        y = x @ like(self.weight, x) + like(self.bias, x)
        return y.clip(min=0) if self.relu else y


@register_map
@dataclass(frozen=True, eq=False)
class Normalise(Map):
    """x ↦ x/‖x‖, and zero for rows whose norm is at most ``floor``.

    Of a row that lies in removed directions, erasure leaves only rounding errors, which are a
    function of what was removed. Without a floor they would be enlarged to unit norm.

    Examples
    --------
    >>> import numpy as np
    >>> Normalise(2)(np.array([[3.0, 4.0], [0.0, 1e-15]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    kind: ClassVar[str] = "normalise"

    width: int
    floor: float = 1e-5

    @property
    def n_in(self) -> int:
        return self.width

    @property
    def n_out(self) -> int:
        return self.width

    def __call__(self, x: Any) -> Any:
        norms = (x * x).sum(-1)[..., None] ** 0.5
        is_zero = (norms - self.floor).clip(min=0) == 0
        # 1 and 0, by which numpy, torch and programs can compute.
        is_zero = is_zero.astype(x.dtype) if isinstance(x, np.ndarray) else is_zero.to(x)
        return x * (1 - is_zero) / (norms + is_zero)


@register_map
@dataclass(frozen=True, eq=False)
class Mixture(Map):
    """x ↦ Σₖ πₖ(x)(xAₖ + bₖ) with the posterior π(x) = softmax(x·coef + intercept).

    Continuous in x: a row between two classes moves between their maps. Cost per row: 2Kdr.

    Examples
    --------
    >>> import numpy as np
    >>> nearer = Mixture(
    ...     shifts=np.array([[1.0], [-1.0]]), matrices=np.ones((2, 1, 1)),
    ...     coef=np.array([[-20.0, 20.0]]), intercept=np.zeros(2),
    ... )
    >>> nearer(np.array([[-9.0], [0.0], [9.0]]))
    array([[-8.],
           [ 0.],
           [ 8.]])
    """

    kind: ClassVar[str] = "mixture"
    shapes: ClassVar[Mapping[str, str]] = {
        "shifts": "Kr",
        "matrices": "Kdr",
        "coef": "dK",
        "intercept": "K",
    }
    ends: ClassVar[str] = "dr"

    shifts: Array  # (K, r)
    matrices: Array  # (K, d, r)
    coef: Array  # (d, K)
    intercept: Array  # (K,)

    def __call__(self, x: Any) -> Any:
        weights = self.posterior(x)
        moved = weights @ like(self.shifts, x)
        for k, matrix in enumerate(self.matrices):
            moved = moved + weights[..., k : k + 1] * (x @ like(matrix, x))
        return moved

    def posterior(self, x: Any) -> Any:
        """Compute the probability of every class, of shape (…, K)."""
        scores = x @ like(self.coef, x) + like(self.intercept, x)
        if not isinstance(scores, np.ndarray):
            return scores.softmax(-1)
        weights = np.exp(scores - scores.max(-1)[..., None])
        return weights / weights.sum(-1)[..., None]
