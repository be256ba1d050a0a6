"""Rules that choose a rank: by bisection, on validation rows, with the evidence kept."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from unspot import LEOPARD, Cascade, Dataset, certify, rank_path
from unspot.choice import path as path_module
from unspot.choice import selection
from unspot.choice.path import PathPoint, RankPath
from unspot.choice.selection import Selection
from unspot.erasers.baselines import PCAProjection
from unspot.leopard import ManifoldSolver


@pytest.fixture(scope="module")
def data():
    """The fourth and fifth widest directions tell the classes apart; PCA keeps the widest."""
    rng = np.random.default_rng(0)
    z = np.arange(2000) % 2
    X = rng.normal(size=(2000, 8)) * np.arange(8, 0, -1)
    X[z == 1, 3:5] += 12.0
    X[:, 3:5] /= 3.0
    return Dataset.from_arrays(X, z, random_state=0)


@pytest.fixture(scope="module")
def path(data):
    return rank_path(PCAProjection(), data, [8, 7, 6, 5, 4, 3, 2, 1])


def made(values: dict[int, float], **metrics: list[float]) -> RankPath:
    """A path without fits, of ranks with given metrics."""
    points = [
        PathPoint(
            rank,
            SimpleNamespace(eraser_=None, rank_=rank),
            held_out,
            metrics={name: (column[i], 0.0) for name, column in metrics.items()},
        )
        for i, (rank, held_out) in enumerate(values.items())
    ]
    nothing = Dataset.from_arrays(np.zeros((12, 2)), np.arange(12) % 2, random_state=0)
    return RankPath(tuple(points), nothing)


def advantages(monkeypatch, by_rank):
    """Attackers of known strength, on rows that can decide anything."""
    monkeypatch.setattr(
        selection, "advantage_bound", lambda path, point, attackers: by_rank[point.rank]
    )
    monkeypatch.setattr(selection, "decidable", lambda z, bound, attackers: bound or 0.05)
    monkeypatch.setattr(selection, "_can_teach", lambda half: True)


def test_a_rare_class_does_not_make_every_rank_look_clean(data):
    """One row in twelve is of the second class, which almost nobody would guess by the odds."""
    keep = [np.flatnonzero((s.z == 0) | (np.arange(len(s.z)) % 12 == 1)) for s in data]
    rare = Dataset(*(split.take(rows) for split, rows in zip(data, keep, strict=True)))
    assert np.mean(rare.train.z) < 0.2
    path = rank_path(PCAProjection(), rare, [8, 5, 3, 2, 1])
    chosen = path.select(max_advantage=0.35, attackers=["logistic"])
    assert chosen.rank_ <= 3


def test_largest_is_the_largest(path, data):
    attackers = ["logistic", "quadratic"]
    chosen = path.select(max_advantage=0.15, attackers=attackers)
    tried = chosen.selection_.tried
    assert chosen.rank_ == chosen.selection_.rank
    assert tried[chosen.rank_] <= 0.15
    above = path.ranks[path.ranks.index(chosen.rank_) - 1]
    assert selection.advantage_bound(path, path[above], attackers) > 0.15
    assert chosen.transform(data.test.X).shape == data.test.X.shape
    assert len(tried) <= 4  # of eight ranks


@pytest.mark.parametrize("bound", [0.005, 0.025, 0.055, 0.085])
def test_bisection_finds_the_boundary(monkeypatch, bound):
    ranks = list(range(100, 0, -1))
    path = made(dict.fromkeys(ranks, 0.0))
    advantages(monkeypatch, {rank: rank / 1000 for rank in ranks})
    chosen = path.select(max_advantage=bound)
    assert chosen.rank_ == int(bound * 1000)
    assert len(chosen.selection_.tried) <= 7


def test_all_ranks_may_do(monkeypatch):
    path = made({9: 0.0, 5: 0.0, 1: 0.0})
    advantages(monkeypatch, {9: 0.01, 5: 0.0, 1: 0.0})
    assert path.select().rank_ == 9


def test_a_noisy_curve_never_chooses_a_rank_that_leaks(monkeypatch):
    rng = np.random.default_rng(0)
    ranks = list(range(20, 0, -1))
    for _ in range(50):
        path = made(dict.fromkeys(ranks, 0.0))
        noisy = {rank: 0.004 * rank + 0.02 * rng.normal() for rank in ranks}
        advantages(monkeypatch, noisy)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            chosen = path.select(max_advantage=0.03)
        assert (noisy[chosen.rank_] <= 0.03) == chosen.selection_.met == (not caught)


def test_if_nothing_is_good_enough_the_nearest_is_kept_and_said(monkeypatch):
    path = made({9: 0.0, 5: 0.0, 1: 0.0})
    advantages(monkeypatch, {9: 0.4, 5: 0.3, 1: 0.07})
    with pytest.warns(UserWarning, match=r"No rank will do: rank 1: .*0\.070.*Allow more"):
        chosen = path.select(max_advantage=0.02)
    assert chosen.rank_ == 1
    assert not chosen.selection_.met


def test_a_bound_that_the_rows_cannot_decide_is_raised_and_said(path):
    """1,400 rows can be judged on: even a guess may look two points better than it is."""
    with pytest.warns(UserWarning, match=r"max_advantage=0.01, which these rows cannot decide"):
        chosen = path.select(max_advantage=0.01, attackers=["logistic"], refit=False).selection_
    assert not chosen.met
    # The interval of one attacker, and the luck that it has in one of five cases.
    least = (1.96 + 0.84) * (0.25 / 1400) ** 0.5
    assert chosen.max_advantage == pytest.approx(least, rel=0.05)
    assert chosen.rank == 3
    assert chosen.tried[3] <= chosen.max_advantage


def test_attackers_that_choose_learn_from_rows_that_no_eraser_has_seen(path):
    """Each half of the validation rows is judged by attackers that learned from the other."""
    attackers, rows = ["logistic", "quadratic"], path.data.validation
    bound = selection.advantage_bound(path, path[6], attackers)
    seed = path.random_state
    found = certify(path[6].eraser, rows.X, rows.z, attackers=attackers, random_state=seed)
    assert found.n_rows == len(rows) == 400
    assert found.after < bound == pytest.approx(found.upper_bound)


def test_where_validation_rows_are_too_few_train_rows_decide_too(path):
    """400 rows cannot decide 0.05, and 1,400 rows that are cross-fitted can."""
    attackers = ["logistic"]
    assert selection.way_to_decide(path.data, 0.05, attackers) == (0.05, True)
    assert selection.way_to_decide(path.data, 0.1, attackers) == (0.1, False)
    few = selection.advantage_bound(path, path[1], attackers)
    many = selection.cross_fitted_bound(path, path[1], attackers)
    assert many < 0.75 * few
    chosen = path.select(max_advantage=0.05, attackers=attackers)
    assert chosen.selection_.met
    assert chosen.rank_ == 3  # PCA's fourth direction tells the classes apart


def test_folds_do_not_excuse_a_bad_fit(path):
    """Folds judge the method at rank 3, which is clean; this one fit of it is not."""
    attackers = ["logistic"]
    bad = replace(path.at(3), estimator=path.at(8).estimator)
    assert selection.cross_fitted_bound(path, path.at(3), attackers) < 0.05
    assert selection.cross_fitted_bound(path, bad, attackers) > 0.2


def test_quick_attackers_choose_what_those_who_judge_confirm(monkeypatch):
    """Those of budget standard find three points more at every rank."""
    advantages(monkeypatch, {})
    found = {"quick": 0.0, "standard": 0.03}
    monkeypatch.setattr(
        selection,
        "advantage_bound",
        lambda path, point, attackers: 0.01 * point.rank + found.get(attackers, 0.0),
    )
    ranks = dict.fromkeys(range(20, 0, -1), 0.0)
    chosen = made(ranks).select(max_advantage=0.1).selection_
    assert (chosen.rank, chosen.tried[chosen.rank]) == (7, pytest.approx(0.1))
    assert chosen.tried[10] == pytest.approx(0.13)
    assert made(ranks).select(max_advantage=0.1, attackers=["trees"]).rank_ == 10
    with pytest.warns(UserWarning, match="No rank will do"):
        none = made(ranks).select(max_advantage=0.03).selection_
    assert (none.met, none.rank) == (False, 1)


def test_folds_are_fitted_once_for_all_ranks(data, monkeypatch):
    made = []
    own = path_module.rank_path
    monkeypatch.setattr(path_module, "rank_path", lambda *given: made.append(given) or own(*given))
    path = own(PCAProjection(), data, [5, 3, 1])
    for rank in (5, 3, 2):
        selection.cross_fitted_bound(path, path.at(rank), ["logistic"])
    assert [len(rows.train) for _, rows, _ in made] == [2 * 1400 // 5] * 5


def test_a_second_choice_attacks_no_rank_again(path, monkeypatch):
    strict = path.select(max_advantage=0.15, attackers=["logistic"], refit=False)
    monkeypatch.setattr(selection, "advantage_bound", None)
    again = path.select(max_advantage=0.16, attackers=("logistic",), refit=False)
    assert again.selection_.tried == strict.selection_.tried


# -- what was chosen is fitted again, and certified ----------------------------------------------


@pytest.mark.parametrize("cascaded", [False, True])
def test_it_is_fitted_again_as_the_path_was_down_from_the_higher_ranks(data, cascaded):
    eraser = LEOPARD(solver=ManifoldSolver(max_rows=300), random_state=0)
    path = rank_path(Cascade(second=eraser) if cascaded else eraser, data, [6, 4, 2])
    again = path.fit_again(2)
    down = rank_path(path.eraser, replace(data, train=path.unseen.train), [6, 4, 2])
    np.testing.assert_array_equal(again.eraser_.P, down[2].eraser.P)
    # And who fits it again does so from the start.
    plain = again.second_stage() if cascaded else again
    assert (plain.rank, plain.solver) == (2, ManifoldSolver(max_rows=300))


def test_the_choice_is_fitted_again_on_all_rows_but_test_rows(path, data):
    chosen = path.select(max_advantage=0.15, attackers=["logistic"])
    assert chosen.eraser_.metadata["n_rows"] == len(data.train) + len(data.validation)
    X, z = (np.concatenate([getattr(s, v) for s in (data.train, data.validation)]) for v in "Xz")
    alone = PCAProjection(rank=chosen.rank_).fit(X, z)
    np.testing.assert_array_equal(alone.eraser_.U, chosen.eraser_.U)
    kept = path.select(max_advantage=0.15, attackers=["logistic"], refit=False)
    assert kept.eraser_.metadata["n_rows"] == len(data.train)


def test_the_choice_is_certified_on_test_rows_only(path, data):
    chosen = path.select(max_advantage=0.15, attackers=["logistic"])
    with pytest.raises(ValueError, match=r"fitted on about \d+ % of these rows.*path\.unseen"):
        certify(chosen, data, budget="quick")
    found = certify(chosen, path.unseen, attackers=["logistic"], margin=0.15)
    assert found.n_rows == 600
    assert found.verdict == "HOLDS"


def test_a_rank_between_two_of_the_default_ranks_is_found(data):
    """Of default ranks only: who lists ranks gets one of them."""
    path = rank_path(PCAProjection(), data, [8, 1])
    listed = path.select(max_advantage=0.15, attackers=["logistic"])
    assert listed.rank_ == 1
    finer = replace(path, refine=True)
    found = finer.select(max_advantage=0.15, attackers=["logistic"])
    assert found.rank_ == 3  # between 8 and 1: 4 leaks, 2 and 3 do not
    assert set(found.selection_.tried) == {8, 1, 4, 2, 3}
    assert rank_path(PCAProjection(), data).refine


def test_a_rank_between_two_is_the_same_whatever_was_asked_before(data):
    path = rank_path(LEOPARD(solver=ManifoldSolver(max_rows=200), random_state=0), data, [8, 1])
    again = replace(path)
    again.at(5)  # nearer to 3 than any rank of the path
    np.testing.assert_array_equal(path.at(3).eraser.U, again.at(3).eraser.U)
    assert path.at(3) is path.at(3)


def test_a_rank_between_two_has_the_seed_of_the_path(data):
    path = rank_path(LEOPARD(solver=ManifoldSolver(max_rows=200)), data, [8, 1])  # draws its seed
    known = replace(
        path, eraser=LEOPARD(solver=ManifoldSolver(max_rows=200), random_state=path.random_state)
    )
    np.testing.assert_array_equal(path.at(4).eraser.U, known.at(4).eraser.U)


def test_a_metric_just_meets_its_bound():
    """The strongest erasure that keeps enough, or the weakest that erases enough."""
    path = made(
        dict(zip([9, 5, 3, 1], [0.5, 0.2, 0.02, 0.01], strict=True)),
        task=[0.9, 0.85, 0.7, 0.5],
        linear=[0.9, 0.7, 0.55, 0.5],
        mdl=[1.0, 5.0, 9.0, 10.0],  # falls as the rank grows
    )
    assert path.select(metric="task", at_least=0.8).rank_ == 5
    assert path.select(metric="task", at_least=0.2).rank_ == 1
    assert path.select(metric="linear", at_most=0.6).rank_ == 3
    assert path.select(metric="mdl", at_least=4.0).rank_ == 5
    assert path.select(metric="held_out", at_most=0.05).rank_ == 3
    with pytest.warns(UserWarning, match=r"rank 9: task \(at least 0.95\) 0.900.*other ranks"):
        assert path.select(metric="task", at_least=0.95).rank_ == 9


def test_a_metric_is_measured_where_the_path_has_none(path):
    chosen = path.select(metric="neighbours", at_least=0.9)
    assert chosen.selection_.tried[chosen.rank_] >= 0.9
    assert 1 < chosen.rank_ < 8


def test_two_choices_of_one_rank_keep_their_evidence():
    path = made(dict.fromkeys([9, 5, 1], 0.0), task=[0.9, 0.8, 0.1], neighbours=[0.9, 0.7, 0.1])
    first = path.select(metric="task", at_least=0.5)
    second = path.select(metric="neighbours", at_least=0.5)
    assert first.rank_ == second.rank_ == 5
    assert first.selection_.criterion == "task (at least 0.5)"
    assert second.selection_.criterion == "neighbours (at least 0.5)"
    assert not hasattr(path[5].estimator, "selection_")


def test_the_choice_is_on_validation_rows(data, path):
    """Other validation rows, another choice of evidence; other test rows, the same."""
    bound = {"metric": "linear", "at_most": 0.9, "refit": False}
    first = path.select(**bound).selection_.tried
    fewer = data.validation.take(np.arange(0, len(data.validation), 2))
    half = replace(path, data=replace(data, validation=fewer))
    assert half.select(**bound).selection_.tried != first
    other = data.test.take(np.arange(0, len(data.test), 2))
    same = replace(path, data=replace(data, test=other))
    assert same.select(**bound).selection_.tried == first


def test_selection_reads_as_a_sentence():
    found = Selection(5, "advantage of the strongest attacker", {9: 0.3, 5: 0.014})
    assert str(found) == (
        "rank 5: advantage of the strongest attacker 0.014 (2 ranks were looked at)"
    )
    assert "do not confirm" in str(replace(found, met=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_advantage": 2}, "Got max_advantage=2, .*from 0 to"),
        ({"max_advantage": "low"}, "Got max_advantage='low'"),
        ({"attackers": ["mlp"], "max_advantage": 0.3}, "Got attackers='mlp'"),
        ({"metric": "linear"}, "metric='linear' with no bound, .*at_most"),
        ({"metric": "linear", "at_most": 0.5, "at_least": 0.4}, "two bounds"),
        ({"at_least": 0.5}, "at_least without metric"),
        ({"metric": "linear", "at_most": 0.5, "max_advantage": 0.3}, "both metric and max_adv"),
        ({"metric": "tasks", "at_least": 0.5}, "Got metric 'tasks'"),
    ],
)
def test_bad_options(path, options, message):
    with pytest.raises(ValueError, match=message):
        path.select(**options)
