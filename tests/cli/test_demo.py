"""``unspot demo`` on some of its words: what it shows and writes."""

from dataclasses import replace

import numpy as np
import pytest

import unspot.datasets
from unspot.cli.demo import FILES, NEXT, STORIES, _check

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
        train=some(data.train, 900),
        validation=some(data.validation, 500),
        test=some(data.test, 600),
    )
    monkeypatch.setattr(unspot.datasets, "load_glove_gender", lambda: small)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    return small


@pytest.mark.slow
def test_tells_the_whole_story(cli, tmp_path, few_words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "unspot-demo"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    (folder / "report.html").write_text("of an earlier demo")
    ran = cli("demo")
    assert ran.code == 0, ran.err
    assert {f.name for f in folder.iterdir()} == {*FILES, "mine.txt"}
    assert (folder / "mine.txt").read_text() == "mine"
    assert (folder / "report.html").stat().st_size > 100_000
    assert "Files of an earlier demo were replaced" in ran.out
    for words in ("LEACE", "LEOPARD", "Cascade", "Strongest attacker", "WordSim-353", "doctor"):
        assert words in ran.out
    assert all(line in ran.out for line in NEXT)
    assert max(map(len, ran.out.splitlines())) <= WIDTH


@pytest.mark.slow
def test_takes_the_source_out_of_verses(cli, tmp_path, monkeypatch):
    data = unspot.datasets.load_translations()

    def some(split, n):
        wanted = np.isin(split.names, STORIES["translations"].show)
        return split.take(wanted | np.isin(split.groups, np.unique(split.groups)[:n]))

    small = replace(
        data,
        train=some(data.train, 300),
        validation=some(data.validation, 150),
        test=some(data.test, 200),
    )
    monkeypatch.setattr(unspot.datasets, "load_translations", lambda: small)
    ran = cli("demo", "--data", "translations", "-o", tmp_path / "out", "--rank", "64")
    assert ran.code == 0, ran.err
    assert "The translation, taken out of verses" in ran.out
    assert "Numbers 35:1 WEB" in ran.out
    assert {f.name for f in (tmp_path / "out").iterdir()} == {*FILES}


def test_refuses_data_that_are_not_bundled(cli, tmp_path):
    ran = cli("demo", "-o", tmp_path / "out", "--data", "translation")
    assert ran.code == 2
    assert "translations" in ran.err
    assert not (tmp_path / "out").exists()


def test_speaks_of_replaced_files_only_if_there_are_any(tmp_path):
    assert not _check(tmp_path / "new", 40, 100)
    assert not _check(tmp_path, 40, 100)
    (tmp_path / "erased.npz").touch()
    assert _check(tmp_path, 40, 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rank", "0"], "Got --rank 0, but expected an integer from 1 to 98"),
        (["--rank", "99"], "Got --rank 99, but expected an integer from 1 to 98"),
    ],
)
def test_refuses_ranks_that_cannot_be(cli, tmp_path, arguments, message):
    ran = cli("demo", "-o", tmp_path / "out", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out").exists()


def test_refuses_a_file_as_folder(cli, tmp_path):
    file = tmp_path / "out"
    file.write_text("mine")
    ran = cli("demo", "-o", file)
    assert ran.code == 2
    assert "which is a file, but expected a folder" in ran.err
    assert file.read_text() == "mine"


def test_the_commands_it_ends_with_are_commands():
    from unspot.cli import COMMANDS

    named = {line.split()[1] for line in NEXT if line.strip().startswith("unspot ")}
    assert named - {"--help"} <= set(COMMANDS)
