"""ComBat and CovBat: rows of every site shifted and scaled to those of all, by their labels.

Both need the site, and the covariates, of each row that they correct; an eraser needs neither.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from unspot.data.concept import Classes, is_table, read_covariate

Array = NDArray[np.float64]


class ComBat(BaseEstimator):
    """Remove the shifts and scales of sites, shrunk by parametric empirical Bayes.

    A column is x = α + cβ + γ_site + δ_site ε, with covariates c. Shifts and scales of a site have
    a common prior over the columns. Corrected rows are (x − α − cβ − γ)/δ + α + cβ.

    References
    ----------
    W. E. Johnson, C. Li, A. Rabinovic, Biostatistics 2007; J.-P. Fortin et al., NeuroImage 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site, age = np.repeat(["a", "b"], 200), rng.normal(50, 10, size=400)
    >>> X = rng.normal(size=(400, 5)) * np.where(site == "a", 1, 2)[:, None] + age[:, None] / 10
    >>> corrected = ComBat().fit(X, site, given={"age": age}).transform(X, site, given={"age": age})
    >>> [float((corrected - age[:, None] / 10)[site == name].std().round(1)) for name in "ab"]
    [1.6, 1.6]
    """

    def fit(self, X: Any, z: Any, *, given: Any = None) -> Self:
        """Learn shifts and scales of the sites z, and what the covariates explain."""
        X = check_array(X, dtype=np.float64)
        self.sites_ = Classes.read(z, n_rows=len(X), min_rows=2)
        self.column_ = next(iter(given)) if given is not None and is_table(given) else ""
        self.covariates_: Any = None if given is None else read_covariate(given, "given", len(X))
        if self.covariates_ is not None and self.covariates_.determines(self.sites_):
            raise ValueError(
                "Got covariates that determine the site, but expected sites with rows of the same "
                "covariates: nobody can tell their effects apart. Leave the covariate out."
            )
        codes, C = self.sites_.codes, self._design(given, len(X))
        K = len(self.sites_.classes)
        design = np.hstack([np.eye(K)[codes], C])
        beta = np.linalg.lstsq(design, X, rcond=None)[0]
        spread = np.sqrt(np.mean(np.square(X - design @ beta), axis=0))
        varies = spread > 1e-9 * np.abs(X).max(axis=0)  # the others are only shifted
        if varies.sum() < 2:
            raise ValueError("Got fewer than two columns that vary: ComBat compares columns.")
        self.mean_, self.slopes_ = np.bincount(codes) / len(X) @ beta[:K], beta[K:]
        self.spread_ = np.where(varies, spread, 1.0)
        standard = (X - self.mean_ - C @ self.slopes_) / self.spread_
        parts = [standard[codes == k] for k in range(K)]
        self.shift_ = np.stack([part.mean(axis=0) for part in parts])
        self.scale_ = np.ones_like(self.shift_)
        for k, part in enumerate(parts):
            self.shift_[k, varies], self.scale_[k, varies] = _shrunk(part[:, varies])
        self._fit_covariance((standard - self.shift_[codes]) / self.scale_[codes])
        return self

    def transform(self, X: Any, z: Any = None, *, given: Any = None) -> Array:
        """Correct rows by the sites that they come from, and their covariates."""
        if z is None or (given is None) != (self.covariates_ is None):
            raise ValueError(
                f"Got rows without their {'sites' if z is None else 'covariates'}, but ComBat "
                "corrects a row by its site and covariates: transform(X, z, given=…), as in fit. "
                "An eraser, such as unspot.LEACE, needs neither."
            )
        X = check_array(X, dtype=np.float64)
        codes = self.sites_.read_alike(z, n_rows=len(X)).codes
        expected = self.mean_ + self._design(given, len(X)) @ self.slopes_
        standard = (X - expected) / self.spread_
        corrected = self._even((standard - self.shift_[codes]) / self.scale_[codes], codes)
        return np.asarray(corrected * self.spread_ + expected)

    def _design(self, given: Any, n_rows: int) -> Array:
        """Columns (n, c) of covariates, coded as in the fit."""
        if given is None:
            return np.zeros((n_rows, 0))
        parts = []
        for name, (target, missing) in self.covariates_.columns.items():
            if missing.any():
                raise ValueError(
                    f"Got no value of {name} in {missing.sum()} rows, but ComBat expected the "
                    "covariates of every row. Fill the gaps, or leave these rows out."
                )
            key = name if self.covariates_.names else self.column_
            values = given[key] if is_table(given) else given
            read = target.read_alike(values, n_rows=n_rows, name=name)
            parts.append(read.design() if read.has_classes else read.numbers)
        return np.hstack(parts)

    def _fit_covariance(self, residuals: Array) -> None:
        """Learn what is left to correct; nothing."""

    def _even(self, residuals: Array, codes: NDArray[np.int64]) -> Array:
        return residuals


class CovBat(ComBat):
    """ComBat, then the same for the principal components of its residuals, without shrinkage.

    Parameters
    ----------
    variance : float
        The share of variance that the corrected components hold.

    References
    ----------
    A. A. Chen et al., "Mitigating site effects in covariance for machine learning in neuroimaging
    data", Human Brain Mapping 2022.
    """

    def __init__(self, variance: float = 0.95) -> None:
        self.variance = variance

    def _fit_covariance(self, residuals: Array) -> None:
        self.centre_, deviations = residuals.mean(axis=0), residuals.std(axis=0)
        self.units_ = np.where(deviations > 1e-9, deviations, 1.0)
        rows = (residuals - self.centre_) / self.units_
        _, values, right = np.linalg.svd(rows, full_matrices=False)
        share = np.cumsum(values**2) / np.sum(values**2)
        self.components_ = right[: int(np.sum(share <= self.variance)) + 1]
        scores, codes = rows @ self.components_.T, self.sites_.codes
        parts = [scores[codes == k] for k in range(len(self.sites_.classes))]
        self.score_means_ = np.stack([part.mean(axis=0) for part in parts])
        pooled = np.sqrt(np.mean(np.square(scores - self.score_means_[codes]), axis=0))
        self.score_scales_ = np.stack([part.std(axis=0, ddof=1) for part in parts]) / pooled

    def _even(self, residuals: Array, codes: NDArray[np.int64]) -> Array:
        scores = (residuals - self.centre_) / self.units_ @ self.components_.T
        moved = (scores - self.score_means_[codes]) / self.score_scales_[codes]
        return np.asarray(residuals + (moved - scores) @ self.components_ * self.units_)


def _shrunk(rows: Array, tolerance: float = 1e-4) -> tuple[Array, Array]:
    """Shift and scale (d,) of one site's standardised rows, as posterior means over its columns."""
    n, means, variances = len(rows), rows.mean(axis=0), rows.var(axis=0, ddof=1)
    centre, width = means.mean(), means.var(ddof=1)
    m, s2 = variances.mean(), variances.var(ddof=1)
    a, b = 2 + m**2 / s2, m + m**3 / s2  # of the inverse gamma prior
    shift, square, change = means, variances, 1.0
    while change > tolerance:
        new = (width * n * means + square * centre) / (width * n + square)
        rest = (n - 1) * variances + n * np.square(means - new)
        wider = (rest / 2 + b) / (n / 2 + a - 1)
        change = max(np.max(np.abs(new / shift - 1)), np.max(np.abs(wider / square - 1)))
        shift, square = new, wider
    return shift, np.sqrt(square)
