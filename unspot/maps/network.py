"""The layers of a trained network, applied by matrix products and ReLU alone.

A network is a chain of these maps, so an eraser that was trained with torch is saved, loaded and
applied without it. Training applies the same ``LayerNorm`` to its tensors, so that the erased
rows come out in the normalisation that the loss saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from unspot.maps.base import Array, Map, like, register_map

__all__ = ["Dense", "LayerNorm"]


@register_map
@dataclass(frozen=True, eq=False)
class Dense(Map):
    """x ↦ xW + b, followed by max(·, 0) if ``relu``. Cost: 2·d_in·d_out a row.

    Examples
    --------
    >>> import numpy as np
    >>> layer = Dense(np.array([[1.0, -1.0]]), np.array([0.5, 0.5]), relu=True)
    >>> layer(np.array([[2.0]]))
    array([[2.5, 0. ]])
    """

    kind: ClassVar[str] = "dense"
    shapes: ClassVar[Mapping[str, str]] = {"weight": "io", "bias": "o"}

    weight: Array  # (d_in, d_out)
    bias: Array  # (d_out,)
    relu: bool = False

    @property
    def n_in(self) -> int:
        return int(self.weight.shape[0])

    @property
    def n_out(self) -> int:
        return int(self.weight.shape[1])

    def __call__(self, x: Any) -> Any:
        y = x @ like(self.weight, x) + like(self.bias, x)
        return y.clip(min=0) if self.relu else y


@register_map
@dataclass(frozen=True, eq=False)
class LayerNorm(Map):
    """Each row to mean 0 and variance 1, without affine parameters: a point on a sphere.

    The sphere has radius √d (less for rows whose variance is near ``epsilon``).

    Examples
    --------
    >>> import numpy as np
    >>> LayerNorm(2, epsilon=0.0)(np.array([[1.0, 3.0], [10.0, 30.0]]))
    array([[-1.,  1.],
           [-1.,  1.]])
    """

    kind: ClassVar[str] = "layer_norm"

    width: int
    epsilon: float = 1e-8

    @property
    def n_in(self) -> int:
        return self.width

    @property
    def n_out(self) -> int:
        return self.width

    def __call__(self, x: Any) -> Any:
        centred = x - x.mean(-1)[..., None]
        variance = (centred * centred).mean(-1)[..., None]
        return centred / (variance + self.epsilon) ** 0.5

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        if self.width < 1:
            return f"width={self.width}, but expected at least 1"
        return "" if self.epsilon >= 0 else f"epsilon={self.epsilon}, but expected at least 0"
