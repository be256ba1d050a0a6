"""unspot fit: from every format, with every option, and refusing before it works."""

import re

import numpy as np
import pandas as pd
import pytest

from unspot import LEACE, Cascade, load
from unspot.cli.fit import make_estimator
from unspot.cli.options import parse_rank, parse_settings
from unspot.data import Table
from unspot.erasers.registry import make


def test_the_default_is_a_cascade_that_equals_the_library(cli, table, rows, tmp_path):
    X, z = rows
    out = tmp_path / "gender.safetensors"
    done = cli("fit", table, "--features", "emb", "--concept", "gender", "--rank", 3, "-o", out)
    assert done.code == 0, done.err
    eraser = load(out)
    expected = Cascade(rank=3, random_state=0).fit(X, z).eraser_
    np.testing.assert_array_equal(eraser.P, expected.P)
    assert eraser.metadata["features"] == ["emb"]
    assert eraser.metadata["concept_name"] == "gender"
    assert eraser.metadata["data"] == "data.parquet"
    lines = dict(line.split(None, 1) for line in done.out.splitlines()[1:])
    assert done.out.startswith("Erased 'gender' with Cascade\n")
    assert str(out) in lines["written"]
    assert lines["method"] == "Cascade(LEOPARD)"
    assert lines["rank"] == "3 of 6"
    assert lines["features"] == "emb"
    assert "400 rows" in done.out
    assert lines["classes"] == "f (200), m (200)"


