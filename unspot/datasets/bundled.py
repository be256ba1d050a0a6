"""Real vectors in the package: gendered words, WordSim-353, and verses in three translations."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
from unspot.data.dataset import Dataset, Lexicon, Split

CLASSES = np.array(["female", "male", "neutral"])
NAME = "glove-gender"
#: What the translations are called in the names of rows.
SHORT = {"King James": "KJV", "American Standard": "ASV", "World English": "WEB"}

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


def load_glove_gender() -> Dataset:
    """Load words that lean male, lean female or are neutral: real vectors, in the package.

    21,996 words, a third of each class, in three stratified splits of 10,777, 4,620 and 6,599 rows
    as in the paper. The vectors are GloVe 6B of **100** dimensions (public domain, stored in half
    precision: 4.5 MB); the paper used 42B of 300 dimensions, which is too large to ship:
    ``unspot.lab.load_glove("glove.42B.300d.txt")`` gives the paper's own benchmark.

    Takes some tens of milliseconds and 9 MB.

    Returns
    -------
    Dataset
        ``X`` float32, ``z`` one of "female", "male", "neutral", ``names`` the words, and a
        ``lexicon`` of all words of WordSim-353 that have a vector, in lower case.

    Examples
    --------
    >>> data = load_glove_gender()
    >>> [len(split) for split in data], data.n_features
    ([10777, 4620, 6599], 100)
    """
    bundle = files("unspot.datasets").joinpath("data", "glove_gender.npz")
    with bundle.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return from_bundle(dict(arrays))


def from_bundle(arrays: Mapping[str, NDArray[Any]]) -> Dataset:
    """Read the data set that :func:`unspot.lab.glove.to_bundle` wrote."""
    whole = Split(
        arrays["X"].astype(np.float32), CLASSES[arrays["z"]], names=_as_words(arrays["words"])
    )
    parts = np.split(np.arange(len(whole)), np.cumsum(arrays["sizes"])[:-1])
    lexicon = Lexicon(_as_words(arrays["lexicon_words"]), arrays["lexicon_X"].astype(np.float32))
    train, validation, test = (whole.take(part) for part in parts)
    return Dataset(train, validation, test, NAME, lexicon, "gender")


def _as_words(text: NDArray[np.uint8]) -> NDArray[Any]:
    return np.array(text.tobytes().decode("utf-8").split("\n"))


def load_translations() -> Dataset:
    """Load Bible verses in three English translations, as sentence vectors in the package.

    Each verse comes once from the King James (1769), the American Standard (1901) and the World
    English Bible (2000). The concept is the translation: its wording pulls verses of one source
    together, so that a search finds other verses of the same source before the same verse of
    another. Without it, a search finds what verses say.

    The vectors are those of all-MiniLM-L6-v2, 384 dimensions of length 1, in half precision. The
    three vectors of a verse are one group, so that a verse is in one split only.

    Returns
    -------
    Dataset
        ``X`` float32, ``z`` the translation, ``y`` the part of the Bible, ``names`` such as
        "John 3:16 KJV", and ``groups`` the verse.

    Examples
    --------
    >>> data = load_translations()
    >>> sorted(set(data.train.z.tolist()))
    ['American Standard', 'King James', 'World English']
    """
    bundle = files("unspot.datasets").joinpath("data", "translations.npz")
    with bundle.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return _verses(dict(arrays))


def _verses(arrays: dict[str, Any]) -> Dataset:
    X, translations = arrays["X"].astype(np.float32), arrays["translations"]
    n_verses, n_translations, n_features = X.shape
    z = np.tile(translations, n_verses)
    verses, parts = (np.repeat(arrays[key], n_translations) for key in ("verses", "parts"))
    names = np.array([f"{verse} {SHORT[source]}" for verse, source in zip(verses, z, strict=True)])
    return Dataset.from_arrays(
        X.reshape(-1, n_features),
        z,
        parts,
        names=names,
        groups=verses,
        random_state=0,
        name="translations",
    )
