"""DIAL from small files of the format its authors distribute."""

from __future__ import annotations

import numpy as np
import pytest

from unspot.lab import load_dial

SIZES = {"train": 20, "dev": 3, "test": 4}
#: A number that stands for the cell, so that a row says where it came from.
CELLS = {"pos_pos": 0, "pos_neg": 1, "neg_pos": 2, "neg_neg": 3}
MEANING = [("happy", "AAE"), ("happy", "SAE"), ("sad", "AAE"), ("sad", "SAE")]


def write(folder, n, width=3):
    folder.mkdir(exist_ok=True)
    for cell, code in CELLS.items():
        rows = np.full((n, width), code, dtype=np.float32)
        rows[:, 1] = np.arange(n)
        np.save(folder / f"{cell}.npy", rows)


@pytest.fixture
def folder(tmp_path):
    for name, n in SIZES.items():
        write(tmp_path / name, n)
    return tmp_path


def test_the_first_word_is_the_sentiment_and_the_second_the_race(folder):
    data = load_dial(folder)
    assert data.name == "dial"
    assert [len(split) for split in data] == [80, 12, 16]
    for split in data:
        meaning = [MEANING[int(code)] for code in split.X[:, 0]]
        assert list(zip(split.y, split.z, strict=True)) == meaning
        assert (split.z == "AAE").mean() == (split.y == "happy").mean() == 0.5


def test_other_names_of_the_development_folder(folder):
    (folder / "dev").rename(folder / "valid")
    assert len(load_dial(folder).validation) == 12


def test_files_without_a_split_are_split_here(tmp_path):
    write(tmp_path, 110)
    data = load_dial(tmp_path)
    assert [len(split) for split in data] == [400, 20, 20]
    rows = [tuple(row[:2]) for split in data for row in split.X]
    assert len(set(rows)) == 440
    for split in data:
        assert [(split.X[:, 0] == code).sum() for code in range(4)] == [len(split) // 4] * 4
        meaning = [MEANING[int(code)] for code in split.X[:, 0]]
        assert list(zip(split.y, split.z, strict=True)) == meaning
    np.testing.assert_array_equal(data.test.X, load_dial(tmp_path).test.X)
    assert not np.array_equal(data.test.X, load_dial(tmp_path, random_state=1).test.X)


def test_files_of_unequal_length_are_balanced(tmp_path):
    write(tmp_path, 220)
    np.save(tmp_path / "neg_pos.npy", np.full((22, 3), 2.0))
    assert [len(split) for split in load_dial(tmp_path)] == [80, 4, 4]


def test_absent_files_are_named_with_where_they_come_from(folder, tmp_path):
    (folder / "dev" / "neg_pos.npy").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"dev' without neg_pos.npy, .*nullspace_projection"
    ):
        load_dial(folder)
    with pytest.raises(FileNotFoundError, match=r"no such folder. The DeepMoji vectors of DIAL"):
        load_dial(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"without a folder train in it.*KRaM"):
        load_dial(empty)


def test_vectors_of_different_widths_are_refused(folder):
    np.save(folder / "train" / "pos_neg.npy", np.zeros((20, 5)))
    with pytest.raises(ValueError, match=r"vectors of different widths .*\[3, 5\]"):
        load_dial(folder)


def test_too_few_rows_to_split_are_refused(tmp_path):
    write(tmp_path, 2)
    with pytest.raises(ValueError, match="Got 2 rows in the smallest file"):
        load_dial(tmp_path)


def test_arrays_of_objects_are_refused(folder):
    np.save(folder / "train" / "pos_neg.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match="unpickling, which can run any code"):
        load_dial(folder)
