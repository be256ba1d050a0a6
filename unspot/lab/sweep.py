"""A grid of methods, ranks and seeds on several data sets, into one file of JSON lines.

joblib decides where the cells run (``joblib.parallel_config``). The process that called ``sweep``
writes every finished cell at once, so that an interrupted sweep can go on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone

from unspot.checks import check_rank, default_ranks
from unspot.data.dataset import Dataset
from unspot.eraser import Eraser
from unspot.erasers.cascade import Cascade
from unspot.erasers.registry import make
from unspot.evaluation.evaluations import score
from unspot.evaluation.metrics import Metric
from unspot.io.progress import phase
from unspot.lab.metrics import check_lab_metrics, lab_metrics, lacking_in_lab

__all__ = ["KEEPS_TASK", "Record", "attack_chance", "named_methods", "read_results", "sweep"]

#: One finished cell: data set, method, rank and seed, the metrics, and what decides them.
Record = dict[str, Any]

#: The method without erasure.
ORIGINAL = "original"
#: The end of the label of a method that is fitted with ``keep``, the task of the data.
KEEPS_TASK = ":keep"
DEFAULT_METRICS = ("attack", "probe", "neighbours")


def sweep(
    methods: Any,
    datasets: Dataset | Sequence[Dataset] | Mapping[str, Dataset],
    ranks: Any = None,
    seeds: int | Sequence[int] = 3,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    budget: str = "quick",
    path: str | os.PathLike[str] | None = None,
    resume: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[Record]:
    """Fit and measure every method at every rank and seed on every data set.

    Parameters
    ----------
    methods : names, estimators, or mapping of labels to them
        Names of the registry, "cascade:NAME", "original"; estimators, of which each cell sets
        ``rank`` and ``random_state``; or your own method: anything with ``fit`` and ``transform``,
        a frozen ``Eraser``, or a function of rows. A method whose label ends in ":keep" is fitted
        with ``keep``, the task of the data.
    datasets : Dataset, several, or mapping of names to them
        Methods are fitted on train rows, attackers learn from validation rows, and all scores are
        of test rows.
    ranks : sequence of int or fractions, or mapping of data sets' names to them
        For methods with a rank; the others have one cell per seed.
    seeds : int or sequence of int
        Each decides the fit and every metric of a cell.
    metrics : sequence of str or Metric
        See ``evaluate``. By default "attack", "probe" and "neighbours", as the data allow.
    budget : {"quick", "standard", "thorough"}
        The effort of the attackers.
    path : path, optional
        A file to which every finished cell is appended as one line of JSON.
    resume : bool
        Run only the cells that ``path`` lacks, and those that failed. Changes of code are not seen.
    n_jobs : int, optional
        The number of cells that run at once; by default that of ``joblib.parallel_config``, or one.
    verbose : bool
        Show progress.

    Returns
    -------
    list of dict
        One record per cell: data set, method, rank, seed, ``metrics``, seconds, and the ``error``
        of a cell that failed. A failed cell does not stop the others.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> data = Dataset.from_arrays(X, np.arange(300) % 2, random_state=0)
    >>> cells = sweep(["original", "pca"], data, ranks=[3, 1], seeds=1, metrics=["variance"])
    >>> [(cell["method"], cell["rank"]) for cell in cells]
    [('original', None), ('pca', 3), ('pca', 1)]
    >>> cells[0]["metrics"]
    {'variance': 1.0}
    """
    named = _named_datasets(datasets)
    if metrics is DEFAULT_METRICS:  # a number has no classes for a probe
        metrics = [
            m for m in metrics if not any(m in lacking_in_lab(data) for data in named.values())
        ]
    metrics = [metrics] if isinstance(metrics, str) else list(metrics)
    for data in named.values():
        check_lab_metrics(metrics, data)
    settings = {
        "budget": budget,
        "measured": [m if isinstance(m, str) else m.name for m in metrics],
    }
    facts = {name: data_facts(data) for name, data in named.items()}
    grid = [
        Cell(name, facts[name], settings, label, prepared(estimator, rank, seed), rank, seed)
        for name, data in named.items()
        for label, estimator in named_methods(methods).items()
        for rank in _ranks_of(estimator, ranks, name, data.n_features)
        for seed in check_seeds(seeds)
    ]
    records = {} if path is None else _earlier_records(Path(path), resume)
    calls = [
        joblib.delayed(run_cell)(cell, named[cell.dataset], metrics)
        for cell in grid
        if cell.key not in records
    ]
    with phase("Sweep", len(calls), unit="cells", verbose=verbose) as here:
        for record in joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
            records[_key(record)] = record
            if path is not None:
                _append(Path(path), record)
            here.advance()
    return [records[cell.key] for cell in grid]


def read_results(*paths: str | os.PathLike[str]) -> list[Record]:
    """Read the records of result files; a line that a killed process left unfinished is skipped."""
    records = []
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return records


def attack_chance(facts: Mapping[str, Any]) -> float:
    """Balanced accuracy of guessing; 0 for a numeric concept, where a guess explains nothing."""
    return 1 / facts["classes"] if facts["classes"] else 0.0


# -- Cells -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One fit and its metrics, before it is run."""

    dataset: str
    facts: Mapping[str, Any]
    settings: Mapping[str, Any]
    method: str
    estimator: Any  # unfitted, with rank and seed; None for no erasure
    rank: int | None
    seed: int

    def record(self) -> Record:
        """Start the record: everything that decides the cell's numbers."""
        return {
            **{"dataset": self.dataset, "data": self.facts, "method": self.method},
            **{"parameters": _parameters(self.estimator), "rank": self.rank, "seed": self.seed},
            **self.settings,
        }

    @property
    def key(self) -> str:
        return _key(self.record())


