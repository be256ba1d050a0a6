"""The certificate: what it finds, what it says, and how often it is wrong."""

import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from scipy.stats import norm

from unspot import LEACE, Cascade, Certificate, Dataset, Eraser, Split, certify
from unspot.datasets.synthetic import law
from unspot.erasers import PCAProjection
from unspot.evaluation.inference import effective_rows

FAST = ("logistic", "quadratic")


@pytest.fixture(scope="module")
def rows():
    return law("variance", n=1500, d=5)


@pytest.fixture(scope="module")
def data(rows):
    names = np.array(["female", "male"])
    return Dataset.from_arrays(rows.X, names[rows.z], random_state=0)


@pytest.fixture(scope="module")
def perfect(rows):
    """An eraser of the whole concept, and of nothing else."""
    return Eraser.projection(np.linalg.svd(rows.concept_basis)[0][:, 2:])


@pytest.fixture(scope="module")
def leaking(data):
    return certify(None, data, budget="quick")


@pytest.fixture(scope="module")
def clean(data, perfect):
    return certify(perfect, data, budget="quick")


def test_what_leaks_is_found(leaking, rows):
    assert leaking.leaks
    assert leaking.strongest.name in ("quadratic", "rbf", "mlp-64", "trees", "waves")
    assert leaking.advantage == leaking.strongest.advantage > 0.2
    low, high = leaking.strongest.interval
    assert low < leaking.advantage < high == leaking.upper_bound
    assert low < rows.bayes_accuracy - 0.5 + 0.03
    assert leaking.attack_p_value == leaking.strongest.p_value == 0.001
    assert leaking.p_value < 0.01


def test_what_is_erased_is_not(clean):
    assert not clean.leaks
    assert clean.attack_p_value > 0.025
    assert clean.p_value > 0.025
    assert clean.upper_bound < 0.2


def test_a_linear_eraser_is_blind_to_a_variance(data):
    eraser = LEACE().fit(data.train.X, data.train.z)
    found = certify(eraser, data, attackers=FAST)
    line, curve = found.attackers
    assert found.leaks
    assert line.p_value > 0.025 > curve.p_value


def test_intervals_are_corrected_for_the_attackers_tried(clean, data, perfect):
    alone = certify(perfect, data, attackers=["logistic"], budget="quick")
    among = next(report for report in clean.attackers if report.name == "logistic")
    assert alone.attackers[0].accuracy == among.accuracy
    counts = np.unique(data.test.z, return_counts=True)[1]
    spread = (0.25 / effective_rows(counts)) ** 0.5
    for report, m in ((alone.attackers[0], 1), (among, 7)):
        low, high = report.interval
        assert low < report.advantage < high
        assert (high - low) / (2 * spread) == pytest.approx(norm.isf(0.025 / m), rel=0.05)
    assert alone.detectable < clean.detectable
    assert clean.majority == counts.max() / clean.n_test_rows
    assert clean.chance == 0.5


@pytest.mark.parametrize("kind", ["estimator", "function"])
def test_erasers_of_every_kind(data, perfect, kind):
    class Estimator:
        def transform(self, X):
            return perfect(X)

    eraser = {"estimator": Estimator(), "function": lambda X: perfect(X)}[kind]
    found = certify(eraser, data, attackers=["logistic"])
    assert found == certify(perfect, data, attackers=["logistic"])


