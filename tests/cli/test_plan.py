"""``unspot plan``: a file in, what its rows can reach and show out."""

from __future__ import annotations

import json

import numpy as np


def test_on_the_command_line(cli, tmp_path):
    z = np.arange(600) % 2
    X = np.random.default_rng(0).normal(size=(600, 5)) + z[:, None]
    np.savez(tmp_path / "data.npz", X=X, z=z)
    done = cli("plan", tmp_path / "data.npz", "-c", "z", "--max-advantage", 0.1)
    assert done.code == 0, done.err
    assert "600 rows of 5 features" in done.out
    done = cli("plan", tmp_path / "data.npz", "-c", "z", "--json", "-")
    assert json.loads(done.out)["n_features"] == 5
