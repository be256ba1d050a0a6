"""Data of sweeps and benchmarks: a data set by its name, or a file of vectors and labels."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unspot.checks import check_count, did_you_mean
from unspot.data.dataset import Dataset, stratified_parts
from unspot.datasets import load_translations
from unspot.datasets.synthetic import LAWS, law
from unspot.io import read_table
from unspot.lab import load_bias_in_bios, load_dial, load_glove
from unspot.lab.glove import load_bundled

__all__ = ["DATA_NAMES", "open_data", "replaces_rows", "sample_train"]

#: Data sets that ``unspot.datasets`` loads or draws.
DATA_NAMES = ("glove", "bios", "dial", "translations", *LAWS)
#: Those of them that are not in the package.
_PLACED = ("bios", "dial")
#: The task of a file by default. A file that lacks this column has no task.
DEFAULT_TASK = "y"
#: Rows that are drawn of a synthetic law.
LAW_ROWS = 12_000
_TABLE_SUFFIXES = (".npz", ".npy", ".csv", ".tsv", ".parquet")


def open_data(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    concept: str = "z",
    task: str | None = DEFAULT_TASK,
    features: str | None = None,
    max_rows: int | None = None,
    random_state: int = 0,
) -> Dataset:
    """Load a data set by its name, or from a file.

    Parameters
    ----------
    name : {"glove", "bios", "dial", "translations"}, the name of a synthetic law, or path
        A data set of ``unspot.datasets``; 12,000 rows of a law in 20 dimensions; or an .npz, .npy,
        .csv or .parquet file of vectors and labels.
    source : path, optional
        Where the named data set is: a GloVe text file (by default the words in the package), or the
        authors' folder of Bias in Bios or DIAL. For these two it can also be a file of other
        vectors of that kind.
    concept, task, features : str
        Columns or arrays of a file. If the file has no ``"y"``, it has no task by default.
    max_rows : int, optional
        Use a stratified sample of this many training rows.
    random_state : int
        Seed of the splits of a file and of the sample.

    Examples
    --------
    >>> data = open_data("glove")
    >>> data.name, data.n_features
    ('glove-gender', 100)
    """
    if name not in (*_PLACED, "glove") and source is not None:
        raise ValueError(
            f"Got {name!r} and the source {str(source)!r}, but expected one of them: a named data "
            f"set (glove, {', '.join(_PLACED)}) and its source, or a file without a source."
        )
    if name in DATA_NAMES and not replaces_rows(name, source):
        data = _load(name, source, random_state)
    else:
        path = Path(name if source is None else source)
        data = _read(path, concept, task, features, random_state)
    return data if max_rows is None else sample_train(data, max_rows, random_state)


def replaces_rows(name: str, source: str | os.PathLike[str] | None) -> bool:
    """Tell if the source of a named data set is a file of other rows."""
    return name in _PLACED and source is not None and Path(source).suffix in _TABLE_SUFFIXES


def sample_train(data: Dataset, max_rows: int, random_state: int = 0) -> Dataset:
    """Replace the training rows by a stratified sample of at most ``max_rows``."""
    if len(data.train) <= check_count("max_rows", max_rows):
        return data
    codes = data.train.concept.strata
    share = max_rows / len(codes)
    rng = np.random.default_rng(random_state)
    rows = stratified_parts(codes, (share, 1 - share), rng)[0]
    return replace(data, train=data.train.take(rows))


def _load(name: str, source: str | os.PathLike[str] | None, random_state: int) -> Dataset:
    if name in LAWS:
        rows = law(name, n=LAW_ROWS, random_state=random_state)
        return Dataset.from_arrays(rows.X, rows.z, random_state=random_state, name=name)
    if name == "glove":
        return load_bundled() if source is None else load_glove(source)
    if name == "translations":
        return load_translations()
    if source is None:
        raise FileNotFoundError(
            f"Got no folder for {name!r}, whose data are not in the package. Pass the folder that "
            f"has them as the source: unspot lab bench {name} --data FOLDER. "
            f"{import_module(f'unspot.lab.{name}')._SOURCE}"
        )
    return load_bias_in_bios(source) if name == "bios" else load_dial(source)


def _read(
    path: Path, concept: str, task: str | None, features: str | None, random_state: int
) -> Dataset:
    if not path.exists():
        raise FileNotFoundError(
            f"Got {str(path)!r}, but there is no such file, and no data set of that name "
            f"({', '.join(DATA_NAMES)}).{did_you_mean(path, DATA_NAMES)}"
        )
    columns: dict[str, Any] = {"features": features, "concept": concept}
    try:
        table = read_table(path, **columns, task=task)
    except ValueError:
        if task != DEFAULT_TASK:
            raise
        table = read_table(path, **columns)  # raises again if the task was not the reason
    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    return Dataset.from_arrays(X, table.z, table.y, random_state=random_state, name=path.stem)
