"""Nyström features of a Gaussian kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map

__all__ = ["Nystrom", "squared_distances"]


@register_map
@dataclass(frozen=True, eq=False)
class Nystrom(Map):
    """x ↦ k(x, landmarks)·whitening, whose inner products approximate k(x, x′).

    The kernel is k(x, x′) = exp(−‖x − x′‖²/(2·bandwidth²)). Cost: O(m(d + q)) a row, for m
    landmarks and q features; memory m numbers a row.
    """

    kind: ClassVar[str] = "nystrom"
    shapes: ClassVar[Mapping[str, str]] = {"landmarks": "md", "whitening": "mq"}

    landmarks: Array  # (m, d)
    whitening: Array  # (m, q): the inverse root of the landmarks' kernel matrix
    bandwidth: float

    @property
    def n_in(self) -> int:
        return int(self.landmarks.shape[1])

    @property
    def n_out(self) -> int:
        return int(self.whitening.shape[1])

    def __call__(self, x: Any) -> Any:
        # The whitening divides by small eigenvalues, and the rounding of single precision with it.
        features = self.in_own_precision(_double(x))
        return features.astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else features.to(x)

    def in_own_precision(self, x: Any) -> Any:
        """The features in the precision of ``x``: faster, for leading features alone."""
        return self.kernel(x) @ like(self.whitening, x)

    def kernel(self, x: Any) -> Any:
        """k(x, landmarks), of shape (…, m)."""
        exponent = squared_distances(x, like(self.landmarks, x)) / (-2 * self.bandwidth**2)
        return np.exp(exponent) if isinstance(exponent, np.ndarray) else exponent.exp()

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        return "" if self.bandwidth > 0 else f"bandwidth={self.bandwidth}, but expected more than 0"


def _double(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.astype(np.float64, copy=False)
    return x if x.device.type == "mps" else x.double()  # Apple's GPUs have single precision alone


def squared_distances(x: Any, points: Any) -> Any:
    """‖x − p‖² for every row of x (…, d) and every point (m, d); numpy or torch."""
    # Around the points' mean, where the cancellation of large norms is smallest.
    centre = points.mean(0)
    x, points = x - centre, points - centre
    norms = (x * x).sum(-1)[..., None] + (points * points).sum(-1)
    return (norms - 2 * (x @ points.T)).clip(min=0)
