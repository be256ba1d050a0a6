"""Maps that are not linear: layers of a network, unit norm, a mixture of maps per class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map


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
