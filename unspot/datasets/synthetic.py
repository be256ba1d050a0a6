"""Laws whose concept is known exactly, to compare attackers and erasers with the truth.

The concept lives in q coordinates, where each class is a mixture of Gaussians; the other d − q
coordinates are standard normal noise; a random rotation hides which are which. Gaussian mixtures
stay Gaussian mixtures under projection, so the best accuracy that any adversary could reach is
known before and after every orthogonal projection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from unspot.checks import check_choice

Array = NDArray[Any]

#: Singular values below this share of a unit direction are a direction that was projected away.
_GONE = 1e-9


@dataclass(frozen=True, eq=False)
class _Classes:
    """K classes of m equally likely Gaussian components in q concept coordinates.

    With ``df`` the whole vector, noise included, is multivariate Student t around its component.
    """

    means: Array  # (K, m, q)
    variances: Array  # (K, m, q), of independent coordinates
    df: float | None = None


@dataclass(frozen=True, eq=False)
class SyntheticLaw:
    """Rows drawn from a law, and how much the best adversary could know from them.

    Attributes
    ----------
    X, z : arrays of shape (n, d) and (n,)
        The rows, and the concept as integers 0…K−1, all equally likely.
    bayes_accuracy : float
        Accuracy of the best classifier there is, on the rows as they are.
    concept_basis : array of shape (d, q)
        Orthonormal basis of the subspace that holds the concept. Projecting it away erases the
        concept completely; keeping any of it keeps what ``bayes_after`` says.
    """

    name: str
    X: Array  # (n, d)
    z: NDArray[np.int64]  # (n,)
    bayes_accuracy: float
    concept_basis: Array  # (d, q)
    _rotation: Array  # (d, d), its first q columns are the concept basis
    _classes: _Classes

    @property
    def n_classes(self) -> int:
        return len(self._classes.means)

    def sample(self, n: int, *, random_state: Any = None) -> tuple[Array, NDArray[np.int64]]:
        """Draw more rows of this law, in the same rotation: ``X`` (n, d) and ``z`` (n,)."""
        return _draw(self._classes, self._rotation, n, np.random.default_rng(random_state))

    def bayes_after(self, U: Any) -> float:
        """Compute the accuracy of the best classifier that sees only Uᵀx (equally, UUᵀx).

        Computed by numerical integration in the at most two dimensions where the classes differ,
        with an error below 1e-3; in closed form for the heavy-tailed law.

        Parameters
        ----------
        U : array of shape (d, r)
            Orthonormal basis of what is kept.
        """
        return _bayes(self._classes, self.concept_basis, _orthonormal(U, len(self._rotation)))


def law(name: str, *, n: int = 5000, d: int = 20, random_state: Any = 0) -> SyntheticLaw:
    """Draw rows of a law by name.

    =========== == ========================================================== ==============
    name        q  how the concept is coded                                   Bayes accuracy
    =========== == ========================================================== ==============
    mean        1  two classes at ±1                                          Φ(1) = 0.841
    variance    2  two classes of deviation ½ and 3/2 around the same mean    0.838
    xor         2  four clusters at (±3/2, ±3/2), the class is the sign of    0.875
                   the product
    ring        2  a disc inside a ring                                       0.93
    mixture     2  three classes of three clusters each, in turn on a         0.87
                   circle: equal means and equal covariances
    heavy       1  two classes at ±3/2 with Student's t₃ around them, in all  F₃(3/2) = 0.885
                   coordinates
    independent 0  two labels that have nothing to do with the rows           0.5
    =========== == ========================================================== ==============

    Parameters
    ----------
    name : str
        One of ``LAWS``.
    n, d : int
        Rows and features.
    random_state : int, Generator or None
        Decides the rotation and the rows.

    Notes
    -----
    O(nd²) time for the rotation, O(nd) memory.

    Examples
    --------
    >>> rows = law("mean", n=1000, d=5, random_state=0)
    >>> rows.X.shape, round(rows.bayes_accuracy, 3)
    ((1000, 5), 0.841)
    >>> import numpy as np
    >>> kept = np.linalg.svd(rows.concept_basis)[0][:, 1:]  # everything but the concept
    >>> rows.bayes_after(kept)
    0.5
    """
    classes = _LAWS[check_choice("name", name, LAWS)]
    q = classes.means.shape[2]
    if d < max(q, 1) or n < 1:
        raise ValueError(
            f"Got n={n} rows and d={d} features, but the law {name!r} needs at least one row and "
            f"{max(q, 1)} features."
        )
    rng = np.random.default_rng(random_state)
    rotation = _random_rotation(d, rng)
    X, z = _draw(classes, rotation, n, rng)
    basis = np.ascontiguousarray(rotation[:, :q])
    return SyntheticLaw(
        name, X, z, _bayes(classes, basis, np.eye(d)), basis, _rotation=rotation, _classes=classes
    )


# -- the laws ----------------------------------------------------------------------------------


def _classes(means: Any, deviations: Any = 1.0, df: float | None = None) -> _Classes:
    means = np.asarray(means, dtype=np.float64)  # (K, m, q)
    return _Classes(means, np.full_like(means, np.square(deviations)), df)


def _circle(turns: Array) -> Array:
    return np.stack([np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)], axis=1)


# Gaps narrower than the clusters are wide: the ripple along the ring is below 1e-12.
_RING = 2.5 * _circle(np.arange(24) / 24)
_LAWS = {
    "mean": _classes([[[-1]], [[1]]]),
    "variance": _classes(np.zeros((2, 1, 2)), [[[0.5]], [[1.5]]]),
    "xor": _classes([[[1.5, 1.5], [-1.5, -1.5]], [[1.5, -1.5], [-1.5, 1.5]]]),
    "ring": _classes([np.zeros_like(_RING), _RING], 0.8),
    # Three clusters a third of a turn apart: mean zero, and a covariance that is a multiple of the
    # identity, the same for every class.
    "mixture": _classes([4.5 * _circle(np.arange(3) / 3 + k / 9) for k in range(3)]),
    "heavy": _classes([[[-1.5]], [[1.5]]], df=3.0),
    "independent": _classes(np.zeros((2, 1, 0))),
}

#: The names of the laws.
LAWS: tuple[str, ...] = tuple(_LAWS)


# -- drawing -----------------------------------------------------------------------------------


def _draw(
    classes: _Classes, rotation: Array, n: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    K, m, q = classes.means.shape
    d = len(rotation)
    z = rng.integers(K, size=n)
    component = rng.integers(m, size=n)
    noise = rng.standard_normal((n, d))
    noise[:, :q] *= np.sqrt(classes.variances[z, component])
    if classes.df is not None:
        noise *= np.sqrt(classes.df / rng.chisquare(classes.df, size=(n, 1)))
    noise[:, :q] += classes.means[z, component]
    return noise @ rotation.T, z


def _random_rotation(d: int, rng: np.random.Generator) -> Array:
    Q, R = np.linalg.qr(rng.standard_normal((d, d)))
    return Q * np.sign(np.diag(R))  # the signs make it uniform over the orthogonal group


# -- the best adversary ------------------------------------------------------------------------


def _differing(classes: _Classes, A: Array) -> tuple[Array, Array, Array]:
    """Find the projected coordinates in which classes differ: basis, means, covariances.

    Uᵀx has covariance I + A(D − I)Aᵀ, so outside the range of A it is noise, independent of the
    rest.
    """
    left, singular, right = np.linalg.svd(A, full_matrices=False)
    mask = singular > _GONE
    left, singular, right = left[:, mask], singular[mask], right[mask]
    shrink = right.T * singular  # (q, q′)
    excess = shrink.T @ ((classes.variances - 1)[..., :, None] * shrink)  # (K, m, q′, q′)
    return left, classes.means @ shrink, np.eye(len(singular)) + excess


def _mixture_densities(means: Array, covariances: Array, Y: Array) -> Array:
    K, m, q = means.shape
    densities = np.zeros((len(Y), K))
    for k in range(K):
        components = np.concatenate([means[k], covariances[k].reshape(m, -1)], axis=1)
        for component, count in zip(
            *np.unique(components, axis=0, return_counts=True), strict=True
        ):
            covariance = component[q:].reshape(q, q)
            centred = Y - component[:q]
            mahalanobis = ((centred @ np.linalg.inv(covariance)) * centred).sum(axis=1)
            scale = np.sqrt(np.linalg.det(covariance) * (2 * np.pi) ** q)
            densities[:, k] += count / m / scale * np.exp(-mahalanobis / 2)
    return densities


def _bayes(classes: _Classes, basis: Array, U: Array) -> float:
    """Integrate maxₖ p(y, k) over the coordinates in which the classes differ."""
    from scipy.stats import t

    K = len(classes.means)
    A = U.T @ basis
    if classes.df is not None:
        apart = float(np.linalg.norm((classes.means[1, 0] - classes.means[0, 0]) @ A.T))
        return float(t.cdf(apart / 2, classes.df)) if apart > _GONE else 1 / K
    left, means, covariances = _differing(classes, A)
    if left.shape[1] == 0:
        return 1 / K
    reach = np.abs(means).max() + 7 * np.sqrt(covariances.max())
    axis, step = np.linspace(-reach, reach, 4001 if left.shape[1] == 1 else 301, retstep=True)
    grid = np.stack(np.meshgrid(*[axis] * left.shape[1]), axis=-1).reshape(-1, left.shape[1])
    densities = _mixture_densities(means, covariances, grid)
    return float(densities.max(axis=1).sum() * float(step) ** left.shape[1] / K)


def _orthonormal(U: Any, d: int) -> Array:
    U = np.asarray(U, dtype=np.float64)
    if U.ndim != 2 or len(U) != d:
        raise ValueError(f"Got U of shape {U.shape}, but expected ({d}, r) for {d} features.")
    if not np.allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-6):
        raise ValueError(
            "Got U whose columns are not orthonormal, but expected a basis of the kept subspace. "
            "Pass np.linalg.qr(U)[0]."
        )
    return U


# -- Laws of a number, of two concepts and of a task: the concept lives in one coordinate ----------

#: Share of a number's variance that the law makes explainable.
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
        Score of the best possible attacker: R² of a number; the advantage over guessing of the
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
    draw = _OF_CONCEPTS[check_choice("name", name, CONCEPT_LAWS)]
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
    # Knowing whether they agree, right with probability Φ(3/4), leaves one of two cells to name.
    return x + 1.5 * agree, z, None, float(ndtr(0.75)) / 2 - 0.25


def _given(x: Array, rng: np.random.Generator) -> tuple[Array, Array, Array, float]:
    y = rng.integers(2, size=len(x))
    z = np.where(rng.random(len(x)) < 0.8, y, 1 - y)
    return x + 2 * y, z, y, 0.0


_OF_CONCEPTS: dict[str, Callable[..., Any]] = {
    "linear": _number(np.asarray),
    "quadratic": _number(lambda x: (x**2 - 1) / 2**0.5),
    "periodic": _number(lambda x: 2**0.5 * np.sin(4 * x)),
    "number": _number(np.asarray, best=0.0),
    "jointly": _jointly,
    "given": _given,
}

#: The names of all laws.
CONCEPT_LAWS: tuple[str, ...] = tuple(_OF_CONCEPTS)