def test_one_seed_one_certificate(data, perfect):
    first, again, other = (
        certify(perfect, data, attackers=["mlp-64"], budget="quick", random_state=s)
        for s in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_seen_rows_are_said_to_be_seen(data, perfect):
    seen = certify(perfect, data, attackers=FAST, attack_rows="seen")
    assert seen.n_attack_rows == len(data.train)
    assert "rows that the eraser was fitted on" in str(seen)
    unseen = certify(perfect, data, attackers=FAST)
    assert unseen.n_attack_rows == len(data.validation)
    assert "rows that the eraser was not fitted on" in str(unseen)


def test_an_eraser_fitted_on_what_it_is_judged_on_is_refused(data):
    with pytest.raises(ValueError, match="fitted on the test split"):
        certify(LEACE().fit(data.test.X, data.test.z), data)
    on_validation = LEACE().fit(data.validation.X, data.validation.z)
    with pytest.raises(ValueError, match="fitted on the validation split"):
        certify(on_validation.eraser_, data)
    assert certify(on_validation, data, attackers=["logistic"], attack_rows="seen")


def test_rows_are_known_again_in_any_order_and_company(data):
    eraser = LEACE().fit(data.train.X, data.train.z)
    rng = np.random.default_rng(0)

    def judged_on(X, z):
        return certify(eraser, Dataset(data.train, data.validation, Split(X, z)), attackers=FAST)

    order = rng.permutation(len(data.train))
    shuffled = data.train.take(order)
    with pytest.raises(ValueError, match="fitted on the test split"):
        judged_on(shuffled.X, shuffled.z)
    with pytest.raises(ValueError, match="fitted on the test split"):
        judged_on(shuffled.X.astype(np.float32), shuffled.z)
    some = data.train.take(order[:300])
    with pytest.raises(ValueError, match=r"fitted on (about \d+ % of )?the test split"):
        judged_on(some.X, some.z)
    X, z = (np.concatenate(pair) for pair in ((some.X, data.test.X), (some.z, data.test.z)))
    with pytest.raises(ValueError, match=r"fitted on about [2-6]\d % of the test split"):
        judged_on(X, z)


def test_rows_to_learn_from_are_not_those_to_judge_on(data, perfect):
    """Learned by heart, independent labels are a leak of 23 points."""
    same = Dataset(data.train, data.test, data.test)
    with pytest.raises(ValueError, match="Got 100 % of the test split in the validation split too"):
        certify(perfect, same, attackers=FAST)
    same = Dataset(data.test, data.validation, data.test)
    with pytest.raises(ValueError, match=r"in the train split too.*by heart.*from_arrays"):
        certify(perfect, same, attackers=FAST, attack_rows="seen")


def test_rows_of_few_values_are_in_every_split():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(600, 4)).astype(float)
    data = Dataset.from_arrays(X, rng.integers(0, 2, 600), random_state=0)
    assert certify(None, data, attackers=["logistic"], budget="quick")


def test_a_row_that_occurs_twice_is_no_reason_to_refuse(data):
    X = np.concatenate([data.train.X[:1], data.test.X])
    z = np.concatenate([data.train.z[:1], data.test.z])
    eraser = LEACE().fit(data.train.X, data.train.z)
    assert len(eraser.eraser_.metadata["known_rows"]) > 50  # the first row among them
    rows = Dataset(data.train, data.validation, Split(X, z))
    assert certify(eraser, rows, attackers=["logistic"])


def test_it_is_plain_and_frozen_data(leaking):
    read = json.loads(leaking.to_json())
    assert read == json.loads(json.dumps(leaking.to_dict()))
    assert read["strongest"] == leaking.strongest.name
    assert read["leaks"] is True
    assert {"name", "accuracy", "balanced_accuracy", "advantage", "interval"} <= set(
        read["attackers"][0]
    )
    with pytest.raises(FrozenInstanceError):
        leaking.leaks = False


def test_it_says_what_it_is_about(data):
    eraser = LEACE().fit(data.train.X, data.train.z)
    found = json.loads(certify(eraser, data, attackers=["logistic"], random_state=3).to_json())
    about = found["metadata"]
    assert about["eraser"]["method"] == "LEACE"
    assert about["eraser"]["fingerprint"] == eraser.eraser_.metadata["fingerprint"]
    assert "known_rows" not in about["eraser"]
    assert (about["data"], about["random_state"]) == (data.name, 3)
    assert "unspot" in about["versions"]


def test_numbers_are_no_classes(data, perfect):
    rng = np.random.default_rng(0)
    ages = Dataset(*(Split(s.X, rng.normal(size=len(s))) for s in data))
    found = certify(perfect, ages, attackers=["ridge"])
    assert (found.kind, found.n_classes, found.rows_of_class) == ("continuous", 0, {})


def test_it_prints_as_a_table_from_the_strongest_down(leaking):
    lines = str(leaking).splitlines()
    assert lines[0] == "Certificate: LEAKS"
    assert lines[1] == f"About: {leaking.subject}."
    assert lines[2] == leaking.sentence
    header = next(i for i, line in enumerate(lines) if line.startswith("attacker"))
    listed = [line.split() for line in lines[header + 1 : header + 7]]
    accuracies = [float(cells[1]) for cells in listed]
    assert accuracies == sorted(accuracies, reverse=True)
    assert listed[0][0] == leaking.strongest.name
    assert len({len(line) for line in lines[header : header + 7]}) == 1


