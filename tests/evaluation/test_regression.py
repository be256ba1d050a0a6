"""Attackers of a number: they explain what can be explained, and nothing where nothing is."""

import dataclasses
import json

import numpy as np
import pytest

from unspot import LEACE, Dataset, Eraser, certify, evaluate
from unspot.data.concept import Number
from unspot.data.dataset import Split
from unspot.datasets.synthetic import concept_law
from unspot.evaluation import Certificate, attack, two_sample_test
from unspot.evaluation.attackers import ATTACKERS, BUDGETS, attacker_names
from unspot.evaluation.inference import explained, explained_interval, smallest_share

#: The names of attackers of a number.
REGRESSORS = attacker_names("continuous", "thorough")
FAST = ["ridge", "quadratic", "waves"]


def parts(rows, n=None):
    n = len(rows.X) // 2 if n is None else n
    return rows.X[:n], rows.z[:n], rows.X[n:], rows.z[n:]


@pytest.mark.parametrize(
    ("law", "best"), [("linear", "ridge"), ("quadratic", "quadratic"), ("periodic", "waves")]
)
def test_each_law_is_found_by_its_attacker(law, best):
    rows = concept_law(law, n=3000, d=6)
    found = {r.name: r.r2 for r in attack(*parts(rows), attackers=FAST)}
    assert found[best] > 0.85 * rows.best
    assert max(found.values()) < rows.best + 0.06
    assert found["ridge"] < 0.02 or best == "ridge"


def test_every_attacker_learns_a_line_and_says_nothing_of_noise():
    rows = concept_law("linear", n=1200, d=5)
    known = {r.name: r for r in attack(*parts(rows), budget="quick", attackers=REGRESSORS)}
    blind = {"residue"}  # sees the form of numbers, not their size
    assert len(REGRESSORS) == len(ATTACKERS)
    assert all(r.r2 > 0.2 for name, r in known.items() if name not in blind), known
    rows = concept_law("number", n=1200, d=5)
    luck = attack(*parts(rows), budget="quick", attackers=REGRESSORS)
    assert max(r.r2 for r in luck) < 0.02


def test_several_numbers_are_explained_each_in_its_own_unit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    z = np.stack([X[:, 0], 1000 * rng.normal(size=1000)], axis=1)  # one known, one noise
    (line,) = attack(X[:500], z[:500], X[500:], z[500:], attackers=["ridge"], kind="continuous")
    assert line.r2 == pytest.approx(0.5, abs=0.03)


def test_the_budget_has_the_classifiers_by_their_names_as_regressors():
    rows = concept_law("linear", n=200, d=3)
    names = [r.name for r in attack(*parts(rows), budget="quick")]
    assert len(names) == len(BUDGETS["quick"].attackers)
    assert names[:2] == ["ridge", "whitened-ridge"]


@pytest.mark.parametrize(
    ("attackers", "needles"),
    [
        (["ridgee"], ["'ridgee'", "Did you mean 'ridge'"]),
        ([], ["no attackers", "ridge"]),
    ],
)
def test_unknown_attackers_are_refused(attackers, needles):
    rows = concept_law("linear", n=200, d=3)
    with pytest.raises(ValueError) as caught:
        attack(*parts(rows), attackers=attackers)
    assert all(needle in str(caught.value) for needle in needles)


def test_the_attackers_of_classes_have_a_twin_for_numbers():
    rows = concept_law("linear", n=200, d=3)
    (found,) = attack(*parts(rows), attackers=["logistic"])
    (twin,) = attack(*parts(rows), attackers=["ridge"])
    assert (found.name, found.r2) == ("ridge", twin.r2)


def test_bad_numbers_are_refused():
    rows = concept_law("linear", n=200, d=3)
    X, z, X_test, z_test = parts(rows)
    with pytest.raises(ValueError, match=r"30 rows to train.*at least 40"):
        attack(X[:30], z[:30], X_test, z_test)
    with pytest.raises(ValueError, match="missing or infinite"):
        attack(X, np.where(z > 0, np.nan, z), X_test, z_test)
    with pytest.raises(ValueError, match="same value in every row of z_train"):
        attack(X, 0 * z, X_test, z_test, kind="continuous")


# -- intervals ------------------------------------------------------------------------


