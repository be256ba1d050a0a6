"""The whole evaluation on rows with known answers, every way to pass an eraser, and bad input."""

import dataclasses
import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

from unspot import LEACE, Dataset, Eraser, certify, evaluate
from unspot.evaluation import Evaluation, neighbour_overlap, variance_kept
from unspot.evaluation.evaluations import score
from unspot.evaluation.measure import erased, erased_split
from unspot.evaluation.metrics import METRICS, ROWS, Side

CONCEPT = {
    "chance", "linear", "attack", "mdl", "mdl_prior", "two_sample", "neighbours", "variance",
}  # fmt: skip
TASK = {
    "task_linear", "tpr_gap", "tpr_gap_correlation", "demographic_parity",
    "equalised_odds",
}  # fmt: skip


def arrays(n=1200, n_classes=2, seed=0):
    """The concept is in the first coordinate, the task in the second, biased by the concept."""
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 5))
    X[:, 0] += 4 * z
    X[:, 1] += 3 * y + z
    return X, np.array(["f", "m", "x", "u"])[z], np.array(["judge", "nurse", "poet"])[y]


@pytest.fixture(scope="module")
def data():
    return Dataset.from_arrays(*arrays(), random_state=0, name="jobs")


@pytest.fixture(scope="module")
def eraser():
    return Eraser.projection(np.eye(5)[:, 1:], method="dropped")


@pytest.fixture(scope="module")
def found(data, eraser):
    return evaluate(eraser, data, seeds=2)


def test_every_metric_has_a_row(found):
    assert {row.key for row in found} == CONCEPT | TASK
    assert found.name == "dropped on jobs"
    for row in found:
        assert row.label
        for value in (row.before, row.after):
            assert value is None or np.isfinite(value.mean)


def test_a_row_is_what_its_entry_says(found):
    asked_for = ("recall_at_1", "ndcg", "same_source", "ilisi", "robustness", "utility")
    assert [row.key for row in found] == [key for key in ROWS if key not in asked_for]
    for row in found:
        assert (row.label, row.unit, row.direction) == ROWS[row.key]


def test_titles_and_results_need_neither_torch_nor_pandas():
    """Results are read from files, and drawn, in light processes."""
    code = """
import sys
import unspot.evaluation.certificate, unspot.evaluation.metrics, unspot.evaluation.evaluations
print(sorted({"torch", "pandas", "sklearn"} & set(sys.modules)))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_before_the_concept_is_there(found, data):
    counts = np.unique(data.test.z, return_counts=True)[1]
    assert found["chance"].before.mean == counts.max() / counts.sum()
    assert found["linear"].before.mean > 0.95
    assert found["attack"].before.mean > 0.95
    assert found["mdl"].before.mean < 0.5 * found["mdl_prior"].before.mean
    assert found["two_sample"].before.mean < 0.01
    assert found["mdl_prior"].note.endswith("finds nothing else costs a little more.")


def test_after_less_of_it_is_there(found):
    """The second coordinate still tells a little: the erasure is not complete."""
    for key in ("linear", "attack"):
        assert found[key].after.mean < found[key].before.mean - 0.2
    assert found["mdl"].after.mean > 1.5 * found["mdl"].before.mean
    assert found["mdl"].after.mean < 1.05 * found["mdl_prior"].after.mean


def test_utility_is_that_of_the_single_functions(found, data, eraser):
    erased = eraser(data.test.X)
    assert found["neighbours"].after.mean == neighbour_overlap(data.test.X, erased)
    assert found["variance"].after.mean == pytest.approx(variance_kept(data.test.X, erased))
    assert found["neighbours"].before.mean == found["variance"].before.mean == 1.0


def test_fairness_is_that_of_the_logistic_regression(data):
    """Its gaps are those of the predictions that the task's accuracy counts."""
    from unspot.evaluation.utility import fairness

    side = Side(data, data)
    before = side.fairness(side.linear_task.predictions.argmax(axis=1))
    found = evaluate(None, data, metrics=["task_linear", "fairness"])
    assert found["task_linear"].after.mean == before.accuracy
    assert found["tpr_gap"].after.mean == before.rms_gap
    labels = {record["label"] for record in found.details["gaps"]}
    assert labels == set(map(str, data.test.y))
    perfect = fairness(data.test.y, data.test.y, data.test.z)
    assert perfect.rms_gap == 0 < before.rms_gap


