"""What is certified and on which rows: erasers of any kind, splits, what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split, refuse_continuous
from unspot.data.labels import encode
from unspot.data.rows import fingerprint, row_hashes
from unspot.evaluation.attackers import rows_needed

__all__ = [
    "MAX_SEEN",
    "SPLIT_OF",
    "erased_rows",
    "held_out_splits",
    "share_among",
    "share_fitted_on",
    "was_fitted_on",
]

#: The split that attackers learn from.
SPLIT_OF = {"unseen": "validation", "seen": "train"}

#: With fewer test rows not even a perfect attacker is told from luck with certainty.
MIN_TEST_ROWS = 30

#: The share of a split's rows that an eraser may have been fitted on: some rows just occur twice.
MAX_SEEN = 0.1


def erased_rows(eraser: Any, split: Split, which: str) -> NDArray[Any]:
    """A split's rows after erasure, whatever the eraser is."""
    if eraser is None:
        return np.asarray(split.X)
    if isinstance(eraser, Dataset):
        erased = np.asarray(getattr(eraser, which).X)
    elif isinstance(eraser, type) or not (hasattr(eraser, "transform") or callable(eraser)):
        raise ValueError(
            f"Got {eraser!r}, but expected something that erases rows: a fitted estimator, an "
            "Eraser, a function of rows, a Dataset of erased rows, or None for the rows as they "
            "are."
        )
    else:
        erase = eraser.transform if hasattr(eraser, "transform") else eraser
        erased = np.asarray(erase(split.X))
    if erased.ndim != 2 or len(erased) != len(split):
        raise ValueError(
            f"Got erased rows of shape {erased.shape} for the {len(split)} rows of the {which} "
            "split, but expected one erased row for each."
        )
    return erased


def held_out_splits(eraser: Any, data: Any, attack_rows: str) -> tuple[Split, Split]:
    """Rows to learn from and rows to judge on, both with every class and new to the eraser."""
    if not all(hasattr(data, name) for name in ("train", "validation", "test")):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected a Dataset. Make one with "
            "Dataset.from_arrays(X, z)."
        )
    if attack_rows not in SPLIT_OF:
        raise ValueError(f"Got attack_rows={attack_rows!r}, but expected 'unseen' or 'seen'.")
    name = SPLIT_OF[attack_rows]
    learn, test = getattr(data, name), data.test
    for split in (learn, test):
        refuse_continuous(split.z)
    for split, which in ((learn, name), (test, "test")):
        if len(split) == 0:
            raise ValueError(f"Got no rows in the {which} split, but expected some to certify on.")
    classes = encode(np.concatenate([np.asarray(s.z) for s in (learn, test)])).classes
    for split, which in ((learn, name), (test, "test")):
        _refuse_missing_class(split, classes, which)
    _refuse_too_few(learn, test, name, len(classes))
    _refuse_fitted_on(eraser, test, "test")
    if attack_rows == "unseen":
        _refuse_fitted_on(eraser, learn, name)
    return learn, test


def _refuse_missing_class(split: Split, classes: NDArray[Any], which: str) -> None:
    missing = classes[~np.isin(classes, np.asarray(split.z))]
    if len(missing):
        raise ValueError(
            f"Got no row of class {missing[0]!s} in the {which} split, but expected every class in "
            "it. Split the rows stratified, as Dataset.from_arrays does."
        )


def _refuse_too_few(learn: Split, test: Split, name: str, n_classes: int) -> None:
    needed = rows_needed(n_classes)
    if len(learn) < needed:
        raise ValueError(
            f"Got {len(learn)} rows in the {name} split, but attackers need at least {needed} to "
            f"learn {n_classes} classes. Give more rows, or set attack_rows='seen'."
        )
    if len(test) < MIN_TEST_ROWS:
        raise ValueError(
            f"Got {len(test)} rows in the test split, but a certificate needs at least "
            f"{MIN_TEST_ROWS}."
        )
    encode(test.z, name="the test split", min_rows=2)


def _refuse_fitted_on(eraser: Any, split: Split, which: str) -> None:
    share = share_fitted_on(eraser, split)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        raise ValueError(
            f"Got an eraser that was fitted on {part}the {which} split, but expected one fitted on "
            "other rows: on its own rows every eraser looks good."
        )


def was_fitted_on(eraser: Any, split: Split) -> bool:
    """Whether an eraser's metadata says that it was fitted on these rows, or on many of them."""
    return share_fitted_on(eraser, split) > MAX_SEEN


def share_fitted_on(eraser: Any, split: Split) -> float:
    """About how many of the rows an eraser was fitted on, by its metadata; 0 if that is silent.

    It remembers a few of its rows. Where all of those are found again, all of its rows are here.
    """
    metadata: Any = getattr(getattr(eraser, "eraser_", eraser), "metadata", None)
    if not hasattr(metadata, "get") or "fingerprint" not in metadata or not len(split):
        return 0.0
    X = np.asarray(split.X)
    if metadata["fingerprint"] == fingerprint(X, encode(split.z).codes):
        return 1.0
    known = set(metadata.get("known_rows", ()))
    if not known:
        return 0.0
    found = len(known.intersection(row_hashes(X))) / len(known)
    return float(min(1.0, found * metadata["n_rows"] / len(X)))


def share_among(split: Split, others: Split) -> float:
    """How many of the rows are among others too."""
    theirs = set(row_hashes(np.asarray(others.X)))
    return float(np.mean([row in theirs for row in row_hashes(np.asarray(split.X))]))
