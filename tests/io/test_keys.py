"""Labels in a file of their own: by a key, with gaps, in another order, in other dialects."""

import numpy as np
import pandas as pd
import pytest

from unspot import LEACE
from unspot.io import read_table, sources
from unspot.io.files import csv_delimiter

N = 8
X = np.random.default_rng(0).normal(size=(N, 3))
IDS = np.array([f"p{i}" for i in range(N)])
Z = np.array(["f", "m"] * 4)
SHUFFLED = np.random.default_rng(1).permutation(N)


@pytest.fixture
def rows(tmp_path):
    """Rows with an id, as a path for each format that has columns."""
    frame = pd.DataFrame(X, columns=["e_0", "e_1", "e_2"]).assign(id=IDS)
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    np.savez(tmp_path / "rows.npz", X=X, id=IDS)
    return {kind: tmp_path / f"rows.{kind}" for kind in ("parquet", "csv", "npz")}


@pytest.fixture
def labels(tmp_path):
    """A file of labels, of some rows in some order."""

    def write(order=SHUFFLED, kind="csv", ids=IDS, **columns):
        path = tmp_path / f"labels.{kind}"
        frame = pd.DataFrame({"id": ids[order], "gender": Z[order], **columns})
        if kind == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        return path

    return write


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
@pytest.mark.parametrize("labels_kind", ["csv", "tsv", "parquet"])
def test_labels_find_their_rows(rows, labels, kind, labels_kind):
    file = labels(kind=labels_kind)
    table = read_table(rows[kind], labels_file=file, key="id")  # the only column but the key
    assert table.z.tolist() == Z.tolist()
    np.testing.assert_allclose(table.X, X)


def test_the_rows_of_a_key_may_be_many(tmp_path, labels):
    several = pd.DataFrame({"e_0": X[:, 0], "e_1": X[:, 1], "id": ["p0", "p1"] * 4})
    several.to_parquet(tmp_path / "several.parquet")
    table = read_table(tmp_path / "several.parquet", labels_file=labels(), key="id")
    assert table.z.tolist() == ["f", "m"] * 4


def test_numbers_in_one_file_may_be_text_in_the_other(tmp_path, labels):
    pd.DataFrame({"e_0": X[:, 0], "e_1": X[:, 1], "id": range(N)}).to_parquet(
        tmp_path / "n.parquet"
    )
    file = labels(kind="parquet", ids=np.arange(N).astype(str))
    assert read_table(tmp_path / "n.parquet", labels_file=file, key="id").z.tolist() == Z.tolist()


def test_rows_without_a_partner_have_no_label(rows, labels):
    file = labels(SHUFFLED[SHUFFLED < 6])
    gaps = read_table(rows["parquet"], labels_file=file, key="id").z
    assert gaps[:6].tolist() == Z[:6].tolist()
    assert gaps[6:].tolist() == [None, None]
    with pytest.raises(ValueError, match=r"2 missing labels.*--set drop_missing"):
        LEACE().fit(X, gaps)


def test_they_are_left_out_on_request(rows, labels):
    file = labels(SHUFFLED[SHUFFLED < 6])
    for on_disk in (False, True):
        how = {"key": "id", "drop_missing": True, "on_disk": on_disk}
        table = read_table(rows["parquet"], labels_file=file, **how)
        np.testing.assert_allclose(table.X, X[:6])
        assert table.z.tolist() == Z[:6].tolist()
        assert table.dropped.startswith("Left out 2 of 8 rows: 2 have no label")


def test_a_label_of_any_role_may_be_missing(tmp_path):
    frame = pd.DataFrame(X, columns=["e_0", "e_1", "e_2"])
    frame["gender"] = ["f", None, "m", "f", "m", "f", "m", "f"]
    frame["job"] = pd.array([1, 2, None, 1, 2, 1, 2, 1], dtype="Int64")
    frame.to_parquet(tmp_path / "gaps.parquet")
    ask = {"features": "e_*", "concept": "gender", "task": "job"}
    table = read_table(tmp_path / "gaps.parquet", **ask, drop_missing=True)
    np.testing.assert_allclose(table.X, X[[0, 3, 4, 5, 6, 7]])
    assert table.y.tolist() == [1, 1, 2, 1, 2, 1]
    assert table.y.dtype.kind == "i"  # a gap makes no 1.0 of a 1
    assert "2 of 8 rows" in table.dropped
    for name in ("'gender'", "'job'"):
        assert name in table.dropped
    assert read_table(tmp_path / "gaps.parquet", features="e_*", drop_missing=True).dropped == ""


def test_a_covariate_may_have_gaps_where_the_concept_may_not(tmp_path):
    frame = pd.DataFrame(X, columns=["e_0", "e_1", "e_2"])
    frame["gender"] = ["f", None, "m", "f", "m", "f", "m", "f"]
    frame["job"] = ["a", "b", None, "a", "b", "a", "b", "a"]
    frame.to_parquet(tmp_path / "gaps.parquet")
    ask = {"features": "e_*", "concept": "gender", "beside": ["job"], "drop_missing": True}
    table = read_table(tmp_path / "gaps.parquet", **ask)
    assert table.z["gender"].tolist() == ["f", "m", "f", "m", "f", "m", "f"]
    assert table.z["job"].tolist() == ["a", None, "a", "b", "a", "b", "a"]
    assert table.dropped == "Left out 1 of 8 rows: 1 has no label in 'gender'."


