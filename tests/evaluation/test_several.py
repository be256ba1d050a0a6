"""Several concepts, each and together, and what rows tell beyond a task that is known."""

import json

import numpy as np
import pytest

from unspot import LEACE, Dataset, Eraser, certify, evaluate
from unspot.data.dataset import OTHERS, parts_of
from unspot.datasets.synthetic import concept_law
from unspot.evaluation import Certificate
from unspot.evaluation.measure import can_cross_fit

QUICK = {"attackers": ["logistic", "quadratic"], "budget": "quick"}


@pytest.fixture(scope="module")
def jointly():
    rows = concept_law("jointly", n=3000, d=4)
    return rows, Dataset.from_arrays(rows.X, rows.z, random_state=0)


def test_two_concepts_that_hide_each_and_leak_together(jointly):
    rows, data = jointly
    found = certify(None, data, margin=0.1, **QUICK)
    verdicts = {name: part.verdict for name, part in found.parts.items()}
    assert verdicts == {"first": "HOLDS", "second": "HOLDS", "first × second": "LEAKS"}
    assert (found.verdict, found.concept) == ("LEAKS", "first × second")
    assert found.lower_bound < rows.best < found.upper_bound
    assert {part.alpha for part in found.parts.values()} == {0.05 / 3}
    assert found.statement.startswith("Worst of 3 concepts and combinations. First × second: ")
    assert "98.33 % confidence" in found.statement
    lines = str(found).splitlines()
    assert all(any(line.startswith(name) for line in lines) for name in found.parts)
    assert Certificate.from_dict(json.loads(found.to_json())) == found


def test_the_worst_is_that_of_the_largest_bound_without_a_margin(jointly):
    _, data = jointly
    found = certify(None, data, **QUICK)
    assert found.verdict is None
    assert found.concept == max(found.parts, key=lambda name: found.parts[name].upper_bound)
    assert {part.verdict for part in found.parts.values()} == {None}
    forged = {**found.to_dict(), "parts": {"first": {**found.to_dict(), "metadata": 1}}}
    with pytest.raises(ValueError, match=r"metadata"):
        Certificate.from_dict(json.loads(json.dumps(forged)))


