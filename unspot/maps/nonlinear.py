"""Maps that are not linear: layers of a network, unit norm, kernel features, maps per class.

A network is a chain of ``Dense`` and ``LayerNorm``, so an eraser that was trained with torch is
saved, loaded and applied without torch. Training uses the same ``LayerNorm`` on its tensors, so the
erased rows have the normalisation that the loss saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map
from unspot.maps.program import Traced

__all__ = [
    "Dense",
    "Fourier",
    "LayerNorm",
    "Mixture",
    "Normalise",
    "Nystrom",
    "Transport",
    "squared_distances",
]


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
class LayerNorm(Map):
    """Scale each row to mean 0 and variance 1, without affine parameters.

    The results lie on a sphere of radius √d, or inside it for rows whose variance is near
    ``epsilon``.

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

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        if self.width < 1:
            return f"width={self.width}, but expected at least 1"
        return "" if self.floor >= 0 else f"floor={self.floor}, but expected at least 0"


@register_map
@dataclass(frozen=True, eq=False)
class Nystrom(Map):
    """x ↦ k(x, landmarks)·whitening, whose inner products approximate k(x, x′).

    The kernel is k(x, x′) = exp(−‖x − x′‖²/(2·bandwidth²)). Cost per row: O(m(d + q)) time for m
    landmarks and q features, and memory for m numbers.
    """

    kind: ClassVar[str] = "nystrom"
    shapes: ClassVar[Mapping[str, str]] = {"landmarks": "md", "whitening": "mq"}
    ends: ClassVar[str] = "dq"

    landmarks: Array  # (m, d)
    whitening: Array  # (m, q): the inverse root of the landmarks' kernel matrix
    bandwidth: float

    def __call__(self, x: Any) -> Any:
        # The whitening divides by small eigenvalues, which makes the rounding errors of single
        # precision large.
        features = self.in_own_precision(_double(x))
        return features.astype(x.dtype, copy=False) if isinstance(x, np.ndarray) else features.to(x)

    def in_own_precision(self, x: Any) -> Any:
        """The features in the precision of ``x``: faster; only leading ones are accurate."""
        return self.kernel(x) @ like(self.whitening, x)

    def kernel(self, x: Any) -> Any:
        """k(x, landmarks), of shape (…, m)."""
        exponent = squared_distances(x, like(self.landmarks, x)) / (-2 * self.bandwidth**2)
        return np.exp(exponent) if isinstance(exponent, np.ndarray) else exponent.exp()

    def fault(self) -> str:
        if fault := super().fault():
            return fault
        return "" if self.bandwidth > 0 else f"bandwidth={self.bandwidth}, but expected more than 0"


@register_map
@dataclass(frozen=True, eq=False)
class Fourier(Map):
    """x ↦ √(2/m)·cos(xW + b): random features, whose inner products approximate a kernel.

    If the columns of W are drawn from N(0, I/σ²) and b evenly from a circle, then the kernel is
    exp(−‖x − x′‖²/(2σ²)). Cost per row: O(dm).

    Examples
    --------
    >>> import numpy as np
    >>> Fourier(np.array([[0.0, np.pi]]), np.zeros(2))(np.array([[1.0]]))
    array([[ 1., -1.]])
    """

    kind: ClassVar[str] = "fourier"
    shapes: ClassVar[Mapping[str, str]] = {"weight": "dm", "bias": "m"}
    ends: ClassVar[str] = "dm"

    weight: Array  # (d, m)
    bias: Array  # (m,)

    def __call__(self, x: Any) -> Any:
        angles = x @ like(self.weight, x) + like(self.bias, x)
        waves = np.cos(angles) if isinstance(angles, np.ndarray) else angles.cos()
        return waves * (2 / len(self.bias)) ** 0.5


def _double(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x.astype(np.float64, copy=False)
    return x if x.device.type == "mps" else x.double()  # which has no double precision


def squared_distances(x: Any, points: Any) -> Any:
    """‖x − p‖² for every row of x (…, d) and every point (m, d); numpy or torch."""
    # Centred on the points, so that less is lost when large norms cancel.
    centre = points.mean(0)
    x, points = x - centre, points - centre
    norms = (x * x).sum(-1)[..., None] + (points * points).sum(-1)
    return (norms - 2 * (x @ points.T)).clip(min=0)


@register_map
@dataclass(frozen=True, eq=False)
class Transport(Map):
    """x ↦ xAₖ + bₖ for a row of class k, or x + bₖ without matrices.

    A call predicts k as the class with the largest linear score x·coef + intercept. Without a
    predictor, call ``given`` with the classes. Cost per row: 2d², or d without matrices.
    """

    kind: ClassVar[str] = "transport"
    same_space: ClassVar[bool] = True
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
        x = _double(x)  # so that rows near a border take the same side in every form of the map
        return (x @ like(self.coef, x) + like(self.intercept, x)).argmax(-1)

    def given(self, x: Any, codes: Any) -> Any:
        """Move rows whose classes are given by the codes 0…K−1."""
        moved = x * 0
        for k in range(len(self.shifts)):
            mask = codes == k
            if isinstance(x, Traced):  # a program has no shapes that depend on values
                moved = moved + mask[..., None].to(x) * self._of_class(k, x)
            else:
                moved[mask] = self._of_class(k, x[mask])
        return moved

    def _of_class(self, k: int, rows: Any) -> Any:
        if self.matrices is not None:
            rows = rows @ like(self.matrices[k], rows)
        return rows + like(self.shifts[k], rows)

    def fault(self) -> str:
        if (self.coef is None) != (self.intercept is None):
            return "one of coef and intercept, but expected both or neither"
        return super().fault()


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
        """The probability of every class, of shape (…, K)."""
        scores = x @ like(self.coef, x) + like(self.intercept, x)
        if not isinstance(scores, np.ndarray):
            return scores.softmax(-1)
        weights = np.exp(scores - scores.max(-1)[..., None])
        return weights / weights.sum(-1)[..., None]
