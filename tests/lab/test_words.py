"""Word similarity against scipy, files as they are published, and words that are not there."""

from importlib.resources import files

import numpy as np
import pytest
from scipy.stats import spearmanr

from unspot.lab.glove import load_bundled
from unspot.lab.words import WordPairs, load_pairs, load_wordsim353, word_similarity


def vocabulary(m=40, d=8):
    rng = np.random.default_rng(0)
    return [f"w{i}" for i in range(m)], rng.normal(size=(m, d))


def some_pairs(words, n=30, seed=1):
    rng = np.random.default_rng(seed)
    first, second = rng.choice(words, size=(2, n))
    return WordPairs(first, second, rng.normal(size=n))


def test_equals_spearman_of_cosines():
    words, X = vocabulary()
    pairs = some_pairs(words)
    cosines = []
    for a, b, _ in zip(*pairs, strict=True):
        u, v = X[words.index(a)], X[words.index(b)]
        cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
    found = word_similarity(words, X, pairs)
    assert found.correlation == pytest.approx(spearmanr(cosines, pairs.scores)[0], rel=1e-9)
    assert (found.n_pairs, found.n_missing, found.missing_words) == (30, 0, ())


def test_lengths_of_vectors_do_not_matter_and_half_precision_is_read():
    words, X = vocabulary()
    pairs = some_pairs(words)
    scaled = word_similarity(words, X * np.arange(1, 41)[:, None], pairs)
    assert scaled == word_similarity(words, X, pairs)
    half = word_similarity(np.array(words), X.astype(np.float16), pairs)
    assert half.correlation == pytest.approx(scaled.correlation, abs=0.02)


def test_unknown_words_are_counted_and_named():
    words, X = vocabulary()
    known = some_pairs(words, n=5)
    pairs = WordPairs(
        [*known.first, "w1", "yeti"], [*known.second, "yeti", "nessie"], [*known.scores, 1.0, 2.0]
    )
    found = word_similarity(words, X, pairs)
    assert (found.n_pairs, found.n_missing) == (5, 2)
    assert found.missing_words == ("nessie", "yeti")
    assert found.correlation == word_similarity(words, X, known).correlation


def test_case_matters_unless_told_otherwise():
    words, X = vocabulary()
    pairs = WordPairs(["W1", "w3", "w5"], ["w2", "w4", "w6"], [1.0, 2.0, 3.0])
    assert word_similarity(words, X, pairs).missing_words == ("W1",)
    assert word_similarity(words, X, pairs, ignore_case=True).n_missing == 0


def test_a_repeated_word_means_its_first_row():
    words, X = vocabulary()
    pairs = some_pairs(words)
    repeated = word_similarity([*words, *words], np.vstack([X, -X[::-1]]), pairs)
    assert repeated == word_similarity(words, X, pairs)


def test_vectors_erased_to_zero_rank_nothing():
    words, X = vocabulary()
    assert word_similarity(words, 0 * X, some_pairs(words)).correlation == 0.0


def test_too_few_known_pairs_are_refused():
    words, X = vocabulary()
    with pytest.raises(ValueError, match="Got 0 of 1 pairs with both words in the vocabulary"):
        word_similarity(words, X, WordPairs(["yeti"], ["w1"], [1.0]))
    with pytest.raises(ValueError, match="Got 39 words for vectors of shape"):
        word_similarity(words[:-1], X, some_pairs(words))


@pytest.mark.parametrize(
    "text",
    [
        "word1\tword2\tscore\ntiger\tcat\t7.35\nplane\tcar\t5.77\n",
        "tiger\tcat\t7.35\nplane\tcar\t5.77\n",
        "# a comment\n# Word 1\tWord 2\tHuman (mean)\ntiger\tcat\t7.35\r\nplane\tcar\t5.77\r\n",
        "\ufeffWord 1,Word 2,Human (mean)\ntiger,cat,7.35\nplane,car,5.77\n",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\ntiger\tcat\tN\t7.35\t1\nplane\tcar\tN\t5.77\t2\n",
    ],
    ids=["similarity subset", "no header", "WordSim-353", "commas", "SimLex-999"],
)
def test_files_as_published_are_read(tmp_path, text):
    file = tmp_path / "pairs.txt"
    file.write_text(text, encoding="utf-8")
    pairs = load_pairs(file)
    assert pairs.first.tolist() == ["tiger", "plane"]
    assert pairs.second.tolist() == ["cat", "car"]
    assert pairs.scores.tolist() == [7.35, 5.77]


def test_bad_files_are_refused_with_the_line(tmp_path):
    file = tmp_path / "pairs.tsv"
    with pytest.raises(FileNotFoundError, match="there is no such file of word pairs"):
        load_pairs(file)
    file.write_text("")
    with pytest.raises(ValueError, match="which has no lines, but expected pairs of words"):
        load_pairs(file)
    file.write_text("a\tb\t1\n\na\tc\tmany\n")
    with pytest.raises(ValueError, match=r"Got line 3 of .*expected two words and a score"):
        load_pairs(file)
    file.write_text("a\tb\t1\na\tc\n")
    with pytest.raises(ValueError, match="Got line 2 of"):
        load_pairs(file)


def test_the_papers_196_pairs_of_the_similarity_subset():
    bundled = files("unspot.datasets") / "data" / "wordsim353_similarity.tsv"
    lexicon = load_bundled().lexicon
    found = word_similarity(lexicon.words, lexicon.X, load_pairs(bundled))
    assert (found.n_pairs, found.n_missing) == (196, 7)
    assert found.correlation == pytest.approx(0.6, abs=0.1)
    folded = word_similarity(lexicon.words, lexicon.X, load_wordsim353())
    assert folded.n_pairs == 203
