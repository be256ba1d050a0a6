"""No command writes over a file that it reads, not even with --force."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from unspot import Eraser

REFUSED = "which this command reads"


@pytest.fixture
def folder(tmp_path, rows, table):
    """A file of every kind that commands read; ``parts`` is a folder of Parquet files."""
    X, z = rows
    np.savez(tmp_path / "data.npz", X=X, z=z)
    np.save(tmp_path / "data.npy", X)
    (tmp_path / "labels.txt").write_text("\n".join(z) + "\n")
    (tmp_path / "texts.parquet").write_bytes(table.read_bytes())
    (tmp_path / "parts").mkdir()
    pq.write_table(pq.read_table(table), tmp_path / "parts" / "one.parquet")
    Eraser.projection(np.eye(6)[:, 2:], method="dropped").save(tmp_path / "e.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        "certify e.safetensors data.npz -c z --json data.npz",
        "certify e.safetensors data.npz -c z --html e.safetensors",
        "certify e.safetensors data.npy --labels labels.txt --json labels.txt",
        "evaluate e.safetensors data.npz -c z --labels texts.parquet --json texts.parquet",
        "certify e.safetensors parts -c gender --json parts/one.parquet",
        "evaluate e.safetensors data.npz -c z --json data.npz",
        "evaluate e.safetensors data.npy --labels labels.txt --html labels.txt",
        "evaluate e.safetensors data.npz -c z --labels texts.parquet --html texts.parquet",
        "fit data.npz -c z -m leace -o data.npz --force",
        "fit data.npy --labels labels.txt -m leace -o labels.txt --force",
        "path data.npz -c z -m pca -r 3,2 -o data.npz --force",
        "path data.npy --labels labels.txt -m pca -r 3,2 -o labels.txt --force",
    ],
)
def test_an_input_is_no_output(cli, folder, monkeypatch, line):
    monkeypatch.chdir(folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    done = cli(*line.split())
    assert done.code == 2, done.out
    assert REFUSED in done.err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_an_input_by_another_name_is_no_output(cli, folder, link):
    link(folder / "data.npz", folder / "same.json")
    done = cli("certify", folder / "e.safetensors", folder / "data.npz", "-c", "z", "--json",
               folder / "same.json")  # fmt: skip
    assert done.code == 2
    assert REFUSED in done.err


def test_other_files_are_replaced(cli, folder):
    other = folder / "other.json"
    shutil.copy(folder / "data.npz", other)
    arguments = (folder / "e.safetensors", folder / "data.npz", "-c", "z", "-m", "variance")
    done = cli("evaluate", *arguments, "--json", other, "-q")
    assert done.code == 0, done.err
    assert other.read_text().startswith("{")
