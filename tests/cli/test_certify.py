"""unspot certify: a statement for people, JSON for programs, an exit code for scripts."""

import json
import re
from html import unescape

import numpy as np
import pytest

from unspot import LEACE, Eraser
from unspot.io import read_table

QUICK = ("--set", "attackers=logistic, quadratic", "--budget", "quick")


@pytest.fixture
def clean(tmp_path):
    """An eraser of the first two coordinates, which hold the concept."""
    path = tmp_path / "clean.safetensors"
    Eraser.projection(np.eye(6)[:, 2:], method="dropped").save(path)
    return path


@pytest.fixture
def leaking(tmp_path):
    """An eraser of the mean alone: the variance stays."""
    path = tmp_path / "leaking.safetensors"
    Eraser.projection(np.eye(6)[:, 1:], method="dropped").save(path)
    return path


@pytest.fixture
def others(tmp_path):
    """More rows of the same kind, as .npz."""
    rng = np.random.default_rng(1)
    z = np.repeat(["f", "m"], 200)
    X = rng.normal(size=(400, 6))
    X[z == "m", 0] += 2
    X[z == "m", 1] *= 3
    path = tmp_path / "others.npz"
    np.savez(path, X=X, emb=X, gender=z)
    return path


def test_a_statement_for_people(cli, clean, leaking, others):
    done = cli("certify", clean, others, "--concept", "gender", *QUICK)
    assert done.code == 0, done.err
    first, bound, kept, decision, *_ = done.out.splitlines()
    assert re.match(r"Gender: attackers are right on 8\d\.\d % before and 5\d\.\d % after ", first)
    assert re.match(r"What is left is at most \d+\.\d points \(95 % confidence, 400 rows", bound)
    assert kept.startswith("Kept: neighbours 0.")
    assert decision.startswith("It would hold for any margin of at least")
    assert "Two-sample test, which decides nothing: " in done.out
    done = cli("certify", leaking, others, "-c", "gender", "--margin", "0.05", *QUICK)
    assert done.code == 3
    assert "LEAKS: at least" in done.out.splitlines()[3]


