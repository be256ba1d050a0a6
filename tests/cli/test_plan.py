"""``unspot plan``: a file in, what its rows can reach and show out."""

from __future__ import annotations

import numpy as np


def test_on_the_command_line(cli, tmp_path):
    z = np.arange(600) % 2
    X = np.random.default_rng(0).normal(size=(600, 5)) + z[:, None]
    np.savez(tmp_path / "data.npz", X=X, z=z)
    done = cli("plan", tmp_path / "data.npz", "-c", "z", "--max-advantage", 0.1)
    assert done.code == 0, done.err
    assert "10 points cannot be decided with these 600 rows" in done.out
    assert "600 rows of 5 features" in done.out


def test_numbers_several_columns_and_groups(cli, tmp_path):
    rng = np.random.default_rng(0)
    columns = {"age": rng.normal(size=600), "sex": np.arange(600) % 2, "user": np.arange(600) // 4}
    np.savez(tmp_path / "data.npz", X=rng.normal(size=(600, 5)), **columns)
    line = ("plan", tmp_path / "data.npz", "-f", "X", "--max-advantage", 0.5, "-c")
    assert "50 % of the variance can be decided" in cli(*line, "age").out
    assert "50 points can be decided" in cli(*line, "sex,age").out
    assert "independent ones, by groups" in cli(*line, "sex", "--groups", "user").out
