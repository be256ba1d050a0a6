"""L̄EOPARD: what the theory says of the result, what users bring, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from unspot import LEACE, LEOPARD
from unspot.leopard import GaussianMixture, ManifoldSolver, PaperSolver, mmd2

QUICK = ManifoldSolver(max_evaluations=4)


def discrepancy(X, z):
    return float(
        mmd2(torch.from_numpy(np.ascontiguousarray(X)), np.unique(z, return_inverse=True)[1])
    )


@settings(max_examples=20, deadline=None)
@pytest.mark.filterwarnings("ignore:.*LEOPARD erases nothing")
@given(
    d=st.integers(2, 12),
    n=st.integers(12, 60),
    K=st.sampled_from([2, 3, 5]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64, np.int32]),
    order=st.sampled_from(["C", "F"]),
    metric=st.sampled_from(["euclidean", "whitened"]),
    data=st.data(),
)
def test_result_is_a_projector_of_the_rank(d, n, K, dtype, order, metric, data):
    rank = data.draw(st.integers(1, d))
    rng = np.random.default_rng(0)
    X = np.asarray(10 * rng.normal(size=(n, d)), dtype=dtype, order=order)
    X.setflags(write=False)
    fitted = LEOPARD(rank=rank, solver=QUICK, metric=metric, random_state=0).fit(
        X, np.arange(n) % K
    )
    P = fitted.eraser_.P
    np.testing.assert_allclose(P, P.T, atol=1e-6)
    np.testing.assert_allclose(P @ P, P, atol=1e-6)
    assert np.linalg.matrix_rank(P, tol=1e-6) == rank == fitted.rank_
    assert fitted.transform(X).shape == X.shape
    assert fitted.reduce(X).shape == (n, rank)


def test_erases_what_linear_erasure_cannot(variance_coded):
    X, z = variance_coded
    train, test = np.arange(0, 600, 2), np.arange(1, 600, 2)

    def nonlinear_accuracy(eraser):
        Y = eraser.fit(X[train], z[train]).reduce(X)
        probe = QuadraticDiscriminantAnalysis().fit(Y[train], z[train])
        return probe.score(Y[test], z[test])

    assert nonlinear_accuracy(LEACE()) > 0.70
    assert nonlinear_accuracy(LEOPARD(rank=5, random_state=0)) < 0.58


@pytest.mark.parametrize("solver", [ManifoldSolver(), PaperSolver(epochs=200, learning_rate=0.02)])
@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_both_solvers_and_metrics_match_densities(variance_coded, solver, metric):
    X, z = variance_coded
    before = discrepancy(X, z)
    fitted = LEOPARD(rank=5, solver=replace(solver, init="identity"), metric=metric, random_state=0)
    after = discrepancy(fitted.fit(X, z).reduce(X), z)
    assert after < 0.1 * before


def test_history_tells_the_way_down(variance_coded):
    X, z = variance_coded
    history = (
        LEOPARD(rank=4, solver=ManifoldSolver(init="identity"), random_state=0).fit(X, z).history_
    )
    assert {"loss", "held_out", "evaluations", "seconds"} == set(history)
    assert history["loss"][-1] < history["loss"][0]
    assert np.isfinite(history["held_out"]).all()
    assert (np.diff(history["seconds"]) >= 0).all()


def test_the_loss_that_is_told_is_that_of_the_kept_subspace(variance_coded):
    """Held-out rows decide, and the last step is rarely their best."""
    X, z = variance_coded
    before_the_last = 0
    for seed in range(5):
        fitted = LEOPARD(rank=7, solver=ManifoldSolver(max_rows=300), random_state=seed).fit(X, z)
        best = int(np.argmin(fitted.history_["held_out"]))
        assert fitted.eraser_.metadata["loss"] == fitted.history_["loss"][best]
        before_the_last += 0 < best < len(fitted.history_["loss"]) - 1
    assert before_the_last > 0


def test_whitened_metric_is_affine_invariant(three_classes, rng):
    X, z = three_classes
    A = rng.normal(size=(10, 10)) + 3 * np.eye(10)
    settings = {"rank": 5, "metric": "whitened", "random_state": 0, "solver": QUICK}
    plain = LEOPARD(**settings).fit(X, z)
    changed = LEOPARD(**settings).fit(X @ A + 7.0, z)
    # The same information is kept: the same loss, in any units.
    np.testing.assert_allclose(plain.history_["loss"], changed.history_["loss"], rtol=1e-5)


def test_euclidean_metric_is_invariant_to_rotation(three_classes, rng):
    X, z = three_classes
    rotation, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    settings = {"rank": 5, "random_state": 0, "solver": QUICK}
    P = LEOPARD(**settings).fit(X, z).eraser_.P
    rotated = LEOPARD(**settings).fit(X @ rotation, z).eraser_.P
    np.testing.assert_allclose(rotation @ rotated @ rotation.T, P, atol=1e-6)


def test_names_of_classes_do_not_matter(three_classes):
    X, z = three_classes
    numbers = np.select([z == "a", z == "b"], [30, 10], 20)  # another order of the classes
    settings = {"rank": 5, "random_state": 0}
    P = LEOPARD(**settings, solver=PaperSolver(epochs=5)).fit(X, z).eraser_.P
    Q = LEOPARD(**settings, solver=PaperSolver(epochs=5)).fit(X, numbers).eraser_.P
    np.testing.assert_allclose(P, Q, atol=1e-7)


def test_order_of_rows_does_not_matter(three_classes, rng):
    X, z = three_classes
    order = rng.permutation(len(X))
    settings = {"rank": 5, "solver": PaperSolver(epochs=5), "random_state": 0}
    P = LEOPARD(**settings).fit(X, z).eraser_.P
    Q = LEOPARD(**settings).fit(X[order], z[order]).eraser_.P
    np.testing.assert_allclose(P, Q, atol=1e-7)


def test_preserve_keeps_variance(three_classes):
    X, z = three_classes
    kept = []
    for preserve in (0.0, 1.0, 100.0):
        fitted = LEOPARD(
            rank=4, preserve=preserve, solver=ManifoldSolver(init="pca"), random_state=0
        ).fit(X, z)
        Y = fitted.reduce(X)
        kept.append(np.var(Y - Y.mean(0)) * 4 / (np.var(X - X.mean(0)) * 10))
    assert kept[0] < kept[1] < kept[2]
    largest = np.linalg.eigvalsh(np.cov(X.T, bias=True))[-4:].sum()
    assert kept[2] == pytest.approx(largest / np.trace(np.cov(X.T, bias=True)), rel=0.02)


def test_preserve_keeps_variance_where_no_nonlinear_signal_is_left(rng):
    """Only the means differ: what LEACE leaves is noise around zero, and no unit of a trade."""
    z = np.arange(400) % 2
    X = rng.normal(size=(400, 10)) * np.linspace(2.0, 0.5, 10)
    X[z == 1, 0] += 3.0
    kept = []
    for preserve in (0.0, 100.0):
        fitted = LEOPARD(
            rank=3, preserve=preserve, solver=ManifoldSolver(init="moments"), random_state=0
        ).fit(X, z)
        kept.append(np.trace(np.cov(fitted.reduce(X).T)))
    assert kept[1] > 2 * kept[0]


def test_row_budget(three_classes):
    X, z = three_classes
    many_X, many_z = np.tile(X, (20, 1)), np.tile(z, 20)
    fitted = LEOPARD(rank=5, random_state=0, solver=replace(QUICK, max_rows=600)).fit(
        many_X, many_z
    )
    assert fitted.eraser_.metadata["rows_used"] == 600
    assert fitted.eraser_.metadata["n_rows"] == len(many_X)


def test_many_classes_cost_no_scatter_each(rng):
    """K·d² numbers are for the start from moments alone; with many classes they are the most."""
    K, d = 40, 256
    X, z = rng.normal(size=(400, d)), (np.arange(400) % K).astype(str)
    tracemalloc.start()
    LEOPARD(20, solver=QUICK, random_state=0).fit(X, z)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * K * d**2 / 2


@pytest.mark.parametrize("scale", [1e-24, 1e20])
@pytest.mark.parametrize("kernel", ["paper", GaussianMixture((2.0, 8.0), bandwidth=3.0)])
@pytest.mark.parametrize("preserve", [0.0, 0.1])
def test_the_unit_of_single_precision_does_not_matter(variance_coded, scale, kernel, preserve):
    """Squares of such rows do not fit it."""
    X, z = variance_coded
    X = X.astype(np.float32)
    scale = 2.0 ** round(np.log2(scale))  # without rounding
    own = GaussianMixture(kernel.multipliers, 3.0 * scale) if kernel != "paper" else kernel
    plain = LEOPARD(4, kernel=kernel, preserve=preserve, solver=QUICK, random_state=0).fit(X, z)
    found = LEOPARD(4, kernel=own, preserve=preserve, solver=QUICK, random_state=0).fit(
        X * np.float32(scale), z
    )
    np.testing.assert_array_equal(found.eraser_.U, plain.eraser_.U)


def test_rows_far_away_are_warned_of(variance_coded):
    X, z = variance_coded
    X = X.copy()
    X[7] = 1e6
    message = r"Got rows as far as 2\.83e\+06 from the middle, where half of them are within [34]\."
    with pytest.warns(UserWarning, match=message):
        LEOPARD(4, solver=QUICK, random_state=0).fit(X, z)


def test_fraction_of_the_features(three_classes):
    X, z = three_classes
    assert LEOPARD(rank=0.25, solver=QUICK).fit(X, z).rank_ == 2
    assert LEOPARD(rank=0.01, solver=QUICK).fit(X, z).rank_ == 1


@pytest.mark.parametrize("rank", [10, 0.99])
def test_full_rank_changes_nothing_and_says_so(three_classes, rank):
    X, z = three_classes
    with pytest.warns(UserWarning, match="rank 10 of 10 dimensions, which keeps them all: LEOPARD"):
        fitted = LEOPARD(rank=rank).fit(X, z)
    np.testing.assert_allclose(fitted.transform(X), X, atol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.hstack([X, np.ones((len(X), 2))]),  # constant features
        lambda X: np.repeat(X[:40], 2, axis=0)[:80],  # duplicated rows
        lambda X: np.hstack([X] * 9)[:60],  # d > n, and collinear
        lambda X: X[::2][:, ::-1],  # not contiguous
    ],
)
@pytest.mark.parametrize("metric", ["euclidean", "whitened"])
def test_odd_but_valid_input(three_classes, change, metric):
    X = change(three_classes[0])
    fitted = LEOPARD(rank=3, metric=metric, solver=QUICK, random_state=0)
    erased = fitted.fit(X, np.arange(len(X)) % 2).transform(X)
    assert np.isfinite(erased).all()


PROGRAM = """
import hashlib, numpy as np
from unspot import LEOPARD
rng = np.random.default_rng(0)
X = rng.normal(size=(900, 12)).astype(np.float32)
z = rng.integers(0, 3, 900)
for solver in ("manifold", "paper"):
    from unspot.leopard import ManifoldSolver, PaperSolver
    paper = PaperSolver(epochs=3, batch_size=200)
    s = ManifoldSolver(max_rows=500) if solver == "manifold" else paper
    P = LEOPARD(rank=5, solver=s, random_state=7).fit(X, z).eraser_.P
    print(hashlib.sha256(P.tobytes()).hexdigest())
