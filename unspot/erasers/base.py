"""The contract that every eraser obeys: fit, transform, reduce, ``eraser_``.

To add a method: subclass ``BaseEraser``, write ``__init__`` that stores its parameters and
``_fit_eraser`` that returns a frozen ``Eraser``. Validation, labels, transform, reduce, saving,
feature names, metadata and error messages come from here.
"""

from __future__ import annotations

import hashlib
import logging
import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from unspot.distributed import team
from unspot.eraser import Eraser, versions
from unspot.erasers.streams import Rows, is_stream, opened, sampled
from unspot.labels import Labels, Measurements, encode, measure
from unspot.sampling import generator

__all__ = ["BaseEraser", "check_rank"]

logger = logging.getLogger(__name__)


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Base of all erasers: scikit-learn transformers that leave a frozen ``eraser_``."""

    #: The fewest rows of every class that the method can work with.
    min_rows_per_class: ClassVar[int] = 1
    #: Whether ``_fit_eraser`` takes ``Rows`` that stay on disk as well as arrays. Other methods get
    #: the rows in memory, or a stratified sample of at most 2 GiB.
    reads_rows: ClassVar[bool] = False
    #: Whether the work is split over the processes of ``unspot.distributed.context``.
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
        eraser = team().agree(self._fit_eraser(X, target))
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
                "the command `unspot transform`, or by unspot.bulk.transform_file."
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


def check_rank(rank: Any, n_features: int, what: str = "the number of features") -> int:
    """A rank as an integer from 1 to ``n_features``; a fraction in (0, 1) is of the features."""
    is_integer = isinstance(rank, (int, np.integer)) and not isinstance(rank, (bool, np.bool_))
    if isinstance(rank, (float, np.floating)) and 0 < rank < 1:
        return max(1, round(float(rank) * n_features))
    if is_integer and 1 <= rank <= n_features:
        return int(rank)
    raise ValueError(
        f"Got rank={rank!r}, but expected an integer from 1 to {n_features}, {what}, or a "
        "fraction of it between 0 and 1."
    )


def refuse_nonfinite(X: Any) -> None:
    """NaN or infinity in a numeric array, with the count and the first row."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return  # scikit-learn's own validation names the rest
    # One pass over sums finds the common, clean case; only then look for the rows.
    if np.isfinite(X.sum(dtype=np.float64)):
        return
    bad = ~np.isfinite(X)
    if bad.any():
        first = int(np.argmax(bad.any(axis=1)))
        raise ValueError(
            f"Got {int(bad.sum())} values of NaN or infinity in X (the first in row {first}), but "
            "expected finite numbers. Drop or impute those rows."
        )


def identity(X: NDArray[Any], target: NDArray[Any]) -> dict[str, Any]:
    """By what the rows of a fit are known again: as a whole, and some of them in any company."""
    sample = _sampled(X)
    return {
        "fingerprint": _digest(X.shape, sample, target),
        "known_rows": row_hashes(sample[:: -(-len(sample) // 100)]),
    }


def fingerprint(X: NDArray[Any], target: NDArray[Any]) -> str:
    """A short hash of shape, labels and a fixed sample of rows: enough to tell files apart."""
    return _digest(X.shape, _sampled(X), target)


def row_hashes(X: NDArray[Any]) -> list[str]:
    """A short hash of each row, the same for all floating types that hold it.

    Examples
    --------
    >>> X = np.array([[0.5, -0.0], [1.0, 2.0]])
    >>> row_hashes(X) == row_hashes(X.astype(np.float32) + 0.0)
    True
    """
    rows = np.ascontiguousarray(X, dtype=np.float32) + np.float32(0)  # no −0
    return [hashlib.blake2b(row.tobytes(), digest_size=6).hexdigest() for row in rows]


def _sampled(X: NDArray[Any]) -> NDArray[Any]:
    # Ten runs of a hundred rows: of a file on disk, ten places are read and not a thousand.
    runs = np.linspace(0, max(len(X) - 100, 0), num=10).astype(int)[:, None] + np.arange(100)
    return X[np.unique(runs[runs < len(X)])]


def _digest(shape: tuple[int, ...], sample: NDArray[Any], target: NDArray[Any]) -> str:
    digest = hashlib.sha256(repr(shape).encode())
    digest.update(np.ascontiguousarray(sample, dtype=np.float64).tobytes())
    digest.update(np.ascontiguousarray(target, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return repr(value)
