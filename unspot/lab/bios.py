"""Bias in Bios: biographies with gender and occupation, from local files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
from unspot.data.concept import Classes
from unspot.data.dataset import Dataset, Split
from unspot.io.columns import check_matrix
from unspot.io.files import npz_names, read_npy, read_npz
from unspot.lab.plain_pickle import read_plain_pickle

__all__ = ["load_bias_in_bios", "read_records"]

NAME = "bias-in-bios"
SIZES = (0.65, 0.10, 0.25)

#: What each split's files may be called.
_SPLITS = (("train",), ("dev", "validation", "valid", "val"), ("test",))
_STATES = {"cls": ("_cls", ""), "mean": ("_avg", "_mean")}
_GENDERS = {"m": "male", "f": "female"}
#: The names that the arrays X, z and y of an .npz may have.
_ROLES = (("X",), ("z", "gender", "g"), ("y", "profession", "occupation", "p"))

_SOURCE = (
    "Bias in Bios (De-Arteaga et al. 2019) comes as train.pickle, dev.pickle and test.pickle from "
    "the repository shauli-ravfogel/nullspace_projection (its download_data.sh), which also makes "
    "the BERT states."
)


def load_bias_in_bios(
    folder: str | os.PathLike[str],
    *,
    states: str | os.PathLike[str] | None = None,
    pooling: str = "cls",
    random_state: Any = 0,
) -> Dataset:
    """Load Bias in Bios: gender is the concept ``z``, one of 28 occupations the task ``y``.

    Three layouts are understood; *split* is train, dev (also validation, valid, val) or test.

    1. *split*.pickle (or .pkl), as Ravfogel et al. (2020) distribute them: a list of dicts with
       "g" (m or f), "p" (occupation) and texts, split 65 %/10 %/25 %; and next to them, or in the
       folder ``states``, the rows' BERT states in the same order: *split*\\ _cls.npy, *split*.npy,
       or with ``pooling="mean"`` *split*\\ _avg.npy or *split*\\ _mean.npy. An .npz with one array,
       or one called X, does as well.
    2. *split*.npz with arrays X, z and y (also: gender or g, profession, occupation or p).
    3. bios.npz with the same arrays and no split: split 65 %/10 %/25 % here.

    Pickles are read by :func:`read_plain_pickle`, which runs nothing that is in them. The cost is
    that of the files; states stay on disk as memory maps until they are used.

    Parameters
    ----------
    folder : path
        Where the files are.
    states : path, optional
        Where the BERT states are, if elsewhere.
    pooling : {"cls", "mean"}
        Which states: of the [CLS] token (the paper's choice), or the mean over tokens.
    random_state : int, Generator or None
        Decides the split of the third layout.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> z, y = np.tile(["f", "m"], 200), np.repeat(["nurse", "poet"], 200)
    >>> np.savez(folder / "bios.npz", X=np.zeros((400, 3)), z=z, y=y)
    >>> data = load_bias_in_bios(folder)
    >>> [len(split) for split in data], set(data.train.z.tolist()) == {"female", "male"}
    ([260, 40, 100], True)
    """
    folder = Path(folder)
    check_choice("pooling", pooling, tuple(_STATES))
    if not folder.is_dir():
        raise FileNotFoundError(f"Got {str(folder)!r}, but there is no such folder. {_SOURCE}")
    whole = folder / "bios.npz"
    if whole.is_file() and _find(folder, _SPLITS[0], (".pickle", ".pkl", ".npz")) is None:
        rows = _labelled(whole)
        return Dataset.from_arrays(
            rows.X, rows.z, rows.y, sizes=SIZES, random_state=random_state, name=NAME
        )
    places = (folder,) if states is None else (Path(states), folder)
    train, validation, test = (_split(folder, places, names, pooling) for names in _SPLITS)
    return Dataset(train, validation, test, NAME, concept="gender")


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the biographies of one pickled split, as plain dicts."""
    records = read_plain_pickle(path)
    if not isinstance(records, Sequence) or not all(isinstance(r, dict) for r in records):
        raise ValueError(
            f"Got {str(path)!r}, which holds no list of dicts, but expected one dict for each "
            "biography."
        )
    return list(records)


def _split(folder: Path, places: Sequence[Path], names: tuple[str, ...], pooling: str) -> Split:
    pickled = _find(folder, names, (".pickle", ".pkl"))
    if pickled is not None:
        return _from_pickle(pickled, places, names, pooling)
    labelled = _find(folder, names, (".npz",))
    if labelled is None:
        raise FileNotFoundError(
            f"Got {str(folder)!r} without {names[0]}.pickle or {names[0]}.npz, but expected train, "
            f"dev and test. {_SOURCE}"
        )
    return _labelled(labelled)


def _from_pickle(
    pickled: Path, places: Sequence[Path], names: tuple[str, ...], pooling: str
) -> Split:
    records = read_records(pickled)
    genders, professions = (_field(records, key, pickled) for key in ("g", "p"))
    for place in places:
        for suffix in _STATES[pooling]:
            states = _find(place, [name + suffix for name in names], (".npy", ".npz"))
            if states is not None:
                return _joined(states, genders, professions, pickled)
    expected = f"{pickled.stem}{_STATES[pooling][0]}.npy"
    raise FileNotFoundError(
        f"Got {str(pickled)!r} with biographies as text, but no {expected} in "
        f"{' or '.join(map(str, places))}. Embed the texts of each split first, with "
        f"any model of sentences, and save the vectors: numpy.save({expected!r}, X)."
    )


def _joined(states: Path, genders: NDArray[Any], professions: NDArray[Any], pickled: Path) -> Split:
    X = check_matrix(_vectors(states), str(states))
    if len(X) != len(genders):
        raise ValueError(
            f"Got {len(X)} rows in {str(states)!r} and {len(genders)} biographies in "
            f"{str(pickled)!r}, but expected one vector for each, in the same order."
        )
    return Split(X, genders, professions)


def _vectors(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return read_npy(path)
    names = npz_names(path)
    name = names[0] if len(names) == 1 else "X"
    return read_npz(path, [name])[name]


def _labelled(path: Path) -> Split:
    """Rows of an .npz that holds vectors and labels."""
    names = npz_names(path)
    chosen = [next((name for name in role if name in names), None) for role in _ROLES]
    absent = [role for role, name in zip(_ROLES, chosen, strict=True) if name is None]
    if absent:
        raise ValueError(
            f"Got {str(path)!r} with arrays {', '.join(names)}, but expected also "
            f"{' and '.join(' or '.join(role) for role in absent)}."
        )
    arrays = read_npz(path, [str(name) for name in chosen])
    X, z, y = (arrays[str(name)] for name in chosen)
    check_matrix(X, str(path))
    return Split(X, _gender_names(z, len(X)), y)


def _field(records: list[dict[str, Any]], key: str, path: Path) -> NDArray[Any]:
    without = next((i for i, record in enumerate(records or [{}]) if key not in record), None)
    if without is not None:
        there = ", ".join(map(str, records[without])) if records else "nothing"
        raise ValueError(
            f"Got {str(path)!r}, where biography {without} has no {key!r} (it has {there}), but "
            "expected 'g' (gender) and 'p' (profession) in each."
        )
    values = np.array([record[key] for record in records])
    return _gender_names(values, len(values)) if key == "g" else values


def _gender_names(z: NDArray[Any], n_rows: int) -> NDArray[Any]:
    labels = Classes.read(z, n_rows=n_rows, name="gender")
    names = [_GENDERS.get(str(c).lower(), str(c)) for c in labels.classes]
    return np.array(names)[labels.codes]


def _find(folder: Path, names: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    paths = (folder / (name + suffix) for name in names for suffix in suffixes)
    return next((path for path in paths if path.is_file()), None)
