import re
from dataclasses import replace

import pytest

from unspot.evaluation import Value
from unspot.report.contents import read_contents
from unspot.report.page import render


def verdict(results):
    return read_contents(results).headline


def test_no_leak_is_good_news(make_evaluation, make_certificate):
    certificate = make_certificate(0.34, leaks=False, p_value=0.6)
    found = verdict([make_evaluation(), certificate])
    assert found.tone == "good"
    assert found.headline.startswith("HOLDS")
    assert certificate.sentence in found.details[0]
    assert certificate.next_step in found.details[1]


def test_what_the_rows_cannot_decide_gets_no_tick(make_evaluation, make_certificate):
    """Advantages of up to 6.7 points are possible, and the margin is 5."""
    certificate = make_certificate(0.37, leaks=False, p_value=0.6)
    found = verdict([make_evaluation(), certificate])
    assert found.tone == "unsure"
    assert found.headline.startswith("INCONCLUSIVE")
    wider = replace(certificate, margin=0.07)
    assert verdict([make_evaluation(), wider]).tone == "good"


def test_a_small_leak_says_how_much_is_gone(make_evaluation, make_certificate):
    found = verdict([make_evaluation(), make_certificate(0.41)])
    assert found.tone == "bad"
    # Before 95 %, after 41 %, chance 33.3 %: 7.7 of 61.7 points are left.
    assert found.headline.startswith("LEAKS: the concept can still be read")
    assert "88 % of an attacker’s lead over guessing is gone (61.7 → 7.7 points)" in found.headline
    assert "41.0 %" in found.sentence
    assert "33.3 %" in found.sentence
    assert "before erasure: 95.0 %" in found.sentence


def test_a_large_leak_is_bad_news(make_evaluation, make_certificate):
    found = verdict([make_evaluation(), make_certificate(0.8)])
    assert (found.tone, found.headline) == ("bad", "LEAKS: the concept can still be read")


def test_classes_that_differ_while_attackers_fail_are_no_good_news(
    make_evaluation, make_certificate
):
    found = verdict([make_evaluation(), make_certificate(0.35, leaks=True)])
    assert found.tone != "good"
    assert "the rows still depend on it" in found.headline


@pytest.mark.parametrize(
    ("accuracy", "tone"), [(0.34, "good"), (0.37, "unsure"), (0.44, "bad"), (0.7, "bad")]
)
def test_without_a_certificate_the_intervals_decide(make_evaluation, accuracy, tone):
    found = verdict(make_evaluation(after=accuracy))
    assert found.tone == tone
    assert "no certificate" in found.details[0]


def test_no_tick_where_the_classes_differ(make_evaluation):
    evaluation = make_evaluation(after=0.34)
    rows = tuple(
        replace(row, after=Value(0.004)) if row.key == "two_sample" else row
        for row in evaluation.rows
    )
    assert verdict(evaluation).tone == "good"
    found = verdict(replace(evaluation, rows=rows))
    assert found.tone != "good"
    assert "the rows still depend on it" in found.headline


def test_numbers_agree_with_the_table(make_evaluation):
    """Headline, table and chart have one strongest attacker."""
    evaluation = make_evaluation(after=0.5)
    found = verdict(evaluation)
    value = evaluation["attack"].after.mean
    assert f"reaches a balanced accuracy of {100 * value:.1f} %" in found.sentence
    charted = [entry["score"] for entry in evaluation.details["attackers"]["after"]]
    assert value == max(charted)


def test_no_attack_no_verdict(make_evaluation):
    assert verdict(replace(make_evaluation(), details={})) is None


# -- what everybody asks first ---------------------------------------------------------------------


def about(certificate, concept="gender", data="test.parquet"):
    facts = {
        "eraser": {"method": "LEACE", "rank": 5},
        "concept": concept,
        "data": data,
        "n_features": 6,
    }
    return replace(certificate, metadata=facts, rows_of_class={"f": 250, "m": 250})


def test_two_certificates_can_be_told_apart(make_certificate):
    pages = [read_contents(about(make_certificate(), concept)) for concept in ("gender", "dialect")]
    for found, concept in zip(pages, ("gender", "dialect"), strict=True):
        assert concept in found.title
        assert concept in found.headline.headline
        assert dict(found.glance) == {
            "Concept": f"{concept} (f, m)",
            "Data": "test.parquet, 6 dimensions",
            "Rows": "500 test rows, 400 to learn from",
            "Eraser": "LEACE, rank 5",
        }


def test_without_a_name_it_is_the_concept(make_certificate):
    assert "the concept" in read_contents(make_certificate()).headline.headline


def test_a_path_says_that_nothing_was_certified(make_path):
    found = read_contents(make_path())
    assert found.headline.tone == "unsure"
    assert "NO VERDICT" in found.headline.headline
    assert "--max-advantage" in found.headline.details[0]
    assert "gender" in found.title


# -- the glossary has no term that is not on the page ----------------------------------------------


def terms(contents):
    return set(re.findall("<dt>(.*?)</dt>", render(contents).partition('class="glossary"')[2]))


def test_terms_that_do_not_occur_are_left_out(make_certificate, make_evaluation, make_path):
    assert terms(read_contents(make_certificate())) == {
        *("Concept", "Held-out rows", "Interval", "Chance", "Attacker", "Two-sample p"),
    }
    of_evaluation = terms(read_contents(make_evaluation()))
    assert {"TPR gap", "MDL (minimum description length)"} <= of_evaluation
    assert "Rank" not in of_evaluation
    of_path = terms(read_contents(make_path()))
    assert {"Rank", "Attacker", "A_50 % (neighbours kept)"} <= of_path
    assert "Two-sample p" not in of_path
