"""``unspot path``: many ranks in a table, one chosen on some rows and certified on others."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from unspot import load
from unspot.cli.options import parse_ranks


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Two of six directions tell the classes apart, by mean and by variance."""
    rng = np.random.default_rng(0)
    z = np.repeat(["f", "m"], 600)
    X = rng.normal(size=(1200, 6)).astype(np.float32)
    X[z == "m", 0] += 2
    X[z == "m", 1] *= 3
    path = tmp_path_factory.mktemp("path") / "data.npz"
    np.savez(path, X=X, z=z, y=(X[:, 2] > 0).astype(int))
    return path


def test_a_rank_is_chosen_saved_and_certified(cli, file, tmp_path):
    out, page, numbers = (tmp_path / f"gender.{end}" for end in ("safetensors", "html", "json"))
    options = ["--max-advantage", 0.2, "-o", out, "--html", page, "--json", numbers]
    done = cli(
        "path", file, "-c", "z", "--ranks", "4,2,1", "--set", "metrics=linear,variance", *options
    )
    assert done.code == 0, done.err
    rows = [line for line in done.out.splitlines() if re.match(r"\| \d", line)]
    assert [line.split("|")[1].strip() for line in rows] == ["4", "2", "1"]
    rank = int(re.search(r"Chosen: rank (\d):", done.out)[1])
    assert re.search(r"Certificate on other rows: (HOLDS|LEAKS|INCONCLUSIVE)\. ", done.out)
    eraser = load(out)
    assert eraser.rank == rank
    assert eraser.metadata["concept_name"] == "z"
    assert "strongest attacker" in eraser.metadata["selection"]["criterion"]
    assert eraser.metadata["n_rows"] == 840  # those that fit and choose: the rest certify
    assert "fitted again on 840 rows" in done.out
    assert json.loads(numbers.read_text())["points"][0]["rank"] == 4
    html = page.read_text(encoding="utf-8")
    assert "Erasure against utility" in html
    assert f"rank {rank}" in html
    assert f"Chosen: rank {rank}" in html
    # The same file and seed: attackers learn from one half of the test rows.
    again = cli("certify", out, file, "--budget", "quick", "--margin", 0.2)
    assert "180 rows to learn from, 180 to judge on" in again.out.replace("\n", " "), again.err
    assert cli("evaluate", out, file, "-m", "linear", "--set", "seeds=1").code == 0
    assert cli("inspect", out).code == 0


def test_a_table_alone(cli, file):
    options = ("-m", "pca", "--ranks", "0.5,0.2", "--set", "metrics=none")
    done = cli("path", file, "--concept", "z", *options)
    assert done.code == 0, done.err
    assert "held-out MMD²" in done.out
    assert "Certificate" not in done.out


def test_json_alone_on_stdout(cli, file):
    done = cli(
        "path", file, "-c", "z", "-m", "pca", "-r", "3,2,1", "--set", "metrics=none", "--json", "-"
    )
    assert [point["rank"] for point in json.loads(done.out)["points"]] == [3, 2, 1]


def test_a_bound_of_a_metric(cli, file):
    shared = ("-c", "z", "-t", "y", "-m", "pca", "-r", "5,3,1", "--set", "metrics=variance")
    done = cli("path", file, *shared, "--at-least", "variance=0.6")
    assert done.code == 0, done.err
    assert "Chosen: rank 3: variance (at least 0.6)" in done.out


def test_a_task_has_its_column_and_is_a_utility(cli, file):
    shared = ("-c", "z", "-m", "pca", "-r", "5,3")
    done = cli("path", file, *shared, "-t", "y", "--at-least", "task_linear=0.1")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split(" | ")[2:5] == ["attack", "neighbours", "task_linear"]
    assert "Chosen: rank 3: task_linear" in done.out
    assert "task_linear" not in cli("path", file, *shared).out


def test_without_a_rank_that_will_do_nothing_is_thrown_away(cli, file, tmp_path):
    page, out = tmp_path / "page.html", tmp_path / "e.safetensors"
    shared = ("-m", "pca", "-r", "6,5", "--set", "metrics=linear", "--html", page, "-o", out)
    done = cli("path", file, "-c", "z", *shared)
    assert done.code == 3
    assert "No rank will do" in done.err
    assert page.exists()
    assert load(out).rank == 5
    assert not load(out).metadata["selection"]["met"]


def test_a_bound_that_the_rows_cannot_decide_is_refused_before_the_fits(cli, file, tmp_path):
    out = tmp_path / "e.safetensors"
    done = cli("path", file, "-c", "z", "--max-advantage", 0.02, "-o", out)
    assert done.code == 2
    assert re.search(r"max_advantage=0.02, .*at least 0\.\d+.*840 rows", done.err)
    assert not out.exists()


def test_rows_that_are_too_few_for_a_certificate_lose_nothing_else(cli, file, tmp_path):
    page, out, few = (tmp_path / name for name in ("page.html", "e.safetensors", "few.npz"))
    data = np.load(file)
    some = np.r_[:75, 600:675]
    np.savez(few, X=data["X"][some], z=data["z"][some])
    rule = ("--at-least", "variance=0.1")
    done = cli("path", few, "-c", "z", "-m", "pca", "-r", "3,2", "--set", "metrics=variance", *rule,
               "-o", out, "--html", page)  # fmt: skip
    assert done.code == 0, done.err
    assert load(out).rank == 2
    assert "rank 2" in page.read_text(encoding="utf-8")
    assert re.search(r"No certificate: .*\d+ rows.*at least \d+.*Give more rows", done.out)
    assert "attack_rows" not in done.out + done.err
    assert f"Written: {out}" in done.out


def test_ranks_as_typed():
    assert parse_ranks(None) is None
    assert parse_ranks("90, 0.5,10") == [90, 0.5, 10]


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-r", "1,3,2"], "1, 3, 2.*decreasing"),
        (["-r", "3,3"], "3, 3.*decreasing.*repeat"),
        (["-r", "9"], "rank=9.*from 1 to 5"),
        (["-r", "0"], "rank=0.*integer"),
        (["-r", "a,b"], "--ranks a,.*integer such as 125"),
        (["-r", "1:9"], "--ranks 1:9.*integer such as 125"),
        (["-m", "leopart"], "'leopart'.*Did you mean '?leopard"),
        (["-m", "leace"], "LEACE.*no rank.*expected"),
        (["--set", "metrics=linaer"], "'linaer'.*Did you mean 'linear'"),
        (["--set", "metrics=task_linear"], "'task_linear'.*no task labels"),
        (["--at-least", "1"], "--at-least 1.*METRIC=V"),
        (["--set", "seeds=many"], "seeds=many.*type int"),
        (["--set", "attackers=slow", "--max-advantage", "0.3"], "'slow'.*'quick'"),
        (["--set", "rnk=3"], "'rnk'.*'leopard'.*Did you mean '?rank"),
    ],
)
def test_refusals(cli, file, arguments, message):
    done = cli("path", file, "-c", "z", *arguments)
    assert done.code == 2
    assert re.search(message, done.err), done.err


def test_no_concept_and_an_output_that_exists(cli, file, tmp_path):
    assert "Got no concept" in cli("path", file).err
    out = tmp_path / "e.safetensors"
    out.write_bytes(b"precious")
    assert "exists already" in cli("path", file, "-c", "z", "-o", out).err
    assert out.read_bytes() == b"precious"
