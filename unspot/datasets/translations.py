"""Verses in three translations: a concept, the source, whose erasure improves the result."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from unspot.data.dataset import Dataset

__all__ = ["load_translations"]

#: What the translations are called in the names of rows.
SHORT = {"King James": "KJV", "American Standard": "ASV", "World English": "WEB"}


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
        return _dataset(dict(arrays))


def _dataset(arrays: dict[str, Any]) -> Dataset:
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