@pytest.mark.parametrize("kind", ["npz", "csv", "npy with labels", "npy with a table of labels"])
def test_every_format_gives_the_same_eraser(cli, rows, tmp_path, kind):
    X, z = rows
    arguments = ["--concept", "gender"]
    if kind == "npz":
        data = tmp_path / "x.npz"
        np.savez(data, X=X, gender=z)
    elif kind == "csv":
        data = tmp_path / "x.csv"
        pd.DataFrame(X, columns=[f"e_{i}" for i in range(6)]).assign(gender=z).to_csv(data)
        arguments += ["--features", "e_*"]
    else:
        data = tmp_path / "x.npy"
        np.save(data, X)
        if kind == "npy with labels":
            (tmp_path / "z.txt").write_text("\n".join(z))
            arguments = ["--labels", tmp_path / "z.txt"]
        else:
            pd.DataFrame({"age": range(400), "gender": z}).to_csv(tmp_path / "z.csv")
            arguments += ["--labels", tmp_path / "z.csv"]
    out = tmp_path / "e.safetensors"
    done = cli("fit", data, *arguments, "--method", "leace", "-o", out, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    expected = LEACE().fit(X, z).eraser_
    np.testing.assert_allclose(load(out).P, expected.P, atol=1e-6)


def test_a_number_that_became_a_feature_is_seen(cli, rows, tmp_path):
    X, z = rows
    frame = pd.DataFrame(X, columns=[f"e_{i}" for i in range(6)])
    frame.assign(gender=z, income=X[:, 0] * 2.5).to_csv(tmp_path / "x.csv", index=False)
    out = tmp_path / "e.safetensors"
    done = cli("fit", tmp_path / "x.csv", "-c", "gender", "-m", "leace", "-o", out)
    assert "e_0 … e_5, income (7 columns)\n" in done.out


def test_options_reach_the_method(cli, table, tmp_path):
    out = tmp_path / "e.safetensors"
    options = ["--method", "leopard", "--rank", "0.5", "--set", "metric=whitened"]
    options += ["--set", "kernel=reference", "--set", "preserve=0.1", "--seed", "7"]
    done = cli("fit", table, "--concept", "gender", *options, "-o", out, "-q")
    assert done.code == 0, done.err
    found = load(out).metadata["parameters"]
    expected = {"rank": 0.5, "metric": "whitened", "kernel": "reference"}
    expected |= {"preserve": 0.1, "random_state": 7, "solver": "manifold"}
    assert found.items() >= expected.items()
    assert load(out).rank == 3


def test_any_parameter_can_be_set(cli, table, tmp_path):
    out = tmp_path / "e.safetensors"
    done = cli("fit", table, "-c", "gender", "-m", "leace", "--set", "method=orthogonal", "-o", out)
    assert done.code == 0, done.err
    assert load(out).rank == 5


def test_fields_of_the_solver_can_be_set(cli, table, tmp_path):
    out = tmp_path / "e.safetensors"
    fields = ("--set", "solver.max_rows=40", "--set", "solver.init=identity", "-r", 2)
    done = cli("fit", table, "-c", "gender", *fields, "-o", out)
    assert done.code == 0, done.err
    assert load(out).metadata["inner"]["rows_used"] == 40
    done = cli("fit", table, "-c", "gender", "--set", "solver.max_row=40", "-o", out, "--force")
    assert done.code == 2
    assert "'max_row' for the solver" in done.err
    assert "Did you mean 'max_rows'" in done.err


def test_seeds_and_progress_go_where_they_are_known():
    assert make_estimator("leace", {}, seed=3).get_params()["method"] == "oblique"
    cascade = make_estimator("cascade:leopard", {"rank": 2}, seed=3)
    assert cascade.second.random_state == 3
    plain = make_estimator("Cascade", {}, seed=4)
    assert plain.second.random_state == 4


def test_parameters_as_typed():
    texts = ["a=1", "b=1e-3", "c=x=y", "d=null", "e=[1, 2]", "key=007", "alpha=1"]
    known, others = parse_settings(texts, {"key": str, "alpha": float}, others=True)
    assert others == {"a": 1, "b": 1e-3, "c": "x=y", "d": None, "e": [1, 2]}
    assert known == {"key": "007", "alpha": 1}
    assert isinstance(parse_rank("12"), int)


def test_the_rank_is_chosen(cli, table, tmp_path, cheap):
    out = tmp_path / "e.safetensors"
    done = cli(
        "fit", table, "-c", "gender", "-f", "emb", "-r", "auto", "--max-advantage", 0.3, "-o", out
    )
    assert done.code == 0, done.err
    assert re.search(r"chosen +.*strongest attacker.*0.3 allowed", done.out)
    selection = load(out).metadata["inner"]["selection"]
    assert selection["max_advantage"] == 0.3
    assert load(out).rank == selection["rank"]


def test_rows_that_choose_the_rank_are_of_other_groups(cli, table, tmp_path, monkeypatch):
    def stop(eraser, data):
        assert len(data.train.groups) + len(data.validation.groups) == 400
        raise ValueError("Got groups.")

    monkeypatch.setattr("unspot.choice.path.rank_path", stop)
    options = ("-f", "emb", "-c", "gender", "-r", "auto", "--groups", "id")
    done = cli("fit", table, *options, "-o", tmp_path / "e.safetensors")
    assert "Got groups." in done.err
    done = cli("fit", table, *options, "-m", "pca", "-o", tmp_path / "e.safetensors")
    assert "Got rank='auto', but expected an integer" in done.err


@pytest.mark.parametrize(
    ("arguments", "rank", "message"),
    [
        (["-c", "gender", "-m", "leopard", "-r", 6], 6, "rank 6 of 6"),
        (["-f", "emb", "--labels", "of_eight.txt", "-m", "leace"], 0, "all 6 features"),
    ],
)
def test_an_eraser_of_nothing_or_of_everything_is_a_warning(
    cli, table, tmp_path, monkeypatch, arguments, rank, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_eight.txt").write_text("\n".join(str(i % 8) for i in range(400)))
    out = tmp_path / "e.safetensors"
    done = cli("fit", table, *arguments, "-o", out)
    assert done.code == 0
    assert done.err.startswith("Warning: Got ")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert load(out).rank == rank
    assert cli("fit", table, *arguments, "-o", out, "--force", "-q") == (0, "", "")


# -- bad input ----------------------------------------------------------------------------------


def test_an_output_that_exists_is_refused_before_anything_is_read(cli, tmp_path):
    out = tmp_path / "e.safetensors"
    out.write_bytes(b"precious")
    done = cli("fit", tmp_path, "--concept", "z", "-o", out)
    assert done.code == 2
    assert re.search("e.safetensors.*exists already.*--force", done.err)
    assert out.read_bytes() == b"precious"


def test_force_replaces(cli, table, tmp_path):
    out = tmp_path / "e.safetensors"
    out.write_bytes(b"old")
    assert cli("fit", table, "-c", "gender", "-m", "leace", "-o", out, "--force").code == 0
    assert load(out).n_features == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "gendr"], "gendr.*Did you mean 'gender'"),
        (["-c", "gender", "-f", "emp"], "emp.*Did you mean 'emb'"),
        (["-c", "gender", "-f", "gender"], "gender.*numbers"),
        ([], "no concept.*--concept.*--labels"),
        (["-c", "gender", "--rank", "many"], "--rank many.*integer such as"),
        (["-c", "gender", "--rank", "900"], "rank=900.*from 1 to 5"),
        (["-c", "gender", "-m", "leopart"], "leopart.*Did you mean '?leopard"),
        (["-c", "gender", "-m", "leace", "--rank", "3"], "'rank'.*'leace'"),
        (["-c", "gender", "--set", "lr"], "--set lr.*KEY=VALUE"),
        (["-c", "gender", "--set", "metric=city"], "city"),
        (["-c", "gender", "--labels", "none.txt"], "none.txt.*no such file"),
        (["-c", "gender", "--concept", "id"], "--concept more than once"),
        (["-c", "gender", "-c", "id"], "--concept more than once.*comma list"),
        (["-c", "gender,id"], "whole numbers.*--kind id"),
    ],
)
def test_errors_are_sentences_and_leave_no_file(cli, table, tmp_path, arguments, message):
    out = tmp_path / "e.safetensors"
    done = cli("fit", table, *arguments, "-o", out)
    assert done.code == 2
    assert done.err.startswith("Error: ")
    assert re.search(message, done.err), done.err
    assert len(done.err.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("X", "z", "message"),
    [
        ([[1.0, np.nan]] * 4, ["a", "b"] * 2, "4 values.*NaN or infinity.*X"),
        ([[1.0, 2.0]] * 4, ["a"] * 4, "one class.*z.*a"),
        ([[1.0, 2.0]] * 3, ["a", "b", "b"], "1 row of class a"),
        ([[1.0, 2.0]] * 4, [1.0, 2.0, np.nan, 1.0], "1 missing label"),
        ([[1.0, 2.0]] * 4, ["a", "b"], "2 labels.*4 rows"),
        (np.zeros((0, 3)), [], "empty"),
        ([["a", "b"]] * 4, ["a", "b"] * 2, "expected numbers"),
    ],
)
def test_data_that_cannot_be_fitted(cli, tmp_path, X, z, message):
    np.savez(tmp_path / "x.npz", X=np.asarray(X), z=np.asarray(z))
    done = cli("fit", tmp_path / "x.npz", "--concept", "z", "-o", tmp_path / "e.safetensors")
    assert done.code == 2
    assert re.search(message, done.err), done.err
    assert not (tmp_path / "e.safetensors").exists()


