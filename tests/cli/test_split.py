"""One file becomes two: nothing is lost, and nothing is on both sides."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def frame(rng):
    X = rng.normal(size=(400, 3))
    X[360:] = X[:40]  # repeats
    columns = {f"e_{i}": X[:, i] for i in range(3)}
    author = np.concatenate([np.arange(360) // 4, rng.integers(90, 120, 40)])
    dialect = rng.choice(["a", "b", None], size=400, p=[0.6, 0.3, 0.1])
    text = [f"text, {i}" for i in range(400)]
    return pd.DataFrame({"text": text, **columns, "author": author, "dialect": dialect})


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv"])
def test_a_table_is_split_by_groups_with_all_its_columns(ending, cli, frame, tmp_path):
    source, *outputs = (tmp_path / f"{name}.{ending}" for name in ("data", "train", "test"))
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv}.get(
        ending, lambda f: pd.read_csv(f, sep="\t")
    )
    if ending == "parquet":
        frame.to_parquet(source)
    else:
        frame.to_csv(source, index=False, sep="," if ending == "csv" else "\t")
    names = ("-f", "e_*", "-c", "dialect", "--groups", "author")
    done = cli("split", source, *names, "-o", *outputs, "--test", "0.25")
    assert done.code == 0, done.err
    train, test = map(read, outputs)
    whole = pd.concat([train, test]).sort_values("text", ignore_index=True)
    pd.testing.assert_frame_equal(whole, read(source).sort_values("text", ignore_index=True))
    assert not set(train.author) & set(test.author)
    assert not set(train.e_0) & set(test.e_0)
    assert len(test) == pytest.approx(100, abs=10)
    assert (test.dialect == "a").mean() == pytest.approx((frame.dialect == "a").mean(), abs=0.1)
    assert f"{frame.dialect.isna().sum()} rows have no label in 'dialect'" in done.err
    assert "40 rows repeat the vector of another" in done.err
    again = cli("split", source, *names, "-o", *outputs)
    assert again.code == 2
    assert "--force" in again.err


def test_arrays_are_split_with_their_labels(cli, rng, tmp_path):
    X, age = rng.normal(size=(300, 4)), rng.integers(18, 80, 300)
    np.savez(tmp_path / "a.npz", X=X, age=age, names=["e", "f"])
    np.save(tmp_path / "a.npy", X)
    np.savetxt(tmp_path / "age.txt", age, fmt="%d")
    outputs = [tmp_path / "train.npz", tmp_path / "test.npz"]
    for name, more in (
        ("a.npz", ("--kind", "continuous")),
        ("a.npy", ("--labels", tmp_path / "age.txt")),
    ):
        done = cli("split", tmp_path / name, "-c", "age", *more, "-o", *outputs, "--force")
        assert done.code == 0, done.err
        train, test = map(np.load, outputs)
        assert len(test["X"]) == pytest.approx(90, abs=3)
        rows = np.concatenate([train["X"], test["X"]])
        order, kept = np.argsort(rows[:, 0]), np.argsort(X[:, 0])
        np.testing.assert_array_equal(rows[order], X[kept])
        ages = np.concatenate([train["age"], test["age"]])[order]
        assert list(map(int, ages)) == age[kept].tolist()
    wrong = cli("split", tmp_path / "a.npz", "-c", "age", "-o", "one.csv", "two.csv")
    assert "two names that end in .npz" in wrong.err
