"""LEACE: least-squares linear concept erasure in closed form (Belrose et al. 2023)."""

from __future__ import annotations

import warnings
from functools import reduce
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unspot.data.labels import Labels, encode, measure
from unspot.data.statistics import (
    ClassStatistics,
    CrossStatistics,
    mean_difference_basis,
    whitening,
)
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.maps import Oblique
from unspot.projections.subspaces import complement
from unspot.scale.processes import class_statistics, cross_statistics, team

__all__ = ["LEACE"]

#: What a stream leaves of itself, and processes tell each other.
_SEEN = ("statistics_", "classes_", "n_features_in_", "feature_names_in_")


class LEACE(BaseEraser):
    """Remove all that a linear classifier could find, and change the embeddings least.

    Closed form, one pass, O(nd² + d³) time. A nonlinear classifier may still find the concept:
    that is what L̄EOPARD is for.

    Parameters
    ----------
    method : {"oblique", "orthogonal"}
        ``"oblique"``: P = I − W⁺(WΣxz)(WΣxz)⁺W around the mean, the smallest change in mean
        square. ``"orthogonal"``: the orthogonal projector with the same kernel as the paper's
        cascade uses, I − QQᵀ with Q a basis of the span of μₖ − μ.
    concept : {"categories", "continuous"}
        Whether z is a label, or a number (or a vector of numbers) for each row.

    Attributes
    ----------
    eraser_ : Eraser
    classes_ : ndarray
    statistics_ : ClassStatistics or CrossStatistics
        What has been seen so far; ``partial_fit`` adds to it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [4.0, 1.0], [4.0, 2.0]])
    >>> LEACE().fit_transform(X, ["a", "a", "b", "b"])
    array([[2., 1.],
           [2., 2.],
           [2., 1.],
           [2., 2.]])
    """

    reads_rows: ClassVar[bool] = True
    splits_work: ClassVar[bool] = True
    statistics_: Any  # ClassStatistics or CrossStatistics
    _eraser: Eraser | None

    def __init__(
        self,
        *,
        method: Literal["oblique", "orthogonal"] = "oblique",
        concept: Literal["categories", "continuous"] = "categories",
    ) -> None:
        self.method = method
        self.concept = concept

    @classmethod
    def from_statistics(
        cls, statistics: ClassStatistics, classes: Any, *, method: Any = "oblique"
    ) -> LEACE:
        """LEACE of rows that were seen elsewhere, as on the workers of a cluster.

        Parameters
        ----------
        statistics : ClassStatistics
            Of all rows, merged.
        classes : array of K labels
            In the order of the statistics, whichever it is; each once.
        method : {"oblique", "orthogonal"}
        """
        if len(classes) != len(statistics.counts):
            raise ValueError(
                f"Got {len(classes)} classes for statistics of {len(statistics.counts)}, but "
                "expected one for each."
            )
        labels = encode(classes, name="classes", min_classes=1)
        _refuse_repeated(labels)
        fitted = cls(method=method)
        fitted.statistics_ = _reordered(statistics, np.argsort(labels.codes))
        fitted.classes_ = labels.classes
        fitted.n_features_in_ = statistics.means.shape[1]
        return fitted

    def partial_fit(self, X: Any, y: Any = None, *, z: Any = None) -> LEACE:
        """Add the rows of one batch of a stream. New classes may appear at any time."""
        if not team().is_alone:
            raise ValueError(
                f"Got a batch in one of {team().size} processes, but expected the rows of all: "
                "each would end with an eraser of its own. Pass the batches to fit, as an "
                "iterator; it joins what all processes have seen."
            )
        self._add_batch(X, y if z is None else z)
        return self

    def _add_batch(self, X: Any, concept: Any) -> None:
        first = not hasattr(self, "statistics_")
        X = self._validated(X, reset=first, min_rows=1)
        if self.concept == "continuous":
            values = measure(concept, n_rows=len(X), min_values=1).values
            self._add(CrossStatistics.from_rows(X, values))
        else:
            self._add_classes(X, concept)
        self._eraser = None  # solved on the next use, since a stream has many batches

    @property
    def eraser_(self) -> Eraser:
        if getattr(self, "_eraser", None) is None:
            check_is_fitted(self, "statistics_")
            eraser = self._within_support(self._solve(self.statistics_), self.statistics_.means)
            self._eraser = Eraser(eraser.maps, {**self._stream_metadata(), **eraser.metadata})
        return cast(Eraser, self._eraser)

    @eraser_.setter
    def eraser_(self, eraser: Eraser) -> None:
        self._eraser = eraser

    def _forget(self) -> None:
        super()._forget()
        self._eraser = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")  # asking for the eraser would solve for it

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        self.statistics_ = (
            class_statistics(X, target.codes, len(target.classes), per_class=False)
            if isinstance(target, Labels)
            else cross_statistics(X, target.values)
        )
        return self._solve(self.statistics_)

    def _solve(self, statistics: ClassStatistics | CrossStatistics) -> Eraser:
        if self.method == "orthogonal":
            basis = _kernel_basis(statistics)
            warn_if_all(basis, stacklevel=5)
            return Eraser.projection(complement(basis))
        if self.method != "oblique":
            raise ValueError(f"Got method={self.method!r}, but expected 'oblique' or 'orthogonal'.")
        W, W_inverse = whitening(statistics.covariance)
        # Whitened, a correlation: below this it is rounding, not a signal.
        Q = _range(W.T @ statistics.cross_covariance, floor=1e-10)
        warn_if_all(Q, stacklevel=5)
        return Eraser((Oblique(W_inverse.T @ Q, W @ Q, np.array(statistics.mean)),))

    # -- streams -------------------------------------------------------------------------------

    def _fit_stream(self, batches: Any, concept: Any) -> LEACE:
        if concept is not None:
            raise ValueError(
                "Got labels beside a stream of batches, but expected them in it: pairs (X, z)."
            )
        try:
            for batch in batches:
                self._add_batch(*_pair(batch))
            self._join_team()
            self._refuse_one_value()
        except Exception:
            self._forget()  # a part of the stream must not pass for all of it
            raise
        if not team().is_alone:  # solved now, since all processes are here to agree on it
            self._eraser = team().agree(self.eraser_)
        return self

    def _refuse_one_value(self) -> None:
        if self.concept != "continuous":
            if len(self.classes_) < 2:
                encode(self.classes_)  # the message for one class
        elif not self.statistics_.concept_varies:
            measure(np.zeros(2), n_rows=2)  # the message for one value

    def _join_team(self) -> None:
        """Take over what all processes have seen, each in its own stream, which may be empty."""
        own = {name: getattr(self, name) for name in _SEEN if hasattr(self, name)}
        seen = [part for part in team().gather(own) if part]
        if not seen:
            raise ValueError("Got a stream without batches, but expected pairs (X, z).")
        if len(widths := {part["n_features_in_"] for part in seen}) > 1:
            raise ValueError(
                f"Got streams of rows with {' and '.join(map(str, sorted(widths)))} features in "
                "the processes of one fit, but expected the same features in all."
            )
        self.__dict__.update(seen[0] | _joined(seen))

    def _add(self, part: Any) -> None:
        seen = getattr(self, "statistics_", None)
        self.statistics_ = part if seen is None else seen.merge(part)

    def _add_classes(self, X: NDArray[Any], concept: Any) -> None:
        old = getattr(self, "classes_", None)
        labels = encode(concept, n_rows=len(X), min_classes=1)
        classes = labels.classes if old is None else np.union1d(old, labels.classes)
        if old is not None and len(classes) > len(old):
            self.statistics_ = _spread(self.statistics_, np.searchsorted(classes, old), classes)
        codes = np.searchsorted(classes, labels.classes)[labels.codes]
        self.classes_ = classes
        self._add(ClassStatistics.from_rows(X, codes, len(classes), per_class=False))

    def _stream_metadata(self) -> dict[str, Any]:
        from unspot.machine import versions

        discrete = isinstance(self.statistics_, ClassStatistics)
        return {
            "method": "LEACE",
            "parameters": {"method": self.method, "concept": self.concept},
            "concept": self.concept,
            "classes": self.classes_.tolist() if discrete else None,
            "class_counts": self.statistics_.counts.tolist() if discrete else None,
            "n_features": int(self.n_features_in_),
            "n_rows": int(self.statistics_.n_rows),
            "versions": versions(),
        }


