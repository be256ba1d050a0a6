"""--groups: rows of one user stay together, and count as what they are."""

import json
import re

import numpy as np
import pytest

from unspot import Eraser

QUICK = ("--set", "attackers=logistic", "--budget", "quick")


@pytest.fixture
def users(tmp_path):
    """60 users of ten rows, each with one label, which has nothing to do with the rows."""
    rng = np.random.default_rng(2)
    user = np.repeat([f"user {i}" for i in range(60)], 10)
    z = np.repeat(rng.permutation(np.repeat(["f", "m"], 30)), 10)
    X = np.repeat(rng.normal(size=(60, 8)), 10, axis=0) + 0.3 * rng.normal(size=(600, 8))
    path = tmp_path / "users.npz"
    np.savez(path, X=X, gender=z, user=user)
    return path


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "eraser.safetensors"
    Eraser.projection(np.eye(8)[:, 1:], method="dropped").save(path)
    return path


def test_a_certificate_by_group(cli, eraser, users):
    certify = ("certify", eraser, users, "-c", "gender", "--margin", "0.02", *QUICK)
    done = cli(*certify, "--groups", "user", "--json", "-")
    assert done.code == 4, done.err  # sixty groups cannot show that nothing leaks
    found = json.loads(done.out)
    assert (found["verdict"], found["n_groups"]) == ("INCONCLUSIVE", 60)
    assert "Warning" not in done.err
    done = cli(*certify)
    assert done.code in (3, 4)
    assert "600 rows (95" not in done.out
    assert "groups" not in done.out.splitlines()[1]
    assert "Warning: Got rows that look grouped" in done.err
    assert "--groups" in done.err
    assert cli(*certify, "--quiet").err == ""


def test_an_evaluation_by_group(cli, eraser, users):
    names = ("-c", "gender", "--groups", "user", "-m", "two_sample")
    done = cli("evaluate", eraser, users, *names, "--json", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["rows"][0]["after"]["mean"] > 0.05


def test_a_path_by_group(cli, users):
    names = ("-c", "gender", "--groups", "user", "--method", "pca", "--ranks", "6,3")
    done = cli("path", users, *names, "--set", "metrics=none")
    assert done.code == 0, done.err
    assert re.findall(r"^\| *(\d+) \|", done.out, re.M) == ["6", "3"]
    done = cli("path", users, "-c", "gender", "--groups", "gender", "--set", "metrics=none")
    assert done.code == 2
    assert "1 group with rows of class f" in done.err


def test_groups_that_are_not_there_or_no_groups(cli, eraser, users):
    done = cli("certify", eraser, users, "-c", "gender", "--groups", "usr", *QUICK)
    assert done.code == 2
    assert "usr" in done.err
    assert "user" in done.err
    done = cli("certify", eraser, users, "-c", "gender", "--groups", "gender", *QUICK)
    assert done.code == 2
    assert "0 rows of class f in each half" in done.err
