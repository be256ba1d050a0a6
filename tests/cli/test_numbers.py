"""Numbers, several concepts and what is given, on the command line."""

import json
import re
from html import unescape

import numpy as np
import pytest

FAST = ("--budget", "quick", "--set", "attackers=quadratic")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two files of people: vectors that show an age, and a job that follows from it."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    for name in ("train", "test"):
        X = rng.normal(size=(400, 4))
        age = np.round(40 + 8 * X[:, 0] + 4 * rng.normal(size=400))
        columns = {
            "X": X.astype(np.float32),
            "age": age.astype(int),
            "score": age / 3 + 0.1,
            "gender": rng.choice(["f", "m"], size=400),
            "job": np.where(age > 40, "judge", "clerk"),
        }
        np.savez(folder / f"{name}.npz", **columns)
    return folder


@pytest.fixture(scope="module")
def eraser(people):
    from unspot import LEACE, Eraser

    with np.load(people / "train.npz") as rows:
        found = LEACE().fit(rows["X"], rows["score"]).eraser_
    named = {**found.metadata, "features": ["X"], "concept_name": "score"}
    Eraser(found.maps, named).save(people / "e.safetensors")
    return people / "e.safetensors"


def test_a_number_is_certified_checked_and_shown(cli, people, eraser, tmp_path):
    record, page = tmp_path / "c.json", tmp_path / "page.html"
    done = cli("certify", eraser, people / "test.npz", *FAST, "--json", record, "--html", page)
    assert done.has_verdict, done.err
    assert "Score: attackers explain" in done.out
    content = json.loads(record.read_text())
    assert content["kind"] == "continuous"
    text = unescape(re.sub("<[^>]*>", "", page.read_text(encoding="utf-8")))
    assert " ".join(content["statement"].split("\n")[1].split()) in " ".join(text.split())
    done = cli("certify", eraser, people / "test.npz", *FAST, "--check", record)
    assert done.has_verdict, done.err
    assert "The same eraser, rows and numbers" in done.err


def test_whole_numbers_need_to_be_told(cli, people, eraser):
    rows = people / "test.npz"
    done = cli("certify", eraser, rows, "-c", "age", "--kind", "age=continuous", *FAST)
    assert done.has_verdict, done.err
    assert "Age: attackers explain" in done.out
    for concept in ("age", "age,gender"):
        for command in (("certify", eraser, rows), ("fit", rows, "-o", people / "no")):
            done = cli(*command, "-c", concept)
            assert done.code == 2
            assert "--kind age=continuous" in done.err
    done = cli("path", rows, "-c", "gender", "--task", "age")
    assert "--kind age=continuous" in done.err
    done = cli("certify", eraser, rows, "-c", "gender", "--kind", "age=continuous", *FAST)
    assert done.code == 2
    assert "--kind age=continuous" in done.err


def test_several_concepts_have_a_line_each(cli, people, eraser, tmp_path):
    page, rows = tmp_path / "page.html", people / "test.npz"
    done = cli("certify", eraser, rows, "-c", "gender,score", *FAST, "--html", page)
    assert done.has_verdict, done.err
    assert all(name in done.out for name in ("gender × score", "points", "% of the variance"))
    assert "gender × score" in page.read_text()
    done = cli("evaluate", eraser, rows, "-c", "gender,score", "-m", "linear,variance")
    assert done.code == 0, done.err
    assert "Linear probe R², score" in done.out
    for concepts in ("gender,gender", "gender,"):
        done = cli("certify", eraser, rows, "-c", concepts)
        assert done.code == 2
        assert "between the commas" in done.err
    done = cli("certify", eraser, rows, "-c", "gender,scroe")
    assert done.code == 2
    assert "'scroe'" in done.err


def test_what_is_given_is_named(cli, people, eraser):
    rows = people / "test.npz"
    done = cli("certify", eraser, rows, "-c", "score", "--given", "job", *FAST)
    assert done.has_verdict, done.err
    assert "attackers who know job explain" in done.out
    done = cli("certify", eraser, rows, "-c", "score", "--given", "job,gender", *FAST)
    assert "(job, gender alone: " in done.out, done.err


@pytest.mark.parametrize("concept", ["score", "gender,score"])
def test_a_path(cli, people, tmp_path, concept, cheap):
    out = tmp_path / "e.safetensors"
    done = cli("path", people / "train.npz", "-f", "X", "-c", concept, "--method", "leopard",
               "--ranks", "3,1", "--set", "metrics=none", "--set", "attackers=standard",
               "--max-advantage", "0.6", "-o", out)  # fmt: skip
    assert done.code in (0, 3), done.err
    assert "score" in done.out.lower()
    done = cli("certify", out, people / "test.npz", *FAST)  # the concepts and kinds of the fit
    assert done.has_verdict, done.err
    assert "of the variance" in done.out
