"""The bundled words, the recipe that chooses them, and the script that builds the bundle."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from unspot.datasets.bundled import CLASSES
from unspot.lab.glove import (
    DEFINITIONAL_PAIRS,
    from_bundle,
    gender_direction,
    glove_gender,
    load_bundled,
    load_glove,
    read_glove,
    to_bundle,
)
from unspot.lab.words import load_wordsim353

ROOT = Path(__file__).parents[2]
SOURCE = ROOT.parent / "shared" / "data" / "glove6B_100d_top150k_f16.npz"
BUNDLE = Path(str(files("unspot.datasets"))) / "data" / "glove_gender.npz"
DEFINING = [word for pair in DEFINITIONAL_PAIRS for word in pair]


@pytest.fixture(scope="module")
def data():
    return load_bundled()


@pytest.fixture(scope="module")
def tool():
    path = ROOT / "tools" / "build_glove_gender.py"
    spec = importlib.util.spec_from_file_location("build_glove_gender", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def vocabulary(n=300, d=8, seed=0):
    """Words of letters with random vectors in which gender is the first coordinate."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghij"))
    words = ["w" + "".join(letters[[i // 100, i // 10 % 10, i % 10]]) for i in range(n)]
    X = rng.normal(size=(n + len(DEFINING), d))
    X[n::2, 0] = -9  # she, woman, …
    X[n + 1 :: 2, 0] = 9
    return np.array(words + DEFINING), X


# -- the bundle ----------------------------------------------------------------------------------


def test_the_bundle_has_the_sizes_of_the_paper(data):
    assert [len(split) for split in data] == [10_777, 4_620, 6_599]
    assert data.n_features == 100
    assert data.name == "glove-gender"
    names = np.concatenate([split.names for split in data])
    assert len(set(names)) == 21_996
    assert all(name.isalpha() and len(name) < 20 for name in names)


def test_the_bundle_is_balanced_in_every_split(data):
    for split in data:
        assert split.X.dtype == np.float32
        assert np.isfinite(split.X).all()
        classes, counts = np.unique(split.z, return_counts=True)
        assert classes.tolist() == ["female", "male", "neutral"]
        assert np.ptp(counts) <= 2
    for k in CLASSES:
        assert sum((split.z == k).sum() for split in data) == 7_332


def test_gender_is_linear_in_the_bundled_vectors_and_generalises(data):
    # Scores are cosines with one direction, so a direction found on train must order test.
    def unit(X):
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    position = {"female": -1, "neutral": 0, "male": 1}
    target = np.array([position[z] for z in data.train.z])
    direction = np.linalg.lstsq(unit(data.train.X), target, rcond=None)[0]
    scores = unit(data.test.X) @ direction
    female, neutral, male = (scores[data.test.z == k] for k in position)
    assert np.quantile(female, 0.99) < np.quantile(male, 0.01)
    assert np.quantile(female, 0.9) < np.median(neutral) < np.quantile(male, 0.1)


def test_defining_words_have_their_own_gender(data):
    gender = {w: k for split in data for w, k in zip(split.names, split.z, strict=True)}
    for word in ("he", "his", "father", "john", "son", "boy"):
        assert gender.get(word, "male") == "male"
    for word in ("mary", "herself", "daughter"):
        assert gender.get(word, "female") == "female"


def test_every_wordsim_word_has_a_vector(data):
    pairs = load_wordsim353("all")
    assert set(pairs.first) | set(pairs.second) == set(data.lexicon.words)
    assert data.lexicon.X.shape == (437, 100)
    assert data.lexicon.X.dtype == np.float32


def test_word_similarity_of_the_bundle_is_that_of_glove(data):
    from scipy.stats import spearmanr

    where = {w: i for i, w in enumerate(data.lexicon.words)}
    V = data.lexicon.X / np.linalg.norm(data.lexicon.X, axis=1, keepdims=True)
    pairs = load_wordsim353()
    first, second = ([where[w] for w in words] for words in pairs[:2])
    cosines = (V[first] * V[second]).sum(axis=1)
    # Published values for GloVe 6B 100-d lie around 0.6.
    assert 0.5 < spearmanr(cosines, pairs.scores).statistic < 0.75


def test_the_bundle_is_small_and_holds_no_pickle():
    assert BUNDLE.stat().st_size < 6_000_000
    with np.load(BUNDLE, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_the_attribution_names_this_very_bundle():
    text = (BUNDLE.parent / "ATTRIBUTION.md").read_text()
    assert hashlib.sha256(BUNDLE.read_bytes()).hexdigest() in text
    assert "Pennington" in text
    assert "Finkelstein" in text


def test_loading_needs_neither_torch_nor_sklearn():
    code = (
        "import sys; from unspot.datasets import load_glove_gender; load_glove_gender(); "
        "print([m for m in ('torch', 'sklearn', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- building it ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not SOURCE.is_file(), reason="the GloVe vectors are not beside the project")
def test_the_bundle_is_rebuilt_bit_for_bit(tool):
    assert tool.build(SOURCE) == BUNDLE.read_bytes()


def test_npz_files_have_no_time_stamp(tool, tmp_path):
    arrays = {"a": np.arange(3), "b": np.zeros((2, 2), np.float16)}
    content = tool.npz(arrays)
    assert content == tool.npz(arrays)
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with np.load(path) as read:
        assert read["a"].tolist() == [0, 1, 2]
        assert read["b"].dtype == np.float16


def test_the_script_writes_a_bundle_that_the_loader_reads(tool, tmp_path, monkeypatch, capsys):
    words, X = vocabulary()
    np.savez(tmp_path / "source.npz", words=words, X=X)
    monkeypatch.setattr(tool, "glove_gender", lambda words, X: glove_gender(words, X, per_class=50))
    tool.main([str(tmp_path / "source.npz"), "-o", str(tmp_path / "out.npz")])
    assert "sha256" in capsys.readouterr().out
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        data = from_bundle(dict(arrays))
    assert sum(len(split) for split in data) == 150


def test_a_bundle_gives_back_the_data_set():
    words, X = vocabulary()
    data = glove_gender(words, X.astype(np.float16), per_class=50)
    again = from_bundle(to_bundle(data))
    for split, other in zip(data, again, strict=True):
        np.testing.assert_array_equal(split.X, other.X)
        np.testing.assert_array_equal(split.z, other.z)
        np.testing.assert_array_equal(split.names, other.names)
    assert again.name == data.name


# -- the recipe ----------------------------------------------------------------------------------


def test_classes_are_the_extremes_and_the_middle():
    words, X = vocabulary()
    data = glove_gender(words, X, per_class=40)
    score = dict(zip(words, X[:, 0] / np.linalg.norm(X, axis=1), strict=True))
    chosen = {k: [score[w] for s in data for w in s.names[s.z == k]] for k in CLASSES}
    others = set(words) - {w for s in data for w in s.names}
    assert min(chosen["male"]) >= max(score[w] for w in others) - 0.05
    assert max(chosen["female"]) <= min(score[w] for w in others) + 0.05
    assert max(np.abs(chosen["neutral"])) <= min(abs(score[w]) for w in others) + 0.05


def test_the_direction_is_the_first_component_of_the_differences_with_male_positive():
    words, X = vocabulary()
    direction = gender_direction(words, X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    where = {w: i for i, w in enumerate(words)}
    centred = []
    for female, male in DEFINITIONAL_PAIRS:
        pair = unit[[where[female], where[male]]]
        centred.extend(pair - pair.mean(axis=0))
    _, vectors = np.linalg.eigh(np.array(centred).T @ np.array(centred))
    assert abs(direction @ vectors[:, -1]) == pytest.approx(1)
    assert np.linalg.norm(direction) == pytest.approx(1)
    assert X[where["he"]] @ direction > 0 > X[where["she"]] @ direction


def test_the_direction_does_not_see_lengths():
    words, X = vocabulary()
    lengths = np.random.default_rng(1).uniform(0.5, 3, size=(len(X), 1))
    np.testing.assert_allclose(
        gender_direction(words, X), gender_direction(words, X * lengths), atol=1e-12
    )


def test_a_word_falls_in_the_same_split_whatever_the_order_of_the_vocabulary():
    words, X = vocabulary()
    shuffled = np.random.default_rng(0).permutation(len(words))
    for a, b in zip(
        glove_gender(words, X, per_class=50),
        glove_gender(words[shuffled], X[shuffled], per_class=50),
        strict=True,
    ):
        assert set(a.names) == set(b.names)


def test_words_with_other_characters_and_long_words_are_left_out():
    words, X = vocabulary()
    words = words.astype("U40")
    words[:3] = ["it's", "u2", "x" * 20]
    names = np.concatenate([s.names for s in glove_gender(words, X, per_class=100)])
    assert not {"it's", "u2", "x" * 20} & set(names)


def test_a_zero_vector_is_neutral():
    words, X = vocabulary()
    X[7] = 0
    data = glove_gender(words, X, per_class=50)
    gender = {w: k for split in data for w, k in zip(split.names, split.z, strict=True)}
    assert gender[words[7]] == "neutral"


def test_the_lexicon_finds_words_in_capitals():
    words, X = vocabulary()
    words = words.astype("U40")
    words[0], words[1] = "FBI", "tiger"
    lexicon = glove_gender(words, X, per_class=50).lexicon
    assert {"fbi", "tiger"} <= set(lexicon.words)
    np.testing.assert_array_equal(
        lexicon.X[lexicon.words.tolist().index("fbi")], X[0].astype(np.float32)
    )


def test_missing_defining_words_are_named():
    words, X = vocabulary()
    kept = words != "gal"
    with pytest.raises(ValueError, match=r"without gal, but expected both words of the ten"):
        glove_gender(words[kept], X[kept], per_class=50)


def test_too_few_words_is_an_error_with_the_number_that_would_do():
    words, X = vocabulary()
    with pytest.raises(ValueError, match=r"Got per_class=7332 and 320 words.*at most 106"):
        glove_gender(words, X)


def test_words_and_vectors_of_different_number_are_refused():
    words, X = vocabulary()
    with pytest.raises(ValueError, match=r"expected one vector for each word"):
        glove_gender(words[1:], X)


def test_a_text_file_gives_the_same_data_set_as_its_arrays(tmp_path, monkeypatch):
    words, X = vocabulary()
    path = tmp_path / "glove.tiny.txt"
    lines = [f"{w} " + " ".join(repr(float(v)) for v in x) for w, x in zip(words, X, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(
        "unspot.lab.glove.glove_gender",
        lambda words, X: glove_gender(words, X, per_class=50),
    )
    from_file = load_glove(path)
    for a, b in zip(from_file, glove_gender(words, X, per_class=50), strict=True):
        np.testing.assert_array_equal(a.names, b.names)
        np.testing.assert_array_equal(a.X, b.X)


def test_the_path_of_an_absent_file_says_where_it_comes_from(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file. Get glove.6B.zip or glove.42B"):
        load_glove(tmp_path / "glove.42B.300d.txt")
    with pytest.raises(FileNotFoundError, match=r"nlp\.stanford\.edu"):
        read_glove(tmp_path / "glove.42B.300d.txt")
