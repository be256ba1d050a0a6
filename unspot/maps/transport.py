"""One affine map for each class, with the class given or predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from unspot.maps.base import Array, Map, like, register_map

__all__ = ["Transport"]


@register_map
@dataclass(frozen=True, eq=False)
class Transport(Map):
    """x ↦ xAₖ + bₖ for a row of class k, or x + bₖ where there are no matrices.

    Called on rows alone, k is the class with the largest linear score x·coef + intercept. Without
    a predictor the labels must be given, by ``given``. Cost: 2d² a row (d without matrices).
    """

    kind: ClassVar[str] = "transport"
    shapes: ClassVar[Mapping[str, str]] = {
        "shifts": "Kd",
        "matrices": "Kdd",
        "coef": "dK",
        "intercept": "K",
    }

    shifts: Array  # (K, d)
    matrices: Array | None = None  # (K, d, d)
    coef: Array | None = None  # (d, K)
    intercept: Array | None = None  # (K,)

    @property
    def n_in(self) -> int:
        return int(self.shifts.shape[1])

    @property
    def n_out(self) -> int:
        return int(self.shifts.shape[1])

    def __call__(self, x: Any) -> Any:
        return self.given(x, self.predict(x))

    def predict(self, x: Any) -> Any:
        """Codes of the predicted classes, of shape (…)."""
        if self.coef is None or self.intercept is None:
            raise ValueError(
                "Got rows without labels, but this eraser was fitted with labels='given' and has "
                "no predictor. Pass the codes of their classes to maps[0].given(X, codes), or "
                "fit MomentMatching(labels='predicted')."
            )
        return (x @ like(self.coef, x) + like(self.intercept, x)).argmax(-1)

    def given(self, x: Any, codes: Any) -> Any:
        """Move rows whose classes are known, by their codes 0…K−1."""
        moved = x * 0
        for k in range(len(self.shifts)):
            mask = codes == k
            rows = x[mask]
            if self.matrices is not None:
                rows = rows @ like(self.matrices[k], x)
            moved[mask] = rows + like(self.shifts[k], x)
        return moved

    def fault(self) -> str:
        if (self.coef is None) != (self.intercept is None):
            return "one of coef and intercept, but expected both or neither"
        return super().fault()
