"""The contract of all erasers: fit, transform, reduce, ``eraser_``.

To add a method: subclass ``BaseEraser``, write ``__init__`` that stores its parameters and
``_fit_eraser`` that returns a frozen ``Eraser``. Validation, labels, transform, reduce, saving,
feature names, metadata and error messages come from here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from unspot.checks import warn
from unspot.data.columns import doubt
from unspot.data.concept import read, warn_about_labels
from unspot.data.goal import Goal
from unspot.data.rows import generator, identity, in_memory, refuse_extreme, refuse_nonfinite
from unspot.data.statistics import (
    MAX_RATIO,
    ClassStatistics,
    CrossStatistics,
    exceeds,
    ratio_of_units,
    support,
)
from unspot.eraser import Eraser
from unspot.io.progress import phase
from unspot.io.sources import Rows, float_dtype, is_stream, opened, sampled
from unspot.machine import pieces_in_threads, versions
from unspot.maps import Expand, Mixture, Oblique, Projection
from unspot.scale.batches import erase_batch

logger = logging.getLogger(__name__)

#: All kinds of concept, and both conditions.
ANY_GOAL: tuple[str, ...] = ("categories", "continuous", "several", "given", "keep")
#: Erased rows of a norm below this share of the usual norm are rounding errors, also in erasers
#: that were exported in single precision.
ROUNDING = 1e-5
#: The smallest deviation along a kept direction, as a share of the usual norm, that hides what
#: single precision rounds.
SINGLE = 1000 * float(np.finfo(np.float32).eps)
#: Most rows that decide in which directions a data set varies.
_SUPPORT_ROWS = 50_000


class Fit(NamedTuple):
    """Result of a method: its eraser, and what it knows of the rows already."""

    eraser: Eraser
    statistics: Any = None  # mean and covariance of the rows
    identity: dict[str, Any] | None = None  # hashes that recognise the rows


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of all erasers: scikit-learn transformers that leave a frozen ``eraser_``.

    A method writes ``_fit_eraser``, and says what it ``takes``. A method with a parameter
    ``normalise`` can scale erased rows to unit norm, for embeddings that are compared by cosines;
    ``Cascade(normalise=True)`` and ``eraser_.normalised()`` do it for any method.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}

    #: Kinds of concept that the method erases, and "given" and "keep" if it takes these.
    takes: ClassVar[tuple[str, ...]] = ("categories",)
    #: Whether it takes ``Rows`` that stay on disk as well as arrays. Other methods get the rows in
    #: memory, or a stratified sample of at most 2 GiB.
    reads_rows: ClassVar[bool] = False
    #: Fewest rows of every class.
    min_rows_per_class: ClassVar[int] = 1

    def _fit_eraser(self, X: NDArray[Any], concept: Any) -> Eraser | Fit:
        """Learn the frozen eraser from rows and one concept."""
        raise NotImplementedError

    def _fit_goal(self, X: Any, goal: Goal) -> Fit:
        """Learn the eraser for a goal; a method that takes conditions writes this instead."""
        result = self._fit_eraser(X, goal.erase)
        return result if isinstance(result, Fit) else Fit(result)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        z: Any = None,
        given: Any = None,
        keep: Any = None,
        groups: Any = None,
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
        z : array-like of shape (n,), table or Concept, optional
            The concept; for Parquet, also the name of the column that holds it. Fractional numbers
            are a continuous concept, all else are labels; ``Number.read(z)`` and
            ``Classes.read(z)`` of ``unspot.data`` decide it for whole numbers, and a vector of
            numbers for each row is a ``Number``. A table (a data frame, a dict of columns, an
            array of several columns) is several concepts, for LEOPARD, LEACE and Cascade. Some of
            its values may be missing.
        given : array-like of shape (n,) or table, optional
            A task, or covariates such as age, sex and diagnosis: only what rows tell about the
            concept beyond them is erased. Of one column of labels that is dependence within each of
            them, so that equal qualification gives equal treatment (equalised odds); of numbers and
            tables, what a regression on them leaves. Fractional numbers, and whole numbers of more
            than 20 values, are taken as numbers, all else as labels. New rows need no covariates.
            For LEOPARD, LEACE, Transport and Cascade.
        keep : array-like of shape (n,) or table, optional
            A task, or several, that must stay predictable from erased rows. For LEOPARD, LEACE,
            Transport, Cascade and Obliviator.
        groups : array-like of shape (n,), optional
            The group of each row, such as the author of each text. With ``rank="auto"`` rows of one
            group are either fitted on or set aside to choose the rank; other fits set no rows
            aside and ignore it. Metadata routing passes it by default, so that the groups of
            ``GroupKFold`` count here too.
        """
        self._refuse_routing_without_z(z)
        concept = y if z is None else z
        with phase(f"Fitting {type(self).__name__}", verbose=getattr(self, "verbose", False)):
            self._forget()
            if is_stream(X):
                if given is not None or keep is not None:
                    raise ValueError(
                        "Got given=… or keep=… with a stream of batches, but expected rows by "
                        "number: an array, a path or a memory map."
                    )
                return self._fit_stream(X, concept)
            X, concept = opened(X, concept)
            X = self._validated(X, reset=True)
            metrics = [v for k, v in self.get_params().items() if k.endswith("metric")]
            if getattr(self, "metric", "") == "euclidean" and "standardised" not in metrics:
                warn_of_units(X)
            return self._fit_rows(X, self.read_goal(concept, given, keep, groups, len(X)))

    def _refuse_routing_without_z(self, z: Any) -> None:
        """Raise an error if metadata routing asks for z in vain."""
        if z is None and self.get_metadata_routing().fit.requests.get("z") is True:
            raise ValueError(
                f"Got no z, which {type(self).__name__}().set_fit_request(z=True) asks for: the "
                "eraser would take y, what the pipeline is to predict, for the concept. Pass the "
                "concept as well: model.fit(X, y, z=z), or params={'z': z} in cross_val_score."
            )

    def _fit_rows(self, X: Any, goal: Goal) -> BaseEraser:
        """Fit on rows and a goal that are read already, as a cascade does with its stages."""
        self._check_goal(goal)
        rows, part = X, goal
        if isinstance(X, Rows) and not self.reads_rows:
            rows, part = self._in_memory(X, goal)
        with pieces_in_threads():
            is_standardised = getattr(self, "metric", "") == "standardised"
            fit = (self._fit_standardised if is_standardised else self._fit_goal)(rows, part)
            return self._freeze(X, goal, fit, rows)

    def _fit_standardised(self, X: Any, goal: Goal) -> Fit:
        """Fit on columns of unit deviation, by an eraser of rows in their own units."""
        scale, twin = deviations(X), clone(self).set_params(metric="euclidean", normalise=False)
        rows = scaled(X, scale)
        fit = twin._fit_goal(rows, goal)
        eraser = within_support(fit.eraser, lambda: fit.statistics or _spread(rows))
        for name in [name for name in vars(twin) if name.endswith("_")]:
            setattr(self, name, getattr(twin, name))
        return Fit(eraser.in_units(scale))

    def _freeze(self, X: Any, goal: Goal, fit: Fit, rows: Any) -> BaseEraser:
        """Store the eraser of a fit on some rows of X, without residues and with its metadata."""
        self.n_features_in_ = int(X.shape[1])
        if goal.erase.has_classes:
            self.classes_ = goal.erase.classes
        eraser = within_support(fit.eraser.before_norm, lambda: fit.statistics or _spread(rows))
        if fit.eraser.is_normalised or getattr(self, "normalise", False):
            eraser = eraser.normalised(ROUNDING * _usual_norm(rows))
        hashes = identity(X, goal.numbers) if fit.identity is None else fit.identity
        metadata = self._facts(goal.describe(), len(X), hashes)
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the frozen ``eraser_`` to one file, which ``unspot.load`` reads."""
        check_is_fitted(self)
        self.eraser_.save(path)

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

    def _in_memory(self, X: Rows, goal: Goal) -> tuple[NDArray[Any], Goal]:
        rng = generator(getattr(self, "random_state", None))
        rows, part = sampled(X, goal, rng, min_rows=self.min_rows_per_class)
        if len(rows) < len(X):
            logger.warning(
                "%s works in memory: it is fitted on a random sample of %d of the %d rows.",
                type(self).__name__,
                len(rows),
                len(X),
            )
        return rows, part

    def read_goal(
        self, z: Any, given: Any = None, keep: Any = None, groups: Any = None, n_rows: int = 0
    ) -> Goal:
        """Read what ``fit`` takes with n rows."""
        return Goal.read(self._read_concept(z, n_rows), given, keep, groups)

    def _read_concept(self, z: Any, n_rows: int) -> Any:
        """Read the concept; a table of one column without gaps is that column."""
        concept = read(z, n_rows=n_rows, min_rows=self.min_rows_per_class)
        if concept is not z:
            warn_about_labels(concept)
        (column, *others) = concept.columns.values()
        if not (others or column.missing.any()):
            concept = column.target
        if concept.has_classes:
            is_said = concept is z or str(getattr(z, "dtype", "")) == "category"
            concept = concept.observed(min_rows=self.min_rows_per_class)
            if not is_said and (sentence := doubt(concept.classes)):
                warn(sentence)
        return concept

    def _check_goal(self, goal: Goal) -> None:
        """Raise an error if the method cannot take the concept or a condition."""
        for name in (goal.erase.kind, *goal.conditions):
            if name not in self.takes:
                words = {"several": f"{len(goal.erase.names)} concepts"}
                words |= {condition: f"{condition}=…" for condition in goal.conditions}
                raise ValueError(
                    f"Got {words.get(name, f'a {name} concept')}, but {type(self).__name__} erases "
                    f"{' or '.join(self.takes)}, one concept without conditions. Use LEOPARD, "
                    "LEACE or Cascade; or make one label of those of each row, such as 'f/nurse', "
                    "and cut numbers into bins."
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

    def _facts(
        self, concept: dict[str, Any], n_rows: int, hashes: dict[str, Any]
    ) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)  # set for a data frame
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


def fit_concept(estimator: Any, X: Any, concept: Any, **conditions: Any) -> Any:
    """Fit an eraser, or a transformer of somebody else, on an encoded concept."""
    z = concept if isinstance(estimator, BaseEraser) else concept.values
    return estimator.fit(X, z, **conditions)


def _usual_norm(rows: Any) -> float:
    """Estimate the norm of a row: the root mean square of some."""
    some = np.asarray(rows[:1000], dtype=np.float64)
    return float(np.sqrt(np.square(some).sum(axis=1).mean()))


def _spread(X: Any) -> CrossStatistics | None:
    """Compute mean and covariance of some rows; rows on disk are not read again for this."""
    if isinstance(X, Rows):
        return None
    rows = X[:: -(-len(X) // _SUPPORT_ROWS)]
    return CrossStatistics.from_rows(rows, np.zeros((len(rows), 1)))


def deviations(X: Any) -> NDArray[np.float64]:
    """Compute the standard deviation of each column, or 1 if it does not vary."""
    everyone = np.zeros(len(X), np.int64)
    total = ClassStatistics.from_rows(X, everyone, 1, per_class=False).settled()
    scale = np.sqrt(np.maximum(np.diagonal(total.covariance), 0.0))
    return np.where(scale > 0, scale, 1.0)


def scaled(X: Any, scale: NDArray[np.float64]) -> Any:
    """Divide columns by their scale, in single or double precision."""
    inverse = (1 / scale).astype(float_dtype(np.dtype(X.dtype)))
    return X * inverse if isinstance(X, np.ndarray) else X.mapped(lambda rows: rows * inverse)


def warn_of_units(X: Any) -> None:
    """Warn of columns whose spreads differ so much that some decide nothing."""
    if (ratio := ratio_of_units(X)) > MAX_RATIO:
        warn(
            f"Got columns whose spreads differ by a factor of {ratio:,.0f}: "
            "those of large units decide what is erased. If the columns are not in one unit, use "
            "metric='standardised'; rows keep their units."
        )


def within_support(eraser: Eraser, statistics: Callable[[], Any]) -> Eraser:
    """Project around the mean, without directions in which rows vary only by rounding error.

    Erased rows would hold nothing there but rounding errors, which reveal what was removed. The
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
    basis = support(spread.mean, spread.covariance, spread.n_rows, least=least)
    if basis is not None:
        eraser = eraser.within(*basis, np.array(spread.mean))
        if eraser.is_projection and eraser.rank == basis[0].shape[1]:
            warn(
                f"Got rows that vary in {eraser.rank} dimensions only, and a rank that keeps them "
                "all: the eraser erases nothing. Choose a lower rank."
            )
    if eraser.is_projection and eraser.mean is None:  # so that the mean of the rows stays
        eraser = Eraser.projection(eraser.U, spread.mean, **eraser.metadata)
    return in_single(eraser, spread)


