"""Maps that only the rivals use: frozen, numpy-only, and loaded by ``unspot.load`` by their kind.

Training a network uses the same ``LayerNorm`` on its tensors, so that the erased rows have the
normalisation that the loss saw. Maps that ask for the class of a row have a frozen ``Classifier``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map
from unspot.maps.program import Traced

__all__ = [
    "Boundary",
    "Classifier",
    "Fourier",
    "FreeForm",
    "Gaussianised",
    "LayerNorm",
    "Nystrom",
    "Transport",
    "from_normal",
    "softmax",
    "squared_distances",
    "to_normal",
]

#: Rows whose gradients are in memory at the same time.
_ROWS = 2048


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
        """Compute the features in the precision of ``x``: fast; only leading ones are accurate."""
        return self.kernel(x) @ like(self.whitening, x)

    def kernel(self, x: Any) -> Any:
        """k(x, landmarks), of shape (…, m)."""
        exponent = squared_distances(x, like(self.landmarks, x)) / (-2 * self.bandwidth**2)
        return np.exp(exponent) if isinstance(exponent, np.ndarray) else exponent.exp()


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


# -- Maps that ask a classifier for the class of a row --------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Classifier(Map):
    """Scores x·coef + intercept + max(x·hidden + hidden_bias, 0)·hidden_coef of K classes."""

    shapes: ClassVar[Mapping[str, str]] = {
        "coef": "dK",
        "intercept": "K",
        "hidden": "dh",
        "hidden_bias": "h",
        "hidden_coef": "hK",
    }
    ends: ClassVar[str] = "dK"

    coef: Array  # (d, K)
    intercept: Array  # (K,)
    hidden: Array | None = None  # (d, h)
    hidden_bias: Array | None = None  # (h,)
    hidden_coef: Array | None = None  # (h, K)

    def scores(self, x: Any) -> Any:
        """Logits of the classes, of shape (…, K)."""
        scores = x @ like(self.coef, x) + like(self.intercept, x)
        if self.hidden is None or self.hidden_bias is None or self.hidden_coef is None:
            return scores
        inner = (x @ like(self.hidden, x) + like(self.hidden_bias, x)).clip(min=0)
        return scores + inner @ like(self.hidden_coef, x)

    def posterior(self, x: Any) -> Any:
        """Probability of every class, of shape (…, K)."""
        scores = self.scores(x)
        return softmax(scores) if isinstance(scores, np.ndarray) else scores.softmax(-1)


@register_map
@dataclass(frozen=True, eq=False, kw_only=True)
class FreeForm(Classifier):
    """x ↦ x − left·(π(x) − centre) with the posterior π of the classifier.

    Cost per row: that of the classifier, and 2dK.

    Examples
    --------
    >>> toward = FreeForm(
    ...     coef=np.array([[-20.0, 20.0]]), intercept=np.zeros(2),
    ...     left=np.array([[-1.0, 1.0]]), centre=np.array([0.5, 0.5]),
    ... )
    >>> toward(np.array([[-9.0], [0.0], [9.0]]))
    array([[-8.],
           [ 0.],
           [ 8.]])
    """

    kind: ClassVar[str] = "free_form"
    same_space: ClassVar[bool] = True
    shapes: ClassVar[Mapping[str, str]] = {**Classifier.shapes, "left": "dK", "centre": "K"}
    ends: ClassVar[str] = "dd"

    left: Array  # (d, K)
    centre: Array  # (K,)

    def __call__(self, x: Any) -> Any:
        return x - (self.posterior(x) - like(self.centre, x)) @ like(self.left, x).T


def softmax(scores: Array) -> Array:
    """Probabilities from logits, over the last axis."""
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


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
        """Invert in double precision, since rounded rotations are not quite orthogonal."""
        return np.linalg.inv(self.rotations.astype(np.float64))


def to_normal(u: Array, knots: Array, reach: float) -> Array:
    """Normal scores (n, d) of values, by the increasing knots (d, b) of each column."""
    n_cells = knots.shape[1] - 1
    columns = np.arange(len(knots))
    cells = [np.searchsorted(k[1:-1], column) for k, column in zip(knots, u.T, strict=True)]
    cell = np.stack(cells, axis=1) if len(cells) else np.zeros(u.shape, int)
    left = knots[columns, cell]
    width = knots[columns, cell + 1] - left
    return np.asarray((cell + (u - left) / width) * (2 * reach / n_cells) - reach)


def from_normal(y: Array, knots: Array, reach: float) -> Array:
    """Invert ``to_normal``: the values (n, d) that have these normal scores."""
    n_cells = knots.shape[1] - 1
    columns = np.arange(len(knots))
    place = (y + reach) * (n_cells / (2 * reach))
    cell = np.clip(np.floor(place), 0, n_cells - 1).astype(np.int64)
    left = knots[columns, cell]
    return np.asarray(left + (place - cell) * (knots[columns, cell + 1] - left))


def _by_class(function: Any, rows: Array, codes: Array, knots: Array, reach: float) -> Array:
    result = np.empty_like(rows)
    for k, class_knots in enumerate(knots):
        members = codes == k
        if members.any():
            result[members] = function(rows[members], class_knots.astype(np.float64), reach)
    return result


def as_numpy(x: Any) -> Array:
    """Convert a tensor to numpy, for maps whose steps numpy and torch do not share."""
    if not hasattr(x, "detach"):
        raise NotImplementedError("its steps depend on the row")
    return np.asarray(x.detach().cpu().numpy())
