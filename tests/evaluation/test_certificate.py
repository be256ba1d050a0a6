"""The certificate: what it finds, what it says, and how often it is wrong."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from html import escape, unescape

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from unspot import LEACE, Certificate, Dataset, Eraser, Split, certify, evaluate, rank_path
from unspot.choice.selection import advantage_bound
from unspot.data.concept import read_covariate
from unspot.datasets.synthetic import law
from unspot.erasers import PCAProjection
from unspot.evaluation.certificate import TOLERANCE, UtilityKept, verdict_of
from unspot.evaluation.inference import effective_rows

pytestmark = pytest.mark.halvings
FAST = {"attackers": ("logistic", "quadratic"), "budget": "quick"}


@pytest.fixture(scope="module")
def rows():
    return law("variance", n=1500, d=5)


@pytest.fixture(scope="module")
def data(rows):
    names = np.array(["female", "male"])
    return Dataset.from_arrays(rows.X, names[rows.z], random_state=0, concept="gender")


@pytest.fixture(scope="module")
def perfect(rows):
    """An eraser of the whole concept, and of nothing else."""
    return Eraser.projection(np.linalg.svd(rows.concept_basis)[0][:, 2:])


@pytest.fixture(scope="module")
def linear(data):
    """An eraser that is blind to a variance."""
    return LEACE().fit(data.train.X, data.train.z)


@pytest.fixture(scope="module")
def leaking(data):
    return certify(None, data, budget="quick", margin=0.05)


@pytest.fixture(scope="module")
def clean(data, perfect):
    return certify(perfect, data, budget="quick", margin=0.05)


# -- What is found ---------------------------------------------------------------------------------


def test_what_leaks_is_found_and_bounded(leaking, rows):
    """The best attacker there is lies between the bounds."""
    assert leaking.verdict == "LEAKS"
    assert leaking.strongest.name in ("quadratic", "rbf", "mlp-64", "trees", "waves")
    assert leaking.after == leaking.strongest.advantage == leaking.strongest.score - 0.5
    best = rows.bayes_accuracy - 0.5
    assert 0.2 < leaking.lower_bound < best < leaking.upper_bound < best + 0.1
    assert leaking.before == pytest.approx(leaking.after, abs=0.02)
    assert leaking.p_value < 0.01


def test_what_is_erased_is_not(clean, leaking, linear, data):
    assert clean.verdict == "INCONCLUSIVE"
    assert clean.lower_bound < 0.01 < clean.upper_bound < 0.15
    assert clean.p_value > 0.05
    other = certify(linear, data, budget="quick")
    assert clean.before == other.before  # of the original rows, whatever the eraser
    assert 0.8 < clean.removed <= 1
    assert leaking.removed == pytest.approx(0, abs=0.1)


def test_a_linear_eraser_is_blind_to_a_variance(data, linear):
    found = certify(linear, data, margin=0.1, **FAST)
    line, curve = found.attackers
    assert found.verdict == "LEAKS"
    assert line.interval[0] < 0.05 < 0.1 < curve.interval[0]


def test_the_interval_covers_the_best_attacker_there_is():
    """A mean shift is best told by a line, which the logistic regression nearly finds."""
    alpha, missed, found = 0.2, 0, law("mean", n=8, d=3)
    for seed in range(20):
        X, z = found.sample(400, random_state=seed)
        one = certify(None, X, z, attackers=["logistic"], budget="quick", alpha=alpha)
        missed += not one.lower_bound < found.bayes_accuracy - 0.5 < one.upper_bound
    assert missed <= 9  # four expected; more than nine have a probability of 0.3 %


def test_intervals_are_corrected_for_the_attackers_tried(clean, data, perfect):
    alone = certify(perfect, data, attackers=["logistic"], budget="quick")
    among = next(report for report in clean.attackers if report.name == "logistic")
    assert alone.attackers[0].score == among.score
    counts = np.array(list(clean.rows_of_class.values()))
    assert counts.sum() == clean.n_rows == len(data.validation) + len(data.test)
    spread = (0.25 / effective_rows(counts)) ** 0.5
    widths = []
    for report, m in ((alone.attackers[0], 1), (among, len(clean.attackers))):
        low, high = report.interval
        assert low < report.advantage < high
        widths.append((high - low) / (2 * spread))  # in deviations, if both recalls are a half
        assert 0.9 < widths[-1] / norm.isf(0.025 / m) < 1.02
    corrected = norm.isf(0.025 / len(clean.attackers)) / norm.isf(0.025)
    assert widths[1] / widths[0] == pytest.approx(corrected, rel=0.02)
    assert alone.confirmable < clean.confirmable


def test_bounds_shrink_with_rows(rows, perfect):
    few, many = (certify(perfect, *rows.sample(n, random_state=0), **FAST) for n in (400, 6400))
    for name in ("upper_bound", "confirmable"):
        assert getattr(many, name) < getattr(few, name) / 2


def test_a_seed_changes_the_bound_only_a_little(rows, perfect):
    """Half of a standard error of the score, where one halving would have more."""
    X, z = rows.sample(600, random_state=0)
    found = [certify(perfect, X, z, **FAST, random_state=seed) for seed in range(6)]
    error = 0.5 / 600**0.5
    assert np.std([one.upper_bound for one in found]) < 0.5 * error
    assert len({one.upper_bound for one in found}) > 1
    assert all(0 <= one.spread < 2 * error for one in found)


def test_one_seed_one_certificate(data, perfect):
    how = {"attackers": ["mlp-64"], "budget": "quick"}
    first, again, other = (certify(perfect, data, **how, random_state=s) for s in (0, 0, 1))
    assert first == again
    assert first != other


def test_arrays_are_as_good_as_a_dataset(data, perfect):
    whole = data.validation.joined(data.test)
    assert certify(perfect, whole.X, whole.z, **FAST) == certify(perfect, data, **FAST)


@pytest.mark.parametrize("kind", ["estimator", "function"])
def test_erasers_of_every_kind(data, perfect, kind):
    class Estimator:
        def transform(self, X):
            return perfect(X)

    eraser = {"estimator": Estimator(), "function": lambda X: perfect(X)}[kind]
    assert certify(eraser, data, **FAST) == certify(perfect, data, **FAST)


def test_one_number_wherever_it_is_measured():
    """evaluate, certify and the bound of a path: the same rows, budget and seed."""
    small = law("variance", n=400, d=5)
    data = Dataset.from_arrays(small.X, small.z, random_state=0)
    linear = LEACE().fit(data.train.X, data.train.z)
    effort = {"budget": "quick", "random_state": 3}
    found = certify(linear, data, **effort)
    measured = evaluate(linear, data, metrics=["attack"], **effort)
    assert measured["attack"].after.mean == found.strongest.score
    assert measured["attack"].before.mean == found.before + found.chance
    ends = {one["name"]: one["interval"] for one in measured.details["attackers"]["after"]}
    assert ends[found.strongest.name] == pytest.approx([0.5 + e for e in found.strongest.interval])
    path = rank_path(PCAProjection(), data, [4])
    rows, seed = data.validation, path.random_state
    for effort in ("quick", FAST["attackers"]):
        named = {"budget": effort} if effort == "quick" else {"attackers": effort}
        alone = certify(path[4].eraser, rows.X, rows.z, **named, random_state=seed)
        assert advantage_bound(path, path[4], effort) == pytest.approx(alone.upper_bound)


def test_many_classes_with_names():
    rng = np.random.default_rng(0)
    z = np.array([f"class {k}" for k in range(50)])[np.arange(3000) % 50]
    found = certify(None, rng.normal(size=(3000, 4)), z, margin=0.05, **FAST)
    assert found.verdict == "HOLDS"
    assert (found.chance, len(found.rows_of_class)) == (0.02, 50)


def test_a_rare_class_does_not_hide_the_leak():
    """Nobody beats always guessing the common class, and still the rare one is told from it."""
    rng = np.random.default_rng(0)
    z = np.where(rng.random(4000) < 0.05, "rare", "common")
    X = rng.normal(size=(4000, 3))
    X[:, 0] += 1.0 * (z == "rare")
    found = certify(None, X, z, attackers=["logistic"], budget="quick", margin=0.05)
    assert found.verdict == "LEAKS"
    best = norm.cdf(0.5) - 0.5  # of any rule, for means one apart
    assert 0 < found.lower_bound < best < found.upper_bound


def test_rare_rows_are_inconclusive():
    """Thirty rows of a class cannot show that it is gone."""
    z = np.arange(3000) % 100 == 0
    X = np.random.default_rng(0).normal(size=(3000, 4))
    found = certify(None, X, z, margin=0.1, **FAST)
    assert found.verdict == "INCONCLUSIVE"
    assert found.rows_of_class == {"False": 2970, "True": 30}


@pytest.mark.parametrize("alpha", [0.05, 0.0005])
def test_a_clear_leak_is_found_at_any_alpha(data, alpha):
    found = certify(None, data, alpha=alpha, margin=0.1, **FAST)
    assert found.verdict == "LEAKS"
    assert f"({100 * (1 - alpha):.4g} % confidence, 750 rows" in found.statement


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_promised():
    """Labels independent of the rows; benchmarks/coverage.py has hundreds of repetitions."""
    alarms, how = 0, {"attackers": ["logistic", "quadratic"], "budget": "quick"}
    for i in range(12):
        rng = np.random.default_rng(i)
        X, z = rng.normal(size=(300, 5)), rng.integers(2, size=300)
        alarms += certify(None, X, z, margin=0, random_state=i, **how).verdict == "LEAKS"
    assert alarms <= 3  # more have a probability of 0.2 %


# -- Repeats, and rows of the fit ------------------------------------------------------------------


def test_repeats_of_noise_are_counted_once_and_stay_noise():
    """Copies on both sides of a halving would be learned by heart."""
    leaks, how = 0, {"attackers": ["rbf"], "budget": "quick"}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, z = rng.normal(size=(400, 5)), rng.integers(2, size=400)
        copied = np.concatenate([np.arange(400), np.arange(20)])
        found = certify(None, X[copied], z[copied], margin=0.0, **how)
        leaks += found.verdict == "LEAKS"
        assert (found.n_rows, found.n_repeats) == (400, 20)
        assert "Exact repeats of rows, which counted once: 20." in found.sentences
        assert found.p_value > 0.005
        assert found.upper_bound == certify(None, X, z, margin=0.0, **how).upper_bound
    assert leaks <= 1


def test_rows_of_few_values_are_no_copies():
    """Sixteen different rows: that they meet again says nothing."""
    rng = np.random.default_rng(0)
    X, z = rng.integers(0, 2, size=(600, 4)).astype(float), rng.integers(0, 2, 600)
    found = certify(None, X, z, **FAST)
    assert (found.n_rows, found.n_repeats) == (600, 0)
    counts = rng.poisson(0.8, size=(600, 4)).astype(float)
    eraser = LEACE().fit(counts[:300], z[:300])
    fresh = certify(eraser, counts[300:], z[300:], **FAST)  # many of them met by chance
    assert not fresh.new_rows
    assert "could not be checked" in str(fresh)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float16])
def test_rows_of_the_fit_are_known_in_any_type(dtype):
    rng = np.random.default_rng(0)
    X, z = rng.integers(0, 40, size=(300, 6)).astype(dtype), np.arange(300) % 2
    with pytest.raises(ValueError, match="fitted on these rows"):
        certify(LEACE().fit(X, z), X, z, **FAST)


def test_the_order_of_rows_decides_nothing(data, linear):
    rows = data.validation.joined(data.test)
    order = np.random.default_rng(0).permutation(len(rows))
    found = certify(linear, rows.X, rows.z, **FAST)
    again = certify(linear, rows.X[order], rows.z[order], **FAST)
    assert (again.after, again.upper_bound, again.before) == pytest.approx(
        (found.after, found.upper_bound, found.before)
    )
    assert again.kept[-1].after == pytest.approx(found.kept[-1].after, abs=1e-3)


def test_rows_of_the_fit_are_refused_in_any_order_and_company(data, linear):
    train, test = data.train, data.test
    order = np.random.default_rng(0).permutation(len(train))
    both = np.concatenate([train.X[order[:300]], test.X])
    z = np.concatenate([train.z[order[:300]], test.z])
    for eraser, X, labels, share in (
        (linear, train.X, train.z, ""),
        (linear.eraser_, train.X[order], train.z[order], ""),
        (linear, train.X[order].astype(np.float32), train.z[order], ""),
        (linear, both, z, r"about [2-6]\d % of "),
    ):
        with pytest.raises(ValueError, match=f"fitted on {share}these rows.*Keep some rows away"):
            certify(eraser, X, labels, **FAST)
    chosen = LEACE().fit(data.validation.X, data.validation.z)
    with pytest.raises(ValueError, match=r"fitted on about \d+ % of these rows.*path\.unseen"):
        certify(chosen, data, **FAST)


def test_a_row_that_occurs_twice_is_no_reason_to_refuse(data, linear):
    X = np.concatenate([data.train.X[:1], data.test.X])
    z = np.concatenate([data.train.z[:1], data.test.z])
    found = certify(linear, X, z, **FAST)
    assert "451 rows that no fit has seen" in found.statement


# -- The verdict, and the words --------------------------------------------------------------------


def test_the_verdict_is_a_function_of_bounds_and_margin():
    for low in (-0.1, 0.0, 0.02, 0.05, 0.2):
        for high in (low, low + 0.03, low + 0.2):
            for margin in (0.0, 0.02, 0.05, 0.2, 1.0):
                found = verdict_of(low, high, margin)
                assert (found == "HOLDS") == (high <= margin)
                assert (found == "LEAKS") == (low > margin)


@pytest.mark.parametrize(("margin", "verdict"), [(0.02, "LEAKS"), (0.06, "INCONCLUSIVE"),
                                                 (0.2, "HOLDS"), (None, None)])  # fmt: skip
def test_nothing_but_the_margin_decides(make_certificate, margin, verdict):
    """Bounds of +4.7 to +10.7 points."""
    found = make_certificate(0.41, margin=margin)
    assert found.verdict == verdict == found.to_dict()["verdict"]
    for change in (
        {"p_value": 1e-9}, {"p_value": 1.0}, {"p_value": None}, {"before": 0.0},
        {"confirmable": 0.5}, {"spread": 0.3}, {"n_rows": 7}, {"budget": "thorough"},
    ):  # fmt: skip
        assert replace(found, **change).verdict == verdict
    said = found.decision
    assert said.startswith(f"{verdict}: ") if verdict else "of at least 10.7 points" in said


def test_the_test_has_a_sentence_of_its_own(clean):
    differ = "the classes still differ in distribution (p = 0.005)"
    assert "do not differ detectably" in clean.test_sentence
    assert differ in replace(clean, p_value=0.005).test_sentence
    assert "cannot be permuted" in replace(clean, p_value=None).test_sentence
    number = replace(clean, kind="continuous").test_sentence
    assert "Test of independence" in number
    assert all(clean.test_sentence in text for text in (str(clean), clean._repr_html_()))


def test_the_statement_is_the_same_wherever_it_stands(clean, tmp_path):
    """In print, JSON, page and notebook."""
    first, *more = clean.statement.split("\n")
    assert first.startswith("Gender: attackers are right on ")
    assert f"before and {100 * clean.strongest.score:.1f} % after (guessing: 50.0 %)" in first
    assert first.endswith(f"{100 * clean.removed:.0f} % of their lead is gone.")
    bound, kept = more
    assert bound.startswith(f"What is left is at most {100 * clean.upper_bound:.1f} points (95 %")
    assert kept.startswith("Kept: neighbours 0.")
    assert str(clean).startswith(clean.statement)
    assert json.loads(clean.to_json())["statement"] == clean.statement
    page = clean.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
    page = " ".join(unescape(re.sub("<[^>]*>", "", page)).split())  # some blanks do not break
    for line in clean.statement.split("\n"):
        assert line in page
        assert escape(line) in clean._repr_html_()


def test_what_the_statement_says_of_a_lead_that_never_was(make_certificate):
    found = make_certificate(before=-0.01)
    assert found.removed is None
    assert "right on 33.3 % before" in found.statement
    assert "They had no lead before." in found.statement
    assert make_certificate(0.3).removed == 1.0  # worse than guessing is all gone


def test_what_grew_is_not_gone(make_certificate):
    found = make_certificate(0.6, before=0.2)
    assert found.removed == 0
    assert "None of their lead is gone." in found.statement


def test_without_an_eraser_before_is_after(leaking, data):
    assert leaking.before == leaking.after
    row = evaluate(None, data, metrics=["attack"])["attack"]
    assert row.before == row.after


def test_frames_of_other_columns_are_refused(rows):
    frame = pd.DataFrame(rows.X, columns=list("abcde"))
    eraser = LEACE().fit(frame[:500], rows.z[:500])
    rest, z = frame[500:], rows.z[500:]
    assert (
        certify(eraser, rest, z, **FAST).after == certify(eraser, rest.to_numpy(), z, **FAST).after
    )
    for measure in (certify, evaluate):
        for one in (eraser, eraser.eraser_):
            with pytest.raises(ValueError, match="in another order"):
                measure(one, rest[list("edcba")], z)


def test_covariates_are_called_by_their_names(rows):
    job = np.where(np.arange(1500) % 3 > 0, "x", "y")
    series, table = pd.Series(job, name="job"), {"job": job, "age": rows.X[:, 0] ** 3}
    for given, called in ((series, "job"), (table, "job, age"), (job, "what is given")):
        for known in (given, read_covariate(given, "given", 1500)):
            found = certify(None, rows.X, rows.z, given=known, **FAST)
            expected = "what is given" if known is not series and called == "job" else called
            assert f"attackers who know {expected} are right" in found.statement
    with pytest.raises(ValueError, match=r"given='job'.*a value for each row"):
        certify(None, rows.X, rows.z, given="job")


def test_the_task_is_kept_too():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(600, 4)), np.arange(600) % 2
    X[:, 0] += 2 * z
    eraser = Eraser.projection(np.eye(4)[:, 1:])
    for y in (np.where(X[:, 1] > 0, "yes", "no"), X[:, 1] + 0.1 * rng.normal(size=600)):
        task = Split(X, z, y)
        data = Dataset(None, task.take(slice(0, 200)), task.take(slice(200, None)))
        kept, neighbours = certify(eraser, data, **FAST).kept
        assert (kept.name, neighbours.name) == ("the task", "neighbours")
        assert 0.9 < kept.before <= 1 > kept.after > 0.9
        assert 0.3 < neighbours.after < neighbours.before == 1
        gone = certify(lambda X: X[:, :1], data, **FAST).kept[0]
        assert gone.before == kept.before > gone.after + 0.3
    named = certify(eraser, data, **FAST).naming(task="salary")
    assert f"Kept: salary R² {kept.before:.2f} → " in named.statement


def test_no_next_step_that_the_rows_cannot_confirm(make_certificate):
    """No search is recommended for a margin below what any eraser can be shown to hold."""
    for accuracy in (0.3, 0.34, 0.38, 0.41, 0.7):
        for margin in (0.0, 0.01, 0.03, 0.06, 0.2):
            for confirmable in (0.005, 0.02, 0.1):
                found = make_certificate(accuracy, margin=margin, confirmable=confirmable)
                step = found.next_step
                assert f"Next: {step}" == found.sentences[-1]
                if found.verdict != "HOLDS" and margin < confirmable:
                    assert "no eraser can be shown to hold" in step
                    assert f"about {found.rows_needed:,} rows" in step
                    assert "unspot erase" not in step
                elif found.verdict == "LEAKS":
                    assert f"--max-advantage {margin:g}" in step
                elif found.verdict == "INCONCLUSIVE":
                    stated = float(step.split("margin of ")[1].split()[0])
                    assert replace(found, margin=stated).verdict == "HOLDS"
                else:
                    assert step.startswith("Certify again")


def test_rows_that_there_are_already_are_not_asked_for(make_certificate):
    """With more than half of the margin left, rows of that estimate may not decide."""
    near = make_certificate(0.42, margin=0.1)
    assert near.verdict == "INCONCLUSIVE"
    assert near.rows_needed <= near.n_rows
    assert "rows would decide" not in near.next_step
    assert "close to the margin: erase more; or state a margin of" in near.next_step
    assert "rows would decide" in make_certificate(0.35, margin=0.04).next_step


def test_rows_needed_grow_as_the_margin_falls(clean):
    needed = clean.rows_needed
    assert replace(clean, margin=clean.margin / 4).rows_needed > 10 * needed
    assert replace(clean, margin=0.0).rows_needed > needed  # and no division by zero
    assert f"{needed:,} rows" in clean.next_step


def test_enough_rows_are_enough(rows, perfect):
    """As many rows as an inconclusive certificate asks for decide, nearly always."""
    asked = certify(perfect, *rows.sample(500, random_state=1), margin=0.05, **FAST)
    assert asked.verdict == "INCONCLUSIVE"
    assert 500 < asked.rows_needed < 10_000
    more = rows.sample(int(1.2 * asked.rows_needed), random_state=1)
    assert certify(perfect, *more, margin=0.05, **FAST).verdict == "HOLDS"


def test_it_prints_as_a_table_from_the_strongest_down(leaking):
    lines = str(leaking).splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith("attacker"))
    table = lines[header : header + len(leaking.attackers) + 1]
    scores = [float(line.split()[1]) for line in table[1:]]
    assert scores == sorted(scores, reverse=True)
    assert table[1].split()[0] == leaking.strongest.name
    assert len({len(line) for line in table}) == 1
    assert "both ways, for 2 halvings" in lines[-1]


def test_what_could_not_be_checked_is_said(clean):
    known, unknown = (replace(clean, new_rows=new) for new in (True, False))
    assert "that no fit has seen" in known.statement
    assert "that no fit has seen" not in unknown.statement
    assert any("could not be checked" in sentence for sentence in unknown.sentences)
    assert not any("could not be checked" in sentence for sentence in known.sentences)


def test_the_scope_says_what_the_adversary_has(clean):
    scope = clean.scope
    text = " ".join(scope["The adversary has"] + scope["The adversary may"])
    assert f"{clean.n_rows // 2:,}" in text
    assert all(report.name in text for report in clean.attackers)
    assert any("rows from before erasure" in sentence for sentence in scope["Not covered"])
    assert any("labelled rows" in sentence for sentence in scope["Certify again when"])


# -- Bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, r"alpha=1\.5, but expected a number between 0 and 1"),
        ({"budget": "slow"}, "budget='slow'"),
        ({"margin": 5}, r"margin=5, but expected a number from 0"),
        ({"attackers": ["tree"]}, r"Did you mean 'trees'"),
        ({"given": "y"}, r"given='y'.*with task labels y"),
        ({"given": "job"}, r"given='job', but expected 'y'"),
        ({"z": [1]}, "a Dataset with z or groups"),
        ({"eraser": "gender.safetensors"}, r"eraser of type str.*fitted estimator.*None"),
        ({"eraser": LEACE}, r"class LEACE.*fitted eraser.*\.fit\("),
        ({"eraser": lambda X: X[:3]}, r"shape \(3, 5\).*one for each"),
        ({"eraser": lambda X: X * np.nan}, "NaN or infinity"),
    ],
)
def test_bad_input_is_named(data, perfect, options, message):
    with pytest.raises(ValueError, match=message):
        certify(options.pop("eraser", perfect), data, **options)


def test_bad_rows_are_named(data, perfect):
    X, z = data.test.X, data.test.z
    with pytest.raises(ValueError, match=r"ndarray without z, .*certify\(eraser, X, z\)"):
        certify(perfect, X)
    with pytest.raises(ValueError, match=r"shape \(5,\), but expected \(rows, features\)"):
        certify(perfect, X[0], z)
    with pytest.raises(ValueError, match=r"Got 20 rows in each half.*at least 40"):
        certify(perfect, X[:40], z[:40])
    rare = np.concatenate([np.flatnonzero(z == "female"), np.flatnonzero(z == "male")[:3]])
    with pytest.raises(ValueError, match=r"Got [12] rows of class male in each half"):
        certify(perfect, X[rare], z[rare])
    empty = data.test.take(np.arange(0))
    with pytest.raises(ValueError, match="Got no rows"):
        certify(perfect, Dataset(data.train, empty, empty))
    one_class = data.test.take(np.flatnonzero(z == "male"))
    with pytest.raises(ValueError, match="no row of class female in these rows"):
        certify(perfect, Dataset(data.train, one_class, one_class))


# -- Plain data, and a second run ------------------------------------------------------------------


def test_it_is_plain_and_frozen_data(leaking):
    read = json.loads(leaking.to_json())
    assert read == json.loads(json.dumps(leaking.to_dict()))
    assert read["strongest"] == leaking.strongest.name
    for name in ("verdict", "before", "after", "lower_bound", "upper_bound", "removed"):
        assert read[name] == getattr(leaking, name)
    assert set(read["attackers"][0]) == {"name", "score", "advantage", "interval"}
    with pytest.raises(FrozenInstanceError):
        leaking.margin = 1.0


def test_it_says_what_it_is_about(data, linear):
    about = certify(linear, data, random_state=3, **FAST).metadata
    assert about["eraser"]["method"] == "LEACE"
    assert about["eraser"]["fingerprint"] == linear.eraser_.metadata["fingerprint"]
    assert "known_rows" not in about["eraser"]
    assert (about["data"], about["random_state"]) == (data.name, 3)
    assert "unspot" in about["versions"]


def test_plain_data_and_back(clean):
    assert Certificate.from_dict(json.loads(clean.to_json())) == clean
    assert Certificate.from_dict(clean.to_dict()).kept == clean.kept
    assert isinstance(clean.kept[0], UtilityKept)
    with pytest.raises(ValueError, match="attackers are missing"):
        Certificate.from_dict({**clean.to_dict(), "attackers": []})


def test_a_second_run_is_the_same(clean, data, perfect):
    again = certify(perfect, data, budget="quick", margin=0.05)
    earlier = Certificate.from_dict(json.loads(clean.to_json()))
    assert again.differences_from(earlier) == ()


def test_another_eraser_and_other_rows_are_noticed(data, rows, perfect):
    first = certify(perfect, data, **FAST)
    other = Eraser.projection(np.linalg.svd(rows.concept_basis)[0][:, 3:])
    test = replace(data.test, X=np.where(np.arange(len(data.test))[:, None] < 3, 1, data.test.X))
    for eraser, judged in ((other, data), (perfect, replace(data, test=test))):
        found = certify(eraser, judged, **FAST).differences_from(first)
        assert any("digest" in sentence for sentence in found)


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"margin": 0.2}, "margin is 0.2"),
        ({"budget": "standard"}, "budget is standard"),
        ({"n_rows": 7}, "n_rows is 7"),
        ({"given": "job"}, "given is job"),
    ],
)
def test_what_differs_is_named(clean, change, needle):
    found = " ".join(replace(clean, **change).differences_from(clean))
    assert needle in found


def test_numbers_may_differ_by_a_point(clean):
    def moved(by):
        first, *others = clean.attackers
        return replace(clean, attackers=(replace(first, advantage=first.advantage - by), *others))

    assert moved(0.9 * TOLERANCE).differences_from(clean) == ()
    (sentence,) = moved(3 * TOLERANCE).differences_from(clean)
    assert clean.attackers[0].name in sentence


def test_an_eraser_fitted_with_given_and_certified_without_is_said(data):
    given = np.arange(len(data.train)) % 2
    eraser = LEACE().fit(data.train.X, data.train.z, given=given)
    found = certify(eraser, data, attackers=["logistic"], budget="quick")
    assert any("fitted with given" in sentence for sentence in found.sentences)


def test_rows_that_are_all_there_three_times_count_once():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(300, 20)), rng.integers(2, size=300)
    how = {"attackers": ["neighbours", "logistic"], "budget": "quick", "margin": 0.2}
    once, thrice = (
        certify(None, X, z, **how),
        certify(None, np.tile(X, (3, 1)), np.tile(z, 3), **how),
    )
    assert thrice.n_repeats == 600
    assert (thrice.verdict, thrice.upper_bound) == (once.verdict, once.upper_bound)


def test_a_bound_that_groups_confirm_is_confirmable():
    """Groups count as one row each in a plan; intervals are as wide as the groups differ."""
    rng = np.random.default_rng(0)
    X, z, groups = rng.normal(size=(600, 8)), np.arange(600) % 2, np.arange(600) // 4
    found = certify(None, X, z, groups=groups, margin=0.2, attackers=["logistic"], budget="quick")
    assert found.confirmable <= found.upper_bound


def test_a_frame_of_other_columns_is_refused_in_a_data_set_and_behind_a_pipeline():
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    frame, z = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc")), np.arange(400) % 2
    turned = frame[list("cba")]
    leace = LEACE().fit(frame[:200], z[:200]).eraser_
    both = make_pipeline(StandardScaler(), LEACE()).fit(frame[:200], z[:200])
    for eraser, rows in ((leace, Dataset.from_arrays(turned, z)), (both, turned)):
        where = (rows,) if isinstance(rows, Dataset) else (rows, z)
        for judge in (certify, evaluate):
            with pytest.raises(ValueError, match=r"other columns|in another order"):
                judge(eraser, *where)


def test_an_estimator_fitted_on_a_column_of_vectors_takes_a_frame_of_features():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(400, 3)), np.arange(400) % 2
    column, wide = pd.DataFrame({"emb": list(X)}), pd.DataFrame(X, columns=list("abc"))
    estimator = LEACE().fit(column[:200], z[:200])
    bounds = [
        certify(estimator, rows[200:], z[200:], attackers=["logistic"], budget="quick").upper_bound
        for rows in (column, wide)
    ]
    assert bounds[0] == bounds[1]


@pytest.mark.filterwarnings("ignore:Got rows that look grouped")
def test_rows_of_few_values_that_decide_the_label_are_no_copies():
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(1500, 7)).astype(float)
    z = rng.integers(2, size=128)[X.astype(int) @ 2 ** np.arange(7)]
    found = certify(None, X, z, attackers=["trees"], budget="quick", margin=0.2)
    assert (found.verdict, found.n_repeats) == ("LEAKS", 0)
