"""Learning curves: where they lead, what they leave open, and that nothing else depends on them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from unspot import (
    LEACE,
    LEOPARD,
    Cascade,
    Certificate,
    Dataset,
    Eraser,
    certify,
    evaluate,
    learning_curve,
)
from unspot.datasets.synthetic import law
from unspot.evaluation import attack
from unspot.evaluation.inference import paired_covariance, recalls
from unspot.evaluation.learning import _fallen, _risen, _scatter
from unspot.evaluation.metrics import _seen_against_unseen
from unspot.evaluation.unseen import attack_eraser

FAST = ["whitened-logistic"]


def rows_of(n, d=60, seed=0):
    """The means of the classes differ a little: few rows do not show in which direction."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    X = rng.normal(size=(n, d))
    X[z == 1, 0] += 0.6
    return X, z


@pytest.fixture(scope="module")
def data():
    return Dataset.from_arrays(*rows_of(6000), random_state=0)


@pytest.fixture(scope="module")
def certificate(data):
    return certify(None, data, attackers=FAST, budget="quick")


# -- the laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_a_curve_without_noise_is_carried_on_exactly(power):
    sizes = np.array([1 / 3, 2 / 3, 1])
    values = 0.3 - 0.05 * sizes**-power
    assert _risen(values[None], sizes, power)[0] == pytest.approx(0.3 - 0.05 * 10**-power)


def test_an_attacker_may_have_learned_all():
    assert _risen(np.array([[0.1, 0.2, 0.3]]), np.array([1 / 3, 2 / 3, 1]), np.inf) == 0.3


def test_an_attacker_that_gets_worse_is_not_expected_to_go_on_so():
    falling = np.array([[0.3, 0.2, 0.1]])
    assert _risen(falling, np.array([1 / 3, 2 / 3, 1]), 0.5)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_the_exponent_of_a_leak_without_noise_is_found(exponent):
    sizes = np.array([1 / 8, 1 / 4, 1 / 2, 1])
    level, found = _fallen(0.07 * sizes[None] ** -exponent, sizes)
    assert level[0] == pytest.approx(0.07)
    assert found[0] == pytest.approx(exponent)


def test_advantages_at_and_below_chance_have_a_law_too():
    level, _ = _fallen(np.array([[-0.01, -0.02, -0.01]]), np.array([0.25, 0.5, 1]))
    assert level[0] == 0


def test_the_scatter_is_that_of_fits_of_one_size():
    values, sizes = np.array([0.1, 0.2, 0.5, 0.9]), np.array([3, 3, 6, 9])
    assert _scatter(values, sizes) == pytest.approx(0.005)
    assert _scatter(values[1:], sizes[1:]) == 0