"""


def test_same_seed_same_bits_in_one_process_and_in_two():
    namespaces = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True)
        for _ in range(2)
    ]
    assert namespaces[0].stdout == namespaces[1].stdout
    assert len(namespaces[0].stdout.split()) == 2
    X = np.random.default_rng(0).normal(size=(300, 6))
    z = np.arange(300) % 2
    a, b = (
        LEOPARD(rank=3, solver=ManifoldSolver(max_rows=100), random_state=5).fit(X, z).eraser_.P
        for _ in range(2)
    )
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 900}, "Got rank=900, but expected an integer from 1 to 10, the number of"),
        ({"rank": 0}, "Got rank=0"),
        ({"rank": 1.5}, "Got rank=1.5"),
        ({"rank": True}, "Got rank=True"),
        ({"rank": "many"}, "Got rank='many'"),
        ({"solver": "adam"}, "expected 'manifold', 'paper'"),
        ({"metric": "cosine"}, "expected 'euclidean', 'standardised' or 'whitened'"),
        ({"kernel": "laplace"}, "expected 'paper', 'reference' or a GaussianMixture"),
        ({"solver": ManifoldSolver(init="random")}, "'identity', 'moments', 'pca'"),
        ({"preserve": -1.0}, "a number from 0 up"),
        ({"preserve": 1.0, "solver": "paper"}, "Use solver='manifold', or preserve=0"),
    ],
)
def test_bad_parameters(three_classes, parameters, message):
    with pytest.raises(ValueError, match=message):
        LEOPARD(**parameters).fit(*three_classes)


def test_a_solver_needs_rows():
    with pytest.raises(ValueError, match=r"max_rows=2, .* at least 8"):
        ManifoldSolver(max_rows=2)


def broken(value, row=3):
    X = np.ones((6, 4))
    X[row, 1:3] = value
    return X


@pytest.mark.parametrize(
    ("X", "z", "message"),
    [
        (broken(np.nan), [0, 1] * 3, "2 values of NaN or infinity in X .the first in row 3"),
        (broken(np.inf, 5), [0, 1] * 3, "2 values of NaN or infinity in X .the first in row 5"),
        (np.ones((6, 4)), [0, 1] * 2, "4 labels in z for 6 rows of X"),
        (np.ones((6, 4)), [0] * 6, "one class in z"),
        (np.ones((6, 4)), [0] * 5 + [1], "1 row of class 1 in z, but expected at least 2"),
        (np.ones((6, 4)), ["a", "b", None] * 2, "2 missing labels"),
        (np.array([["a", "b"]] * 6), [0, 1] * 3, "could not convert string to float"),
        (np.ones((0, 4)), [], "0 sample"),
        (np.ones(6), [0, 1] * 3, "Expected 2D array"),
    ],
)
def test_bad_input(X, z, message):
    with pytest.raises(ValueError, match=message):
        LEOPARD().fit(X, z)


def test_wrong_width_at_transform(three_classes):
    fitted = LEOPARD(rank=2, solver=QUICK).fit(*three_classes)
    with pytest.raises(ValueError, match="X has 9 features, but LEOPARD is expecting 10"):
        fitted.transform(np.ones((2, 9)))


def test_single_precision_and_a_kernel_of_ones_own(three_classes):
    X, z = three_classes
    kernel = GaussianMixture((0.5, 2.0), bandwidth="pair")
    fitted = LEOPARD(rank=3, kernel=kernel, solver=QUICK).fit(X.astype(np.float32), z)
    assert fitted.transform(X.astype(np.float32)).dtype == np.float32
    assert "GaussianMixture" in fitted.eraser_.metadata["parameters"]["kernel"]


def test_progress_goes_to_stderr(three_classes, capsys):
    LEOPARD(rank=3, solver=QUICK, verbose=True).fit(*three_classes)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Matching 4 of 4 steps: loss" in captured.err


@pytest.mark.parametrize("rows", ["few", "twice"])
def test_a_rank_that_keeps_all_that_varies_is_said(rows):
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(12, 20)), np.arange(12) % 2
    if rows == "twice":
        X, z = np.repeat(rng.normal(size=(200, 3)), 2, axis=1), np.arange(200) % 2
    with pytest.warns(UserWarning, match="keeps them all: .*erases nothing"):
        LEOPARD(rank=0.6, random_state=0).fit(X, z)