def test_a_bound_without_a_choice_is_refused(cli, table, tmp_path):
    options = ("-c", "gender", "-f", "emb", "-o", tmp_path / "e.safetensors")
    done = cli("fit", table, "--max-advantage", 0.1, *options)
    assert "Got --max-advantage without --rank auto" in done.err
    done = cli("fit", table, "-c", "gender", "--groups", "id", "-o", tmp_path / "e.safetensors")
    assert done.code == 2
    assert "Got --groups without --rank auto" in done.err
    done = cli("fit", table, "--rank", "atuo", *options)
    assert re.search("--rank atuo.*0.5.*auto", done.err)


# -- Several concepts, numbers, given and kept ----------------------------------------------------


@pytest.fixture
def people(tmp_path, rows):
    """Rows with a gender, an age in whole years, a score and a job, in a CSV file."""
    X, gender = rows
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=[f"e_{i}" for i in range(6)])
    columns = {
        "gender": gender,
        "age": rng.integers(18, 80, len(X)),
        "score": rng.random(len(X)),
        "job": rng.choice(["nurse", "judge"], len(X)),
    }
    path = tmp_path / "people.csv"
    frame.assign(**columns).to_csv(path, index=False)
    return path, X, pd.DataFrame(columns)


def test_several_concepts_given_a_task(cli, people, tmp_path):
    path, X, Z = people
    out = tmp_path / "e.safetensors"
    options = ("--concept", "gender,age", "--kind", "age=continuous", "--given", "job")
    done = cli("fit", path, "-f", "e_*", *options, "-m", "leace", "-o", out)
    assert done.code == 0, done.err
    eraser = load(out)
    expected = LEACE().fit(
        X, Table.read(Z[["gender", "age"]], kinds={"age": "continuous"}), given=Z["job"]
    )
    np.testing.assert_allclose(eraser.P, expected.eraser_.P, atol=1e-5)
    assert eraser.metadata["concept_name"] == "gender,age"
    shown = cli("inspect", out).out
    for text in (done.out, shown):
        assert "categories: f (200), m (200)" in text
        assert "continuous" in text
        assert "job (categories)" in text


