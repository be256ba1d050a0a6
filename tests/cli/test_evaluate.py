"""unspot evaluate: a table for people, JSON for programs, one file or two."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from unspot import LEACE, Eraser
from unspot.evaluation import Evaluation, retrieval
from unspot.io import read_table

QUICK = ("--metrics", "chance,linear,neighbours", "--set", "seeds=1")


@pytest.fixture
def saved(tmp_path, rows):
    """An eraser of the first two coordinates, which hold the concept."""
    path = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:], method="dropped").save(path)
    return path


@pytest.fixture
def archive(tmp_path, rows):
    """The rows as .npz, with a task that the concept does not decide."""
    X, z = rows
    path = tmp_path / "data.npz"
    np.savez(path, X=X, gender=z, job=np.where(X[:, 2] > 0, "nurse", "judge"))
    return path


def test_a_table_for_people(cli, saved, table):
    done = cli("evaluate", saved, table, "--concept", "gender", *QUICK)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "dropped on data.parquet"
    assert re.search("learn from 200.*tested on 200", done.out)
    assert "split at random" in done.out
    row = next(line for line in lines if line.startswith("  Linear probe accuracy"))
    assert row.endswith("lower is better")
    before, after = (float(part) for part in row.replace("%", "").split()[3:5])
    assert before > 75 > after


def test_json_for_programs(cli, saved, archive, tmp_path):
    out = tmp_path / "found.json"
    done = cli(
        "evaluate", saved, archive, "-c", "gender", "--task", "job", "-m", "task_linear,fairness",
        "--set", "seeds=1", "--json", out, "-q",
    )  # fmt: skip
    assert (done.code, done.out) == (0, "")
    found = Evaluation.from_json(out.read_text())
    assert {"task_linear", "tpr_gap", "demographic_parity"} <= {row.key for row in found}
    printed = cli("evaluate", saved, archive, "-c", "gender", *QUICK, "--json", "-").out
    assert json.loads(printed)["name"] == "dropped on data.npz"


def test_a_page_for_the_browser(cli, saved, table, tmp_path):
    page = tmp_path / "page.html"
    done = cli("evaluate", saved, table, "-c", "gender", *QUICK, "--html", page)
    assert done.code == 0, done.err
    assert "Linear probe" in page.read_text(encoding="utf-8")


def test_a_search_for_rows_of_one_id(cli, saved, rows, tmp_path):
    X, z = rows
    path, ids = tmp_path / "pairs.npz", np.arange(len(X)) // 4
    np.savez(path, X=X, gender=z, text=ids, row=np.arange(len(X)))
    line = "evaluate", saved, path, "-f", "X", "-c", "gender", "-m", "search", "--pairs"
    done = cli(*line, "text", "--json", "-")
    assert done.code == 0, done.err
    found = {row["key"]: row for row in json.loads(done.out)["rows"]}
    for side, seen in {"before": X, "after": X * (np.arange(6) > 1)}.items():
        recall = retrieval(seen, ids).recall.value
        assert found["recall_at_1"][side]["mean"] == pytest.approx(recall)
    for column, needle in {"row": "ids that occur once each", "txt": "Did you mean 'text'"}.items():
        done = cli(*line, column)
        assert done.code == 2
        assert needle in done.err


def test_every_default_metric(cli, saved, archive):
    done = cli("evaluate", saved, archive, "-c", "gender", "-t", "job", "--set", "seeds=1")
    assert done.code == 0, done.err
    for label in ("Strongest attacker", "MDL", "Two-sample p-value", "A_50%", "Task accuracy"):
        assert label in done.out


def test_the_budget_is_a_setting(cli, saved, archive, cheap):
    line = ("evaluate", saved, archive, "-c", "gender", "-m", "attack", "--json", "-")
    for given, budget in {(): "quick", ("--set", "budget=standard"): "standard"}.items():
        (row,) = json.loads(cli(*line, *given).out)["rows"]
        assert f"(budget {budget})" in row["note"]
    done = cli(*line, "--set", "budget=huge")
    assert done.code == 2
    assert re.search("budget='huge'.*'quick'.*'thorough'", done.err)


def test_the_columns_of_the_fit_are_remembered(cli, table, tmp_path):
    read = read_table(table, concept="gender")
    estimator = LEACE().fit(read.X, read.z)
    path = tmp_path / "fitted.safetensors"
    eraser = estimator.eraser_.with_metadata(concept_name="gender", features=["emb"])
    eraser.save(path)
    done = cli("evaluate", path, table, *QUICK)
    assert done.code == 0, done.err
    assert "The eraser was fitted on these very rows" in done.err


@pytest.mark.parametrize("features", [(), ("-f", "e_*")])
def test_columns_are_taken_in_the_order_of_the_fit(cli, rows, tmp_path, features):
    X, z = rows
    names = [f"e_{j}" for j in range(6)]
    eraser, outcomes = tmp_path / "e.safetensors", []
    Eraser.projection(np.eye(6)[:, 2:], features=names).save(eraser)
    for order in (names, names[::-1]):
        frame = pd.DataFrame(X, columns=names)[order].assign(gender=z)
        frame.to_csv(tmp_path / "x.csv", index=False)
        done = cli("evaluate", eraser, tmp_path / "x.csv", "-c", "gender", *features, *QUICK)
        outcomes.append(done.out)
    assert outcomes[0] == outcomes[1]
    frame.drop(columns="e_3").to_csv(tmp_path / "x.csv", index=False)
    done = cli("evaluate", eraser, tmp_path / "x.csv", "-c", "gender", *features, *QUICK)
    assert done.code == 2
    assert "e_3" in done.err


def test_a_task_that_the_concept_decides_is_warned_about(cli, saved, tmp_path, rows):
    X, z = rows
    np.savez(tmp_path / "data.npz", X=X, gender=z)
    done = cli(
        "evaluate", saved, tmp_path / "data.npz", "-c", "gender", "-t", "gender",
        "-m", "task_linear", "--set", "seeds=1",
    )  # fmt: skip
    assert done.code == 0
    assert re.search("Warning: .*task labels.*concept", done.err)


def test_quiet_shows_no_warning(cli, table, tmp_path):
    eraser, found = tmp_path / "fitted.safetensors", tmp_path / "found.json"
    assert cli("fit", table, "-c", "gender", "-m", "leace", "-o", eraser, "-q").code == 0
    shared = ("evaluate", eraser, table, "-t", "gender", "-m", "task_linear", "--json")
    warned = cli(*shared, "-")
    assert warned.err.count("Warning: ") == 2  # of the fit's own rows, and of such a task
    assert json.loads(warned.out)["rows"]
    done = cli(*shared, found, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert found.exists()


def test_errors_are_sentences(cli, saved, table):
    done = cli("evaluate", saved, table)
    assert done.code == 2
    assert re.search("Error: Got no concept.*--concept.*--labels", done.err)
    done = cli("evaluate", saved, table, "-c", "gender", "-m", "mld")
    assert (done.code, "Did you mean 'mdl'?" in done.err) == (2, True)
    done = cli("evaluate", saved, table, "-c", "sex")
    assert (done.code, "'sex'" in done.err) == (2, True)
    assert "Traceback" not in done.err


def test_several_erasers_share_one_table(cli, saved, archive, tmp_path):
    other = tmp_path / "other.safetensors"
    Eraser.projection(np.eye(6)[:, 2:]).save(other)
    page = tmp_path / "both.html"
    line = ("evaluate", saved, f"two={other}", archive, "-c", "gender", "-m", "attack,variance")
    done = cli(*line, "--html", page)
    assert done.code == 0, done.err
    assert "and two" in done.out
    assert re.search(r"Strongest attacker.*points after two compared with", done.out)
    assert "Strongest attacker" in page.read_text(encoding="utf-8")
    assert cli("evaluate", saved, saved, archive, "-c", "gender").code == 2
    assert "expected an eraser and rows" in cli("evaluate", archive, "-c", "gender").err