def test_what_the_eraser_was_for(cli, tmp_path, others):
    with np.load(others) as file:
        arrays = {**file, "author": np.arange(400) // 2}
    np.savez(tmp_path / "rows.npz", **arrays)
    eraser = Eraser.projection(np.eye(6)[:, 2:], method="dropped", concept_name="dialect")
    eraser.save(tmp_path / "dialect.safetensors")
    more = ("-c", "gender", "--groups", "author", *QUICK)
    done = cli("certify", tmp_path / "dialect.safetensors", tmp_path / "rows.npz", *more)
    assert done.has_verdict, done.err
    assert "400 rows in 200 groups" in done.out
    assert "fitted to erase dialect; what is measured is gender" in " ".join(done.err.split())


def test_an_exit_code_for_scripts(cli, clean, leaking, others):
    """0 HOLDS or no margin, 3 LEAKS, 4 INCONCLUSIVE; 1 and 2 are no verdicts."""
    arguments = (others, "-c", "gender", *QUICK, "-q")
    assert cli("certify", clean, *arguments, "--margin", "0.4").code == 0
    assert cli("certify", clean, *arguments, "--margin", "0.01").code == 4
    assert cli("certify", leaking, *arguments).code == 0
    done = cli("certify", leaking, *arguments, "--margin", "0.05")
    assert (done.code, done.out, done.err) == (3, "", "")


def test_json_for_programs(cli, leaking, table, tmp_path):
    out = tmp_path / "found.json"
    line = ("certify", leaking, table, "-c", "gender", "--margin", "0.05", *QUICK, "--json")
    done = cli(*line, out, "-q")
    assert (done.code, done.out) == (3, "")
    found = json.loads(out.read_text())
    assert (found["verdict"], found["margin"], found["strongest"]) == ("LEAKS", 0.05, "quadratic")
    assert json.loads(cli(*line, "-").out) == found
    assert cli(*line[:-1]).out.startswith(found["statement"])


def test_a_page_to_look_at(cli, leaking, table, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "found.html"
    done = cli("certify", leaking, table, "-c", "gender", *QUICK, "--html", page)
    assert done.code == 0, done.err
    shown = " ".join(unescape(re.sub("<[^>]*>", "", page.read_text(encoding="utf-8"))).split())
    assert all(line in shown for line in done.out.splitlines()[:4])


def test_the_task_is_named_in_what_is_kept(cli, clean, others, tmp_path):
    with np.load(others) as file:
        arrays = {**file, "job": np.where(file["X"][:, 3] > 0, "nurse", "judge")}
    np.savez(tmp_path / "rows.npz", **arrays)
    done = cli("certify", clean, tmp_path / "rows.npz", "-c", "gender", "--task", "job", *QUICK)
    assert done.code == 0, done.err
    assert re.search(r"Kept: job 9\d\.\d → 9\d\.\d %, neighbours 0\.\d", done.out)


def test_the_rows_of_the_fit_are_not_judged_on(cli, table, tmp_path):
    read = read_table(table, features="emb", concept="gender")
    eraser = (
        LEACE()
        .fit(read.X, read.z)
        .eraser_.with_metadata(concept_name="gender", features=list(read.features))
    )
    path = tmp_path / "fitted.safetensors"
    eraser.save(path)
    done = cli("certify", path, table, *QUICK)  # features and concept are remembered
    assert done.code == 2
    assert re.search("an eraser that was fitted on (about .* % of )?these rows", done.err)
    assert "Keep some rows away" in done.err


def test_rows_that_chose_a_rank_are_not_judged_on(cli, table, tmp_path, cheap):
    """Of a path's three parts the test rows alone had no say in it: one half judges the other."""
    path, certificate = tmp_path / "chosen.safetensors", tmp_path / "c.json"
    choose = (
        "--method",
        "pca",
        "--ranks",
        "3,2,1",
        "--max-advantage",
        "0.9",
        "--seed",
        "4",
        "--set",
        "attackers=standard",
        "--set",
        "metrics=none",
    )
    done = cli("path", table, "-c", "gender", "-f", "emb", *choose, "-o", path, "-q")
    assert done.code == 0, done.err
    done = cli("certify", path, table, *QUICK, "--seed", "4", "--json", certificate, "-q")
    assert done.has_verdict, done.err
    found = json.loads(certificate.read_text())
    n_rows = len(read_table(table, features="emb", concept="gender").X)
    assert found["n_rows"] == pytest.approx(0.3 * n_rows, abs=2)
    done = cli("certify", path, table, *QUICK, "--seed", "5")
    assert done.code == 2
    assert "of these rows" in done.err


def test_a_margin_that_is_none(cli, clean, others):
    done = cli("certify", clean, others, "-c", "gender", *QUICK, "--margin", "5")
    assert done.code == 2
    assert re.search(r"Got --margin.5\.0, but expected a number from 0", done.err)


def test_a_file_with_some_rows_of_the_fit(cli, table, tmp_path):
    read = read_table(table, features="emb", concept="gender")
    half = np.random.default_rng(0).permutation(len(read.X))[: len(read.X) // 2]
    path = tmp_path / "fitted.safetensors"
    eraser = LEACE().fit(read.X[half], np.asarray(read.z)[half]).eraser_
    eraser.with_metadata(concept_name="gender", features=list(read.features)).save(path)
    done = cli("certify", path, table, *QUICK)
    assert done.code == 2
    assert re.search(r"about \d+ % of these rows", done.err)


def test_labels_in_a_second_file(cli, clean, rows, tmp_path):
    X, z = rows
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "z.txt").write_text("\n".join(z) + "\n")
    done = cli("certify", clean, tmp_path / "X.npy", "--labels", tmp_path / "z.txt", *QUICK)
    assert done.has_verdict, done.err


def test_errors_are_sentences(cli, clean, table, tmp_path):
    assert "Name its column or array with --concept" in cli("certify", clean, table).err
    done = cli("certify", clean, table, "-c", "gender", "--set", "attackers=tree")
    assert done.code == 2
    assert "Did you mean 'trees'" in done.err
    done = cli("certify", tmp_path / "no.safetensors", table, "-c", "gender")
    assert "there is no such file" in done.err
    X = np.random.default_rng(0).normal(size=(50, 6))
    np.savez(tmp_path / "few.npz", X=X, gender=np.repeat(["f", "m"], 25))
    done = cli("certify", clean, tmp_path / "few.npz", "-c", "gender")
    assert re.search(r"Got 2\d rows in each half, but attackers need at least 40", done.err)
    assert "Traceback" not in done.err


def test_an_earlier_certificate_is_checked(cli, clean, leaking, others, tmp_path):
    earlier = tmp_path / "earlier.json"
    command = (others, "-c", "gender", "--margin", "0.01", *QUICK)
    assert cli("certify", clean, *command, "--json", earlier).code == 4
    done = cli("certify", clean, *command, "--check", earlier)
    assert done.code == 4  # the verdict, which is that of the earlier certificate
    assert "The same eraser" in done.err
    done = cli("certify", leaking, *command, "--check", earlier)
    assert done.code == 5
    assert "the digest of the eraser is" in done.err
    done = cli("certify", clean, *command, "--seed", "1", "--check", earlier)
    assert done.code == 5
    assert "the seed is 1, but was 0" in done.err
    done = cli("certify", clean, *command, "--check", clean)
    assert done.code == 2
    assert "unspot certify --json" in done.err or "not JSON" in done.err
