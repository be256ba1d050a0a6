import json
from dataclasses import replace

import numpy as np
import pytest

from unspot.evaluation import Value
from unspot.report.contents import read_contents


@pytest.fixture
def two(make_evaluation):
    return {"a": make_evaluation("A", 5), "b": make_evaluation("B", 3, after=0.4, utility=0.6)}


def measure(contents, key):
    (found,) = [m for m in contents.measures if m.key == key]
    return found


def test_measures_stand_side_by_side(two):
    found = measure(read_contents(two), "task_linear")
    assert found.before.value == 0.8
    assert [number.value for number in found.after] == [0.7, 0.6]


def test_a_measure_that_one_eraser_lacks_is_empty_there(two, make_evaluation):
    some = replace(two["a"], rows=two["a"].rows[:2])
    found = measure(read_contents({"a": some, "b": two["b"]}), "task_linear")
    assert found.before.value == 0.8
    assert found.after[0] is None


def test_an_undefined_number_is_none_not_nan(two):
    assert measure(read_contents(two), "tpr_gap").after == (None, None)


def test_the_last_is_chosen_unless_said_otherwise(two):
    assert read_contents(two).chosen == 1
    assert read_contents(two, chosen="a").chosen == 0
    with pytest.raises(ValueError, match=r"chosen='c'.*expected 'a' or 'b'"):
        read_contents(two, chosen="c")


def test_a_chosen_name_that_is_nearly_right_is_suggested(two):
    with pytest.raises(ValueError, match=r"chosen=.LEOPAD.*Did you mean .LEOPARD"):
        read_contents({"LEOPARD": two["a"], "LEACE": two["b"]}, chosen="LEOPAD")


def test_a_chosen_rank_that_no_result_has_is_refused(two):
    with pytest.raises(ValueError, match=r"chosen_rank=4.*expected one of: 5, 3"):
        read_contents(two, chosen_rank=4)


def test_attackers_of_an_evaluation_have_intervals_of_all_test_rows(two):
    contents = read_contents(two)
    before = [a for a in contents.attacks if a.column == 0]
    assert len(before) == 3
    assert all(a.accuracy.low < a.accuracy.value < a.accuracy.high for a in contents.attacks)
    assert {a.attacker for a in before} == {
        "logistic regression",
        "network, 64 wide",
        "boosted trees",
    }


def test_attackers_of_a_certificate_win(make_evaluation, make_certificate):
    contents = read_contents([make_evaluation(after=0.5), make_certificate(0.41)])
    after = {a.attacker: a.accuracy for a in contents.attacks if a.column == 1}
    assert after["boosted trees"].value == 0.41
    assert after["boosted trees"].low == pytest.approx(0.38)
    attack = measure(contents, "attack")
    assert (attack.before.value, attack.after[0].value) == (0.95, 0.41)  # before: of the evaluation
    assert measure(contents, "two_sample").after[0].value == 0.004


def test_of_two_classes_one_has_its_gaps_drawn(make_evaluation):
    two_classes = read_contents(make_evaluation(classes=("f", "m")))
    assert [gaps.concept_class for gaps in two_classes.gaps] == ["f"]
    three = read_contents(make_evaluation(classes=("f", "m", "n")))
    assert len(three.gaps) == 3
    many = read_contents(make_evaluation(classes=tuple(f"writer {i}" for i in range(160))))
    assert len(many.gaps) == 8  # a table for each of 160 writers is no table


def test_gaps_of_different_classifiers_say_whose_they_are(make_evaluation):
    def gaps_of(who, method):
        found = make_evaluation(method)
        return replace(found, details={**found.details, "gaps_of": who})

    mine, probe = "the predictions 'mine'", "the logistic regression"
    one, other = gaps_of(probe, "INLP"), gaps_of(mine, "LEACE")
    assert read_contents([one, other]).gaps[0].classifier == f"{probe} and {mine}"
    assert read_contents([other]).gaps[0].classifier == mine
    assert read_contents([other, gaps_of(mine, "INLP")]).gaps[0].classifier == mine


def test_several_erasers_make_a_tradeoff_with_the_chosen_one_marked(two):
    tradeoff = read_contents(two, chosen="a").tradeoff
    assert tradeoff.utility == "score of the task, linear model"
    assert [(p.series, p.chosen) for p in tradeoff.points] == [("a", True), ("b", False)]
    assert tradeoff.reference == 1 / 3  # of three classes that count equally


