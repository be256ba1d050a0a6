"""The one path: candidates, the choice, and rows that only judge."""

from __future__ import annotations

import importlib
from functools import partial

import numpy as np
import pandas as pd
import pytest

import unspot
from unspot import certify
from unspot.choice import candidates
from unspot.choice.candidates import Family, families
from unspot.choice.erase import FURTHER, Candidate, Rule, erase
from unspot.data.goal import Goal
from unspot.io.progress import phase

FEW = ("logistic", "quadratic")
module = importlib.import_module("unspot.choice.erase")


def made(name, leak, utility, *, error=0.01, before=0.4):
    gone, kept = 1 - leak / before, (utility - 0.5) / 0.5
    return Candidate(name, None, leak, error, utility, gone, kept, before, 3, Family(name, None))


SIMPLE, MIDDLE, STRONG = (
    made("simple", 0.20, 0.95),
    made("middle", 0.06, 0.85),
    made("strong", 0.01, 0.60),
)
EVERY = (SIMPLE, MIDDLE, STRONG)


@pytest.fixture(scope="module", autouse=True)
def _fewer_candidates():
    """Try fewer candidates, by fewer attackers: the logic is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "WIDTHS", (6,))
        patch.setattr(candidates, "SHARES", (0.6, 0.3))
        patch.setattr(candidates, "TASK_RANKS", (4,))
        patch.setattr(module, "SECOND", 4)
        patch.setattr(module, "THIRD", 2)
        patch.setattr(module, "TWICE", 0)
        patch.setattr(module, "OFTEN", 0)
        patch.setattr(module, "ATTACKERS", FEW)
        patch.setattr(module, "FIRST", FEW[:1])
        patch.setattr(module, "certify", partial(certify, budget="quick", attackers=FEW))
        yield


@pytest.fixture(scope="module")
def rows():
    """Two classes that differ in mean and variance, and a task beside them."""
    rng = np.random.default_rng(0)
    z, y = rng.integers(2, size=(2, 900))
    X = rng.normal(size=(900, 12)).astype(np.float32)
    X[:, 0] += 3 * z
    X[:, 1] *= 1 + z
    X[:, 2] += 2 * y
    return X, np.array(["a", "b"])[z], np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def result(rows):
    X, z, y = rows
    return erase(X, z, task=y, random_state=0)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (Rule(), "middle"),
        (Rule(max_advantage=0.1), "middle"),
        (Rule(max_advantage=0.3), "simple"),
        (Rule(min_utility=0.9), "simple"),
        (Rule(min_utility=0.55), "strong"),
        (Rule(max_advantage=0.005), "strong"),  # none does: the nearest
        (Rule(min_utility=0.99), "simple"),
    ],
)
def test_rule(rule, name):
    assert rule.choose(EVERY).name == name


def test_a_bound_that_none_reaches_is_not_held():
    assert Rule(max_advantage=0.005).value(STRONG)[0] == 0
    assert Rule(max_advantage=0.03).value(STRONG)[0] == 1


def test_of_two_about_as_good_the_simpler_one_is_chosen():
    slightly_better = made("elaborate", 0.0595, 0.851)
    assert Rule().choose((*EVERY, slightly_better)).name == "middle"
    much_better = made("elaborate", 0.02, 0.87)
    assert Rule().choose((*EVERY, much_better)).name == "elaborate"


def test_the_concept_is_gone_and_the_task_is_kept(result, rows):
    assert result.certificate.before > 0.35
    assert result.chosen.advantage < 0.1
    kept = {one.name: one for one in result.certificate.kept}
    assert kept["the task"].after > kept["the task"].before - 0.05
    X, z, _ = rows
    erased = result.eraser(X)
    gap = erased[z == "a"].mean(axis=0) - erased[z == "b"].mean(axis=0)
    assert np.abs(gap).max() < 0.3


def test_rows_that_judge_were_not_fitted_on(result, rows):
    """The eraser's own hashes of the rows of its fit say so."""
    from unspot.data.dataset import Split, share_fitted_on

    X, z, _ = rows
    assert len(result.judging) == pytest.approx(0.3 * len(X), abs=2)
    assert share_fitted_on(result.eraser, Split(X[result.judging], z[result.judging])) == 0
    assert result.eraser.metadata["n_rows"] == len(X) - len(result.judging)


def test_what_it_says(result):
    text = str(result)
    assert result.chosen.title in text
    assert "task " in text
    assert len(result.table().splitlines()) == len(result.candidates) + 1 > 11
    assert result.chosen.title in result._repr_html_()
    leaks = [one.advantage for one in result.frontier]
    utilities = [one.utility for one in result.frontier if one is not result.chosen]
    assert leaks == sorted(leaks)
    assert utilities == sorted(utilities)


