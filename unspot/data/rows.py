"""Rows of embeddings: checked, recognised by hashes, sampled by class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from unspot.checks import warn
from unspot.machine import in_threads

#: Rows of which a copy in float64 is held at once.
_CHUNK_ROWS = 16_384

#: Rows of a piece of ``by_rows``: in double precision they fit the cache for most widths.
PIECE_ROWS = 512

#: The entries of metadata by which rows are known again: long, and nothing to read.
KNOWN = ("known_rows", "known_below", "known_step", "norms")

#: Row hashes to store, in 64 kB: enough to recognise 1,000 rows in a million.
_MOST_KNOWN = 4_000

#: Rows are known again by the cells in which their coordinates along random directions lie. A cell
#: is about 40 times as wide as what float16 changes in a coordinate of a row of the usual norm, and
#: coordinates within a tenth of the edge may be in either cell.
_DIRECTIONS, _CELL, _EDGE = 8, 1e-2, 0.1

#: The largest hash of a row.
_LAST = "f" * 12

#: The share of other rows that may lie in a cell of the fit; else cells are made narrower.
_MAY_MEET = 0.01

#: Erasers that have warned of the norms of rows.
_warned: WeakSet[Any] = WeakSet()

#: Values up to this, which vary by its inverse at least: hashes of rows are of their values in
#: single precision, and products of covariances, fourth powers, must fit double precision.
_LARGEST = 1e35


def refuse_nonfinite(X: Any, where: str = "X", numbers: int | NDArray[np.int64] = 0) -> None:
    """Raise an error if a numeric array has NaN or infinity, with the count and the first row.

    Parameters
    ----------
    X : array
    where : str
        The name of the rows in the message.
    numbers : int or array of int
        The number of the first row in the message, or of all rows.
    """
    refuse_masked_or_sparse(X, where)
    if not (isinstance(X, np.ndarray) and X.ndim == 2):
        return  # scikit-learn's validation refuses the rest
    if len(rows := nonfinite_rows(X)):
        row = numbers + rows[0] if isinstance(numbers, int) else numbers[rows[0]]
        raise ValueError(
            f"Got {int((~np.isfinite(X[rows])).sum())} values of NaN or infinity in {where} (the "
            f"first in row {row}), but expected finite numbers. Drop or impute those rows."
        )


def nonfinite_rows(X: NDArray[Any]) -> NDArray[np.int64]:
    """Find the rows with NaN or infinity."""
    # The sum finds the common case, no such value, without a copy as large as X. It uses no
    # product: rows may be read in another thread, and BLAS makes threads wait for each other.
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype.kind != "f" or np.isfinite(X.sum(dtype=np.promote_types(X.dtype, "f4"))):
            return np.empty(0, np.int64)
    return np.flatnonzero(~np.isfinite(X).all(axis=1))


def refuse_masked_or_sparse(values: Any, name: str) -> None:
    """Raise an error for sparse matrices, and masked values: what is under the mask is no data."""
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):  # as views of AnnData are
        raise TypeError(f"Got a sparse matrix as {name}, but expected a dense one: X.toarray().")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"Got a masked array as {name}, with {int(np.ma.count_masked(values))} masked values, "
            "but expected a value in every place. Drop those rows, or fill them with .filled(…)."
        )


def refuse_extreme(X: Any) -> None:
    """Raise an error if what is computed from the rows would overflow, or underflow to zero."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.size) or X.dtype != np.float64:
        return  # powers of smaller types fit double precision
    low, high = X.min(axis=0), X.max(axis=0)
    with np.errstate(over="ignore"):
        largest, spread = float(max(-low.min(), high.max())), float((high - low).max())
    if largest > _LARGEST or 0 < spread < 1 / _LARGEST:
        size = f"as large as {largest:.1g}" if largest > _LARGEST else f"that vary by {spread:.1g}"
        raise ValueError(
            f"Got values {size} in X, but expected a scale between {1 / _LARGEST:.0e} and "
            f"{_LARGEST:.0e}: powers of others do not fit double precision. Multiply all rows by a "
            "constant; erasing does not depend on their unit."
        )


def in_memory(values: Any) -> Any:
    """Convert a tensor to an array and a column of vectors to a matrix; keep anything else.

    numpy has no bfloat16, so that becomes float32, which holds the same numbers. A data frame of
    one column is that column, if it holds vectors.

    Examples
    --------
    >>> column = np.empty(2, dtype=object)
    >>> column[:] = [np.zeros(3), np.ones(3)]  # as df["embedding"] has them
    >>> in_memory(column).shape
    (2, 3)
    """
    if not hasattr(values, "detach"):
        names: Any = getattr(values, "columns", ())
        column = values[names[0]] if len(names) == 1 else values
        stacked = _stacked(column) if _is_column(column) else column
        return values if stacked is column else stacked
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def as_matrix(X: Any) -> NDArray[Any]:
    """Read rows as a user passes them; another shape than (rows, features) is an error."""
    refuse_masked_or_sparse(X, "X")
    matrix = np.asarray(in_memory(X))
    if matrix.ndim != 2:
        raise ValueError(f"Got X of shape {matrix.shape}, but expected (rows, features).")
    return matrix


