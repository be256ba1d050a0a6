"""An informed attacker has more rows to learn from, and no label that it should not have."""

import numpy as np
import pytest

from unspot import LEACE, Dataset, Eraser
from unspot.data.dataset import Split
from unspot.datasets.synthetic import law
from unspot.evaluation import attack, informed_attack

FEW = {"attackers": ["mlp-64"], "budget": "quick"}


@pytest.fixture(scope="module")
def data():
    """A concept that raw rows show plainly and that erased rows show by a curve only."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=3000)
    X = rng.normal(size=(3000, 8))
    X[:, 0] = np.abs(X[:, 0]) * np.sign(X[:, 1]) * np.where(z == 1, 1, -1)  # xor of two signs
    X[:, 2] = 3 * z + 0.3 * X[:, 2]
    return Dataset.from_arrays(X, z, sizes=(0.5, 0.05, 0.45), random_state=0)


@pytest.fixture(scope="module")
def eraser():
    """Drops the column that shows the concept plainly."""
    return Eraser.projection(np.delete(np.eye(8), 2, axis=1))


def test_rows_that_a_teacher_has_labelled_make_it_stronger(data, eraser):
    known, test = data.validation, data.test
    alone = attack(eraser(known.X), known.z, eraser(test.X), test.z, **FEW)[0]
    informed = informed_attack(eraser, data, **FEW)[0]
    assert informed.n_rows == len(known) + len(data.train)
    assert informed.advantage > alone.advantage + 0.05
    assert informed.guesses.shape == (len(test),)


def test_labels_of_the_train_rows_are_not_used(data, eraser):
    hidden = Dataset(
        Split(data.train.X, np.zeros(len(data.train), dtype=int)), data.validation, data.test
    )
    seen, blind = (informed_attack(eraser, rows, **FEW)[0] for rows in (data, hidden))
    np.testing.assert_array_equal(seen.guesses, blind.guesses)


def test_nothing_is_found_where_nothing_is_left(data):
    noise = Eraser.projection(np.eye(8)[:, 4:])
    assert abs(informed_attack(noise, data, **FEW)[0].advantage) < 0.06


def test_the_rows_that_are_attacked_are_not_learned_from(data, eraser):
    few = data.train.X[:500]
    with_test = np.concatenate([few, data.test.X])
    fewer = informed_attack(eraser, data, raw=few, **FEW)[0]
    same = informed_attack(eraser, data, raw=with_test, **FEW)[0]
    assert fewer.n_rows == same.n_rows == len(data.validation) + 500
    np.testing.assert_array_equal(fewer.guesses, same.guesses)


def test_what_cannot_work_is_refused(data, eraser):
    with pytest.raises(ValueError, match=r"raw rows of shape \(3, 2\).*before erasure"):
        informed_attack(eraser, data, raw=np.ones((3, 2)), **FEW)
    on_test = LEACE().fit(data.test.X, data.test.z)
    with pytest.raises(ValueError, match="fitted on the test split"):
        informed_attack(on_test, data, **FEW)


def test_without_other_rows_it_is_an_attack_like_any_other():
    rows = law("mixture", n=900, d=4, random_state=0)
    data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    result = informed_attack(None, data, raw=np.empty((0, 4)), attackers=["neighbours"])[0]
    assert result.n_rows == len(data.validation)
    assert result.advantage > 0.1