def test_same_seed_same_choice(rows):
    X, z, _ = rows
    first, second = (erase(X[:500], z[:500], random_state=3) for _ in range(2))
    assert str(first) == str(second)
    assert first.table() == second.table()
    assert first.eraser.digest == second.eraser.digest


def test_sorted_rows(rows):
    """A path of ranks on rows of which the first hundreds are of one class."""
    X, z, _ = rows
    order = np.argsort(z, kind="stable")
    split = unspot.Split(X[order], z[order])
    (family,) = (f for f in families(Goal(split.concept), 12, 900, 0) if f.name == "cascade")
    ((rank, fitted),) = family.fits(split, family.ranks[-1:])
    assert fitted.eraser_.rank == rank == family.ranks[-1]


def test_groups_stay_together(rows):
    X, z, _ = rows
    groups = np.arange(len(X)) // 5
    z = np.array(["a", "b"])[groups % 2]
    result = erase(X, z, groups=groups, random_state=0)
    judging = np.isin(np.arange(len(X)), result.judging)
    assert not set(groups[judging]) & set(groups[~judging])


def test_a_number_and_a_function_as_utility(rows):
    X, _, _ = rows
    age = X[:, 0] + 0.1 * np.random.default_rng(1).normal(size=len(X))
    seen = []

    def spread(erased, numbers):
        seen.append(numbers)
        assert len(erased) == len(numbers)
        return float(erased[:, 5].std())

    result = erase(X, age, utility=spread, random_state=0)
    assert result.certificate.before > 0.9  # of its variance
    assert result.chosen.advantage < 0.1
    assert [one.name for one in result.certificate.kept] == ["utility", "neighbours"]
    assert np.unique(np.concatenate(seen)).max() < len(X)


def test_a_search_may_gain_by_erasing(rows):
    X, z, _ = (part[:600] for part in rows)

    def mixed(erased, numbers):
        means = [erased[z[numbers] == name, 0].mean() for name in "ab"]
        return 2.0 if abs(means[0] - means[1]) < 1 else 1.0

    result = erase(X, z, utility=mixed, random_state=0)
    assert (result.chosen.utility, result.chosen.kept) == (2.0, 2.0)


def test_the_price_of_keeping_only_the_task_is_said(rows, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "NEARLY_RANDOM", 1.0)
    X, z, y = (part[:600] for part in rows)
    result = erase(X, z, task=y, random_state=0)
    near = f"{result.certificate.kept[-1].after:.2f}"
    assert f"of the neighbours {near} are kept" in str(result)
    page = result.to_html(tmp_path / "page.html").read_text("utf-8")
    assert f"of the neighbours {near} are kept" in page
    assert f"Chosen of {len(result.candidates)}" in page
    assert "the task, on rows that chose" in page


def test_a_frame_leaves_its_names(rows):
    """Columns in another order are refused, and covariates are called by their name."""
    X, z, y = (part[:600] for part in rows)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    result = erase(frame, pd.Series(z, name="site"), given=pd.Series(y, name="job"), random_state=0)
    assert result.certificate.statement.startswith("Site: attackers who know job are right")
    np.testing.assert_array_equal(result.eraser(frame), result.eraser(X))
    with pytest.raises(ValueError, match="in another order"):
        result.eraser(frame[frame.columns[::-1]])


def test_an_unreachable_bound_is_said(rows):
    X, z, _ = rows
    result = erase(X[:400], z[:400], min_utility=0.9999, random_state=0)
    assert not result.reached
    assert "nearest" in str(result)


def test_ctrl_c_ends_with_what_is_there(rows, monkeypatch):
    X, z, _ = rows
    judge, calls = module._Search._judge, []

    def interrupted(self, *args, **options):
        calls.append(args)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return judge(self, *args, **options)

    monkeypatch.setattr(module._Search, "_judge", interrupted)
    result = erase(X[:500], z[:500], random_state=0)
    assert len(result.candidates) == 2
    assert "Stopped" in str(result)


def test_too_few_rows_are_refused(rows):
    X, z, _ = rows
    with pytest.raises(ValueError, match="attackers need"):
        erase(X[:60], z[:60])


def test_both_bounds_are_refused(rows):
    X, z, _ = rows
    with pytest.raises(ValueError, match="one of them"):
        unspot.erase(X, z, max_advantage=0.1, min_utility=0.8)


def test_a_utility_that_nothing_can_have_is_refused(rows):
    X, z, _ = rows
    with pytest.raises(ValueError, match="min_utility=5"):
        unspot.erase(X, z, min_utility=5)


