"""Reading tables: every format gives the same table, and bad files get a sentence."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot.io import RowSource, files, read_table, sources
from unspot.io.columns import matrix

N, D = 7, 3
X = np.random.default_rng(0).normal(size=(N, D))
Z = np.array(["f", "m", "f", "m", "f", "m", "f"])
Y = np.arange(N) % 3


def _list_column(kind, X=X):
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    type_ = pa.list_(pa.float64()) if kind == "list" else pa.large_list(pa.float64())
    return pa.array(list(X), type=type_)


@pytest.fixture
def write(tmp_path):
    def write(kind):
        path = tmp_path / f"data.{kind}"
        wide = pd.DataFrame(X, columns=[f"e_{i}" for i in range(D)]).assign(gender=Z, job=Y)
        if kind == "npz":
            np.savez(path, X=X, gender=Z, job=Y)
        elif kind == "csv":
            wide.to_csv(path, index=False)
        elif kind == "wide.parquet":
            wide.to_parquet(path)
        elif kind == "folder":
            path.mkdir()
            for part, rows in (("b", slice(4, None)), ("a", slice(0, 4))):
                columns = {"emb": _list_column("list", X[rows]), "gender": Z[rows], "job": Y[rows]}
                pq.write_table(pa.table(columns), path / f"{part}.parquet")
        else:
            columns = {"emb": _list_column(kind.split(".")[0]), "gender": Z, "job": Y}
            pq.write_table(pa.table(columns), path)
        return path

    return write


@pytest.mark.parametrize(
    ("kind", "features"),
    [
        ("npz", None),
        ("npz", "X"),
        ("csv", "e_*"),
        ("csv", "e_0,e_1,e_2"),
        ("wide.parquet", "e_*"),
        ("list.parquet", None),
        ("large.parquet", "emb"),
        ("fixed.parquet", "emb"),
        ("folder", "emb"),
    ],
)
def test_every_format_gives_the_same_table(write, kind, features):
    table = read_table(write(kind), features=features, concept="gender", task="job")
    np.testing.assert_allclose(table.X, X, rtol=1e-15)
    assert table.z.tolist() == Z.tolist()
    assert table.y.tolist() == Y.tolist()
    assert len(table) == N


def test_a_csv_without_features_takes_the_fractional_columns(write):
    table = read_table(write("csv"), concept="gender", task="job")
    assert table.features == ("e_0", "e_1", "e_2")


def test_npy_stays_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert isinstance(read_table(tmp_path / "x.npy").X, np.memmap)


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "npz", "parquet"])
def test_the_concept_may_be_in_a_second_file(tmp_path, ending):
    np.save(tmp_path / "x.npy", X)
    labels = tmp_path / f"z.{ending}"
    if ending == "npy":
        np.save(labels, Z)
    elif ending == "txt":
        labels.write_text("\n".join(Z) + "\n")
    elif ending == "csv":
        pd.DataFrame({"gender": Z}).to_csv(labels, index=False)
    elif ending == "npz":
        np.savez(labels, gender=Z)
    else:
        pd.DataFrame({"gender": Z}).to_parquet(labels)
    assert read_table(tmp_path / "x.npy", labels_file=labels).z.tolist() == Z.tolist()


def test_a_mark_at_the_beginning_of_text_is_no_part_of_the_first_label(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "z.txt").write_text("f\nm\nf\n", encoding="utf-8-sig")
    table = read_table(tmp_path / "x.npy", labels_file=tmp_path / "z.txt")
    assert list(table.z) == ["f", "m", "f"]


def test_concept_and_task_may_both_be_in_the_second_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    pd.DataFrame({"id": range(N), "gender": Z, "job": Y}).to_csv(tmp_path / "z.csv", index=False)
    files = {"path": tmp_path / "x.npy", "labels_file": tmp_path / "z.csv"}
    table = read_table(**files, concept="gender", task="job")
    assert table.z.tolist() == Z.tolist()
    assert table.y.tolist() == Y.tolist()
    with pytest.raises(ValueError, match=r"3 columns \(id, gender, job\), but no concept"):
        read_table(**files)
    with pytest.raises(ValueError, match=r"Got column 'gendre', .* Did you mean 'gender'"):
        read_table(**files, concept="gendre")


def test_categories_come_back_as_what_they_stand_for(tmp_path):
    frame = pd.DataFrame({"e": X[:, 0], "gender": pd.Categorical(Z)})
    frame.to_parquet(tmp_path / "c.parquet")
    assert read_table(tmp_path / "c.parquet", concept="gender").z.tolist() == Z.tolist()


def test_an_empty_cell_is_a_missing_label(tmp_path):
    (tmp_path / "t.csv").write_text("e,gender\n0.5,f\n0.25,\n")
    assert read_table(tmp_path / "t.csv", concept="gender").z.tolist() == ["f", None]


def test_numbers_of_parquet_are_read_as_single_or_double_precision(tmp_path):
    for dtype, read_as in (("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i1", "f8")):
        values = pa.array(X.astype(dtype).ravel())
        column = pa.FixedSizeListArray.from_arrays(values, D)
        pq.write_table(pa.table({"emb": column}), tmp_path / "h.parquet")
        table = read_table(tmp_path / "h.parquet")
        assert table.X.dtype == read_as
        np.testing.assert_array_equal(table.X, X.astype(dtype))


@pytest.mark.parametrize("kind", ["list", "large", "fixed", "wide"])
@pytest.mark.parametrize("n_chunks", [1, 3])
def test_chunks_of_a_column_are_one_matrix(kind, n_chunks):
    """No row of any chunk is lost, nor any that a slice has cut off found again."""
    columns = (
        {f"e_{i}": pa.array(X[:, i]) for i in range(D)}
        if kind == "wide"
        else {"emb": _list_column(kind)}
    )
    table = pa.concat_tables([pa.table(columns).slice(1, 4)] * n_chunks)
    found = matrix(table, list(columns), where="the table")
    np.testing.assert_array_equal(found, np.vstack([X[1:5]] * n_chunks))


def test_a_column_in_many_chunks_is_read_whole(tmp_path):
    many = pa.table({"emb": pa.chunked_array([_list_column("list"), _list_column("list")])})
    pq.write_table(many, tmp_path / "m.parquet", row_group_size=2)
    np.testing.assert_array_equal(read_table(tmp_path / "m.parquet").X, np.vstack([X, X]))


@pytest.mark.parametrize("kind", ["npz", "csv", "wide.parquet", "fixed.parquet", "folder"])
@pytest.mark.parametrize("small", [0, 2**28])
def test_large_parquet_can_stay_on_disk(write, kind, small, monkeypatch):
    monkeypatch.setattr(sources, "LOAD_BYTES", small)
    features = "e_*" if kind in ("csv", "wide.parquet") else None
    table = read_table(write(kind), features=features, concept="gender", task="job", on_disk=True)
    on_disk = small == 0 and kind not in ("npz", "csv")
    assert isinstance(table.X, RowSource) is on_disk
    rows = table.X.take(np.arange(N)) if on_disk else table.X
    np.testing.assert_allclose(rows, X, rtol=1e-15)
    assert table.z.tolist() == Z.tolist()
    assert table.y.tolist() == Y.tolist()
    assert len(table) == N


def _write_parts(folder, *tables):
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"{number}.parquet")


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda number: pa.list_(number, 2)])
def test_parts_of_different_precision(tmp_path, kind):
    single, double = (
        {"emb": pa.array([[0.1, 2.0]], type=kind(number)), "g": ["a"]}
        for number in (pa.float32(), pa.float64())
    )
    _write_parts(tmp_path / "parts", single, double)
    table = read_table(tmp_path / "parts", concept="g")
    assert table.X.dtype == np.float64
    np.testing.assert_array_equal(table.X, [[np.float32(0.1), 2.0], [0.1, 2.0]])


def test_parts_that_do_not_agree(tmp_path):
    rows = {"emb": [[0.1, 2.0]]}
    _write_parts(tmp_path / "parts", {**rows, "g": ["a"]}, {**rows, "g": [1]})
    with pytest.raises(ValueError, match=r"parts', whose parts do not agree in the types .* g"):
        read_table(tmp_path / "parts", concept="g")


def test_rows_on_disk_with_labels_elsewhere(write, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LOAD_BYTES", 0)
    (tmp_path / "z.txt").write_text("\n".join(Z))
    path = write("fixed.parquet")
    table = read_table(path, task="job", labels_file=tmp_path / "z.txt", on_disk=True)
    assert isinstance(table.X, RowSource)
    assert table.z.tolist() == Z.tolist()
    assert table.y.tolist() == Y.tolist()
    with pytest.raises(ValueError, match="Did you mean 'gender'"):
        read_table(path, concept="gendr", on_disk=True)
    (tmp_path / "z.txt").write_text("f")
    with pytest.raises(ValueError, match=r"Got 1 labels in z of .* for 7 rows of X"):
        read_table(path, labels_file=tmp_path / "z.txt", on_disk=True)


# -- bad input ----------------------------------------------------------------------------------


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="but there is no such file or folder"):
        read_table(tmp_path / "none.npy")


def test_an_unknown_format(tmp_path):
    (tmp_path / "x.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"expected a file of format \.npy, \.npz, \.csv"):
        read_table(tmp_path / "x.pkl")


def test_a_folder_without_parts(tmp_path):
    with pytest.raises(ValueError, match=r"there is no .parquet file in it"):
        read_table(tmp_path)


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "parquet"])
def test_an_unreadable_file(tmp_path, ending):
    path = tmp_path / f"broken.{ending}"
    path.write_bytes(b"\x00\x01 no such thing \xff\xfe\n1,2,3\n" * 3)
    with pytest.raises(ValueError, match=rf"Got '.*broken\.{ending}', which"):
        read_table(path, features=None)


def test_a_cut_npy_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="which cannot be read as a numpy file"):
        read_table(tmp_path / "x.npy")


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="would mean unpickling, which can run any code"):
        read_table(tmp_path / "o.npy")
    np.savez(tmp_path / "o.npz", X=X, z=np.array(["a", 1] * 4, dtype=object)[:N])
    with pytest.raises(ValueError, match=r"Got array 'z' of .*would mean unpickling"):
        read_table(tmp_path / "o.npz", concept="z")


@pytest.mark.parametrize("kind", ["npz", "csv", "list.parquet"])
def test_a_missing_column_with_the_near_matches(write, kind):
    with pytest.raises(ValueError, match=r"'gendr', but .* Did you mean 'gender'\?"):
        read_table(write(kind), concept="gendr")


def test_a_missing_array_of_vectors(tmp_path):
    np.savez(tmp_path / "x.npz", embeddings=X)
    with pytest.raises(ValueError, match=r"Got array 'X', but .* It has: embeddings"):
        read_table(tmp_path / "x.npz")


def test_columns_of_an_array_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"is one array and has no columns. Give the labels"):
        read_table(tmp_path / "x.npy", concept="gender")


@pytest.mark.parametrize(
    "content", [{"emb": pa.array([], pa.list_(pa.float32()))}, {"e": pa.array([], pa.float32())}]
)
def test_an_empty_parquet_table(tmp_path, content):
    pq.write_table(pa.table(content), tmp_path / "e.parquet")
    with pytest.raises(ValueError, match="Got an empty table"):
        read_table(tmp_path / "e.parquet")


@pytest.mark.parametrize("text", ["", "e_0,e_1\n"])
def test_an_empty_csv(tmp_path, text):
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(ValueError, match="Got an empty table"):
        read_table(tmp_path / "e.csv", features="e_*")


def test_an_empty_array(tmp_path):
    np.save(tmp_path / "e.npy", np.zeros((0, 5)))
    with pytest.raises(ValueError, match=r"Got an empty table: X of shape \(0, 5\)"):
        read_table(tmp_path / "e.npy")


def test_vectors_that_are_not_numbers(tmp_path, write):
    np.save(tmp_path / "s.npy", np.array([["a", "b"]]))
    with pytest.raises(ValueError, match=r"Got X of dtype <U1 .* but expected numbers"):
        read_table(tmp_path / "s.npy")
    with pytest.raises(ValueError, match=r"gender .* not hold only numbers \(row 0: '.+'\)"):
        read_table(write("csv"), features="gender")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("features", [None, "e_*"])
def test_one_bad_cell_is_found(tmp_path, suffix, features):
    frame = pd.DataFrame({"e_0": ["1.5", "", "oops", "x"], "e_1": [0.5] * 4, "g": list("abab")})
    path = tmp_path / f"bad{suffix}"
    (frame.to_csv if suffix == ".csv" else frame.to_parquet)(path, index=False)
    with pytest.raises(ValueError, match=r"column e_0 of .* only numbers \(row 2: 'oops'\)"):
        read_table(path, features=features, concept="g")


def test_vectors_of_the_wrong_shape(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros(5))
    with pytest.raises(ValueError, match=r"Got X of shape \(5,\) .* expected \(rows, features\)"):
        read_table(tmp_path / "v.npy")


def test_labels_of_another_length(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "z.txt").write_text("f\nm\n")
    with pytest.raises(ValueError, match=r"Got 2 labels in z of '.*z\.txt' for 7 rows of X"):
        read_table(tmp_path / "x.npy", labels_file=tmp_path / "z.txt")


def test_labels_that_are_not_text(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "z.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="which is not UTF-8 text"):
        read_table(tmp_path / "x.npy", labels_file=tmp_path / "z.txt")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0], None], r"Got 1 missing values in column 'emb' .* \(the first in row 1\)"),
        ([[1.0, 2.0], [1.0]], r"Got a vector of length 1 in row 1 of column 'emb'"),
        (
            [[1.0, 2.0], [1.0, None]],
            r"Got 1 missing values in column 'emb' .* \(the first in row 1\)",
        ),
    ],
)
def test_vectors_that_are_missing_or_ragged(tmp_path, vectors, message):
    pq.write_table(pa.table({"emb": vectors}), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "v.parquet")


def test_without_pyarrow_the_message_has_the_install_command(write, monkeypatch):
    paths = [write("csv"), write("fixed.parquet")]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for path in paths:
        with pytest.raises(ImportError, match=r'needs pyarrow.*: pip install "unspot\[io\]"'):
            read_table(path)


# -- how often a file is opened ------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch):
    """The names of the Parquet files in the order in which they are opened."""
    names, real = [], files.open_parquet

    def counted(path):
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(files, "open_parquet", counted)
    monkeypatch.setattr(sources, "open_parquet", counted)
    return names


@pytest.mark.parametrize("kind", ["wide.parquet", "list.parquet", "fixed.parquet"])
def test_how_often_a_table_opens_its_file(write, opened, kind):
    features = "e_*" if kind == "wide.parquet" else "emb"
    read_table(write(kind), features=features, concept="gender", task="job")
    assert opened == [f"data.{kind}"] * 3  # the labels, the footer, the rows


def test_rows_on_disk_are_opened_once_per_pass(write, opened, monkeypatch):
    monkeypatch.setattr(sources, "LOAD_BYTES", 0)
    table = read_table(write("folder"), concept="gender", on_disk=True)
    assert opened == ["a.parquet", "b.parquet"] * 2  # the labels, then the footers
    opened.clear()
    assert sum(len(chunk) for chunk in table.X.chunks(2)) == N
    assert opened == ["a.parquet", "b.parquet"]


def test_how_often_a_file_of_labels_is_opened(tmp_path, write, opened):
    np.save(tmp_path / "x.npy", X)
    read_table(tmp_path / "x.npy", concept="gender", task="job", labels_file=write("fixed.parquet"))
    assert opened == ["data.fixed.parquet"] * 2  # the names, then the columns


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["01", "1", "01", "1"], ["01", "1", "01", "1"]),
        (["1.0", "1", "1.0", "1"], ["1.0", "1", "1.0", "1"]),
        (["1e3", "1000", "1e3", "2"], ["1e3", "1000", "1e3", "2"]),
        (["007", "008", "007", "008"], ["007", "008", "007", "008"]),
        (["1", "2", "10", "2"], [1, 2, 10, 2]),
        (["-1", "2", "", "NA"], [-1, 2, None, None]),
        (["1.5", "1.50", "2", "2.0"], [1.5, 1.5, 2.0, 2.0]),
        (["yes", "NA", "", "no"], ["yes", "NA", None, "no"]),
        (["true", "false", "true", "false"], ["true", "false", "true", "false"]),
    ],
)
def test_labels_of_a_csv_are_read_to_the_letter(tmp_path, texts, expected):
    """Only labels that lose nothing become numbers: "01" and "1" are two classes."""
    lines = [f"0.5,{text}" for text in texts]
    (tmp_path / "t.csv").write_text("\n".join(["e,label", *lines]) + "\n")
    found = read_table(tmp_path / "t.csv", features="e", concept="label").z
    assert found.tolist() == expected
    assert [type(value) for value in found.tolist()] == [type(value) for value in expected]