def test_a_task_label_of_too_few_rows_leaves_the_logistic_regression_undefined(data):
    y = np.asarray(data.train.y).copy()
    y[np.flatnonzero(y == "poet")[3:]] = "judge"
    rare = dataclasses.replace(data, train=dataclasses.replace(data.train, task=y))
    row = evaluate(lambda X: X, rare, metrics=["task_linear"])["task_linear"]
    assert (row.before, row.after) == (None, None)
    assert row.note == ("undefined: a label has too few rows to learn from. Merge it with another.")


def test_a_task_label_without_test_rows_still_has_an_accuracy(data):
    some = data.test.take(np.flatnonzero(data.test.y != "poet"))
    row = evaluate(lambda X: X, dataclasses.replace(data, test=some), metrics=["task_linear"])[
        "task_linear"
    ]
    assert row.before.mean > 0.8
    assert "undefined" not in row.note


def test_too_few_train_rows_for_the_task_are_counted(data):
    few = dataclasses.replace(data, train=data.train.take(np.arange(36)))
    row = evaluate(lambda X: X, few, metrics=["task_linear"])["task_linear"]
    assert row.after is None
    assert row.note == "undefined: 36 train rows, where 3 classes need 40."


@pytest.mark.halvings
def test_the_strongest_attacker_is_that_of_certify(data, found, eraser):
    """One number for the same rows, budget and seed, on rows that the eraser has not seen."""
    unseen = certify(eraser, data, budget="quick")
    scored = score(eraser, data, ["attack"]).after
    assert found["attack"].after.mean == unseen.strongest.score == scored["attack"]
    assert found["attack"].before.mean == unseen.before + 0.5
    shown = found.details["attackers"]["after"]
    low, high = next(a["interval"] for a in shown if a["name"] == unseen.strongest.name)
    assert (low - 0.5, high - 0.5) == pytest.approx(unseen.strongest.interval)
    assert f"{100 * high:.1f} %" in found["attack"].note
    assert f"learned from one half of {unseen.n_rows} rows" in found["attack"].note
    assert "(budget quick)" in found["attack"].note


@pytest.mark.halvings
def test_the_statement_is_that_of_certify(data, found, eraser):
    """But for what is kept, which an evaluation measures on the test rows."""
    first, bound, kept = found.statement.split("\n")
    certified = certify(eraser, data, budget="quick").statement.split("\n")
    assert first == certified[0]
    assert bound.split(" confidence")[0] == certified[1].split(" confidence")[0]
    assert kept.startswith("Kept: ")
    for text in ("the task", "neighbours"):
        assert text in kept
        assert text in certified[2]
    assert str(found).split("\n\n")[1] == found.statement
    assert evaluate(eraser, data, metrics=["linear"]).statement == ""


def test_too_few_unseen_rows_are_no_evidence(data, eraser):
    """A frozen eraser cannot be fitted again; an estimator is cross-fitted."""
    some = np.arange(20)
    few = dataclasses.replace(
        data, validation=data.validation.take(some), test=data.test.take(some)
    )
    row = evaluate(eraser, few, metrics=["attack"])["attack"]
    assert row.after is None
    assert "undefined: got 20 rows in each half" in row.note
    estimator = LEACE().fit(few.train.X, few.train.z)
    row = evaluate(estimator, few, metrics=["attack"], random_state=1)["attack"]
    assert f"fold by fold on {len(few.train) + 40} rows" in row.note
    assert row.before.mean > 0.9 > row.after.mean


def test_rows_of_the_fit_are_no_evidence_either(data):
    eraser = LEACE().fit(data.validation.X, data.validation.z).eraser_
    row = evaluate(eraser, data, metrics=["attack"])["attack"]
    assert row.after is None
    assert re.search(r"fitted on about \d+ % of these rows", row.note)


def test_what_lies_behind_the_rows(found, data):
    attackers = {side: {a["name"]: a for a in found.details["attackers"][side]} for side in (
        "before", "after",
    )}  # fmt: skip
    assert attackers["before"].keys() == attackers["after"].keys()
    named = found["attack"].note.split(" after: ")[0].split(", ")[-1]
    assert found["attack"].after.mean == attackers["after"][named]["balanced_accuracy"]
    records = found.details["gaps"]
    assert {(r["class"], r["label"]) for r in records} == {
        (c, y) for c in ("f", "m") for y in ("judge", "nurse", "poet")
    }
    share = np.mean(data.test.z[data.test.y == "poet"] == "f")
    assert next(r for r in records if (r["class"], r["label"]) == ("f", "poet"))[
        "share"
    ] == pytest.approx(share)


