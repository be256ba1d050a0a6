"""Maps that ask a frozen classifier for the class of a row.

The classifier is linear, with a hidden layer beside it if it was trained as a network, so that it
needs nothing but numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map, like, register_map

__all__ = ["Classifier", "FreeForm"]


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
        """The probability of every class, of shape (…, K)."""
        scores = self.scores(x)
        return softmax(scores) if isinstance(scores, np.ndarray) else scores.softmax(-1)

    def fault(self) -> str:
        if len({v is None for v in (self.hidden, self.hidden_bias, self.hidden_coef)}) > 1:
            return "a part of a hidden layer, but expected all of hidden, hidden_bias, hidden_coef"
        return super().fault()


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
