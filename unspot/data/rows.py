"""Rows of embeddings: a check for NaN, hashes to recognise them by, and one common scale."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Scaling", "fingerprint", "identity", "refuse_nonfinite", "row_hashes"]

#: Rows of which a copy in float64 is held at once.
_CHUNK_ROWS = 16_384


def refuse_nonfinite(X: Any) -> None:
    """Raise an error if a numeric array has NaN or infinity, with the count and the first row."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return  # scikit-learn's validation refuses the rest
    # The sum finds the common case, no such value, without a copy as large as X.
    if np.isfinite(X.sum(dtype=np.float64)):
        return
    bad = ~np.isfinite(X)
    if bad.any():
        raise ValueError(
            f"Got {int(bad.sum())} values of NaN or infinity in X (the first in row "
            f"{int(np.argmax(bad.any(axis=1)))}), but expected finite numbers. Drop or impute "
            "those rows."
        )


def identity(X: NDArray[Any], target: NDArray[Any]) -> dict[str, Any]:
    """Metadata to recognise the rows of a fit: a hash of all, and hashes of up to 100 of them."""
    sample = _sampled(X)
    return {
        "fingerprint": _digest(X.shape, sample, target),
        "known_rows": row_hashes(sample[:: -(-len(sample) // 100)]),
    }


def fingerprint(X: NDArray[Any], target: NDArray[Any]) -> str:
    """A short hash of shape, labels and a fixed sample of rows, which tells data sets apart."""
    return _digest(X.shape, _sampled(X), target)


def row_hashes(X: NDArray[Any]) -> list[str]:
    """A short hash of each row, the same for all floating types that hold its numbers.

    Examples
    --------
    >>> X = np.array([[0.5, -0.0], [1.0, 2.0]])
    >>> row_hashes(X) == row_hashes(X.astype(np.float32) + 0.0)
    True
    """
    rows = np.ascontiguousarray(X, dtype=np.float32) + np.float32(0)  # turns −0 into 0
    return [hashlib.blake2b(row.tobytes(), digest_size=6).hexdigest() for row in rows]


def _sampled(X: NDArray[Any]) -> NDArray[Any]:
    # Ten runs of a hundred rows: a file on disk is then read in ten places instead of a thousand.
    runs = np.linspace(0, max(len(X) - 100, 0), num=10).astype(int)[:, None] + np.arange(100)
    return X[np.unique(runs[runs < len(X)])]


def _digest(shape: tuple[int, ...], sample: NDArray[Any], target: NDArray[Any]) -> str:
    digest = hashlib.sha256(repr(shape).encode())
    for array in (sample, target):
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − mean)/scale with one scale for all features, which keeps ratios of distances.

    Methods apply it so that their results do not depend on the origin and the unit of the rows.

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> scaling.mean, scaling.scale
    (array([2., 5.]), 0.7071)
    """

    mean: NDArray[np.float64]  # (d,)
    scale: float  # the root of the mean variance of the features

    @classmethod
    def of(cls, X: NDArray[Any]) -> Scaling:
        """From rows, in float64 and around the mean, so that a large mean costs no precision."""
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[i : i + _CHUNK_ROWS] for i in range(0, len(X), _CHUNK_ROWS))
        variance = sum(float(np.sum((part - mean) ** 2)) for part in parts) / X.size
        return cls(mean, float(np.sqrt(variance)) or 1.0)

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray((X - self.mean) / self.scale)