def column_names(X: Any) -> list[str]:
    """Return the names of the columns of a frame or an Arrow table; none for numbered columns."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return names if all(isinstance(name, str) for name in names) else []


def _is_column(values: Any) -> bool:
    """Tell whether values are a data frame column of objects."""
    dtype = str(getattr(values, "dtype", "")).lower()
    return dtype.startswith(("object", "list", "array")) and len(getattr(values, "shape", ())) == 1


def _stacked(column: Any) -> Any:
    """Stack a column of vectors into a matrix; keep any other column."""
    rows = list(column)
    # Texts, bytes (of HDF5) and tuples are labels and groups, and no vectors.
    if not rows or isinstance(rows[0], (str, bytes, tuple)) or not hasattr(rows[0], "__len__"):
        return column
    lengths = {len(row) if hasattr(row, "__len__") else 0 for row in rows}
    if len(lengths) > 1:
        raise ValueError(
            f"Got a column of vectors of {len(lengths)} different lengths, from {min(lengths)} to "
            f"{max(lengths)}, but expected one length. Drop rows without a vector."
        )
    return np.stack([np.asarray(row) for row in rows])


def identity(X: Any, target: NDArray[Any]) -> dict[str, Any]:
    """Compute metadata that recognise the rows of a fit: one hash of all, and some row hashes.

    For rows in memory, the 4,000 smallest hashes are stored: then any part of the rows
    holds its share of them. All hashes up to ``known_below`` are known. Of rows on disk only those
    of the fingerprint are read, and known. Cost: one pass over the rows in memory.
    """
    sample = _sampled(X)
    digest = {"fingerprint": _digest(X.shape, sample, target)}
    if isinstance(X, np.ndarray):
        return {**digest, **with_known({}, X)}
    step = _cell_width(sample, len(X))
    about = {"known_step": step, "norms": _norms(sample)}
    return {**digest, **about, "known_rows": known_hashes(sample, step)}


def with_known(before: Mapping[str, Any], X: NDArray[Any]) -> dict[str, Any]:
    """Add the rows of a batch to the known rows of a stream; its first batch chooses the cells."""
    step = before.get("known_step") or _cell_width(X, len(X))
    known = np.array([int(h, 16) for h in before.get("known_rows", ())], dtype=np.uint64)
    below = int(before.get("known_below", _LAST), 16)
    for start in range(0, len(X), _CHUNK_ROWS):
        hashes = _hashes(np.floor(_coordinates(X[start : start + _CHUNK_ROWS], step)))
        known = _distinct(np.append(known, hashes[hashes <= below]))
        if len(known) > _MOST_KNOWN:
            known = known[:_MOST_KNOWN]
            below = int(known[-1])
    facts = {"known_rows": _texts(known), "known_below": f"{below:012x}", "known_step": step}
    return {**facts, "norms": before.get("norms") or _norms(X)}


def known_hashes(X: NDArray[Any], step: float) -> list[str]:
    """Hash the cell of each row: mostly the same one after rounding to float16 or to six digits."""
    return _texts(_hashes(np.floor(_coordinates(X, step))))


def possible_hashes(X: NDArray[Any], step: float) -> list[list[str]]:
    """Hash all cells in which each row may have been before it was rounded, its own one first.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 50))
    >>> possible = possible_hashes(X.astype(np.float16), 0.06)
    >>> all(h in near for h, near in zip(known_hashes(X, 0.06), possible))
    True
    """
    hashes = []
    for start in range(0, len(X), _CHUNK_ROWS):
        places = _coordinates(X[start : start + _CHUNK_ROWS], step)
        cells = np.floor(places)
        within = places - cells
        nearby = (within > 1 - _EDGE).astype(int) - (within < _EDGE)
        for cell, other in zip(cells.tolist(), nearby.tolist(), strict=True):
            choices = [(c, c + o) if o else (c,) for c, o in zip(cell, other, strict=True)]
            hashes.append(_texts(_hashes(np.array(list(product(*choices))))))
    return hashes


def _coordinates(X: NDArray[Any], step: float) -> NDArray[np.float64]:
    """Compute coordinates of rows along random directions, in widths of a cell."""
    # The legacy generator gives the same numbers in all versions of numpy.
    R = np.random.RandomState(0).standard_normal((X.shape[1], _DIRECTIONS))
    X = X.astype(np.promote_types(X.dtype, np.float32), copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # rows near the largest number overflow
        return np.asarray(X @ R.astype(X.dtype), dtype=np.float64) / step


def _hashes(cells: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Hash the cell of each row to 48 bits, at once: bits times random numbers, summed."""
    bits = (cells + 0.0).view(np.uint64)  # where −0 is 0
    bits ^= bits >> np.uint64(32)  # the last bits of small whole numbers are zero
    factors = np.frombuffer(np.random.RandomState(1).bytes(8 * _DIRECTIONS), dtype="<u8") | 1
    return np.asarray(bits @ factors) >> np.uint64(16)


