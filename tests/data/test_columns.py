"""Labels are categories, whatever their type; every message about them is here."""

from __future__ import annotations

import tracemalloc
from collections import deque

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from unspot.data.columns import encode_as, is_continuous, label_warnings
from unspot.data.concept import Classes, Number
from unspot.data.dataset import Dataset

WORDS = ["m", "f", "f", "n", "m", "n"]


@pytest.mark.parametrize(
    "z",
    [
        WORDS,
        np.array(WORDS),
        np.array(WORDS, dtype=object),
        pd.Series(WORDS),
        pd.Series(WORDS, dtype="category"),
        pd.Series(WORDS, dtype="string"),
        pl.Series(WORDS),
        pl.Series(WORDS, dtype=pl.Categorical),
    ],
    ids=["list", "array", "object", "pandas", "categorical", "string", "polars", "polars-cat"],
)
def test_strings_of_any_container(z):
    labels = Classes.read(z)
    assert labels.classes.tolist() == ["f", "m", "n"]
    assert labels.codes.tolist() == [1, 0, 0, 2, 1, 2]
    assert labels.counts.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("z", "classes"),
    [
        ([3, 1, 3], [1, 3]),
        ([True, False, True], [False, True]),
        (np.array([1.0, 2.0, 1.0]), [1.0, 2.0]),
        (torch.tensor([5, 0, 5]), [0, 5]),
        (np.array([[1], [2], [1]]), [1, 2]),
        (np.array([True, False], dtype=object), [False, True]),
    ],
)
def test_integers_and_booleans_are_names(z, classes):
    assert Classes.read(z).classes.tolist() == classes


