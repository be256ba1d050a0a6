"""How much of the geometry is kept: neighbours (A_k), variance, and similarities of words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count
from unspot.data.rows import generator, refuse_nonfinite
from unspot.datasets.glove import WordPairs
from unspot.machine import in_threads

__all__ = [
    "WordPairs",
    "WordSimilarity",
    "load_pairs",
    "neighbour_overlap",
    "variance_kept",
    "word_similarity",
]

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
    """A_k: the mean share of each row's k nearest neighbours that erasure keeps.

    Exact, by Euclidean distance in float64. A row's neighbours are those within its k-th smallest
    distance, found by selection rather than by sorting, so at k = n/2 it takes a small fraction of
    the time of an index of neighbours. Distances that tie are taken in row order.

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


def variance_kept(X: Any, X_erased: Any) -> float:
    """Share of the total variance that erasure keeps: tr Cov(X_erased) / tr Cov(X). O(nd).

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
    """Mask (len(rows), n) with exactly k True in every row."""
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
    filled: NDArray[np.bool_] = below | (equal & (np.cumsum(equal, axis=1) <= room[:, None]))
    return filled


def _same_rows(X: Any, X_erased: Any) -> tuple[Array, Array]:
    """Both as centred float64: distances stay, and cancellation in them is least."""
    A, B = np.asarray(X), np.asarray(X_erased)
    for name, value in (("X", A), ("X_erased", B)):
        if value.ndim != 2 or value.shape[1] == 0:
            raise ValueError(f"Got {name} of shape {value.shape}, but expected (rows, features).")
        refuse_nonfinite(value)
    if len(A) != len(B):
        raise ValueError(
            f"Got {len(A)} original rows and {len(B)} erased rows, but expected the same rows "
            "before and after erasure, in the same order."
        )
    if len(A) < 2:
        raise ValueError(f"Got {len(A)} rows, but expected at least 2: neighbours need company.")
    A, B = A.astype(np.float64), B.astype(np.float64)
    return A - A.mean(axis=0), B - B.mean(axis=0)


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


# -- Word similarity: do cosines still rank pairs of words as people do? ---------------------------


@dataclass(frozen=True)
class WordSimilarity:
    """Spearman correlation of cosines and scores, over the pairs whose words are both known."""

    correlation: float
    n_pairs: int
    n_missing: int
    missing_words: tuple[str, ...] = ()


def word_similarity(
    words: Any, X: Any, pairs: WordPairs, *, ignore_case: bool = False
) -> WordSimilarity:
    """Spearman correlation between cosine similarities and people's scores.

    Pairs with a word that is not among ``words`` are left out, and counted. O(m) for m words, O(d)
    a pair.

    Parameters
    ----------
    words : sequence of str, of length m
        What each row of X is called.
    X : array-like of shape (m, d)
        Word vectors, erased or not.
    pairs : WordPairs
        First words, second words and scores: from ``load_pairs`` or ``load_wordsim353``.
    ignore_case : bool
        Look a word up in lower case too. The paper does not: with GloVe's lower-case vocabulary it
        keeps 196 of the 203 pairs of the WordSim-353 similarity subset.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = WordPairs(["cat", "cat", "dog"], ["dog", "car", "yak"], [9.0, 2.0, 5.0])
    >>> X = np.array([[1.0, 0.1], [1.0, 0.2], [0.0, 1.0]])
    >>> word_similarity(["cat", "dog", "car"], X, pairs)
    WordSimilarity(correlation=1.0, n_pairs=2, n_missing=1, missing_words=('yak',))
    """
    from scipy.stats import spearmanr

    vectors = np.asarray(X)
    row_of = _rows_by_word(words, vectors)
    rows, scores, unknown = _known_pairs(pairs, row_of, ignore_case)
    if len(scores) < 2:
        raise ValueError(
            f"Got {len(scores)} of {len(pairs.scores)} pairs with both words in the vocabulary, "
            "but expected at least 2: a correlation needs them. Are the words spelt alike?"
        )
    cosines = _cosines(vectors[rows[:, 0]], vectors[rows[:, 1]])
    if np.ptp(cosines) == 0 or np.ptp(scores) == 0:
        correlation = 0.0  # what does not vary ranks nothing
    else:
        correlation = float(spearmanr(cosines, scores).statistic)
    return WordSimilarity(correlation, len(scores), len(pairs.scores) - len(scores), unknown)


def load_pairs(path: str | os.PathLike[str]) -> WordPairs:
    """Read scored pairs of words from a tab- or comma-separated file.

    Knows WordSim-353 (word, word, score; lines that begin with # are comments), its similarity
    subset, and SimLex-999 as published (the column named SimLex999). Any other file with two
    columns of words and one of scores first, with or without a header, is read too.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = file.write_text("word1\\tword2\\tscore\\ncat\\tdog\\t9.0\\n")
    >>> pairs = load_pairs(file)
    >>> pairs.first[0], pairs.second[0], pairs.scores[0]
    (np.str_('cat'), np.str_('dog'), np.float64(9.0))
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file of word pairs.")
    lines = [
        (number, line)
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise ValueError(f"Got {str(path)!r}, which has no lines, but expected pairs of words.")
    separator = "\t" if "\t" in lines[0][1] else ","
    fields = [(number, [f.strip() for f in line.split(separator)]) for number, line in lines]
    column = _score_column(fields[0][1])
    if not _is_number(fields[0][1], column):
        fields = fields[1:]  # the header
    read = [_pair(number, row, column, path) for number, row in fields]
    first, second, scores = zip(*read, strict=True)
    return WordPairs(np.array(first), np.array(second), np.array(scores, dtype=np.float64))


def _score_column(header: Sequence[str]) -> int:
    # SimLex-999 has the part of speech between the words and the score.
    names = [name.lower() for name in header]
    return names.index("simlex999") if "simlex999" in names else 2


def _is_number(row: Sequence[str], column: int) -> bool:
    try:
        float(row[column])
    except (ValueError, IndexError):
        return False
    return True


def _pair(number: int, row: Sequence[str], column: int, path: Path) -> tuple[str, str, float]:
    if not _is_number(row, column) or not np.isfinite(float(row[column])):
        raise ValueError(
            f"Got line {number} of {str(path)!r}: {' | '.join(row)!r}, but expected two words and "
            "a score, separated by tabs or commas."
        )
    return row[0], row[1], float(row[column])


def _rows_by_word(words: Any, vectors: NDArray[Any]) -> dict[str, int]:
    names = [str(word) for word in words]
    if vectors.ndim != 2 or len(names) != len(vectors):
        raise ValueError(
            f"Got {len(names)} words for vectors of shape {vectors.shape}, but expected one row "
            "for each word."
        )
    # The first of a repeated word is the most frequent one in lists by frequency.
    return {name: row for row, name in reversed(list(enumerate(names)))}


def _known_pairs(
    pairs: WordPairs, row_of: dict[str, int], ignore_case: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64], tuple[str, ...]]:
    rows, scores, unknown = [], [], set()
    for *pair, score in zip(*pairs, strict=True):
        pair_rows = [row_of.get(str(word)) for word in pair]
        if ignore_case:
            pair_rows = [
                row_of.get(word.lower(), row) for word, row in zip(pair, pair_rows, strict=True)
            ]
        if None in pair_rows:
            unknown |= {str(word) for word, row in zip(pair, pair_rows, strict=True) if row is None}
        else:
            rows.append(pair_rows)
            scores.append(score)
    return (
        np.array(rows, dtype=np.int64).reshape(-1, 2),
        np.array(scores, dtype=np.float64),
        tuple(sorted(unknown)),
    )


def _cosines(A: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
    A, B = A.astype(np.float64), B.astype(np.float64)
    norms = np.linalg.norm(A, axis=1) * np.linalg.norm(B, axis=1)
    products = np.einsum("ij,ij->i", A, B)
    # A vector that erasure has sent to zero is similar to none.
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
