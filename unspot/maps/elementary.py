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


def _outer(t: Any, rows: Array) -> Any:
    """Multiply (…, q) by (q, d): by broadcasting for q = 1, where numpy's product is slow."""
    return t * like(rows[0], t) if len(rows) == 1 else t @ like(rows, t)


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
        if self._has_small_rest:  # cheaper by what it takes away
            return self._rest(x)
        projected = (x @ like(self.U, x)) @ like(self.U, x).T
        if self.offset is not None:
            projected += like(self.offset, x)
        return projected

    @property
    def _has_small_rest(self) -> bool:
        d, r = self.U.shape
        return 3 * r > 2 * d

    @cached_property
    def offset(self) -> Array | None:
        """Compute m − UUᵀm, the constant outside the subspace: rows need not be centred first."""
        return None if self.mean is None else self.mean - self.U @ (self.U.T @ self.mean)

    @cached_property
    def _rest(self) -> Oblique:
        """Make the same map from a basis of the complement."""
        d, r = self.U.shape
        live = self.U.any(axis=1)  # columns that some kept direction touches
        U, n_live = self.U[live], int(live.sum())
        # Random vectors without their part in the subspace: cheaper than a basis of all d.
        rest = np.random.default_rng(0).normal(size=(n_live, n_live - r))
        for _ in range(2):  # the second time takes away what rounding left
            rest, _ = np.linalg.qr(rest - U @ (U.T @ rest))
        N = np.zeros((d, d - r))
        N[live, : n_live - r] = rest
        N[~live, n_live - r :] = np.eye(d - n_live)
        return Oblique(N, N, np.zeros(d) if self.mean is None else self.mean)

    def rounded(self, dtype: Any) -> Projection:
        copy = super().rounded(dtype)
        if self._has_small_rest:
            vars(copy)["_rest"] = self._rest.rounded(dtype)
        elif self.offset is not None:
            vars(copy)["offset"] = self.offset.astype(dtype)
        return copy


@register_map
@dataclass(frozen=True, eq=False)
class Oblique(Map):
    """x ↦ x − left(rightᵀ(x − mean)): an affine update of low rank, as in LEACE.

    Without care, the formula leaves rounding errors outside the range of P = I − left·rightᵀ, which
    are a function of what was removed. So rows are moved first, along what P removes, until some
    columns are zero. The others are coordinates of what P keeps, and the formula is a function of
    them.
    """

    kind: ClassVar[str] = "oblique"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"left": "dq", "right": "dq", "mean": "d"}

    left: Array  # (d, q)
    right: Array  # (d, q)
    mean: Array  # (d,)

    def __call__(self, x: Any) -> Any:
        if self._is_small:
            pivots, chosen, along, offset = self._way
            t = x[..., pivots] if isinstance(x, np.ndarray) else x @ like(chosen, x)
            rows = x - _outer(t, along)
            rows -= _outer(rows @ like(self.right, x) - like(offset, x), self.left.T)
        else:  # cheaper for a large complement
            down, up = self.down_and_up
            rows = ((x - like(self.mean, x)) @ like(down, x)) @ like(up, x).T + like(self.mean, x)
        if self._constant.any():  # exactly the mean: products mix all columns
            rows = rows * like(~self._constant, x) + like(self.mean * self._constant, x)
        return rows

    def without(self, N: Array, mean: Array) -> Oblique:
        """Restrict the map to rows that do not vary along N around the mean.

        One map and not two: what one step leaves outside the subspace, the next would bring back.
        N has orthonormal columns.
        """
        left, right = (np.hstack([A - N @ (N.T @ A), N]) for A in (self.left, self.right))
        return Oblique(left, right, mean)

    def rounded(self, dtype: Any) -> Oblique:
        copy = super().rounded(dtype)
        for name in ("kernel", "_way" if self._is_small else "down_and_up"):
            vars(copy)[name] = tuple(
                a if a.dtype.kind == "i" else a.astype(dtype) for a in getattr(self, name)
            )
        vars(copy)["_constant"] = self._constant
        return copy

    @property
    def _is_small(self) -> bool:
        d, q = self.kernel[0].shape
        return 5 * q <= 2 * d

    @cached_property
    def kernel(self) -> tuple[Array, Array]:
        """Bases (d, q) of what P maps to zero, and of the complement of its range."""
        # All v with v = left(rightᵀv): v = left·w where (I − rightᵀ·left)w = 0; and transposed.
        v, values, w = np.linalg.svd(np.eye(self.left.shape[1]) - self.right.T @ self.left)
        return self.left @ w[values < 1e-6].T, self.right @ v[:, values < 1e-6]

    @cached_property
    def _way(self) -> tuple[Array, ...]:
        """Compute how rows are moved until the columns ``pivots`` are zero."""
        kernel, (d, q) = self.kernel[0], self.kernel[0].shape
        sizes, inverses = (np.linalg.norm(A, axis=1) for A in (self.left, self.right))
        both = (sizes > 0) & (inverses > 0)
        unit = np.sqrt(np.divide(sizes, inverses, out=np.ones(d), where=both))  # (d,)
        basis, _ = np.linalg.qr(kernel / unit[:, None])
        rows, pivots = basis.copy(), np.zeros(q, dtype=np.int64)
        for i in range(q):  # the largest row in what the earlier ones leave, so that none is small
            pivots[i] = np.argmax(np.square(rows).sum(axis=1))
            row = rows[pivots[i]] / np.linalg.norm(rows[pivots[i]])
            rows -= np.outer(rows @ row, row)
        along = np.linalg.solve(basis[pivots].T, basis.T) * unit / unit[pivots, None]  # (q, d)
        along[:, pivots] = np.eye(q)
        return pivots, np.eye(d)[:, pivots], along, self.mean @ self.right

    @cached_property
    def down_and_up(self) -> tuple[Array, Array]:
        """Compute the way to coordinates in the range and back, each (d, r)."""
        removed = self.kernel[1] / np.linalg.norm(self.kernel[1], axis=0)
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
    """y ↦ Uy, or Uy + m: back from coordinates in a subspace to the whole space."""

    kind: ClassVar[str] = "expand"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"U": "dr", "mean": "d"}
    ends: ClassVar[str] = "rd"

    U: Array  # (d, r)
    mean: Array | None = None  # (d,), orthogonal to the subspace

    def __call__(self, x: Any) -> Any:
        up = x @ like(self.U, x).T
        return up if self.mean is None else up + like(self.mean, x)


@register_map
@dataclass(frozen=True, eq=False)
class Scale(Map):
    """x ↦ x·scale: columns in other units."""

    kind: ClassVar[str] = "scale"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"scale": "d"}

    scale: Array  # (d,)

    def __call__(self, x: Any) -> Any:
        return x * like(self.scale, x)


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

    If a row lies in removed directions, erasure leaves only rounding errors, which are a
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

    Continuous in x: a row between two classes moves between their maps. With ``groups``, classes of
    one group have one map. Cost per row: 2Gdr for G maps.

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
        "shifts": "Gr",
        "matrices": "Gdr",
        "coef": "dK",
        "intercept": "K",
        "groups": "KG",
    }
    ends: ClassVar[str] = "dr"

    shifts: Array  # (G, r)
    matrices: Array  # (G, d, r)
    coef: Array  # (d, K)
    intercept: Array  # (K,)
    groups: Array | None = None  # (K, G), 1 for the group of a class; without it G is K

    def __call__(self, x: Any) -> Any:
        weights = self.posterior(x)
        if self.groups is not None:
            weights = weights @ like(self.groups, x)
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
