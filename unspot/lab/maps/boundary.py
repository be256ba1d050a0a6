"""A step onto the boundary of a classifier, where it cannot tell the classes apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unspot.lab.maps.routed import Classifier
from unspot.maps.base import Array, as_numpy, register_map

__all__ = ["Boundary"]

#: Rows whose gradients are in memory at the same time.
_ROWS = 2048


@register_map
@dataclass(frozen=True, eq=False, kw_only=True)
class Boundary(Classifier):
    """x ↦ x − Jᵀ(JJᵀ + damping·I)⁻¹ s: to where all scores are equal, to first order.

    s are the scores of the classifier in an orthonormal basis of the contrasts between classes, and
    J are their gradients at x. With two classes and no damping it is x − f(x)∇f(x)/‖∇f(x)‖² for
    the difference f of the two scores. The damping limits the step where gradients vanish.

    Rows go through numpy, also those of torch. Cost per row: O(Kdh) for h hidden units.
    """

    kind: ClassVar[str] = "boundary"
    ends: ClassVar[str] = "dd"

    damping: float

    def __call__(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x.new_tensor(self(as_numpy(x)))
        rows = x.reshape(-1, x.shape[-1])
        moved = np.empty_like(rows)
        for start in range(0, len(rows), _ROWS):
            moved[start : start + _ROWS] = self._moved(rows[start : start + _ROWS])
        return moved.reshape(x.shape)

    def _moved(self, x: Array) -> Array:
        contrasts = self._contrasts
        s = self.scores(x) @ contrasts  # (n, q)
        J = self.gradients(x)  # (n, q, d)
        gram = J @ np.swapaxes(J, 1, 2) + self.damping * np.eye(s.shape[1])
        weights = np.linalg.solve(gram, s[..., None])[..., 0]
        return np.asarray(x - np.einsum("nq,nqd->nd", weights, J))

    def gradients(self, x: Array) -> Array:
        """Gradients (n, K − 1, d) of the contrasts of the scores."""
        contrasts = self._contrasts
        direct = (self.coef @ contrasts).T
        if self.hidden is None or self.hidden_bias is None or self.hidden_coef is None:
            return np.broadcast_to(direct, (len(x), *direct.shape))
        active = (x @ self.hidden + self.hidden_bias > 0).astype(x.dtype)
        pairs = zip((self.hidden_coef @ contrasts).T, direct, strict=True)
        return np.stack([(active * w) @ self.hidden.T + u for w, u in pairs], axis=1)

    @property
    def _contrasts(self) -> Array:
        """Orthonormal basis (K, K − 1) of the differences between classes."""
        K = len(self.intercept)
        return np.linalg.svd(np.eye(K) - 1 / K)[0][:, : K - 1]

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        return "" if self.damping >= 0 else f"damping={self.damping}, but expected at least 0"
