"""The paper's probe: as good as scikit-learn's, both presets, labels of any type."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from unspot.datasets.synthetic import law
from unspot.lab.probes import PRESETS, Probe, ProbeScores, probe_accuracy, probe_predictions


@pytest.mark.parametrize(("preset", "name"), [("paper", "mean"), ("reference", "xor")])
def test_the_batched_probe_is_as_good_as_scikit_learns(preset, name):
    rows = law(name, n=3000, d=10)
    test = rows.sample(4000, random_state=1)
    torch_ = probe_accuracy(rows.X, rows.z, *test, preset=preset, seeds=8)
    sklearn_ = scikit_learns(rows, *test, PRESETS[preset])
    noise = 3 * (torch_.spread**2 + sklearn_.spread**2) ** 0.5 / 8**0.5
    assert abs(torch_.mean - sklearn_.mean) < noise + 0.005
    assert torch_.mean > 0.6
    assert torch_.spread > 0


def scikit_learns(rows, X_test, z_test, probe):
    scores = []
    for seed in range(8):
        model = MLPClassifier(
            (probe.hidden,),
            alpha=probe.alpha,
            batch_size=probe.batch_size,
            learning_rate_init=probe.learning_rate,
            max_iter=probe.max_iter,
            random_state=seed,
        )
        with warnings.catch_warnings():  # twenty iterations are the recipe, not an accident
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores.append(model.fit(rows.X, rows.z).score(X_test, z_test))
    return ProbeScores(tuple(scores))


def test_presets_are_the_papers():
    assert PRESETS["paper"] == Probe(1e-4, 512, 20, 100, 1e-4)
    assert PRESETS["reference"] == Probe(1e-3, 200, 20, 100, 1e-4)


def test_one_seed_one_score():
    rows = law("mean", n=300, d=4)
    first, again, other = (
        probe_accuracy(rows.X, rows.z, rows.X, rows.z, seeds=2, random_state=s) for s in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_more_seeds_leave_the_first_ones_as_they_were():
    rows = law("mean", n=300, d=4)
    few, many = (
        probe_predictions(rows.X, rows.z, rows.X, seeds=seeds, preset="reference")
        for seeds in (2, 4)
    )
    assert (few == many[:2]).mean() > 0.99


def test_predictions_are_positions_among_the_classes():
    rng = np.random.default_rng(0)
    z = np.array(["south", "north", "west"])[np.arange(600) % 3]
    X = rng.normal(size=(600, 3)) + 4 * (z[:, None] == np.array(["north", "south", "west"]))
    codes = probe_predictions(X, z, X, preset=Probe(1e-2), seeds=3)
    assert codes.shape == (3, 600)
    assert codes.dtype == np.int64
    assert (np.unique(z)[codes] == z).mean() > 0.95


def test_other_types_of_rows_and_labels():
    pandas = pytest.importorskip("pandas")
    rows = law("mean", n=300, d=3)
    z = pandas.Series(np.where(rows.z == 1, "yes", "no"), dtype="category")
    scores = probe_accuracy(pandas.DataFrame(rows.X), z, rows.X.astype(np.float16), z, seeds=1)
    assert 0 <= scores.mean <= 1
    assert probe_accuracy(rows.X, rows.z == 1, rows.X, rows.z == 1, seeds=1).scores


def test_scores_have_a_mean_and_a_spread():
    scores = ProbeScores((0.5, 0.7))
    assert (scores.mean, scores.spread) == pytest.approx((0.6, 0.1))
    assert str(scores) == "60.0 ± 10.0 %"


def test_bad_input_is_named():
    X, z = np.random.default_rng(0).normal(size=(20, 2)), np.array(["a", "b"] * 10)
    with pytest.raises(ValueError, match=r"not seen in training.*'c'.*expected one of: 'a', 'b'"):
        probe_accuracy(X, z, X, np.array(["a", "c"] * 10))
    with pytest.raises(ValueError, match=r"preset='papier'.*Did you mean 'paper'\?"):
        probe_accuracy(X, z, X, z, preset="papier")
    with pytest.raises(ValueError, match=r"seeds=0.*at least 1"):
        probe_accuracy(X, z, X, z, seeds=0)
    with pytest.raises(ValueError, match="1 features in X_test and 2 in X_train"):
        probe_predictions(X, z, X[:, :1])
    with pytest.raises(ValueError, match="19 labels in z_test for 20 rows"):
        probe_accuracy(X, z, X, z[:19], seeds=1)
    with pytest.raises(ValueError, match="one class in z_train"):
        probe_accuracy(X, ["a"] * 20, X, z)
    with pytest.raises(ValueError, match="NaN or infinity"):
        probe_predictions(np.full((20, 2), np.nan), z, X)