def _pair(batch: Any) -> Any:
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch
    count = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
    raise ValueError(
        f"Got a batch of type {type(batch).__name__}{count}, but expected pairs (X, z)."
    )


def _joined(seen: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of all parts among the classes of all, in the order of the parts."""
    statistics = [part["statistics_"] for part in seen]
    if not isinstance(statistics[0], ClassStatistics):
        return {"statistics_": reduce(CrossStatistics.merge, statistics)}
    own = [part["classes_"] for part in seen]
    classes = reduce(np.union1d, own)
    places = [np.searchsorted(classes, some) for some in own]
    wider = [_spread(*part, classes) for part in zip(statistics, places, strict=True)]
    return {"statistics_": reduce(ClassStatistics.merge, wider), "classes_": classes}


def _kernel_basis(statistics: ClassStatistics | CrossStatistics) -> NDArray[np.float64]:
    """What an orthogonal projector must remove for linear guardedness: the range of Σxz."""
    if isinstance(statistics, ClassStatistics):
        return mean_difference_basis(statistics)
    spread = float(np.sqrt(np.trace(statistics.covariance)))
    return _range(statistics.cross_covariance, floor=1e-10 * spread)


def warn_if_all(removed: NDArray[np.float64], *, stacklevel: int) -> None:
    """Say that nothing is left where a basis (d, q) of what is removed has all d directions."""
    n_features = len(removed)
    if removed.shape[1] == n_features:
        warnings.warn(
            f"Got a concept whose linear signal spans all {n_features} features: nothing is left "
            "of the embeddings. Merge classes, or erase a concept that has fewer.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _range(A: NDArray[np.float64], *, floor: float) -> NDArray[np.float64]:
    """Orthonormal basis of the column space: what is above the floor and 1e-6 of the largest."""
    left, values, _ = np.linalg.svd(A, full_matrices=False)
    kept = (values > 1e-6 * values[0]) & (values > floor)
    return np.ascontiguousarray(left[:, kept])


def _refuse_repeated(labels: Labels) -> None:
    repeated = labels.classes[labels.counts > 1]
    if len(repeated):
        raise ValueError(
            f"Got the class {repeated[0]!s} more than once, but expected each class "
            "once. Merge the statistics of its rows first."
        )


def _reordered(statistics: ClassStatistics, order: NDArray[Any]) -> ClassStatistics:
    scatter = statistics.class_scatter
    return ClassStatistics(
        statistics.counts[order],
        statistics.means[order],
        statistics.within,
        None if scatter is None else scatter[order],
    )


def _spread(
    statistics: ClassStatistics, places: NDArray[Any], classes: NDArray[Any]
) -> ClassStatistics:
    """The same statistics among more classes."""
    wider = ClassStatistics.empty(len(classes), statistics.means.shape[1], per_class=False)
    counts, means = wider.counts.copy(), wider.means.copy()
    counts[places], means[places] = statistics.counts, statistics.means
    return ClassStatistics(counts, means, statistics.within)
