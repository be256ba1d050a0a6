"""The bundled verses: three translations of each, split by verse, whose source can be erased."""

import numpy as np
import pytest

from unspot import LEACE
from unspot.datasets import load_translations


@pytest.fixture(scope="module")
def data():
    return load_translations()


def test_every_verse_comes_once_from_each_translation_and_is_in_one_split(data):
    verses = [set(split.groups.tolist()) for split in data]
    assert sum(map(len, verses)) == len(set.union(*verses)) == 1600
    for split in data:
        pairs = set(zip(split.groups.tolist(), split.z.tolist(), strict=True))
        assert len(pairs) == len(split) == 3 * len(set(split.groups.tolist()))


def test_vectors_are_of_unit_length_and_name_their_verse(data):
    np.testing.assert_allclose(np.linalg.norm(data.test.X, axis=1), 1, atol=2e-3)
    for i in range(0, len(data.test), 97):
        short = {"K": "KJV", "A": "ASV", "W": "WEB"}[data.test.z[i][0]]
        assert data.test.names[i] == f"{data.test.groups[i]} {short}"


def test_a_verse_is_closer_to_its_translations_than_to_other_verses(data):
    """The vectors belong to the names: a shuffled file would fail here."""
    cosines = data.test.X @ data.test.X.T
    np.fill_diagonal(cosines, -1)
    nearest = data.test.groups[cosines.argmax(axis=1)]
    assert np.mean(nearest == data.test.groups) > 0.95


def test_without_the_source_more_verses_find_both_other_translations(data):
    """Erasure improves the result: that is what the data set is for."""

    def found(X):
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -1)
        two = np.argsort(-cosines, axis=1)[:, :2]
        return np.mean(data.test.groups[two] == data.test.groups[:, None])

    eraser = LEACE().fit(data.train.X, data.train.z)
    assert found(eraser.transform(data.test.X)) > found(data.test.X)
