"""Bias in Bios from small files in the formats its authors distribute."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from unspot.lab import load_bias_in_bios
from unspot.lab.bios import read_records

SIZES = {"train": 26, "dev": 4, "test": 10}
JOBS = ("nurse", "poet")


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "g": "fm"[i % 2],
            "p": JOBS[i // 2 % 2],
            "text": f"She is number {i}.",
            "start": int(rng.integers(9)),
            "hard_text": f"number {i}.",
            "hard_text_untokenized": f"Number {i}.",
        }
        for i in range(n)
    ]


@pytest.fixture
def folder(tmp_path):
    for i, (name, n) in enumerate(SIZES.items()):
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(records(n, i)))
        # The first number of a row says which biography it belongs to.
        np.save(tmp_path / f"{name}_cls.npy", vectors(n))
    return tmp_path


def vectors(n, width=3, shift=0.0):
    return (np.arange(n)[:, None] + np.zeros(width) + shift).astype(np.float32)


def test_pickles_and_states_are_joined_row_by_row(folder):
    data = load_bias_in_bios(folder)
    assert [len(split) for split in data] == [26, 4, 10]
    assert data.name == "bias-in-bios"
    for split in data:
        rows = split.X[:, 0].astype(int)
        assert split.z.tolist() == [("female", "male")[i % 2] for i in rows]
        assert split.y.tolist() == [JOBS[i // 2 % 2] for i in rows]


def test_states_may_lie_in_another_folder(folder):
    states = folder / "bert_encode_biasbios"
    states.mkdir()
    for name in SIZES:
        (folder / f"{name}_cls.npy").rename(states / f"{name}_cls.npy")
    assert len(load_bias_in_bios(folder, states=states).train) == 26


def test_mean_states_are_read_when_asked_for(folder):
    for name, n in SIZES.items():
        np.save(folder / f"{name}_avg.npy", vectors(n, shift=0.5))
    assert load_bias_in_bios(folder).train.X[0, 0] == 0
    assert load_bias_in_bios(folder, pooling="mean").train.X[0, 0] == 0.5


def test_states_called_after_the_split_or_zipped_are_found(folder):
    for name, n in SIZES.items():
        (folder / f"{name}_cls.npy").unlink()
        if name == "train":
            np.savez(folder / "train.npz", vectors(n))
        else:
            np.save(folder / f"{name}.npy", vectors(n))
    assert [len(split) for split in load_bias_in_bios(folder)] == [26, 4, 10]


def test_other_names_of_the_development_split(folder):
    (folder / "dev.pickle").rename(folder / "validation.pkl")
    (folder / "dev_cls.npy").rename(folder / "validation_cls.npy")
    assert len(load_bias_in_bios(folder).validation) == 4


@pytest.mark.parametrize(("z", "y"), [("z", "y"), ("gender", "profession"), ("g", "p")])
def test_arrays_with_labels_need_no_pickle(tmp_path, z, y):
    for name, n in SIZES.items():
        labels = {z: np.tile(["m", "f"], n // 2), y: np.resize(JOBS, n)}
        np.savez(tmp_path / f"{name}.npz", X=vectors(n), **labels)
    data = load_bias_in_bios(tmp_path)
    assert [len(split) for split in data] == [26, 4, 10]
    assert data.train.z[:2].tolist() == ["male", "female"]
    assert data.train.y[:2].tolist() == ["nurse", "poet"]


def test_one_file_is_split_and_the_same_seed_splits_it_the_same(tmp_path):
    n = 2_000
    z, y = np.tile(["m", "f"], n // 2), np.repeat(JOBS, n // 2)
    np.savez(tmp_path / "bios.npz", X=vectors(n), z=z, y=y)
    data = load_bias_in_bios(tmp_path)
    assert [len(split) for split in data] == [1_300, 200, 500]
    rows = np.concatenate([split.X[:, 0] for split in data])
    assert sorted(rows) == list(range(n))
    for split in data:
        assert (split.y == "nurse").mean() == pytest.approx(0.5, abs=0.01)
        assert split.z.tolist() == [("male", "female")[int(i) % 2] for i in split.X[:, 0]]
    again, other = load_bias_in_bios(tmp_path), load_bias_in_bios(tmp_path, random_state=1)
    np.testing.assert_array_equal(data.test.X, again.test.X)
    assert set(data.test.X[:, 0]) != set(other.test.X[:, 0])


def test_texts_without_states_say_what_to_run(folder):
    (folder / "dev_cls.npy").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        load_bias_in_bios(folder)
    message = str(caught.value)
    assert "with biographies as text, but no dev_cls.npy in" in message
    assert "numpy.save('dev_cls.npy', X)" in message


def test_absent_files_are_named_with_where_they_come_from(folder, tmp_path):
    (folder / "test.pickle").unlink()
    with pytest.raises(FileNotFoundError, match=r"without test.pickle or test.npz.*nullspace_proj"):
        load_bias_in_bios(folder)
    with pytest.raises(FileNotFoundError, match=r"no such folder. Bias in Bios .*train.pickle"):
        load_bias_in_bios(tmp_path / "nowhere")


def test_a_malicious_pickle_is_refused(folder):
    trace = folder / "it-ran"

    class Malicious:
        def __reduce__(self):
            return Path.touch, (trace,)

    (folder / "train.pickle").write_bytes(pickle.dumps([Malicious()]))
    with pytest.raises(ValueError, match=r"train.pickle', a pickle that asks for pathlib"):
        load_bias_in_bios(folder)
    assert not trace.exists()


def test_states_of_another_number_are_refused(folder):
    np.save(folder / "train_cls.npy", vectors(25))
    with pytest.raises(ValueError, match=r"Got 25 rows in .* and 26 biographies in .*same order"):
        load_bias_in_bios(folder)


def test_states_of_another_shape_are_refused(folder):
    np.save(folder / "train_cls.npy", np.zeros((26, 2, 2)))
    with pytest.raises(ValueError, match=r"expected \(rows, features\)"):
        load_bias_in_bios(folder)


def test_biographies_without_gender_are_refused(folder):
    some = records(26)
    del some[3]["g"]
    (folder / "train.pickle").write_bytes(pickle.dumps(some))
    with pytest.raises(ValueError, match=r"biography 3 has no 'g' \(it has p, text"):
        load_bias_in_bios(folder)


@pytest.mark.parametrize("content", [{"g": "f"}, ["a", "b"], "text", 3])
def test_a_pickle_of_something_else_is_refused(tmp_path, content):
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match="holds no list of dicts"):
        read_records(tmp_path / "x.pickle")


def test_no_biographies_are_an_error(folder):
    (folder / "train.pickle").write_bytes(pickle.dumps([]))
    with pytest.raises(ValueError, match="but expected 'g'"):
        load_bias_in_bios(folder)


def test_arrays_without_labels_are_refused(tmp_path):
    for name, n in SIZES.items():
        np.savez(tmp_path / f"{name}.npz", X=vectors(n))
    message = r"with arrays X, but expected also z or gender or g and y or profession or occup"
    with pytest.raises(ValueError, match=message):
        load_bias_in_bios(tmp_path)


def test_unknown_pooling_is_refused(folder):
    with pytest.raises(ValueError, match="Got pooling='max', but expected 'cls' or 'mean'"):
        load_bias_in_bios(folder, pooling="max")