def test_a_leak_of_nothing_is_within_noise_too():
    """Whether noise puts the best leak a little above or below zero decides nothing."""
    simple = made("simple", 0.001, 0.72, error=0.013, before=0.1)
    for leak in (0.0001, -0.0001):
        elaborate = made("elaborate", leak, 0.724, error=0.013, before=0.1)
        assert Rule().choose((simple, elaborate)).name == "simple"


def test_a_bound_of_utility_that_none_reaches_compares_utilities():
    worse, better = made("worse", 0.2, 0.80, error=0.05), made("better", 0.05, 0.82, error=0.05)
    assert Rule(min_utility=0.99).choose((worse, better)).name == "better"


def test_of_ties_the_one_that_is_better_in_both():
    first, both = made("first", 0.05, 0.80, error=0.02), made("both", 0.045, 0.83, error=0.02)
    assert Rule().choose((first, both)).name == "both"


def test_unit_vectors_get_their_norm_back_whatever_their_columns():
    X = np.random.default_rng(0).normal(size=(200, 8))
    X[:, 0], X[:, 1] = 0, 1e-8 * X[:, 1]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert candidates.settings_for(X) == {"normalise": True}
    assert candidates.settings_for(X * np.arange(1, 201)[:, None]) == {}
    assert candidates.settings_for(X * [1, 1, 1, 1, 1, 1, 1, 1e5]) == {"metric": "standardised"}


@pytest.mark.filterwarnings("ignore:Got no value of task")
def test_what_a_run_of_erase_says_of_its_rows(rows):
    X, z, y = (part[:500] for part in rows)
    again = np.concatenate([np.arange(500), np.arange(20)])
    result = erase(X[again], {"site": z[again], "shift": 5 * X[again, 0]}, random_state=0)
    assert "Exact repeats of rows, which counted once: 20." in result.notes
    assert result.called("site,shift").certificate.concept in ("site", "shift", "site × shift")
    bounded = erase(X, z, max_advantage=0.01, random_state=0)  # these rows cannot tell so little
    assert bounded.notes[0].startswith("1 points cannot be decided with these 500 rows")
    assert bounded.certificate.margin == bounded.rule.max_advantage == bounded.plan.confirmable
    assert bounded.certificate.decision in str(bounded)
    assert not bounded.reached
    with pytest.raises(ValueError, match="task of several columns or with gaps"):
        erase(X, z, task=np.where(np.arange(500) == 3, None, y))
    with pytest.raises(ValueError, match="groups that cannot be divided"):
        erase(X, z, groups=z)


def test_two_hundred_rows_are_enough():
    from unspot.choice.erase import _folds, _parts, _read, _shares

    rng = np.random.default_rng(0)
    rows = _read(rng.normal(size=(200, 4)), np.arange(200) % 2, task=None, groups=None, given=None)
    choosing, judging = (rows.take(part) for part in _parts(rows, _shares(rows), 0))
    assert len(judging) >= 80
    for fit, judge in _folds(choosing, 0):
        assert len(fit) + len(judge) == len(choosing)
        assert len(judge) >= 80


def test_few_rows_are_divided_often_and_finalists_are_judged_on_every_part(rows, monkeypatch):
    from unspot.choice.erase import _folds, _read, _Search

    monkeypatch.setattr(module, "OFTEN", 300)
    X, z, _ = rows
    few = _read(X[:260], z[:260], task=None, groups=None, given=None)
    judges = np.concatenate([judge.names for _, judge in _folds(few, 0)])
    assert (np.bincount(judges, minlength=260) == len(judges) / 260).all()
    assert len(judges) >= 3 * 260
    search = _Search(few, Rule(), None, 0)
    assert len(search.first) > 1
    with phase("Choosing", search.work) as bar:
        search.run(bar)
    for trial in (*search.trials, search.original):
        parts = len(search.first) + (trial.rounds == 3 or trial is search.original) * FURTHER
        assert len(trial.utilities) == len(trial.errors) == parts
        assert {len(leaks) for leaks in trial.leaks.values()} == {parts}
    for trial in search.trials:  # three parts are of different rows: more of them are no more rows
        error = search._candidate(trial).error
        assert error == pytest.approx(np.mean(trial.errors) / 3**0.5, rel=0.02)


@pytest.mark.parametrize("value", [float("nan"), [1.0, 2.0], None])
def test_a_utility_is_a_finite_number(value):
    from unspot.evaluation.utility import value_of

    with pytest.raises(ValueError, match=r"utility.*expected a finite number"):
        value_of(lambda X, rows: value, np.zeros((3, 2)), np.arange(3))
