"""``unspot compare``: erasers side by side on the same rows."""

import json

import numpy as np
import pytest

from unspot import LEACE, Eraser
from unspot.data.dataset import Dataset
from unspot.evaluation import certify
from unspot.evaluation.comparison import compare


def make_rows(seed, n=400):
    """The first direction tells the concept, the third the job."""
    rng = np.random.default_rng(seed)
    z = np.repeat(["f", "m"], n // 2)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[z == "m", 0] += 2
    return X, z, np.where(X[:, 2] > 0, "nurse", "judge")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three erasers (of the concept, of the job, of nothing) and rows."""
    folder = tmp_path_factory.mktemp("compare")
    X, gender, job = make_rows(1)
    np.savez(folder / "rows.npz", X=X, gender=gender, job=job)
    for name, dropped in {"concept": [0], "job": [2], "nothing": []}.items():
        kept = np.delete(np.eye(6), dropped, axis=1)
        eraser = Eraser.projection(kept, method=name, concept_name="gender")
        eraser.save(folder / f"{name}.safetensors")
    return folder


def test_a_table_and_a_page(cli, files, tmp_path):
    page, numbers = tmp_path / "both.html", tmp_path / "both.json"
    erasers = [files / f"{name}.safetensors" for name in ("job", "concept")]
    done = cli(
        "compare", *erasers, files / "rows.npz", "-t", "job", "--html", page, "--json", numbers
    )
    assert done.code == 0, done.err
    assert done.out.startswith("2 erasers of gender compared on rows.npz")
    head = next(line for line in done.out.splitlines() if "before" in line)
    assert head.split() == ["before", "job", "concept"]
    assert "The strongest attacker recovers least after concept." in done.out
    attack, task = json.loads(numbers.read_text())["differences"]
    assert attack["interval"][1] < 0 < task["interval"][0]  # it erases more, and keeps the task
    html = page.read_text(encoding="utf-8")
    assert "2 erasers of gender compared" in html
    assert "After concept" in html
    assert "compared with job, between" in html


def test_names_that_the_user_gives(cli, files):
    path = files / "concept.safetensors"
    done = cli("compare", f"a={path}", f"b={path}", files / "rows.npz")
    assert done.code == 0, done.err
    assert "+0.0 points after b compared with a" in done.out
    assert "cannot tell them apart" in done.out


@pytest.mark.parametrize(
    ("given", "needles"),
    [
        (
            ["concept.safetensors", "rows.npz"],
            ["2 files", "two erasers or more", "unspot evaluate"],
        ),
        (["concept.safetensors"] * 2 + ["rows.npz"], ["two erasers", "concept", "NAME="]),
    ],
)
def test_errors_are_sentences(cli, files, given, needles):
    done = cli("compare", *(files / name for name in given))
    assert done.code == 2
    assert all(needle in done.err for needle in needles)


def test_rows_of_a_fit_are_refused(cli, files, tmp_path):
    X, gender, _ = make_rows(1)
    path = tmp_path / "fitted.safetensors"
    LEACE().fit(X, gender).eraser_.save(path)
    done = cli("compare", files / "nothing.safetensors", path, files / "rows.npz", "-c", "gender")
    assert done.code == 2
    assert "fitted was fitted on" in done.err
    assert "Keep some rows away" in done.err


# -- the measurement ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X, z, y = make_rows(2, n=1200)
    return Dataset.from_arrays(X, z, y, random_state=0, concept="gender")


def test_the_numbers_are_those_of_certify(data):
    erasers = {"nothing": None, "concept": Eraser.projection(np.eye(6)[:, 1:])}
    found = compare(erasers, data)
    for name, eraser in erasers.items():
        certificate = certify(eraser, data, budget="quick")
        assert (
            found.evaluations[name]["attack"].after.mean == certificate.strongest.balanced_accuracy
        )
    assert found.evaluations["concept"].metadata["concept"] == "gender"


def test_the_difference_of_the_task_is_that_of_the_table():
    """Also where labels of the task are not balanced, and attackers would count them alike."""
    X, z, _ = make_rows(4, n=1200)
    y = np.where(X[:, 2] + np.random.default_rng(0).normal(size=1200) > 1.5, "nurse", "judge")
    erasers = {"job": Eraser.projection(np.delete(np.eye(6), 2, axis=1)), "nothing": None}
    found = compare(erasers, Dataset.from_arrays(X, z, y, random_state=0))
    job, nothing = (found.evaluations[name]["task_linear"].after.mean for name in erasers)
    assert found.differences[1].value == pytest.approx(nothing - job)


def test_intervals_hold_the_difference_of_other_rows(data):
    """The first direction is told by everybody: its difference is known from many more rows."""
    erasers = {"nothing": None, "concept": Eraser.projection(np.eye(6)[:, 1:])}
    attack = compare(erasers, data).differences[0]
    X, z, _ = make_rows(3, n=40_000)
    expected = 0.5 - np.mean((X[:, 0] > 1) == (z == "m"))
    low, high = attack.interval
    assert low < expected < high
    assert high - low < 0.3


def test_one_eraser_is_refused(data):
    with pytest.raises(ValueError, match=r"Got 1 eraser.*two or more.*evaluate"):
        compare({"a": None}, data)
