"""WordSim-353: pairs of words and how similar people find them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["WordPairs", "load_wordsim353"]

_FILES = {"all": "wordsim353.tsv", "similarity": "wordsim353_similarity.tsv"}


class WordPairs(NamedTuple):
    """Pairs of words, in lower case, and their human scores from 0 to 10."""

    first: NDArray[Any]  # (n,)
    second: NDArray[Any]  # (n,)
    scores: NDArray[np.float64]  # (n,)


def load_wordsim353(subset: str = "similarity") -> WordPairs:
    """Load WordSim-353 from the package.

    Words are in lower case, as in the GloVe vocabularies of 6B and 42B tokens.

    Parameters
    ----------
    subset : {"similarity", "all"}
        The 203 pairs of the similarity subset of Agirre et al. (2009), which the paper scores, or
        all 353 pairs of Finkelstein et al. (2002).

    Examples
    --------
    >>> pairs = load_wordsim353()
    >>> len(pairs.scores), pairs.first[0], pairs.second[0], pairs.scores[0]
    (203, np.str_('tiger'), np.str_('cat'), np.float64(7.35))
    """
    if subset not in _FILES:
        raise ValueError(f"Got subset={subset!r}, but expected 'similarity' or 'all'.")
    text = files("unspot.datasets").joinpath("data", _FILES[subset]).read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]
    rows = [row for row in rows if row[2] != "score"]
    first, second, scores = zip(*rows, strict=True)
    return WordPairs(
        np.array([w.lower() for w in first]),
        np.array([w.lower() for w in second]),
        np.array(scores, dtype=np.float64),
    )
