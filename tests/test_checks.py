"""Every check returns the value as it is used, or says what came and what was expected."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unspot.checks import (
    check_bandwidth,
    check_choice,
    check_count,
    check_positive,
    check_rank,
    check_share,
    require,
)


@pytest.mark.parametrize(
    ("checked", "expected"),
    [
        (check_count("n", np.int64(3), most=3), 3),
        (check_positive("C", np.float32(0.5)), 0.5),
        (check_share("share", 0), 0.0),
        (check_choice("loss", "log", {"log": 1, "hinge": 2}), "log"),
        (check_bandwidth("median"), None),
        (check_bandwidth(2), 2.0),
        (check_bandwidth("pair", ("pooled", "pair")), None),
        (check_rank(0.5, 9), 4),
        (check_rank(np.int32(9), 9), 9),
        (check_rank(0.01, 9), 1),
    ],
)
def test_good_values_come_back_as_plain_python(checked, expected):
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (lambda v: check_count("n", v), 0, "integer of at least 1"),
        (lambda v: check_count("n", v, most=5), 6, "integer from 1 to 5"),
        (lambda v: check_count("n", v), True, "integer"),
        (lambda v: check_count("n", v), 2.0, "integer"),
        (lambda v: check_positive("n", v), 0, "positive"),
        (lambda v: check_positive("n", v), np.inf, "positive"),
        (lambda v: check_positive("n", v), np.nan, "positive"),
        (lambda v: check_positive("n", v), True, "positive"),
        (lambda v: check_positive("n", v), "1", "positive"),
        (lambda v: check_share("n", v), 1, "from 0 to below 1"),
        (lambda v: check_share("n", v), -0.1, "from 0 to below 1"),
        (lambda v: check_share("n", v), False, "from 0 to below 1"),
        (lambda v: check_choice("n", v, ["log", "hinge"]), "hing", "'log' or 'hinge'"),
        (lambda v: check_choice("n", v, ["log", "hinge"]), "hing", "Did you mean 'hinge'?"),
        (lambda v: check_choice("n", v, ["log", "hinge"]), None, "'log' or 'hinge'"),
        (check_bandwidth, "mean", "'median' or a positive number"),
        (check_bandwidth, 0.0, "'median' or a positive number"),
        (lambda v: check_rank(v, 300), 900, "integer from 1 to 300, the number of features"),
        (lambda v: check_rank(v, 300), True, "fraction of it between 0 and 1"),
        (lambda v: check_rank(v, 300), 1.0, "fraction of it between 0 and 1"),
    ],
)
def test_other_values_are_refused_with_what_came_and_what_was_expected(check, value, expected):
    with pytest.raises(ValueError, match=f"={re.escape(repr(value))}, but .*{re.escape(expected)}"):
        check(value)


def test_a_package_that_is_not_installed():
    with pytest.raises(ImportError, match="drawing needs no_such_package") as caught:
        require("drawing", "report", "json", "no_such_package")
    assert 'pip install "unspot[report]"' in str(caught.value)
