"""``unspot path``: many ranks in a table, one chosen on some rows and certified on others."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from unspot import Dataset, load, rank_path
from unspot.cli.options import parse_ranks
from unspot.erasers.baselines import PCAProjection
from unspot.report import to_html

pytestmark = pytest.mark.usefixtures("cheap")


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
    out = tmp_path / "gender.safetensors"
    options = ["--set", "metrics=linear,variance", "--max-advantage", 0.2, "-o", out]
    done = cli("path", file, "-c", "z", "--ranks", "4,2,1", *options)
    assert done.code == 0, done.err
    rows = [line for line in done.out.splitlines() if re.match(r"\| \d", line)]
    assert [line.split("|")[1].strip() for line in rows] == ["4", "2", "1"]
    rank = int(re.search(r"Chosen: rank (\d):", done.out)[1])
    assert re.search(r"Z: attackers are right on .*360 rows that no fit has seen", done.out, re.S)
    assert re.search(r"^(HOLDS|INCONCLUSIVE): ", done.out, re.M)
    eraser = load(out)
    assert eraser.rank == rank
    assert eraser.metadata["concept_name"] == "z"
    assert "strongest attacker" in eraser.metadata["selection"]["criterion"]
    assert eraser.metadata["n_rows"] == 840  # those that fit and choose: the rest certify
    assert "fitted again on 840 rows" in done.out
    # The same file and seed: the test rows again.
    again = cli("certify", out, file, "--set", "attackers=logistic", "--margin", 0.2)
    assert "360 rows that no fit has seen" in again.out, again.err
    assert cli("evaluate", out, file, "-m", "linear", "--set", "seeds=1").code == 0
    assert cli("inspect", out).code == 0


def test_a_table_alone(cli, file):
    options = ("-m", "pca", "--ranks", "0.5,0.2", "--set", "metrics=none")
    done = cli("path", file, "--concept", "z", *options)
    assert done.code == 0, done.err
    assert "held-out MMD²" in done.out
    assert "Certificate" not in done.out


def test_a_page_of_a_path_is_made_in_python(file, tmp_path):
    data = np.load(file)
    rows = Dataset.from_arrays(data["X"], data["z"], random_state=0)
    path = rank_path(PCAProjection(), rows, [4, 2, 1], metrics=["linear", "variance"], seeds=1)
    path = path.with_original()
    page = to_html({"pca": path}, tmp_path / "page.html", chosen_rank=2)
    html = page.read_text(encoding="utf-8")
    assert "Erasure against utility" in html
    assert "rank 2" in html
    assert "before, no erasure" in html
    assert "before, no erasure" not in to_html(
        {"pca": replace(path, original=None)}, page
    ).read_text(encoding="utf-8")


def test_a_task_has_its_column(cli, file):
    shared = ("-c", "z", "-m", "pca", "-r", "5,3")
    done = cli("path", file, *shared, "-t", "y")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split(" | ")[2:5] == ["attack", "neighbours", "task_linear"]
    assert "task_linear" not in cli("path", file, *shared).out


def test_without_a_rank_that_will_do_nothing_is_thrown_away(cli, file, tmp_path):
    out = tmp_path / "e.safetensors"
    shared = ("-m", "pca", "-r", "6,5", "--set", "metrics=linear", "-o", out)
    done = cli("path", file, "-c", "z", *shared)
    assert done.code == 3
    assert "No rank will do" in done.err
    assert re.findall(r"^\| *(\d+) \|", done.out, re.M) == ["6", "5"]
    assert load(out).rank == 5
    assert not load(out).metadata["selection"]["met"]


def test_what_rows_cannot_decide_is_said_first_and_the_nearest_is_kept(cli, file, tmp_path):
    out = tmp_path / "e.safetensors"
    done = cli("path", file, "-c", "z", "-m", "pca", "-r", "3,1", "--set", "metrics=none",
               "--max-advantage", 0.001, "-o", out)  # fmt: skip
    assert done.code == 3
    first = " ".join(done.err.split())
    assert re.match(r"0.1 points cannot be decided with these 1,200 rows: that takes [\d,]+", first)
    assert "which these rows cannot decide; went for 0." in first
    assert not load(out).metadata["selection"]["met"]


def test_rows_that_are_too_few_for_a_certificate_lose_nothing_else(cli, file, tmp_path):
    out, few = tmp_path / "e.safetensors", tmp_path / "few.npz"
    data = np.load(file)
    some = np.r_[:75, 600:675]
    np.savez(few, X=data["X"][some], z=data["z"][some])
    done = cli("path", few, "-c", "z", "-m", "pca", "-r", "3,2", "--set", "metrics=variance",
               "--max-advantage", 0.9, "-o", out)  # fmt: skip
    assert done.code == 0, done.err
    assert load(out).rank == 3
    assert "Chosen: rank 3" in done.out
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


def test_the_table_has_what_there_was_and_guessing(cli, file):
    done = cli("path", file, "-c", "z", "-m", "pca", "-r", "2", "--set", "metrics=linear")
    assert done.code == 0, done.err
    assert re.search(r"\| before \| – \|", done.out)
    assert re.search(r"Guessing gets 0\.\d+", done.out)
