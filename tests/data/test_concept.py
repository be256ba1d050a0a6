"""Tables of concepts: columns of several kinds, missing values, and what cannot be told."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from unspot.data.concept import Classes, Number, Table, is_table, read, read_covariate

COLUMNS = {
    "gender": ["f", "m", "f", "m"],
    "happy": [True, False, True, True],
    "age": [31.5, 28.0, 40.25, 28.0],
    "region": [3, 1, 3, 1],
}


def structured(columns):
    types = [(name, np.asarray(column).dtype) for name, column in columns.items()]
    return np.array(list(zip(*columns.values(), strict=True)), dtype=types)


@pytest.mark.parametrize("form", [dict, pd.DataFrame, pl.DataFrame, structured])
def test_a_table_in_any_form(form):
    Z = Table.read(form(COLUMNS), n_rows=4)
    assert is_table(form(COLUMNS))
    assert Z.names == tuple(COLUMNS)
    assert list(Z.kinds.values()) == ["categories", "categories", "continuous", "categories"]
    assert Z["gender"].values.tolist() == COLUMNS["gender"]
    assert Z["age"].values.ravel().tolist() == COLUMNS["age"]
    assert Z["region"].classes.tolist() == [1, 3]


def test_columns_of_an_array_are_numbered():
    Z = Table.read(np.array([[0, 1.5], [1, 2.5], [1, 0.0]]))
    assert Z.kinds == {"0": "categories", "1": "continuous"}


@pytest.mark.parametrize(
    ("z", "table"),
    [
        (["f", "m"], False),
        (np.zeros((4, 1)), False),
        (pd.DataFrame({"z": [0, 1]}), False),
        (pd.Series([0, 1]), False),
        ("gender", False),
        (None, False),
        (np.zeros((4, 2)), True),
        ([["f", 1], ["m", 0]], True),
        ({"z": [0, 1]}, True),
        (pd.DataFrame({"z": [0, 1], "w": [1, 0]}), True),
    ],
)
def test_one_column_is_no_table(z, table):
    assert is_table(z) is table


@pytest.mark.parametrize("form", [dict, pd.DataFrame])
def test_missing_values_are_known_by_column(form):
    Z = Table.read(form({"a": ["x", None, "y", "x"], "b": [0.5, 1.5, np.nan, 2.5]}))
    assert Z.missing("a").tolist() == [False, True, False, False]
    assert Z.missing("b").tolist() == [False, False, True, False]
    assert Z["a"].values.tolist() == ["x", "y", "x"]
    assert Z.describe()["concepts"][0]["missing"] == 1


def test_whole_numbers_with_missing_values_stay_labels():
    Z = Table.read(pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": pd.array([1, None, 3])}))
    assert Z.kinds == {"a": "categories", "b": "categories"}
    assert Z["b"].classes.tolist() == [1, 3]


@pytest.mark.parametrize("rows", [[2, 0], np.array([True, False, True, False]), slice(1, 4)])
def test_rows_of_a_table(rows):
    Z = Table.read({"a": ["x", None, "y", "x"], "b": [0.5, 1.5, np.nan, 2.5]})
    part, expected = Z.take(rows), Z.numbers[rows]
    np.testing.assert_array_equal(part.numbers, expected)
    np.testing.assert_array_equal(Z[rows].numbers, expected)
    assert len(part) == len(expected)
    assert part["a"].classes.tolist() == ["x", "y"]


def test_a_vector_for_each_row_is_one_continuous_concept():
    target = Table.read({"place": np.arange(8.0).reshape(4, 2), "x": [0, 1, 0, 1]})["place"]
    assert isinstance(target, Number)
    assert target.values.shape == (4, 2)


def test_a_table_can_be_read_twice():
    Z = Table.read(COLUMNS)
    assert Table.read(Z, n_rows=4) is Z


@pytest.mark.parametrize(
    ("table", "kinds", "needles"),
    [
        ({}, None, ["without columns", "at least one concept"]),
        (np.zeros((4, 0)), None, ["without columns"]),
        (np.zeros(4), None, ["(4,)", "one column for each concept"]),
        ({"a": ["x", "x"]}, None, ["one class in a", "at least two"]),
        ({"a": [0.5, 0.5]}, None, ["same value", "a"]),
        ({"a": [None, None]}, None, ["no value of a", "Leave the column out"]),
        ({"a": [0, 1], "b": [0, 1, 0]}, None, ["3 values in b", "2 rows"]),
        ({"a": [0, 1]}, {"aa": "continuous"}, ["'aa'", "Did you mean 'a'"]),
        ({"a": [0, 1]}, {"a": "continous"}, ["'continous'", "Did you mean 'continuous'"]),
        ({"a": ["x", "y"]}, {"a": "continuous"}, ["a of shape", "number"]),
        (
            {"a": list(range(30))},
            None,
            ["30 different", "z, kinds={'a': 'continuous'})", "--kind a="],
        ),
        ({"a": np.array(["2020-01-01", "2021-01-01"], "M8[D]")}, None, ["dates", "a"]),
        ({"a": ["x", 3]}, None, ["mixes"]),
    ],
)
def test_what_is_no_table_of_concepts(table, kinds, needles):
    with pytest.raises(ValueError) as error:
        Table.read(table, kinds=kinds)
    for needle in needles:
        assert needle in str(error.value)


def test_two_columns_of_one_name():
    with pytest.raises(ValueError, match="two columns called 'a'"):
        Table.read(pd.DataFrame([[0, 1], [1, 0]], columns=["a", "a"]))


def test_an_unknown_concept_of_a_table():
    with pytest.raises(ValueError, match="Did you mean 'gender'"):
        Table.read(COLUMNS)["gendre"]


def test_kinds_of_single_concepts():
    assert isinstance(read(["f", "m"], n_rows=2), Classes)
    assert read([1, 2, 5], n_rows=3, kind="continuous").kind == "continuous"


def test_a_number_beside_a_label_in_a_table():
    sex, age = np.array(["f", "m", "f"]), Number.read([31, 28, 45])
    table = read({"sex": sex, "age": age}, n_rows=3)
    assert table.kinds == {"sex": "categories", "age": "continuous"}


def test_a_covariate_that_decides_the_concept_does_so_with_a_gap():
    z = Classes.read(np.repeat(["a", "b"], 100))
    dose = np.where(z.codes == 1, 5.0, 1.0) + np.linspace(0, 0.5, 200)
    dose[3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the gap
        given = read_covariate({"dose": dose}, "given", 200)
    assert given.determines(z)