def test_given_several_columns(cli, people, tmp_path):
    path, X, Z = people
    out = tmp_path / "e.safetensors"
    options = ("-c", "gender", "--given", "age,job", "-m", "leace", "-o", out)
    done = cli("fit", path, "-f", "e_*", *options)
    assert done.code == 0, done.err
    expected = LEACE().fit(X, Z["gender"], given=Z[["age", "job"]])
    np.testing.assert_allclose(load(out).P, expected.eraser_.P, atol=1e-5)
    assert "age,job (several)" in done.out


def test_a_number_is_known_by_its_values(cli, people, tmp_path):
    path, *_ = people
    out = tmp_path / "e.safetensors"
    done = cli("fit", path, "-f", "e_*", "-c", "score", "--keep", "job", "-r", 3, "-o", out)
    assert done.code == 0, done.err
    assert load(out).metadata["concept"] == "continuous"
    assert "job (categories)" in done.out


@pytest.mark.parametrize("kind", [(), ("--kind", "score=continuous")])
def test_transport_of_a_number_goes_on(cli, people, tmp_path, kind):
    path, X, Z = people
    out = tmp_path / "e.safetensors"
    method = ("-m", "transport:leopard", "-r", 1)
    done = cli("fit", path, "-f", "e_*", "-c", "score", *kind, *method, "-o", out)
    assert done.code == 0, done.err
    eraser = load(out)
    assert eraser.metadata["concept"] == "continuous"
    expected = make("transport:leopard", rank=1, random_state=0)
    np.testing.assert_allclose(eraser(X), expected.fit(X, Z["score"]).transform(X), atol=1e-3)


def test_methods_that_keep_a_task(cli, people, tmp_path):
    path, X, Z = people
    same = ("-f", "e_*", "-c", "gender", "--keep", "job", "-o")
    done = cli("fit", path, "--method", "splince", *same, tmp_path / "s.safetensors")
    assert done.code == 0, done.err
    expected = LEACE().fit(X, Z["gender"], keep=Z["job"]).eraser_
    np.testing.assert_allclose(load(tmp_path / "s.safetensors").P, expected.P, atol=1e-5)
    quick = ("--set", "n_rounds=1", "--set", "n_random_features=20")
    done = cli("fit", path, "--method", "obliviator", *quick, *same, tmp_path / "o.safetensors")
    assert done.code == 0, done.err
    assert load(tmp_path / "o.safetensors").metadata["keep"]["classes"]


@pytest.mark.parametrize(
    ("options", "needles"),
    [
        (("--concept", "gender,age"), ["whole numbers", "--kind age=continuous"]),
        (("--concept", "gender", "--given", "gender"), ["'gender'", "--given", "two columns"]),
        (("--concept", "gender", "--given", "jbo"), ["'jbo'", "Did you mean 'job'"]),
        (("--concept", "gender", "--kind", "age=continuous"), ["--kind", "gender"]),
        (("--concept", "gender", "-c", "age"), ["more than once", "comma list"]),
        (("--concept", "gender,score", "--method", "inlp"), ["2 concepts", "LEOPARD"]),
        (("--concept", "gender", "--method", "splince"), ["without --keep", "leace"]),
    ],
)
def test_goals_that_cannot_be(cli, people, tmp_path, options, needles):
    done = cli("fit", people[0], "-f", "e_*", *options, "-o", tmp_path / "e.safetensors")
    assert done.code == 2
    for needle in needles:
        assert needle in done.err


def test_the_name_of_the_file_says_what_it_is(cli, table):
    for command in ("fit", "path"):
        done = cli(command, table, "-f", "emb", "-c", "gender", "-o", table.parent / "e.pkl")
        assert done.code == 2
        assert "e.pkl" in done.err
        assert ".safetensors" in done.err
