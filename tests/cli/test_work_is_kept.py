"""What cannot work is said before the work; what cannot be written at the end is an error."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

from unspot import Eraser
from unspot.io import files


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:]).save(path)
    return path


def asked(table, eraser, place):
    """Commands that write to a place, each with its option."""
    names = ("-f", "emb", "-c", "gender")
    return {
        "--output": [("fit", table, *names, "-o", place), ("path", table, *names, "-o", place)],
        "--html": [
            ("evaluate", eraser, table, *names, "--html", place),
            ("certify", eraser, table, *names, "--html", place),
        ],
        "--json": [
            ("evaluate", eraser, table, *names, "--json", place),
            ("certify", eraser, table, *names, "--json", place),
        ],
    }


def test_transform_refuses_a_place_that_cannot_be_written(cli, table, eraser):
    done = cli("transform", eraser, table, "-o", eraser / "no folder" / table.name)
    assert done.code == 2
    assert "--output" in done.err
    assert "nothing can be written" in done.err


@pytest.mark.parametrize("option", ["--output", "--html", "--json"])
def test_a_place_that_cannot_be_written_is_refused_first(cli, table, eraser, option, monkeypatch):
    monkeypatch.setattr("unspot.io.tables._read", None)  # nothing is read
    for line in asked(table, eraser, eraser / "no folder" / "out")[option]:
        done = cli(*line)
        assert done.code == 2
        assert f"{option} " in done.err
        assert "nothing can be written" in done.err
    for line in asked(table, eraser, table.parent)[option]:
        assert "folder" in cli(*line).err


def test_a_full_disk_is_a_sentence_and_leaves_no_half_file(cli, table, tmp_path, monkeypatch):
    def no_room(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "replace", no_room)
    before = sorted(os.listdir(tmp_path))
    out = tmp_path / "g.safetensors"
    done = cli("fit", table, "-f", "emb", "-c", "gender", "-m", "leace", "-o", out)
    assert done.code == 2
    assert "No space left" in done.err
    assert sorted(os.listdir(tmp_path)) == before
