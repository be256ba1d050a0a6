"""The contract that every eraser obeys: fit, transform, reduce, ``eraser_``.

To add a method: subclass ``BaseEraser``, write ``__init__`` that stores its parameters and
``_fit_eraser`` that returns a frozen ``Eraser``. Validation, labels, transform, reduce, saving,
feature names, metadata and error messages come from here.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from unspot.checks import check_choice
from unspot.data.concepts import Concepts, is_table, read_concepts
from unspot.data.groups import group_codes
from unspot.data.labels import Labels, Measurements, doubt, encode, measure, refuse_ids
from unspot.data.rows import (
    generator,
    identity,
    in_memory,
    refuse_extreme,
    refuse_nonfinite,
)
from unspot.data.statistics import CrossStatistics, support
from unspot.eraser import Eraser
from unspot.erasers.streams import Rows, is_stream, opened, sampled
from unspot.io.progress import phase
from unspot.machine import pieces_in_threads, versions
from unspot.maps import Oblique
from unspot.scale.batches import erase_batch

__all__ = [
    "BaseEraser",
    "refuse_unused_groups",
    "rows_within_support",
    "warn",
    "within_support",
]

logger = logging.getLogger(__name__)

#: Of the usual norm of rows: what is smaller after erasure is rounding, of exported erasers in
#: single precision too.
ROUNDING = 1e-5

#: Rows that tell in which directions a data set varies.
_SUPPORT_ROWS = 50_000


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of all erasers: scikit-learn transformers that leave a frozen ``eraser_``.

    A method with a parameter ``normalise`` can scale erased rows to unit norm, for embeddings that
    are compared by cosines; ``Cascade(…, normalise=True)`` and ``eraser_.normalised()`` do it for
    any method.
    """

    #: The fewest rows of every class that the method can work with.
    min_rows_per_class: ClassVar[int] = 1
    #: Whether ``_fit_eraser`` takes ``Rows`` that stay on disk as well as arrays. Other methods get
    #: the rows in memory, or a stratified sample of at most 2 GiB.
    reads_rows: ClassVar[bool] = False
    #: The kinds of concept that it erases, by its parameter ``concept`` if there are several.
    kinds: ClassVar[tuple[str, ...]] = ("categories",)
    #: Whether it takes several concepts, and what is given or kept.
    takes_goals: ClassVar[bool] = False

    def fit(
        self, X: Any, y: Any = None, *, z: Any = None, given: Any = None, keep: Any = None
    ) -> BaseEraser:
        """Learn the eraser.

        Parameters
        ----------
        X : array-like of shape (n, d), path, row source or iterator of batches
            The embeddings. They can be in memory, or stay on disk: a path (``.npy``, Parquet file
            or folder), a list of paths, a memory map, an HDF5, zarr or Dask array, or any
            ``unspot.io.RowSource``. Only the rows that are needed are read from disk. ``LEACE``
            also takes an iterator of batches (X, z).
        y : array-like of shape (n,), optional
            The labels of the concept, if ``z`` is not given. If ``z`` is given, the labels of a
            downstream task: they are ignored, so that pipelines can pass them. In a pipeline that
            ends in a classifier or regressor ``y`` is the task: pass ``z`` by metadata routing,
            with ``set_fit_request(z=True)``.
        z : array-like of shape (n,), or table, optional
            The labels of the concept; for Parquet, also the name of the column that holds them.
            A table (a data frame, a dict of columns, an array of several columns) is several
            concepts, for LEOPARD, LEACE and Cascade. Some of its values may be missing.
        given : array-like of shape (n,), optional
            A task: only dependence on the concept within each of its values is erased, so that
            equal qualification gives equal treatment (equalised odds). Fractional numbers are
            taken as numbers, all else as labels. For LEOPARD, LEACE and Cascade.
        keep : array-like of shape (n,), optional
            A task that erased rows must still tell. For LEOPARD, LEACE, Cascade and Obliviator.
        """
        return self._fit_on(X, y, z, given=given, keep=keep)

    def _fit_on(
        self, X: Any, y: Any, z: Any, *, given: Any = None, keep: Any = None, groups: Any = None
    ) -> BaseEraser:
        """``fit``, with groups that go with the labels to what splits rows."""
        if z is None:
            self._refuse_unmet_request()
        concept = y if z is None else z
        with phase(f"Fitting {type(self).__name__}", verbose=getattr(self, "verbose", False)):
            self._forget()
            if is_stream(X):
                if given is not None or keep is not None:
                    raise ValueError(
                        "Got given=… or keep=… beside a stream of batches, but expected rows by "
                        "number: an array, a path or a memory map."
                    )
                return self._fit_stream(X, concept)
            X, concept = opened(X, concept)
            X = self._validated(X, reset=True)
            target = self._target(concept, len(X))
            if groups is not None:
                target = replace(target, groups=group_codes(groups, len(X)))
            if given is not None or keep is not None:
                target = self._goal(target, given, keep, len(X))
            self._check_target(target)
            return self._fit_checked(X, target)

    def _refuse_unmet_request(self) -> None:
        """Raise an error if metadata routing asks for z and nobody passed it."""
        if self.get_metadata_routing().fit.requests.get("z") is True:
            raise ValueError(
                f"Got no z, which {type(self).__name__}().set_fit_request(z=True) asks for: the "
                "eraser would take y, what the pipeline is to predict, for the concept. Pass the "
                "concept as well: model.fit(X, y, z=z), or params={'z': z} in cross_val_score."
            )

    def _fit_checked(self, X: Any, target: Any) -> BaseEraser:
        """Fit on rows and labels that are checked already, as a cascade does with its stages."""
        self.n_features_in_ = int(X.shape[1])
        erased = getattr(target, "erase", target)  # without what is given or kept
        if isinstance(erased, Labels):
            self.classes_ = erased.classes
        rows, part = X, target
        if isinstance(X, Rows) and not self.reads_rows:
            rows, part = self._in_memory(X, target)
        with pieces_in_threads():
            eraser = within_support(self._fit_eraser(rows, part), partial(self._spread, rows))
            if self._normalises():
                eraser = eraser.normalised(ROUNDING * _usual_norm(rows))
        self.__dict__.pop("_row_statistics", None)  # d × d numbers that nobody needs after the fit
        metadata = self._metadata(X, target)
        if rows is not X:
            metadata["rows_used"] = len(rows)
        self.eraser_ = Eraser(eraser.maps, {**metadata, **eraser.metadata})
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Erase the concept: (n, d) → (n, d), in the same space."""
        check_is_fitted(self)
        return erase_batch(self.eraser_, self._validated(X, reset=False), where="X")

    def reduce(self, X: Any) -> NDArray[Any]:
        """Erase the concept: (n, d) → (n, r), in coordinates with the same distances."""
        check_is_fitted(self)
        return erase_batch(self.eraser_, self._validated(X, reset=False), reduce=True, where="X")

    def _normalises(self) -> bool:
        return getattr(self, "normalise", False)

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        """The method itself: rows and ``Labels`` (or another target) to a frozen eraser."""
        raise NotImplementedError

    def _spread(self, X: Any) -> Any:
        """Mean and covariance of the rows, of a part of them if they are many.

        Methods that have them already leave them in ``_row_statistics``: rows on disk are not read
        again for this.
        """
        statistics = getattr(self, "_row_statistics", None)
        if statistics is not None or isinstance(X, Rows):
            return statistics
        rows = X[:: -(-len(X) // _SUPPORT_ROWS)]
        return CrossStatistics.from_rows(rows, np.zeros((len(rows), 1)))

    def _forget(self) -> None:
        """Drop the results of an earlier fit: a refit is like a first fit, even if it fails."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        # A fit that failed may have left other attributes, such as the number of features.
        return hasattr(self, "eraser_")

    def _fit_stream(self, batches: Any, concept: Any) -> BaseEraser:
        raise ValueError(
            f"Got a stream of batches (a {type(batches).__name__}), but {type(self).__name__} "
            "reads its rows more than once. Pass an array, a path, a memory map or any other "
            "source of rows by number, or use LEACE, which is fitted on streams."
        )

    def _in_memory(
        self, X: Rows, target: Labels | Measurements
    ) -> tuple[NDArray[Any], Labels | Measurements]:
        rng = generator(getattr(self, "random_state", None))
        rows, part = sampled(X, target, rng, min_rows=self.min_rows_per_class)
        if len(rows) < len(X):
            logger.warning(
                "%s works in memory: it is fitted on a random sample of %d of the %d rows.",
                type(self).__name__,
                len(rows),
                len(X),
            )
        return rows, part

    def _target(self, concept: Any, n_rows: int) -> Any:
        """What to erase: ``Labels``, ``Measurements`` or a table of ``Concepts``."""
        # Methods that also erase other concepts have a parameter ``concept``.
        kind: Any = getattr(self, "concept", "categories")
        if isinstance(kind, Mapping) or self._is_table(concept, kind):
            kinds = kind if isinstance(kind, Mapping) else None
            table = read_concepts(
                concept, n_rows=n_rows, kinds=kinds, min_rows=self.min_rows_per_class
            )
            (only, *more) = table.names
            return table if more or table.missing(only).any() else table[only]
        if check_choice("concept", kind, self.kinds) == "categories":
            return self._categories(concept, n_rows)
        return measure(concept, n_rows=n_rows)

    def _categories(self, concept: Any, n_rows: int) -> Labels:
        labels = encode(concept, n_rows=n_rows, min_rows=self.min_rows_per_class)
        refuse_ids(labels)
        if sentence := doubt(labels.classes):
            warn(sentence)
        return labels

    def _is_table(self, concept: Any, kind: str) -> bool:
        # A matrix as a continuous concept has always been one vector for each row.
        return is_table(concept) and (kind == "categories" or isinstance(concept, Mapping))

    def _goal(self, target: Any, given: Any, keep: Any, n_rows: int) -> Any:
        from unspot.erasers.goals import Goal

        return Goal.read(target, given, keep)

    def _check_target(self, target: Any) -> None:
        """Raise an error if the method cannot take the target."""
        if self.takes_goals or isinstance(target, Labels):
            return
        if isinstance(target, Measurements):
            self._check_numbers(target)
            return
        what = f"{len(target.names)} concepts" if isinstance(target, Concepts) else "given or keep"
        raise ValueError(
            f"Got {what}, but {type(self).__name__} erases one concept, without conditions. Use "
            "LEOPARD, LEACE or Cascade; or make one label of those of each row, such as 'f/nurse'."
        )

    def _check_numbers(self, target: Measurements) -> None:
        if target.kind not in self.kinds:
            raise ValueError(
                f"Got a {target.kind} concept, but {type(self).__name__} erases "
                f"{' or '.join(self.kinds)}. Use LEOPARD, LEACE or Cascade; or cut the numbers "
                "into bins."
            )

    def _validated(self, X: Any, *, reset: bool, min_rows: int | None = None) -> NDArray[Any]:
        if isinstance(X, Rows):  # the first rows show type and scale; each row is checked when read
            self._validated(X[:2], reset=reset, min_rows=min_rows)
            return X  # type: ignore[return-value]
        if isinstance(X, (str, os.PathLike)):
            raise ValueError(
                f"Got the path {os.fspath(X)!r}, but expected rows in memory. Files are erased by "
                "the command `unspot transform`, or by unspot.scale.transform_file."
            )
        X = in_memory(X)
        refuse_nonfinite(X)
        result: NDArray[Any] = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32, np.float16],
            ensure_min_samples=min_rows or (2 if reset else 1),
        )
        if reset:
            refuse_extreme(result)
        return result

    def _metadata(self, X: NDArray[Any], target: Any) -> dict[str, Any]:
        return self._facts(target.describe(), len(X), self._identity(X, target))

    def _identity(self, X: NDArray[Any], target: Any) -> dict[str, Any]:
        """Hashes that recognise the rows of the fit."""
        return identity(X, target.numbers)

    def _facts(
        self, concept: dict[str, Any], n_rows: int, hashes: dict[str, Any]
    ) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)  # of a data frame
        return {
            "method": type(self).__name__,
            "parameters": {k: _jsonable(v) for k, v in self.get_params(deep=False).items()},
            **concept,
            **({} if names is None else {"features": list(map(str, names))}),
            "n_features": int(self.n_features_in_),
            "n_rows": int(n_rows),
            **hashes,
            "versions": versions(),
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags


def _usual_norm(rows: Any) -> float:
    """About the norm of a row: the root of the mean square of some."""
    some = np.asarray(rows[:1000], dtype=np.float64)
    return float(np.sqrt(np.square(some).sum(axis=1).mean()))


def warn(message: str) -> None:
    """Warn of what was given, at the user's own line, however deep the fit is nested."""
    level = 1
    while sys._getframe(level).f_globals.get("__name__", "").startswith("unspot."):
        level += 1
    warnings.warn(message, UserWarning, stacklevel=level + 1)


def refuse_unused_groups(groups: Any, eraser: Any) -> None:
    """Raise an error for groups that nothing would split by."""
    if groups is not None and getattr(eraser, "rank", None) != "auto":
        raise ValueError(
            f"Got groups for {type(eraser).__name__}, but expected them with rank='auto' only, "
            "which sets rows aside. Leave them out, and give them to what judges the eraser."
        )


def within_support(eraser: Eraser, statistics: Callable[[], Any]) -> Eraser:
    """The eraser without the directions in which only rounding varies the rows of its fit.

    Erased rows would hold nothing there but rounding errors, which tell what was removed. The
    results of networks are no rows of the same space, and stay as they are.
    """
    if not (eraser.is_linear or eraser.maps[-1].same_space):
        return eraser
    spread = statistics()
    if spread is None:
        return eraser
    spread = spread.settled()
    # Oblique maps have a factor for every column, so that their units do not matter.
    least = 0.0 if isinstance(eraser.maps[0], Oblique) else 1e-13
    found = support(spread.mean, spread.covariance, spread.n_rows, least=least)
    return eraser if found is None else eraser.within(*found, np.array(spread.mean))


def rows_within_support(
    X: NDArray[Any],
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """A basis S (d, s) of the directions in which rows vary, and the rows in its coordinates.

    For methods whose maps would fill the other directions with noise of their own. S is None if the
    rows vary in all directions.
    """
    rows = X.astype(np.float64, copy=False)
    spread = CrossStatistics.from_rows(rows, np.zeros((len(rows), 1))).settled()
    found = support(spread.mean, spread.covariance, spread.n_rows)
    return (None, rows) if found is None else (found[0], rows @ found[0])


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(entry) for key, entry in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return repr(value)
