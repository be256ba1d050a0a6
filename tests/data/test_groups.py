"""Rows in groups: kept together, permuted together, and recognised where nobody named them."""

import numpy as np
import pytest

from unspot.data.dataset import Dataset, Split, refuse_shared_groups, stratified_parts
from unspot.data.groups import looks_grouped, row_shuffler
from unspot.datasets import load_glove_gender


def users(n_groups, n_rows, d, noise, seed=0):
    """Rows around a place of each user, and a label for each user."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), n_rows)
    X = rng.normal(size=(n_groups, d))[groups] + noise * rng.normal(size=(len(groups), d))
    return X, rng.permutation(np.arange(n_groups) % 2)[groups], groups


# -- splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["equal", "unequal"])
def test_a_group_is_in_one_split_and_sizes_are_met(kind):
    rng = np.random.default_rng(0)
    sizes = np.full(60, 10) if kind == "equal" else 1 + rng.geometric(0.08, size=60)
    groups = np.repeat([f"user {i}" for i in range(60)], sizes)
    z = np.repeat(np.where(rng.permutation(60) % 4 == 0, "rare", "common"), sizes)
    order = rng.permutation(len(z))
    data = Dataset.from_arrays(
        np.arange(2.0 * len(z)).reshape(-1, 2)[order],
        z[order],
        groups=groups[order],
        random_state=1,
    )
    refuse_shared_groups(train=data.train, validation=data.validation, test=data.test)
    assert sum(len(np.unique(split.groups)) for split in data) == 60
    for split, share in zip(data, (0.5, 0.2, 0.3), strict=True):
        assert len(split) / len(z) == pytest.approx(share, abs=0.03)
        for label in ("rare", "common"):
            part = np.sum(split.z == label) / np.sum(z == label)
            assert part == pytest.approx(share, abs=0.035 if kind == "equal" else 0.15)


@pytest.mark.parametrize("name", [lambda g: b"user %d" % g, lambda g: ("user",) * (1 + g)])
def test_groups_named_by_bytes_or_tuples(name):
    numbers = np.repeat(np.arange(20), 5)
    groups = np.empty(100, dtype=object)
    groups[:] = [name(g) for g in numbers]
    X, z = np.arange(200.0).reshape(-1, 2), numbers % 2
    data = Dataset.from_arrays(X, z, groups=groups, random_state=0)
    by_number = Dataset.from_arrays(X, z, groups=numbers, random_state=0)
    assert sum(len(set(split.groups)) for split in data) == 20
    assert [len(split) for split in data] == [len(split) for split in by_number]


def test_large_groups_are_not_always_in_the_same_split():
    groups = np.repeat(np.arange(40), np.where(np.arange(40) == 7, 60, 5))
    cells = groups % 2
    rng = np.random.default_rng(0)
    where = [
        next(p for p, part in enumerate(parts) if 7 in groups[part])
        for parts in (stratified_parts(cells, (0.5, 0.5), rng, groups) for _ in range(40))
    ]
    assert 8 < sum(where) < 32


def test_every_split_has_every_class_however_few_groups_have_it():
    groups = np.repeat(np.arange(12), [90, 1, 2, 30, 4, 5, 6, 7, 8, 9, 10, 3])
    z = np.where(groups < 3, "a", "b")
    for seed in range(20):
        data = Dataset.from_arrays(np.zeros((len(z), 1)), z, groups=groups, random_state=seed)
        assert all(set(split.z) == {"a", "b"} for split in data)


def test_a_class_that_is_the_main_one_of_no_group_is_in_every_split():
    groups = np.arange(120) // 10
    z = np.where((np.arange(120) % 10 == 0) & (groups < 6), "rare", "common")
    for seed in range(20):
        data = Dataset.from_arrays(np.zeros((120, 1)), z, groups=groups, random_state=seed)
        assert all("rare" in split.z for split in data)


def test_a_class_in_too_few_groups_is_named():
    z, groups = np.repeat(["a", "b"], 30), np.r_[np.repeat([0, 1], 15), np.arange(30) % 9 + 2]
    with pytest.raises(ValueError, match=r"Got 2 groups with rows of class a.*at least 3.*Add"):
        Dataset.from_arrays(np.zeros((60, 1)), z, groups=groups)
    with pytest.raises(ValueError, match="59 values in groups for 60 rows"):
        Dataset.from_arrays(np.zeros((60, 1)), z, groups=groups[1:])
    with pytest.raises(ValueError, match=r"fractional numbers as groups.*name.*Round"):
        Dataset.from_arrays(np.zeros((60, 1)), z, groups=groups / 7)
    with pytest.raises(ValueError, match="missing labels in groups"):
        Dataset.from_arrays(np.zeros((60, 1)), z, groups=[None, *groups[1:]])


def test_a_group_in_two_splits_is_named():
    X, z = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    first, second = (
        Split(X, z, groups=np.array(list("abcd"))),
        Split(X, z, groups=["e", "f", "c", "g"]),
    )
    with pytest.raises(
        ValueError, match=r"group c in the train split and in the test split.*whole"
    ):
        refuse_shared_groups(train=first, test=second)
    refuse_shared_groups(train=first, test=Split(X, z))


# -- permutations ----------------------------------------------------------------------------------


def shuffled(codes, groups, rng):
    return codes[row_shuffler(codes, groups)(rng)]


def test_labels_of_groups_are_permuted_over_groups():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 20, size=30)
    groups = rng.permutation(np.repeat(np.arange(30), sizes))
    labels = rng.permutation(np.arange(30) % 3)
    seen = []
    for _ in range(200):
        codes = shuffled(labels[groups], groups, rng)
        by_group = [np.unique(codes[groups == g]) for g in range(30)]
        assert all(len(found) == 1 for found in by_group)
        seen.append(np.concatenate(by_group))
    assert np.all(np.bincount(np.concatenate(seen), minlength=3) == 2000)
    means = np.mean(np.array(seen) == 0, axis=0)  # every group gets every label as often
    assert np.abs(means - 1 / 3).max() < 0.13


def test_the_same_sequence_in_every_group_is_moved_too():
    """Pairs of a user, always the first "f" and the second "m": swapping users changes nothing."""
    codes, groups = np.arange(40) % 2, np.arange(40) // 2
    pairs = shuffled(codes, groups, np.random.default_rng(0)).reshape(20, 2)
    assert np.all(pairs.sum(axis=1) == 1)
    assert 3 < pairs[:, 0].sum() < 17


def test_varying_labels_go_to_groups_of_like_size():
    sizes = np.repeat([2, 40], 15)
    groups = np.repeat(np.arange(30), sizes)
    codes = np.where(groups < 15, 0, np.arange(len(groups)) % 2)  # small groups have only zeros
    for seed in range(10):
        codes_again = shuffled(codes, groups, np.random.default_rng(seed))
        assert codes_again[groups < 15].sum() == 0
        assert codes_again.sum() == codes.sum()


# -- groups that nobody named ----------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize(("n_groups", "n_rows", "d"), [(60, 10, 5), (30, 10, 20), (200, 3, 100)])
def test_users_look_grouped(n_groups, n_rows, d, noise):
    assert looks_grouped(*users(n_groups, n_rows, d, noise)[:2])


def test_many_rows_in_the_order_of_their_classes_look_grouped_too():
    X, z, _ = users(4000, 8, 10, 0.3)
    order = np.argsort(z, kind="stable")
    assert looks_grouped(X[order], z[order])


@pytest.mark.parametrize("d", [2, 5, 50])
@pytest.mark.parametrize("apart", [0, 3, 30])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_classes_well_apart_are_no_groups(d, apart, share):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.random(800) < share
        X = rng.normal(size=(800, d))
        X[:, 0] += apart * z
        assert not looks_grouped(X, z.astype(int))


def test_neither_are_words_nor_near_duplicates_whose_labels_differ():
    words = load_glove_gender()
    for split in (words.train, words.test):
        assert not looks_grouped(split.X, np.unique(split.z, return_inverse=True)[1])
    X, _, groups = users(60, 10, 20, 0.1)
    assert not looks_grouped(X, np.random.default_rng(0).integers(2, size=len(groups)))
    assert not looks_grouped(np.ones((400, 3)), np.arange(400) % 2)
    assert not looks_grouped(X[:50], np.arange(50) % 2)
