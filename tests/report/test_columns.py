from dataclasses import replace

import pytest

from unspot.report.columns import sort_results


def test_one_evaluation_is_a_column_named_by_its_method(make_evaluation):
    found = sort_results(make_evaluation("LEACE", 5))
    assert [column.name for column in found.columns] == ["LEACE"]


def test_a_certificate_joins_the_evaluation_before_it(make_evaluation, make_certificate):
    evaluation, certificate = make_evaluation(), make_certificate()
    for results in ([evaluation, certificate], {"a": (evaluation, certificate)}):
        (column,) = sort_results(results).columns
        assert column.evaluation is evaluation
        assert column.certificate is certificate


@pytest.fixture
def certificate_by(make_certificate):
    """A certificate that says of which eraser it is."""

    def make(method="LEOPARD", rank=3, **more):
        about = {"method": method, "rank": rank, **more}
        return replace(make_certificate(), metadata={"eraser": about})

    return make


@pytest.mark.parametrize(
    "other",
    [
        {"method": "PCA"},
        {"rank": 4},
        {"fingerprint": "of other rows"},
        {"parameters": {"rank": 3, "kernel": "reference"}},
        {"inner": {"method": "LEACE"}, "method": "Cascade"},
    ],
)
def test_a_certificate_of_another_eraser_has_a_column_of_its_own(
    make_evaluation, certificate_by, other
):
    evaluation, certificate = make_evaluation(), certificate_by(**other)
    for results in ([evaluation, certificate], [certificate, evaluation]):
        columns = sort_results(results).columns
        assert [(c.evaluation, c.certificate) for c in columns] == [
            (None, result) if result is certificate else (result, None) for result in results
        ]
        assert len({column.name for column in columns}) == 2


def test_certificates_find_the_evaluations_of_their_erasers(make_evaluation, certificate_by):
    first, second = make_evaluation("LEACE"), make_evaluation("PCA")
    ours, theirs = certificate_by("LEACE"), certificate_by("PCA", fingerprint="0123456789abcdef")
    columns = sort_results([first, second, ours, theirs]).columns
    assert [(column.evaluation, column.certificate) for column in columns] == [
        (first, ours),
        (second, theirs),
    ]


def test_a_certificate_joins_a_named_evaluation_of_its_eraser(make_evaluation, certificate_by):
    mine, other = certificate_by("LEACE"), certificate_by("PCA")
    columns = sort_results({"linear": make_evaluation("LEACE"), "": [other, mine]}).columns
    assert [(column.name, column.certificate) for column in columns] == [
        ("linear", mine),
        ("PCA", other),
    ]


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
    with pytest.raises(ValueError, match=r"type str.*expected an Evaluation.*read_results"):
        sort_results("LEACE.json")
