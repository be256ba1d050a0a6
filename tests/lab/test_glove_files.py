"""Reading word vectors in every format."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from unspot.lab.glove import read_glove

WORDS = ["the", ",", "naïve", "of"]
X = np.array([[0.5, -1.25, 3e-3], [1, 2, 3], [0.1, 0.2, 0.3], [-7, 8, 9.5]])
TEXT = "".join(
    f"{w} {' '.join(repr(float(v)) for v in x)}\n" for w, x in zip(WORDS, X, strict=True)
)


def text(folder):
    path = folder / "glove.6B.3d.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def zipped(folder):
    path = folder / "glove.6B.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("glove.6B.3d.txt", TEXT)
    return path


def word2vec(folder):
    path = folder / "word2vec.txt"
    path.write_text(f"{len(WORDS)} 3\n{TEXT}", encoding="utf-8")
    return path


def npz(folder):
    np.savez(folder / "glove.npz", words=np.array(WORDS), X=X)
    return folder / "glove.npz"


def wink(folder):
    # A vector in that package ends with its norm and the word's index.
    vectors = {w: [*x, np.linalg.norm(x), i] for i, (w, x) in enumerate(zip(WORDS, X, strict=True))}
    content = {"dimensions": 3, "words": WORDS, "vectors": vectors, "unkVector": [0] * 5}
    path = folder / "wink.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("make", [text, zipped, word2vec, npz, wink])
def test_every_format_gives_the_same(tmp_path, make):
    words, vectors = read_glove(make(tmp_path))
    assert words.tolist() == WORDS
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, X.astype(np.float32))


@pytest.mark.parametrize("make", [text, zipped, word2vec, npz, wink])
def test_the_most_frequent_words_alone_can_be_read(tmp_path, make):
    words, vectors = read_glove(make(tmp_path), top=2)
    assert words.tolist() == WORDS[:2]
    assert vectors.shape == (2, 3)


def test_reading_stops_at_the_last_wanted_line(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("a 1 2\nb 3 4\nthis line is not a vector at all\n")
    assert read_glove(path, top=2)[0].tolist() == ["a", "b"]


def test_words_that_hold_spaces_are_read_whole(tmp_path):
    path = tmp_path / "glove.840B.txt"
    path.write_text("the 1 2 3\n. . . 4 5 6\nat name@domain.com 7 8 9\n")
    words, vectors = read_glove(path)
    assert words.tolist() == ["the", ". . .", "at name@domain.com"]
    assert vectors[1].tolist() == [4, 5, 6]


def test_line_separators_inside_a_word_do_not_end_a_line(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("a\u2028b 1 2\nc\u0085 3 4\n", encoding="utf-8")
    assert read_glove(path)[0].tolist() == ["a\u2028b", "c\u0085"]


@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_word2vec_is_read_below_its_header(tmp_path, end):
    path = tmp_path / "vectors.txt"
    lines = ["3 4", "the 0.1 0.2 0.3 0.4", "new york 1 2 3 4", "7 5 6 7 8"]
    path.write_bytes("".join(line + end for line in lines).encode())
    words, vectors = read_glove(path)
    assert words.tolist() == ["the", "new york", "7"]
    np.testing.assert_array_equal(vectors[1:], [[1, 2, 3, 4], [5, 6, 7, 8]])


@pytest.mark.parametrize(
    ("content", "expected_words", "expected"),
    [
        ("the 0.5\nof 1.5\n", ["the", "of"], [[0.5], [1.5]]),
        ("3 4\n5 6\n", ["3", "5"], [[4], [6]]),
        ("3 1\nof 2\n", ["3", "of"], [[1], [2]]),
        ("3 4\n", ["3"], [[4]]),
        ("10 2 3\nof 4 5\n", ["10", "of"], [[2, 3], [4, 5]]),
        ("10 2.0\nof 4\n", ["10", "of"], [[2], [4]]),
        ("\u0085 3 2\nof 4 5\n", ["\u0085", "of"], [[3, 2], [4, 5]]),
    ],
)
def test_the_first_line_of_glove_is_no_header(tmp_path, content, expected_words, expected):
    path = tmp_path / "glove.txt"
    path.write_text(content, encoding="utf-8")
    words, vectors = read_glove(path)
    assert words.tolist() == expected_words
    np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("2 3\nthe 1 2 3\nof 1 2\n", r"Got line 3 of .* starting with 'of 1 2\\n', but expected"),
        ("the 1 2 3\nof 1 2\n", r"Got line 2 of .* starting with 'of 1 2\\n', but expected a word"),
        ("the one two\n", r"Got line 1 of .* but expected a word and its numbers"),
        ("a,b,c\n", r"Got line 1 of"),
        ("", r"which is empty"),
        ("the 1 nan\n", r"the vector of the is not finite"),
    ],
)
def test_a_damaged_text_file_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "glove.txt"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_glove(path)


def test_an_archive_with_several_files_asks_for_one(tmp_path):
    path = tmp_path / "glove.6B.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("glove.6B.50d.txt", TEXT)
        archive.writestr("glove.6B.100d.txt", TEXT)
    with pytest.raises(ValueError, match=r"with 2 text files .*Unpack it"):
        read_glove(path)


def test_arrays_of_other_names_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", vectors=X)
    with pytest.raises(ValueError, match=r"with arrays vectors, but expected words and X"):
        read_glove(tmp_path / "a.npz")


def test_any_other_json_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="not the JSON file of wink-embeddings"):
        read_glove(tmp_path / "a.json")


def test_no_words_are_not_asked_for(tmp_path):
    with pytest.raises(ValueError, match=r"top=0, .*at least 1"):
        read_glove(text(tmp_path), top=0)
