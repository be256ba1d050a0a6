"""LEACE: least-squares linear concept erasure in closed form (Belrose et al. 2023)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from sklearn.utils.validation import check_is_fitted

from unspot.checks import check_choice, warn
from unspot.data.columns import label_type
from unspot.data.concept import Classes, read
from unspot.data.features import centred
from unspot.data.goal import Goal
from unspot.data.rows import with_known
from unspot.data.statistics import (
    ClassStatistics,
    CrossStatistics,
    exceeds,
    mean_difference_basis,
    whitening,
)
from unspot.eraser import Eraser
from unspot.erasers.base import ANY_GOAL, ROUNDING, BaseEraser, Fit, within_support
from unspot.leopard.subspaces import column_space, complement
from unspot.maps import Oblique

Array = NDArray[np.float64]
#: The smallest squared sine of an angle between what is erased and what is kept.
LEAST_ANGLE = 1e-6


class LEACE(BaseEraser):
    """Remove all that a linear classifier could find, with the smallest change.

    Closed form, one pass over the rows, O(nd² + d³) time. A nonlinear classifier may still find
    the concept: use L̄EOPARD against those.

    Parameters
    ----------
    method : {"oblique", "orthogonal"}
        ``"oblique"``: P = I − W⁺(WΣxz)(WΣxz)⁺W around the mean, the smallest change in mean
        square. ``"orthogonal"``: the first stage of the paper's cascade, the orthogonal projector
        I − QQᵀ with Q a basis of the span of μₖ − μ.
    normalise : bool
        Scale erased rows to unit norm.

    Attributes
    ----------
    eraser_ : Eraser
    classes_ : ndarray
    statistics_ : ClassStatistics or CrossStatistics
        The statistics of all rows so far; ``partial_fit`` adds to them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [4.0, 1.0], [4.0, 2.0]])
    >>> LEACE().fit_transform(X, ["a", "a", "b", "b"])
    array([[2., 1.],
           [2., 2.],
           [2., 1.],
           [2., 2.]])

    With ``fit(X, z, given=y)`` class means are equal within each value of y. With
    ``fit(X, z, keep=y)`` the covariance with y stays as it was (SPLINCE), so that a linear head for
    y that is fitted already goes on working.

    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.integers(2, size=(2, 500))
    >>> X = rng.normal(size=(500, 4)) + np.outer(z, [2.0, 1, 0, 0]) + np.outer(y, [0, 1, 2.0, 0])
    >>> erased = LEACE().fit(X, z, keep=y).transform(X)
    >>> bool(np.allclose(np.cov(erased.T, y)[4], np.cov(X.T, y)[4]))
    True
    """

    takes: ClassVar[tuple[str, ...]] = ANY_GOAL
    reads_rows: ClassVar[bool] = True
    statistics_: Any  # ClassStatistics or CrossStatistics

    def __init__(
        self, *, method: Literal["oblique", "orthogonal"] = "oblique", normalise: bool = False
    ) -> None:
        self.method = method
        self.normalise = normalise

    @classmethod
    def from_statistics(
        cls, statistics: ClassStatistics, classes: Any, *, method: Any = "oblique"
    ) -> LEACE:
        """Build LEACE from statistics that were collected elsewhere, as on workers of a cluster.

        Parameters
        ----------
        statistics : ClassStatistics
            The merged statistics of all rows.
        classes : array of K labels
            Each class once, in the order of the statistics.
        method : {"oblique", "orthogonal"}
        """
        if len(classes) != len(statistics.counts):
            raise ValueError(
                f"Got {len(classes)} classes for statistics of {len(statistics.counts)}, but "
                "expected one for each."
            )
        labels = Classes.read(classes, name="classes", min_classes=1)
        if labels.counts.max() > 1:
            raise ValueError(
                f"Got the class {labels.classes[np.argmax(labels.counts > 1)]!s} more than once, "
                "but expected each class once. Merge the statistics of its rows first."
            )
        order = np.argsort(labels.codes)
        scatter = statistics.class_scatter
        fitted = cls(method=method)
        fitted.statistics_ = replace(
            statistics,
            counts=statistics.counts[order],
            means=statistics.means[order],
            class_scatter=None if scatter is None else scatter[order],
        )
        fitted.classes_ = labels.classes
        fitted.n_features_in_ = statistics.means.shape[1]
        return fitted

    def partial_fit(self, X: Any, y: Any = None, *, z: Any = None) -> LEACE:
        """Add the rows of one batch of a stream. New classes may appear at any time."""
        self._add_batch(X, y if z is None else z)
        return self

    def _add_batch(self, X: Any, z: Any) -> None:
        seen = getattr(self, "statistics_", None)
        X = self._validated(X, reset=seen is None, min_rows=1)
        self._refuse_goal_of_fit()
        kind = None if seen is None else self._seen_concept()["concept"]  # one for all batches
        concept = read(z, n_rows=len(X), kind=kind, min_values=1)
        if concept.names or (kind and kind != concept.describe()["concept"]):
            raise ValueError(
                "Got a batch of a stream with several concepts, or with another kind of concept "
                "than before, but expected one label or one number for each row. Pass all rows to "
                "fit, as an array, a path or a memory map."
            )
        if concept.has_classes:
            concept = self._among_classes(concept)
            seen = getattr(self, "statistics_", None)
        batch = concept.statistics(X, per_class=False)
        self.statistics_ = batch if seen is None else seen.merge(batch)
        known = vars(self)["eraser_"].metadata if "eraser_" in vars(self) else vars(self)
        self.known_ = with_known(known.get("known_", known), X)
        self.__dict__.pop("eraser_", None)  # it is that of fewer rows

    def _refuse_goal_of_fit(self) -> None:
        """Raise an error after a fit whose statistics hold more than one concept."""
        facts = vars(self)["eraser_"].metadata if "eraser_" in vars(self) else {}
        goals = [name for name in ("given", "keep", "concepts") if name in facts]
        if goals:
            what = "several concepts" if goals[-1] == "concepts" else f"{goals[-1]}=…"
            raise ValueError(
                f"Got a batch of a stream after a fit with {what}, but expected a fit on one "
                "concept alone: a batch carries no values for given= or keep=. Pass all rows to "
                "fit, or begin a stream with a new LEACE."
            )

    def _among_classes(self, labels: Any) -> Any:
        """Encode the labels by ``classes_``, to which new classes are added first."""
        before = getattr(self, "classes_", labels.classes)
        _refuse_other_type(labels.classes, before)
        self.classes_ = np.union1d(before, labels.classes)
        if len(self.classes_) > len(before):
            self.statistics_ = _among(self.classes_, self.statistics_, before)
        return Classes(np.searchsorted(self.classes_, labels.classes)[labels.codes], self.classes_)

    @cached_property
    def eraser_(self) -> Eraser:  # type: ignore[override]
        """Solve for the eraser of a stream, on the first use after a batch."""
        check_is_fitted(self, "statistics_")
        eraser = within_support(self._solve(self.statistics_), lambda: self.statistics_)
        if self.normalise:
            mean, covariance = self.statistics_.mean, self.statistics_.covariance
            square = float(np.trace(covariance) + mean @ mean)
            eraser = eraser.normalised(ROUNDING * square**0.5)
        known = getattr(self, "known_", {})
        metadata = self._facts(self._seen_concept(), self.statistics_.n_rows, known)
        return Eraser(eraser.maps, {**metadata, **eraser.metadata})

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        self.statistics_ = goal.statistics(X)
        if goal.keep is None:
            return Fit(self._solve(self.statistics_), self.statistics_)
        if self.method == "orthogonal":
            raise ValueError(
                "Got keep=… with method='orthogonal', but no orthogonal projection keeps a "
                "covariance as it is. Use method='oblique'."
            )
        task = CrossStatistics.from_rows(X, centred(goal.keep.design())).settled()
        eraser = _keeping(self.statistics_.settled(), task.cross_covariance)
        return Fit(eraser, self.statistics_)

    def _solve(self, statistics: ClassStatistics | CrossStatistics) -> Eraser:
        statistics = statistics.settled()
        if check_choice("method", self.method, ("oblique", "orthogonal")) == "orthogonal":
            basis = _kernel_basis(statistics)
            warn_if_all(basis, statistics.covariance)
            return Eraser.projection(complement(basis))
        covariance, cross = statistics.covariance, statistics.cross_covariance
        scale = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        scale = np.where(scale > 0, scale, 1.0)
        R = covariance / scale / scale[:, None]
        # A whitened cross-covariance is a correlation: below the floor it is rounding, no signal.
        if not exceeds(R, 1e-10 * len(R)):
            W, W_inverse = whitening(covariance)
            Q = column_space(W.T @ cross, floor=1e-10)
            left, right = W_inverse.T @ Q, W @ Q
        else:  # any root of the covariance gives the same projector, and this one costs least
            root = np.asarray(np.linalg.cholesky(R), np.float64)
            whitened = solve_triangular(root, cross / scale[:, None], lower=True)
            Q = column_space(whitened, floor=1e-10)
            left = root @ Q * scale[:, None]
            right = solve_triangular(root, Q, trans=1, lower=True) / scale[:, None]
            right = np.ascontiguousarray(right)  # the layout of a file, since it decides the bits
        warn_if_all(Q, covariance)
        return Eraser((Oblique(left, right, np.array(statistics.mean)),))

    def _fit_stream(self, batches: Any, concept: Any) -> LEACE:
        if concept is not None:
            raise ValueError(
                "Got labels beside a stream of batches, but expected them in it: pairs (X, z)."
            )
        try:
            for batch in batches:
                self._add_batch(*_pair(batch))
            if not hasattr(self, "statistics_"):
                raise ValueError("Got a stream without batches, but expected pairs (X, z).")
            self._refuse_one_value()
        except Exception:
            self._forget()  # a part of the stream must not pass for all of it
            raise
        return self

    def _refuse_one_value(self) -> None:
        if len(getattr(self, "classes_", ())) == 1:
            raise ValueError(
                f"Got one class in z ({self.classes_[0]!s}), but expected at least two: with one "
                "class there is nothing to erase."
            )
        if not hasattr(self, "classes_") and not self.statistics_.concept_varies:
            raise ValueError(
                "Got the same value in every row of z, but expected at least two values: "
                "there is nothing to erase."
            )

    def _seen_concept(self) -> dict[str, Any]:
        """Return the metadata of the concept of a stream."""
        if not hasattr(self, "classes_"):
            return {"concept": "continuous", "classes": None, "class_counts": None}
        counts = self.statistics_.counts.tolist()
        return {"concept": "categories", "classes": self.classes_.tolist(), "class_counts": counts}


def _keeping(statistics: Any, task: Array) -> Eraser:
    """Solve SPLINCE (Holstege et al. 2025): Σxz becomes zero, Σxy stays, rows change least.

    In whitened rows, with bases A and B of the columns of WΣxz and WΣxy, it is the projector along
    A that leaves B and all that is orthogonal to both: I − A(AᵀMA)⁻¹AᵀM with M = I − BBᵀ.
    """
    W, W_inverse = whitening(statistics.covariance)
    A = column_space(W.T @ statistics.cross_covariance, floor=1e-10)
    B = column_space(W.T @ task, floor=1e-10)
    warn_if_all(A, statistics.covariance)
    MA = A - B @ (B.T @ A)
    angles = A.T @ MA  # AᵀMA: the squared sines of the angles between A and B
    if A.shape[1] and np.linalg.eigvalsh(angles)[0] < LEAST_ANGLE:
        raise ValueError(
            "Got keep=y whose linear signal meets that of z: a direction would have to be erased "
            f"and kept ({A.shape[1]} directions tell z, {B.shape[1]} tell y, of "
            f"{statistics.n_features}), but expected tasks that z does not decide. Keep another "
            "task, with fewer classes, or erase without keep."
        )
    right = W @ np.linalg.solve(angles, MA.T).T
    return Eraser((Oblique(W_inverse.T @ A, right, np.array(statistics.mean)),))


def _pair(batch: Any) -> Any:
    is_sequence = isinstance(batch, (tuple, list))
    if is_sequence and len(batch) == 2:
        return batch
    count = f" of {len(batch)}" if is_sequence else ""
    raise ValueError(
        f"Got a batch of type {type(batch).__name__}{count}, but expected pairs (X, z)."
    )


def _refuse_other_type(labels: NDArray[Any], before: NDArray[Any]) -> None:
    # As text 10 comes before 2, so that the codes of both batches would mean other classes.
    given, expected = label_type(labels), label_type(before)
    if given != expected:
        raise ValueError(
            f"Got {given} as a label ({labels.tolist()[0]!r}) in a stream whose earlier labels are "
            f"each {expected} ({before.tolist()[0]!r}), but expected one type throughout: the "
            "label '1' is not 1. Convert the labels of every batch first, for example to strings."
        )


def _among(
    classes: NDArray[Any], statistics: ClassStatistics, seen: NDArray[Any]
) -> ClassStatistics:
    """Extend statistics of the classes ``seen`` to all ``classes``."""
    places = np.searchsorted(classes, seen)
    counts = np.zeros(len(classes), statistics.counts.dtype)
    means = np.zeros((len(classes), statistics.means.shape[1]), statistics.means.dtype)
    counts[places], means[places] = statistics.counts, statistics.means
    return replace(statistics, counts=counts, means=means, class_scatter=None)


def _kernel_basis(statistics: ClassStatistics | CrossStatistics) -> Array:
    """Find what an orthogonal projector removes so that no linear probe finds z: range(Σxz)."""
    if isinstance(statistics, ClassStatistics):
        return mean_difference_basis(statistics)
    spread = float(np.sqrt(np.trace(statistics.covariance)))
    return column_space(statistics.cross_covariance, floor=1e-10 * spread)


def warn_if_all(removed: Array, covariance: Array | None = None) -> None:
    """Warn if a basis (d, q) of what is removed spans all columns that vary: nothing is left."""
    n_features, n_removed = removed.shape
    n_varying = n_features if covariance is None else np.count_nonzero(np.diagonal(covariance))
    if n_removed >= n_varying > 0:
        some = "" if n_varying == n_features else " that vary"
        warn(
            f"Got a concept whose linear signal spans all {n_varying} features{some}: nothing is "
            "left of the embeddings. Merge classes, or use LEOPARD() or Transport(drop=False)."
        )
