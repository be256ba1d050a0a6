"""unspot monitor: one verdict night after night, an exit code for scripts."""

import json
import subprocess
import sys

import numpy as np
import pytest

from unspot import Eraser

QUICK = ("--attackers", "logistic", "--concept", "gender")


@pytest.fixture
def files(tmp_path):
    """An eraser that keeps the mean, one that drops it, rows to learn from, and batches."""
    keeps, drops = tmp_path / "keeps.safetensors", tmp_path / "drops.safetensors"
    Eraser.projection(np.eye(4)[:, :2], method="mine").save(keeps)
    Eraser.projection(np.eye(4)[:, 2:], method="mine").save(drops)

    def rows(name, n, seed):
        rng = np.random.default_rng(seed)
        z = rng.choice(["f", "m"], n)
        X = rng.normal(size=(n, 4))
        X[z == "m", 0] += 1.5
        np.savez(tmp_path / name, X=X, gender=z)
        return tmp_path / name

    known = rows("known.npz", 300, 0)
    return keeps, drops, known, [rows(f"night{i}.npz", 200, i) for i in (1, 2, 3)]


def test_a_leak_in_a_process_of_its_own(files, tmp_path):
    keeps, _, known, nights = files
    line = [sys.executable, "-m", "unspot", "monitor", keeps, *nights[:2], *QUICK]
    line += ["--attack-rows", known, "--state", tmp_path / "state.jsonl"]
    done = subprocess.run(list(map(str, line)), capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("Monitor: LEAKS\nThe concept leaks: after 400 rows in 2 batches")


def test_verdicts_and_their_exit_codes_over_nights(cli, files, tmp_path):
    _, drops, known, (first, second, third) = files
    state = ("--state", tmp_path / "state.jsonl", "--margin", "0.1")
    done = cli("monitor", drops, first, *QUICK, "--attack-rows", known, *state)
    assert done.code == 4, done.err
    assert done.out.startswith("Monitor: INCONCLUSIVE")
    again = cli("monitor", drops, first, *QUICK, "--attack-rows", known, *state)
    assert again.code == 2
    assert "night1.npz" in again.err
    assert "counted in batch 1" in again.err
    learn = ("--attack-rows", known, "--attack-rows", first)
    done = cli("monitor", drops, second, *QUICK, *learn, *state, "--json", "-")
    assert json.loads(done.out)["n_rows"] == 400
    large = ("--margin", "0.3", "--state", tmp_path / "other.jsonl")
    done = cli("monitor", drops, second, third, *QUICK, *learn, *large, "-q")
    assert (done.code, done.out) == (0, "")


def test_a_state_is_not_one_of_the_inputs(cli, files):
    _, drops, known, (first, *_) = files
    done = cli("monitor", drops, first, *QUICK, "--attack-rows", known, "--state", first)
    assert done.code == 2
    assert "would be lost" in done.err
