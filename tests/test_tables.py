"""Digits, spreads and tables as text."""

import pytest

from unspot.tables import Number, interval_text, markdown, number_text, plain, value_text

TABLE = [["method", "accuracy ↓"], ["L̄EOPARD", "42.7 ± 0.5 %"], ["a|b_c", "–"]]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "share", "50.0 %"),
        (-0.015, "share", "-1.5 %"),
        (0.0009, "p", "< 0.001"),
        (0.001, "p", "0.001"),
        (0.7314, "", "0.731"),
        (-1.5, "", "-1.500"),
        (2.0, "", "2.00"),
        (1.2, "kbit", "1.20 kbit"),
        (1234.56, "seconds", "1,234.6 s"),
    ],
)
def test_digits_follow_the_unit_and_the_size(value, unit, text):
    assert value_text(value, unit) == text


def test_a_spread_has_as_many_digits_as_its_value():
    assert number_text(Number(12.34, 0.567), "kbit") == "12.3 ± 0.6 kbit"
    assert number_text(Number(0.7314, 0.02)) == "0.731 ± 0.020"


def test_a_p_value_has_no_spread():
    assert number_text(Number(0.02, 0.01), "p") == "0.020"


def test_no_number_is_a_dash():
    assert number_text(None, "share") == "–"


def test_without_an_interval_the_spread_is_shown():
    assert interval_text(Number(0.4, low=0.3, high=0.5)) == "0.400 (0.300 to 0.500)"
    assert interval_text(Number(0.4, 0.01, low=0.3), "share") == "40.0 ± 1.0 %"


def test_markdown_has_one_cell_per_column_whatever_the_text():
    head, rule, *body = markdown(TABLE).splitlines()
    assert rule == "|:--|--:|"
    assert {line.count("|") for line in (head, rule, *body)} == {3}
    assert "a/b_c" in body[1]


def test_plain_columns_start_under_one_another():
    lines = plain([*TABLE, ["LEACE", "1"]]).splitlines()
    seen = [line.replace("\u0304", "") for line in lines]  # a terminal gives it no place
    assert [
        line.index(cell) for line, cell in zip(seen, ("acc", "42.7", "–", "1"), strict=True)
    ] == [9] * 4
    assert all(line == line.rstrip() for line in lines)
