"""A monitor's verdict over batches: what it counts, what it refuses, what survives a kill."""

import json
from collections import Counter

import numpy as np
import pytest

from unspot import LEACE, Eraser
from unspot.datasets.synthetic import law
from unspot.evaluation import Monitor, MonitorReport
from unspot.evaluation import monitor as module

FAST = {"attackers": ["logistic"], "random_state": 0}


@pytest.fixture(scope="module")
def leak():
    return law("mean", n=300, d=4, random_state=0)


@pytest.fixture
def clean():
    """Rows whose concept is a coin."""
    rng = np.random.default_rng(0)
    return lambda n: (rng.normal(size=(n, 3)), rng.choice(["f", "m"], n))


def test_a_leak_is_found_and_stays(leak, clean):
    watch = Monitor(None, leak.X, leak.z, **FAST)
    assert watch.report.verdict == "INCONCLUSIVE"
    found = [watch.update(*leak.sample(150, random_state=i)).verdict for i in range(2)]
    assert found[-1] == "LEAKS"
    for i in range(2):  # labels by a coin: bets lose, and the verdict stays
        X, z = leak.sample(400, random_state=10 + i)
        report = watch.update(X, np.random.default_rng(i).permutation(z))
    assert report.log_wealth < report.peak_log_wealth
    assert report.verdict == "LEAKS"
    assert report.p_value <= 0.05


def test_what_is_gone_is_inconclusive_until_it_holds(clean):
    watch = Monitor(None, *clean(400), margin=0.1, **FAST)
    reports = [watch.update(*clean(200)) for _ in range(8)]
    verdicts = [report.verdict for report in reports]
    assert (verdicts[0], verdicts[-1]) == ("INCONCLUSIVE", "HOLDS")
    assert all(a.upper_bound > a.advantage for a in reports)
    n_needed = reports[0].rows_needed
    assert 300 < n_needed < 6000
    assert f"{n_needed:,}" in reports[0].sentence


def test_a_leak_within_the_margin_holds_and_is_named(leak):
    watch = Monitor(None, leak.X, leak.z, margin=0.6, **FAST)
    report = watch.update(*leak.sample(800, random_state=1))
    assert report.verdict == "HOLDS"
    assert report.leak_found
    assert "a leak is found" in report.sentence


def test_labels_are_not_looked_at_before_all_guesses_are_made(leak, monkeypatch):
    """Attackers are asked once for each batch, with rows only, and learn when rows have doubled."""
    asked, learned_from = Counter(), []

    def learned(X, labels, **settings):
        learned_from.append(len(X))

        def guess(rows):
            asked[len(rows)] += 1
            return np.full((len(rows), 2), 0.5), np.zeros(len(rows), dtype=int)

        return {"logistic": guess}

    monkeypatch.setattr(module, "learned_attackers", learned)
    watch = Monitor(None, leak.X, leak.z, **FAST)
    for i, n in enumerate((100, 101, 102, 103)):
        watch.update(*leak.sample(n, random_state=i))
    assert learned_from == [300, 603]
    assert asked == {100: 1, 101: 1, 102: 1, 103: 1}
    assert watch.report.n_rows == 406


def test_worse_than_luck_is_no_proof_that_nothing_is_left(leak):
    """As when the relation of rows and labels turns round: avoiding the guesses would be right."""
    X, z = leak.sample(400, random_state=1)
    watch = Monitor(None, leak.X, leak.z, margin=0.1, **FAST)
    report = watch.update(X, 1 - z)
    assert report.advantage < -0.2
    assert report.upper_bound > 0.2
    assert report.verdict == "LEAKS"


def test_an_eraser_is_applied(leak):
    rest = np.linalg.svd(leak.concept_basis)[0][:, 1:]
    watch = Monitor(Eraser.projection(rest), leak.X, leak.z, **FAST)
    assert not watch.update(*leak.sample(500, random_state=1)).leak_found


# -- what is refused -------------------------------------------------------------------------------


def test_a_batch_counts_once(leak, tmp_path):
    X, z = leak.sample(100, random_state=1)
    others, their_z = leak.sample(150, random_state=2)
    with Monitor(None, leak.X, leak.z, state=tmp_path / "state", **FAST) as watch:
        watch.update(X, z)
        with pytest.raises(ValueError, match=r"100 % .* counted in batch 1.*expected new rows"):
            watch.update(X[::-1], z[::-1])
    with Monitor(None, leak.X, leak.z, state=tmp_path / "state", **FAST) as watch:
        with pytest.raises(ValueError, match="counted in batch 1"):
            watch.update(np.vstack([X[:50], others]), np.concatenate([z[:50], their_z]))
        assert watch.update(others, their_z).n_batches == 2