def test_rows_on_disk_stay_there(tmp_path, monkeypatch):
    """A fit on rows of which some are left out equals a fit on the others in memory."""
    monkeypatch.setattr(sources, "LOAD_BYTES", 0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4))
    z = np.where(rows[:, 0] > 0, "f", "m").astype(object)
    z[::7] = None
    kept = np.flatnonzero(z != None)  # noqa: E711
    frame = pd.DataFrame(rows, columns=list("abcd")).assign(z=z)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=64)
    table = read_table(tmp_path / "rows.parquet", concept="z", drop_missing=True, on_disk=True)
    assert not isinstance(table.X, np.ndarray)
    assert table.X.shape == (len(kept), 4)
    np.testing.assert_allclose(table.X.read(3, 90), rows[kept[3:90]])
    np.testing.assert_allclose(table.X.take([7, 2, 2]), rows[kept[[7, 2, 2]]])
    for start, stop in ((0, None), (5, 300), (9, 9)):
        chunks = [*table.X.chunks(50, start, stop)]
        assert all(0 < len(chunk) <= 50 for chunk in chunks)
        whole = np.concatenate([np.empty((0, 4)), *chunks])
        np.testing.assert_allclose(whole, rows[kept[start:stop]])
    expected = LEACE().fit(rows[kept], z[kept].astype(str))
    np.testing.assert_allclose(LEACE().fit(table.X, table.z).eraser_.P, expected.eraser_.P)


# -- What is noticed -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
def test_another_order_is_noticed(rows, labels, kind):
    with pytest.raises(ValueError, match="another order") as error:
        read_table(rows[kind], concept="gender", labels_file=labels())
    assert "--set key=id" in str(error.value)
    same = labels(np.arange(N))
    assert read_table(rows[kind], concept="gender", labels_file=same).z.tolist() == Z.tolist()


def test_a_column_that_names_no_rows_is_not_compared(rows, labels):
    frame = pd.read_parquet(rows["parquet"]).assign(source="a")
    frame.drop(columns="id").to_parquet(rows["parquet"])
    file = labels(np.arange(N), source=["b", *"aaaaaaa"])
    assert len(read_table(rows["parquet"], concept="gender", labels_file=file)) == N


def test_another_length_is_noticed(rows, labels):
    with pytest.raises(ValueError, match=r"6 labels.*8 rows.*--set key="):
        read_table(rows["npz"], labels_file=_without_id(labels(np.arange(6))))


def _without_id(path):
    pd.read_csv(path).drop(columns="id").to_csv(path, index=False)
    return path


def test_errors_of_keys(rows, labels, tmp_path):
    (tmp_path / "z.txt").write_text("f\nm\n")
    with pytest.raises(ValueError, match="'p0' twice"):
        read_table(rows["npz"], labels_file=labels([0, 1, 0]), key="id")
    others = np.char.replace(IDS, "p", "q")
    with pytest.raises(ValueError, match=r"no key of.*'p0'.*'q"):
        read_table(rows["npz"], labels_file=labels(ids=others), key="id")
    with pytest.raises(ValueError, match=r"no such column.*Did you mean 'id'"):
        read_table(rows["parquet"], labels_file=labels(), key="idd")
    with pytest.raises(ValueError, match=r"without a second file.*--labels"):
        read_table(rows["parquet"], concept="id", key="id")
    with pytest.raises(ValueError, match="no columns"):
        read_table(rows["parquet"], labels_file=tmp_path / "z.txt", key="id")
    pd.read_parquet(rows["parquet"]).assign(z=None).to_parquet(rows["parquet"])
    with pytest.raises(ValueError, match="no row with a label"):
        read_table(rows["parquet"], features="e_*", concept="z", drop_missing=True)


# -- What separates the columns of text tables -----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sep"), [("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")]
)
def test_text_tables_are_read_and_written_as_they_were(tmp_path, name, sep):
    from unspot.scale import Erasure, transform_file

    frame = pd.DataFrame(X, columns=["e_0", "e_1", "e_2"]).assign(note='a;\t"b", c', gender=Z)
    frame.to_csv(tmp_path / name, sep=sep, index=False)
    assert csv_delimiter(tmp_path / name) == sep
    table = read_table(tmp_path / name, features="e_*", concept="gender")
    np.testing.assert_allclose(table.X, X)
    assert table.z.tolist() == Z.tolist()
    eraser = LEACE().fit(X, Z).eraser_
    out = tmp_path / f"out{name}"
    assert transform_file(Erasure(eraser, "e_*", False), tmp_path / name, out) == N
    again = pd.read_csv(out, sep=sep)
    np.testing.assert_allclose(again[["e_0", "e_1", "e_2"]], eraser(X), atol=1e-12)
    assert again[["note", "gender"]].equals(frame[["note", "gender"]])