def test_labels_with_the_separator_make_cells_of_their_own():
    n = 800
    first = np.where(np.arange(n) % 2, "x / y", "x")
    second = np.where(np.arange(n) // 2 % 2, "y / z", "z")
    data = Dataset.from_arrays(np.zeros((n, 1)), {"a": first, "b": second}, random_state=0)
    cells = parts_of(data)[-1].data.test.z
    assert len(set(cells)) == 4


def test_without_the_direction_all_hold(jointly):
    rows, data = jointly
    rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    assert certify(Eraser.projection(rest), data, margin=0.12, **QUICK).verdict == "HOLDS"


def test_rows_without_a_value_are_left_out_of_that_concept():
    rows = concept_law("jointly", n=900, d=3)
    first = rows.z["first"].astype(object)
    first[:200] = None
    data = Dataset.from_arrays(rows.X, {**rows.z, "first": first}, random_state=0)
    found = certify(lambda X: 0 * X, data, margin=0.2, **QUICK)
    assert found.parts["first"].n_rows < found.parts["second"].n_rows
    assert max(part.after for part in found.parts.values()) == 0.0


def test_rows_of_an_evaluation_say_which_concept(cheap):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    age, y = 40 + 9 * X[:, 0] + rng.normal(size=800), np.arange(800) % 2
    data = Dataset.from_arrays(
        X, {"age": age, "sex": np.where(X[:, 1] > 0, "f", "m")}, y, random_state=0
    )
    result = evaluate(None, data, metrics=["linear", "attack", "variance", "fairness"], seeds=1)
    keys = [row.key for row in result]
    assert keys.count("variance") == 1
    assert {"linear:age", "linear:sex", "attack:age × sex", "tpr_gap:sex"} <= set(keys)
    assert "tpr_gap:age" not in keys
    assert result["linear:age"].before.mean > 0.9  # R²
    assert "sex" in result["attack:sex"].label
    assert result.metadata["kinds"] == {"age": "continuous", "sex": "categories"}


def test_a_table_of_one_column_names_its_concept():
    rows = concept_law("linear", n=500, d=3)
    data = Dataset.from_arrays(rows.X, {"age": rows.z}, random_state=0)
    found = certify(None, data, attackers=["ridge"], budget="quick")
    assert (found.concept, dict(found.parts)) == ("age", {})
    assert found.statement.startswith("Age: attackers explain")


def test_rare_combinations_are_merged_or_named():
    rng = np.random.default_rng(0)
    n = 1000
    table = {
        "a": rng.integers(2, size=n),
        "b": rng.choice(5, size=n, p=[0.4, 0.4, 0.1, 0.08, 0.02]),
    }
    data = Dataset.from_arrays(rng.normal(size=(n, 2)), table, random_state=0)
    *_, cells = parts_of(data)
    assert cells.name == "a × b"
    assert OTHERS in cells.data.test.z
    assert "counted as one class" in cells.note
    assert np.bincount(np.unique(cells.data.test.z, return_inverse=True)[1]).min() >= 20
    many = {"a": np.arange(n) % 20, "b": np.arange(n) // 20 % 20}
    parts = parts_of(Dataset.from_arrays(rng.normal(size=(n, 2)), many, random_state=0))
    assert [part.name for part in parts] == ["a", "b", "a × b"] or "not attacked" in parts[-1].note


def test_an_error_names_the_concept():
    rng = np.random.default_rng(0)
    z = np.array(["x"] * 57 + ["y"] * 3)
    data = Dataset.from_arrays(rng.normal(size=(60, 2)), {"a": z, "b": np.arange(60) % 2})
    with pytest.raises(ValueError, match=r"^a: Got"):
        certify(None, data)


def test_one_of_a_table_and_none_of_one(jointly):
    _, data = jointly
    with pytest.raises(ValueError, match=r"'frist'.*Did you mean 'first'"):
        data.of("frist")
    with pytest.raises(ValueError, match=r"one concept.*table"):
        data.of("first").of("first")
    with pytest.raises(ValueError, match="kind='continuous' for a table"):
        Dataset.from_arrays(np.zeros((9, 1)), {"a": np.arange(9)}, kind="continuous")


# -- given the task --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tasked():
    rows = concept_law("given", n=2000, d=4)
    return rows, Dataset.from_arrays(rows.X, rows.z, rows.y, random_state=0)


def test_what_follows_from_the_task_is_no_leak_given_it(tasked):
    _, data = tasked
    assert certify(None, data, margin=0.1, **QUICK).verdict == "LEAKS"
    found = certify(None, data, given="y", margin=0.15, **QUICK)
    assert (found.verdict, found.given, found.chance) == ("HOLDS", "y", 0.5)
    assert "attackers who know y" in found.statement
    assert "(guessing among those alike in y: 50.0 %)" in found.statement
    assert found.p_value > 0.01
    assert any("What y alone reveals" in line for line in found.scope["Not covered"])
    assert Certificate.from_dict(json.loads(found.to_json())) == found


def test_what_rows_add_to_the_task_is_a_leak(tasked):
    _, data = tasked
    told = data.mapped(
        lambda split: type(split)(split.X + 0.6 * split.z[:, None], split.z, split.y)
    )
    found = certify(None, told, given="y", margin=0.05, **QUICK)
    assert found.verdict == "LEAKS"


def test_a_number_given_the_task():
    rng = np.random.default_rng(0)
    y = np.arange(1500) % 3
    X = rng.normal(size=(1500, 3)) + y[:, None]
    z = y + rng.normal(size=1500)
    how = {"attackers": ["ridge", "quadratic"], "budget": "quick", "margin": 0.05}
    assert certify(None, X, z, **how).verdict == "LEAKS"
    found = certify(None, X, z, given={"job": y}, **how)
    assert (found.verdict, found.given) == ("HOLDS", "job")
    assert found.chance == pytest.approx(0.4, abs=0.06)
    assert "(job alone: " in found.statement
    told = certify(None, X, z + 0.5 * (X[:, 0] - y), given=y, **how)
    assert told.verdict == "LEAKS"
    truth = 0.25 / (0.25 + 1 + 2 / 3)  # of the variance, beyond what y explains
    assert told.lower_bound < truth < told.upper_bound


@pytest.mark.parametrize("known", ["labels", "number", "table"])
@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_known_may_be_anything_and_rows_in_groups(known, grouped):
    """The rows tell a number of a person, and the concept follows from it: no leak given it."""
    rng = np.random.default_rng(0)
    n = 1200
    age = rng.normal(size=n)
    young = np.where(age < 0, "young", "old")
    X = rng.normal(size=(n, 3)) + 2 * age[:, None]
    z = age + 2 * rng.normal(size=n) > 0
    if known == "labels":
        X[:], z = rng.normal(size=(n, 3)), np.where(rng.random(n) < 0.2, age < 0, age > 0)
        X[:, 0] += 2 * (age > 0)
    given = {"labels": young, "number": age, "table": {"age": age, "young": young}}[known]
    groups = np.arange(n) // 2 if grouped else None
    how = {"groups": groups, "attackers": ["logistic"], "budget": "quick", "margin": 0.15}
    assert certify(None, X, z, **how, random_state=1).lower_bound > 0.05
    found = certify(None, X, z, given=given, **how)
    assert found.verdict == "HOLDS"
    assert found.n_groups == (n // 2 if grouped else None)
    assert found.given == ("age, young" if known == "table" else "what is given")
    assert (found.p_value is None) == grouped
    told = certify(None, X + 2 * z[:, None] * [0, 0, 1], z, given=given, **how)
    assert told.verdict == "LEAKS"


def test_cross_fitting_fits_given_the_task_again():
    """Without given=y the fits on folds would be other erasers than the one that is measured."""
    rows = concept_law("given", n=110, d=8)
    data = Dataset.from_arrays(rows.X, rows.z, rows.y, random_state=0)
    fits = []

    class Watched(LEACE):
        def _fit_rows(self, X, goal):
            fits.append(goal)
            return super()._fit_rows(X, goal)

    def measured(eraser):
        fits.clear()
        return evaluate(eraser, data, metrics=["attack"])["attack"].note

    plain = Watched().fit(data.train.X, data.train.z)
    assert "fold by fold" in measured(plain)
    assert not any(goal.conditions for goal in fits)
    given = Watched().fit(data.train.X, data.train.z, given=data.train.y)
    assert "fold by fold" in measured(given)
    assert len(fits) == 5
    assert all(goal.given is not None for goal in fits)
    other = Watched().fit(data.train.X, data.train.z, given=np.arange(len(data.train)) % 5 + 7)
    assert "undefined" in measured(other)
    assert [can_cross_fit(one, data) for one in (plain, given, other)] == [True, True, False]


def test_a_cell_of_one_row_is_left_out_and_counted():
    """A row that is alone with its task and class cannot be compared with any other."""
    rng = np.random.default_rng(1)
    X, z, y = rng.normal(size=(900, 3)), np.arange(900) % 2, np.arange(900) // 2 % 4
    rare = np.flatnonzero((y == 3) & (z == 1))
    rows = np.setdiff1d(np.arange(900), rare[1:])
    found = certify(None, X[rows], z[rows], given=y[rows], **QUICK)
    assert found.p_value > 0.01
    note = "Rows left out: 1, each the only one with its class and given label."
    assert note in found.sentences


@pytest.mark.filterwarnings("ignore:Got no value of given")
def test_a_gap_in_what_is_known_is_known_itself(tasked):
    """What rows add counts where values are missing; what the gaps themselves tell does not."""
    rows, _ = tasked
    gaps = np.arange(len(rows.y)) % 4 == 0
    job, where = np.where(gaps, None, rows.y), (rows.X, rows.z)
    full, some = (certify(None, *where, given={"job": y}, **QUICK) for y in (rows.y, job))
    assert some.before > full.before + 0.02
    rng = np.random.default_rng(0)
    score = rng.random(len(gaps))
    score[(rows.z == rows.z[0]) & (rng.random(len(gaps)) < 0.7)] = np.nan
    found = certify(None, rng.normal(size=rows.X.shape), rows.z, given={"score": score}, **QUICK)
    assert max(one.advantage for one in found.attackers) < 0.1


def test_what_determines_the_concept_is_not_known(tasked):
    rows, _ = tasked
    scanner = np.array(["A", "B"])[np.unique(rows.z, return_inverse=True)[1]]
    age = np.random.default_rng(0).normal(size=len(scanner))
    for given in (scanner, {"age": age, "scanner": scanner}):
        with pytest.raises(ValueError, match=r"function of what is given.*two.*leave given out"):
            certify(None, rows.X, rows.z, given=given, **QUICK)


def test_a_class_that_the_fit_did_not_have():
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(600, 4)), np.array(["Bonn", "Lyon", "Oslo"])[np.arange(600) % 3]
    eraser = LEACE().fit(X[:300], np.where(site == "Oslo", "Lyon", site)[:300])
    with pytest.warns(UserWarning, match="class Oslo.*fitted on others.*Fit it again"):
        certify(eraser, X[300:], site[300:], **QUICK)
    other = np.array(["f", "m"])[np.arange(300) % 2]  # another concept: no word about its classes
    certify(eraser, X[300:], other, **QUICK)


@pytest.mark.parametrize("leak", [0.0, 1.2])
def test_attackers_predict_from_covariates_as_well_as_the_baseline(leak):
    """Age in bands decides the site for three of four rows: trees see it, a logistic does not."""
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 90, 3000)
    often = ((age < 35) | ((age > 55) & (age < 75))).astype(int)
    z = np.where(rng.random(3000) < 0.75, often, 1 - often)
    X = rng.normal(size=(3000, 40))
    X[:, 0] += leak * (z - 0.5)
    attackers = ["logistic", "trees"]
    found = certify(None, X, z, given={"age": age}, budget="quick", attackers=attackers)
    if leak:  # without covariates, a logistic model is right on 73 %
        assert found.lower_bound > 0.12
    else:
        assert found.lower_bound <= 0.01 < found.upper_bound < 0.08


def test_a_concept_that_covariates_decide_by_a_product_is_no_leak():
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(2000, 10)), rng.normal(size=(2000, 8))
    z = (rng.random(2000) < np.where(A[:, :3].prod(axis=1) > 0, 0.95, 0.05)).astype(int)
    given = {f"a{i}": column for i, column in enumerate(A.T)}
    found = certify(None, X, z, given=given, budget="quick", attackers=["interactions", "trees"])
    assert found.lower_bound <= 0


def test_covariates_may_be_a_data_frame():
    import pandas as pd

    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(300, 3)), np.arange(300) % 2
    frame = pd.DataFrame({"age": rng.normal(50, 10, size=300), "names": np.arange(300) % 3})
    found = certify(None, X, z, given=frame, **QUICK)
    assert found.given == "age, names"
    assert certify(None, X, z, given=frame[["age"]], **QUICK).given == "age"


def test_a_class_of_few_rows_that_nothing_can_be_merged_with_is_said():
    from unspot.data.concept import read_covariate

    with pytest.warns(UserWarning, match=r"sex.*class of fewer than 10 rows.*too few to learn"):
        read_covariate({"sex": ["f"] * 3 + ["m"] * 97}, "given", 100, fewest=10)
    assert read_covariate(np.arange(8) / 3, "given", 8, fewest=10).kind == "continuous"  # no class
