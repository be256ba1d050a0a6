"""Data of a sweep: by name, by folder, by file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspot.datasets.synthetic import law
from unspot.lab.data import open_data


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    z, y = np.tile(["f", "m"], 150), np.repeat(["nurse", "poet", "chef"], 100)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(300, 4)).astype(np.float16), z=z, y=y)
    return tmp_path / "rows.npz"


def test_a_file(file):
    data = open_data(str(file))
    assert data.name == "rows"
    assert data.train.X.dtype == np.float32
    assert set(data.train.y) == {"nurse", "poet", "chef"}


def test_the_authors_folder(file):
    file.rename(file.parent / "bios.npz")
    data = open_data("bios", source=file.parent)
    assert set(data.train.z) == {"female", "male"}


def test_other_rows_under_a_name(file):
    assert open_data("dial", source=file).n_features == 4


def test_a_sample_of_the_training_rows(file):
    data = open_data(str(file), max_rows=40)
    assert len(data.train) == 40
    assert len(data.test) == 90
    assert len(open_data(str(file), max_rows=4000).train) == 150


def test_no_task_is_measured_where_there_is_none(tmp_path):
    frame = pd.DataFrame({"e_0": np.arange(40.0), "e_1": 1.0, "gender": ["f", "m"] * 20})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = open_data(str(tmp_path / "rows.csv"), concept="gender", features="e_*")
    assert data.train.y is None
    with pytest.raises(ValueError, match=r"'job'.*no such column"):
        open_data(str(tmp_path / "rows.csv"), concept="gender", task="job")
    with pytest.raises(ValueError, match=r"'gendre'.*Did you mean 'gender'"):
        open_data(str(tmp_path / "rows.csv"), concept="gendre")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "glov",
            r"Got 'glov'.*no such file.*\(glove, bios, dial, translations, .*xor.*mean 'glove'\?",
        ),
        ("none.npz", "Got 'none.npz'.*no such file"),
        ("bios", "no folder for 'bios'.*--data FOLDER. Bias in Bios .*train.pickle.*repository"),
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


def test_the_verses_of_the_package(file):
    data = open_data("translations")
    assert data.name == "translations"
    assert data.train.groups is not None  # verses, of which each is in three translations
    with pytest.raises(ValueError, match=r"translations.*expected one of them"):
        open_data("translations", source=file)


def test_a_synthetic_law_by_its_name():
    data = open_data("xor", random_state=3)
    drawn = law("xor", n=12_000, random_state=3)
    assert (data.name, data.n_features, data.train.y) == ("xor", 20, None)
    assert set(map(bytes, data.test.X)) <= set(map(bytes, drawn.X))


def test_a_file_and_a_source(file):
    with pytest.raises(ValueError, match=r"rows.npz.*expected one of them.*glove, bios, dial"):
        open_data(str(file), source=file)
