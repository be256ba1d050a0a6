"""WordSim-353 as shipped."""

from __future__ import annotations

import numpy as np
import pytest

from unspot.lab.words import load_wordsim353


def test_both_sets_have_their_pairs():
    everything, similarity = load_wordsim353("all"), load_wordsim353()
    assert len(everything.scores) == 353
    assert len(similarity.scores) == 203
    for pairs in (everything, similarity):
        assert len(pairs.first) == len(pairs.second) == len(pairs.scores)
        assert pairs.scores.min() >= 0
        assert pairs.scores.max() == 10
        assert all(w == w.lower() and w.strip() for w in np.concatenate(pairs[:2]))


def test_the_similarity_pairs_are_among_all_with_the_same_score():
    everything = set(zip(*load_wordsim353("all"), strict=True))
    assert set(zip(*load_wordsim353("similarity"), strict=True)) <= everything


def test_an_unknown_subset_is_refused():
    with pytest.raises(ValueError, match=r"Got subset='related', but expected 'similarity' or"):
        load_wordsim353("related")
