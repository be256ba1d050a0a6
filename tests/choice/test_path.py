"""A rank path: every rank as a fit of it, behind one first stage."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from unspot import LEACE, LEOPARD, Cascade, Dataset, rank_path
from unspot.checks import default_ranks
from unspot.choice import path as path_module
from unspot.choice.path import check_ranks, held_out_discrepancy
from unspot.erasers.baselines import PCAProjection
from unspot.erasers.transport import Transport
from unspot.leopard import ManifoldSolver, PaperSolver


@pytest.fixture(scope="module")
def data():
    """Twelve rotated directions: one differs by its mean, three by their variance."""
    rng = np.random.default_rng(0)
    z = np.arange(4000) % 2
    X = rng.normal(size=(4000, 12))
    X[z == 1, 0] += 2.0
    X[z == 1, 1:4] *= 2.5
    rotation, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    names, task = np.where(z == 1, "b", "a"), rng.integers(2, size=4000)
    sizes = (0.25, 0.65, 0.1)
    return Dataset.from_arrays(X @ rotation.T, names, task, sizes=sizes, random_state=0)


@pytest.fixture(scope="module", params=["standard", "cascaded"])
def path(request, data):
    eraser = LEOPARD(random_state=0)
    return rank_path(
        Cascade(second=eraser) if request.param == "cascaded" else eraser, data, [9, 6, 3]
    )


def test_every_rank_has_its_projector(path, data):
    assert path.ranks == (9, 6, 3)
    for point in path:
        assert point.eraser.rank == point.rank == point.estimator.rank_
        np.testing.assert_allclose(point.eraser.P @ point.eraser.P, point.eraser.P, atol=1e-9)
        np.testing.assert_allclose(
            point.estimator.transform(data.test.X), point.eraser(data.test.X), atol=1e-9
        )


def test_the_full_rank_is_a_point_like_others(data):
    quick = LEOPARD(solver=ManifoldSolver(max_evaluations=3), random_state=0)
    assert rank_path(quick, data, [12, 6]).ranks == (12, 6)  # and no warning


def test_every_rank_is_what_a_fit_of_it_is(path, data):
    held_out = held_out_discrepancy(data, LEOPARD(), 0)
    cascaded = path.method == "Cascade"
    for point in path.points:
        eraser = LEOPARD(point.rank, random_state=0)
        alone = (Cascade(second=eraser) if cascaded else eraser).fit(data.train.X, data.train.z)
        assert point.held_out == pytest.approx(held_out(alone.eraser_))
        np.testing.assert_allclose(point.eraser.P, alone.eraser_.P, atol=1e-8)


def test_cascaded_ranks_share_a_linear_stage_and_equalise_means(data):
    path = rank_path(Cascade(random_state=0), data, [9, 3])
    high, low = (point.estimator for point in path)
    assert high.first_ is low.first_
    for point in path:
        erased = point.eraser(data.train.X)
        means = [erased[data.train.z == k].mean(axis=0) for k in ("a", "b")]
        np.testing.assert_allclose(means[0], means[1], atol=1e-8)


def test_ranks_after_transport_share_it_too(data):
    eraser = Cascade(Cascade(Transport(), LEACE(method="orthogonal")), LEOPARD(random_state=0))
    path = rank_path(eraser, data, [8, 3])
    high, low = (point.estimator for point in path)
    assert high.first_ is low.first_
    expected = clone(eraser).set_params(rank=8)
    expected.fit(data.train.X, data.train.z)
    np.testing.assert_allclose(
        high.transform(data.test.X), expected.transform(data.test.X), atol=1e-6
    )
    assert low.eraser_.rank == 3
    assert "Transport" in low.eraser_.metadata["parameters"]["first"]


def test_cascaded_path_equals_a_cascade(data):
    """The path has just what a fit has, with its metadata."""
    top = rank_path(Cascade(random_state=0), data, [8])[8].estimator
    alone = Cascade(rank=8, random_state=0).fit(data.train.X, data.train.z)
    np.testing.assert_allclose(top.eraser_.P, alone.eraser_.P, atol=1e-8)
    assert set(top.eraser_.metadata) == set(alone.eraser_.metadata)
    assert list(top.classes_) == ["a", "b"]
    assert top.n_features_in_ == 12


@pytest.mark.parametrize("dtype", [np.int64, np.float16])
def test_whole_numbers_and_half_precision(data, dtype):
    def path(X):
        like = Dataset.from_arrays(X, data.train.z, sizes=(0.5, 0.3, 0.2), random_state=0)
        quick = LEOPARD(solver=ManifoldSolver(max_evaluations=3), random_state=0)
        return rank_path(Cascade(second=quick), like, [8, 4])

    X = (100 * data.train.X).round().astype(dtype)
    for found, expected in zip(path(X), path(X.astype(np.float64)), strict=True):
        assert found.held_out == pytest.approx(expected.held_out, abs=1e-3)
        np.testing.assert_allclose(found.eraser.P, expected.eraser.P, atol=1e-3)


def test_same_seed_same_path(data):
    first, second = (rank_path(LEOPARD(random_state=3), data, [6, 2]) for _ in range(2))
    for rank in (6, 2):
        np.testing.assert_array_equal(first[rank].eraser.U, second[rank].eraser.U)


def test_the_given_estimator_is_left_alone(data):
    eraser = LEOPARD(random_state=0)
    before = eraser.get_params()
    rank_path(eraser, data, [6, 2])
    assert eraser.get_params() == before
    assert not hasattr(eraser, "eraser_")


@pytest.mark.parametrize(
    "eraser",
    [
        PCAProjection(),
        Cascade(second=PCAProjection()),
        LEOPARD(solver=PaperSolver(epochs=3), random_state=0),
    ],
)
def test_other_erasers_are_refitted(data, eraser):
    path = rank_path(eraser, data, [6, 2])
    assert path[2].eraser.rank == 2
    if isinstance(eraser, PCAProjection):
        alone = PCAProjection(2).fit(data.train.X, data.train.z).eraser_
        np.testing.assert_allclose(path[2].eraser.P, alone.P, atol=1e-9)


def test_settings_of_the_solver_are_kept(data):
    eraser = LEOPARD(solver=ManifoldSolver(max_evaluations=5, memory=3), random_state=0)
    path = rank_path(eraser, data, [6, 2])
    assert path[2].estimator.solver.max_evaluations == 5
    assert path[2].estimator.solver.memory == 3


@pytest.mark.parametrize("options", [{"metric": "whitened"}, {"preserve": 0.5}])
def test_options_of_leopard(data, options):
    path = rank_path(LEOPARD(random_state=0, **options), data, [8, 4])
    assert path[4].held_out < 0.05


def test_metrics_have_a_mean_and_a_spread(data):
    path = rank_path(
        PCAProjection(), data, [6, 2], metrics=["neighbours", "mdl", "task_linear"], seeds=2
    )
    assert {"neighbours", "mdl", "task_linear"} <= set(path[6].metrics)
    assert path[6].metrics["neighbours"][0] > path[2].metrics["neighbours"][0]
    assert path[2].metrics["neighbours"][1] == 0.0
    assert path[2].metrics["mdl"][1] > 0.0


def test_test_rows_are_not_touched(data):
    spoiled = Dataset(data.train, data.validation, data.test.take(np.arange(0)))
    path = rank_path(PCAProjection(), spoiled, [6, 2], metrics=["neighbours", "linear"])
    whole = rank_path(PCAProjection(), data, [6, 2], metrics=["neighbours", "linear"])
    assert path[2].metrics == whole[2].metrics


def test_tables(data):
    path = rank_path(PCAProjection(), data, [6, 2], metrics=["neighbours"], seeds=1)
    frame = path.to_frame()
    assert list(frame["rank"]) == [6, 2]
    assert {"held_out", "neighbours", "neighbours_spread", "seconds"} <= set(frame)
    content = json.loads(path.to_json())
    assert content["points"][1]["neighbours"] == path[2].metrics["neighbours"][0]
    lines = path.to_markdown().splitlines()
    assert lines[0] == "| rank | held-out MMD² | neighbours | seconds |"
    assert lines[2].startswith("| 6 | ")
    assert len(path) == 2
    assert path.seconds == pytest.approx(sum(frame["seconds"]))


def test_a_metric_that_is_undefined_at_a_rank_keeps_its_column(data):
    path = rank_path(PCAProjection(), data, [6, 3])
    first, second = path.points
    points = (
        replace(first, metrics={"probe": (0.5, 0.01)}),
        replace(second, metrics={"tpr_gap": (0.25, 0.0), "probe": (0.4, 0.0)}),
    )
    lines = replace(path, points=points).to_markdown().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0][2:-1] == ["probe", "tpr_gap"]
    assert cells[2][2:-1] == ["0.500 ± 0.010", "–"]
    assert cells[3][2:-1] == ["0.400", "0.250"]


def test_ranks_by_default():
    assert default_ranks(3) == (3, 2, 1)
    assert check_ranks(None, 40) == (36, 32, 28, 24, 20, 16, 12, 8, 4, 2)


@pytest.mark.parametrize("seeds", [0, -1, 1.5, True])
def test_metrics_are_measured_at_least_once(data, seeds):
    with pytest.raises(ValueError, match=rf"Got seeds={seeds}, .*of at least 1"):
        rank_path(PCAProjection(), data, [6, 3], metrics=["variance"], seeds=seeds)


def test_ranks_may_rise_or_be_fractions():
    assert check_ranks([1, 5, 9], 10) == (9, 5, 1)
    assert check_ranks([0.5, 0.1], 10) == (5, 1)


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([13, 5], "Got rank=13, .*from 1 to 12, the number of features"),
        ([5, 0], "Got rank=0, .*from 1 to 12"),
        ([5, 9, 2], r"Got ranks 5, 9, 2, .*decreasing order .*: 9, 5, 2\."),
        ([5, 5, 2], "without repeats: 5, 2"),
        ([], "Got no ranks"),
    ],
)
def test_bad_ranks(data, ranks, message):
    with pytest.raises(ValueError, match=message):
        rank_path(LEOPARD(), data, ranks)


def test_ranks_of_a_cascade_are_of_what_linear_erasure_leaves(data):
    with pytest.raises(ValueError, match=r"Got rank=12, .*1 to 11, .*the first stage leaves of 12"):
        rank_path(Cascade(), data, [12, 5])


@pytest.mark.parametrize("eraser", [LEACE(), Cascade(second=LEACE())])
def test_an_eraser_without_a_rank(data, eraser):
    with pytest.raises(ValueError, match="Got LEACE, which has no rank"):
        rank_path(eraser, data, [5])


def test_unknown_rank_and_metric(data):
    path = rank_path(PCAProjection(), data, [6, 2])
    with pytest.raises(KeyError, match=r"Got rank 5, .*6, 2"):
        path[5]
    with pytest.raises(ValueError, match=r"Got metric 'neighbors'.*Did you mean 'neighbours'"):
        rank_path(PCAProjection(), data, [6, 2], metrics=["neighbors"])


def test_ctrl_c_keeps_the_ranks_that_are_done(data, monkeypatch):
    calls, point = [], path_module._point

    def stopped(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return point(*args, **kwargs)

    monkeypatch.setattr(path_module, "_point", stopped)
    with pytest.warns(UserWarning, match="Stopped after rank 3"):
        path = rank_path(LEOPARD(random_state=0), data, ranks=[5, 3, 2, 1])
    assert path.ranks == (5, 3)
    calls[:] = [None, None]  # before the first rank there is nothing to keep
    with pytest.raises(KeyboardInterrupt):
        rank_path(LEOPARD(random_state=0), data, ranks=[5, 3])
