"""Real vectors in the package: gendered words, and verses in three translations."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split

CLASSES = np.array(["female", "male", "neutral"])
NAME = "glove-gender"
#: Names of the translations in the names of rows.
SHORT = {"King James": "KJV", "American Standard": "ASV", "World English": "WEB"}


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
        ``X`` float32, ``z`` one of "female", "male", "neutral", ``names`` the words.

    Examples
    --------
    >>> data = load_glove_gender()
    >>> [len(split) for split in data], data.n_features
    ([10777, 4620, 6599], 100)
    """
    return words_of(bundle("glove_gender"))


def words_of(arrays: Mapping[str, NDArray[Any]]) -> Dataset:
    """Read the data set that :func:`unspot.lab.glove.to_bundle` wrote."""
    names = np.array(arrays["words"].tobytes().decode("utf-8").split("\n"))
    whole = Split(arrays["X"].astype(np.float32), CLASSES[arrays["z"]], names=names)
    parts = np.split(np.arange(len(whole)), np.cumsum(arrays["sizes"])[:-1])
    train, validation, test = (whole.take(part) for part in parts)
    return Dataset(train, validation, test, NAME, "gender")


def bundle(name: str) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file in the package."""
    path = files("unspot.datasets").joinpath("data", f"{name}.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


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
    arrays = bundle("translations")
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
