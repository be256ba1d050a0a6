"""Laws of numbers, of two concepts and of a task, where what can be known is known exactly.

Companions of ``synthetic``, whose concept is one class. The concept lives in one coordinate of the
rows, the others are standard normal noise, and a random rotation hides which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from unspot.checks import check_choice

__all__ = ["CONCEPT_LAWS", "ConceptLaw", "concept_law"]

Array = NDArray[Any]

#: Of the variance of a number, what its law lets rows explain.
SHARE = 0.5


@dataclass(frozen=True, eq=False)
class ConceptLaw:
    """Rows drawn from a law, and how much the best adversary could know from them.

    Attributes
    ----------
    X : array of shape (n, d)
    z : array of shape (n,), or dict of such arrays
        The concept, or two of them by name.
    y : array of shape (n,) or None
        The task, where there is one.
    best : float
        What the best attacker there is has: R² of a number; the advantage over guessing of the
        combination of two concepts, each of which alone cannot be guessed; the advantage given y.
    concept_basis : array of shape (d, 1)
        The direction that holds the concept: projecting it away erases all of it.
    """

    X: Array
    z: Any
    y: Array | None
    best: float
    concept_basis: Array


def concept_law(name: str, *, n: int = 2000, d: int = 8, random_state: Any = 0) -> ConceptLaw:
    """Draw rows of a law by name.

    =========== ============================================================== ==============
    name        how rows and concept depend on each other                      best
    =========== ============================================================== ==============
    linear      a number that grows with a coordinate of the rows              R² = 0.5
    quadratic   a number that grows with its square                            R² = 0.5
    periodic    a number that goes up and down with it                         R² = 0.5
    number      a number that has nothing to do with the rows                  R² = 0
    jointly     two labels: rows tell whether they agree, and of each nothing  0.137 of cells
    given       the class is noisy news of a task that rows show; nothing      0 given y, 0.205
                else                                                           without
    =========== ============================================================== ==============

    Examples
    --------
    >>> rows = concept_law("quadratic", n=500, d=4)
    >>> rows.X.shape, rows.z.shape, rows.best
    ((500, 4), (500,), 0.5)
    """
    draw = _LAWS[check_choice("name", name, CONCEPT_LAWS)]
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n, d))
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    x, z, y, best = draw(X[:, 0], rng)
    X[:, 0] = x
    return ConceptLaw(X @ rotation.T, z, y, best, rotation[:, :1])


def _number(of: Callable[[Array], Array], best: float = SHARE) -> Callable[..., Any]:
    """Draw a number: a signal of unit variance plus noise."""

    def draw(x: Array, rng: np.random.Generator) -> tuple[Array, Array, None, float]:
        noise = rng.normal(size=len(x))
        return x, best**0.5 * of(x) + (1 - best) ** 0.5 * noise, None, best

    return draw


def _jointly(x: Array, rng: np.random.Generator) -> tuple[Array, Any, None, float]:
    first, second = rng.integers(2, size=(2, len(x)))
    agree = first == second
    z = {"first": np.where(first, "a", "b"), "second": np.where(second, "c", "d")}
    # Who knows whether they agree, with a probability of Φ(3/4), names one of two cells.
    return x + 1.5 * agree, z, None, float(ndtr(0.75)) / 2 - 0.25


def _given(x: Array, rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    y = rng.integers(2, size=len(x))
    z = np.where(rng.random(len(x)) < 0.8, y, 1 - y)
    return x + 2 * y, z, y, 0.0


_LAWS: dict[str, Callable[..., Any]] = {
    "linear": _number(np.asarray),
    "quadratic": _number(lambda x: (x**2 - 1) / 2**0.5),
    "periodic": _number(lambda x: 2**0.5 * np.sin(4 * x)),
    "number": _number(np.asarray, best=0.0),
    "jointly": _jointly,
    "given": _given,
}

#: The names of all laws.
CONCEPT_LAWS: tuple[str, ...] = tuple(_LAWS)
