"""Ray on two CPUs, in a process of its own: the same numbers as in one process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from unspot.cluster import executor

pytest.importorskip("ray", reason="needs Ray: pip install 'unspot[ray]'")
pytestmark = pytest.mark.slow

# Ray starts servers and workers, and warns about its own; here it cannot disturb other tests.
PROGRAM = """
import json, pathlib, sys
import joblib, numpy as np, pyarrow as pa, ray
from ray.util.joblib import register_ray
from unspot import LEACE, Eraser
from unspot.bulk import Erasure, transform_files
from unspot.cluster import executor
from unspot.cluster.ray import erase

folder = pathlib.Path(sys.argv[1])
N, D, R = 500, 6, 4
rng = np.random.default_rng(0)
z = rng.choice(["a", "b"], size=N)
X = (rng.normal(size=(N, D)) + (z == "b")[:, None]).astype(np.float32)
eraser = Eraser.projection(np.linalg.qr(rng.normal(size=(D, R)))[0])
ids = np.arange(N)
found = {}

def dataset(kind):
    if kind == "tensor":
        other = ray.data.from_arrow(pa.table({"id": ids, "job": z}))
        return ray.data.from_numpy(X).zip(other), "data"
    if kind == "wide":
        columns = {f"e_{j}": X[:, j] for j in range(D)}
        return ray.data.from_arrow(pa.table({"id": ids, **columns, "job": z})), "e_*"
    return ray.data.from_arrow(pa.table({"id": ids, "emb": pa.array(list(X)), "job": z})), "emb"

def erased(kind, reduce):
    made, features = dataset(kind)
    made = erase(made.repartition(4), eraser, features=features, reduce=reduce, batch_size=64)
    rows = sorted(made.take_all(), key=lambda row: row["id"])
    schema = made.schema()
    names = [n for n in schema.names if n not in ("id", "job")]
    values = [np.ravel([row[n] for n in names]) for row in rows]
    expected = eraser.reduce(X) if reduce else eraser(X)
    return {
        "names": schema.names,
        "types": sorted({str(t) for n, t in zip(schema.names, schema.types) if n in names}),
        "others": [(r["id"], r["job"]) for r in rows] == list(zip(ids.tolist(), z.tolist())),
        "error": float(np.abs(np.stack(values) - expected).max()),
    }

def leftover(method):
    erased = LEACE(method=method).fit_transform(X, z)
    return float(np.abs(erased[z == "a"].mean(0) - erased[z == "b"].mean(0)).max())

def files(pool):
    parts = folder / "in"
    parts.mkdir()
    for i, part in enumerate(np.array_split(X, 5)):
        np.save(parts / f"{i}.npy", part)
    here = transform_files(Erasure(eraser), [parts], folder / "here").manifest
    there = transform_files(Erasure(eraser), [parts], folder / "there", executor=pool).manifest
    np.save(parts / "3.npy", X[:, :2])
    try:
        transform_files(Erasure(eraser), [parts], folder / "other", executor=pool)
        error = ""
    except ValueError as bad:
        error = str(bad)
    return {"same": here == there, "rows": there["rows"], "error": error}

if __name__ == "__main__":
    with executor("ray", workers=2) as pool:
        ray.data.DataContext.get_current().enable_progress_bars = False
        found["cpus"] = ray.cluster_resources()["CPU"]
        for kind in ("list", "wide", "tensor"):
            for reduce in (False, True):
                found[f"{kind} {reduce}"] = erased(kind, reduce)
        found["files"] = files(pool)
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            methods = ("oblique", "orthogonal")
            found["sweep"] = joblib.Parallel()(joblib.delayed(leftover)(m) for m in methods)
    found["stopped"] = not ray.is_initialized()
    (folder / "found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ray")
    (folder / "program.py").write_text(PROGRAM)
    # Ray's workers are nice to others by default; on a busy machine of two cores, far too nice.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [sys.executable, str(folder / "program.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("kind", ["list", "wide", "tensor"])
def test_datasets(found, kind, reduce):
    erased = found[f"{kind} {reduce}"]
    assert erased["error"] < 1e-5
    assert erased["others"]
    new = [f"reduced_{j}" for j in range(4)] if reduce else [f"e_{j}" for j in range(6)]
    names = {"list": ["emb"], "wide": new, "tensor": ["data"]}[kind]
    assert set(erased["names"]) == {"id", "job", *names}
    assert len(erased["types"]) == 1
    assert "float" in erased["types"][0]
    assert "double" not in erased["types"][0]


def test_files_by_a_cluster(found):
    """The same manifest as by threads, and an error that names the file."""
    assert found["cpus"] == 2
    assert found["files"]["same"]
    assert found["files"]["rows"] == 500
    assert found["files"]["error"].startswith("Got vectors of length 2 in ")
    assert "3.npy" in found["files"]["error"]
    assert found["stopped"]


def test_a_sweep_by_joblib(found):
    """joblib's own Ray backend runs fits on the workers; nothing of ours is needed."""
    assert max(found["sweep"]) < 1e-4


def test_nobody_at_the_address():
    with (
        pytest.raises(ConnectionError, match="but no Ray cluster answered there"),
        executor("ray", "127.0.0.1:1"),
    ):
        np.zeros(1)
