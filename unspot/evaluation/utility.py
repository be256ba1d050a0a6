"""What rows keep after erasure: neighbours (A_k), variance, search, and a fair classifier.

Definitions of fairness follow the paper's section 4.3, for any number of task labels and of concept
classes. With more than two classes, a class is compared with all the others pooled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count
from unspot.data.concept import Classes
from unspot.data.rows import generator, refuse_nonfinite
from unspot.data.statistics import MAX_RATIO, ratio_of_units
from unspot.machine import in_threads

Array = NDArray[np.float64]
Convention = Literal["held-out", "paper"]

#: Values of one block of distances: 2²⁰ doubles are 8 MB, which a cache holds.
BLOCK_VALUES = 2**20


def neighbour_overlap(
    X: Any,
    X_erased: Any,
    *,
    k: int | float = 0.5,
    convention: Convention = "held-out",
    max_queries: int | None = None,
    random_state: Any = 0,
) -> float:
    """Compute A_k, the mean share of each row's k nearest neighbours that erasure keeps.

    Exact, by Euclidean distance in float64, of standardised columns if their units differ. A row's
    neighbours are those within its k-th smallest distance, found by selection rather than by
    sorting, so at k = n/2 it takes a small fraction of the time of an index of neighbours.
    Distances that tie are taken in row order.

    Time O(n²d), memory O(nd) and 8 MB: no n×n matrix is held.

    Parameters
    ----------
    X, X_erased : array-like of shape (n, d) and (n, any)
        The same rows before and after erasure. The width may differ, as after ``reduce``.
    k : int or float
        How many neighbours; a fraction is of the n rows. The paper's A_50% is 0.5.
    convention : {"held-out", "paper"}
        "paper" counts a row among its own neighbours, which flatters small k (its tables also use
        the *training* rows: pass those); "held-out" does not.
    max_queries : int, optional
        Average over this many rows drawn at random instead of all. Their neighbours are still
        sought among all rows.
    random_state : int, Generator or None
        Draws the rows of ``max_queries``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> neighbour_overlap(X, 2 * X + 1)
    1.0
    >>> X_erased = X * [1, 1, 0, 0]
    >>> 0.5 < neighbour_overlap(X, X_erased) < 1
    True
    """
    A, B = _same_rows(X, X_erased)
    if convention == "held-out" and A.shape == B.shape and ratio_of_units(A) > MAX_RATIO:
        unit = np.where((spread := A.std(axis=0)) > 0, spread, 1.0)
        A, B = A / unit, B / unit
    include_self = check_choice("convention", convention, ("held-out", "paper")) == "paper"
    n = len(A)
    k = _check_k(k, n, include_self)
    queries = _queries(n, max_queries, random_state)
    step = max(1, BLOCK_VALUES // n)

    def shared(rows: NDArray[np.int64]) -> int:
        common = _neighbours(A, rows, k, include_self) & _neighbours(B, rows, k, include_self)
        return int(np.count_nonzero(common))

    pieces = [queries[start : start + step] for start in range(0, len(queries), step)]
    return sum(in_threads(shared, pieces, most=len(pieces))) / (k * len(queries))


def value_of(utility: Callable[..., Any], erased: Any, rows: Any) -> float:
    """Call a user's utility; anything but a finite number is an error."""
    value = np.asarray(utility(erased, rows), dtype=np.float64)
    if value.ndim or not np.isfinite(value):
        raise ValueError(f"Got {value} from utility, but expected a finite number.")
    return float(value)


def variance_kept(X: Any, X_erased: Any) -> float:
    """Compute the share of variance that erasure keeps: tr Cov(X_erased) / tr Cov(X). O(nd).

    From 0 to 1 for an orthogonal projection; other erasers may exceed 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> variance_kept(X, X * [1, 0])
    0.5
    """
    A, B = _same_rows(X, X_erased)
    total = float(np.einsum("ij,ij->", A, A))
    if total == 0:
        raise ValueError(
            f"Got {len(A)} equal rows in X, but expected rows that vary: without variance there "
            "is no share of it to keep."
        )
    return float(np.einsum("ij,ij->", B, B)) / total