def _key(record: Record) -> str:
    """Identify a cell by everything that decides its numbers."""
    names = ("dataset", "data", "method", "parameters", "rank", "seed", "budget", "measured")
    return json.dumps([record.get(name) for name in names], sort_keys=True, default=str)


def run_cell(cell: Cell, data: Dataset, metrics: Sequence[str | Metric]) -> dict[str, Any]:
    """Fit and measure one cell; an error becomes part of the record."""
    started, record = time.perf_counter(), cell.record()
    try:
        eraser = _fitted(cell, data)
        kept_rank = getattr(eraser, "rank", None)
        record |= {"kept_rank": kept_rank, "fit_seconds": time.perf_counter() - started}
        budget = cell.settings["budget"]
        scores = score(eraser, data, lab_metrics(metrics), budget=budget, random_state=cell.seed)
        record |= {"metrics": scores.after, "details": scores.details, "status": "ok"}
    except Exception as error:  # any error: the other cells go on
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return record | {"seconds": time.perf_counter() - started}


def _fitted(cell: Cell, data: Dataset) -> Any:
    """Fit the method of a cell: an Eraser, a fitted transformer or a function of rows."""
    estimator = cell.estimator
    if estimator is None:
        return Eraser.projection(np.eye(data.n_features))
    if not hasattr(estimator, "fit"):
        return estimator
    if not cell.method.endswith(KEEPS_TASK):
        estimator.fit(data.train.X, data.train.z)
    elif data.train.y is None:
        raise ValueError(
            f"Got the method {cell.method!r}, which keeps a task, but {cell.dataset!r} has none. "
            "Give the data set a task, y, or leave the method out."
        )
    else:
        estimator.fit(data.train.X, data.train.z, keep=data.train.y)
    return getattr(estimator, "eraser_", estimator)


def _parameters(estimator: Any) -> dict[str, str]:
    """Parameters that are not the default, as text."""
    if not hasattr(estimator, "get_params"):
        return {}
    try:
        default = type(estimator)().get_params()
    except TypeError:  # a user's class may have parameters without a default
        default = {}
    return {
        name: repr(value)
        for name, value in estimator.get_params().items()
        if not isinstance(value, BaseEstimator) and repr(default.get(name)) != repr(value)
    }


def data_facts(data: Dataset) -> dict[str, Any]:
    """Summarise a data set for tables, with a digest of all its rows."""
    rows = [(split.X, split.z, split.y) for split in data]
    return {
        "rows": [len(split) for split in data],
        "features": data.n_features,
        "classes": len(getattr(data.test.concept, "classes", ())),  # none of a number or a table
        "digest": joblib.hash(rows),
    }


def prepared(estimator: Any, rank: int | None, seed: int) -> Any:
    """Clone an estimator and set its rank and seed; anything without parameters is copied."""
    if not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    ready = clone(estimator)
    changed = {name: seed for name in ready.get_params() if name.endswith("random_state")}
    if rank is not None:
        changed["rank"] = rank
    return ready.set_params(**changed)