def test_the_sentence_says_what_was_found(leaking, clean):
    assert leaking.sentence.startswith(f"The concept leaks: {leaking.strongest.name} is right on")
    assert "every class counted alike" in leaking.sentence
    assert "points better than guessing (50.0 %)" in leaking.sentence
    assert "Luck alone does as well as the attackers with p = 0.001" in leaking.sentence
    assert "cannot decide" in clean.sentence
    bound = f"{100 * clean.upper_bound:.1f} points (95 %)"
    assert f"up to {bound}" in clean.sentence
    assert "margin of 5.0 points" in clean.sentence
    holds = replace(clean, margin=0.2)
    assert holds.sentence.startswith("The erasure holds")
    assert "where 0.025 would be a leak" in holds.sentence
    assert f"at most {bound}" in holds.sentence
    assert "small leak was found" in replace(holds, attack_p_value=0.001).sentence
    assert "either at 0.025 or below is a leak" in str(clean)
    detectable = f"An advantage of {100 * clean.detectable:.1f} points or more"
    assert f"{detectable} of one of these attackers would have been detected" in clean.sentence
    only_law = replace(clean, p_value=0.005)
    assert "but the classes still differ in distribution (p = 0.005)" in only_law.sentence
    guesses = tuple(replace(r, advantage=-0.01, p_value=0.003) for r in clean.attackers)
    below = replace(clean, attackers=guesses, attack_p_value=0.003)
    assert "beats guessing (50.0 %) on 450 test rows" in below.sentence
    assert "follow the concept (p = 0.003)" in below.sentence
    assert "too few test rows" in replace(clean, detectable=None).sentence


def test_three_verdicts(clean, leaking):
    """HOLDS needs a bound within the margin and no difference in distribution."""
    assert (leaking.verdict, leaking.leaks) == ("LEAKS", True)
    assert (clean.verdict, clean.leaks) == ("INCONCLUSIVE", False)
    enough = replace(clean, margin=clean.upper_bound)
    assert enough.verdict == "HOLDS"
    assert replace(enough, attack_p_value=0.001).verdict == "HOLDS"  # a small leak, within it
    assert replace(clean, attack_p_value=0.001).verdict == "LEAKS"
    assert replace(enough, p_value=0.001).verdict == "LEAKS"
    assert [c.to_dict()["verdict"] for c in (clean, enough)] == ["INCONCLUSIVE", "HOLDS"]


def test_rare_rows_are_inconclusive(rows):
    """Nine test rows of a class cannot show that it is gone."""
    rng = np.random.default_rng(0)
    z = np.arange(3000) % 100 == 0
    data = Dataset.from_arrays(rng.normal(size=(3000, 4)), z, random_state=0)
    found = certify(None, data, attackers=FAST)
    assert found.verdict == "INCONCLUSIVE"
    assert found.rows_of_class == {"False": 891, "True": 9}


def test_each_verdict_has_a_next_step(clean, leaking):
    needed = clean.rows_needed
    assert f"about {needed:,} test rows" in clean.next_step
    # An interval of a quarter of the width takes sixteen times as many rows.
    assert replace(clean, margin=clean.margin / 4).rows_needed > 10 * needed
    assert clean.next_step in str(clean)
    assert replace(clean, margin=0.0).rows_needed > needed  # and no division by zero
    assert "rank" in leaking.next_step
    assert "Certify again" in replace(clean, margin=0.3).next_step


@pytest.mark.parametrize(
    ("estimator", "advice"),
    [
        (LEACE(), "LEACE has no rank to lower"),
        (Cascade(second=PCAProjection(rank=4)), "Lower the rank (it is 4"),
    ],
)
def test_a_rank_is_lowered_only_where_there_is_one(data, estimator, advice):
    found = certify(estimator.fit(data.train.X, data.train.z), data, attackers=["quadratic"])
    assert found.verdict == "LEAKS"
    assert found.next_step.startswith(advice)


