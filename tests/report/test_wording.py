import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from unspot.report import wording
from unspot.report.contents import read_contents
from unspot.report.page import render


def verdict(results):
    return read_contents(results).headline


@pytest.mark.parametrize(
    ("margin", "tone"), [(0.2, "good"), (0.05, "unsure"), (0.01, "bad"), (None, "plain")]
)
@pytest.mark.parametrize("p_value", [0.004, 0.6])
def test_the_margin_decides_the_colour_and_nothing_else(
    make_evaluation, make_certificate, margin, tone, p_value
):
    """What is left is +4.7 to +10.7 points."""
    certificate = make_certificate(0.41, margin=margin, p_value=p_value)
    found = verdict([make_evaluation(), certificate])
    assert found.tone == tone
    assert found.details == certificate.sentences


def test_the_page_begins_with_the_statement(make_evaluation, make_certificate):
    certificate = make_certificate(0.41)
    found = verdict([make_evaluation(after=0.5), certificate])
    assert "\n".join([found.headline, *found.lines]) == certificate.statement
    # Before 95 %, after 41 %, chance 33.3 %: 7.7 of 61.7 points are left.
    assert found.headline == (
        "The concept: attackers are right on 95.0 % before and 41.0 % after (guessing: 33.3 %). "
        "88 % of their lead is gone."
    )


def test_each_of_several_concepts_has_a_line(make_certificate):
    parts = {"sex": make_certificate(0.41), "age": make_certificate(0.3, kind="continuous")}
    found = verdict(type(parts["sex"]).of_several(parts, ("One was left out.",)))
    assert found.headline.startswith("Worst of 2 concepts and combinations. ")
    assert "One was left out." in found.details
    assert found.details[-2] == (
        "sex: LEAKS. trees has 7.7 points, and no attacker more than 10.7."
    )
    assert found.details[-1].startswith("age: HOLDS. trees has -3.3 % of the variance")


def test_an_evaluation_states_and_does_not_decide(make_evaluation):
    evaluation = make_evaluation(after=0.5)
    found = verdict(evaluation)
    assert found.tone == "plain"
    assert "\n".join([found.headline, *found.lines]) == evaluation.statement
    assert found.details == ("Attackers of budget quick; unspot certify tries harder.",)


def test_numbers_agree_with_the_table(make_evaluation):
    """Statement, table and chart have one strongest attacker."""
    evaluation = make_evaluation(after=0.5)
    value = evaluation["attack"].after.mean
    assert f"{100 * value:.1f} %" in verdict(evaluation).short
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
        assert found.headline.headline.startswith(f"{concept.title()}: attackers")
        assert dict(found.glance) == {
            "Concept": f"{concept} (f, m)",
            "Data": "test.parquet, 6 dimensions",
            "Rows": "500 test rows that no fit has seen",
            "Eraser": "LEACE, rank 5",
        }


def test_without_a_name_it_is_the_concept(make_certificate):
    assert read_contents(make_certificate()).headline.headline.startswith("The concept: ")


def test_a_path_says_that_nothing_was_certified(make_path):
    found = read_contents(make_path())
    assert found.headline.tone == "plain"
    assert found.headline.headline == "No rank was chosen and certified"
    assert "--max-advantage" in found.headline.details[1]
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


def test_a_hundred_classes_are_no_list():
    classes = [f"writer {i}" for i in range(160)]
    about = {"classes": classes, "class_counts": [30] * 160, "rank": 5}
    settings = wording._settings(SimpleNamespace(eraser=about, method="LEACE"))
    assert settings["of each class"].startswith("writer 0 30, writer 1 30")
    assert settings["of each class"].endswith("and 154 more")
