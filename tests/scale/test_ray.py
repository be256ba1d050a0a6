"""Ray on two CPUs, in a process of its own: the same numbers as in one process."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("ray", reason="needs Ray: pip install 'unspot[ray]'")
pytestmark = pytest.mark.slow

# Ray starts servers and workers, and warns about its own; here it cannot disturb other tests.
PROGRAM = """
import datetime, json, pathlib, sys
import joblib, numpy as np, pyarrow as pa, ray
from ray.data.extensions import ArrowTensorArray
from ray.util.joblib import register_ray
from unspot import LEACE, Eraser
from unspot.scale.ray import erase

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

# Columns that Arrow can hold and numpy cannot, beside a tensor column that is erased.
def beside_tensors(features, reduce):
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(i) for i in range(N)]
    others = pa.table({
        "row": ids,
        "large": pa.array([2**60 + i if i % 3 else None for i in range(N)]),
        "group": pa.array([["x", None, "y"][i % 3] for i in range(N)]).dictionary_encode(),
        "day": pa.array(days, pa.date32()),
        "words": pa.array([["a"] * (i % 3) if i % 5 else None for i in range(N)]),
        "image": ArrowTensorArray.from_numpy(np.arange(N * 4.0).reshape(N, 2, 2)),
    })
    made = ray.data.from_arrow(others.add_column(1, "emb", ArrowTensorArray.from_numpy(X)))
    made = erase(made, eraser, features=features, reduce=reduce, batch_size=64)
    table = pa.concat_tables(ray.get(made.to_arrow_refs())).sort_by("row")
    vectors = np.concatenate([chunk.to_numpy() for chunk in table.column("emb").chunks])
    expected = eraser.reduce(X) if reduce else eraser(X)
    return {
        "others": table.drop_columns("emb").equals(others),
        "names": table.column_names,
        "type": str(table.field("emb").type),
        "error": float(np.abs(vectors - expected).max()),
    }

def refused(table):
    try:
        erase(ray.data.from_arrow(table), eraser, features="emb").materialize()
        return ""
    except Exception as error:
        return str(error)

def refusals():
    tensors = ArrowTensorArray.from_numpy(X[:2])
    gap = tensors.type.wrap_array(pa.array([X[0], None], tensors.type.storage_type))
    images = ArrowTensorArray.from_numpy(X[:2].reshape(2, 2, 3))
    return {"gap": refused(pa.table({"emb": gap})), "images": refused(pa.table({"emb": images}))}

def leftover(method):
    erased = LEACE(method=method).fit_transform(X, z)
    return float(np.abs(erased[z == "a"].mean(0) - erased[z == "b"].mean(0)).max())

if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        found["cpus"] = ray.cluster_resources()["CPU"]
        for kind in ("list", "wide", "tensor"):
            for reduce in (False, True):
                found[f"{kind} {reduce}"] = erased(kind, reduce)
        for features, reduce in ((None, False), ("emb", True), (["emb"], False)):
            found[f"beside {features}"] = beside_tensors(features, reduce)
        found["refused"] = refusals()
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            methods = ("oblique", "orthogonal")
            found["sweep"] = joblib.Parallel()(joblib.delayed(leftover)(m) for m in methods)
    finally:
        ray.shutdown()
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


@pytest.mark.parametrize(("features", "width"), [(None, 6), ("emb", 4), (["emb"], 6)])
def test_columns_beside_tensors_stay(found, features, width):
    """Missing whole numbers, categories, dates, lists and other tensors: not one bit changes."""
    erased = found[f"beside {features}"]
    assert erased["others"]
    assert erased["names"] == ["row", "emb", "large", "group", "day", "words", "image"]
    assert erased["error"] < 1e-5
    assert "Tensor" in erased["type"]
    assert f"shape=({width},), dtype=float" in erased["type"]


def test_tensors_that_are_no_vectors(found):
    assert "Got 1 missing values in column 'emb' of the batch" in found["refused"]["gap"]
    assert "Got feature column emb of the batch, which does not" in found["refused"]["images"]


def test_a_sweep_by_joblib(found):
    """joblib's own Ray backend runs fits on the workers; nothing of ours is needed."""
    assert max(found["sweep"]) < 1e-4
