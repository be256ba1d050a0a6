"""Dask on two worker processes: the same numbers as in one process."""

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import LEACE, Eraser
from unspot.data.concept import Classes
from unspot.data.statistics import ClassStatistics

pytest.importorskip("dask", reason="needs Dask: pip install 'unspot[dask]'")
pytest.importorskip("distributed", reason="needs Dask: pip install 'unspot[dask]'")

import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster

from unspot.scale.dask import class_statistics, erase

N, D, R = 700, 6, 4


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        # Any free port for its pages: the usual one may be taken, by this test in another process.
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = rng.choice(["a", "b", "c"], size=N)
    X = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) + (z == "b")[:, None]
    return X.astype(np.float32), z


@pytest.fixture(scope="module")
def eraser():
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.normal(size=(D, R)))
    return Eraser.projection(U, mean=rng.normal(size=D))


def test_there_are_two_processes(client):
    assert len(set(client.run(__import__("os").getpid).values())) == 2


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("chunks", [(100, D), (333, 2)])
def test_arrays(client, data, eraser, chunks, reduce):
    X, _ = data
    lazy = erase(da.from_array(X, chunks=chunks), eraser, reduce=reduce)
    expected = eraser.reduce(X) if reduce else eraser(X)
    assert lazy.shape == expected.shape
    assert lazy.dtype == expected.dtype == np.float32
    assert len(lazy.chunks[0]) == -(-N // chunks[0])
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-5)


def test_integers_become_floats(client, eraser):
    lazy = erase(da.ones((4, D), chunks=2, dtype=int), eraser)
    assert lazy.dtype == lazy.compute().dtype == np.float64


def _frame(X, z, kind):
    frame = pd.DataFrame({"id": np.arange(N), "job": z}, index=np.arange(N) + 100)
    if kind == "wide":
        frame[[f"e_{j}" for j in range(D)]] = X
        return frame[["id", *[f"e_{j}" for j in range(D)], "job"]], "e_*"
    frame.insert(1, "emb", pd.Series(list(X), index=frame.index))
    return frame, "emb"


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("kind", ["wide", "vectors"])
def test_frames(client, data, eraser, kind, reduce):
    X, z = data
    frame, features = _frame(X, z, kind)
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = dd.from_pandas(frame, npartitions=5)
    found = erase(lazy, eraser, features=features, reduce=reduce)
    computed = found.compute()
    assert list(found.columns) == list(computed.columns)
    expected = eraser.reduce(X) if reduce else eraser(X)
    if kind == "vectors":
        values = np.stack(list(computed["emb"]))
        assert list(computed.columns) == list(frame.columns)
    else:
        names = [f"reduced_{j}" for j in range(R)] if reduce else [f"e_{j}" for j in range(D)]
        assert list(computed.columns) == ["id", *names, "job"]
        values = computed[names].to_numpy()
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, expected, atol=1e-5)
    np.testing.assert_array_equal(computed.index, frame.index)
    for other in ("id", "job"):
        assert computed[other].tolist() == frame[other].tolist()
        assert found[other].dtype == computed[other].dtype


LISTS = {
    "list": pa.list_(pa.float32()),
    "large_list": pa.large_list(pa.float32()),
    "fixed_size_list": pa.list_(pa.float32(), D),
}


def _parquet(X, z, folder, list_type):
    for part in range(3):
        rows = slice(part * 250, (part + 1) * 250)
        vectors = pa.array(list(X[rows]), list_type)
        table = pa.table({"id": np.arange(N)[rows], "emb": vectors, "job": list(z[rows])})
        pq.write_table(table, folder / f"{part}.parquet")
    return folder


@pytest.mark.parametrize("features", ["emb", ["emb"]])
def test_vectors_that_became_text(data, eraser, features):
    frame, _ = _frame(*data, "vectors")
    with pytest.raises(ValueError, match="Got text in column 'emb', but expected vectors"):
        erase(dd.from_pandas(frame, npartitions=5), eraser, features=features)


@pytest.mark.parametrize("features", ["emb", ["emb"], "em*", ("em*",), None])
@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=["objects", "pyarrow"])
def test_ways_to_name_a_vector_column(client, data, eraser, tmp_path, options, features):
    X, z = data
    frame = dd.read_parquet(_parquet(X, z, tmp_path, LISTS["list"]), **options)
    computed = erase(frame, eraser, features=features).compute()
    statistics, _ = class_statistics(frame, "job", features=features)
    np.testing.assert_allclose(np.stack(list(computed["emb"])), eraser(X), atol=1e-5)
    _same(statistics, data)


def _lazy(**columns):
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(pd.DataFrame(columns), npartitions=1)


VECTORS = pd.Series([np.ones(D), np.ones(D)])
DAYS = pd.Series([date(2020, 1, 1), date(2020, 1, 2)])


