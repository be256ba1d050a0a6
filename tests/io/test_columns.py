"""Choosing feature columns: by name, pattern and kind; errors that show the way."""

import pytest

from unspot.io.columns import choose_features, in_short
from unspot.io.files import missing

KINDS = {"id": "integer", "e_0": "float", "e_1": "float", "e_10": "float", "gender": "other"}


def test_names_patterns_and_comma_lists_keep_their_order():
    assert choose_features("e_1", KINDS) == ["e_1"]
    assert choose_features("e_*", KINDS) == ["e_0", "e_1", "e_10"]
    assert choose_features("e_10, e_*", KINDS) == ["e_10", "e_0", "e_1"]
    assert choose_features(["id", "e_0"], KINDS) == ["id", "e_0"]


def test_a_name_with_a_star_in_it_is_a_name_first():
    assert choose_features("e*", {"e*": "float", "e1": "float"}) == ["e*"]


@pytest.mark.parametrize(
    ("features", "chosen"),
    [
        ([" e_0", " e_1"], [" e_0", " e_1"]),  # as a fit remembers them
        ([" e_1 "], ["e_1"]),
        (["", "e_1"], ["", "e_1"]),
        (" e_0", [" e_0"]),
        ("e_1, e_0", ["e_1", " e_0"]),
        ("e_2, e_1", ["e_2", "e_1"]),  # the space is the typist's, though such a name is there
        ("e_1,,", ["e_1"]),
        ("a,b", ["a,b"]),
    ],
)
def test_names_with_spaces_and_commas_are_taken_as_they_are(features, chosen):
    kinds = dict.fromkeys(["", " e_0", "e_1", " e_1", "e_2", "a,b"], "float")
    assert choose_features(features, kinds) == chosen


def test_by_default_the_only_vector_column():
    kinds = {"id": "integer", "emb": "vector", "age": "float"}
    assert choose_features(None, kinds) == ["emb"]


def test_by_default_all_fractional_columns_but_the_labels():
    kinds = {"a": "float", "b": "float", "score": "float", "name": "other"}
    assert choose_features(None, kinds, taken=["score", None]) == ["a", "b"]


@pytest.mark.parametrize(
    ("features", "kinds", "message"),
    [
        ("e_2", KINDS, r"Got column 'e_2', but t\.csv has no such column\. Did you mean 'e_"),
        ("zz*", KINDS, r"Got column 'zz\*', but t\.csv has no such column\. It has: e_0, e_1"),
        ("gender", KINDS, "Got feature column gender of t.csv, .*only numbers"),
        (" , ", KINDS, "Got no features, but expected"),
        (None, KINDS, "3 columns of fractional numbers and also whole numbers in id, which may be"),
        (None, {"a": "other"}, "Got t.csv with no column of vectors or fractional numbers"),
        (None, {"a": "vector", "b": "vector"}, "a, b hold whole vectors, but expected one vector"),
        ("*", {"a": "vector", "b": "float"}, "of which a hold whole vectors"),
    ],
)
def test_errors_say_what_came_and_the_way_out(features, kinds, message):
    with pytest.raises(ValueError, match=message):
        choose_features(features, kinds, where="t.csv")


@pytest.mark.parametrize(
    ("names", "bad"),
    [
        (["e_0", "e_1", "e_10", "gender"], "e_4"),
        (["0", "1", "gender"], "2"),
        (["income", "e_0", "e_1"], "e_2"),
    ],
)
def test_a_column_of_the_pattern_that_is_no_numbers_is_not_left_out_in_silence(names, bad):
    kinds = {name: "other" if name == "gender" else "float" for name in names} | {bad: "other"}
    with pytest.raises(ValueError, match=r"never erased\. .*name all columns") as error:
        choose_features(None, kinds, where="t.csv", first_text=lambda name: f" (see {name})")
    start = f"Got column {bad} of t.csv, which does not hold only numbers (see {bad}), among"
    assert str(error.value).startswith(start)
    assert choose_features(None, kinds, taken=[bad]) == [n for n in names if n != "gender"]
    assert choose_features(names[:1], kinds) == names[:1]


def test_text_columns_of_other_names_are_no_features():
    kinds = {"e_0": "float", "e_1": "float", "e": "other", "e_": "other", "text_1": "other"}
    assert choose_features(None, kinds) == ["e_0", "e_1"]
    assert choose_features(None, {"a": "float", "b": "other"}) == ["a"]


def test_a_column_without_a_name_is_called_so():
    message = "whole numbers in a column without a name, which may be"
    with pytest.raises(ValueError, match=message):
        choose_features(None, {"": "integer", "e_0": "float"})


@pytest.mark.parametrize(
    ("kinds", "example"),
    [
        (KINDS, "e_*"),
        ({"": "integer", "income": "float", "dim1": "float", "dim2": "float"}, "dim*"),
        ({"id": "integer", "0": "float", "1": "float"}, "[0-9]*"),
        ({"id": "integer", "a": "float"}, "a"),
        ({"age": "integer", "sex": "other", "s1": "float", "s2": "float"}, "s1,s2"),
        ({"a": "other"}, "emb"),
        ({"a": "vector", "b": "vector"}, "a"),
    ],
)
def test_the_way_out_is_said_for_the_command_line_and_for_python(kinds, example):
    with pytest.raises(ValueError, match="Say which columns hold the vectors") as error:
        choose_features(None, kinds, where="t.csv")
    assert f"--features '{example}'" in str(error.value)
    assert f"in Python features='{example}'" in str(error.value)
    assert "unspot.io.as_source" in str(error.value)


def test_near_matches_ignore_case_and_long_lists_are_cut():
    error = missing("Gendre", ["GENDER", *(f"e_{i}" for i in range(300))], "t.csv")
    assert "Did you mean 'GENDER'?" in str(error)
    assert "and 289 more" in str(error)


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([], ""),
        (["emb"], "emb"),
        (["e_0", "e_1"], "e_0, e_1 (2 columns)"),
        ([f"e_{i}" for i in range(32)], "e_0 … e_31 (32 columns)"),
        (["age", *"0123", "e_0", "e_1"], "0 … 3, e_0, e_1, age (7 columns)"),
        ([f"{a}{b}" for a in "abcd" for b in "wxyz"], "aw, ax, ay, az, bw, bx, by, bz, cw, cx, cy"),
    ],
)
def test_names_in_short(names, line):
    assert in_short(names).startswith(line)
    assert len(in_short(names)) < 80


def test_a_pattern_never_means_the_concept():
    kinds = {"s1": "float", "s2": "float", "sex": "integer", "age": "float"}
    assert choose_features("s*", kinds, taken=["sex"]) == ["s1", "s2"]
    assert choose_features("s*,sex", kinds, taken=["sex"]) == ["s1", "s2", "sex"]  # as it is named
