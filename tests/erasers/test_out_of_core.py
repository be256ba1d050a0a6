"""Rows that stay on disk give the eraser that the same rows in memory give."""

import logging
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import LEACE, LEOPARD, Cascade
from unspot.data.concept import Classes, Number
from unspot.data.goal import Goal
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.baselines import MeanProjection, PCAProjection, RandomProjection
from unspot.erasers.transport import Transport
from unspot.io import as_source
from unspot.io import sources as streams
from unspot.io.files import prefetched
from unspot.io.sources import Rows, is_stream, opened, sampled
from unspot.lab.farm import FaRM
from unspot.lab.matching import MomentMatching
from unspot.leopard import ManifoldSolver, PaperSolver

N, D = 900, 12
QUICK = ManifoldSolver(max_evaluations=12)
BATCHES = PaperSolver(epochs=3, batch_size=200)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    z = rng.choice(["a", "b", "c"], size=N, p=[0.6, 0.3, 0.1])
    X = rng.normal(size=(N, D)) @ rng.normal(size=(D, D)) + 3.0
    X[z == "b"] += 1.0
    X[z == "c", :3] *= 2.0
    return X, z


@pytest.fixture
def on_disk(monkeypatch):
    """No source is small enough to be read whole."""
    monkeypatch.setattr(streams, "LOAD_BYTES", 0)


class Store:
    """A foreign store: shape, dtype and row slices, nothing else; counts the rows it gives."""

    def __init__(self, X):
        self._X, self.shape, self.dtype, self.given = X, X.shape, X.dtype, 0

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.given += len(self._X[rows])
        return self._X[rows]


def _placed(kind, X, z, folder):
    match kind:
        case "path":
            np.save(folder / "x.npy", X)
            return folder / "x.npy"
        case "memory map":
            np.save(folder / "x.npy", X)
            return np.load(folder / "x.npy", mmap_mode="r")
        case "list of paths":
            np.save(folder / "b.npy", X[:400])
            np.save(folder / "a.npy", X[400:])
            return [folder / "b.npy", folder / "a.npy"]
        case "dask":
            return pytest.importorskip("dask.array").from_array(X, chunks=(200, 5))
        case "store":
            return Store(X)
        case "hdf5":
            return (
                pytest.importorskip("h5py").File(folder / "x.h5", "w").create_dataset("X", data=X)
            )
        case "zarr":
            zarr = pytest.importorskip("zarr")
            store = zarr.create_array(str(folder / "z"), shape=X.shape, chunks=(70, D), dtype="f8")
            store[:] = X
            return store
        case "parquet":
            for part in (0, 1):
                rows = slice(part * 500, (part + 1) * 500)
                table = pa.table({"emb": pa.array(list(X[rows])), "gender": list(z[rows])})
                pq.write_table(table, folder / f"{part}.parquet", row_group_size=90)
            return folder


PLACES = ["path", "list of paths", "memory map", "store", "hdf5", "zarr", "dask", "parquet"]