def in_single(eraser: Eraser, spread: Any) -> Eraser:
    """Let the eraser compute in single precision if that hides what it rounds.

    Rounding writes about ε‖x‖ of what was removed into coordinates of what is kept. It must be a
    thousandth at most of the deviation of the rows in each of their directions.
    """
    first, last, C = eraser.maps[0], eraser.maps[-1], spread.covariance
    square, gain = float(np.trace(C) + spread.mean @ spread.mean), 1.0
    kinds = [type(m) for m in eraser.maps]
    if isinstance(first, Oblique) and first is last:
        erased = C - first.left @ (first.right.T @ C)
        outside, _ = np.linalg.qr(first.kernel[1])
        erased = erased - (erased @ first.right) @ first.left.T + square * (outside @ outside.T)
        gain = max(1.0, float(np.linalg.norm(first.left, 2) * np.linalg.norm(first.right, 2)))
    elif isinstance(last, (Projection, Expand)) and kinds in ([Projection], [Mixture, Expand]):
        erased = last.U.T @ C @ last.U
        if isinstance(first, Mixture):
            gain = max(1.0, *np.sqrt(np.square(first.matrices).sum((1, 2)) / first.n_out))
    else:
        return eraser
    others = {key: value for key, value in eraser.metadata.items() if key != "single"}
    single = {"single": True} if exceeds(erased, (gain * SINGLE) ** 2 * square) else {}
    return Eraser(eraser.maps, {**others, **single})


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
