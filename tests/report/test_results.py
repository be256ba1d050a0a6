from dataclasses import replace

import pytest

from unspot.report.contents import sort_results


def test_one_evaluation_is_a_column_named_by_its_method(make_evaluation):
    found = sort_results(make_evaluation("LEACE", 5))
    assert [column.name for column in found.columns] == ["LEACE"]


def test_a_certificate_joins_the_evaluation_of_its_eraser(make_evaluation, make_certificate):
    evaluation, certificate = make_evaluation(), make_certificate()
    for results in (
        [evaluation, certificate],
        [certificate, evaluation],
        {"a": (evaluation, certificate)},
        {"a": evaluation, "": certificate},
    ):
        (column,) = sort_results(results).columns
        assert column.evaluation is evaluation
        assert column.certificate is certificate


@pytest.mark.parametrize("other", [{"method": "PCA"}, {"rank": 4}])
def test_a_certificate_of_another_eraser_has_a_column_of_its_own(
    make_evaluation, make_certificate, other
):
    evaluation, certificate = make_evaluation(), make_certificate(**other)
    for results in ([evaluation, certificate], [certificate, evaluation]):
        columns = sort_results(results).columns
        assert [(c.evaluation, c.certificate) for c in columns] == [
            (None, result) if result is certificate else (result, None) for result in results
        ]
        assert len({column.name for column in columns}) == 2


def test_a_function_is_known_by_its_name(make_evaluation, make_certificate):
    """It has no digest."""
    evaluation, certificate = (
        replace(result, metadata={"eraser": {"method": "lowered"}})
        for result in (make_evaluation(), make_certificate())
    )
    (column,) = sort_results([evaluation, certificate]).columns
    assert (column.name, column.certificate) == ("lowered", certificate)


def test_results_of_one_fit_carry_its_digest(rows):
    from unspot import LEACE, certify, evaluate

    leace = LEACE().fit(rows.train.X, rows.train.z)
    results = [
        evaluate(leace, rows, metrics=["variance"]),
        certify(leace, rows, attackers=["logistic"]),
    ]
    (column,) = sort_results(results).columns
    assert column.owner == leace.eraser_.digest


def test_a_certificate_may_come_first_under_a_name(make_evaluation, make_certificate):
    (column,) = sort_results({"a": (make_certificate(), make_evaluation(rank=7))}).columns
    assert (column.name, column.rank) == ("a", 7)


def test_a_certificate_named_before_is_of_the_original_rows(make_evaluation, make_certificate):
    before = make_certificate()
    found = sort_results({"before": before, "LEACE": make_evaluation()})
    assert found.before is before
    assert len(found.columns) == 1


def test_ranks_of_one_method_are_told_apart(make_evaluation):
    found = sort_results([make_evaluation(rank=3), make_evaluation(rank=5)])
    assert [column.name for column in found.columns] == ["LEOPARD, rank 3", "LEOPARD, rank 5"]


def test_two_evaluations_of_one_eraser_are_refused(make_evaluation):
    with pytest.raises(ValueError, match=r"two evaluations of LEOPARD.*expected one.*name"):
        sort_results([make_evaluation(), make_evaluation()])


def test_nothing_is_refused():
    with pytest.raises(ValueError, match=r"no results.*at least one.*Evaluation"):
        sort_results([])


def test_other_objects_are_refused():
    with pytest.raises(ValueError, match=r"type str.*expected an Evaluation.*from_json"):
        sort_results("LEACE.json")
