"""unspot transform: one file to one file, many to a folder, and sentences when it cannot."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import Eraser, load
from unspot.cli.transform import _to_folder

D, R = 6, 3


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(D, R)))[0]
    Eraser.projection(U, method="test", features=["emb"]).save(path)
    return path


def test_one_file(cli, eraser, table, rows, tmp_path):
    out = tmp_path / "clean.parquet"
    done = cli("transform", eraser, table, "-o", out)
    assert done.code == 0, done.err
    assert done.out.startswith("Erased 400 rows (")
    assert done.out.endswith(f"into {out}.\n")
    found = pq.read_table(out)
    values = np.array(found["emb"].to_pylist(), np.float32)
    np.testing.assert_allclose(values, load(eraser)(rows[0]), rtol=1e-5, atol=1e-6)
    assert found["gender"].to_pylist() == rows[1].tolist()
    assert found.schema == pq.read_table(table).schema


def test_reduce_and_quiet(cli, eraser, rows, tmp_path):
    np.save(tmp_path / "x.npy", rows[0])
    done = cli("transform", eraser, tmp_path / "x.npy", "-o", tmp_path / "c.npy", "--reduce", "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    np.testing.assert_allclose(
        np.load(tmp_path / "c.npy"), load(eraser).reduce(rows[0]), rtol=1e-5, atol=1e-6
    )


def test_many_files_then_again_then_damaged(cli, eraser, table, rows, tmp_path):
    np.save(tmp_path / "x.npy", rows[0])
    out = tmp_path / "clean"
    command = ["transform", eraser, table, tmp_path / "x.npy", "-o", out, "--workers", "2"]
    first = cli(*command)
    assert first.code == 0, first.err
    assert "Erased 800 rows" in first.out
    assert "in 2 files into" in first.out
    again = cli(*command)
    assert "Kept 2 files that an earlier run had finished." in again.out
    assert "Erased" not in again.out
    table.write_bytes(b"PAR1 nothing")
    broken = cli(*command)
    assert broken.code == 2
    assert "data.parquet', which cannot be read as Parquet" in broken.err
    skipped = cli(*command, "--skip-bad")
    assert skipped.code == 0
    assert f"Warning: Skipped {table}." in skipped.err


@pytest.fixture
def parts(tmp_path, rows):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i in range(3):
        np.save(folder / f"{i}.npy", rows[0])
    return folder


def test_a_damaged_header_is_skipped(cli, eraser, parts, tmp_path):
    """numpy reads headers as Python: without its end, this one is no Python."""
    damaged = parts / "1.npy"
    damaged.write_bytes(damaged.read_bytes().replace(b"}", b" ", 1))
    command = ["transform", eraser, parts, "-o", tmp_path / "clean"]
    stopped = cli(*command)
    assert stopped.code == 2
    assert "1.npy', which cannot be read as a numpy file" in stopped.err
    skipped = cli(*command, "--skip-bad")
    assert skipped.code == 0, skipped.err
    assert "Skipped" in skipped.err
    assert "1.npy" in skipped.err
    assert sorted(path.name for path in (tmp_path / "clean").glob("*.npy")) == ["0.npy", "2.npy"]


@pytest.mark.parametrize("many", [True, False])
def test_an_interrupt_says_what_is_kept(cli, eraser, parts, tmp_path, monkeypatch, many):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    name = "transform_files" if many else "transform_file"
    monkeypatch.setattr(f"unspot.scale.{name}", interrupted)
    source, target = (parts, "clean") if many else (parts / "1.npy", "clean.npy")
    done = cli("transform", eraser, source, "-o", tmp_path / target)
    assert done.code == 130
    expected = "What is finished is kept" if many else "Nothing was written to"
    assert done.err.startswith(f"Stopped. {expected}")


@pytest.mark.parametrize(
    ("inputs", "output", "folder"),
    [
        (["a.npy"], "b.npy", False),
        (["a.npy"], "b/", True),
        (["a.npy"], "there", True),
        (["a.npy", "b.npy"], "c.npy", True),
        (["there"], "b", True),
    ],
)
def test_when_the_output_is_a_folder(tmp_path, monkeypatch, inputs, output, folder):
    monkeypatch.chdir(tmp_path)
    os.mkdir("there")
    from pathlib import Path

    assert _to_folder([Path(name) for name in inputs], output) is folder


def test_an_output_that_exists(cli, eraser, table, tmp_path):
    (tmp_path / "c.parquet").write_bytes(b"precious")
    done = cli("transform", eraser, table, "-o", tmp_path / "c.parquet")
    assert done.code == 2
    assert "exists already" in done.err
    assert "--force" in done.err
    assert (tmp_path / "c.parquet").read_bytes() == b"precious"
    assert cli("transform", eraser, table, "-o", tmp_path / "c.parquet", "--force").code == 0
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("precious")
    done = cli("transform", eraser, table, "-o", full)
    assert done.code == 2
    assert "full" in done.err
    assert "unspot transform" in done.err


def test_an_eraser_that_is_none(cli, table, tmp_path):
    foreign = tmp_path / "f.safetensors"
    done = cli("transform", foreign, table, "-o", tmp_path / "c.parquet")
    assert "there is no such file" in done.err
    foreign.write_bytes(b"no safetensors at all")
    done = cli("transform", foreign, table, "-o", tmp_path / "c.parquet")
    assert "which is not a readable safetensors file" in done.err
    from safetensors.numpy import save_file

    save_file({"weight": np.zeros(3)}, foreign)
    done = cli("transform", foreign, table, "-o", tmp_path / "c.parquet")
    assert done.code == 2
    assert "a safetensors file that unspot did not write" in done.err


@pytest.mark.parametrize(
    ("write", "arguments", "message"),
    [
        (lambda p: np.save(p / "x.npy", np.zeros((3, 4))), ["x.npy"], "Got vectors of length 4 in"),
        (lambda p: np.save(p / "x.npy", np.array([["a"] * 6])), ["x.npy"], "but expected numbers"),
        (
            lambda p: np.save(p / "x.npy", np.full((3, 6), np.nan)),
            ["x.npy"],
            "Got 18 values of NaN",
        ),
        (lambda p: None, ["x.npy"], "but there is no such file or folder"),
        (lambda p: (p / "x.txt").write_text(""), ["x.txt"], "but expected a file of format .npy"),
        (
            lambda p: pq.write_table(pa.table({"embb": [[0.0] * 6]}), p / "x.parquet"),
            ["x.parquet", "-f", "emb"],
            "Did you mean 'embb'?",
        ),
        (lambda p: (p / "x").mkdir(), ["x"], "there is no file of format .npy, .npz"),
        (
            lambda p: np.save(p / "x.npy", np.zeros((3, 6))),
            ["x.npy", "--workers", "0"],
            "workers=0",
        ),
    ],
)
def test_errors_are_sentences(cli, eraser, tmp_path, monkeypatch, write, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    out = f"out{os.path.splitext(arguments[0])[1]}" if "--workers" not in arguments else "out/"
    done = cli("transform", eraser, *arguments, "-o", out)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not os.path.isfile(out)


def test_a_pattern_that_catches_the_label_too(cli, tmp_path):
    rng = np.random.default_rng(0)
    table = {f"s{i}": rng.normal(size=200) for i in range(3)} | {"sex": np.arange(200) % 2}
    pd.DataFrame(table).to_csv(tmp_path / "rows.csv", index=False)
    line = ("-f", "s*", "-o")
    fit = ("fit", tmp_path / "rows.csv", "-c", "sex", "-m", "leace")
    assert cli(*fit, *line, tmp_path / "e.safetensors").code == 0
    done = cli(
        "transform", tmp_path / "e.safetensors", tmp_path / "rows.csv", *line, tmp_path / "o.csv"
    )
    assert done.code == 0, done.err
    after = pd.read_csv(tmp_path / "o.csv")
    assert (after["sex"] == table["sex"]).all()
    assert not np.allclose(after["s0"], table["s0"])
