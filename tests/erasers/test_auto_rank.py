"""``rank="auto"``: one fit that chooses its own rank, on rows of its own, and says how."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unspot import LEOPARD, Cascade, Dataset, Eraser, Split, load
from unspot.checks import default_ranks
from unspot.choice import path, selection
from unspot.choice.path import MIN_ASIDE
from unspot.choice.selection import Selection
from unspot.evaluation.attackers import ATTACKERS, BUDGETS, attack
from unspot.evaluation.inference import smallest_bound
from unspot.io import sources as streams
from unspot.leopard import ManifoldSolver

pytestmark = pytest.mark.halvings
D, K = 10, 3


@pytest.fixture(scope="module", autouse=True)
def attackers_that_can_read_these_laws(attacked_by):
    """Classes differ in variance, or a number is added: the other attackers only take time."""
    with attacked_by("logistic", "quadratic", halvings=2):
        yield


@pytest.fixture(scope="module")
def data():
    """Three of ten rotated directions tell the classes apart, by their variance alone."""
    rng = np.random.default_rng(0)
    z = np.arange(5000) % 2
    X = rng.normal(size=(5000, D))
    X[z == 1, :K] *= 3.0
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    names = np.where(z == 1, "b", "a")
    return Dataset.from_arrays(X @ rotation.T, names, sizes=(0.6, 0.1, 0.3), random_state=0)


def _fit(kind, data, seed):
    eraser = LEOPARD("auto", random_state=seed)
    eraser = Cascade(second=eraser) if kind == "cascaded" else eraser
    return eraser.fit(data.train.X, data.train.z)


@pytest.fixture(scope="module", params=["standard", "cascaded"])
def fitted(request, data):
    return _fit(request.param, data, 0)


def test_the_rank_is_near_what_the_law_allows(fitted, data):
    """Seven clean directions; the linear stage of a cascade may take one of them.

    The few hundred rows that a fit sets aside can make an attacker look lucky, so the median.
    """
    kind = "cascaded" if isinstance(fitted, Cascade) else "standard"
    ranks = [fitted.rank_, *(_fit(kind, data, seed).rank_ for seed in (1, 2))]
    assert D - K - 1 <= np.median(ranks) <= D - K


def test_the_eraser_has_the_rank_that_was_chosen(fitted):
    assert fitted.eraser_.rank == fitted.rank_
    assert fitted.eraser_.is_projection


def test_new_rows_tell_attackers_next_to_nothing(fitted, data):
    train, test = data.train, data.test
    before = attack(train.X, train.z, test.X, test.z, attackers=["quadratic"])
    erased, attackers = fitted.transform(test.X), ATTACKERS[:13]
    after = attack(fitted.transform(train.X), train.z, erased, test.z, attackers=attackers)
    assert before[0].advantage > 0.25
    assert max(result.advantage for result in after) < 0.05


@pytest.mark.parametrize("cascaded", [False, True])
def test_rows_of_a_group_choose_or_fit(cascaded, data, monkeypatch):
    """60 people of 50 rows: with rows of all people on both sides, they are known by heart."""
    groups = np.arange(len(data.train)) % 60
    seen = {}
    monkeypatch.setattr(path, "rank_path", lambda eraser, rows: seen.update(rows=rows) or _stop())
    eraser = LEOPARD("auto", random_state=0)
    eraser = Cascade(second=eraser) if cascaded else eraser
    with pytest.raises(_Stopped):
        eraser.fit(data.train.X, data.train.z, groups=groups)
    train, aside = seen["rows"].train, seen["rows"].validation
    assert not set(train.groups) & set(aside.groups)
    assert len(set(train.groups) | set(aside.groups)) == 60
    assert set(train.z) == set(aside.z)


def test_all_stages_of_a_cascade_are_new_to_the_rows_that_choose(data, monkeypatch):
    """Transport and linear erasure look better on rows that they were fitted on."""
    seen = {}
    monkeypatch.setattr(path, "rank_path", lambda *given: seen.update(given=given) or _stop())
    with pytest.raises(_Stopped):
        Cascade(rank="auto", random_state=0).fit(data.train.X, data.train.z)
    eraser, rows = seen["given"]
    assert isinstance(eraser, Cascade)
    train, aside = (set(map(bytes, split.X)) for split in (rows.train, rows.validation))
    assert not train & aside
    assert train | aside == set(map(bytes, data.train.X))


def test_rows_too_few_to_be_set_aside_are_cross_fitted(data, monkeypatch):
    """1,200 rows cannot decide 0.05, and all 3,000 can."""
    ranks = []

    def bound(path, point, attackers):
        assert isinstance(path.eraser, LEOPARD)
        assert len(path.unseen.train) == 3000
        ranks.append(point.rank)
        return 0.01 * point.rank

    monkeypatch.setattr(selection, "cross_fitted_bound", bound)
    eraser = LEOPARD(
        "auto", max_advantage=0.05, solver=ManifoldSolver(max_rows=600), random_state=0
    )
    monkeypatch.setattr(path, "_share_to_choose_with", lambda labels, max_rows: 1.0)
    assert eraser.fit(data.train.X, data.train.z).rank_ == 5
    assert 5 in ranks
    assert 6 in ranks


def test_rows_aside_too_few_to_teach_attackers_are_cross_fitted(data, monkeypatch):
    """160 rows set 64 aside, of which a half are too few to learn from."""
    for budget in ("quick", "standard"):
        few = replace(BUDGETS[budget], attackers=("logistic",))
        monkeypatch.setitem(BUDGETS, budget, few)
    X, z = data.train.X[:160], data.train.z[:160]
    fitted = LEOPARD("auto", max_advantage=0.5, random_state=0).fit(X, z)
    assert fitted.selection_.met
    for labels in (z, X[:, 0] + 0.1):
        for n, cross_fit in ((80, False), (64, True)):
            aside = Split(X[:n], labels[:n])
            found = selection.way_to_decide(Dataset(aside, aside, aside), 0.9)
            assert found == (0.9, cross_fit)


class _Stopped(Exception):
    pass


def _stop():
    raise _Stopped


def test_the_choice_is_written_down(fitted, tmp_path):
    chosen = fitted.selection_
    assert isinstance(chosen, Selection)
    assert chosen.rank == fitted.rank_
    assert set(chosen.tried) <= set(default_ranks(D))
    fitted.eraser_.save(tmp_path / "e.safetensors")
    metadata = load(tmp_path / "e.safetensors").metadata
    selection = metadata.get("inner", metadata)["selection"]
    assert selection["rank"] == fitted.rank_
    # What 1,200 rows can decide, against those who judge.
    smallest = smallest_bound(np.array([600, 600]), 0.05, len(BUDGETS["standard"].attackers))
    assert selection["max_advantage"] == pytest.approx(smallest)
    assert selection["met"]
    assert selection["tried"][str(fitted.rank_)] == chosen.tried[fitted.rank_]
    assert metadata["n_rows"] == 3000  # all of them, the fifth that chose among them


def test_rows_that_can_only_show_a_large_advantage_are_no_success(data, monkeypatch):
    few = data.test.take(np.arange(120))
    for budget in ("quick", "standard"):  # the bound covers all attackers
        many = replace(BUDGETS[budget], attackers=ATTACKERS[:13])
        monkeypatch.setitem(BUDGETS, budget, many)
    with pytest.warns(UserWarning, match="(?i)fit on more rows"):
        LEOPARD("auto", random_state=0).fit(few.X, few.z)


def test_a_looser_bound_keeps_more(data):
    loose = LEOPARD("auto", max_advantage=0.49, random_state=0).fit(data.train.X, data.train.z)
    assert loose.rank_ == default_ranks(D)[0]


def test_the_same_seed_gives_the_same_bits(data):
    first, second = (
        LEOPARD("auto", solver=ManifoldSolver(max_rows=800), random_state=3).fit(
            data.train.X, data.train.z
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.eraser_.P, second.eraser_.P)


def test_a_file_of_any_size_costs_a_sample(data, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LOAD_BYTES", 0)
    given = []
    take = streams.Rows.take

    def counted(self, rows):
        given.append(len(np.asarray(rows)))
        return take(self, rows)

    np.save(tmp_path / "x.npy", data.train.X)
    inside = LEOPARD("auto", solver=ManifoldSolver(max_rows=800), random_state=0).fit(
        data.train.X, data.train.z
    )
    monkeypatch.setattr(streams.Rows, "take", counted)
    outside = LEOPARD("auto", solver=ManifoldSolver(max_rows=800), random_state=0).fit(
        tmp_path / "x.npy", data.train.z
    )
    np.testing.assert_array_equal(outside.eraser_.P, inside.eraser_.P)
    # The sample that chooses, the one of the last fit, and a thousand rows for the fingerprint.
    assert 1000 <= sum(given) <= 800 / 0.6 + 800 / 0.9 + 1000 + 10


def test_half_precision(data):
    X = data.train.X.astype(np.float16)
    fitted = LEOPARD("auto", solver=ManifoldSolver(max_rows=800), random_state=0).fit(
        X, data.train.z
    )
    assert isinstance(fitted.eraser_, Eraser)
    assert fitted.transform(X[:3]).dtype == np.float16


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [2, -0.1, "low", True])
def test_bounds_that_are_no_share(data, bound):
    with pytest.raises(ValueError, match=r"Got max_advantage=.*, but expected a number from 0"):
        LEOPARD("auto", max_advantage=bound).fit(data.train.X, data.train.z)


def test_no_rank_is_good_enough(data):
    """A copy of the concept in every direction: each rank leaks."""
    rng = np.random.default_rng(0)
    z = np.arange(1500) % 2
    X = rng.normal(size=(1500, 5)) * np.where(z == 1, 6.0, 1.0)[:, None]
    with pytest.warns(UserWarning, match=r"No rank will do: rank 1: .*0\.\d+.*Allow more"):
        fitted = LEOPARD("auto", random_state=0).fit(X, z)
    assert fitted.rank_ == 1
    assert not fitted.eraser_.metadata["selection"]["met"]


def test_a_bound_that_the_rows_cannot_decide_is_said(data):
    """The smallest that they can is gone for, and the answer is not called a success."""
    rows = data.train.take(np.arange(600))
    with pytest.warns(UserWarning, match=r"max_advantage=0.02, which these rows cannot decide"):
        fitted = LEOPARD("auto", max_advantage=0.02, random_state=0).fit(rows.X, rows.z)
    assert fitted.selection_.max_advantage > 0.02
    assert not fitted.selection_.met


@pytest.mark.parametrize("rank", ["atuo", "half", "AUTO"])
def test_other_words(data, rank):
    with pytest.raises(ValueError, match=r"Got rank='.*', but expected an integer, .*or 'auto'"):
        LEOPARD(rank).fit(data.train.X, data.train.z)


def test_classes_too_small_to_set_rows_aside(data):
    X, z = data.train.X[:200], np.repeat(["rare", "common"], [20, 180])
    message = (
        "rank='auto' and 20 rows of class rare, of which 8 are set aside .* at least 10. Pass a "
        "number as the rank, or more rows of that class"
    )
    with pytest.raises(ValueError, match=message):
        LEOPARD("auto").fit(X, z)


@pytest.mark.parametrize(
    ("n_rare", "n"), [(250, 200_000), (27, 20_000), (28, 20_000), (48, 34_567)]
)
def test_a_sample_that_sets_too_few_aside_asks_for_a_larger_one(monkeypatch, n_rare, n):
    """More rows, in the same shares, would not help: of many rows, a sample is taken."""

    class Chosen(Exception):
        pass

    def rank_path(estimator, data):
        raise Chosen(min(np.unique(data.validation.z, return_counts=True)[1]))

    monkeypatch.setattr("unspot.choice.path.rank_path", rank_path)
    X = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    z = np.repeat(["rare", "common"], [n_rare, n - n_rare])
    message = f"{n_rare} rows of class rare, .* or a larger max_rows, .* aside: [0-9]+ is enough"
    with pytest.raises(ValueError, match=message) as refused:
        LEOPARD("auto", solver=ManifoldSolver(max_rows=10_000), random_state=0).fit(X, z)
    enough = int(str(refused.value).split(" is enough")[0].split()[-1])
    with pytest.raises(Chosen) as chosen:
        LEOPARD("auto", solver=ManifoldSolver(max_rows=enough), random_state=0).fit(X, z)
    assert chosen.value.args[0] >= MIN_ASIDE


def test_no_max_rows_is_enough_for_a_class_that_is_too_small():
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    z = np.repeat(["rare", "common"], [20, 19_980])
    with pytest.raises(ValueError, match=r"20 rows of class rare, .* or more rows of that class"):
        LEOPARD("auto", random_state=0).fit(X, z)


# -- numbers and several concepts ----------------------------------------------------------------


def _numbers(n=800):
    """The square of the first of five directions tells a number, the second by its mean a class."""
    rng = np.random.default_rng(0)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, 5))
    X[:, 1] += 4.0 * z
    return X, X[:, 0] ** 2 + 0.3 * rng.normal(size=n), np.where(z == 1, "b", "a")


def test_the_rank_of_a_number():
    X, age, _ = _numbers()
    quick = ManifoldSolver(max_evaluations=20)
    eraser = LEOPARD("auto", max_advantage=0.3, solver=quick, random_state=0)
    eraser.fit(X, age, groups=np.arange(len(X)) // 2)
    assert eraser.rank_ == eraser.eraser_.rank == 4
    assert eraser.eraser_.P[0, 0] < 0.1
    assert eraser.selection_.met


def test_the_rank_of_two_concepts():
    X, age, z = _numbers()
    quick = ManifoldSolver(max_evaluations=20)
    # With seed 0 the linear stage of the rows that fit takes the direction of age, by luck.
    eraser = Cascade(second=LEOPARD("auto", max_advantage=0.3, solver=quick, random_state=1))
    eraser.fit(X, {"age": age, "z": z})
    assert eraser.rank_ in (2, 3)  # the linear stage may take one of three clean directions
    assert np.diagonal(eraser.eraser_.P)[:2].max() < 0.1


def test_groups_of_a_number_stay_together(monkeypatch):
    X, age, _ = _numbers(400)
    groups, seen = np.arange(400) // 8, {}

    class Stop(Exception):
        pass

    def stop(_estimator, data):
        seen["parts"] = [set(part.groups.tolist()) for part in (data.train, data.validation)]
        raise Stop

    monkeypatch.setattr(path, "rank_path", stop)
    with pytest.raises(Stop):
        LEOPARD("auto", random_state=0).fit(X, age, groups=groups)
    assert not seen["parts"][0] & seen["parts"][1]
