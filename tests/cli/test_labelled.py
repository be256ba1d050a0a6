"""Labels in a file of their own, for the rows to judge on and for those to learn from."""

import re

import numpy as np
import pytest

from unspot import Eraser, load

EVALUATE = ("evaluate", "--metrics", "chance,linear", "--set", "seeds=1")
CERTIFY = ("certify", "--set", "attackers=logistic", "--budget", "quick")


@pytest.fixture
def files(cli, rows, tmp_path):
    """Two arrays, the labels of each as text and as a table, and an eraser of the first."""
    X, z = rows
    for name, part in (("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
        np.save(tmp_path / f"{name}.npy", X[part])
        (tmp_path / f"{name}.txt").write_text("\n".join(z[part]) + "\n")
        (tmp_path / f"{name}.csv").write_text("\n".join(["gender", *z[part]]) + "\n")
    return tmp_path


@pytest.fixture(params=["txt", "csv"])
def kind(request):
    """Without --concept a fit calls the concept after the file; a column is called otherwise."""
    return request.param


@pytest.fixture
def fitted(cli, files, kind):
    path = files / "e.safetensors"
    labels = files / f"a.{kind}"
    done = cli("fit", files / "a.npy", "--labels", labels, "-m", "leace", "-o", path)
    assert done.code == 0, done.err
    return path


@pytest.mark.parametrize("command", [EVALUATE, CERTIFY])
def test_labels_of_the_rows(cli, files, fitted, kind, command):
    name, *options = command
    done = cli(name, fitted, files / "b.npy", "--labels", files / f"b.{kind}", *options)
    assert done.has_verdict, done.err
    assert "200 rows" in done.out


def test_rows_without_labels_say_the_option(cli, files, fitted):
    done = cli("evaluate", fitted, files / "b.npy")
    assert done.code == 2
    assert re.search("b.npy'.*without labels.*--labels", done.err)


@pytest.mark.parametrize("command", [("evaluate", "-m", "linear"), ("certify", "-b", "quick")])
def test_numbers_in_a_file_of_their_own(cli, files, fitted, command):
    np.save(files / "age.npy", np.linspace(20.0, 60.0, 200))
    name, *options = command
    done = cli(name, fitted, files / "b.npy", "--labels", files / "age.npy", *options)
    assert done.has_verdict, done.err
    assert "R²" in done.out


def test_a_column_that_was_asked_for_is_not_replaced(cli, files, fitted):
    done = cli("evaluate", fitted, files / "b.npy", "--labels", files / "b.csv", "-c", "sex")
    assert done.code == 2
    assert "'sex'" in done.err


@pytest.mark.parametrize("command", [EVALUATE, CERTIFY])
@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_names_of_the_fit_do_not_block_an_array_without_names(
    cli, files, rows, table, kind, command
):
    X, z = rows
    np.savez(files / "data.npz", X=X[::2], gender=z[::2])
    fitted, data = files / "named.safetensors", files / f"data.{kind}"
    assert cli("fit", data, "-c", "gender", "-m", "leace", "-o", fitted, "-q").code == 0
    np.save(files / "new.npy", X[1::2] + 1)  # rows that no fit has seen
    name, *options = command
    done = cli(name, fitted, files / "new.npy", "--labels", files / "b.txt", *options)
    assert done.has_verdict, done.err
    done = cli(name, fitted, files / "new.npy", "--labels", files / "b.txt", "-f", "X", *options)
    assert done.code == 2  # what is asked for is not ignored
    assert re.search("'X'.*new.npy.*--labels", done.err)


@pytest.fixture
def spaced(rows, tmp_path):
    """Two CSV files as people write them: a space behind each comma of the header."""
    X, z = rows
    header = ", ".join([*(f"e_{i}" for i in range(6)), "gender"]).replace(" gender", "gender")
    for name, part in (("a", slice(0, None, 2)), ("b", slice(1, None, 2))):
        lines = [",".join([*map(str, x), c]) for x, c in zip(X[part], z[part], strict=True)]
        (tmp_path / f"spaced_{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    return tmp_path


def test_columns_whose_names_begin_with_a_space(cli, spaced):
    fitted = spaced / "e.safetensors"
    done = cli("fit", spaced / "spaced_a.csv", "-c", "gender", "-m", "leace", "-o", fitted)
    assert done.code == 0, done.err
    name, *options = EVALUATE
    done = cli(name, fitted, spaced / "spaced_b.csv", *options)
    assert done.code == 0, done.err
    done = cli("transform", fitted, spaced / "spaced_b.csv", "-o", spaced / "clean.csv")
    assert done.code == 0, done.err
    assert (spaced / "clean.csv").read_text().splitlines()[0].count(" e_") == 5


def test_columns_of_a_table_are_one_array_of_an_npz(cli, spaced, rows):
    fitted = spaced / "e.safetensors"
    assert (
        cli("fit", spaced / "spaced_a.csv", "-c", "gender", "-m", "leace", "-o", fitted).code == 0
    )
    np.savez(spaced / "new.npz", X=rows[0] + 1, gender=rows[1])
    name, *options = EVALUATE
    done = cli(name, fitted, spaced / "new.npz", *options)
    assert done.code == 0, done.err


# -- Labels by key, and with gaps ------------------------------------------------------------------


@pytest.fixture
def keyed(table, rows, tmp_path):
    """Labels of some rows in another order, as text with semicolons."""
    order = np.random.default_rng(0).permutation(400)[:360]
    lines = ["id;gender", *(f"{i};{rows[1][i] if i % 50 else ''}" for i in order)]
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(lines) + "\n")
    kept = sum(1 for i in order if i % 50)
    return table, path, kept


BY_KEY = ("--set", "key=id", "--set", "drop_missing=true")


def test_a_fit_by_key(cli, keyed, tmp_path):
    data, labels, kept = keyed
    out = tmp_path / "e.safetensors"
    asked = ("fit", data, "-f", "emb", "-c", "gender", "-m", "leace", "-o", out, "--labels", labels)
    for option, said in (
        ((), "another order.*--set key=id"),
        (("--set", "key=id"), "missing labels"),
    ):
        done = cli(*asked, *option)
        assert done.code == 2
        assert re.search(said, done.err)
    done = cli(*asked, *BY_KEY)
    assert done.code == 0, done.err
    assert f"Left out {400 - kept} of 400 rows" in done.err
    assert load(out).metadata["n_rows"] == kept
    silent = cli(*asked, *BY_KEY, "--quiet", "--force")
    assert silent.err == silent.out == ""


@pytest.mark.parametrize("command", [EVALUATE, CERTIFY])
def test_evidence_by_key(cli, keyed, tmp_path, command):
    data, labels, kept = keyed
    eraser = tmp_path / "e.safetensors"
    Eraser.projection(np.eye(6)[:, 2:]).save(eraser)
    name, *options = command
    asked = (name, eraser, data, "-f", "emb", "-c", "gender", "--labels", labels, *options)
    done = cli(*asked, *BY_KEY)
    assert done.has_verdict, done.err
    assert f"Left out {400 - kept} of 400 rows" in done.err
    assert (
        cli(name, eraser, data, "-f", "emb", "-c", "gender", "--set", "key=id", *options).code == 2
    )


def test_a_path_by_key(cli, keyed):
    data, labels, kept = keyed
    asked = ("path", data, "-f", "emb", "-c", "gender", "-m", "pca", "--ranks", "3")
    done = cli(*asked, "--set", "metrics=none", "--labels", labels, *BY_KEY)
    assert done.code == 0, done.err
    assert f"Left out {400 - kept} of 400 rows" in done.err
