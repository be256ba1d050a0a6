"""Group rates against fairlearn, class by class, and cells without rows."""

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equalized_odds_difference,
    selection_rate,
    true_positive_rate,
)

from unspot.evaluation.utility import fairness

JOBS = np.array(["judge", "nurse", "poet", "welder"])


def predictions(n_classes, n=600, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(n_classes, size=n)
    y = (z + rng.integers(n_labels, size=n)) % n_labels
    wrong = rng.random(n) < 0.2 + 0.1 * z
    y_pred = np.where(wrong, rng.integers(n_labels, size=n), y)
    return JOBS[y], JOBS[y_pred], np.array([f"class {c}" for c in z])


def rate_gap(metric, y_true, y_pred, z, label, c):
    """fairlearn's rate of one class minus that of all the others."""
    frame = MetricFrame(
        metrics=metric,
        y_true=y_true == label,
        y_pred=y_pred == label,
        sensitive_features=np.where(z == c, "own", "others"),
    )
    return frame.by_group["own"] - frame.by_group["others"]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_gaps_equal_fairlearns_for_every_class_and_label(n_classes):
    y_true, y_pred, z = predictions(n_classes)
    found = fairness(y_true, y_pred, z)
    for c in np.unique(z):
        gaps = [rate_gap(true_positive_rate, y_true, y_pred, z, y, c) for y in JOBS]
        assert list(found.gaps[c].values()) == pytest.approx(gaps, rel=1e-9, abs=1e-12)
        assert found.rms[c] == pytest.approx(np.sqrt(np.mean(np.square(gaps))), rel=1e-9)
        shares = [np.mean(z[y_true == y] == c) for y in JOBS]
        assert list(found.shares[c].values()) == pytest.approx(shares, rel=1e-12)
        sigma = np.corrcoef(gaps, shares)[0, 1]
        assert found.correlations[c] == pytest.approx(sigma, rel=1e-9)
    assert found.rms_gap == max(found.rms.values())
    assert found.empty_cells == ()
    assert found.note == ""


@pytest.mark.parametrize("n_classes", [2, 4])
def test_parity_equals_the_sum_of_fairlearns(n_classes):
    y_true, y_pred, z = predictions(n_classes)
    found = fairness(y_true, y_pred, z)
    for c in np.unique(z):
        gaps = [rate_gap(selection_rate, y_true, y_pred, z, y, c) for y in JOBS]
        assert found.parities[c] == pytest.approx(np.abs(gaps).sum(), rel=1e-9)
    if n_classes == 2:
        by_label = [
            demographic_parity_difference(y_true == y, y_pred == y, sensitive_features=z)
            for y in JOBS
        ]
        assert found.demographic_parity == pytest.approx(sum(by_label), rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_odds_and_spans_equal_fairlearns(n_classes):
    y_true, y_pred, z = predictions(n_classes)
    found = fairness(y_true, y_pred, z)
    for y in JOBS:
        odds = equalized_odds_difference(y_true == y, y_pred == y, sensitive_features=z)
        assert found.odds[y] == pytest.approx(odds, rel=1e-9)
        frame = MetricFrame(
            metrics=true_positive_rate,
            y_true=y_true == y,
            y_pred=y_pred == y,
            sensitive_features=z,
        )
        assert found.spans[y] == pytest.approx(frame.difference(), rel=1e-9)
        for c in np.unique(z):
            assert found.tpr[c][y] == pytest.approx(frame.by_group[c], rel=1e-9)
    assert found.equalised_odds == max(found.odds.values())


def test_two_classes_have_opposite_gaps_and_the_same_summaries():
    found = fairness(*predictions(2))
    a, b = found.gaps.values()
    assert list(a.values()) == pytest.approx([-gap for gap in b.values()])
    assert found.rms["class 0"] == pytest.approx(found.rms["class 1"])
    assert found.correlations["class 0"] == pytest.approx(found.correlations["class 1"])
    assert found.parities["class 0"] == pytest.approx(found.parities["class 1"])


def test_perfect_predictions_of_an_unrelated_task_are_fair():
    z = np.tile(["a", "b"], 50)
    y = np.repeat([0, 1], 50)
    found = fairness(y, y, z)
    assert (found.accuracy, found.rms_gap, found.equalised_odds) == (1.0, 0.0, 0.0)
    assert found.demographic_parity == 0.0
    assert found.correlation is None


def test_names_and_row_order_do_not_matter():
    y_true, y_pred, z = predictions(3)
    order = np.random.default_rng(0).permutation(len(z))
    base = fairness(y_true, y_pred, z)
    renamed = fairness(
        pd.Series(y_true[order]).astype("category"), list(y_pred[order]), np.char.upper(z)[order]
    )
    assert renamed.rms_gap == base.rms_gap
    assert renamed.gaps["CLASS 1"] == base.gaps["class 1"]


def test_an_empty_cell_is_named_and_left_out():
    y_true, y_pred, z = predictions(2)
    kept = ~((z == "class 1") & (y_true == "poet"))
    found = fairness(y_true[kept], y_pred[kept], z[kept])
    assert found.empty_cells == (("class 1", "poet"),)
    assert found.tpr["class 1"]["poet"] is None
    assert found.tpr["class 0"]["poet"] is not None
    assert found.gaps["class 0"]["poet"] is None
    assert found.spans["poet"] is None
    assert found.odds["poet"] is None
    others = [found.gaps["class 0"][y] for y in JOBS if y != "poet"]
    assert found.rms["class 0"] == pytest.approx(np.sqrt(np.mean(np.square(others))))
    assert "(class 1, poet)" in found.note
    assert "left out of means" in found.note


def test_with_more_classes_an_empty_cell_costs_only_its_own_gap():
    y_true, y_pred, z = predictions(3)
    kept = ~((z == "class 2") & (y_true == "poet"))
    found = fairness(y_true[kept], y_pred[kept], z[kept])
    assert found.gaps["class 2"]["poet"] is None
    assert found.gaps["class 0"]["poet"] is not None
    assert found.spans["poet"] is not None


def test_a_task_that_is_the_concept_has_no_defined_gap():
    z = np.array(["f", "m"] * 10)
    found = fairness(z, z, z)
    assert found.rms_gap is None
    assert found.correlation is None
    assert found.equalised_odds is None
    assert found.demographic_parity == 2.0
    assert len(found.empty_cells) == 2


def test_a_label_that_is_only_predicted_counts_for_parity_alone():
    y_true = ["a", "a", "b", "b"]
    found = fairness(y_true, ["c", "a", "b", "b"], ["f", "m", "f", "m"])
    assert "c" not in found.tpr["f"]
    assert found.empty_cells == ()
    assert found.demographic_parity == 1.0


def test_fifty_classes_and_fifty_labels():
    rng = np.random.default_rng(0)
    y_true, y_pred, z = (rng.integers(50, size=3000) for _ in range(3))
    found = fairness(y_true, y_pred, z)
    assert len(found.rms) == 50
    assert found.rms_gap > 0
    assert all(value is None or np.isfinite(value) for value in found.odds.values())
    assert "and" in found.note
    assert "more" in found.note


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="Got 3 labels in y_true, 2 in y_pred and 3 in z"):
        fairness([0, 1, 1], [0, 1], ["a", "b", "a"])
    with pytest.raises(ValueError, match="Got one class in z"):
        fairness([0, 1], [0, 1], ["a", "a"])
    with pytest.raises(ValueError, match="mixes a number and a string"):
        fairness(["0", "1"], [0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="missing labels in y_true and y_pred"):
        fairness(["0", None], ["0", "1"], ["a", "b"])


def test_a_missing_label_in_a_list_is_missing():
    with pytest.raises(ValueError, match="missing"):
        fairness(["a", float("nan"), "b"], ["a", "b", "b"], ["f", "m", "f"])