def _neighbours(X: Array, rows: NDArray[np.int64], k: int, include_self: bool) -> NDArray[np.bool_]:
    """Mark each row's k nearest: a mask (len(rows), n) with exactly k True in every row."""
    # |x − y|² orders y as ½|y|² − x·y does, which needs no norm of x.
    distance = X[rows] @ X.T  # (c, n)
    np.subtract(0.5 * np.einsum("ij,ij->i", X, X), distance, out=distance)
    distance[np.arange(len(rows)), rows] = -np.inf if include_self else np.inf
    threshold = np.partition(distance, k - 1, axis=1)[:, k - 1, None]
    inside: NDArray[np.bool_] = distance <= threshold
    tied = np.flatnonzero(np.count_nonzero(inside, axis=1) > k)
    if len(tied):
        inside[tied] = _first_k(distance[tied], threshold[tied], k)
    return inside


def _first_k(distance: Array, threshold: Array, k: int) -> NDArray[np.bool_]:
    below, equal = distance < threshold, distance == threshold
    room = k - np.count_nonzero(below, axis=1)
    return below | (equal & (np.cumsum(equal, axis=1) <= room[:, None]))


def _same_rows(X: Any, X_erased: Any) -> tuple[Array, Array]:
    """Convert both to centred float64, which minimises cancellation."""
    A, B = checked_matrix(X, "X"), checked_matrix(X_erased, "X_erased")
    if len(A) != len(B):
        raise ValueError(
            f"Got {len(A)} original rows and {len(B)} erased rows, but expected the same rows "
            "before and after erasure, in the same order."
        )
    if len(A) < 2:
        raise ValueError(f"Got {len(A)} rows, but expected at least 2: neighbours need company.")
    A, B = A.astype(np.float64), B.astype(np.float64)
    return A - A.mean(axis=0), B - B.mean(axis=0)