def test_rows_that_were_learned_from_are_no_evidence(leak):
    watch = Monitor(None, leak.X, leak.z, **FAST)
    with pytest.raises(ValueError, match=r"300 were learned from.*apart"):
        watch.update(leak.X, leak.z)
    X, z = leak.sample(100, random_state=1)
    report = watch.update(np.vstack([X, leak.X[:40]]), np.concatenate([z, leak.z[:40]]))
    assert report.n_rows == 100


def test_rows_of_the_fit_are_refused(leak):
    fitted = LEACE().fit(leak.X, leak.z)
    X, z = leak.sample(100, random_state=1)
    with pytest.raises(ValueError, match="to learn from that the eraser was fitted on"):
        Monitor(fitted, leak.X, leak.z, **FAST)
    with pytest.raises(ValueError, match="batch that the eraser was fitted on"):
        Monitor(fitted, X, z, **FAST).update(leak.X, leak.z)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha=0.*between 0 and 1"),
        ({"margin": 0}, "margin=0.*no number of rows"),
        ({"margin": 1.5}, "margin=1.5.*below 1"),
        ({"attackers": ["logistics"]}, "Did you mean 'logistic'"),
    ],
)
def test_settings_that_cannot_work(leak, settings, message):
    with pytest.raises(ValueError, match=message):
        Monitor(None, leak.X, leak.z, **settings)


def test_batches_that_cannot_be_judged(leak):
    watch = Monitor(None, leak.X, leak.z, **FAST)
    with pytest.raises(ValueError, match="expected \\(rows, features\\)"):
        watch.update(np.empty((0, 4)), [])
    with pytest.raises(ValueError, match="not seen in training"):
        watch.update(leak.X + 1, np.full(len(leak.X), 7))
    with pytest.raises(ValueError, match="3 features, but attackers learned from rows of 4"):
        watch.update(leak.X[:, :3] + 1, leak.z)
    assert watch.report.n_batches == 0


# -- the state -------------------------------------------------------------------------------------


def test_a_stopped_monitor_goes_on_where_it_was(leak, tmp_path):
    state = tmp_path / "state.jsonl"
    batches = [leak.sample(60, random_state=i) for i in range(3)]
    whole = Monitor(None, leak.X, leak.z, **FAST)
    for X, z in batches:
        expected = whole.update(X, z)
        with Monitor(None, leak.X, leak.z, state=state, **FAST) as watch:
            report = watch.update(X, z)
    assert report == expected
    with state.open("ab") as file:
        file.write(b'{"key": "4", "n_rows": 2')  # killed while it wrote
    with Monitor(None, leak.X, leak.z, state=state, **FAST) as watch:
        assert watch.report == report


def test_another_eraser_or_other_settings_are_refused(leak, tmp_path):
    state = tmp_path / "state.jsonl"
    with Monitor(None, leak.X, leak.z, state=state, **FAST) as watch:
        watch.update(*leak.sample(60, random_state=1))
    other = Eraser.projection(np.eye(4)[:, :2])
    with pytest.raises(ValueError, match=r"other settings.*monitor was"):
        Monitor(other, leak.X, leak.z, state=state, **FAST)
    with pytest.raises(ValueError, match=r"margin was 0.05 and is 0.2"):
        Monitor(None, leak.X, leak.z, state=state, margin=0.2, **FAST)
    more = leak.sample(200, random_state=2)  # other rows to learn from are allowed
    with Monitor(None, *more, state=state, **FAST) as watch:
        assert watch.report.n_rows == 60


def test_a_damaged_state_names_the_field(leak, tmp_path):
    state = tmp_path / "state.jsonl"
    with Monitor(None, leak.X, leak.z, state=state, **FAST) as watch:
        watch.update(*leak.sample(60, random_state=1))
    first, second = state.read_text().splitlines()
    changed = {**json.loads(second), "n_rows": "many"}
    state.write_text(f"{first}\n{json.dumps(changed)}\n")
    with pytest.raises(ValueError, match=r"n_rows is 'many'.*Restore"):
        Monitor(None, leak.X, leak.z, state=state, **FAST)


def test_a_report_is_plain_data_and_a_table(leak):
    watch = Monitor(None, leak.X, leak.z, attackers=["logistic", "quadratic"])
    assert json.loads(watch.report.to_json())["advantage"] is None
    report = watch.update(*leak.sample(200, random_state=1))
    content = json.loads(report.to_json())
    assert content["verdict"] == report.verdict == "LEAKS"
    assert content["attackers"]["logistic"]["counts"] == list(report.attackers["logistic"].counts)
    assert isinstance(report, MonitorReport)
    lines = str(report).splitlines()
    assert lines[0] == "Monitor: LEAKS"
    assert [line.split()[0] for line in lines[4:6]] in (
        ["logistic", "quadratic"],
        ["quadratic", "logistic"],
    )
