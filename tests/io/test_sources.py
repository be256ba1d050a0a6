"""Sources of rows: whatever holds them, reading, taking and chunks agree with the array."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot.io import RowSource, as_source

N, D = 53, 4
X = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)


class Store:
    """A foreign store: shape, dtype and row slices, nothing else."""

    shape, dtype = X.shape, X.dtype

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return X[rows]


def _parquet(path, kind, rows=slice(None), row_group_size=10):
    part = X[rows]
    if kind == "wide":
        columns = {f"e_{i}": part[:, i] for i in range(D)}
    elif kind == "fixed":
        columns = {"emb": pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), D)}
    else:
        type_ = {"list": pa.list_(pa.float32()), "large": pa.large_list(pa.float32())}[kind]
        columns = {"emb": pa.array(list(part), type=type_)}
    columns["gender"] = [f"g{i % 2}" for i in range(N)[rows]]
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def _make(kind, folder):
    match kind:
        case "array":
            return X
        case "fortran":
            return np.asfortranarray(X)
        case "strided":
            return np.repeat(X, 2, axis=1)[:, ::2]
        case "npy":
            np.save(folder / "x.npy", X)
            return str(folder / "x.npy")
        case "fortran npy":
            np.save(folder / "f.npy", np.asfortranarray(X))
            return folder / "f.npy"
        case "big-endian npy":
            np.save(folder / "b.npy", X.astype(">f4"))
            return folder / "b.npy"
        case "memmap":
            np.save(folder / "m.npy", X)
            return np.load(folder / "m.npy", mmap_mode="r")
        case "slice of a memmap":
            np.save(folder / "m.npy", np.vstack([X, X]))
            return np.load(folder / "m.npy", mmap_mode="r+")[N:]
        case "npz":
            np.savez(folder / "x.npz", X=X)
            return folder / "x.npz"
        case "store":
            return Store()
        case "hdf5":
            h5py = pytest.importorskip("h5py")
            return h5py.File(folder / "x.h5", "w").create_dataset("X", data=X, chunks=(7, D))
        case "zarr":
            zarr = pytest.importorskip("zarr")
            store = zarr.create_array(
                str(folder / "x.zarr"), shape=(N, D), chunks=(8, D), dtype="f4"
            )
            store[:] = X
            return store
        case "dask":
            return pytest.importorskip("dask.array").from_array(X, chunks=(9, 3))
        case "npy list":
            parts = {"z": X[:20], "f": np.asfortranarray(X[20:45]), "h": X[45:46], "a": X[46:]}
            for name, part in parts.items():
                np.save(folder / f"{name}.npy", part)
            return [str(folder / f"{name}.npy") for name in parts]
        case "frame":
            return pd.DataFrame(X)
        case "tensor":
            return torch.tensor(X)
        case "parquet folder":
            (folder / "p").mkdir()
            _parquet(folder / "p" / "part-1.parquet", "list", slice(20, None))
            _parquet(folder / "p" / "part-0.parquet", "list", slice(0, 20))
            return folder / "p"
        case "parquet list":
            first = _parquet(folder / "z.parquet", "fixed", slice(0, 20))
            return [first, _parquet(folder / "a.parquet", "fixed", slice(20, None))]
        case _:
            return _parquet(folder / "x.parquet", kind.split()[1])


KINDS = [
    "array", "fortran", "strided", "npy", "fortran npy", "big-endian npy", "memmap",
    "slice of a memmap", "npz", "store", "hdf5", "zarr", "dask", "frame", "tensor", "npy list",
    "parquet list", "parquet folder", "one list", "one large", "one fixed", "one wide",
]  # fmt: skip


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    made = _make(request.param, tmp_path)
    yield as_source(made)
    if request.param == "hdf5":
        made.file.close()


def test_every_source_agrees_with_the_array(source):
    assert isinstance(source, RowSource)
    assert source.shape == (N, D)
    assert source.dtype == np.float32
    rng = np.random.default_rng(0)
    for rows in ([], [0], [N - 1, 0, 5, 5], rng.permutation(N), np.sort(rng.permutation(N)[:20])):
        taken = source.take(rows)
        assert taken.dtype == np.float32
        np.testing.assert_array_equal(taken, X[np.asarray(rows, dtype=int)])
    np.testing.assert_array_equal(source.read(5, 31), X[5:31])
    for size in (1, 8, N, 1000):
        chunks = list(source.chunks(size))
        assert max(map(len, chunks)) <= size
        np.testing.assert_array_equal(np.vstack(chunks), X)
    np.testing.assert_array_equal(np.vstack(list(source.chunks(9))), X)  # and once more
    for start, stop in ((0, 13), (7, 8), (9, 41), (20, N), (33, N + 5), (11, None)):
        chunks = list(source.chunks(8, start, stop))
        assert max(map(len, chunks)) <= 8
        np.testing.assert_array_equal(np.vstack(chunks), X[start:stop])
    assert not list(source.chunks(8, 5, 5))


def test_a_source_is_its_own_source(source):
    assert as_source(source) is source


@pytest.mark.parametrize("rows", [[N], [-1], [[0, 1]], [0.5]])
def test_rows_out_of_range_are_refused(source, rows):
    with pytest.raises(ValueError, match="but expected a list of row numbers from 0 to 52"):
        source.take(rows)


def test_a_chunk_has_rows(source):
    with pytest.raises(ValueError, match="Got rows_per_chunk=0, but expected an integer"):
        next(iter(source.chunks(0)))


@given(st.lists(st.integers(0, N - 1), max_size=80), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_any_rows_of_any_blocks(rows, block):
    source = as_source(Store())
    source._block = block
    np.testing.assert_array_equal(source.take(rows), X[np.asarray(rows, dtype=int)])


@pytest.mark.parametrize(
    ("dtype", "read_as"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i1", "f8"), ("u8", "f8"), ("?", "f8")],
)
def test_numbers_are_read_as_floats(dtype, read_as):
    source = as_source(np.ones((3, 2), dtype=dtype))
    assert source.dtype == source.take([0]).dtype == source.read(0, 1).dtype == read_as


def test_what_is_read_is_a_copy():
    mine = X.copy()
    as_source(mine).read(0, 5)[:] = 0
    np.testing.assert_array_equal(mine, X)


def test_a_private_map_keeps_what_was_written_to_it(tmp_path):
    np.save(tmp_path / "x.npy", X)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[3] = 7
    source = as_source(private)
    source.read(0, N)
    np.testing.assert_array_equal(source.take([3]), np.full((1, D), 7, dtype=np.float32))


def test_columns_of_parquet_come_with_the_rows(tmp_path):
    source = as_source(_make("parquet folder", tmp_path))
    assert source.column("gender").tolist() == [f"g{i % 2}" for i in range(N)]
    with pytest.raises(ValueError, match="Did you mean 'gender'"):
        source.column("gendr")


def test_parts_of_another_width_are_named(tmp_path):
    pq.write_table(pa.table({"emb": [[1.0, 2.0]]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"emb": [[1.0, 2.0, 3.0]]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"length 3 in '.*b\.parquet', but the first part has"):
        list(as_source(tmp_path).chunks(10))
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    np.save(tmp_path / "b.npy", np.ones((3, 5)))
    with pytest.raises(
        ValueError, match=r"length 5 in '.*b\.npy', but the first part has length 2"
    ):
        as_source([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_a_list_is_of_arrays_or_of_parquet(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X=X)
    with pytest.raises(ValueError, match=r"a\.npz', but expected a file of format \.npy"):
        as_source([tmp_path / "a.npy", tmp_path / "a.npz"])
    with pytest.raises(
        ValueError, match=r"a\.npz', but expected a file of format \.npy, \.parquet"
    ):
        as_source([tmp_path / "a.npz"])
    with pytest.raises(FileNotFoundError, match=r"no\.npy', but there is no such file"):
        as_source([tmp_path / "a.npy", tmp_path / "no.npy"])


def test_parts_of_other_dtypes_are_read_in_the_widest(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X.astype("f8"))
    source = as_source([tmp_path / "a.npy", tmp_path / "b.npy"])
    assert source.dtype == source.read(0, 3).dtype == np.float64
    np.testing.assert_array_equal(source.read(N - 2, N + 2), np.vstack([X[-2:], X[:2]]))


def test_parquet_of_other_dtypes_is_read_in_the_widest(tmp_path):
    X64 = X + 1 / 3  # not to be had in single precision
    _parquet(tmp_path / "a.parquet", "list")
    pq.write_table(pa.table({"emb": list(X64.astype("f8"))}), tmp_path / "b.parquet")
    source = as_source(tmp_path)
    both = np.vstack([X, X64.astype("f8")])
    assert source.dtype == np.float64
    np.testing.assert_array_equal(source.read(N - 2, N + 2), both[N - 2 : N + 2])
    np.testing.assert_array_equal(np.vstack(list(source.chunks(8))), both)
    assert source.take([0]).dtype == next(source.chunks(8)).dtype == np.float64


@pytest.mark.parametrize(
    ("dtypes", "read_as"),
    [
        ([("f2", "f2"), ("f4", "f4")], "f4"),
        ([("f4", "f4"), ("i4", "i4")], "f8"),
        ([("i1", "i1"), ("f4", "f4")], "f8"),
        ([("f4", "f8"), ("f4", "f4")], "f8"),
        ([("f4", "i1"), ("f4", "f4")], "f4"),
        ([("f4", "f4"), ("f4", "decimal")], "f8"),
    ],
)
def test_the_dtype_of_parquet_is_that_of_all_schemas(tmp_path, dtypes, read_as):
    def numbers(kind):
        decimal = pa.array([1, 2], pa.decimal128(9, 2))
        return decimal if kind == "decimal" else pa.array(np.array([1, 2], kind))

    for i, (first, second) in enumerate(dtypes):
        table = pa.table({"e_0": numbers(first), "e_1": numbers(second)})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    source = as_source(tmp_path, features="e_*")
    assert source.dtype == source.read(0, 4).dtype == read_as
    assert source.read(0, 4).tolist() == [[1, 1], [2, 2]] * 2


def test_text_in_a_later_part_is_named(tmp_path):
    _parquet(tmp_path / "a.parquet", "list")
    pq.write_table(pa.table({"emb": ["1, 2"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"Got column 'emb' of type string in '.*b\.parquet', but"):
        as_source(tmp_path)


@pytest.mark.parametrize(
    "order", [["empty", "first", "rest"], ["first", "empty"], ["first", "empty", "rest"]]
)
def test_parts_without_rows(tmp_path, order):
    """They add nothing, not even their dtype, in which others would take twice the memory."""
    parts = {"empty": np.empty((0, D)), "first": X[:20], "rest": X[20:]}
    for name in order:
        np.save(tmp_path / f"{name}.npy", parts[name])
    source = as_source([tmp_path / f"{name}.npy" for name in order])
    expected = np.vstack([parts[name] for name in order]).astype("f4")
    assert source.shape == expected.shape
    assert source.dtype == np.float32
    np.testing.assert_array_equal(source.read(0, N), expected)
    np.testing.assert_array_equal(source.take([19, 0, 7]), expected[[19, 0, 7]])
    np.testing.assert_array_equal(np.vstack(list(source.chunks(6))), expected)


@pytest.mark.parametrize("type_", [pa.list_(pa.float64()), pa.list_(pa.null())], ids=str)
def test_parquet_without_rows_among_others(tmp_path, type_):
    _parquet(tmp_path / "a.parquet", "list")
    pq.write_table(pa.table({"emb": pa.array([], type_)}), tmp_path / "b.parquet")
    source = as_source(tmp_path)
    assert source.dtype == np.float32
    np.testing.assert_array_equal(np.vstack(list(source.chunks(6))), X)


def test_parts_without_rows_are_tables_all_the_same(tmp_path):
    np.save(tmp_path / "a.npy", X)
    for part, message in (
        (np.empty((0, D + 1)), r"length 5 in '.*b\.npy', but the first part has length 4"),
        (np.empty((0, 0)), r"Got an empty table: X of shape \(0, 0\) in .*b\.npy"),
        (np.empty(0), r"Got X of shape \(0,\) in .*b\.npy"),
        (np.empty((0, D), "U3"), r"Got X of dtype <U3 in .*b\.npy"),
    ):
        np.save(tmp_path / "b.npy", part)
        with pytest.raises(ValueError, match=message):
            as_source([tmp_path / "a.npy", tmp_path / "b.npy"])


def test_more_files_than_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    paths = [tmp_path / f"{i}.npy" for i in range(N)]
    for path, row in zip(paths, X, strict=True):
        np.save(path, row[None])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, before[1]))
        read = as_source(paths).read(0, N)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    np.testing.assert_array_equal(read, X)


def test_a_part_without_the_column_is_named(tmp_path):
    folder = _make("parquet folder", tmp_path)
    pq.write_table(pa.table({"vec": [[0.0] * D]}), folder / "part-2.parquet")
    with pytest.raises(ValueError, match=r"Got column 'emb', but .*part-2\.parquet has no such"):
        as_source(folder)


def test_bad_rows_are_counted_in_their_own_part(tmp_path):
    folder = _make("parquet folder", tmp_path)
    bad = [*X[:12].tolist(), None]
    type_ = pa.list_(pa.float32())
    pq.write_table(pa.table({"emb": pa.array(bad, type_)}), folder / "q.parquet", row_group_size=5)
    message = r"of .*q\.parquet \(the first in row 12\)"
    for read in (
        lambda source: list(source.chunks(7)),
        lambda source: list(source.chunks(7, N + 8)),
        lambda source: source.take([N + 12]),
    ):
        with pytest.raises(ValueError, match="Got 1 missing values in column 'emb' " + message):
            read(as_source(folder))
    bad[12] = [1.0, None, 2.0, 3.0]
    pq.write_table(pa.table({"emb": pa.array(bad, type_)}), folder / "q.parquet")
    with pytest.raises(ValueError, match="Got 1 missing values in column 'emb' " + message):
        as_source(folder).read(0, N + 13)


def test_chunks_decode_only_the_row_groups_of_their_rows_and_each_once(tmp_path, monkeypatch):
    passes = []  # the row groups that were asked for, and the rows decoded of them
    real = pq.ParquetFile.iter_batches

    def counted(file, *arguments, row_groups, **options):
        passes.append([row_groups, 0])
        for batch in real(file, *arguments, row_groups=row_groups, **options):
            passes[-1][1] += batch.num_rows
            yield batch

    source = as_source(_make("parquet list", tmp_path))  # 20 and 33 rows, by ten
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    for start, stop, groups in (
        (14, 35, [[1], [0, 1]]),
        (3, 7, [[0]]),
        (20, 30, [[0]]),
        (45, N, [[2, 3]]),
        (0, None, [[0, 1], [0, 1, 2, 3]]),
    ):
        passes.clear()
        np.testing.assert_array_equal(np.vstack(list(source.chunks(4, start, stop))), X[start:stop])
        assert [asked for asked, _ in passes] == groups
        assert all(rows <= 10 * len(asked) for asked, rows in passes)


def test_labels_are_no_features(tmp_path):
    table = {f"e_{i}": X[:, i] for i in range(D)} | {"label": np.arange(N) % 2 / 1}
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    for path in (tmp_path / "x.parquet", [tmp_path / "x.parquet"]):
        source = as_source(path, labels="label")
        np.testing.assert_array_equal(source.read(0, N), X)


def test_a_dask_array_of_unknown_length():
    da = pytest.importorskip("dask.array")
    array = da.from_array(X, chunks=(9, D))
    with pytest.raises(ValueError, match=r"unknown number of rows.*compute_chunk_sizes\(\) first"):
        as_source(array[array[:, 0] > 0])


def test_a_corrupt_part_is_named(tmp_path):
    folder = _make("parquet folder", tmp_path)
    (folder / "part-1.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(ValueError, match=r"Got '.*part-1\.parquet', which cannot be read as Par"):
        as_source(folder)


def test_what_others_left_unfinished_is_no_part(tmp_path):
    folder = _make("parquet folder", tmp_path)
    for name in ("_temporary", ".hidden"):
        (folder / name).mkdir()
        (folder / name / "part-2.parquet").write_bytes(b"half")
    assert as_source(folder).shape == (N, D)
    (tmp_path / "_only" / "_temporary").mkdir(parents=True)
    (tmp_path / "_only" / "_temporary" / "x.parquet").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"but there is no \.parquet file in it"):
        as_source(tmp_path / "_only")
    _parquet(tmp_path / "_only" / "x.parquet", "list")
    assert as_source(tmp_path / "_only").shape == (N, D)


def test_an_empty_source(tmp_path):
    pq.write_table(pa.table({"emb": pa.array([], pa.list_(pa.float32()))}), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="Got an empty table"):
        as_source(tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="Got an empty table"):
        as_source(np.zeros((0, 3)))
    np.save(tmp_path / "e.npy", np.zeros((0, 3)))
    with pytest.raises(ValueError, match=r"Got an empty table: there are no rows in '.*e\.npy'"):
        as_source([tmp_path / "e.npy"])
    with pytest.raises(ValueError, match=r"Got an empty table: there are no rows in all 2 files"):
        as_source([tmp_path / "e.npy", tmp_path / "e.npy"])


def test_what_is_not_a_table_of_numbers():
    with pytest.raises(ValueError, match="Got X of dtype <U1"):
        as_source(np.array([["a"]]))
    with pytest.raises(ValueError, match=r"Got X of shape \(3,\)"):
        as_source(np.zeros(3))


@pytest.mark.skipif(sys.platform != "linux", reason="counts resident pages as Linux does")
def test_a_big_map_does_not_become_resident(tmp_path):
    """A quarter of a gigabyte is read in chunks and by random rows, and little stays resident."""
    path = tmp_path / "big.npy"
    np.lib.format.open_memmap(path, mode="w+", dtype="f4", shape=(250_000, 256)).flush()
    program = f"""
import numpy as np
from unspot.io import as_source
def peak():  # not getrusage, whose maximum is inherited from the parent
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
source = as_source({str(path)!r})
source.take([0])
before = peak()
for _ in source.chunks(8192): pass
source.take(np.random.default_rng(0).permutation(250_000)[:20_000])
print(peak() - before)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    kilobytes = int(out.stdout)
    assert kilobytes < 100_000
