"""A finite code is what its cells are, and its bound holds for every classifier and any law."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import unspot
from unspot import LEACE, Cascade, Eraser
from unspot.datasets.synthetic import law
from unspot.evaluation import FiniteCode, attack, code_bound

RNG = np.random.default_rng(0)

#: p(cell | class), (K, cells), and the shares of the classes.
LAWS = {
    "independent": (np.full((2, 20), 1 / 20), (0.5, 0.5)),
    "two cells": (np.array([[0.6, 0.4], [0.4, 0.6]]), (0.5, 0.5)),
    "told entirely": (np.eye(3), (0.4, 0.4, 0.2)),
    "a rare class": (RNG.dirichlet(np.ones(10), size=2), (0.95, 0.05)),
    "many thin cells": (RNG.dirichlet(np.full(200, 0.3), size=4), (0.25,) * 4),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_bound_holds_whatever_the_law(name):
    p, shares = LAWS[name]
    best = p.max(axis=0).sum() / len(p) - 1 / len(p)
    rng, missed, missed_without_slack = np.random.default_rng(1), 0, 0
    for _ in range(200):
        counts = np.maximum(np.round(400 * np.array(shares)), 1).astype(int)
        z = np.repeat(np.arange(len(p)), counts)
        cells = np.concatenate([rng.choice(p.shape[1], n, p=p[k]) for k, n in enumerate(counts)])
        bound = code_bound(cells, z, alpha=0.1)
        missed += bound.upper_bound < best - 1e-12
        missed_without_slack += bound.advantage < best - 1e-12
    assert missed / 200 <= 0.1
    if name == "two cells":
        assert missed_without_slack / 200 > 0.3  # hence the slack


def test_no_attacker_does_better_than_the_bound():
    rows = law("xor", n=2000, d=2, random_state=0)
    code = FiniteCode(16, random_state=0).fit(rows.X, rows.z)
    X_test, z_test = rows.sample(4000, random_state=1)
    bound = code.bound(X_test, z_test)
    X_new, z_new = rows.sample(4000, random_state=2)
    best = attack(
        code.transform(rows.X), rows.z, code.transform(X_new), z_new, attackers=["neighbours"]
    )[0]
    assert 0.1 < best.advantage < bound.upper_bound < 0.5
    assert bound.n_rows == 4000
    assert bound.n_cells == 16


def test_rows_become_one_of_the_centres_in_every_dtype():
    X = np.random.default_rng(0).normal(size=(200, 3))
    code = FiniteCode(5, random_state=0).fit(X, np.arange(200) % 2)
    centres = code.eraser_.maps[0].centres
    for dtype in (np.float64, np.float32, np.float16):
        rows = X.astype(dtype)
        erased = code.transform(rows)
        assert erased.dtype == dtype
        np.testing.assert_array_equal(erased, centres[code.cells(rows)].astype(dtype))
    distances = ((X[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(code.cells(X), distances.argmin(axis=1))


def test_fewer_rows_than_cells():
    X = np.repeat(np.eye(3), 4, axis=0)
    code = FiniteCode(50, random_state=0).fit(X, np.arange(12) % 2)
    np.testing.assert_allclose(code.transform(X), X, atol=1e-12)


def test_after_an_eraser_in_one_file(tmp_path):
    rows = law("mean", n=500, d=4, random_state=0)
    first = LEACE().fit(rows.X, rows.z)
    code = FiniteCode(6, random_state=0).fit(first.transform(rows.X), rows.z)
    Eraser((*first.eraser_.maps, *code.eraser_.maps)).save(tmp_path / "both.safetensors")
    both = unspot.load(tmp_path / "both.safetensors")
    expected = make_pipeline(LEACE(), FiniteCode(6, random_state=0)).fit(rows.X, rows.z)
    np.testing.assert_allclose(both(rows.X), expected.transform(rows.X), atol=1e-9)
    cascade = Cascade(FiniteCode(6, random_state=0)).fit(rows.X, rows.z)
    assert len(np.unique(cascade.transform(rows.X), axis=0)) == 6


def test_torch_tensors_are_erased_too():
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(0).normal(size=(50, 3))
    code = FiniteCode(5, random_state=0).fit(X, np.arange(50) % 2)
    np.testing.assert_allclose(code.eraser_(torch.tensor(X)).numpy(), code.transform(X))


def test_what_cannot_be_bounded_is_said():
    with pytest.raises(ValueError, match="alpha=1"):
        code_bound([0, 1], [0, 1], alpha=1)
    with pytest.raises(ValueError, match="3 values in cells for 2 rows"):
        code_bound([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match="n_cells=0"):
        FiniteCode(0).fit(np.eye(3), [0, 1, 0])


def test_an_estimator_like_the_others():
    check_estimator(FiniteCode(random_state=0), on_skip=None)
