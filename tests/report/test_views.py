"""Maps, and densities along the strongest direction."""

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn.decomposition import PCA

from unspot import LEACE, Dataset, Eraser
from unspot.report.views import _noise, make_views, witness, witness_direction


def test_maps_are_principal_components_of_the_training_rows(rows, views):
    model = PCA(2).fit(rows.train.X)
    expected = model.transform(rows.test.X)
    for ours, theirs in zip((views.before.x, views.before.y), expected.T, strict=True):
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.9999


def test_erasing_more_brings_the_classes_closer(views):
    before, means_gone, all_gone = (panel.witness for panel in views.panels)
    assert before.distance > means_gone.distance > all_gone.distance
    assert all_gone.distance <= all_gone.noise


def test_points_are_the_test_rows_with_their_names_and_classes(rows, views):
    assert views.names == tuple(rows.test.names)
    assert [views.classes[code] for code in views.codes] == list(rows.test.z)


def test_a_sample_of_points_keeps_the_shares_of_the_classes(rows, monkeypatch):
    monkeypatch.setattr("unspot.report.views.MAX_POINTS", 90)
    views, again = (make_views(lambda X: X, rows) for _ in range(2))
    assert len(views.codes) == len(views.before.x) == 90
    assert np.bincount(views.codes).tolist() == [30, 30, 30]
    assert views == again


def test_takes_estimators_erasers_and_functions(rows):
    estimator = LEACE().fit(rows.train.X, rows.train.z)
    panels = [make_views(e, rows).after[0] for e in (estimator, estimator.eraser_)]
    assert panels[0].name == panels[1].name == "LEACE"
    assert panels[0].x == panels[1].x
    assert make_views(lambda X: X, rows).after[0].name == "erased"


def test_one_feature_gives_a_flat_map():
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.normal(size=(60, 1)), np.arange(60) % 2, random_state=0)
    views = make_views(Eraser.projection(np.eye(1)), data)
    assert set(views.before.y) == {0.0}


# -- The witness -----------------------------------------------------------------------------------


def halves(X, z, n_classes=2):
    n = len(X) // 2
    return witness(X[:n], z[:n], X[n:], z[n:], n_classes=n_classes)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_finds_the_direction_of_a_mean_difference(rng):
    z = np.arange(2000) % 2
    direction = np.array([1.0, 2.0, -1.0, 0.5])
    X = rng.normal(size=(2000, 4)) + 1.5 * z[:, None] * direction
    found = witness_direction(X, z, 2)
    assert found @ direction / np.linalg.norm(found) / np.linalg.norm(direction) > 0.97


def test_finds_the_direction_of_a_variance_difference(rng):
    z = np.arange(4000) % 2
    X = rng.normal(size=(4000, 5))
    X[z == 1, 3] *= 4
    found = witness_direction(X, z, 2)
    assert abs(found[3]) / np.linalg.norm(found) > 0.95


def test_classes_of_one_law_stay_within_the_noise(rng):
    seen = [halves(rng.normal(size=(600, 4)), np.arange(600) % 3, 3) for _ in range(40)]
    alarms = sum(found.distance > found.noise for found in seen)
    assert alarms <= 6  # 5 % are expected at most


def test_separate_classes_are_at_distance_one(rng):
    z = np.arange(400) % 2
    X = rng.normal(size=(400, 2)) + 50.0 * z[:, None]
    assert halves(X, z).distance == 1.0


def test_noise_is_the_quantile_of_two_samples(rng):
    bound = _noise([300, 200])
    distances = [ks_2samp(rng.normal(size=300), rng.normal(size=200)).statistic for _ in range(400)]
    assert 0.01 < np.mean(np.array(distances) > bound) < 0.08


def test_does_not_depend_on_the_unit_or_on_affine_changes(rng):
    z = np.arange(1000) % 2
    X = rng.normal(size=(1000, 3)) + z[:, None] * [1.0, 0.0, 0.0]
    A = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    assert halves(X, z).distance == pytest.approx(halves(1e-6 * (X @ A) + 7, z).distance, abs=0.02)


def test_densities_integrate_to_one(rng):
    z = np.arange(3000) % 2
    found = halves(rng.normal(size=(3000, 3)) + 2 * z[:, None], z)
    for curve in found.curves:
        assert np.trapezoid(curve, found.grid) == pytest.approx(1.0, abs=0.02)


def test_the_last_class_lies_to_the_right(rng):
    z = np.arange(2000) % 2
    found = halves(rng.normal(size=(2000, 2)) - 3.0 * z[:, None], z)
    means = [np.average(found.grid, weights=curve) for curve in found.curves]
    assert means[1] > means[0]


def test_a_class_without_test_rows_has_no_curve(rng):
    X, z = rng.normal(size=(300, 2)), np.arange(300) % 3
    kept = z[150:] != 2
    found = witness(X[:150], z[:150], X[150:][kept], z[150:][kept], n_classes=3)
    assert [len(curve) > 0 for curve in found.curves] == [True, True, False]


def test_constant_rows_give_flat_finite_curves():
    z = np.arange(40) % 2
    found = halves(np.ones((40, 3)), z)
    assert found.distance == 0
    assert np.isfinite(found.curves).all()
