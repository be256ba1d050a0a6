"""Splits are disjoint, stratified and reproducible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unspot.data.dataset import Dataset, Lexicon, Split


def make(**options):
    rng = np.random.default_rng(0)
    X = np.arange(400.0).reshape(200, 2)
    z = rng.permutation(np.repeat(["a", "b"], [150, 50]))
    return Dataset.from_arrays(X, z, rng.permutation(np.arange(200) % 4), **options), X, z


def test_every_row_is_in_one_split_with_its_labels():
    data, X, z = make(names=np.arange(200), random_state=3)
    names = np.concatenate([split.names for split in data])
    assert sorted(names) == list(range(200))
    for split in data:
        np.testing.assert_array_equal(split.X, X[split.names])
        np.testing.assert_array_equal(split.z, z[split.names])


def test_shares_and_strata():
    data, _, _ = make(random_state=0)
    assert [len(split) for split in data] == pytest.approx([100, 40, 60], abs=6)
    for split in data:
        assert np.mean(split.z == "a") == pytest.approx(0.75, abs=0.06)
        assert set(split.y) == {0, 1, 2, 3}


def test_the_seed_decides():
    a, b, c = (make(random_state=s)[0].test.X for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert a.shape != c.shape or not np.array_equal(a, c)


def test_a_rare_class_is_in_every_split():
    z = np.array([0] * 97 + [1] * 3)
    data = Dataset.from_arrays(np.ones((100, 1)), z, random_state=0)
    assert [int(split.z.sum()) for split in data] == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ones(5), "z": [0, 1] * 5}, "expected .rows, features"),
        ({"X": np.ones((4, 1)), "z": [0, 0, 0, 1]}, "at least 3 rows of every class"),
        ({"X": np.ones((6, 1)), "z": [0, 1] * 3, "sizes": (0.5, 0.5, 0.5)}, "add to one"),
        ({"X": np.ones((6, 1)), "z": [0, 1]}, "2 labels in z for 6 rows"),
        ({"X": np.ones((6, 1)), "z": [0, 1] * 3, "y": [1]}, "1 labels in y for 6 rows"),
    ],
)
def test_bad_arrays(arguments, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_arrays(**arguments)


def test_it_is_shown_in_a_line():
    X, z = np.zeros((4000, 3)), np.arange(4000) % 2
    jobs = np.arange(4000) % 9
    data = Dataset.from_arrays(X, np.array(["f", "m"])[z], jobs, random_state=0, name="bios")
    lexicon = Lexicon(np.array(["a", "b"]), np.zeros((2, 3)))
    train, validation, test = (f"{len(split):,}" for split in data)
    counts = f"{train} train, {validation} validation, {test} test rows"
    told = "of 3 features; concept f, m; task of 9 classes"
    assert repr(data) == f"<Dataset 'bios': {counts} {told}>"
    assert repr(data.test) == f"<Split: {test} rows {told}>"
    assert repr(replace(data, lexicon=lexicon)).endswith("9 classes; lexicon of 2 words>")
    assert repr(lexicon) == "<Lexicon: 2 words of 3 features>"


def test_columns_of_other_lengths():
    with pytest.raises(ValueError, match="1 values in y for 2 rows"):
        Split(np.ones((2, 1)), np.array([0, 1]), np.array([1]))
