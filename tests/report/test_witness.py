import numpy as np
import pytest
from scipy.stats import ks_2samp

from unspot.report.views import _noise, witness, witness_direction


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
