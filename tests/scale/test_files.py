"""One file into another: the same in every format, streamed, and bad files are named."""

import builtins
import csv
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from unspot import Eraser
from unspot.io import read_table
from unspot.io.files import read_npy
from unspot.scale import Erasure, batches, transform_file
from unspot.scale import transform as bulk_files
from unspot.scale.batches import ArrowEraser

N, D, R = 50, 4, 2
RNG = np.random.default_rng(0)
ERASER = Eraser.projection(np.linalg.qr(RNG.normal(size=(D, R)))[0])
X = RNG.normal(size=(N, D)).astype(np.float32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Chunks of seven rows, so that fifty are many."""
    monkeypatch.setattr(bulk_files, "CHUNK_BYTES", 7 * D * 4)
    monkeypatch.setattr(bulk_files, "CHUNK_ROWS", 1)
    monkeypatch.setattr(bulk_files, "BATCH_BYTES", 7 * D * 4)


@pytest.fixture
def erase(tmp_path):
    def erase(source, *, features=None, reduce=False, eraser=ERASER):
        target = tmp_path / f"clean{source.suffix}"
        transform_file(Erasure(eraser, features, reduce), source, target)
        assert not list(tmp_path.glob(".*"))
        return target

    return erase


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8", ">f4", "<i8"])
@pytest.mark.parametrize("reduce", [False, True])
def test_npy(tmp_path, erase, order, dtype, reduce):
    rows = np.asarray(X * 10, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", rows)
    found = np.load(erase(tmp_path / "x.npy", reduce=reduce))
    native = np.ascontiguousarray(rows).astype(rows.dtype.newbyteorder("="))
    expected = ERASER.reduce(native) if reduce else ERASER(native)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "<f2" else 1e-5, atol=1e-5)


def test_npy_without_rows(tmp_path, erase):
    np.save(tmp_path / "x.npy", X[:0])
    assert np.load(erase(tmp_path / "x.npy", reduce=True)).shape == (0, R)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_keeps_its_other_arrays(tmp_path, erase, save, order):
    words = np.array(["ü", "b"] * 25)
    save(tmp_path / "x.npz", X=np.asarray(X, order=order), z=words, y=np.arange(3))
    with np.load(erase(tmp_path / "x.npz")) as found:
        np.testing.assert_allclose(found["X"], ERASER(X), rtol=1e-5, atol=1e-6)
        assert found["z"].tolist() == words.tolist()
        assert found["y"].tolist() == [0, 1, 2]
        assert found.files == ["X", "z", "y"]
    with zipfile.ZipFile(tmp_path / "clean.npz") as new, zipfile.ZipFile(tmp_path / "x.npz") as old:
        assert new.testzip() is None
        kinds = [[info.compress_type for info in file.infolist()] for file in (new, old)]
        assert kinds[0] == kinds[1]


def test_npz_objects_pass_through_without_being_unpickled(tmp_path, erase):
    np.savez(tmp_path / "x.npz", X=X, z=np.array([{"a": 1}], dtype=object))
    with np.load(erase(tmp_path / "x.npz"), allow_pickle=True) as found:
        assert found["z"][0] == {"a": 1}


def _table():
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
    names = pa.array([f"w{i % 3}" if i % 7 else None for i in range(N)]).dictionary_encode()
    return pa.table({"name": names, "emb": vectors, "day": pa.array(range(N), pa.date32())})


@pytest.mark.parametrize("reduce", [False, True])
@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "ZSTD"])
def test_parquet_keeps_schema_rows_and_compression(tmp_path, erase, reduce, codec):
    table = _table()
    pq.write_table(table, tmp_path / "x.parquet", compression=codec, row_group_size=20)
    target = erase(tmp_path / "x.parquet", reduce=reduce)
    found = pq.read_table(target)
    expected = ERASER.reduce(X) if reduce else ERASER(X)
    values = np.array(found["emb"].to_pylist(), np.float32)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    for name in ("name", "day"):
        assert found[name].to_pylist() == table[name].to_pylist()
    if not reduce:
        assert found.schema.equals(pq.read_schema(tmp_path / "x.parquet"), check_metadata=True)
    chunk = pq.ParquetFile(target).metadata.row_group(0).column(1)
    assert chunk.compression == ("UNCOMPRESSED" if codec == "NONE" else codec)


def test_parquet_row_groups_stay_unless_huge(tmp_path, erase, monkeypatch):
    pq.write_table(_table(), tmp_path / "x.parquet", row_group_size=20)
    monkeypatch.setattr(bulk_files, "BATCH_BYTES", 1 << 20)
    metadata = pq.ParquetFile(erase(tmp_path / "x.parquet")).metadata
    assert [metadata.row_group(i).num_rows for i in range(3)] == [20, 20, 10]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_parquet_with_long_texts_is_read_in_smaller_batches(tmp_path, erase, monkeypatch, codec):
    """What a row takes is counted with all its columns, before compression."""
    read, real = [], ArrowEraser.__call__

    def seen(self, batch):
        read.append(batch.num_rows)
        return real(self, batch)

    monkeypatch.setattr(ArrowEraser, "__call__", seen)
    monkeypatch.setattr(bulk_files, "BATCH_BYTES", 20_000)
    texts = pa.array([f"{i:04}" * 1000 for i in range(N)])  # 4 kB each
    found = {}
    for table in (_table(), _table().append_column("text", texts)):
        how = {"compression": codec, "row_group_size": 40}
        pq.write_table(table, tmp_path / "x.parquet", **how)
        target = erase(tmp_path / "x.parquet")
        found[max(read)] = pq.read_table(target)
        assert sum(read) == N
        read.clear()
        target.unlink()
    assert list(found) == [40, 4]  # a whole row group, and twenty kilobytes of one
    assert found[4].drop_columns("text").equals(found[40])
    assert found[4]["text"].to_pylist() == texts.to_pylist()


def test_parquet_of_pandas_comes_back_with_its_index(tmp_path, erase):
    frame = pd.DataFrame(X, columns=[f"e_{j}" for j in range(D)], index=[f"r{i}" for i in range(N)])
    frame.to_parquet(tmp_path / "x.parquet")
    found = pd.read_parquet(erase(tmp_path / "x.parquet", features="e_*"))
    expected = pd.DataFrame(ERASER(X), columns=frame.columns, index=frame.index)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5)


def test_parquet_without_rows(tmp_path, erase):
    pq.write_table(_table().slice(0, 0), tmp_path / "x.parquet")
    found = pq.read_table(erase(tmp_path / "x.parquet", reduce=True))
    assert found.num_rows == 0
    assert found.schema.field("emb").type.list_size == R


def test_csv_text_passes_through_unchanged(tmp_path, erase):
    texts = ["007", 'he said "no"', "a,b", "two\nlines", "", "1.50", "ü", "null", "NaN", " "] * 5
    frame = pd.DataFrame(X.astype(float), columns=[f"e_{j}" for j in range(D)])
    frame.insert(0, "code", texts)
    frame["id"] = np.arange(N)
    frame.to_csv(tmp_path / "x.csv", index=False)
    target = erase(tmp_path / "x.csv", features="e_*")
    with target.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["code", "e_0", "e_1", "e_2", "e_3", "id"]
    assert [row[0] for row in rows[1:]] == texts
    assert [row[5] for row in rows[1:]] == [str(i) for i in range(N)]
    found = np.array([row[1:5] for row in rows[1:]], dtype=float)
    np.testing.assert_allclose(found, ERASER(X.astype(float)), rtol=1e-6, atol=1e-6)


def test_csv_whole_numbers_that_turn_fractional_late(tmp_path, erase):
    rows = np.vstack([np.ones((40, D)), np.full((10, D), 0.5)])
    text = "\n".join(",".join(f"{v:g}" for v in row) for row in rows)
    (tmp_path / "x.csv").write_text("a,b,c,d\n" + text + "\n")
    found = np.loadtxt(erase(tmp_path / "x.csv", features="*"), delimiter=",", skiprows=1)
    np.testing.assert_allclose(found, ERASER(rows), rtol=1e-12)


def test_numbers_in_a_csv_are_not_quoted(tmp_path, erase):
    (tmp_path / "x.csv").write_text("id,a,b,c,d\n" + "12,1.5,2,3,4\n" * 3)
    text = erase(tmp_path / "x.csv", features="a,b,c,d").read_text()
    assert '"' not in text
    assert text.splitlines()[1].startswith("12,")


def test_columns_are_remembered_from_the_fit(tmp_path, erase):
    eraser = Eraser(ERASER.maps, {"features": ["emb"]})
    twice = _table().append_column("other", _table()["emb"])
    pq.write_table(twice, tmp_path / "x.parquet")
    found = pq.read_table(erase(tmp_path / "x.parquet", eraser=eraser))
    assert found["other"].equals(twice["other"])
    assert not found["emb"].equals(twice["emb"])


NAMES = [f"e_{i}" for i in range(D)]
OF_COLUMNS = Eraser(ERASER.maps, {"features": NAMES})


def _write_columns(path, **columns):
    table = pa.table(columns)
    pq.write_table(table, path) if path.suffix == ".parquet" else write_csv(table, path)
    return path


@pytest.mark.parametrize("features", [None, "e_*", ",".join(NAMES)])
@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_columns_are_taken_in_the_order_of_the_fit(tmp_path, erase, name, features):
    columns = dict(zip(NAMES, X.T, strict=True))
    source = _write_columns(tmp_path / name, **dict(reversed(columns.items())), price=X[:, 0])
    found = read_table(erase(source, eraser=OF_COLUMNS, features=features), features=NAMES).X
    np.testing.assert_allclose(found, ERASER(X), atol=1e-6)


@pytest.mark.parametrize("features", [None, "e_*,price", "*"])
@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_a_column_of_the_fit_that_is_lost_is_named(tmp_path, erase, name, features):
    """Else the others would move up by one, and the price would be erased as a coordinate."""
    columns = dict(zip(NAMES, X.T, strict=True), price=X[:, 0])
    del columns["e_1"]
    source = _write_columns(tmp_path / name, **columns)
    with pytest.raises(ValueError, match=r"without column e_1, but .* on e_0 … e_3 .*--features"):
        erase(source, eraser=OF_COLUMNS, features=features)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_columns_of_other_names_are_taken_if_they_are_named(tmp_path, erase, name):
    source = _write_columns(tmp_path / name, **dict(zip("abcd", X.T, strict=True)))
    with pytest.raises(ValueError, match="without column e_0, e_1, e_2, e_3"):
        erase(source, eraser=OF_COLUMNS)
    found = read_table(erase(source, eraser=OF_COLUMNS, features="a,b,c,d")).X
    np.testing.assert_allclose(found, ERASER(X), atol=1e-6)


def test_vectors_of_the_fit_that_are_lost_are_named(tmp_path, erase):
    eraser = Eraser(ERASER.maps, {"features": ["vec"]})
    pq.write_table(_table(), tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", X=X)
    for name, what in (("x.parquet", "column vec"), ("x.npz", "array vec")):
        with pytest.raises(ValueError, match=f"{name} without {what}, but this eraser was fitted"):
            erase(tmp_path / name, eraser=eraser)
    assert erase(tmp_path / "x.parquet", eraser=eraser, features="emb").exists()
    assert erase(tmp_path / "x.npz", eraser=eraser, features="X").exists()


def test_an_eraser_that_changes_nothing_does_not_share_the_read_buffer(tmp_path, erase):
    identity = Eraser.projection(np.eye(D))
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(np.load(erase(tmp_path / "x.npy", eraser=identity)), X)


# -- bad input ----------------------------------------------------------------------------------


def test_files_of_another_width_are_named(tmp_path, erase):
    for name, write in {
        "x.npy": lambda path: np.save(path, X[:, :3]),
        "x.npz": lambda path: np.savez(path, X=X[:, :3]),
        "x.parquet": lambda path: pq.write_table(pa.table({"emb": list(X[:, :3])}), path),
        "x.csv": lambda path: pd.DataFrame(X[:, :3]).to_csv(path, index=False),
    }.items():
        write(tmp_path / name)
        with pytest.raises(ValueError, match=rf"Got vectors of length 3 in .*{name}, but expected"):
            erase(tmp_path / name)
        assert os.listdir(tmp_path) == [name]
        (tmp_path / name).unlink()


def test_nan_is_named_by_its_row_in_the_file(tmp_path, erase):
    rows = X.copy()
    rows[33, 2] = np.nan
    np.save(tmp_path / "x.npy", rows)
    pq.write_table(pa.table({"emb": list(rows)}), tmp_path / "x.parquet")
    for name in ("x.npy", "x.parquet"):
        with pytest.raises(ValueError, match=rf"infinity in .*{name} \(the first in row 33\)"):
            erase(tmp_path / name)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet"])
def test_a_cut_file_is_named(tmp_path, erase, name):
    path = tmp_path / name
    if name == "x.npy":
        np.save(path, X)
    elif name == "x.npz":
        np.savez(path, X=X)
    else:
        pq.write_table(_table(), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"Got '.*{name}', which"):
        erase(path)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_with_more_bytes_than_its_header_says_is_named(tmp_path, erase, order):
    """Two files in one, for example: the rows of the second would be lost."""
    path = tmp_path / "x.npy"
    np.save(path, np.asarray(X, order=order))
    path.write_bytes(path.read_bytes() * 2)
    for read in (erase, read_npy):
        with pytest.raises(ValueError, match=r"Got '.*x\.npy', which .*more bytes than its header"):
            read(path)
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize(
    "damage",
    [(b"}", b" "), (b"{", b"\x00"), (b"(", b" "), (b"{", b"\n  {\n "), (b"'", b'"'), (b"<", b"\\")],
)
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_damaged_header_is_named(tmp_path, erase, name, damage):
    """numpy reads headers as Python: the errors are those of a program."""
    path = tmp_path / name
    np.save(path, X) if name == "x.npy" else np.savez(path, X=X)
    content = path.read_bytes().replace(*damage, 1)
    if name == "x.npz":
        buffer = io.BytesIO()
        np.save(buffer, X)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", buffer.getvalue().replace(*damage, 1))
    else:
        path.write_bytes(content)
    for read in (erase, read_table):
        with pytest.raises(ValueError, match=rf"Got .*{name}', which cannot be read"):
            read(path)


def _outcome(read):
    try:
        return read()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_that_is_damaged_anywhere(tmp_path, erase, save):
    """It is named, or what was damaged does not matter; the rows are never others."""
    path = tmp_path / "x.npz"
    save(path, X=X, z=np.arange(N))
    good, named = path.read_bytes(), 0
    for place in range(0, len(good), 5):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :])
        (tmp_path / "clean.npz").unlink(missing_ok=True)
        erased = _outcome(lambda: np.load(erase(path, features="X"))["X"])
        table = _outcome(lambda: read_table(path, features="X", concept="z").X)
        for found, expected in ((erased, ERASER(X)), (table, X)):
            if isinstance(found, str):
                assert "x.npz" in found
                named += 1
            else:
                np.testing.assert_array_equal(found, expected)
    assert named > len(good) / 5


@pytest.mark.parametrize("name", ["x.npz", "x.parquet"])
def test_a_file_with_a_damaged_middle_is_named(tmp_path, erase, name):
    path = tmp_path / name
    if name == "x.npz":
        np.savez_compressed(path, X=X)
    else:
        whole = pa.concat_tables([_table()] * 20)
        pq.write_table(whole, path, compression="zstd", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 20] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"Got .*{name}', which cannot be read"):
        erase(path)
    assert os.listdir(tmp_path) == [name]


def test_text_among_the_numbers_of_a_csv(tmp_path, erase):
    (tmp_path / "x.csv").write_text("a,b,c,d\n1,2,3,4\n" + "1,2,oops,4\n")
    with pytest.raises(ValueError, match=r"Got .*x\.csv"):
        erase(tmp_path / "x.csv", features="a,b,c,d")


@pytest.mark.parametrize("text", ["", "a,b,c,d\n"])
def test_a_csv_without_rows(tmp_path, erase, text):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match="Got an empty table"):
        erase(tmp_path / "x.csv", features="*")


def test_columns_of_one_name(tmp_path, erase):
    (tmp_path / "x.csv").write_text("a,b,c,d,d\n1,2,3,4,5\n")
    with pytest.raises(ValueError, match=r"x\.csv' with two columns .*'d'"):
        erase(tmp_path / "x.csv", features="a,b,c,d")


@pytest.mark.parametrize("name", ["emb", "id"])
def test_a_column_that_is_in_a_parquet_file_twice(tmp_path, erase, name):
    vectors = pa.array(list(X[:, :D]))
    columns = {"emb": [vectors], "id": [pa.array(range(len(X)))]}
    columns[name] *= 2
    names = [key for key, arrays in columns.items() for _ in arrays]
    table = pa.table([array for arrays in columns.values() for array in arrays], names=names)
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=rf"x\.parquet' with two columns .*'{name}'"):
        erase(tmp_path / "x.parquet", features="emb")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_whose_name_is_not_utf8(tmp_path, erase, kind):
    (tmp_path / "x.csv").write_text("a,b,c,d\n1.5,2.5,3.5,4.5\n")
    pq.write_table(pa.table({"emb": list(X[:, :D])}), tmp_path / "x.parquet")
    path = tmp_path / os.fsdecode(b"\xff." + kind.encode())
    (tmp_path / f"x.{kind}").rename(path)
    with pytest.raises(ValueError, match=r"udcff.*name is not UTF-8.*Rename"):
        erase(path)


def test_a_column_whose_name_is_not_utf8(tmp_path, erase):
    (tmp_path / "x.csv").write_bytes(b"a,b,c,d\xff\n1.5,2.5,3.5,4.5\n")
    with pytest.raises(ValueError, match=r"x\.csv', whose column names are not UTF-8"):
        erase(tmp_path / "x.csv")


@pytest.mark.parametrize("shape", [(2**62, D), (10**10, D), (3, 2**40), (-3, D)])
def test_a_header_of_an_impossible_shape_is_named(tmp_path, erase, shape):
    header = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    (tmp_path / "a.npy").write_bytes(header.getvalue() + bytes(80))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "X.npy")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match=rf"{name}', .*(ends too early|shape \(-3)"):
            erase(tmp_path / name)


def test_arrays_that_are_not_there_or_no_table(tmp_path, erase):
    np.savez(tmp_path / "x.npz", emb=X, v=X[0])
    with pytest.raises(ValueError, match=r"Got array 'X', but .* It has: emb"):
        erase(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"Got X of shape \(4,\)"):
        erase(tmp_path / "x.npz", features="v")


def test_output_of_another_format(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"but expected the same format: a name that ends in .npy"):
        transform_file(Erasure(ERASER), tmp_path / "x.npy", tmp_path / "x.parquet")


def test_input_as_output(tmp_path):
    np.save(tmp_path / "x.npy", X)
    os.link(tmp_path / "x.npy", tmp_path / "same.npy")
    for name in ("x.npy", "same.npy"):
        with pytest.raises(ValueError, match="as input and output, but expected another name"):
            transform_file(Erasure(ERASER), tmp_path / "x.npy", tmp_path / name, force=True)


def test_what_exists_is_replaced_only_by_force(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "clean.npy").write_bytes(b"precious")
    with pytest.raises(ValueError, match="exists already"):
        transform_file(Erasure(ERASER), tmp_path / "x.npy", tmp_path / "clean.npy")
    assert (tmp_path / "clean.npy").read_bytes() == b"precious"
    transform_file(Erasure(ERASER), tmp_path / "x.npy", tmp_path / "clean.npy", force=True)
    assert np.load(tmp_path / "clean.npy").shape == (N, D)


def test_an_input_that_grows_meanwhile_is_noticed(tmp_path, monkeypatch):
    pq.write_table(_table(), tmp_path / "x.parquet")
    real = bulk_files._ERASE[".parquet"]

    def racing(*args):
        rows = real(*args)
        pq.write_table(pa.concat_tables([_table(), _table()]), tmp_path / "x.parquet")
        return rows

    monkeypatch.setitem(bulk_files._ERASE, ".parquet", racing)
    with pytest.raises(ValueError, match=r"x\.parquet', which changed while it was read"):
        transform_file(Erasure(ERASER), tmp_path / "x.parquet", tmp_path / "clean.parquet")
    assert os.listdir(tmp_path) == ["x.parquet"]


def test_npy_needs_no_pyarrow(tmp_path, monkeypatch):
    real = builtins.__import__

    def no_pyarrow(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    transform_file(Erasure(ERASER), tmp_path / "x.npy", tmp_path / "clean.npy")
    np.testing.assert_allclose(np.load(tmp_path / "clean.npy"), ERASER(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_memory_stays_small(tmp_path, kind):
    """A file of 400 MB, in one row group, is never in memory as a whole."""
    rows = np.zeros((100_000, 1000), np.float32)
    if kind == "npy":
        np.save(tmp_path / "x.npy", rows)
    else:
        table = pa.table({"emb": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 1000)})
        how = {"compression": "none", "use_dictionary": False, "row_group_size": 1 << 20}
        pq.write_table(table, tmp_path / "x.parquet", **how)
    Eraser.projection(np.eye(1000)[:, :10]).save(tmp_path / "e.safetensors")
    program = f"""
from pathlib import Path
import numpy as np, pyarrow.parquet
from unspot import load
from unspot.scale import Erasure, transform_file
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
erasure = Erasure(load({str(tmp_path / "e.safetensors")!r}))
before = peak()
folder = Path({str(tmp_path)!r})
transform_file(erasure, folder / "x.{kind}", folder / "clean.{kind}")
print((peak() - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < (100 if kind == "npy" else 320)


def test_a_parquet_file_is_opened_once_and_its_schema_read_once(tmp_path, erase, monkeypatch):
    opened, schemas = [], []
    real_open, real_schema = bulk_files.open_parquet, batches.erased_schema

    def counted_open(path):
        opened.append(path.name)
        return real_open(path)

    def counted_schema(*args, **options):
        schemas.append(args)
        return real_schema(*args, **options)

    monkeypatch.setattr(bulk_files, "open_parquet", counted_open)
    monkeypatch.setattr(batches, "erased_schema", counted_schema)
    pq.write_table(_table(), tmp_path / "x.parquet", row_group_size=20)
    erase(tmp_path / "x.parquet")
    assert opened == ["x.parquet"]
    assert len(schemas) == 1
