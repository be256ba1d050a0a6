"""What cannot work is said before the work, at once; what fails at the end loses nothing."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unspot import Eraser, load
from unspot.io import files

CHEAP = ("--metrics", "chance,linear", "--seeds", "1")


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:]).save(path)
    return path


# -- Before the work -------------------------------------------------------------------------------


def asked(table, eraser, place):
    """Commands that write to a place, each with its option."""
    names = ("-f", "emb", "-c", "gender")
    return {
        "--output": [("fit", table, *names, "-o", place), ("path", table, *names, "-o", place)],
        "--html": [
            ("evaluate", eraser, table, *names, "--html", place),
            ("certify", eraser, table, *names, "--html", place),
            ("path", table, *names, "--html", place),
        ],
        "--json": [("plan", table, *names, "--json", place)],
    }


@pytest.mark.parametrize("option", ["--output", "--html", "--json"])
def test_a_place_that_cannot_be_written_is_refused_first(cli, table, eraser, option, monkeypatch):
    monkeypatch.setattr("unspot.io.sources.read_with", None)  # nothing is read
    monkeypatch.setattr("unspot.io.tables.read_with", None)
    before = {path.name for path in table.parent.iterdir()}
    for line in asked(table, eraser, eraser / "no folder" / "out.file")[option]:
        done = cli(*line)
        assert done.code == 2
        assert f"{option} " in done.err
        assert "nothing can be written there" in done.err
    for line in asked(table, eraser, table.parent)[option]:
        assert "folder" in cli(*line).err
    assert {path.name for path in table.parent.iterdir()} == before


def test_a_missing_file_is_said_within_half_a_second_and_without_numpy(tmp_path):
    """CPU seconds of a whole process; the best of some, since others use the machine too."""
    line = ["fit", "nosuch.parquet", "-c", "gender", "-o", "out.safetensors"]
    code = (
        "import sys; from unspot.cli import main\n"
        f"try: main({line!r})\n"
        "except SystemExit as end: sys.exit(10 * ('numpy' in sys.modules) + end.code)"
    )
    seconds = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 2, done.stderr
        assert b"no such file" in done.stderr
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if seconds[-1] < 0.5:
            break
    assert min(seconds) < 0.5


#: Of every command that reads files: one that is not there.
NOT_THERE = """
    plan nosuch.parquet -c gender
    fit nosuch.parquet -c gender -o x.safetensors
    fit data.parquet -f emb -c gender -o e.safetensors
    transform e.safetensors nosuch.parquet -o x.parquet
    evaluate nosuch.safetensors data.parquet
    certify e.safetensors nosuch.parquet
    path nosuch.parquet -c gender
    report a=nosuch.json -o x.html
    inspect nosuch.safetensors
    export nosuch.safetensors --to onnx
"""

#: And a column that is not there.
NO_COLUMN = """
    plan data.parquet -f emb -c gendre
    fit data.parquet -f emb -c gendre -o x.safetensors
    transform e.safetensors data.parquet -f embb -o x.parquet
    evaluate e.safetensors data.parquet -f emb -c gendre
    certify e.safetensors data.parquet -f emb -c gendre
    path data.parquet -f emb -c gendre
"""


def loaded_by(lines, folder):
    """Which packages a process has loaded that ran all these lines into an error."""
    code = (
        "import sys; from unspot.cli import main\n"
        f"for line in {[line.split() for line in lines.strip().splitlines()]!r}:\n"
        "    try: main(line)\n"
        "    except SystemExit as end: assert end.code == 2, line\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_little_is_loaded_to_say_what_is_wrong(eraser, table):
    assert not loaded_by(NOT_THERE, table.parent) & {"numpy", "pyarrow", "torch", "sklearn"}
    heavy = {"torch", "sklearn", "scipy", "pandas", "joblib", "matplotlib"}
    assert not loaded_by(NO_COLUMN, table.parent) & heavy


# -- After the work --------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path, monkeypatch):
    """A folder whose disk has no room when the work is done, and another one to work in."""
    folder, here = tmp_path / "full", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    replace = os.replace

    def no_room(source, target):
        if str(target).startswith(str(folder)):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", no_room)
    monkeypatch.chdir(here)
    return folder, here


def test_an_evaluation_is_printed_and_kept(cli, table, eraser, full):
    folder, here = full
    names = (eraser, table, "-f", "emb", "-c", "gender", *CHEAP)
    done = cli("evaluate", *names, "--json", folder / "out.json")
    assert done.code == 2
    assert "Linear" in done.out  # the table
    assert "No space left" in done.err
    assert str(here / "out.json") in done.err
    assert json.loads((here / "out.json").read_text())["rows"]
    assert not list(folder.iterdir())
    again = cli("evaluate", *names, "--json", folder / "out.json")  # out.json is here already
    assert again.code == 2
    kept = again.err.split("kept in ")[1].strip().rstrip(".")
    assert json.loads(Path(kept).read_text())["rows"]


def test_a_fit_is_kept(cli, table, full):
    folder, here = full
    out = folder / "g.safetensors"
    done = cli("fit", table, "-f", "emb", "-c", "gender", "-m", "leace", "-o", out)
    assert done.code == 2
    assert "Erased 'gender'" in done.out
    assert load(here / "g.safetensors").n_features == 6


def test_a_certificate_is_printed_and_kept(cli, table, eraser, full):
    folder, here = full
    done = cli("certify", eraser, table, "-f", "emb", "-c", "gender", "--attackers", "logistic",
               "--json", folder / "c.json")  # fmt: skip
    assert done.code == 2  # and not that of a verdict: something is not where it should be
    assert "Certificate:" in done.out
    assert (here / "c.json").exists()
