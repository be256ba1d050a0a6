"""unspot certify: a verdict for people, JSON for programs, an exit code for scripts."""

import json
import re

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


def test_a_verdict_for_people(cli, clean, leaking, others):
    done = cli("certify", clean, others, "--concept", "gender", *QUICK)
    assert done.code == 4, done.err
    lines = done.out.splitlines()
    assert lines[0] == "Certificate: INCONCLUSIVE"
    assert lines[1] == "About: gender (f, m) in others.npz on 200 test rows."
    assert "cannot decide" in lines[2]
    assert any(re.search(r"Next: .*about [\d,]+ test rows", line) for line in lines)
    assert "others.npz was split at random" in lines[-1]
    assert "200 rows to learn from, 200 to judge on" in lines[-1]
    done = cli("certify", leaking, others, "-c", "gender", *QUICK)
    assert (done.code, done.out.splitlines()[0]) == (3, "Certificate: LEAKS")
    assert "The concept gender leaks: quadratic is right on" in done.out


def test_how_rows_were_split_and_what_the_eraser_was_for(cli, tmp_path, others):
    with np.load(others) as file:
        arrays = {**file, "author": np.arange(400) // 2}
    np.savez(tmp_path / "rows.npz", **arrays)
    eraser = Eraser.projection(np.eye(6)[:, 2:], method="dropped", concept_name="dialect")
    eraser.save(tmp_path / "dialect.safetensors")
    more = ("-c", "gender", "--groups", "author", *QUICK)
    done = cli("certify", tmp_path / "dialect.safetensors", tmp_path / "rows.npz", *more)
    assert done.has_verdict, done.err
    assert "rows.npz was split at random, by group" in done.out
    assert "fitted to erase dialect; what is measured is gender" in " ".join(done.err.split())


def test_an_exit_code_for_scripts(cli, clean, leaking, others):
    """0 HOLDS, 3 LEAKS, 4 INCONCLUSIVE; 1 and 2 are no verdicts."""
    arguments = (others, "-c", "gender", *QUICK, "-q")
    assert cli("certify", clean, *arguments, "--margin", "0.4").code == 0
    assert cli("certify", clean, *arguments).code == 4
    done = cli("certify", leaking, *arguments)
    assert (done.code, done.out, done.err) == (3, "", "")


def test_json_for_programs(cli, leaking, table, tmp_path):
    out = tmp_path / "found.json"
    done = cli("certify", leaking, table, "-c", "gender", *QUICK, "--json", out, "-q")
    assert (done.code, done.out) == (3, "")
    found = json.loads(out.read_text())
    assert found["leaks"] is True
    assert found["strongest"] == "quadratic"
    printed = cli("certify", leaking, table, "-c", "gender", *QUICK, "--json", "-").out
    assert json.loads(printed) == found


def test_a_page_to_look_at(cli, leaking, table, tmp_path):
    pytest.importorskip("jinja2")
    page = tmp_path / "found.html"
    done = cli("certify", leaking, table, "-c", "gender", *QUICK, "--html", page, "-q")
    assert done.code == 3, done.err
    assert "quadratic" in page.read_text(encoding="utf-8")


def test_rows_to_learn_from_in_a_file_of_their_own(cli, clean, table, others):
    arguments = ("-c", "gender", "--features", "emb", *QUICK)
    done = cli("certify", clean, table, "--train", others, *arguments)
    assert done.has_verdict, done.err
    assert "learned from 400 rows that the eraser was not fitted on" in done.out
    assert "split at random" not in done.out


def test_the_rows_of_the_fit_are_neither_judged_on_nor_learned_from(cli, table, others, tmp_path):
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
    assert "an eraser that was fitted on the test split" in done.err
    assert "Keep some rows away" in done.err
    done = cli("certify", path, others, "--train", table, *QUICK)
    assert done.has_verdict, done.err
    assert "learned from 200 rows that the eraser was not fitted on" in done.out


def test_rows_that_chose_a_rank_are_not_judged_on(cli, table, tmp_path):
    """Of a path's three parts the test rows alone had no say in it: one half judges the other."""
    path, certificate = tmp_path / "chosen.safetensors", tmp_path / "c.json"
    choose = ("--method", "pca", "--ranks", "3,2,1", "--max-advantage", "0.9", "--seed", "4")
    done = cli("path", table, "-c", "gender", "-f", "emb", *choose, "-o", path, "-q")
    assert done.code == 0, done.err
    done = cli("certify", path, table, *QUICK, "--seed", "4", "--json", certificate, "-q")
    assert done.has_verdict, done.err
    found = json.loads(certificate.read_text())
    n_rows = len(read_table(table, features="emb", concept="gender").X)
    assert found["n_attack_rows"] == pytest.approx(0.15 * n_rows, abs=2)
    assert found["n_test_rows"] == pytest.approx(0.15 * n_rows, abs=2)
    done = cli("certify", path, table, *QUICK, "--seed", "5")
    assert done.code == 2
    assert "of the test split" in done.err


def test_rows_to_judge_on_are_not_learned_by_heart(cli, clean, others, tmp_path):
    again = tmp_path / f"again{others.suffix}"
    again.write_bytes(others.read_bytes())
    done = cli("certify", clean, others, "-c", "gender", "--train", again, *QUICK)
    assert done.code == 2
    assert re.search("--train .*100 % of the rows of others.npz", done.err)


def test_a_bound_on_the_advantage(cli, leaking, clean, others):
    arguments = ("-c", "gender", *QUICK)
    done = cli("certify", clean, others, *arguments, "--margin", "0.4")
    assert done.code == 0, done.err
    assert "HOLDS" in done.out
    assert "within the margin of 40.0 points" in done.out
    done = cli("certify", clean, others, *arguments, "--margin", "0.01")
    assert done.code == 4
    assert "more than the margin of 1.0 points" in done.out
    done = cli("certify", clean, others, *arguments, "--margin", "5")
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
    assert "of the test split" in done.err
    assert "the same --seed" in done.err


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
    np.savez(tmp_path / "few.npz", X=np.zeros((50, 6)), gender=np.repeat(["f", "m"], 25))
    done = cli("certify", clean, tmp_path / "few.npz", "-c", "gender")
    assert "Got 26 rows" in done.err or "Got 25 rows" in done.err or "Got 24 rows" in done.err
    assert "attackers need at least 40" in done.err
    assert "Traceback" not in done.err


def test_an_earlier_certificate_is_checked(cli, clean, leaking, others, tmp_path):
    earlier = tmp_path / "earlier.json"
    command = (others, "-c", "gender", *QUICK)
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
