"""unspot inspect: facts for people, JSON for programs, and a warning for what is not sound."""

import json
import re
from unicodedata import category

import numpy as np
import pytest

from unspot import LEACE, Cascade, Eraser, Split
from unspot.cli.inspect import checks, class_list
from unspot.data.dataset import share_fitted_on
from unspot.eraser import load, method_name
from unspot.maps import Projection


@pytest.fixture
def saved(tmp_path, rows):
    path = tmp_path / "e.safetensors"
    Cascade(rank=2, random_state=0).fit(*rows).eraser_.save(path)
    return path


def test_facts_for_people(cli, saved):
    done = cli("inspect", saved)
    assert done.code == 0
    lines = dict(line.split(None, 1) for line in done.out.splitlines()[1:])
    assert lines["method"] == "Cascade(LEOPARD)"
    assert lines["rank"] == "2 of 6"
    assert lines["classes"] == "f (200), m (200)"
    assert "rank=2" in lines["parameters"]
    assert "unspot " in lines["versions"]
    assert "fingerprint" in done.out
    assert lines["checks"].startswith("sound, ‖UᵀU−I‖ = ")


def test_the_columns_are_named(cli, tmp_path):
    names = [*(f"e_{i}" for i in range(5)), "income"]
    Eraser.projection(np.eye(6)[:, :2], features=names).save(tmp_path / "e.safetensors")
    done = cli("inspect", tmp_path / "e.safetensors")
    assert "features  e_0 … e_4, income (6 columns)\n" in done.out


def test_how_the_rank_was_chosen(cli, tmp_path):
    selection = {"rank": 2, "criterion": "advantage", "tried": {"2": 0.0123}}
    eraser = Eraser.projection(np.eye(3)[:, :2], selection=selection)
    inside = {"selection": {**selection, "max_advantage": 0.02}}
    eraser.save(tmp_path / "path.safetensors")
    Eraser(eraser.maps, {"inner": inside}).save(tmp_path / "auto.safetensors")
    shown = cli("inspect", tmp_path / "path.safetensors").out
    assert "by advantage 0.012 (1 ranks were looked at)" in shown
    shown = cli("inspect", tmp_path / "auto.safetensors").out
    assert "advantage 0.012, 0.02 allowed (1" in shown


def test_parameters_are_shown_and_whole_in_json(cli, tmp_path):
    parameters = {"init": "array of shape (3, 2)"}
    parameters |= {"solver": "ManifoldSolver(patience=6)", "rank": 2}
    eraser = Eraser.projection(np.eye(3)[:, :2], parameters=parameters)
    eraser.save(tmp_path / "e.safetensors")
    shown = cli("inspect", tmp_path / "e.safetensors").out
    assert "solver=ManifoldSolver(patience=6), rank=2\n" in shown
    found = json.loads(cli("inspect", tmp_path / "e.safetensors", "--json").out)
    assert found["metadata"]["parameters"] == parameters


def test_json_for_programs(cli, saved):
    found = json.loads(cli("inspect", saved, "--json").out)
    assert found["bytes"] == saved.stat().st_size
    assert (found["method"], found["rank"], found["n_features"]) == ("Cascade(LEOPARD)", 2, 6)
    assert found["checks"]["sound"] is True
    assert found["checks"]["orthonormality"] < 1e-12
    assert found["metadata"]["classes"] == ["f", "m"]


def test_metadata_cannot_command_the_terminal(cli, tmp_path):
    evil = "\x1b]0;owned\x07\x1b[2J\x9b2J\x7f\r"
    facts = {"method": evil, "classes": [evil, "ü"], "concept_name": evil, "features": [evil]}
    facts |= {"parameters": {evil: evil}, "versions": {evil: evil}, "data": evil}
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(3)[:, :2], **facts).save(path)
    for arguments in ((), ("--json",)):
        done = cli("inspect", path, *arguments)
        assert done.code == 0, done.err
        assert all(sign == "\n" or category(sign) != "Cc" for sign in done.out)
        assert "u001b[2J" in done.out
        assert "ü" in done.out
    assert json.loads(done.out)["metadata"] == facts


def test_an_eraser_without_metadata(cli, tmp_path):
    Eraser.projection(np.eye(3)[:, :2]).save(tmp_path / "bare.safetensors")
    done = cli("inspect", tmp_path / "bare.safetensors")
    assert done.code == 0
    assert "unknown method" in done.out
    assert "2 of 3" in done.out


def test_an_oblique_projector_is_sound(rows):
    found = checks(LEACE().fit(*rows).eraser_)
    assert found["sound"]
    assert "orthonormality" not in found
    assert found["idempotence"] < 1e-6


def test_what_is_not_sound_is_said(cli, tmp_path):
    eraser = Eraser((Projection(np.full((3, 1), 0.9)),))
    assert not checks(eraser)["sound"]
    eraser.save(tmp_path / "bad.safetensors")
    assert "NOT SOUND" in cli("inspect", tmp_path / "bad.safetensors").out


def test_what_is_no_number_is_not_saved(tmp_path):
    eraser = Eraser((Projection(np.array([[np.nan], [0.0], [0.0]])),))
    assert not checks(eraser)["sound"]
    with pytest.raises(ValueError, match="NaN or infinity in U"):
        eraser.save(tmp_path / "bad.safetensors")


def test_a_foreign_file(cli, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    done = cli("inspect", tmp_path / "x.safetensors")
    assert done.code == 2
    assert "which is not a readable safetensors file" in done.err


def test_words():
    assert method_name({}) == ""
    assert class_list({"classes": None}) == ""
    assert class_list({"classes": list(range(12)), "class_counts": [1] * 12}).endswith("… 4 more")


FACTS = {
    "method": "LEACE",
    "concept_name": "gender",
    "data": "a.parquet",
    "fingerprint": "00",
    "features": ["emb"],
    "known_rows": ["00"],
    "known_below": "00",
    "known_step": 0.5,
    "norms": [0.5, 2.0],
    "parameters": {"rank": 3},
    "versions": {"unspot": "1"},
    "inner": {"method": "LEOPARD"},
    "n_rows": 10,
    "classes": ["f", "m"],
    "class_counts": [4, 6],
    "selection": {"criterion": "a", "rank": 2, "tried": {"2": 0.1}},
}


@pytest.mark.parametrize("name", FACTS)
def test_facts_of_any_type_end_in_a_sentence(name, cli, table, rows, tmp_path):
    """No metadata of a file, whoever wrote it, end in a traceback of a command."""
    path = tmp_path / "e.safetensors"
    for value in (None, 5, -1.5, True, "text", [], [{}], [None], {}, {"a": []}):
        try:
            Eraser.projection(np.eye(6)[:, :3], **{**FACTS, name: value}).save(path)
        except ValueError as refused:
            assert re.search(rf"metadata in which .*{name}.*, but expected", str(refused))  # noqa: PT017
            continue
        shown = cli("inspect", path)
        erased = cli("transform", path, table, "-o", tmp_path / "out.parquet", "--force")
        assert (shown.code, erased.code) in ((0, 0), (0, 2)), (value, shown, erased)
        assert share_fitted_on(load(path), Split(*rows)) == 0  # what certify looks at
        may_be_null = value is None and name in ("classes", "class_counts")
        is_number = type(value) is int and name == "known_step"
        assert type(value) is type(FACTS[name]) or may_be_null or is_number