def test_enough_rows_are_enough(perfect):
    """As many rows as an inconclusive certificate asks for decide, nearly always."""
    small, large = (law("variance", n=n, d=5) for n in (1500, 30_000))
    few = Dataset.from_arrays(small.X, small.z, random_state=0)
    asked = certify(perfect, few, attackers=FAST).rows_needed
    assert len(few.test) < asked < 8000
    many = Dataset.from_arrays(large.X, large.z, random_state=0)
    judged = replace(many, test=many.test.take(np.arange(int(1.2 * asked))))
    assert certify(perfect, judged, attackers=FAST).verdict == "HOLDS"


def test_cross_fitting_finds_leaks_and_raises_no_alarm(data):
    """Every row is judged once; twenty laws without a leak give at most three alarms."""
    found = certify(LEACE().fit(data.train.X, data.train.z), data, attackers=FAST,
                    attack_rows="cross-fit")  # fmt: skip
    assert found.leaks  # LEACE leaves the variance
    assert found.n_test_rows == 1500
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, z = rng.normal(size=(200, 4)), rng.permutation(np.arange(200) % 2)
        null = Dataset.from_arrays(X, z, random_state=0)
        eraser = LEACE().fit(null.train.X, null.train.z)
        alarms += certify(eraser, null, attackers=FAST, attack_rows="cross-fit").leaks
    assert alarms <= 3


def test_cross_fitting_needs_an_estimator_and_rows(data, perfect):
    with pytest.raises(ValueError, match=r"'cross-fit' and Eraser, .*estimator"):
        certify(perfect, data, attack_rows="cross-fit")
    few = Dataset(*(split.take(np.arange(20)) for split in data))
    eraser = LEACE().fit(data.train.X, data.train.z)
    with pytest.raises(ValueError, match=r"Got 60 rows, .*needs at least 100"):
        certify(eraser, few, attack_rows="cross-fit")


def test_many_classes_with_names():
    rng = np.random.default_rng(0)
    z = np.array([f"class {k}" for k in range(50)])[np.arange(3000) % 50]
    data = Dataset.from_arrays(rng.normal(size=(3000, 4)), z, random_state=0)
    found = certify(None, data, attackers=FAST, budget="quick")
    assert not found.leaks
    assert found.n_classes == 50


def test_a_rare_class_does_not_hide_the_leak():
    """Nobody beats always guessing the common class, and still the rare one is told from it."""
    rng = np.random.default_rng(0)
    z = np.where(rng.random(4000) < 0.05, "rare", "common")
    X = rng.normal(size=(4000, 3))
    X[:, 0] += 1.0 * (z == "rare")
    found = certify(None, Dataset.from_arrays(X, z, random_state=0), attackers=["logistic"])
    assert found.leaks
    assert found.strongest.accuracy <= found.majority + 0.01
    best = norm.cdf(0.5) - 0.5  # of any rule, for means one apart
    low, high = found.strongest.interval
    assert 0 < low < best < high
    assert found.advantage > 0.1


def test_bad_input_is_named(data, perfect):
    with pytest.raises(ValueError, match=r"alpha=1\.5, but expected a number between 0 and 1"):
        certify(perfect, data, alpha=1.5)
    with pytest.raises(ValueError, match=r"alpha=1e-06, but expected at least 0\.0001.*larger"):
        certify(perfect, data, alpha=1e-6)
    with pytest.raises(
        ValueError, match=r"data of type tuple, but expected an unspot.Dataset.*from_arrays"
    ):
        certify(perfect, (data.test.X, data.test.z))
    with pytest.raises(ValueError, match="attack_rows='test', but expected 'unseen' or 'seen'"):
        certify(perfect, data, attack_rows="test")
    with pytest.raises(ValueError, match=r"eraser of type str.*fitted estimator.*None"):
        certify("gender.safetensors", data)
    with pytest.raises(ValueError, match=r"class LEACE.*fitted eraser.*\.fit\("):
        certify(LEACE, data)
    with pytest.raises(ValueError, match=r"shape \(3, 5\).*300.*one for each"):
        certify(lambda X: X[:3], data)
    with pytest.raises(ValueError, match="budget='slow'"):
        certify(perfect, data, budget="slow")
    with pytest.raises(ValueError, match="NaN or infinity"):
        certify(lambda X: X * np.nan, data)


