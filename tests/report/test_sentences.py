from dataclasses import replace

import pytest

from unspot.evaluation.results import Value
from unspot.report.reading import read_contents


def verdict(results):
    return read_contents(results).headline


def test_no_leak_is_good_news(make_evaluation, make_certificate):
    certificate = make_certificate(0.37, leaks=False, p_value=0.6)
    found = verdict([make_evaluation(), certificate])
    assert found.tone == "good"
    assert found.headline == "No attacker found the concept"
    assert found.details == (f"Certificate: {certificate.sentence}",)


def test_a_small_leak_says_how_much_is_gone(make_evaluation, make_certificate):
    found = verdict([make_evaluation(), make_certificate(0.41)])
    assert found.tone == "unsure"
    # Before 95 %, after 41 %, chance 33.3 %: 7.7 of 61.7 points are left.
    assert found.headline == "88 % of what attackers could read is gone"
    assert "41.0 %" in found.sentence
    assert "33.3 %" in found.sentence
    assert "before erasure: 95.0 %" in found.sentence


def test_a_large_leak_is_bad_news(make_evaluation, make_certificate):
    found = verdict([make_evaluation(), make_certificate(0.8)])
    assert (found.tone, found.headline) == ("bad", "The concept can still be read")


def test_classes_that_differ_while_attackers_fail_are_no_good_news(
    make_evaluation, make_certificate
):
    found = verdict([make_evaluation(), make_certificate(0.35, leaks=True)])
    assert found.tone != "good"
    assert found.headline == "Attackers are at chance, yet the classes still differ a little"


@pytest.mark.parametrize(("accuracy", "tone"), [(0.37, "good"), (0.44, "unsure"), (0.7, "bad")])
def test_without_a_certificate_the_intervals_decide(make_evaluation, accuracy, tone):
    found = verdict(make_evaluation(after=accuracy))
    assert found.tone == tone
    assert "no certificate" in found.details[0]


def test_no_tick_where_the_classes_differ(make_evaluation):
    evaluation = make_evaluation(after=0.35)
    rows = tuple(
        replace(row, after=Value(0.004)) if row.key == "two_sample" else row
        for row in evaluation.rows
    )
    assert verdict(evaluation).tone == "good"
    found = verdict(replace(evaluation, rows=rows))
    assert found.tone != "good"
    assert found.headline == "Attackers are at chance, yet the classes still differ a little"


def test_numbers_agree_with_the_table(make_evaluation):
    """The table names the attacker that validation rows chose, not the luckiest on test rows."""
    evaluation = make_evaluation(after=0.5)
    chosen = replace(evaluation["attack"], after=Value(0.48), before=Value(0.9))
    rows = tuple(chosen if row.key == "attack" else row for row in evaluation.rows)
    found = verdict(replace(evaluation, rows=rows))
    assert "network, 64 wide, is right on 48.0 %" in found.sentence
    assert "before erasure: 90.0 %" in found.sentence


def test_no_attack_no_verdict(make_evaluation):
    assert verdict(replace(make_evaluation(), details={})) is None