@pytest.mark.parametrize(
    ("columns", "features", "message"),
    [
        ({"emb": VECTORS, "day": DAYS}, None, "of which emb, day hold whole vectors, but expected"),
        ({"e_0": [0.5, 1.5], "id": [1, 2]}, None, r"Python features='e_\*'"),
        ({"id": [1, 2]}, None, r"It has: id\. Say .* Python features='emb'"),
        (
            {"e_0": [0.5, 1.5], "e_1": DAYS},
            "e_*",
            "of which e_1 hold whole vectors, but expected one",
        ),
        ({"emb": VECTORS, "day": DAYS}, ["emb", "day"], "of which emb, day hold whole vectors"),
        ({"emb": VECTORS}, [], "Got no features, but expected a column's name"),
        ({"emb": VECTORS}, ["embs"], "Got column 'embs', but the data frame has no such column"),
    ],
)
def test_features_that_metadata_cannot_tell(eraser, columns, features, message):
    """An error before anything is computed, with the way out."""
    with pytest.raises(ValueError, match=message):
        erase(_lazy(**columns), eraser, features=features)


def test_objects_that_are_no_vectors(eraser):
    lazy = erase(_lazy(day=DAYS, id=[1, 2]), eraser)
    with pytest.raises(ValueError, match="Got feature column day of a partition, which does not"):
        lazy.compute(scheduler="synchronous")


def test_other_columns_may_be_anything(eraser):
    """What Arrow cannot hold is no obstacle beside the vectors."""
    lazy = erase(_lazy(emb=VECTORS, mixed=pd.Series(["a", {1, 2}])), eraser, features="emb")
    computed = lazy.compute(scheduler="synchronous")
    np.testing.assert_allclose(np.stack(list(computed["emb"])), eraser(np.ones((2, D))))
    assert computed["mixed"].tolist() == ["a", {1, 2}]


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=["objects", "pyarrow"])
@pytest.mark.parametrize("kind", LISTS)
def test_frames_of_parquet(client, data, eraser, tmp_path, kind, options, reduce):
    X, z = data
    frame = dd.read_parquet(_parquet(X, z, tmp_path, LISTS[kind]), **options)
    found = erase(frame, eraser, features="emb", reduce=reduce)
    computed = found.compute()
    values = np.stack(list(computed["emb"]))
    np.testing.assert_allclose(values, eraser.reduce(X) if reduce else eraser(X), atol=1e-5)
    assert dict(found.dtypes) == dict(computed.dtypes)
    assert dict(computed.dtypes.drop("emb")) == dict(frame.dtypes.drop("emb"))
    if reduce and options and kind == "fixed_size_list":
        assert computed["emb"].dtype.pyarrow_dtype.list_size == R
    else:
        assert computed["emb"].dtype == frame["emb"].dtype
    assert computed["id"].tolist() == list(range(N))


@pytest.mark.parametrize("options", [{}, {"dtype_backend": "pyarrow"}], ids=["objects", "pyarrow"])
@pytest.mark.parametrize("kind", LISTS)
def test_statistics_of_parquet(client, data, tmp_path, kind, options):
    frame = dd.read_parquet(_parquet(*data, tmp_path, LISTS[kind]), **options)
    statistics, classes = class_statistics(frame, "job", features="emb")
    _same(statistics, data)
    assert classes.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("float32", "float32"),
        ("int64", "float64"),
        ("Float32", "Float32"),
        ("Int64", "Float64"),
        ("float[pyarrow]", "float[pyarrow]"),
        ("int64[pyarrow]", "double[pyarrow]"),
    ],
)
def test_columns_of_numbers_stay_where_pandas_held_them(eraser, before, after, reduce):
    names = [f"e_{j}" for j in range(D)]
    X = np.arange(4.0 * D).reshape(4, D)
    frame = pd.DataFrame(X, columns=names).astype(before).assign(word=list("abcd"))
    found = erase(dd.from_pandas(frame, npartitions=2), eraser, features=names, reduce=reduce)
    computed = found.compute(scheduler="synchronous")
    assert dict(found.dtypes) == dict(computed.dtypes)
    numbers = computed.drop(columns="word")
    assert set(map(str, numbers.dtypes)) == {after}
    expected = eraser.reduce(X) if reduce else eraser(X)
    np.testing.assert_allclose(numbers.to_numpy(float), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", [None, "e_*"])
def test_columns_are_taken_in_the_order_of_the_fit(eraser, features):
    names = [f"e_{j}" for j in range(D)]
    fitted = Eraser(eraser.maps, {"features": names})
    X = np.arange(4.0 * D).reshape(4, D)
    frame = pd.DataFrame(X, columns=names)[names[::-1]].assign(price=0.5)
    found = erase(dd.from_pandas(frame, npartitions=2), fitted, features=features)
    found = found.compute(scheduler="synchronous")[names]
    np.testing.assert_allclose(found, eraser(X), atol=1e-12)
    with pytest.raises(ValueError, match="e_1"):
        erase(dd.from_pandas(frame.drop(columns="e_1"), npartitions=2), fitted, features=features)


def test_what_is_computed_can_be_written_to(data, eraser):
    for kind in ("wide", "vectors"):
        frame, features = _frame(*data, kind)
        with dask.config.set({"dataframe.convert-string": False}):
            lazy = erase(dd.from_pandas(frame, npartitions=1), eraser, features=features)
        computed = lazy.compute(scheduler="synchronous")
        if kind == "wide":
            computed.iloc[0, 1] = 7.0
        else:
            computed["emb"].iloc[0][0] = 7.0
        assert np.ravel(computed.iloc[0, 1])[0] == 7.0


def test_numbers_are_reduced_in_the_order_that_they_are_named(eraser):
    X = np.arange(2.0 * D).reshape(2, D)
    names = [f"e_{j}" for j in range(D)]
    frame = pd.DataFrame(X[:, ::-1], columns=names[::-1]).assign(word=["a", "b"])
    frame = erase(dd.from_pandas(frame, npartitions=1), eraser, features=names, reduce=True)
    computed = frame.compute(scheduler="synchronous")
    assert list(computed) == [*(f"reduced_{j}" for j in range(R)), "word"]
    np.testing.assert_allclose(computed.drop(columns="word"), eraser.reduce(X))


def _same(found, data):
    X, z = data
    expected = ClassStatistics.from_rows(X, Classes.read(z).codes, 3, per_class=False)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means)
    np.testing.assert_allclose(found.within, expected.within, atol=1e-8 * expected.within.max())


