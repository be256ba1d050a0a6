"""Files of texts in, files of vectors out."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from unspot.io import read_table
from unspot.models.texts import (
    TextTable,
    check_column,
    check_output,
    read_texts,
    write_embeddings,
)

pa = pytest.importorskip("pyarrow", reason='pyarrow is not installed: pip install "unspot[io]"')
parquet = pytest.importorskip("pyarrow.parquet")

TEXTS = ["She is a nurse.", 'He said: "no,\nnever".', "1984", "RTL: שלום 🐆"]
JOBS = ["nurse", "poet", "author", "dj"]
AGES = [30, 41, 52, 63]


def csv(folder):
    import csv as standard

    with (folder / "bios.csv").open("w", newline="", encoding="utf-8") as file:
        writer = standard.writer(file)
        writer.writerow(["bio", "job", "age"])
        writer.writerows(zip(TEXTS, JOBS, AGES, strict=True))
    return folder / "bios.csv"


def tsv(folder):
    rows = [f"{t}\t{j}\t{a}" for t, j, a in zip(["a", "b", "1", "d"], JOBS, AGES, strict=True)]
    (folder / "bios.tsv").write_text("\n".join(["bio\tjob\tage", *rows]) + "\n")
    return folder / "bios.tsv"


def parquet_file(folder):
    parquet.write_table(pa.table({"bio": TEXTS, "job": JOBS, "age": AGES}), folder / "bios.parquet")
    return folder / "bios.parquet"


def pickled(folder):
    records = [{"bio": t, "job": j, "age": a} for t, j, a in zip(TEXTS, JOBS, AGES, strict=True)]
    (folder / "bios.pickle").write_bytes(pickle.dumps(records))
    return folder / "bios.pickle"


@pytest.mark.parametrize("make", [csv, parquet_file, pickled])
def test_texts_and_the_other_columns_are_read(tmp_path, make):
    table = read_texts(make(tmp_path), "bio")
    assert table.texts == TEXTS
    assert table.arrow().column_names == ["bio", "job", "age"]
    assert table.arrow()["age"].to_pylist() == AGES


def test_tabs_separate_columns_of_a_tsv_file(tmp_path):
    table = read_texts(tsv(tmp_path), "bio")
    assert table.texts == ["a", "b", "1", "d"]
    assert table.arrow()["job"].to_pylist() == JOBS


def test_numbers_in_a_csv_column_of_texts_stay_text(tmp_path):
    path = tmp_path / "years.csv"
    path.write_text("year\n1984\n2001\n")
    assert read_texts(path, "year").texts == ["1984", "2001"]


def test_line_breaks_inside_texts_survive_in_large_files(tmp_path):
    # Larger than the blocks in which Arrow reads, so that some break falls on a block's end.
    text = "first line\nsecond line\n" * 20
    path = tmp_path / "long.csv"
    path.write_text("id,bio\n" + "".join(f'{i},"{text}"\n' for i in range(6_000)))
    assert path.stat().st_size > 2_000_000
    assert read_texts(path, "bio").texts == [text] * 6_000


def test_a_text_file_has_one_text_a_line(tmp_path):
    path = tmp_path / "bios.txt"
    path.write_bytes("She is.\r\nHe\u2028was.\n🐆\n".encode())
    table = read_texts(path)
    assert table.texts == ["She is.", "He\u2028was.", "🐆"]
    assert table.arrow().column_names == ["text"]


def test_the_only_column_need_not_be_named(tmp_path):
    parquet.write_table(pa.table({"bio": TEXTS}), tmp_path / "a.parquet")
    assert read_texts(tmp_path / "a.parquet").texts == TEXTS


def test_missing_texts_are_left_for_the_embedding_to_refuse(tmp_path):
    parquet.write_table(pa.table({"bio": ["a", None]}), tmp_path / "a.parquet")
    assert read_texts(tmp_path / "a.parquet").texts == ["a", None]


@pytest.mark.parametrize("make", [csv, parquet_file, pickled])
def test_an_unknown_or_unnamed_column_is_an_error_with_the_names(tmp_path, make):
    path = make(tmp_path)
    with pytest.raises(ValueError, match=r"Got column 'boi', .*Did you mean 'bio'"):
        read_texts(path, "boi")
    with pytest.raises(ValueError, match=r"columns bio, job, age.*texts.*--text"):
        read_texts(path)


def test_a_column_of_a_text_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(ValueError, match=r"--text bio.* no columns.*Leave --text out"):
        read_texts(tmp_path / "a.txt", "bio")


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_texts(tmp_path / "none.csv")
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(ValueError, match=r"expected a file of format .csv, .tsv, .parquet"):
        read_texts(tmp_path / "a.docx")
    (tmp_path / "a.parquet").write_text("x")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_texts(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        read_texts(tmp_path / "a.csv", "bio")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_texts(tmp_path / "a.txt")


# -- writing -------------------------------------------------------------------------------------


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)


@pytest.mark.parametrize("make", [csv, parquet_file, pickled])
def test_parquet_keeps_the_other_columns_and_read_table_reads_it(tmp_path, make, X):
    out = tmp_path / "out.parquet"
    write_embeddings(out, X, read_texts(make(tmp_path), "bio"), column="embedding")
    written = parquet.read_table(out)
    assert written.column_names == ["bio", "job", "age", "embedding"]
    assert written["bio"].to_pylist() == TEXTS
    table = read_table(out, concept="job")
    np.testing.assert_array_equal(table.X, X)
    assert table.X.dtype == np.float32
    assert table.z.tolist() == JOBS


def test_npy_is_the_array(tmp_path, X):
    write_embeddings(tmp_path / "out.npy", X, TextTable(TEXTS), column="embedding")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy", allow_pickle=False), X)


@pytest.mark.parametrize("name", ["out.npy", "out.parquet"])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, name, X):
    out = tmp_path / name
    write_embeddings(out, X, TextTable(TEXTS), column="embedding")
    before = out.read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_embeddings(out, X + 1, TextTable(TEXTS), column="embedding")
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_other_endings_and_taken_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected a name that ends in .npy or .parquet"):
        check_output(tmp_path / "out.csv")
    path = parquet_file(tmp_path)
    with pytest.raises(ValueError, match=r"Got a column 'job' in .* already.*--column"):
        check_column(read_texts(path, "bio"), "job", path)


def test_dicts_that_make_no_table_are_refused(tmp_path):
    path = tmp_path / "a.pickle"
    path.write_bytes(pickle.dumps([{"bio": "a", "x": 1}, {"bio": "b", "x": "text"}]))
    table = read_texts(path, "bio")
    assert table.texts == ["a", "b"]
    with pytest.raises(ValueError, match=r"make no table .*-o NAME.npy"):
        table.arrow()


def test_a_mark_at_the_beginning_is_no_part_of_the_first_text(tmp_path):
    (tmp_path / "texts.txt").write_text("one\ntwo\n", encoding="utf-8-sig")
    assert read_texts(tmp_path / "texts.txt").texts == ["one", "two"]