def _has_rank(estimator: Any) -> bool:
    ranked = estimator.second_stage() if isinstance(estimator, Cascade) else estimator
    return "rank" in (ranked.get_params() if hasattr(ranked, "get_params") else ())


def _ranks_of(estimator: Any, ranks: Any, dataset: str, n_features: int) -> Sequence[int | None]:
    """List the ranks of a method on one data set, from the highest, each once."""
    given = ranks.get(dataset) if isinstance(ranks, Mapping) else ranks
    if given is None:
        given = default_ranks(n_features)
    listed = [given] if isinstance(given, (int, float)) else given
    what = f"the number of features of {dataset!r}"
    checked = {check_rank(rank, n_features, what) for rank in listed}
    if not checked:
        raise ValueError(f"Got no ranks for {dataset!r}, but expected at least one.")
    return sorted(checked, reverse=True) if _has_rank(estimator) else [None]


# -- Methods, data sets and the result file --------------------------------------------------------


def named_methods(methods: Any) -> dict[str, Any]:
    """Label the methods of a sweep; see there for what they can be.

    Examples
    --------
    >>> list(named_methods(["original", "leace", "cascade:pca"]))
    ['original', 'leace', 'cascade:pca']
    """
    if isinstance(methods, Mapping):
        listed = [(str(label), _estimator(method)) for label, method in methods.items()]
    else:
        several = [methods] if isinstance(methods, str) or _erases(methods) else list(methods)
        listed = [(_label(method), _estimator(method)) for method in several]
    if not listed or len(dict(listed)) < len(listed):
        labels = ", ".join(label for label, _ in listed) or "none"
        raise ValueError(
            f"Got the methods {labels}, but expected at least one, each with another name. Pass a "
            "mapping of names to methods."
        )
    return dict(listed)


def _estimator(method: Any) -> Any:
    if isinstance(method, str):
        return None if method == ORIGINAL else make(method)
    if method is None or _erases(method):
        return method
    raise ValueError(
        f"Got a method {method!r}, but expected a name such as 'leopard', an object with fit and "
        "transform such as LEOPARD(), an Eraser, or a function of rows."
    )


def _erases(method: Any) -> bool:
    has_transform = hasattr(method, "fit") and hasattr(method, "transform")
    return not isinstance(method, type) and (has_transform or callable(method))


def _label(method: Any) -> str:
    if isinstance(method, str):
        return method
    if method is None:
        return ORIGINAL
    if isinstance(method, Cascade):
        return f"cascade:{type(method.second_stage()).__name__}"
    return str(getattr(method, "__name__", type(method).__name__))


def _named_datasets(datasets: Any) -> dict[str, Dataset]:
    if isinstance(datasets, Mapping):
        return {str(name): data for name, data in datasets.items()}
    several: Iterable[Any] = [datasets] if isinstance(datasets, Dataset) else list(datasets)
    named = {data.name: data for data in several if isinstance(data, Dataset)}
    if not named or len(named) < len(list(several)):
        raise ValueError(
            "Got no data sets, other objects, or two of one name, but expected unspot.Dataset "
            "objects of different names. Pass a mapping of names to them."
        )
    return named


def _earlier_records(path: Path, resume: bool) -> dict[str, Record]:
    """Read the finished cells of a file; without ``resume``, a file with results is refused."""
    earlier = read_results(path) if path.exists() else []
    if earlier and not resume:
        raise ValueError(
            f"Got {str(path)!r}, which has {len(earlier)} results already. Pass resume=True "
            "(--resume) to go on, or another file."
        )
    return {_key(record): record for record in earlier if record["status"] == "ok"}


def _append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        # A line of its own, also after one that a killed process left unfinished.
        file.write(("\n" if file.tell() else "") + json.dumps(record, default=str))


def check_seeds(seeds: Any) -> list[int]:
    """List the seeds: a number n stands for 0 … n − 1, a list for itself.

    Examples
    --------
    >>> check_seeds(3), check_seeds([5, 7])
    ([0, 1, 2], [5, 7])
    """
    if _is_integer(seeds):
        listed = list(range(seeds))
    else:
        listed = [] if isinstance(seeds, str) or not isinstance(seeds, Iterable) else list(seeds)
    if listed and all(map(_is_integer, listed)) and len(set(listed)) == len(listed):
        return [int(seed) for seed in listed]
    raise ValueError(
        f"Got seeds={seeds!r}, but expected a number of seeds of at least 1, or a list of "
        "different integers, such as [0, 1, 2]."
    )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