@pytest.mark.parametrize(
    "eraser",
    [
        LEACE(),
        LEACE(method="orthogonal"),
        LEOPARD(rank=6, solver=QUICK, random_state=0),
        LEOPARD(rank=6, solver=replace(QUICK, max_rows=300), metric="whitened", random_state=0),
        LEOPARD(rank=6, solver=BATCHES, random_state=0),
        LEOPARD(rank=6, solver=PaperSolver(epochs=2), random_state=0),
        Cascade(second=LEOPARD(rank=6, solver=replace(QUICK, max_rows=300), random_state=0)),
        Cascade(second=LEOPARD(rank=6, solver=BATCHES, random_state=0)),
    ],
    ids=[
        "leace",
        "orthogonal",
        "leopard",
        "whitened",
        "mini-batches",
        "full batch",
        "cascade",
        "cascade of mini-batches",
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_disk_equals_memory(place, eraser, data, on_disk, tmp_path):
    X, z = data
    expected = eraser.fit(X, z).eraser_
    source = _placed(place, X, z, tmp_path)
    found = eraser.fit(source, z).eraser_
    np.testing.assert_allclose(found.P, expected.P, atol=1e-9)
    for key in ("n_rows", "n_features", "classes", "class_counts", "fingerprint"):
        assert found.metadata[key] == expected.metadata[key]
    if place == "hdf5":
        source.file.close()


@pytest.mark.parametrize(
    "eraser",
    [
        MeanProjection(),
        PCAProjection(rank=5),
        RandomProjection(rank=5, random_state=0),
        MomentMatching(),
        MomentMatching(method="mean"),
        Transport(),
    ],
    ids=str,
)
def test_methods_of_one_pass(eraser, data, on_disk):
    X, z = data
    expected = eraser.fit(X, z).transform(X)
    store = Store(X)
    store.chunks = (1, D)
    found = eraser.fit(store, z)
    np.testing.assert_allclose(found.transform(X), expected, atol=1e-8)
    assert "rows_used" not in found.eraser_.metadata
    assert store.given <= 2 * N + 2  # the rows, and those of the fingerprint


def test_a_cascade_moves_rows_as_it_reads_them(data, on_disk):
    X, z = data
    eraser = Cascade(Cascade(Transport(), LEACE(method="orthogonal")), PCAProjection(rank=3))
    expected = eraser.fit(X, z).transform(X)
    np.testing.assert_allclose(eraser.fit(Store(X), z).transform(X), expected, atol=1e-8)


@pytest.mark.parametrize("limit", [0, 2**28])
def test_a_part_may_be_empty(limit, data, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LOAD_BYTES", limit)
    X, z = data
    np.save(tmp_path / "empty.npy", X[:0])
    paths = [*_placed("list of paths", X, z, tmp_path), tmp_path / "empty.npy"]
    found = LEACE().fit(paths, z).eraser_
    np.testing.assert_allclose(found.P, LEACE().fit(X, z).eraser_.P, atol=1e-9)


@pytest.mark.parametrize("limit", [0, 2**28])
def test_continuous_concepts(limit, data, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "LOAD_BYTES", limit)
    X, _ = data
    y = X[:, 0] + np.random.default_rng(1).normal(size=N)
    expected = LEACE().fit(X, y).eraser_
    found = LEACE().fit(_placed("path", X, None, tmp_path), y).eraser_
    np.testing.assert_allclose(found.P, expected.P, atol=1e-9)


def test_a_wider_start_is_narrowed_on_disk(data, on_disk, tmp_path):
    X, z = data
    wide = np.eye(D)[:, :8]
    fitted = LEOPARD(rank=5, solver=replace(BATCHES, init=wide), random_state=0)
    assert fitted.fit(_placed("path", X, z, tmp_path), z).eraser_.rank == 5


def test_labels_by_the_name_of_their_column(data, on_disk, tmp_path):
    X, z = data
    folder = _placed("parquet", X, z, tmp_path)
    expected = LEACE().fit(X, z)
    for found in (LEACE().fit(folder, z="gender"), LEACE().fit(as_source(folder), "gender")):
        assert found.classes_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(found.eraser_.P, expected.eraser_.P, atol=1e-9)
    with pytest.raises(ValueError, match="Did you mean 'gender'"):
        LEACE().fit(folder, z="gendre")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"labels 'gender', a name, .*only Parquet"):
        LEACE().fit(tmp_path / "x.npy", "gender")


@pytest.mark.parametrize("limit", [0, 2**28])
def test_labels_that_are_numbers_among_numbers(limit, data, tmp_path, monkeypatch):
    """A column of labels is no feature, even if it looks like one."""
    monkeypatch.setattr(streams, "LOAD_BYTES", limit)
    X, z = data
    path = tmp_path / "x.parquet"
    expected = LEACE().fit(X, z).eraser_
    for labels in ((z == "a") * 1 + (z == "b") * 2, (z == "a") * 1.0 + (z == "b") * 2.0):
        columns = {f"e_{i}": X[:, i] for i in range(D)} | {"label": labels}
        pq.write_table(pa.table(columns), path)
        found = LEACE().fit(path, z="label").eraser_
        np.testing.assert_allclose(found.P, expected.P, atol=1e-9)
    with pytest.raises(ValueError, match=r"'label', which is also one of the features.*labels='l"):
        LEACE().fit(as_source(path), z="label")


def test_paths_are_for_fit(data, tmp_path):
    X, z = data
    path = _placed("path", X, z, tmp_path)
    fitted = LEACE().fit(path, z)
    for use in (fitted.transform, fitted.reduce, lambda X: fitted.partial_fit(X, z)):
        with pytest.raises(
            ValueError, match=r"x\.npy', but expected rows in memory.*`unspot trans"
        ):
            use(path)


def test_only_the_row_budget_is_read(on_disk):
    """Twenty thousand rows, a budget of 200: the fit reads the budget and the fingerprint."""
    rng = np.random.default_rng(0)
    store = Store(rng.normal(size=(20_000, 4)))
    store.chunks = (1, 4)
    LEOPARD(rank=2, solver=replace(QUICK, max_rows=200), random_state=0).fit(
        store, np.arange(20_000) % 2
    )
    assert store.given <= 2 + 1000 + 250


def test_linear_erasure_reads_every_row_once(on_disk):
    rng = np.random.default_rng(0)
    store = Store(rng.normal(size=(20_000, 4)))
    store.chunks = (100, 4)
    LEACE().fit(store, np.arange(20_000) % 2)
    assert 20_000 < store.given <= 20_000 + 2 + 1000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_bad_row_is_named(value, data, on_disk, tmp_path):
    X, z = data
    X = X.copy()
    X[777, 3] = value
    path = _placed("path", X, z, tmp_path)
    with pytest.raises(
        ValueError, match=r"Got 1 values of NaN or infinity in X \(the first in row 777\)"
    ):
        LEACE().fit(path, z)
    with pytest.raises(
        ValueError, match=r"Got 1 values of NaN or infinity in X \(the first in row 777\)"
    ):
        LEOPARD(random_state=0).fit(path, z)


def test_huge_numbers_are_numbers(on_disk):
    rows = Rows(as_source(np.full((3, 2), 1e200)))
    assert rows[:].max() == 1e200


def test_missing_rows_and_labels(data, on_disk, tmp_path):
    X, z = data
    path = _placed("path", X, z, tmp_path)
    with pytest.raises(ValueError, match="Got 3 labels in z for 900 rows of X"):
        LEACE().fit(path, z[:3])
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        LEACE().fit(tmp_path / "nothing.npy", z)
    np.save(tmp_path / "one.npy", X[:1])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        LEACE().fit(tmp_path / "one.npy", z[:1])


def test_features_are_counted_anew(data, on_disk, tmp_path):
    pd = pytest.importorskip("pandas")
    X, z = data
    fitted = LEACE().fit(pd.DataFrame(X, columns=[f"f{i}" for i in range(D)]), z)
    assert hasattr(fitted, "feature_names_in_")
    fitted.fit(_placed("path", X[:, :5], z, tmp_path), z)
    assert fitted.n_features_in_ == 5
    assert not hasattr(fitted, "feature_names_in_")


# -- methods that work in memory -----------------------------------------------------------------


class InMemory(BaseEraser):
    """Keeps what it was given."""

    min_rows_per_class = 2

    def __init__(self, random_state=0):
        self.random_state = random_state

    def _fit_eraser(self, X, target):
        self.X_, self.target_ = X, target
        return Eraser.projection(np.eye(X.shape[1]))


def test_methods_in_memory_get_all_rows(data, on_disk, tmp_path):
    X, z = data
    fitted = InMemory().fit(_placed("path", X, z, tmp_path), z)
    np.testing.assert_array_equal(fitted.X_, X)
    assert fitted.eraser_.metadata["rows_used"] == N


@pytest.mark.filterwarnings("ignore:Got 3 of 900 rows of class")
def test_methods_in_memory_get_a_stratified_part_of_too_many(
    data, on_disk, tmp_path, monkeypatch, caplog
):
    X, z = data
    z = np.where(np.arange(N) < 3, "rare", z)
    monkeypatch.setattr(streams, "SAMPLE_BYTES", X.nbytes // 4)
    path = _placed("path", X, z, tmp_path)
    with caplog.at_level(logging.WARNING):
        fitted = InMemory().fit(path, z)
    assert "fitted on a random sample of 2" in caplog.text
    codes = Classes.read(z).codes
    whole, part = np.bincount(codes), fitted.target_.counts
    assert part[3] == 2  # rare: the fewest that the method needs
    np.testing.assert_allclose(part[:3], whole[:3] / 4, atol=1)
    rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in fitted.X_]
    np.testing.assert_array_equal(codes[rows], fitted.target_.codes)
    np.testing.assert_array_equal(fitted.X_, InMemory().fit(path, z).X_)
    assert not np.array_equal(fitted.X_, InMemory(random_state=1).fit(path, z).X_)


def test_a_part_of_measurements(data, monkeypatch):
    X, _ = data
    monkeypatch.setattr(streams, "SAMPLE_BYTES", X.nbytes // 3)
    rows, part = sampled(Rows(as_source(X)), Goal(Number(X[:, :1])), np.random.default_rng(0))
    assert len(rows) == pytest.approx(N // 3, abs=10)  # of ten quantile bins
    np.testing.assert_array_equal(rows[:, :1], part.erase.coordinates)


def test_a_part_of_a_goal(data, monkeypatch):
    X, z = data
    monkeypatch.setattr(streams, "SAMPLE_BYTES", X.nbytes // 3)
    goal = Goal(Classes.read(z), keep=Number(X[:, :1]))
    rows, part = sampled(Rows(as_source(X)), goal, np.random.default_rng(0))
    assert len(part.erase) == len(rows) < N
    np.testing.assert_array_equal(rows[:, :1], part.keep.coordinates)


def test_networks_are_fitted_on_paths(data, tmp_path):
    X, z = data
    path = _placed("path", X, z, tmp_path)
    found = FaRM(training={"epochs": 1}, random_state=0).fit(path, z)
    expected = FaRM(training={"epochs": 1}, random_state=0).fit(X, z)
    np.testing.assert_array_equal(found.transform(X[:5]), expected.transform(X[:5]))


# -- streams -------------------------------------------------------------------------------------


def _batches(X, z, size=70):
    return ((X[i : i + size], z[i : i + size]) for i in range(0, len(X), size))


class Loader:
    """As a torch data loader: an iterable with a length, and no rows by number."""

    def __init__(self, X, z):
        self._parts = X, z

    def __len__(self):
        return 13

    def __iter__(self):
        return _batches(*self._parts)


@pytest.mark.parametrize("make", [_batches, Loader, lambda X, z: iter([(X, z)])])
@pytest.mark.parametrize("method", ["oblique", "orthogonal"])
def test_a_stream_equals_memory(make, method, data):
    X, z = data
    expected = LEACE(method=method).fit(X, z)
    found = LEACE(method=method).fit(make(X, z))
    assert found.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found.eraser_.P, expected.eraser_.P, atol=1e-9)
    assert found.eraser_.metadata["n_rows"] == N


def test_a_stream_begins_anew(data):
    X, z = data
    fitted = LEACE().fit(_batches(X + 7, z))
    fitted.fit(_batches(X[:, :5], z))
    np.testing.assert_allclose(fitted.eraser_.P, LEACE().fit(X[:, :5], z).eraser_.P, atol=1e-9)


def test_streams_with_nothing_to_fit(data):
    X, z = data
    with pytest.raises(ValueError, match="Got a stream without batches"):
        LEACE().fit(iter([]))
    with pytest.raises(ValueError, match="Got a batch of type ndarray, but expected pairs"):
        LEACE().fit(iter([X]))
    with pytest.raises(ValueError, match="Got a batch of type tuple of 3, but expected pairs"):
        LEACE().fit(iter([(X, z, z)]))
    with pytest.raises(ValueError, match="Got one class in z"):
        LEACE().fit(iter([(X, np.zeros(N, dtype=int))]))
    with pytest.raises(ValueError, match="Got labels beside a stream of batches"):
        LEACE().fit(_batches(X, z), z)


@pytest.mark.parametrize("eraser", [LEOPARD(), Cascade()], ids=str)
def test_methods_that_go_back_refuse_streams(eraser, data):
    with pytest.raises(ValueError, match=r"Got a stream of batches \(a generator\), but"):
        eraser.fit(_batches(*data))


# -- the parts -----------------------------------------------------------------------------------


def test_what_is_a_stream():
    assert is_stream(iter([]))
    assert is_stream(Loader(None, None))
    for other in ([[1.0]], np.zeros((2, 2)), "path.npy", {"a": 1}, Store(np.zeros((2, 2))), 3):
        assert not is_stream(other)


def test_what_is_in_memory_stays_as_it_is(data):
    torch = pytest.importorskip("torch")
    sparse = pytest.importorskip("scipy.sparse")
    X, z = data
    for given in (X, X.tolist(), torch.tensor(X), sparse.csr_matrix(X)):
        found, labels = opened(given, z)
        assert found is given
        assert labels is z


def test_small_sources_are_read_whole(data, tmp_path):
    X, z = data
    found, _ = opened(_placed("memory map", X, z, tmp_path), z)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, X)


def test_rows_are_a_view_of_rows(data):
    X, _ = data
    rows = Rows(as_source(X))
    U = np.random.default_rng(0).normal(size=(D, 3))
    for part, expected in (
        (rows, X),
        (rows @ U, X @ U),
    ):
        assert part.shape == expected.shape
        assert part.nbytes == expected.nbytes
        np.testing.assert_allclose(part[5:20], expected[5:20])
        np.testing.assert_allclose(part[[3, 1, 30]], expected[[3, 1, 30]])
        np.testing.assert_allclose(part[::7], expected[::7])
        np.testing.assert_allclose(part.load(), expected)
        np.testing.assert_allclose(np.vstack(list(part.chunks(64))), expected)


def test_the_next_chunk_is_read_meanwhile():
    read = []

    def chunks():
        for i in range(4):
            read.append(i)
            yield np.full(1, i)

    seen = []
    for chunk in prefetched(chunks()):
        seen.append(int(chunk[0]))
        assert len(read) <= len(seen) + 1  # no more than one chunk ahead
    assert seen == read == [0, 1, 2, 3]


def test_an_error_of_reading_comes_through():
    def chunks():
        yield np.zeros(1)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(prefetched(chunks()))


def test_a_goal_of_few_rows_stays():
    goal = Goal(Classes(np.array([0, 1, 1]), np.array(["a", "b"])))
    rows, same = sampled(Rows(as_source(np.eye(3))), goal, np.random.default_rng(0))
    assert same is goal
    np.testing.assert_array_equal(rows, np.eye(3))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts resident pages as Linux does")
@pytest.mark.parametrize(
    "method",
    [
        "LEACE()",
        "Cascade(second=LEOPARD(rank=8, solver=ManifoldSolver(max_evaluations=1)))",
    ],
)
def test_a_big_file_does_not_become_resident(method, tmp_path):
    """Half a gigabyte is fitted, and a fraction of it ever is in memory."""
    big = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "f4", (2**19, 256))
    for start in range(0, len(big), 2**16):
        big[start : start + 2**16] = np.random.default_rng(start).normal(size=(2**16, 256))
    big.flush()
    del big
    program = f"""
import resource, numpy as np
from unspot import LEACE, LEOPARD, Cascade
from unspot.leopard import ManifoldSolver
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rng = np.random.default_rng(0)
{method}.fit(rng.normal(size=(1000, 256)).astype("f4"), np.arange(1000) % 2)
before = peak()
{method}.fit({str(tmp_path / "x.npy")!r}, np.arange(2**19) % 2)
print(peak() - before)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(out.stdout) < 200_000  # kB, of 524,288
