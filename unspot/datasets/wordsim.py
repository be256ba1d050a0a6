"""WordSim-353: pairs of words and how similar people find them."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice

__all__ = ["WordPairs", "load_wordsim353"]

_FILES = {"similarity": "wordsim353_similarity.tsv", "all": "wordsim353.tsv"}


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
        The 203 pairs of the similarity subset of Agirre et al. (2009), as in the paper, or all
        353 pairs of Finkelstein et al. (2002).

    Examples
    --------
    >>> pairs = load_wordsim353()
    >>> len(pairs.scores), pairs.first[0], pairs.second[0], pairs.scores[0]
    (203, np.str_('tiger'), np.str_('cat'), np.float64(7.35))
    """
    file = _FILES[check_choice("subset", subset, tuple(_FILES))]
    text = files("unspot.datasets").joinpath("data", file).read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.lower().splitlines() if line and line[0] != "#"]
    first, second, scores = zip(*(row for row in rows if row[2] != "score"), strict=True)
    return WordPairs(np.array(first), np.array(second), np.array(scores, dtype=np.float64))
