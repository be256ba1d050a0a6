"""Data of a benchmark: by name, by folder, by file; and what differs from the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspot.bench.data import open_data


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    z, y = np.tile(["f", "m"], 150), np.repeat(["nurse", "poet", "chef"], 100)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(300, 4)).astype(np.float16), z=z, y=y)
    return tmp_path / "rows.npz"


def test_the_bundled_words():
    found = open_data("glove")
    assert found.paper == "glove"
    assert "Vectors of 100 dimensions; the paper's have 300" in found.difference
    assert "rows; the paper has" not in found.difference  # the same splits


def test_a_file_alone_has_no_paper(file):
    found = open_data(str(file))
    assert found.paper is None
    assert found.difference == ""
    assert found.data.name == "rows"
    assert found.data.train.X.dtype == np.float32
    assert set(found.data.train.y) == {"nurse", "poet", "chef"}


def test_a_file_beside_the_paper_says_what_it_is(file):
    found = open_data("bios", source=file)
    assert found.paper == "bios"
    assert "Rows of rows.npz, which are not the paper's." in found.difference
    assert "largest batch has 8,192 rows; ours has all." in found.difference
    assert "150 / 60 / 90 rows; the paper has 255,710 / 39,369 / 98,344." in found.difference


def test_the_authors_folder(file):
    file.rename(file.parent / "bios.npz")
    found = open_data("bios", source=file.parent)
    assert found.paper == "bios"
    assert set(found.data.train.z) == {"female", "male"}


def test_a_sample_of_the_training_rows(file):
    found = open_data(str(file), max_rows=40)
    assert len(found.data.train) == 40
    assert len(found.data.test) == 90
    assert "Fitted on 40 of 150 training rows." in found.difference
    assert len(open_data(str(file), max_rows=4000).data.train) == 150


def test_no_task_is_measured_where_there_is_none(tmp_path):
    frame = pd.DataFrame({"e_0": np.arange(40.0), "e_1": 1.0, "gender": ["f", "m"] * 20})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    found = open_data(str(tmp_path / "rows.csv"), concept="gender", features="e_*")
    assert found.data.train.y is None
    with pytest.raises(ValueError, match=r"Got column 'job', but .*has no such column"):
        open_data(str(tmp_path / "rows.csv"), concept="gender", task="job")
    with pytest.raises(ValueError, match=r"Got column 'gendre'.*Did you mean 'gender'"):
        open_data(str(tmp_path / "rows.csv"), concept="gendre")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("glov", r"no benchmark \(glove, bios, dial\) and no file. Did you mean glove\?"),
        ("none.npz", "Got 'none.npz', but there is no such file"),
        (
            "bios",
            "Got no folder for 'bios'.*--data FOLDER. Bias in Bios .*train.pickle.*repository",
        ),
        ("dial", "Got no folder for 'dial'.*pos_pos.npy.*from the repository"),
    ],
)
def test_data_that_are_not_there(name, message):
    with pytest.raises(FileNotFoundError, match=message):
        open_data(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bios", "without train.pickle or train.npz, .*Bias in Bios .* comes as"),
        ("dial", "DIAL .*come as pos_pos.npy"),
        ("glove", "glove"),
    ],
)
def test_folders_without_their_files(tmp_path, name, message):
    source = tmp_path / "glove.42B.300d.txt" if name == "glove" else tmp_path
    with pytest.raises(FileNotFoundError, match=message):
        open_data(name, source=source)


def test_a_file_and_a_source(file):
    with pytest.raises(ValueError, match="but expected one of them: a benchmark"):
        open_data(str(file), source=file)