def test_one_eraser_makes_no_tradeoff(make_evaluation):
    assert read_contents(make_evaluation()).tradeoff is None


def test_ranks_of_one_method_are_one_series(make_evaluation):
    results = [make_evaluation(rank=rank) for rank in (5, 3, 1)]
    tradeoff = read_contents(results).tradeoff
    assert {p.series for p in tradeoff.points} == {"LEOPARD"}
    assert [p.rank for p in tradeoff.points] == [5, 3, 1]


@pytest.mark.parametrize(
    ("metrics", "utility", "erasure"),
    [
        (["neighbours", "attack"], "neighbours kept (A_50 %)", "share"),
        (["task_linear", "linear"], "score of the task, linear model", "share"),
        (["neighbours", "task_linear"], "score of the task, linear model", ""),
        ([], "rank: dimensions kept", ""),
    ],
)
def test_a_path_makes_a_tradeoff_of_the_most_telling_metrics(make_path, metrics, utility, erasure):
    path = make_path((5, 3), original=False, metrics=metrics)
    tradeoff = read_contents(path, chosen_rank=3).tradeoff
    assert tradeoff.utility == utility
    assert tradeoff.erasure_unit == erasure
    assert [p.chosen for p in tradeoff.points] == [False, True]


def test_results_of_other_rows_are_pointed_out(two):
    eraser = {**two["b"].metadata["eraser"], "fingerprint": "fedcba9876543210"}
    other = replace(two["b"], metadata={**two["b"].metadata, "eraser": eraser})
    assert read_contents(two).notes == ()
    (note,) = read_contents({"a": two["a"], "b": other}).notes
    assert "not fitted on the same rows" in note


def test_facts_name_data_settings_and_versions(two):
    facts = dict(read_contents(two).facts)
    assert ("fingerprint of the fitted rows", "0123456789abcdef") in facts["a"]
    assert ("kernel", "paper") in facts["a"]
    assert ("unspot", "0") in facts["Versions"]
    assert ("budget of the attackers", "quick") in facts["Measured with"]


def test_an_evaluation_read_from_its_json_gives_the_same_report(make_evaluation):
    evaluation = make_evaluation()
    again = type(evaluation).from_json(evaluation.to_json())
    assert read_contents(again) == read_contents(evaluation)


def test_rows_of_unknown_metrics_are_shown_by_their_label(make_evaluation):
    evaluation = make_evaluation()
    row = replace(evaluation.rows[0], key="new", label="A new metric", after=Value(0.1))
    contents = read_contents(replace(evaluation, rows=(row,)))
    assert measure(contents, "new").title == "A new metric"
    assert json.dumps(contents.title)


def test_the_original_rows_are_a_point_of_a_path(make_path):
    tradeoff = read_contents(make_path(), chosen_rank=3).tradeoff
    assert [(p.name, p.rank, p.chosen) for p in tradeoff.points[-2:]] == [
        ("LEOPARD, rank 1", 1, False),
        ("before, no erasure", None, False),
    ]
    assert read_contents(make_path(metrics=[])).tradeoff.points[-1].rank == 1  # it has no MMD²


def test_a_number_and_a_table_make_pages_without_asking(tmp_path, cheap):
    """Attackers of numbers are judged by the share of the variance that they explain."""
    from unspot import Dataset, Eraser, certify, evaluate
    from unspot.report import make_views, to_html

    rng = np.random.default_rng(0)
    X, age = rng.normal(size=(900, 4)), rng.normal(size=900)
    X[:, 0] += age
    fitted = Eraser.projection(np.eye(4)[:, 1:])
    for z in (age, {"age": age, "sex": np.array(["f", "m"])[np.arange(900) % 2]}):
        data = Dataset.from_arrays(X, z, random_state=0)
        results = [
            evaluate(fitted, data, metrics=["attack", "variance"]),
            certify(fitted, data, attackers=["quadratic"], budget="quick"),
        ]
        contents = read_contents(results)
        if z is age:
            assert (contents.score, contents.chance) == ("share of the variance", 0.0)
            assert "% of the variance before" in contents.headline.headline
        page = to_html(results, tmp_path / "page.html", views=make_views(fitted, data))
        assert "strongest direction" in page.read_text(encoding="utf-8")
