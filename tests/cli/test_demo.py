"""``unspot demo`` on some of its words: what it shows and writes."""

import json
import re
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import unspot.datasets
from unspot import Dataset, load
from unspot.cli.demo import FILES, NEXT, WORDS, nearest_names

WIDTH = 80


@pytest.fixture
def few_words(monkeypatch):
    """The bundled data, cut to some hundred words a split, so that the demo takes seconds."""
    data = unspot.datasets.load_glove_gender()

    def some(split, n):
        wanted = np.isin(split.names, ["engineer", "professor", "midwife"])
        spread = np.linspace(0, len(split) - 1, n).astype(int)  # frequent words lean male
        return split.take(np.union1d(spread, np.flatnonzero(wanted)))

    small = replace(
        data,
        train=some(data.train, 400),
        validation=some(data.validation, 300),
        test=some(data.test, 400),
    )
    monkeypatch.setattr(unspot.datasets, "load_glove_gender", lambda: small)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    return small


@pytest.mark.slow
def test_tells_the_whole_story(cli, tmp_path, few_words, monkeypatch, cheap):
    monkeypatch.chdir(tmp_path)
    few = ("logistic", "quadratic", "rbf", "waves")
    monkeypatch.setattr(import_module("unspot.choice.erase"), "ATTACKERS", few)
    monkeypatch.setattr("unspot.choice.candidates.WIDTHS", ())
    monkeypatch.setattr("unspot.choice.candidates.SHARES", (0.4,))
    folder = tmp_path / "unspot-demo"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "report.html").write_text("of an earlier demo")
    ran = cli("demo")
    assert ran.code == 0, ran.err
    assert {f.name for f in folder.iterdir()} == {*FILES, "mine.txt"}
    assert (folder / "mine.txt").read_text() == "mine"
    page = re.sub("<[^>]*>", "", (folder / "report.html").read_text(encoding="utf-8"))
    certificate = json.loads((folder / "certificate.json").read_text())
    first, *_ = certificate["statement"].split("\n")
    assert first.startswith("Gender: attackers are right on")
    assert first in ran.out
    assert " ".join(first.split()) in " ".join(page.split())
    assert "of an earlier demo" not in page
    assert "Erasure against utility" in page
    assert all(line in ran.out for line in NEXT)
    eraser = load(folder / "eraser.safetensors")
    assert eraser.metadata["concept_name"] == "gender"
    assert eraser(few_words.test.X).shape == few_words.test.X.shape


def test_the_words_that_it_shows_are_there():
    data = unspot.datasets.load_glove_gender()
    names = {str(word) for split in data for word in split.names}
    assert len(names & {*WORDS}) >= 3


def test_refuses_a_file_as_folder(cli, tmp_path):
    file = tmp_path / "out"
    file.write_text("mine")
    ran = cli("demo", "-o", file)
    assert ran.code == 2
    assert f"nothing can be written to {str(file)!r}" in ran.err
    assert file.read_text() == "mine"


def test_the_commands_it_ends_with_are_commands():
    from unspot.cli import COMMANDS

    named = {line.split()[1] for line in NEXT if line.strip().startswith("unspot ")}
    assert named - {"--help"} <= set(COMMANDS)


# -- The parts, on data small enough to check by hand ---------------------------------------------


class Identity:
    def transform(self, X):
        return X


class Drop:
    """Sets the first coordinate to zero."""

    def transform(self, X):
        return X * [0.0, 1.0, 1.0]


@pytest.fixture
def words():
    """A man, a woman, a doctor and a nurse: gender is the first coordinate, medicine the third."""
    X = np.array([[5.0, 1, 0], [-5, 1, 0], [4, 0, 2], [-4, 0, 2]] * 5)
    names = np.array(["man", "woman", "doctor", "nurse"] + [f"w{i}" for i in range(16)])
    X[4:] = np.random.default_rng(0).normal(size=(16, 3)) * 1e-3 + [0, -1, 0]
    z = np.arange(20) % 2
    return Dataset.from_arrays(X, z, names=names, random_state=0)


def test_neighbours_before_and_after(words):
    assert nearest_names(Drop(), words, ["doctor", "absent"], k=1) == [
        ("doctor", ["man"], ["nurse"])
    ]


def test_a_word_is_not_its_own_neighbour(words):
    for word, before, after in nearest_names(Identity(), words, ["man", "nurse"], k=5):
        assert word not in before
        assert len(before) == 5
        assert before == after