def test_bad_splits_are_named(data, perfect):
    def with_(validation=data.validation, test=data.test):
        return Dataset(data.train, validation, test)

    one_class = data.test.take(np.flatnonzero(data.test.z == "male"))
    other = Split(data.test.X, np.where(data.test.z == "male", "other", data.test.z))
    with pytest.raises(ValueError, match="no row of class female in the test split"):
        certify(perfect, with_(test=one_class))
    with pytest.raises(ValueError, match="no row of class other in the validation split"):
        certify(perfect, with_(test=other))
    with pytest.raises(ValueError, match=r"Got 30 rows in the validation split.*at least 40"):
        certify(perfect, with_(validation=data.validation.take(np.arange(30))))
    with pytest.raises(ValueError, match=r"Got 20 rows in the test split.*at least 30"):
        certify(perfect, with_(test=data.test.take(np.arange(20))))
    with pytest.raises(ValueError, match="no rows in the test split"):
        certify(perfect, with_(test=data.test.take(np.arange(0))))


@pytest.mark.parametrize("alpha", [0.002, 0.0005])
def test_a_clear_leak_is_found_at_any_alpha(data, alpha):
    """Either half of alpha can be reached, by the attackers and by the two-sample test."""
    found = certify(None, data, attackers=FAST, budget="quick", alpha=alpha)
    assert found.leaks
    assert found.attack_p_value <= alpha / 2
    assert found.p_value <= alpha / 2
    assert f"{found.attack_p_value:.1g}" in str(found).split("bits")[1]


def test_a_small_alpha_costs_no_permutations_where_nothing_is_found(data, perfect, clean):
    strict = certify(perfect, data, budget="quick", alpha=0.0001)
    assert not strict.leaks
    assert strict.p_value == clean.p_value
    assert [r.p_value for r in strict.attackers] == [r.p_value for r in clean.attackers]


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised():
    """Labels independent of the rows; benchmarks/power.py has hundreds of repetitions."""
    alarms = 0
    for i in range(12):
        rng = np.random.default_rng(i)
        X, z = rng.normal(size=(600, 5)), rng.integers(2, size=600)
        data = Dataset.from_arrays(X, z, random_state=i)
        alarms += certify(None, data, budget="quick", random_state=i).leaks
    assert alarms <= 3  # more have a probability of 0.2 %


# -- plain data, and a second run -----------------------------------------------------------------


def test_plain_data_and_back(clean):
    assert Certificate.from_dict(clean.to_dict()) == clean
    assert Certificate.from_dict(json.loads(clean.to_json())) == clean


def test_a_second_run_is_the_same(clean, data, perfect):
    again = certify(perfect, data, budget="quick")
    earlier = Certificate.from_dict(json.loads(clean.to_json()))
    assert again.differences_from(earlier) == ()


def test_another_eraser_and_other_rows_are_noticed(clean, data, rows, perfect):
    other = Eraser.projection(np.linalg.svd(rows.concept_basis)[0][:, 3:])
    changed = np.where(np.arange(len(data.test)) < 3, -data.test.X[:, 0], data.test.X[:, 0])
    test = replace(data.test, X=np.column_stack([changed, data.test.X[:, 1:]]))
    for eraser, judged in ((other, data), (perfect, replace(data, test=test))):
        found = certify(eraser, judged, budget="quick").differences_from(clean)
        assert any("digest" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"margin": 0.2}, "margin is"),
        ({"budget": "standard"}, "budget is"),
        ({"n_test_rows": 7}, "n_test_rows is 7"),
        ({"attack_p_value": 1e-9}, "the verdict is LEAKS"),
    ],
)
def test_what_differs_is_named(clean, change, needle):
    found = " ".join(replace(clean, **change).differences_from(clean))
    assert needle in found


def test_numbers_may_differ_by_a_point(clean):
    def moved(by):
        first, *others = clean.attackers
        return replace(clean, attackers=(replace(first, advantage=first.advantage - by), *others))

    assert moved(0.009).differences_from(clean) == ()
    (sentence,) = moved(0.03).differences_from(clean)
    assert clean.attackers[0].name in sentence


def test_the_scope_says_what_the_adversary_has(clean):
    scope = clean.scope
    text = " ".join(scope["The adversary has"] + scope["The adversary may"])
    assert f"{clean.n_attack_rows:,}" in text
    assert all(report.name in text for report in clean.attackers)
    assert any("rows from before erasure" in sentence for sentence in scope["Not covered"])
    assert any("labelled rows" in sentence for sentence in scope["Certify again when"])