def test_metadata_say_what_was_measured(found, data):
    assert found.metadata["eraser"]["method"] == "dropped"
    assert found.metadata["eraser"]["rank"] == 4
    assert found.metadata["n_rows"] == {"train": len(data.train), "test": len(data.test)}
    assert found.metadata["seeds"] == 2
    assert "torch" in found.metadata["versions"]
    assert set(found.metadata["seconds"]) <= set(METRICS)


def test_json_and_back(found):
    assert Evaluation.from_json(found.to_json()) == found


def test_the_same_seed_gives_the_same_numbers(data, eraser):
    names = ["mdl", "two_sample"]
    first, second = (evaluate(eraser, data, metrics=names, seeds=2).rows for _ in range(2))
    assert first == second
    other = evaluate(eraser, data, metrics=names, seeds=2, random_state=1)
    assert other.rows != first


def test_every_way_to_pass_an_eraser(data, eraser):
    class Estimator:
        def transform(self, X):
            return eraser(X)

    expected = evaluate(eraser, data, metrics=["linear", "neighbours"]).rows
    for way in (Estimator(), lambda X: eraser(X)):
        assert evaluate(way, data, metrics=["linear", "neighbours"]).rows == expected


@pytest.mark.parametrize("measure", [evaluate, certify])
def test_a_function_may_return_tensors(data, measure):
    """Even such as numpy does not convert by itself, since they have a gradient."""
    import torch

    P = torch.eye(5, dtype=torch.float64, requires_grad=True)
    options = {"metrics": ["linear"]} if measure is evaluate else {"attackers": ["logistic"]}
    found = measure(lambda X: torch.as_tensor(X) @ P, data, **options)
    expected = measure(None, data, **options)
    assert getattr(found, "rows", found) == getattr(expected, "rows", expected)


def test_no_eraser_leaves_the_rows_as_they_are(data):
    found = evaluate(None, data, metrics=["variance"])
    assert found.name == "no erasure on jobs"
    assert found["variance"].after.mean == 1.0


def test_erased_rows_of_the_splits_that_are_asked_for(data, eraser):
    np.testing.assert_array_equal(erased_split(eraser, data.train).X, eraser(data.train.X))
    np.testing.assert_array_equal(erased(eraser, data).test.X, eraser(data.test.X))
    with pytest.raises(ValueError, match=r"5 in train, 1 in validation.*same number"):
        erased(lambda X: X if len(X) == len(data.train) else X[:, :1], data)


def test_a_fitted_estimator_names_itself(data):
    found = evaluate(LEACE().fit(data.train.X, data.train.z), data, metrics=["linear"])
    assert found.name == "LEACE on jobs"
    assert found["linear"].after.mean < 0.65
    assert found.metadata["eraser"]["classes"] == ["f", "m"]


def test_reduced_rows_are_taken_as_they_are(data, eraser):
    found = evaluate(eraser.reduce, data, metrics=["linear", "neighbours"])
    assert found.metadata["n_features_erased"] == 4
    same = evaluate(eraser, data, metrics=["neighbours"])
    assert found["neighbours"].after.mean == same["neighbours"].after.mean


def test_without_a_task():
    bare = Dataset.from_arrays(*arrays()[:2], random_state=0)
    assert {row.key for row in evaluate(lambda X: X, bare, seeds=1)} == CONCEPT


def test_fifty_classes_as_strings():
    rng = np.random.default_rng(0)
    z = np.array([f"class {c}" for c in rng.permutation(np.arange(2500) % 50)])
    data = Dataset.from_arrays(rng.normal(size=(2500, 4)), z, random_state=0)
    found = evaluate(lambda X: X, data, seeds=1)
    assert found["chance"].after.mean == pytest.approx(0.02, rel=0.2)
    assert found["attack"].after.mean < 0.06
    assert found["mdl"].after.mean == pytest.approx(found["mdl_prior"].after.mean, rel=0.05)


def test_more_than_two_classes_have_fairness_too():
    data = Dataset.from_arrays(*arrays(n_classes=4), random_state=0)
    found = evaluate(lambda X: X, data, metrics="fairness")
    assert {row.key for row in found} == TASK - {"task_linear"}


def test_an_empty_cell_is_named(data):
    X, z, y = arrays()
    y[(z == "f") & (y == "poet")] = "nurse"
    data = Dataset.from_arrays(X, z, y, random_state=0)
    row = evaluate(lambda X: X, data, metrics=["fairness"], seeds=1)["tpr_gap"]
    assert "(f, poet)" in row.note


