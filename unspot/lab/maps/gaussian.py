"""Every class made Gaussian by rotations and monotone maps of the columns, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from unspot.lab.maps.routed import Classifier
from unspot.maps.base import Array, as_numpy, register_map

__all__ = ["Gaussianised", "from_normal", "to_normal"]


@register_map
@dataclass(frozen=True, eq=False, kw_only=True)
class Gaussianised(Classifier):
    """x ↦ f_k(x) for a row of class k, as the classifier says, or x ↦ Σⱼ shareⱼ·fⱼ⁻¹(f_k(x)).

    f_k is a chain of T layers u ↦ ψ((u − centre)·rotation). Only ψ depends on the class: a monotone
    map of each column, linear between the knots at the normal scores −reach … reach and beyond
    them. So each f_k is invertible everywhere. The layers may be stored in single precision.

    Rows go through numpy, also those of torch. Cost per row: T(d² + d·log b), and with shares
    K times that again to go back.
    """

    kind: ClassVar[str] = "gaussianised"
    shapes: ClassVar[Mapping[str, str]] = {
        **Classifier.shapes,
        "centres": "td",
        "rotations": "tdd",
        "knots": "tKdb",
        "shares": "K",
    }
    ends: ClassVar[str] = "dd"

    centres: Array  # (T, d)
    rotations: Array  # (T, d, d)
    knots: Array  # (T, K, d, b)
    reach: float
    shares: Array | None = None  # (K,)

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x.new_tensor(self(as_numpy(x)))
        rows = x.reshape(-1, x.shape[-1])
        normal = self.forward(rows, self.scores(rows).argmax(-1))
        if self.shares is not None:
            normal = sum(
                share * self.backward(normal, np.full(len(rows), k))
                for k, share in enumerate(self.shares)
            )
        return np.asarray(normal).reshape(x.shape)

    def forward(self, x: Array, codes: Array) -> Array:
        """f_k(x) of rows (n, d) whose classes are given by the codes 0…K−1."""
        for centre, rotation, knots in zip(self.centres, self.rotations, self.knots, strict=True):
            x = _by_class(to_normal, (x - centre) @ rotation, codes, knots, self.reach)
        return x

    def backward(self, y: Array, codes: Array) -> Array:
        """f_k⁻¹(y) of rows (n, d) that go to the classes given by the codes."""
        layers = zip(self.centres[::-1], self._inverses[::-1], self.knots[::-1], strict=True)
        for centre, inverse, knots in layers:
            y = _by_class(from_normal, y, codes, knots, self.reach) @ inverse + centre
        return y

    @cached_property
    def _inverses(self) -> Array:
        """In double precision, since rotations that were rounded are not quite orthogonal."""
        return np.linalg.inv(self.rotations.astype(np.float64))

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        if self.knots.shape[-1] < 2 or not (np.diff(self.knots) > 0).all():
            return "knots that do not increase, but expected at least two that do"
        return "" if self.reach > 0 else f"reach={self.reach}, but expected more than 0"


def to_normal(u: Array, knots: Array, reach: float) -> Array:
    """Normal scores (n, d) of values, by the increasing knots (d, b) of each column."""
    n_cells = knots.shape[1] - 1
    columns = np.arange(len(knots))
    found = [np.searchsorted(k[1:-1], column) for k, column in zip(knots, u.T, strict=True)]
    cell = np.stack(found, axis=1) if len(found) else np.zeros(u.shape, int)
    left = knots[columns, cell]
    width = knots[columns, cell + 1] - left
    return np.asarray((cell + (u - left) / width) * (2 * reach / n_cells) - reach)


def from_normal(y: Array, knots: Array, reach: float) -> Array:
    """The values (n, d) that have these normal scores: the inverse of ``to_normal``."""
    n_cells = knots.shape[1] - 1
    columns = np.arange(len(knots))
    place = (y + reach) * (n_cells / (2 * reach))
    cell = np.clip(np.floor(place), 0, n_cells - 1).astype(np.int64)
    left = knots[columns, cell]
    return np.asarray(left + (place - cell) * (knots[columns, cell + 1] - left))


def _by_class(function: Any, rows: Array, codes: Array, knots: Array, reach: float) -> Array:
    result = np.empty_like(rows)
    for k, own in enumerate(knots):
        members = codes == k
        if members.any():
            result[members] = function(rows[members], own.astype(np.float64), reach)
    return result
