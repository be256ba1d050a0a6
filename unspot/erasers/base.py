"""The contract that every eraser obeys: fit, transform, reduce, ``eraser_``.

To add a method: subclass ``BaseEraser``, write ``__init__`` that stores its parameters and
``_fit_eraser`` that returns a frozen ``Eraser``. Validation, labels, transform, reduce, saving,
feature names, metadata and error messages come from here.
"""

from __future__ import annotations

import logging
import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from unspot.data.labels import Labels, Measurements, encode, measure
from unspot.data.rows import identity, refuse_nonfinite
from unspot.data.sampling import generator
from unspot.data.statistics import CrossStatistics, support
from unspot.eraser import Eraser
from unspot.erasers.streams import Rows, is_stream, opened, sampled
from unspot.machine import versions
from unspot.maps import Transport
from unspot.scale.processes import team

__all__ = ["BaseEraser"]

logger = logging.getLogger(__name__)

#: Rows that tell in which directions a data set varies.
_SUPPORT_ROWS = 50_000


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of all erasers: scikit-learn transformers that leave a frozen ``eraser_``."""

    #: The fewest rows of every class that the method can work with.
    min_rows_per_class: ClassVar[int] = 1
    #: Whether ``_fit_eraser`` takes ``Rows`` that stay on disk as well as arrays. Other methods get
    #: the rows in memory, or a stratified sample of at most 2 GiB.
    reads_rows: ClassVar[bool] = False
    #: Whether the work is split over the processes of ``unspot.scale.processes.context``.
    splits_work: ClassVar[bool] = False

    def fit(self, X: Any, y: Any = None, *, z: Any = None) -> BaseEraser:
        """Learn the eraser.

        Parameters
        ----------
        X : array-like of shape (n, d), or where the rows are
            Embeddings: in memory; or a path (``.npy``, Parquet file or folder) or a list of them,
            a memory map, an HDF5, zarr or Dask array, any ``unspot.io.RowSource``, of which only
            what is needed is read; or, for ``LEACE``, an iterator of batches (X, z), of which each
            process of several has its own.
        y : array-like of shape (n,), optional
            The concept's labels if it comes alone; the downstream task's if ``z`` is given too
            (no method here uses the task, so that pipelines can pass it).
        z : array-like of shape (n,), optional
            The concept's labels; for Parquet, also the name of their column.
        """
        concept = y if z is None else z
        self._forget()
        self._check_team()
        if is_stream(X):
            return self._fit_stream(X, concept)
        X, concept = opened(X, concept)
        X = self._validated(X, reset=True)
        target = self._target(concept, len(X))
        if isinstance(target, Labels):
            self.classes_ = target.classes
        metadata = self._metadata(X, target)
        if isinstance(X, Rows) and not self.reads_rows:
            X, target = self._in_memory(X, target)
            metadata["rows_used"] = len(X)
        eraser = team().agree(self._within_support(self._fit_eraser(X, target), X))
        self.eraser_ = Eraser(eraser.maps, {**metadata, **eraser.metadata})
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Erase the concept: (n, d) → (n, d), in the same space."""
        check_is_fitted(self)
        result: NDArray[Any] = self.eraser_(self._validated(X, reset=False))
        return result

    def reduce(self, X: Any) -> NDArray[Any]:
        """Erase the concept: (n, d) → (n, r), in coordinates with the same distances."""
        check_is_fitted(self)
        result: NDArray[Any] = self.eraser_.reduce(self._validated(X, reset=False))
        return result

    def _fit_eraser(self, X: NDArray[Any], target: Any) -> Eraser:
        """The method itself: rows and ``Labels`` (or ``Measurements``) to a frozen eraser."""
        raise NotImplementedError

    def _within_support(self, eraser: Eraser, X: NDArray[Any]) -> Eraser:
        """The eraser without the directions in which the rows do not vary.

        Erased rows would hold nothing there but rounding errors, which tell what was removed. The
        results of networks are no rows of the same space, and stay as they are.
        """
        if not (eraser.is_linear or isinstance(eraser.maps[-1], Transport)):
            return eraser
        statistics = getattr(self, "statistics_", None)
        if statistics is None:
            rows = X if len(X) <= _SUPPORT_ROWS else X[:: -(-len(X) // _SUPPORT_ROWS)]
            statistics = CrossStatistics.from_rows(rows, np.zeros((len(rows), 1)))
        mean = np.asarray(statistics.mean)
        S = support(mean, statistics.covariance, statistics.n_rows)
        return eraser if S is None else eraser.within(S, mean)

    def _forget(self) -> None:
        """Drop what an earlier fit left: a refit is as a first fit, also if it fails."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def __sklearn_is_fitted__(self) -> bool:
        # A fit that failed may have left other attributes, such as the number of features.
        return hasattr(self, "eraser_")

    def _check_team(self) -> None:
        if team().size > 1 and not self.splits_work:
            raise ValueError(
                f"Got {team().size} processes, but {type(self).__name__} is fitted by one. Run it "
                "without torchrun, or use LEOPARD, LEACE or Cascade."
            )

    def _fit_stream(self, batches: Any, concept: Any) -> BaseEraser:
        raise ValueError(
            f"Got a stream of batches (a {type(batches).__name__}), but {type(self).__name__} goes "
            "back to its rows. Pass an array, a path, a memory map or any other source of rows by "
            "number; LEACE is fitted on streams."
        )

    def _in_memory(
        self, X: Rows, target: Labels | Measurements
    ) -> tuple[NDArray[Any], Labels | Measurements]:
        rng = generator(getattr(self, "random_state", None))
        rows, part = sampled(X, target, rng, min_rows=self.min_rows_per_class)
        if len(rows) < len(X):
            logger.warning(
                "%s works in memory: it is fitted on a random part of %d of the %d rows.",
                type(self).__name__,
                len(rows),
                len(X),
            )
        return rows, part

    def _target(self, concept: Any, n_rows: int) -> Labels | Measurements:
        # Methods that erase continuous concepts too have a parameter ``concept``.
        kind = getattr(self, "concept", "categories")
        if kind == "continuous":
            return measure(concept, n_rows=n_rows)
        if kind != "categories":
            raise ValueError(f"Got concept={kind!r}, but expected 'categories' or 'continuous'.")
        return encode(concept, n_rows=n_rows, min_rows=self.min_rows_per_class)

    def _validated(self, X: Any, *, reset: bool, min_rows: int | None = None) -> NDArray[Any]:
        if isinstance(X, Rows):  # the first rows tell the kind; each is checked when it is read
            self._validated(X[:2], reset=reset, min_rows=min_rows)
            return X  # type: ignore[return-value]
        if isinstance(X, (str, os.PathLike)):
            raise ValueError(
                f"Got the path {os.fspath(X)!r}, but expected rows in memory. Files are erased by "
                "the command `unspot transform`, or by unspot.scale.transform_file."
            )
        refuse_nonfinite(X)
        result: NDArray[Any] = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32, np.float16],
            ensure_min_samples=min_rows or (2 if reset else 1),
        )
        return result

    def _metadata(self, X: NDArray[Any], target: Labels | Measurements) -> dict[str, Any]:
        numbers = target.codes if isinstance(target, Labels) else target.values
        return {
            "method": type(self).__name__,
            "parameters": {k: _jsonable(v) for k, v in self.get_params(deep=False).items()},
            **target.describe(),
            "n_features": int(X.shape[1]),
            "n_rows": int(X.shape[0]),
            **identity(X, numbers),
            "versions": versions(),
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return repr(value)
