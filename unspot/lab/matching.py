"""Moment matching: every class moved to one mean and covariance by optimal transport."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unspot.checks import check_choice
from unspot.data.columns import encode_as
from unspot.data.concept import Classes
from unspot.data.statistics import ClassStatistics, whitening
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser, Fit
from unspot.erasers.transport import NO_VARIANCE, barycentre, transport_matrix
from unspot.lab.maps import Transport
from unspot.maps import Map, Projection

Array = NDArray[np.float64]


class MomentMatching(BaseEraser):
    """Move every class to a common mean, or a common mean and covariance.

    Each class k is moved by its own affine map xTₖ + bₖ, the optimal transport between Gaussians,
    to the common law that is nearest to all classes: its mean is Σₖ pₖμₖ, its covariance the
    Wasserstein barycentre of those of the classes. If the labels of the rows to erase are given,
    means and covariances then agree exactly; higher moments may differ.

    The class of a row must be known to move it. With ``labels="predicted"`` it is predicted by
    linear discriminant analysis. Rows on the wrong side of that boundary move with the wrong
    class, so there is no guarantee for the true classes.

    Cost: O(nd² + Kd³) to fit (the barycentre repeats the d³ part some ten times), O(d²) per row
    to apply, K·d² numbers to store.

    Parameters
    ----------
    method : {"mean_covariance", "mean"}
        What is matched.
    labels : {"predicted", "given"}
        Whether ``transform`` works without labels. Labels that are passed are always used.

    Attributes
    ----------
    eraser_ : Eraser
        Its metadata say ``labels_at_transform``, and whether the covariances match exactly
        (``exact``). A class whose covariance has fewer dimensions than the others cannot be moved
        onto theirs, so its covariance is mixed with the pooled one. Directions whose deviation is
        below a millionth of the largest count as constant.

    References
    ----------
    S. Singh et al., "Representation Surgery: Theory and Practice of Affine Steering", ICML 2024.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 3)) * (1 + z)[:, None]
    >>> eraser = MomentMatching(labels="given").fit(X, z)
    >>> moved = eraser.transform(X, z=z)
    >>> np.allclose(np.cov(moved[z == 0].T, bias=True), np.cov(moved[z == 1].T, bias=True))
    True
    """

    reads_rows: ClassVar[bool] = True

    def __init__(
        self,
        *,
        method: Literal["mean_covariance", "mean"] = "mean_covariance",
        labels: Literal["predicted", "given"] = "predicted",
    ) -> None:
        self.method = method
        self.labels = labels

    def transform(self, X: Any, z: Any = None) -> NDArray[Any]:
        """Erase the concept: (n, d) → (n, d).

        Parameters
        ----------
        X : array-like of shape (n, d)
        z : array-like of shape (n,), optional
            The rows' labels; required if ``labels="given"``.
        """
        check_is_fitted(self)
        if z is None:
            if self.labels == "given":
                raise ValueError(
                    "Got no labels, but this eraser was fitted with labels='given'. Pass them as "
                    "transform(X, z=…), or use labels='predicted'."
                )
            return super().transform(X)
        rows = self._validated(X, reset=False)
        codes = encode_as(z, self.classes_)
        if len(codes) != len(rows):
            raise ValueError(
                f"Got {len(codes)} labels in z for {len(rows)} rows of X, but expected one label "
                "for each row."
            )
        first, *rest = self.eraser_.maps
        moved: NDArray[Any] = first.given(rows.astype(np.float64), codes)  # type: ignore[attr-defined]
        for step in rest:
            moved = step(moved)
        return moved.astype(rows.dtype, copy=False)

    def fit_transform(self, X: Any, y: Any = None, *, z: Any = None) -> NDArray[Any]:
        """Fit, and erase the same rows, by their labels if they are to be given."""
        concept = y if z is None else z
        self.fit(X, concept)
        return self.transform(X, z=concept if self.labels == "given" else None)

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Fit:
        check_choice("method", self.method, ("mean", "mean_covariance"))
        check_choice("labels", self.labels, ("predicted", "given"))
        statistics = ClassStatistics.from_rows(X, target.codes, len(target.classes)).settled()
        matrices, exact = None, True
        shifts = statistics.mean - statistics.means
        if self.method == "mean_covariance":
            covariances, exact = _common_support(statistics)
            weights = statistics.counts / statistics.n_rows
            common = barycentre(covariances, weights)
            matrices = np.stack([transport_matrix(C, common) for C in covariances])
            shifts = statistics.mean - np.einsum("kd,kde->ke", statistics.means, matrices)
        predictor = discriminant(statistics) if self.labels == "predicted" else (None, None)
        maps: tuple[Map, ...] = (Transport(shifts, matrices, *predictor),)
        support = _with_variance(statistics.within)
        if matrices is not None and support.shape[1] < np.count_nonzero(
            np.diagonal(statistics.within)
        ):
            # Transport maps the other directions to zero, or to rounding errors that tell k.
            maps += (Projection(support, np.array(statistics.mean)),)
        eraser = Eraser(maps, {"labels_at_transform": self.labels, "exact": exact})
        return Fit(eraser, statistics)


def discriminant(statistics: ClassStatistics) -> tuple[Array, Array]:
    """Coefficients (d, K) and intercepts (K,) of linear discriminant analysis."""
    W, _ = whitening(statistics.within / statistics.n_rows)
    means = statistics.means - statistics.mean
    coef = W @ W.T @ means.T
    prior = np.log(statistics.counts / statistics.n_rows)
    intercept = prior - 0.5 * np.sum(means.T * coef, axis=0) - statistics.mean @ coef
    return coef, intercept


def _common_support(statistics: ClassStatistics) -> tuple[Array, bool]:
    """Class covariances that transport can match, and whether they are those of the rows."""
    covariances = statistics.class_covariances
    pooled = statistics.within / statistics.n_rows
    full = _rank(pooled)
    exact = True
    for k, C in enumerate(covariances):
        if _rank(C) < full:
            # Too few rows of this class to span the space: the fewer, the more is borrowed.
            share = full / (full + statistics.counts[k])
            covariances[k] = (1 - share) * C + share * pooled
            exact = False
    return covariances, exact


def _rank(C: Array) -> int:
    return int(_with_variance(C).shape[1])


def _with_variance(C: Array) -> Array:
    """Orthonormal basis (d, r) of the directions that have variance, zero in constant columns."""
    varies = np.diagonal(C) > 0
    values, vectors = np.linalg.eigh(C[np.ix_(varies, varies)])
    varied = values > NO_VARIANCE * max(values.max(initial=0.0), 0.0)
    basis = np.zeros((len(C), int(varied.sum())))
    basis[varies] = vectors[:, varied]
    return basis
