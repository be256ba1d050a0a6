"""The data of a benchmark: the paper's by name, or any file; and what differs from the paper's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unspot.bench.paper import paper_data
from unspot.bench.summary import LARGEST_BATCH
from unspot.data.dataset import Dataset, Split, stratified_parts
from unspot.data.labels import encode

__all__ = ["NAMES", "BenchData", "open_data"]

NAMES = ("glove", "bios", "dial")
#: The task of a file unless said otherwise: a file without it has none.
DEFAULT_TASK = "y"
#: Files of vectors and labels.
_FILES = (".npz", ".npy", ".csv", ".parquet")


@dataclass(frozen=True)
class BenchData:
    """A data set, which of the paper's it can be compared with, and what differs."""

    data: Dataset
    paper: str | None = None
    difference: str = ""


def open_data(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    concept: str = "z",
    task: str | None = DEFAULT_TASK,
    features: str | None = None,
    max_rows: int | None = None,
    random_state: int = 0,
) -> BenchData:
    """Load the data of a benchmark.

    Parameters
    ----------
    name : {"glove", "bios", "dial"} or path
        The paper's data; or an .npz, .npy, .csv or .parquet file of vectors and labels.
    source : path, optional
        Where the data of that name are: a GloVe text file (by default the words in the package),
        the authors' folder of Bias in Bios or DIAL, or a file of other vectors of that kind, to
        stand beside the paper's.
    concept, task, features : str
        Columns or arrays of a file; where it has no ``"y"``, no task is measured.
    max_rows : int, optional
        Use a stratified sample of so many training rows.
    random_state : int
        Splits a file, and samples.

    Examples
    --------
    >>> found = open_data("glove")
    >>> found.paper, found.data.n_features
    ('glove', 100)
    """
    columns: dict[str, Any] = {"concept": concept, "task": task, "features": features}
    columns["random_state"] = random_state
    if name in NAMES:
        found = _of_the_paper(name, source, columns)
    else:
        _refuse_source(name, source)
        found = BenchData(_of_file(name, **columns))
    if max_rows is None or len(found.data.train) <= max_rows:
        return found
    data = _sampled(found.data, max_rows, random_state)
    more = f"Fitted on {max_rows:,} of {len(found.data.train):,} training rows."
    return BenchData(data, found.paper, " ".join(filter(None, [found.difference, more])))


def _of_the_paper(name: str, source: Any, columns: dict[str, Any]) -> BenchData:
    if name != "glove" and source is not None and Path(source).suffix in _FILES:
        data = _of_file(str(source), **columns)
        other = f"Rows of {Path(source).name}, which are not the paper's."
        return BenchData(data, name, f"{other} {_difference(name, data)}".strip())
    if name == "glove":
        from unspot.datasets import load_glove_gender

        data = load_glove_gender(source)
    elif source is None:
        raise FileNotFoundError(
            f"Got no folder for {name!r}, whose data are not in the package. Pass the folder that "
            f"has them: unspot bench {name} --data FOLDER. {_where(name)}"
        )
    else:
        from unspot.datasets import load_bias_in_bios, load_dial

        data = load_bias_in_bios(source) if name == "bios" else load_dial(source)
    return BenchData(data, name, _difference(name, data))


def _refuse_source(name: str, source: Any) -> None:
    if source is not None:
        raise ValueError(
            f"Got {name!r} and the data {str(source)!r}, but expected one of them: a benchmark "
            f"({', '.join(NAMES)}) with its data, or a file alone."
        )


def _where(name: str) -> str:
    return str(import_module(f"unspot.datasets.{name}")._SOURCE)


def _difference(name: str, data: Dataset) -> str:
    theirs = paper_data(name)
    features, rows = int(theirs["features"]), theirs["rows"]
    ours = [len(split) for split in data]
    parts = []
    if data.n_features != features:
        parts.append(
            f"Vectors of {data.n_features} dimensions; the paper's have {features} "
            f"({theirs['vectors']}). Its ranks are compared at equal shares of the dimensions."
        )
    if ours != rows:
        shown = [" / ".join(f"{n:,}" for n in counts) for counts in (ours, rows)]
        parts.append(f"{shown[0]} rows; the paper has {shown[1]}.")
    if name in LARGEST_BATCH:
        parts.append(f"The paper's largest batch has {LARGEST_BATCH[name]:,} rows; ours has all.")
    return " ".join(parts)


def _of_file(
    name: str, concept: str, task: str | None, features: str | None, random_state: int
) -> Dataset:
    from unspot.io import read_table

    path = Path(name)
    if not path.exists() and path.suffix in _FILES:
        raise FileNotFoundError(f"Got {name!r}, but there is no such file.")
    if not path.exists():
        near = get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise FileNotFoundError(
            f"Got {name!r}, which is no benchmark ({', '.join(NAMES)}) and no file.{hint}"
        )
    columns = {"features": features, "concept": concept}
    try:
        table = read_table(path, **columns, task=task)
    except ValueError:
        if task != DEFAULT_TASK:
            raise
        table = read_table(path, **columns)  # which says what is wrong, if it was not the task
    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    return Dataset.from_arrays(X, table.z, table.y, random_state=random_state, name=path.stem)


def _sampled(data: Dataset, max_rows: int, random_state: int) -> Dataset:
    codes = encode(data.train.z).codes
    share = max_rows / len(codes)
    rng = np.random.default_rng(random_state)
    rows = stratified_parts(codes, (share, 1 - share), rng)[0]
    train: Split = data.train.take(rows)
    return Dataset(train, data.validation, data.test, data.name, data.lexicon)