@pytest.mark.parametrize("merged_at_once", [2, 3, 100])
def test_statistics_of_a_tree(client, data, merged_at_once, monkeypatch):
    monkeypatch.setattr("unspot.scale.dask.MERGED_AT_ONCE", merged_at_once)
    X, z = data
    found, classes = class_statistics(da.from_array(X, chunks=(50, 4)), z)
    _same(found, data)
    assert classes.tolist() == ["a", "b", "c"]


def test_a_tree_has_few_children(client, data):
    """No task merges more than it should: the largest merge is what a worker must hold."""
    import unspot.scale.dask as module

    largest = []
    X, z = data
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="synchronous"):
        merge = module._merge_all
        patch.setattr(module, "_merge_all", lambda p: largest.append(len(p)) or merge(p))
        class_statistics(da.from_array(X, chunks=(10, D)), z)
    assert max(largest) == module.MERGED_AT_ONCE
    assert sum(largest) >= 70


def test_labels_may_be_a_dask_array(client, data):
    X, z = data
    found, classes = class_statistics(
        da.from_array(X, chunks=(90, D)), da.from_array(z, chunks=100)
    )
    _same(found, data)
    assert classes.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_leace_on_a_cluster(client, data, method):
    X, z = data
    found = LEACE.from_statistics(
        *class_statistics(da.from_array(X, chunks=(90, D)), z), method=method
    )
    expected = LEACE(method=method).fit(X, z)
    np.testing.assert_allclose(found.eraser_.P, expected.eraser_.P, atol=1e-9)
    np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=1e-5)


def test_statistics_of_another_number_of_classes():
    with pytest.raises(ValueError, match="Got 2 classes for statistics of 3"):
        LEACE.from_statistics(ClassStatistics.empty(3, 2), ["a", "b"])


def test_bad_rows_and_labels(client, data, eraser):
    X, z = data
    bad = X.copy()
    bad[44, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        class_statistics(da.from_array(bad, chunks=(90, D)), z)
    with pytest.raises(ValueError, match="Got 1 values of NaN or infinity in a block"):
        erase(da.from_array(bad, chunks=(90, D)), eraser).compute()
    with pytest.raises(ValueError, match="Got 3 labels in z for 700 rows"):
        class_statistics(da.from_array(X, chunks=(90, D)), z[:3])
    for use in (lambda X: erase(X, eraser), lambda X: class_statistics(X, z)):
        with pytest.raises(
            ValueError, match=r"Got a ndarray of shape \(700, 6\), but expected a Da"
        ):
            use(X)
        with pytest.raises(ValueError, match=r"Got a Array of shape \(700,\), but expected a Dask"):
            use(da.from_array(X[:, 0]))
    frame, _ = _frame(X, z, "wide")
    with pytest.raises(ValueError, match="Got labels 'jobs', but expected the name of a column"):
        class_statistics(dd.from_pandas(frame, npartitions=2), "jobs")


@pytest.mark.parametrize("kind", ["wide", "vector"])
def test_partitions_that_a_filter_left_empty(client, data, kind):
    X, z = data
    frame, features = _frame(X, z, kind)
    with dask.config.set({"dataframe.convert-string": False}):
        parts = dd.from_pandas(frame.assign(row=range(N)), npartitions=4)
    few = parts[parts["row"] > N // 2].drop(columns="row")
    assert few.map_partitions(len).compute().min() == 0
    found, classes = class_statistics(few, "job", features=features)
    kept = slice(N // 2 + 1, None)
    expected = ClassStatistics.from_rows(X[kept], Classes.read(z[kept]).codes, 3, per_class=False)
    assert classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-6)
