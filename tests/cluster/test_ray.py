"""Ray on two CPUs: the same numbers as in one process."""

import numpy as np
import pyarrow as pa
import pytest

from unspot import LEACE, Eraser
from unspot.bulk import Erasure, transform_files
from unspot.cluster import executor

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'unspot[ray]'")
pytest.importorskip("ray.data", reason="needs Ray: pip install 'unspot[ray]'")

pytestmark = [
    pytest.mark.slow,
    # Ray's own: sockets and files of processes that it has ended, and pandas options it sets.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N, D, R = 500, 6, 4


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # Ray's workers are nice to others by default; on a busy machine of two cores, far too nice.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")
        yield from _cluster()


def _cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = rng.choice(["a", "b"], size=N)
    return rng.normal(size=(N, D)).astype(np.float32) + (z == "b")[:, None], z


@pytest.fixture(scope="module")
def eraser():
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.normal(size=(D, R)))
    return Eraser.projection(U)


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("kind", ["list", "wide", "tensor"])
def test_datasets(data, eraser, kind, reduce):
    from unspot.cluster.ray import erase

    X, z = data
    ids = np.arange(N)
    if kind == "tensor":
        made = ray.data.from_numpy(X).zip(ray.data.from_arrow(pa.table({"id": ids, "job": z})))
        features = "data"
    elif kind == "wide":
        columns = {f"e_{j}": X[:, j] for j in range(D)}
        made, features = ray.data.from_arrow(pa.table({"id": ids, **columns, "job": z})), "e_*"
    else:
        table = pa.table({"id": ids, "emb": pa.array(list(X)), "job": z})
        made, features = ray.data.from_arrow(table), "emb"
    found = erase(made.repartition(4), eraser, features=features, reduce=reduce, batch_size=64)
    frame = found.to_pandas().sort_values("id")
    assert frame["id"].tolist() == ids.tolist()
    assert frame["job"].tolist() == z.tolist()
    if kind == "wide":
        names = [f"reduced_{j}" for j in range(R)] if reduce else [f"e_{j}" for j in range(D)]
        values = frame[names].to_numpy()
    else:
        values = np.stack([np.asarray(v) for v in frame[features]])
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, eraser.reduce(X) if reduce else eraser(X), atol=1e-5)


def test_files_by_a_cluster(data, eraser, tmp_path):
    """The same manifest as by threads, and errors that name the file."""
    X, _ = data
    parts = tmp_path / "in"
    parts.mkdir()
    for i, part in enumerate(np.array_split(X, 5)):
        np.save(parts / f"{i}.npy", part)
    here = transform_files(Erasure(eraser), [parts], tmp_path / "here")
    with executor("ray") as pool:
        there = transform_files(Erasure(eraser), [parts], tmp_path / "there", executor=pool)
        assert there.manifest == here.manifest
        np.save(parts / "3.npy", X[:, :2])
        with pytest.raises(ValueError, match=r"^Got vectors of length 2 in '?.*3\.npy"):
            transform_files(Erasure(eraser), [parts], tmp_path / "other", executor=pool)
    assert ray.is_initialized()  # it was not ours to stop


def _leftover(X, z, method):
    erased = LEACE(method=method).fit_transform(X, z)
    return float(np.abs(erased[z == "a"].mean(0) - erased[z == "b"].mean(0)).max())


def test_a_sweep_by_joblib(data):
    """joblib's own Ray backend runs fits on the workers; nothing of ours is needed."""
    joblib = pytest.importorskip("joblib")
    from ray.util.joblib import register_ray

    register_ray()
    X, z = data
    with joblib.parallel_config("ray", n_jobs=2):
        left = joblib.Parallel()(
            joblib.delayed(_leftover)(X, z, method) for method in ("oblique", "orthogonal")
        )
    assert max(left) < 1e-4


def test_nobody_at_the_address():
    ray.shutdown()
    with (
        pytest.raises(ConnectionError, match="but no Ray cluster answered there"),
        executor("ray", "127.0.0.1:1"),
    ):
        pass
