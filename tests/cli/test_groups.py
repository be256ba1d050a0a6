"""--groups: rows of one user stay together, and count as what they are."""

import json

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
    certify = ("certify", eraser, users, "-c", "gender", *QUICK)
    done = cli(*certify, "--groups", "user", "--json", "-")
    assert done.code == 4, done.err  # thirty groups cannot show that nothing leaks
    found = json.loads(done.out)
    assert (found["leaks"], found["metadata"]["n_test_groups"]) == (False, 30)
    assert "Warning" not in done.err
    done = cli(*certify)
    assert "Certificate: LEAKS" in done.out
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
    done = cli("path", users, *names, "--set", "metrics=none", "--json", "-")
    assert done.code == 0, done.err
    assert [point["rank"] for point in json.loads(done.out)["points"]] == [6, 3]
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
    assert "one group with rows of class f" in done.err or "no row of class" in done.err


def test_two_files_with_rows_of_one_user(cli, eraser, users, tmp_path):
    rows = dict(np.load(users))
    other = tmp_path / "other.npz"
    np.savez(other, **{name: values[::2] for name, values in rows.items()})
    np.savez(users, **{name: values[1::2] for name, values in rows.items()})
    done = cli(
        "certify", eraser, users, "--train", other, "-c", "gender", "--groups", "user", *QUICK
    )  # fmt: skip
    assert done.code == 2
    assert "rows of the group user" in done.err