def objects(*values):
    """A column of objects, as HDF5 has its texts."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


@pytest.mark.parametrize(
    ("z", "classes"),
    [
        (objects(b"male", b"female", b"male"), [b"female", b"male"]),
        (objects(("b",), ("a", "b"), ("b",)), [("a", "b"), ("b",)]),
        (objects(("b", 1), ("a", 1), ("b", 1)), [("a", 1), ("b", 1)]),
    ],
)
def test_bytes_and_tuples_are_labels_and_no_vectors(z, classes):
    labels = Classes.read(z)
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == [1, 0, 1]
    assert not is_continuous(z)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (["a", "b"], "2 labels in z for 3 rows"),
        (["a", "a", "a"], "one class in z"),
        (["a", None, "b"], "1 missing labels in z .the first in row 1"),
        ([1.0, np.nan, 2.0], "1 missing labels"),
        (pd.Series(["a", pd.NA, "b"], dtype="string"), "1 missing labels"),
        (pl.Series(["a", None, "b"]), "1 missing labels"),
        ([0.5, 1.5, 2.5], "fractional numbers, but labels were expected"),
        ([1.0, np.inf, 2.0], "infinity in z"),
        (np.array(["a", 1, "b"], dtype=object), "mixes a number and a string"),
        (np.ones((3, 2)), r"y should be a 1d array\. Make one label .* as 'f/nurse'\."),
        (np.ones((3, 2, 2)), r"\(3, 2, 2\), but .* y should be a 1d array"),
        (["a", "a", "b"], "1 row of class b in z, but expected at least 2"),
    ],
)
def test_bad_labels(z, message):
    with pytest.raises(ValueError, match=message):
        Classes.read(z, n_rows=3, min_rows=2)


@pytest.mark.parametrize(
    "z",
    [
        pd.Series(["f", np.nan, "m", "f"], dtype=object).tolist(),
        ("f", np.nan, "m", "f"),
        deque(["f", np.nan, "m", "f"]),
        [["f"], [np.nan], ["m"], ["f"]],
        ["f", np.float32("nan"), "m", "f"],
        ["f", pd.NaT, "m", "f"],
        [True, np.nan, False, True],
    ],
    ids=["list", "tuple", "deque", "column", "float32", "NaT", "booleans"],
)
def test_a_missing_label_in_a_list_is_no_class(z):
    """numpy would write it as the string 'nan'."""
    with pytest.raises(ValueError, match=r"1 missing labels in z .the first in row 1"):
        Classes.read(z)
    with pytest.raises(ValueError, match=r"1 missing labels in z .the first in row 1"):
        encode_as(z, np.array(["f", "m"]))


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 2 brought StringDType")
@pytest.mark.parametrize("missing", [np.nan, None, pd.NA], ids=["nan", "None", "NA"])
def test_a_missing_label_among_strings_of_any_width_is_no_class(missing):
    """numpy would take it for the string next to it."""
    dtype = np.dtypes.StringDType(na_object=missing)
    assert Classes.read(np.array(WORDS, dtype=dtype)).classes.tolist() == ["f", "m", "n"]
    with pytest.raises(ValueError, match=r"1 missing labels in z .the first in row 1"):
        Classes.read(np.array(["f", missing, "m", "f"], dtype=dtype))


@pytest.mark.parametrize(
    ("z", "mixture"),
    [
        ([0, "a"], "a number and a string"),
        (("a", 0.5, "b"), "a number and a string"),
        ([True, "a"], "a boolean and a string"),
        ([True, 2], "a boolean and a number"),
    ],
)
def test_lists_of_mixed_types_are_refused_as_arrays_are(z, mixture):
    for values in (z, np.array(z, dtype=object)):
        with pytest.raises(ValueError, match=f"Got z that mixes {mixture}, but expected"):
            Classes.read(values)


@pytest.mark.parametrize(
    ("z", "dtype"),
    [
        (["a", "b"], "<U1"),
        ([b"a", b"b"], "S1"),
        ([0, 1], "int64"),
        (range(2), "int64"),
        ([np.int8(0), np.int8(1)], "int8"),
        ([2**63, 2**63 + 1], "uint64"),
        ([True, False], "bool"),
        ([0.0, 1.0], "float64"),
        ([np.float32(0), np.float32(1)], "float32"),
        ([0, 1.0], "float64"),
        ([torch.tensor(0), torch.tensor(1)], "int64"),
    ],
)
def test_classes_of_a_list_have_the_type_of_its_values(z, dtype):
    assert Classes.read(z).classes.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    "z",
    [
        [2**63 + 1, 2**63, -1, -1],
        np.array([2**63 + 1, 2**63, -1, -1], dtype=object),
        [np.uint64(2**63 + 1), np.uint64(2**63), np.int64(-1), np.int64(-1)],
    ],
    ids=["list", "object", "numpy"],
)
def test_large_integers_stay_apart(z):
    """Together with a negative one they fit no integer type, and as floats they are equal."""
    labels = Classes.read(z)
    assert labels.classes.tolist() == [-1, 2**63, 2**63 + 1]
    assert labels.codes.tolist() == [2, 1, 0, 0]
    assert encode_as(z, labels.classes).tolist() == [2, 1, 0, 0]
    assert encode_as([2**63 + 1, 2**63], labels.classes).tolist() == [2, 1]


def test_empty_labels():
    with pytest.raises(ValueError, match="an empty z"):
        Classes.read([])


def test_known_classes():
    classes = np.array(["f", "m"])
    assert encode_as(["m", "f"], classes).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"2 labels in z .* not seen in training \('n', 'x'\)"):
        encode_as(["m", "x", "n"], classes)


def test_continuous_is_seen_by_fractions():
    assert is_continuous([0.5, 1.0])
    assert not is_continuous([0.0, 1.0])
    assert not is_continuous(["a"])


def test_measurements():
    assert Number.read([1, 2], n_rows=2).coordinates.tolist() == [[1.0], [2.0]]
    assert Number.read(np.ones((2, 3)) * [[1], [2]], n_rows=2).values.shape == (2, 3)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (["a", "b"], "a continuous concept is a number"),
        ([1.0], "1 values in z for 2 rows"),
        ([1.0, np.nan], "1 missing or infinite values in z .the first in row 1"),
        ([1.0, 1.0], "nothing to erase"),
        (None, "the target y is None"),
    ],
)
def test_bad_measurements(z, message):
    with pytest.raises(ValueError, match=message):
        Number.read(z, n_rows=2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_integers_from_end_to_end_of_their_type(dtype):
    """Numbers near each other are counted and not sorted; the classes must be the same."""
    ends = np.iinfo(dtype)
    z = np.repeat(np.array([ends.max, ends.min, ends.max - 2], dtype=dtype), 200)
    for values in (z, z[z > ends.max - 3]):
        labels = Classes.read(values)
        classes, codes = np.unique(values, return_inverse=True)
        assert labels.classes.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(labels.classes, classes)
        np.testing.assert_array_equal(labels.codes, codes)


def test_one_long_text_does_not_widen_all_others():
    n = 30_000
    names = [f"user{i % 9000}" for i in range(n)]
    names[7] = "x" * 4000  # an array of text would take 480 MB
    tracemalloc.start()
    try:
        labels = Classes.read(names, name="groups")
        codes = encode_as(names, labels.classes)
        data = Dataset.from_arrays(np.zeros((n, 1)), np.arange(n) % 2, names=names, groups=names)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 50e6
    assert [labels.classes[k] for k in labels.codes[:10]] == names[:10]
    assert labels.classes.tolist() == sorted(set(names))
    np.testing.assert_array_equal(codes, labels.codes)
    assert sum(map(len, data)) == n


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"femal": 1, "female": 600, "male": 500}, "'femal' (1 row) and 'female' (600 rows)"),
        ({"Male": 300, "Male ": 400}, "'Male' (300 rows) and 'Male ' (400 rows)"),
        ({"female": 90, "Female": 80}, "'Female' (80 rows) and 'female' (90 rows)"),
        ({"f": 300, "m": 309, "other": 6}, "6 of 615 rows of class 'other'"),
        ({"f": 300, "m": 309, "other": 25}, ""),
        ({"site 1": 2, "site 2": 3, "site 3": 9}, ""),
        ({"cats": 100, "bats": 90}, ""),
        ({"a": 10, "A": 10}, ""),
        ({0: 3, 1: 4}, ""),
    ],
)
def test_labels_that_look_like_mistakes_get_one_warning(counts, said):
    classes, numbers = np.array(list(counts)), np.array(list(counts.values()))
    found = list(label_warnings(classes, numbers, "z"))
    assert len(found) == bool(said)
    assert said in "".join(found)