def test_r2_is_what_scikit_learn_says():
    from sklearn.metrics import r2_score

    rng = np.random.default_rng(0)
    z, guess = rng.normal(size=(2, 50, 1))
    r2, r = explained(guess, z)
    assert r2 == pytest.approx(r2_score(z, guess))
    assert r == pytest.approx(np.corrcoef(z.T, guess.T)[0, 1])


def test_the_interval_covers_and_shrinks():
    rng = np.random.default_rng(0)
    missed, widths = 0, {}
    for n in (100, 400):
        for _ in range(60):
            signal, noise = rng.normal(size=(2, n, 1))
            low, high = explained_interval(
                0.3**0.5 * signal, 0.3**0.5 * signal + 0.7**0.5 * noise, 0.05
            )
            missed += not low <= 0.3 <= high
            widths[n] = high - low
    assert missed <= 13  # of 120, with 6 expected
    assert widths[400] < 0.7 * widths[100]


def test_a_cautious_attacker_does_not_look_harmless():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 1))
    hints = 0.001 * (z + rng.normal(size=(300, 1)))
    assert explained(hints, z)[0] < 0.01
    assert explained_interval(hints, z, 0.05)[1] > 0.4


def test_few_groups_widen_the_interval():
    rng = np.random.default_rng(0)
    groups = np.arange(400) // 20
    z = rng.normal(size=20)[groups][:, None]
    guess = rng.normal(size=20)[groups][:, None]
    assert explained_interval(guess, z, 0.05, groups)[1] > 3 * explained_interval(guess, z, 0.05)[1]


def test_what_rows_can_rule_out_is_ruled_out_four_times_in_five():
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        z, guess = rng.normal(size=(2, 300, 1))
        found.append(explained_interval(guess, z, 0.05)[1] <= smallest_share(300, 0.05))
    assert np.mean(found) == pytest.approx(0.8, abs=0.1)


def test_the_test_of_independence_sees_more_than_the_mean():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(300, 3)), rng.uniform(size=300)
    assert two_sample_test(X, z).p_value > 0.05
    assert two_sample_test(X * (0.5 + z[:, None]), z).p_value < 0.01
    with pytest.raises(ValueError, match="n_permutations=0"):
        two_sample_test(X, z, n_permutations=0)


def test_the_test_of_independence_is_the_dense_hsic():
    import torch

    from unspot.evaluation.two_sample import (
        BANDWIDTHS,
        _in_metric,
        _NumberFeatures,
        _quadratic_forms,
    )

    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    Y = _in_metric(X, "raw")
    features = _NumberFeatures(Number(z), None, None)
    psi = features.permuted(np.arange(40), None, None, 1, rng)[:, 0]
    assert np.abs(psi.mean(axis=0)).max() < 1e-6
    found = _quadratic_forms(Y, psi[:, None], BANDWIDTHS, None, None)[:, 0]
    squared = torch.cdist(Y, Y).square()
    for value, bandwidth in zip(found, BANDWIDTHS, strict=True):
        K = torch.exp(-squared / bandwidth) - float(np.exp(-1 / bandwidth))
        K.fill_diagonal_(0.0)
        assert value == pytest.approx(float((K * torch.as_tensor(psi @ psi.T)).sum()), rel=1e-4)


# -- data sets, certificates and evaluations of a number -------------------------------------------


@pytest.fixture(scope="module")
def leaky():
    rows = concept_law("quadratic", n=1600, d=5)
    return rows, Dataset.from_arrays(rows.X, rows.z, random_state=0)


def test_a_certificate_says_how_much_of_the_variance(leaky):
    rows, data = leaky
    how = {"attackers": ["ridge", "quadratic"], "budget": "quick"}
    found = certify(None, data, margin=0.1, **how)
    assert (found.verdict, found.kind, found.chance) == ("LEAKS", "continuous", 0.0)
    assert found.rows_of_class == {}
    assert found.strongest.name == "quadratic"
    assert 0.3 < found.after == found.strongest.score
    assert found.lower_bound < rows.best < found.upper_bound
    assert "attackers explain" in found.statement
    assert "of the variance before" in found.statement
    assert "% of the variance (95 % confidence" in found.statement
    assert Certificate.from_dict(json.loads(found.to_json())) == found
    rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    clean = certify(Eraser.projection(rest), data, margin=0.04, **how)
    assert clean.verdict == "HOLDS"
    assert clean.before == pytest.approx(found.after, abs=0.03)
    assert "R²" in str(clean)


