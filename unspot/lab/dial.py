"""DIAL: tweets with sentiment and dialect, as vectors in local files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split, stratified_parts
from unspot.io.columns import check_matrix
from unspot.io.files import read_npy

NAME = "dial"
_SPLITS = (("train",), ("dev", "validation", "valid", "val"), ("test",))
_SENTIMENTS = {"pos": "happy", "neg": "sad"}
_RACES = {"pos": "AAE", "neg": "SAE"}
_CELLS = [(s, r) for s in _SENTIMENTS for r in _RACES]
_FILES = [f"{sentiment}_{race}.npy" for sentiment, race in _CELLS]

#: Rows of each cell that the usual split takes: 40,000, 2,000 and 2,000.
_PER_CELL = 44_000
_SIZES = (10 / 11, 1 / 22, 1 / 22)

_SOURCE = (
    "The DeepMoji vectors of DIAL (Blodgett et al. 2016, Elazar & Goldberg 2018) come as "
    "pos_pos.npy, pos_neg.npy, neg_pos.npy and neg_neg.npy from the repository "
    "shauli-ravfogel/nullspace_projection (its download_data.sh); the paper used those of the "
    "repository brcsomnath/KRaM, split into folders train, dev and test."
)


def load_dial(folder: str | os.PathLike[str], *, random_state: Any = 0) -> Dataset:
    """Load DIAL: race, by the dialect of a tweet, is the concept ``z``; sentiment the task ``y``.

    Looks for ``pos_pos.npy``, ``pos_neg.npy``, ``neg_pos.npy`` and ``neg_neg.npy`` in the folders
    train, dev (also validation, valid, val) and test. **The first word of a file's name is the
    sentiment** (pos: happy, neg: sad) **and the second the race** (pos: AAE, African-American
    English; neg: SAE, Standard American English).

    If the four files are in ``folder`` itself, they are split here. The same number of rows is
    taken from each (as many as the smallest has, at most 44,000), in the shares of the usual
    40,000, 2,000 and 2,000.

    Memory: all vectors once.

    Parameters
    ----------
    folder : path
        Where the files are.
    random_state : int, Generator or None
        Decides the split if the files are not split.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for cell in ("pos_pos", "pos_neg", "neg_pos", "neg_neg"):
    ...     np.save(folder / f"{cell}.npy", np.zeros((22, 3)))
    >>> [len(split) for split in load_dial(folder)]
    [80, 4, 4]
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"Got {str(folder)!r}, but there is no such folder. {_SOURCE}")
    if not _absent(folder):
        return _split_here(folder, np.random.default_rng(random_state))
    train, validation, test = (_joined(_cells(_split_folder(folder, s))) for s in _SPLITS)
    return Dataset(train, validation, test, NAME, concept="race")


def _split_folder(folder: Path, names: tuple[str, ...]) -> Path:
    inner = next((folder / name for name in names if (folder / name).is_dir()), None)
    if inner is None:
        raise FileNotFoundError(
            f"Got {str(folder)!r} without a folder {names[0]} in it, but expected train, dev and "
            f"test. {_SOURCE}"
        )
    if absent := _absent(inner):
        raise FileNotFoundError(
            f"Got {str(inner)!r} without {', '.join(absent)}, but expected four files. {_SOURCE}"
        )
    return inner


def _absent(folder: Path) -> list[str]:
    return [name for name in _FILES if not (folder / name).is_file()]


def _cells(folder: Path) -> list[NDArray[Any]]:
    """Read the vectors of the four files, in the order of ``_CELLS``."""
    parts = [check_matrix(read_npy(folder / name), str(folder / name)) for name in _FILES]
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise ValueError(
            f"Got vectors of different widths in {str(folder)!r} ({widths}), but expected one."
        )
    return parts


def _joined(parts: list[NDArray[Any]]) -> Split:
    sizes = [len(part) for part in parts]
    z = np.repeat([_RACES[race] for _, race in _CELLS], sizes)
    y = np.repeat([_SENTIMENTS[sentiment] for sentiment, _ in _CELLS], sizes)
    return Split(np.concatenate(parts), z, y)


def _split_here(folder: Path, rng: np.random.Generator) -> Dataset:
    parts = _cells(folder)
    n = min(_PER_CELL, *(len(part) for part in parts))
    if n < len(_SPLITS):
        raise ValueError(
            f"Got {n} rows in the smallest file of {str(folder)!r}, but expected at least "
            f"{len(_SPLITS)}, one for each of train, validation and test."
        )
    # In the order of the file, in which rows of a memory map are read fastest.
    whole = _joined([part[np.sort(rng.permutation(len(part))[:n])] for part in parts])
    rows = stratified_parts(np.repeat(np.arange(len(parts)), n), _SIZES, rng)
    train, validation, test = (whole.take(part) for part in rows)
    return Dataset(train, validation, test, NAME, concept="race")