def test_paired_covariance_is_that_of_other_test_rows():
    """Against accuracies of many draws; guesses that err together differ by less luck."""
    rng, K, n = np.random.default_rng(0), 3, 300
    codes = np.arange(n) % K

    def guesses(rng):
        first = np.where(rng.random(n) < 0.6, codes, (codes + 1) % K)
        second = np.where(rng.random(n) < 0.8, first, rng.integers(K, size=n))
        return [first, second]

    drawn = [[recalls(guess, codes, K).mean() for guess in guesses(rng)] for _ in range(1500)]
    estimated = np.mean(
        [paired_covariance(guesses(rng), codes, None, K) for _ in range(50)], axis=0
    )
    assert np.allclose(estimated, np.cov(np.array(drawn).T), rtol=0.15)
    whole_groups = paired_covariance(guesses(rng), codes, np.arange(n) // 30, K)
    assert whole_groups.shape == (2, 2)


# -- of the attacker -------------------------------------------------------------------------------


def test_certify_measures_thirds_of_the_rows(certificate):
    curve = certificate.learning
    n = certificate.n_attack_rows
    assert curve.attacker == certificate.strongest.name
    assert curve.n_rows == (n // 3, n // 3, 2 * n // 3, n)
    assert curve.advantages[-1] == certificate.advantage
    assert np.mean(curve.advantages[:2]) < certificate.advantage  # it learns


def test_ten_times_the_rows_hold_what_the_curve_says(certificate, data):
    """The benchmark ``learning`` counts how often."""
    X, z = rows_of(10 * certificate.n_attack_rows, seed=1)
    (more,) = attack(X, z, data.test.X, data.test.z, attackers=FAST, budget="quick")
    low, high = certificate.learning.interval
    assert more.n_rows == 10 * certificate.n_attack_rows
    assert low <= more.advantage <= high


def test_attackers_that_know_nothing_are_not_expected_to_learn():
    rng = np.random.default_rng(0)
    for seed in range(3):
        data = Dataset.from_arrays(
            rng.normal(size=(3000, 4)), np.arange(3000) % 2, random_state=seed
        )
        names = ["logistic", "whitened-logistic", "quadratic"]
        curve = certify(None, data, attackers=names, budget="quick").learning
        assert curve.interval[0] < 0.02


def test_the_sentence_says_what_more_rows_buy(certificate):
    told = replace(certificate.learning, advantage=0.09, interval=(0.08, 0.1))
    text = str(replace(certificate, learning=told))
    assert "10 times as many rows" in text
    assert "about 59.0 %" in text
    unsure = replace(certificate.learning, interval=(0.0, 0.4))
    assert "cannot be told" in str(replace(certificate, learning=unsure))
    assert "as many rows" not in str(replace(certificate, learning=None))


def test_the_curve_changes_no_other_number(certificate):
    without = replace(certificate, learning=None)
    first, second = certificate.to_dict(), without.to_dict()
    assert first.pop("learning")["attacker"] == FAST[0]
    assert second.pop("learning") is None
    assert first == second


def test_json_of_before_and_of_now_is_read(certificate):
    content = json.loads(certificate.to_json())
    assert Certificate.from_dict(content) == certificate
    del content["learning"]
    assert Certificate.from_dict(content) == replace(certificate, learning=None)
    short = {**json.loads(certificate.to_json())}
    short["learning"]["advantages"] = [0.1]
    with pytest.raises(ValueError, match="learning"):
        Certificate.from_dict(short)


def test_few_rows_have_no_curve():
    data = Dataset.from_arrays(*rows_of(300), random_state=0)
    assert len(data.validation) // 3 < 40
    assert certify(None, data, attackers=FAST, budget="quick").learning is None
    eraser = LEACE().fit(data.train.X, data.train.z)
    crossed = certify(eraser, data, attackers=["logistic"], attack_rows="cross-fit")
    assert crossed.learning is None


def test_groups_stay_together():
    X, z = rows_of(3000, d=5)
    data = Dataset.from_arrays(X, np.sort(z), groups=np.arange(1500).repeat(2), random_state=0)
    assert certify(None, data, attackers=FAST, budget="quick").learning is not None


# -- of the eraser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curve():
    """LEACE in 100 dimensions: its error is that of the means, which more rows make smaller."""
    rows = law("mean", n=6000, d=100)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    return learning_curve(LEACE(), data, attackers=FAST)


def test_more_rows_of_the_fit_leave_less(curve):
    by_size = {point.n_rows: point.advantage for point in curve.points}
    assert list(by_size) == [375, 750, 1500, 3000]
    assert [point.n_rows for point in curve.points].count(375) == 2
    assert by_size[375] > by_size[3000]
    assert 0 <= curve.exponent_interval[0] <= curve.exponent <= curve.exponent_interval[1]
    assert curve.interval[0] <= curve.advantage <= min(curve.fitted, curve.interval[1])
    assert curve.advantage == pytest.approx(curve.fitted * 2**-curve.exponent)


def test_a_curve_is_plain_data(curve):
    frame = curve.to_frame()
    assert len(frame) == 7
    content = json.loads(curve.to_json())
    assert content["format"] == "unspot-learning-curve/1"
    assert content["sentence"] == curve.sentence
    assert "375" in str(curve)
    assert curve.sentence in str(curve)


def test_three_outcomes_in_words(curve):
    certain = {"exponent_interval": (0.3, 0.5), "fitted": 0.066, "exponent": 0.4}
    helps = replace(curve, **certain, advantage=0.05, interval=(0.045, 0.055))
    assert helps.outcome == "helps"
    assert "from 6.6 to about 5.0 points" in helps.sentence
    flat = {"exponent_interval": (0.0, 0.1), "fitted": 0.3, "exponent": 0.0}
    hardly = replace(curve, **flat, advantage=0.3, interval=(0.29, 0.31))
    assert hardly.outcome == "hardly helps"
    assert "Lower the rank" in hardly.sentence
    unsure = replace(curve, **flat, advantage=0.3, interval=(0.1, 0.31))
    assert unsure.outcome == "cannot tell"
    assert "cannot be told" in unsure.sentence


def test_the_same_seed_the_same_curve():
    rows = law("mean", n=800, d=5)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    options = {"shares": (0.25, 0.5, 1), "repeats": 1, "attackers": FAST}
    first, again = (learning_curve(Cascade(LEOPARD(2)), data, **options) for _ in range(2))
    assert first == again
    assert first.method == "Cascade"


def test_what_cannot_be_learned_from_is_refused():
    rows = law("mean", n=400, d=3)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    with pytest.raises(ValueError, match="estimator"):
        learning_curve(Eraser.projection(np.eye(3)[:, 1:]), data)
    with pytest.raises(ValueError, match=r"at least three"):
        learning_curve(LEACE(), data, shares=(0.5, 1))
    with pytest.raises(ValueError, match=r"at least three"):
        learning_curve(LEACE(), data, shares=(0.25, 0.5, 0.75))
    with pytest.raises(ValueError, match="more rows"):
        learning_curve(LEACE(), data, shares=(0.001, 0.01, 1))


# -- seen and unseen rows --------------------------------------------------------------------------


def test_an_evaluation_says_that_the_eraser_adapted_to_its_rows():
    """Rows of the fit without any signal, and unseen ones with all of it."""
    X, z = rows_of(1000, d=4)
    X[z == 1, 0] += 2
    data = Dataset.from_arrays(X, z, random_state=0)
    noise = np.random.default_rng(1).normal(size=data.train.X.shape)
    adapted = replace(data, train=replace(data.train, X=noise))
    found = evaluate(adapted, data, metrics=["attack", "attack_seen"])
    gap = found["attack"].after.mean - found["attack_seen"].after.mean
    assert gap > 0.05
    assert "adapted to its rows" in found["attack_seen"].note
    assert f"{100 * gap:.1f} points less" in found["attack_seen"].note
    assert "adapted" not in found["attack"].note


def test_a_difference_that_luck_explains_gets_no_sentence(data):
    attacked = attack_eraser(None, data, attackers=FAST)
    assert _seen_against_unseen(attacked, attacked) == ""
    guesses = np.zeros(len(data.test), dtype=int)
    weaker = replace(attacked.strongest, balanced_accuracy=0.5, guesses=guesses)
    weak = replace(attacked, results=(weaker,))
    assert "adapted" in _seen_against_unseen(weak, attacked)
    more = _seen_against_unseen(attacked, weak)
    assert "more than unseen" in more
    assert f"{attacked.strongest.n_rows:,}" in more
