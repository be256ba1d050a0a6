"""Linear and affine maps: projections, oblique updates, coordinates of a subspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from unspot.maps.base import Array, Map, like, register_map

__all__ = ["Compress", "Expand", "Oblique", "Projection"]


@register_map
@dataclass(frozen=True, eq=False)
class Projection(Map):
    """x ↦ UUᵀx, or m + UUᵀ(x − m) with a mean: the orthogonal projector of Eqs. 1–2."""

    kind: ClassVar[str] = "projection"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"U": "dr", "mean": "d"}

    U: Array  # (d, r), orthonormal columns
    mean: Array | None = None  # (d,)

    @cached_property
    def _P(self) -> Array:
        return self.U @ self.U.T

    def __call__(self, x: Any) -> Any:
        if self.mean is None:
            return self._project(x)
        mean = like(self.mean, x)
        return self._project(x - mean) + mean

    def coordinates(self, x: Any) -> Any:
        """x ↦ Uᵀx, or Uᵀ(x − m): the coordinates (…, r) in the subspace."""
        centred = x if self.mean is None else x - like(self.mean, x)
        return centred @ like(self.U, x)

    def _project(self, x: Any) -> Any:
        d, r = self.U.shape
        if 2 * r < d:  # two thin products are cheaper than one square one
            U = like(self.U, x)
            return (x @ U) @ U.T
        return x @ like(self._P, x)


@register_map
@dataclass(frozen=True, eq=False)
class Oblique(Map):
    """x ↦ x − left(rightᵀ(x − mean)): an affine update of low rank, as in LEACE."""

    kind: ClassVar[str] = "oblique"
    linear: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {"left": "dq", "right": "dq", "mean": "d"}

    left: Array  # (d, q)
    right: Array  # (d, q)
    mean: Array  # (d,)

    def __call__(self, x: Any) -> Any:
        return x - ((x - like(self.mean, x)) @ like(self.right, x)) @ like(self.left, x).T


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