def test_the_margin_is_a_share_of_the_variance(leaky):
    _, data = leaky
    how = {"attackers": ["ridge"], "budget": "quick"}
    blind = lambda X: np.zeros_like(X)  # noqa: E731
    found = certify(blind, data, margin=0.03, **how)
    assert found.verdict == "HOLDS"
    strict = dataclasses.replace(found, margin=0.001)
    assert strict.verdict == "INCONCLUSIVE"
    assert strict.rows_needed > 5 * found.n_rows
    assert "cannot" in strict.next_step or "no eraser" in strict.next_step


def test_evaluate_has_the_rows_of_a_number(leaky):
    _, data = leaky
    eraser = LEACE().fit(data.train.X, data.train.z)
    result = evaluate(eraser, data, metrics=["linear", "attack", "two_sample", "variance"])
    assert result["linear"].after.mean < 0.02
    assert result["attack"].after.mean > 0.05  # a square is no line
    assert result["two_sample"].after.mean < 0.05
    assert "R²" in result["attack"].label
    assert result.details["attackers"]["after"][0]["name"] == "ridge"
    with pytest.raises(ValueError, match=r"'mdl'.*classes"):
        evaluate(eraser, data, metrics=["mdl"])
    assert "mdl" not in evaluate(None, data, metrics=["variance"])


def test_a_number_as_task_has_no_accuracy(leaky):
    rows, _ = leaky
    data = Dataset.from_arrays(rows.X, rows.z, rows.z + rows.X[:, 0], random_state=0)
    row = evaluate(None, data, metrics=["task_linear"])["task_linear"]
    assert row.label == "Task R², ridge"
    assert "a ridge regression" in row.note


def test_cross_fitting_of_a_number():
    """Where the unseen rows are too few, every row is judged after a fit on others."""
    rows = concept_law("linear", n=110, d=4)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    eraser = LEACE().fit(data.train.X, data.train.z)
    row = evaluate(eraser, data, metrics=["attack"])["attack"]
    assert "fold by fold on 110 rows" in row.note
    assert row.before.mean > 0.2 > 0.1 > row.after.mean
    few = Dataset.from_arrays(rows.X[:80], rows.z[:80], random_state=0)
    row = evaluate(LEACE().fit(few.train.X, few.train.z), few, metrics=["attack"])["attack"]
    assert row.after is None
    assert "attackers need at least 40 to learn a number" in row.note


def test_whole_numbers_are_a_number_if_one_says_so():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, size=600)
    X = rng.normal(size=(600, 3)) + age[:, None] / 20
    data = Dataset.from_arrays(X, age, kind="continuous", random_state=0)
    assert "numbers from 20 to 79" in repr(data)
    found = certify(None, data, attackers=["ridge"], budget="quick", margin=0.1)
    assert (found.verdict, found.kind) == ("LEAKS", "continuous")
    with pytest.raises(ValueError, match=r"kind.*'continous'.*continuous"):
        Dataset.from_arrays(X, age, kind="continous")


def test_bad_rows_of_a_number_are_refused(leaky):
    _, data = leaky
    X, z = data.test.X, data.test.z
    with pytest.raises(ValueError, match=r"30 rows in each half.*40 to learn a number"):
        certify(None, X[:60], z[:60])
    same = Split(X, np.full(len(X), 0.5))
    with pytest.raises(ValueError, match="same number in every row of these rows"):
        certify(None, Dataset(None, same, same))
    rows = concept_law("linear", n=1600, d=3)
    with pytest.raises(ValueError, match=r"2 groups.*at least 3"):
        Dataset.from_arrays(rows.X, rows.z, groups=np.repeat([0, 1], [100, 1500]))


def test_bins_hold_about_as_many_rows():
    values = np.random.default_rng(0).exponential(size=1000)
    assert set(np.bincount(Number(values[:, None]).bins(4))) == {250}
    assert len(np.unique(Number(np.array([[1.0], [1.0], [1.0], [2.0]])).bins(4))) == 2


def test_splits_of_a_number_are_stratified_and_joined():
    rows = concept_law("linear", n=900, d=3)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    means = [np.mean(split.z) for split in data]
    assert np.ptp(means) < 0.06  # of unstratified parts about twice as much
    first, second = data.test.halves(0)
    assert len(first.joined(second)) == len(data.test)
