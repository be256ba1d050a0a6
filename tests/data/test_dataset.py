"""Splits are disjoint, stratified and reproducible."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from unspot.data.dataset import Dataset, Split, knows_its_rows, share_fitted_on
from unspot.data.rows import identity, known_hashes, repeated_rows, with_known
from unspot.datasets import load_glove_gender
from unspot.io.sources import Rows, as_source


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


def test_a_number_is_a_task_by_which_rows_are_split(rng):
    y = rng.exponential(size=600)
    data = Dataset.from_arrays(rng.normal(size=(600, 2)), np.arange(600) % 2, y, random_state=0)
    tenth = np.quantile(y, 0.9)
    assert [np.mean(split.y > tenth) for split in data] == pytest.approx([0.1] * 3, abs=0.02)


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
    train, validation, test = (f"{len(split):,}" for split in data)
    counts = f"{train} train, {validation} validation, {test} test rows"
    told = "of 3 features; concept f, m; task of 9 classes"
    assert repr(data) == f"<Dataset 'bios': {counts} {told}>"
    assert repr(data.test) == f"<Split: {test} rows {told}>"


def test_columns_of_other_lengths():
    with pytest.raises(ValueError, match="1 labels in y for 2 rows"):
        Split(np.ones((2, 1)), np.array([0, 1]), np.array([1]))


def test_joined_labels_of_text_and_of_numbers_are_refused():
    numbers = Split(np.ones((2, 1)), np.array([0, 1]), groups=np.array([7, 8]))
    text = Split(np.ones((2, 1)), np.array(["1", "2"]), groups=np.array([8, 9]))
    with pytest.raises(ValueError, match="mixes a number and a string"):
        numbers.joined(text)
    with pytest.raises(ValueError, match="mixes a number and a string"):
        Dataset(numbers, numbers, text)
    assert text.joined(text).z.dtype.kind == "U"
    assert numbers.joined(numbers).groups.dtype.kind == "i"


# -- Rows that were seen before --------------------------------------------------------------------


def fitted_on(X, **facts):
    """What share_fitted_on sees of an eraser that was fitted on these rows."""
    codes = np.arange(len(X)) % 2
    return SimpleNamespace(metadata={**identity(X, codes), "n_rows": len(X), **facts})


def share(eraser, X):
    return share_fitted_on(eraser, Split(X, np.arange(len(X)) % 2))


def test_any_part_of_the_rows_of_a_fit_is_known_again(rng):
    X = rng.normal(size=(10_000, 3))
    eraser = fitted_on(X)
    for start in range(0, 9_000, 450):
        assert share(eraser, X[start : start + 300]) == 1
    assert share(eraser, rng.normal(size=(1000, 3))) == 0


@pytest.mark.parametrize("n", [4_000, 4_001, 100_000, 300_000])
def test_few_rows_of_a_large_fit_are_known_again(n, rng):
    X = rng.normal(size=(n, 2)).astype(np.float32)
    eraser = fitted_on(X)
    shares = []
    for _ in range(5):
        some = X[rng.choice(n, 1000, replace=False)]
        assert share(eraser, some) == 1
        mixed = np.concatenate([some, rng.normal(size=(4000, 2)).astype(np.float32)])
        shares.append(share(eraser, mixed))
    assert np.mean(shares) == pytest.approx(0.2, abs=0.08)  # at most four standard errors


def test_the_known_rows_do_not_depend_on_the_order(rng):
    X = rng.normal(size=(40_000, 2))
    one, other = identity(X, X[:, 0]), identity(rng.permutation(X), X[:, 0])
    assert one["known_rows"] == other["known_rows"]
    assert len(one["known_rows"]) == 4000
    assert one["known_below"] == max(one["known_rows"])
    assert one["fingerprint"] != other["fingerprint"]


def test_the_known_rows_take_no_more_than_120_kb(rng):
    found = identity(rng.normal(size=(100_000, 1)), np.zeros(100_000))
    assert 60_000 < len(json.dumps(found)) < 70_000


def test_rows_that_occur_twice_do_not_make_others_known(rng):
    """Zeros are in many data sets: one vector, however often it occurs."""
    X = np.concatenate([np.zeros((500, 3)), rng.normal(size=(20_000, 3))])
    other = np.concatenate([np.zeros((500, 3)), rng.normal(size=(500, 3))])
    eraser = fitted_on(X)
    zero = known_hashes(np.zeros((1, 3)), eraser.metadata["known_step"])
    assert share(eraser, other) == 0
    # Also where the zeros have a small hash.
    known = [*zero, *eraser.metadata["known_rows"]]
    bound = max(*zero, eraser.metadata["known_below"])
    eraser.metadata.update(known_rows=known, known_below=bound)
    assert share(eraser, other) == 0


ROUNDED = {
    "float16": lambda X: X.astype(np.float16),
    "six digits": lambda X: np.char.mod("%.6g", X).astype(float),
    "float32": lambda X: X.astype(np.float32),
}


@pytest.mark.parametrize("rounded", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("source", ["normal", "unit norm", "words", "stream"])
def test_rounded_rows_of_a_fit_are_known_again(source, rounded, rng):
    """Overlaps are told as they are, and no other row of the source is taken for one of the fit."""
    X = load_glove_gender().train.X if source == "words" else rng.normal(size=(6000, 64))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) if source == "unit norm" else X
    fit, other = X[:4500], X[4500:5500]
    eraser = fitted_on(fit)
    if source == "stream":
        known = {}
        for batch in np.array_split(fit, 9):
            known = with_known(known, batch)
        eraser.metadata = {**known, "n_rows": len(fit)}
    assert share(eraser, other) == share(eraser, rounded(other)) == 0
    assert share(eraser, rounded(fit[:2000])) > 0.9
    mixed = np.concatenate([rounded(fit[:351]), other])  # 26 %
    assert share(eraser, mixed) == pytest.approx(0.26, abs=0.06)


def test_an_eraser_without_hashes_does_not_know_its_rows(rng):
    X = rng.normal(size=(50, 3))
    eraser = fitted_on(X)
    rows = Split(X, np.arange(50) % 2)
    assert knows_its_rows(eraser, rows)
    del eraser.metadata["known_step"]  # as of earlier versions
    assert not knows_its_rows(eraser, rows)
    assert not knows_its_rows(np.negative, rows)
    assert share(eraser, X) == 0


def test_rows_on_disk_are_known_by_what_the_fingerprint_reads(rng):
    X = rng.normal(size=(20_000, 3))
    eraser = fitted_on(Rows(as_source(X)))
    assert len(eraser.metadata["known_rows"]) == 1000
    assert share(eraser, rng.permutation(X)) == 1
    assert share(eraser, X[rng.permutation(20_000)[:2000]]) > 0.5


def test_exact_repeats_are_found_with_their_concept(rng):
    X = rng.normal(size=(200, 5)).astype(np.float32)
    z = np.arange(200) % 2
    repeats = rng.choice(200, 40)
    rows, codes = np.concatenate([X, X[repeats], X[:3]]), np.concatenate([z, z[repeats], 1 - z[:3]])
    assert repeated_rows(rows, codes).tolist() == list(range(200, 240))
    assert repeated_rows(rows, np.stack([codes, codes], axis=1)).tolist() == list(range(200, 240))
    assert len(repeated_rows(X, z)) == 0