# -- several erasers -------------------------------------------------------------------------------


def test_several_erasers_share_one_table(data, eraser, cheap):
    half = Eraser.projection(np.eye(5)[:, [0, 2, 3, 4]])
    found = evaluate({"first": eraser, "second": half}, data, metrics=["attack", "task_linear"])
    alone = evaluate(half, data, metrics=["attack", "task_linear"])
    assert found["second"].rows == alone.rows
    assert list(found) == ["first", "second"]
    header = found.to_markdown().splitlines()[0]
    assert header == "| Metric | Before | first | second |"
    assert [d.metric for d in found.differences] == ["attack", "task_linear"]
    attack, task = found.differences
    rows = found["second"]["attack"], found["first"]["attack"]
    assert attack.value == pytest.approx(rows[0].after.mean - rows[1].after.mean)
    assert attack.interval[0] > 0.2  # the concept's coordinate is left
    assert task.interval[1] < 0  # and the task's is gone
    assert "between" in str(attack)
    assert json.loads(found.to_json())["evaluations"].keys() == {"first", "second"}


@pytest.mark.parametrize("kind", ["classes", "number", "grouped"])
def test_erasers_that_these_rows_cannot_tell_apart(kind, cheap):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(900, 4)), np.arange(900) % 2
    X[:, 0] += 2 * z
    more = {"groups": np.arange(900) // 3} if kind == "grouped" else {}
    labels = X[:, 0] + rng.normal(size=900) if kind == "number" else z
    data = Dataset.from_arrays(X, labels, random_state=0, **more)
    same = {"a": Eraser.projection(np.eye(4)[:, 1:]), "b": Eraser.projection(np.eye(4)[:, 1:3])}
    (difference,) = evaluate(same, data, metrics=["attack"]).differences
    low, high = difference.interval
    assert low < 0 < high
    assert "these rows cannot tell them apart" in str(difference)
    apart = {"all": None, "b": same["b"]}
    (difference,) = evaluate(apart, data, metrics=["attack"]).differences
    assert difference.interval[1] < 0


# -- combinations of kinds, which default metrics must allow ---------------------------------------


def people(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    sex = np.where(X[:, 0] + rng.normal(size=n) > 0, "f", "m").astype(object)
    age = 40 + 9 * X[:, 1] ** 2 + rng.normal(size=n)
    return X, sex, age


@pytest.mark.parametrize("grouped", [False, True])
def test_default_metrics_of_several_concepts(grouped, cheap):
    """Of each, of their combination, and a statement about the worst."""
    X, sex, age = people()
    sex[:120] = None
    more = {"groups": np.arange(len(X)) // 2} if grouped else {}
    data = Dataset.from_arrays(X, {"sex": sex, "age": age}, random_state=0, **more)
    found = evaluate(None, data, seeds=1)
    for name in ("sex", "age", "sex × age"):
        assert found[f"attack:{name}"].after.mean > 0.2
    assert found.statement.startswith(("Sex", "Age"))


def test_default_metrics_of_a_number():
    X, _, age = people()
    data = Dataset.from_arrays(X, age, random_state=0)
    found = evaluate(LEACE().fit(data.train.X, data.train.z), data)
    assert {"linear", "attack", "two_sample"} <= {row.key for row in found}
    assert found["attack"].label.endswith("R²")
    assert "of the variance" in found.statement


def test_a_number_as_task_is_an_r_squared_in_the_statement():
    X, _, age = people()
    data = Dataset.from_arrays(X, np.arange(len(X)) % 2, age, random_state=0)
    statements = [
        evaluate(None, data, metrics=["attack", "task_linear"]).statement,
        certify(None, data, budget="quick", attackers=["logistic"]).statement,
    ]
    assert all("the task R² " in said and "% " not in said.split("R²")[1] for said in statements)


def test_one_measurement_has_no_spread(data):
    """One classifier, one order of the rows."""
    found = evaluate(None, data, metrics=["fairness", "mdl"], seeds=1)
    assert all(row.after is None or row.after.spread is None for row in found)


def test_a_dataset_has_its_own_columns(data, eraser):
    for name in ("z", "task", "groups", "pairs"):
        with pytest.raises(ValueError, match=f"Dataset and {name}.*leave them out"):
            evaluate(eraser, data, **{name: data.test.z})


def test_without_rows_of_the_fit(data, eraser):
    unseen = dataclasses.replace(data, train=None)
    found = evaluate(eraser, unseen, seeds=1)
    assert {row.key for row in found} == CONCEPT | TASK
    assert found["attack"] == evaluate(eraser, data, metrics=["attack"])["attack"]


# -- bad input -------------------------------------------------------------------------------------


def test_a_task_that_the_concept_decides_is_warned_about():
    X, z, _ = arrays()
    data = Dataset.from_arrays(X, z, np.where(z == "f", "yes", "no"), random_state=0)
    with pytest.warns(UserWarning, match="task labels that are a function of the concept"):
        found = evaluate(lambda X: X, data, metrics=["fairness"], seeds=1)
    assert found["tpr_gap"].after is None
    assert "undefined" in found["tpr_gap"].note
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(lambda X: X, data, metrics=["chance"])


def test_labels_unseen_in_training_are_refused(data, eraser):
    strange = dataclasses.replace(data.test, concept=np.where(data.test.z == "f", "x", data.test.z))
    with pytest.raises(ValueError, match="Got no row of class x in the train split"):
        evaluate(eraser, dataclasses.replace(data, test=strange))
    strange = dataclasses.replace(data.test, task=np.where(data.test.y == "poet", "king", "nurse"))
    strange = dataclasses.replace(data, test=strange)
    row = evaluate(eraser, strange, metrics=["task_linear"])["task_linear"]
    assert "too few rows to learn from" in row.note


def test_a_split_without_a_class_is_refused(data, eraser):
    only = data.test.take(np.flatnonzero(data.test.z == "f"))
    with pytest.raises(ValueError, match="Got no row of class m in the test split"):
        evaluate(eraser, dataclasses.replace(data, test=only))
    only = data.train.take(np.flatnonzero(data.train.z == "f"))
    with pytest.raises(ValueError, match="Got no row of class m in the train split"):
        evaluate(eraser, dataclasses.replace(data, train=only))


def test_a_continuous_concept_is_evaluated_as_it_is_or_by_bins():
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 60, size=800)
    X = rng.normal(size=(800, 4))
    X[:, 0] += age / 5
    eraser = LEACE().fit(X, age)
    row = evaluate(eraser, Dataset.from_arrays(X, age, random_state=0), metrics="linear")["linear"]
    assert row.before.mean > 0.6  # R²
    assert row.after.mean < 0.02
    bins = np.digitize(age, np.quantile(age, [0.25, 0.5, 0.75]))
    row = evaluate(eraser, Dataset.from_arrays(X, bins, random_state=0), metrics="linear")["linear"]
    assert row.before.mean > 0.6
    assert row.after.mean < 0.35


def test_erased_rows_of_another_length_are_refused(data, eraser):
    with pytest.raises(ValueError, match=r"Got erased rows of shape \(10, 5\) for .* original"):
        evaluate(lambda X: X[:10], data)
    with pytest.raises(ValueError, match="values of NaN or infinity in X"):
        evaluate(lambda X: np.where(X > 1, np.nan, X), data)


def test_what_is_no_eraser_is_refused(data):
    with pytest.raises(ValueError, match="Got the class LEACE, but expected a fitted eraser"):
        evaluate(LEACE, data)
    with pytest.raises(ValueError, match="Got an eraser of type int, but expected a fitted"):
        evaluate(3, data)
    with pytest.raises(ValueError, match="Got data of type ndarray, but expected an unspot"):
        evaluate(lambda X: X, data.train.X)


def test_bad_options_are_refused(data, eraser):
    with pytest.raises(ValueError, match=r"Got metric 'mld', but .* Did you mean 'mdl'"):
        evaluate(eraser, data, metrics=["mld"])
    with pytest.raises(ValueError, match=r"budget='huge'.*'quick'.*'thorough'"):
        evaluate(eraser, data, budget="huge")
    with pytest.raises(ValueError, match="Got seeds=0, but expected"):
        evaluate(eraser, data, metrics=["mdl"], seeds=0)
    with pytest.raises(ValueError, match="Got no eraser"):
        evaluate({}, data)
    X, z, y = arrays()
    with pytest.raises(ValueError, match="task of 2 columns"):
        evaluate(eraser, X, z, task={"a": y, "b": z})
    bare = Dataset.from_arrays(*arrays()[:2], random_state=0)
    with pytest.raises(ValueError, match=r"metric 'fairness'.*'data' have no task labels"):
        evaluate(eraser, bare, metrics=["fairness"])