def checked_matrix(X: Any, name: str) -> NDArray[Any]:
    """Raise an error unless rows are a matrix of finite numbers."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(f"Got {name} of shape {rows.shape}, but expected (rows, features).")
    refuse_nonfinite(rows)
    return rows


def _check_k(k: Any, n: int, include_self: bool) -> int:
    most = n if include_self else n - 1
    is_bool = isinstance(k, (bool, np.bool_))
    if isinstance(k, (float, np.floating)) and 0 < k < 1:
        return min(most, max(1, int(k * n)))
    if isinstance(k, (int, np.integer)) and not is_bool and 1 <= k <= most:
        return int(k)
    raise ValueError(
        f"Got k={k!r}, but expected a number of neighbours from 1 to {most} (there are {n} rows"
        f"{'' if include_self else ', a row is not its own neighbour'}), or a fraction of the rows "
        "between 0 and 1."
    )


def _queries(n: int, max_queries: int | None, random_state: Any) -> NDArray[np.int64]:
    if max_queries is None or max_queries >= n:
        return np.arange(n)
    check_count("max_queries", max_queries)
    rng = generator(random_state)
    return np.sort(rng.choice(n, size=max_queries, replace=False))


# -- Search among rows of several sources ----------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean over rows, and an interval that counts all rows of one id as one observation."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Retrieval:
    """Result of a search for the other rows of each id in the pool of all rows.

    Attributes
    ----------
    recall : Mean
        R@1: how often the nearest other row has the same id.
    ndcg : Mean
        nDCG@k: whether rows of the same id come first among the k nearest, 1 if all of them do.
    same_source : Mean or None
        The share of the k nearest that come from the same source as the row.
    fair_share : float or None
        That share if the source did not matter.
    n_queries, n_alone : int
        Rows with others of their id; and rows without, which only others can find.
    """

    recall: Mean
    ndcg: Mean
    same_source: Mean | None
    fair_share: float | None
    n_queries: int
    n_alone: int


def retrieval(
    X: Any, ids: Any, sources: Any = None, *, k: int = 10, alpha: float = 0.05
) -> Retrieval:
    """Search for every row's other versions among all rows, by Euclidean distance. O(n²d) time.

    Parameters
    ----------
    X : array-like of shape (n, d)
    ids : array-like of shape (n,)
        Rows of one id are the same thing from several sources: translations, or one task in
        several languages.
    sources : array-like of shape (n,), optional
        The source of each row.
    k : int
        How many nearest rows count for nDCG and for the share of the same source.
    alpha : float
        One minus the level of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> things = np.random.default_rng(0).normal(size=(50, 4))
    >>> X = np.vstack([things, things + [9, 0, 0, 0]])  # the second source is elsewhere
    >>> ids, sources = np.tile(np.arange(50), 2), np.repeat(["a", "b"], 50)
    >>> retrieval(X, ids, sources).recall.value, retrieval(X[:, 1:], ids, sources).recall.value
    (0.0, 1.0)
    """
    rows = checked_matrix(X, "X").astype(np.float64)
    n = len(rows)
    codes = Classes.read(ids, n_rows=n, name="ids", min_classes=1).codes
    others = np.bincount(codes)[codes] - 1
    asked = np.flatnonzero(others)
    if not len(asked) or not codes.any():
        came = f"{n} ids that occur once each" if codes.any() else f"one id for all {n} rows"
        raise ValueError(
            f"Got {came}, but expected ids that several rows share and others do not: else there "
            "is nothing to find. Give what rows are versions of, such as the verse or the task."
        )
    near, _ = _nearest(rows, _check_k(k, n, include_self=False))
    hit = codes[near] == codes[:, None]  # (n, k)
    gain = 1 / np.log2(np.arange(near.shape[1]) + 2)
    best = np.cumsum(gain)[np.minimum(others, near.shape[1]) - 1]
    quantile = NormalDist().inv_cdf(1 - alpha / 2)

    def mean(scores: Array, of: NDArray[np.int64]) -> Mean:
        value = float(scores[of].mean())
        by_id = np.bincount(codes[of], scores[of] - value)
        # Of ids that all have 1, some others may have less: at least one id's share either way.
        least = quantile * np.bincount(codes[of]).max()
        half = quantile * max(float(np.sqrt(np.square(by_id).sum())), least) / len(of)
        return Mean(value, max(value - half, 0.0), min(value + half, 1.0))

    same, fair = None, None
    if sources is not None:
        source = Classes.read(sources, n_rows=n, name="sources")
        of_source = source.codes[near] == source.codes[:, None]
        same = mean(of_source.mean(axis=1), np.arange(n))
        fair = float(np.sum(source.counts * (source.counts - 1)) / (n * (n - 1)))
    recall, ndcg = mean(1.0 * hit[:, 0], asked), mean(hit @ gain / best, asked)
    return Retrieval(recall, ndcg, same, fair, len(asked), n - len(asked))


def lisi(X: Any, sources: Any, *, perplexity: float = 30.0) -> Array:
    """Count the sources around each row, (n,): from 1 (one only) to their number (all mixed).

    The local inverse Simpson index of Korsunsky et al. (2019), called iLISI for batches: 1/Σp² over
    the shares p of the sources among the 3·perplexity nearest rows, which weigh less the farther
    they are. An attacker may still read rows that look mixed: measure that too.

    Examples
    --------
    >>> import numpy as np
    >>> X, z = np.random.default_rng(0).normal(size=(500, 3)), np.arange(500) % 2
    >>> mixed, apart = lisi(X, z).mean(), lisi(X + 9 * z[:, None], z).mean()
    >>> bool(mixed > 1.8), float(apart)
    (True, 1.0)
    """
    rows = checked_matrix(X, "X").astype(np.float64)
    labels = Classes.read(sources, n_rows=len(rows), name="sources")
    near, distances = _nearest(rows, min(int(3 * perplexity), len(rows) - 1))
    distances = distances - distances[:, :1]
    low, high = np.full(len(rows), -60.0), np.full(len(rows), 60.0)  # bounds on log(1/width)
    for _ in range(60):  # the entropy of the weights falls with 1/width
        middle = (low + high) / 2
        weights = np.exp(-distances * np.exp(middle)[:, None])
        total = weights.sum(axis=1)
        entropy = np.log(total) + np.exp(middle) * (distances * weights).sum(axis=1) / total
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    weights = weights / total[:, None]
    of_source = labels.codes[near]
    shares = [(weights * (of_source == c)).sum(axis=1) for c in range(len(labels.classes))]
    return np.asarray(1 / np.square(shares).sum(axis=0))


def robustness_index(X: Any, classes: Any, sources: Any, *, k: int = 10) -> float | None:
    """Compare what makes rows neighbours: 1 if it is their class, 0 if it is their source.

    Among the k nearest rows of all rows, SO of the same class from another source and OS of another
    class from the same source: SO/(SO + OS), as in PathoROB. None if there are neither.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0], [0, 1], [5, 0], [5, 1]])
    >>> robustness_index(X, ["f", "f", "m", "m"], ["a", "b", "a", "b"], k=1)
    1.0
    """
    rows = checked_matrix(X, "X").astype(np.float64)
    near, _ = _nearest(rows, _check_k(k, len(rows), include_self=False))
    read = {"classes": classes, "sources": sources}
    codes = [Classes.read(z, n_rows=len(rows), name=name).codes for name, z in read.items()]
    same_class, same_source = (c[near] == c[:, None] for c in codes)
    good, bad = np.sum(same_class & ~same_source), np.sum(~same_class & same_source)
    return float(good / (good + bad)) if good + bad else None


def _nearest(X: Array, k: int) -> tuple[NDArray[np.int64], Array]:
    """Find the k nearest other rows of every row, nearest first: numbers and distances, (n, k)."""
    X = X - X.mean(axis=0)
    half = 0.5 * np.einsum("ij,ij->i", X, X)
    step = max(1, BLOCK_VALUES // len(X))

    def of(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array]:
        distance = half - X[rows] @ X.T
        distance[np.arange(len(rows)), rows] = np.inf
        near = np.argpartition(distance, k - 1, axis=1)[:, :k]
        near = np.take_along_axis(near, np.argsort(near, axis=1), axis=1)  # ties in row order
        order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1, kind="stable")
        near = np.take_along_axis(near, order, axis=1)
        squares = 2 * (np.take_along_axis(distance, near, axis=1) + half[rows, None])
        return near, np.sqrt(np.maximum(squares, 0.0))

    pieces = [np.arange(i, min(i + step, len(X))) for i in range(0, len(X), step)]
    nears, distances = zip(*in_threads(of, pieces, most=len(pieces)), strict=True)
    return np.concatenate(nears), np.concatenate(distances)


Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Rates = dict[Any, dict[Any, float | None]]


@dataclass(frozen=True)
class Fairness:
    """Group rates of a classifier, by class c of the concept and label y of the task.

    An undefined number is None, never NaN, and its cause is in ``empty_cells``.

    Attributes
    ----------
    tpr : dict
        ``tpr[c][y]``: p(ŷ = y | z = c, y), None where no row has both c and y.
    gaps : dict
        ``gaps[c][y]``: TPR of c minus TPR of the others, pooled. With two classes this is the
        paper's GAP, and the two classes' gaps are opposite.
    shares : dict
        ``shares[c][y]``: share of c among the rows of label y, %c in the paper.
    spans : dict
        ``spans[y]``: the largest minus the smallest TPR over the classes.
    rms : dict
        ``rms[c]``: root mean square of the defined gaps over labels.
    correlations : dict
        ``correlations[c]``: σ, Pearson's correlation over labels between the gap and the share of
        the class. None with fewer than three defined gaps, or no variation.
    parities : dict
        ``parities[c]``: demographic parity, Σ_y |p(ŷ = y | c) − p(ŷ = y | others)|.
    odds : dict
        ``odds[y]``: equalised odds of "y or not": the larger of the spans of true and of false
        positive rates over the classes.
    empty_cells : tuple
        Pairs (c, y) without a row.
    """

    accuracy: float
    tpr: Rates
    gaps: Rates
    shares: Rates
    spans: dict[Any, float | None]
    rms: dict[Any, float | None]
    correlations: dict[Any, float | None]
    parities: dict[Any, float]
    odds: dict[Any, float | None]
    empty_cells: tuple[tuple[Any, Any], ...]

    @property
    def rms_gap(self) -> float | None:
        """Return the largest RMS gap of a class; with two classes both have the same."""
        return _largest(self.rms.values())

    @property
    def correlation(self) -> float | None:
        """Return the largest correlation of a class; with two classes both have the same."""
        return _largest(self.correlations.values())

    @property
    def demographic_parity(self) -> float:
        """Return the largest parity gap of a class; with two classes both have the same."""
        return max(self.parities.values())

    @property
    def equalised_odds(self) -> float | None:
        """Return the largest equalised-odds gap of a label."""
        return _largest(self.odds.values())

    @property
    def note(self) -> str:
        """Say what was left out; empty if nothing."""
        if not self.empty_cells:
            return ""
        shown = ", ".join(f"({c!s}, {y!s})" for c, y in self.empty_cells[:5])
        more = f" and {len(self.empty_cells) - 5} more" if len(self.empty_cells) > 5 else ""
        return (
            f"No rows with (concept, label) {shown}{more}: gaps that need them are undefined and "
            "left out of means."
        )


def fairness(y_true: Any, y_pred: Any, z: Any) -> Fairness:
    """Compute group fairness of predictions y_pred of labels y_true between classes of z. O(n).

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels of the task and their predictions, of any type.
    z : array-like of shape (n,)
        The concept's classes, two or more.

    Examples
    --------
    >>> y_true = ["nurse", "nurse", "nurse", "nurse", "judge", "judge", "judge", "judge"]
    >>> y_pred = ["nurse", "nurse", "nurse", "judge", "judge", "judge", "judge", "judge"]
    >>> z = ["f", "f", "m", "m", "f", "m", "f", "m"]
    >>> result = fairness(y_true, y_pred, z)
    >>> result.gaps["f"]
    {'judge': 0.0, 'nurse': 0.5}
    >>> round(result.rms_gap, 3), result.demographic_parity
    (0.354, 0.5)
    """
    concept = Classes.read(z, name="z")
    K, n = len(concept.classes), len(concept)
    lengths = len(y_true), len(y_pred)
    if lengths != (n, n):
        raise ValueError(
            f"Got {lengths[0]} labels in y_true, {lengths[1]} in y_pred and {n} in z, but expected "
            "one of each for every row."
        )
    # As objects, so that the label "1" and the label 1 are not made one.
    values = np.concatenate([np.asarray(y, dtype=object) for y in (y_true, y_pred)])
    task = Classes.read(values, name="y_true and y_pred")
    true, predicted, L = task.codes[:n], task.codes[n:], len(task.classes)
    labels, classes = task.classes.tolist(), concept.classes.tolist()
    right = true == predicted
    rows = _table(concept.codes, true, K, L)  # (K, L)
    hits = _table(concept.codes[right], true[right], K, L)
    calls = _table(concept.codes, predicted, K, L)
    present = rows.sum(axis=0) > 0  # a label that is only ever predicted has no rates
    gaps = _ratio(hits, rows) - _ratio(_others(hits), _others(rows))
    shares = rows / np.maximum(rows.sum(axis=0), 1)
    sizes = rows.sum(axis=1, keepdims=True)
    false_rates = _ratio(calls - hits, sizes - rows)
    parities = np.abs(calls / sizes - _others(calls) / _others(sizes)).sum(axis=1)
    spans = _spans(_ratio(hits, rows))
    named = [label for label, seen in zip(labels, present, strict=True) if seen]

    def by_label(values: Floats) -> dict[Any, float | None]:
        return dict(zip(named, _plain(values[present]), strict=True))

    def by_both(table: Floats) -> Rates:
        return dict(zip(classes, map(by_label, table), strict=True))

    return Fairness(
        accuracy=float(right.mean()),
        tpr=by_both(_ratio(hits, rows)),
        gaps=by_both(gaps),
        shares=by_both(shares),
        spans=by_label(spans),
        rms=dict(zip(classes, map(_rms, gaps), strict=True)),
        correlations=dict(zip(classes, map(_correlation, gaps, shares), strict=True)),
        parities=dict(zip(classes, parities.tolist(), strict=True)),
        odds=by_label(np.maximum(spans, _spans(false_rates))),
        empty_cells=tuple(
            (classes[c], labels[y]) for c, y in np.argwhere((rows == 0) & present).tolist()
        ),
    )


def _table(classes: Counts, labels: Counts, K: int, L: int) -> Counts:
    return np.bincount(classes * L + labels, minlength=K * L).reshape(K, L)


def _others(counts: Counts) -> Counts:
    return np.asarray(counts.sum(axis=0) - counts)


def _ratio(part: Counts, whole: Counts) -> Floats:
    """Divide counts; undefined ratios are NaN inside this module, and None outside."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _spans(rates: Floats) -> Floats:
    """Subtract the smallest from the largest rate; undefined for fewer than two classes."""
    defined = ~np.isnan(rates)
    top = np.where(defined, rates, -np.inf).max(axis=0)
    bottom = np.where(defined, rates, np.inf).min(axis=0)
    enough = defined.sum(axis=0) >= 2
    return np.where(enough, top, np.nan) - np.where(enough, bottom, 0.0)


def _rms(gaps: Floats) -> float | None:
    defined = gaps[~np.isnan(gaps)]
    return float(np.sqrt(np.mean(defined**2))) if len(defined) else None


def _correlation(gaps: Floats, shares: Floats) -> float | None:
    defined = ~np.isnan(gaps)
    gap, share = gaps[defined], shares[defined]
    # Two points always lie on a line; equal values have no correlation with anything.
    if len(gap) < 3 or np.ptp(gap) <= 1e-12 or np.ptp(share) <= 1e-12:
        return None
    return float(np.corrcoef(gap, share)[0, 1])


def _plain(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _largest(values: Any) -> float | None:
    defined = [value for value in values if value is not None]
    return max(defined) if defined else None