def _distinct(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort hashes and drop repeats; np.unique takes ten times as long."""
    hashes = np.sort(hashes)
    return hashes[np.diff(hashes, prepend=~hashes[:1]) != 0]


def _texts(hashes: NDArray[np.uint64]) -> list[str]:
    digits = hashes.astype(">u8").tobytes().hex()
    return [digits[i + 4 : i + 16] for i in range(0, len(digits), 16)]  # 48 bits of 64


def _cell_width(X: NDArray[Any], n_rows: int) -> float:
    """Choose the widest cells in which few of n rows meet that are not the same."""
    rows = X[:: -(-len(X) // _MOST_KNOWN)]
    usual = float(np.sqrt(np.square(rows, dtype=np.float64).sum() / len(rows))) or 1.0
    step = 2.0 ** np.floor(np.log2(_CELL * usual))  # the same in any order of the rows
    places = _coordinates(rows, 1.0)
    n_different = len(_distinct(_hashes(np.floor(places / step * 8.0**8))))
    for _ in range(8):
        met = n_different - len(_distinct(_hashes(np.floor(places / step))))
        if 2 * met * n_rows <= _MAY_MEET * len(rows) ** 2:
            break
        step /= 8
    return float(step)


def _norms(X: NDArray[Any]) -> list[float]:
    """Compute the norm of the median row, between those that nearly all rows have."""
    norms = np.linalg.norm(np.asarray(X[:: -(-len(X) // 1000)], dtype=np.float64), axis=1)
    return [float(norm) for norm in np.quantile(norms, (0.01, 0.5, 0.99))]


def warn_of_other_norms(eraser: Any, X: NDArray[Any]) -> None:
    """Warn, once for an eraser, if rows are far longer or shorter than those of its fit."""
    fitted = eraser.metadata.get("norms", ())
    if len(fitted) != 3 or len(X) < 20 or eraser in _warned:
        return
    low, median, high = fitted
    usual = _norms(X)[1]
    if not low / 2 <= usual <= 2 * high:
        _warned.add(eraser)
        warn(
            f"Got rows of norm {usual:.3g}, but this eraser was fitted on rows of norm "
            f"{median:.3g} (most of them between {low:.3g} and {high:.3g}): was one of them "
            "scaled, or made by another model? An eraser is for rows like those of its fit."
        )


def fingerprint(X: NDArray[Any], target: NDArray[Any]) -> str:
    """Hash shape, labels and a fixed sample of rows, to tell data sets apart."""
    return _digest(X.shape, _sampled(X), target)


def row_hashes(X: NDArray[Any]) -> list[str]:
    """Hash each row, equally for all floating types that hold its numbers.

    Examples
    --------
    >>> X = np.array([[0.5, -0.0], [1.0, 2.0]])
    >>> row_hashes(X) == row_hashes(X.astype(np.float32) + 0.0)
    True
    """
    rows = np.ascontiguousarray(X, dtype=np.float32) + 0  # where −0 is 0
    return [hashlib.blake2b(row.tobytes(), digest_size=6).hexdigest() for row in rows]


def repeated_rows(X: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.int64]:
    """Find the rows that repeat an earlier row exactly: the same vector and the same concept.

    ``codes`` has one code, or several numbers, for each row. Cost: one hash of each row.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [1.0, -0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> repeated_rows(X, np.array([0, 1, 0, 0]))
    array([3])
    """
    labels = np.atleast_2d(np.asarray(codes, dtype=np.float64).T).T  # also without rows
    keys = zip(row_hashes(X), (label.tobytes() for label in labels), strict=True)
    first: dict[Any, int] = {}
    repeats = [i for i, key in enumerate(keys) if first.setdefault(key, i) != i]
    return np.array(repeats, dtype=np.int64)


def _sampled(X: NDArray[Any]) -> NDArray[Any]:
    # Ten runs of a hundred rows: a file on disk is then read in ten places instead of a thousand.
    runs = np.linspace(0, max(len(X) - 100, 0), num=10).astype(int)[:, None] + np.arange(100)
    return X[np.unique(runs[runs < len(X)])]


def _digest(shape: tuple[int, ...], sample: NDArray[Any], target: NDArray[Any]) -> str:
    digest = hashlib.sha256(repr(shape).encode())
    for array in (sample, target):
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


# -- Random samples and mini-batches of rows, stratified by class and decided by a seed ------------


RowNumbers = NDArray[np.int64]


def generator(random_state: Any) -> np.random.Generator:
    """Make a numpy Generator from any ``random_state`` that scikit-learn accepts."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    from sklearn.utils import check_random_state  # slow to load

    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def as_seed(random_state: Any) -> int:
    """Make an integer seed from any ``random_state``; an integer stays as it is."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(generator(random_state).integers(2**31 - 1))


def sample_and_held_out(
    codes: NDArray[Any],
    max_rows: int,
    rng: np.random.Generator,
    *,
    held_out_share: float = 0.1,
    min_held_out: int = 10,
    max_held_out: int | None = None,
) -> tuple[RowNumbers, RowNumbers]:
    """Draw disjoint rows to fit on and to validate on, both with every class.

    If all rows fit the budget, the classes keep their shares. If not, the budget is divided as
    evenly as the sizes of the classes allow, since the smaller class limits the precision of a
    distance between two. If a class cannot spare ``min_held_out`` rows, nothing is held out. Of all
    classes together at most ``max_held_out`` rows are.
    """
    counts = np.bincount(codes)
    held = np.floor(counts * held_out_share).astype(int)
    budget = max(1, round(max_rows * held_out_share / (1 - held_out_share)))
    held = balanced_counts(held, min(budget, max_held_out or budget))
    if held[counts > 0].min() < min_held_out:
        held = np.zeros_like(counts)
    fit = balanced_counts(counts - held, max_rows)
    fit_rows: list[RowNumbers] = []
    held_rows: list[RowNumbers] = []
    for k in np.flatnonzero(counts):
        rows = rng.permutation(np.flatnonzero(codes == k))
        fit_rows.append(rows[: fit[k]])
        held_rows.append(rows[fit[k] : fit[k] + held[k]])
    return np.sort(np.concatenate(fit_rows)), np.sort(np.concatenate(held_rows))


def balanced_counts(counts: NDArray[Any], budget: int) -> NDArray[np.int64]:
    """Allocate a budget of rows to the classes as evenly as their sizes allow.

    Small classes are taken whole, and the others share the rest of the budget evenly. From each
    class at least two rows are taken, even if that exceeds the budget.
    """
    counts = np.asarray(counts, dtype=np.int64)
    if counts.sum() <= budget:
        return counts
    taken = np.zeros_like(counts)
    left = budget
    for done, k in enumerate(np.argsort(counts, kind="stable")):
        taken[k] = min(counts[k], max(left // (len(counts) - done), min(2, counts[k])))
        left = max(left - int(taken[k]), 0)
    return taken


def stratified_batches(
    codes: NDArray[np.int64], size: int, rng: np.random.Generator
) -> list[RowNumbers]:
    """Deal all rows into mini-batches that are stratified by class.

    The number of batches is limited so that each batch has at least two rows of every class.
    """
    counts = np.bincount(codes)
    n_batches = max(1, min(round(len(codes) / size), int(counts[counts > 0].min()) // 2))
    # Shuffle each class, and deal its rows to the batches in turn.
    order = np.lexsort((rng.random(len(codes)), codes))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turn = np.arange(len(codes)) - starts[codes[order]]
    return [order[turn % n_batches == b] for b in range(n_batches)]


def by_rows(work: Callable[[NDArray[Any]], NDArray[Any]], X: NDArray[Any]) -> NDArray[Any]:
    """Apply row-wise work to pieces of rows in threads, and concatenate the results.

    Examples
    --------
    >>> by_rows(np.square, np.arange(1000.0))[-1]
    np.float64(998001.0)
    """
    pieces = (X[i : i + PIECE_ROWS] for i in range(0, max(1, len(X)), PIECE_ROWS))
    # Results that wait to be copied are few, however many threads there are.
    results = in_threads(work, pieces, most=len(X) // PIECE_ROWS)
    first = next(results)
    if len(X) <= PIECE_ROWS:
        return first
    whole = np.empty((len(X), *first.shape[1:]), first.dtype)
    whole[: len(first)] = first
    start = len(first)
    for part in results:
        whole[start : start + len(part)] = part
        start += len(part)
    return whole
