"""Word similarity: do cosines still rank pairs of words as people do?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice

__all__ = ["WordPairs", "WordSimilarity", "load_pairs", "load_wordsim353", "word_similarity"]

_FILES = {"similarity": "wordsim353_similarity.tsv", "all": "wordsim353.tsv"}


class WordPairs(NamedTuple):
    """Pairs of words and their human scores from 0 to 10."""

    first: NDArray[Any]  # (n,)
    second: NDArray[Any]  # (n,)
    scores: NDArray[np.float64]  # (n,)


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


def load_wordsim353(subset: str = "similarity") -> WordPairs:
    """Load WordSim-353 from the package.

    Words are in lower case, as in the GloVe vocabularies of 6B and 42B tokens.

    Parameters
    ----------
    subset : {"similarity", "all"}
        The 203 pairs of the similarity subset of Agirre et al. (2009), as in the paper, or all
        353 pairs of Finkelstein et al. (2002).

    Examples
    --------
    >>> pairs = load_wordsim353()
    >>> len(pairs.scores), pairs.first[0], pairs.second[0], pairs.scores[0]
    (203, np.str_('tiger'), np.str_('cat'), np.float64(7.35))
    """
    file = _FILES[check_choice("subset", subset, tuple(_FILES))]
    first, second, scores = load_pairs(str(files("unspot.datasets") / "data" / file))
    return WordPairs(np.char.lower(first), np.char.lower(second), scores)


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
