"""A grid of methods, ranks and seeds on several data sets: parallel, and safe to interrupt.

joblib decides where the cells run (``joblib.parallel_config``): in processes of this machine, on
Dask or on Ray. The process that called ``sweep`` writes every finished cell at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator

from unspot.checks import check_positive, check_seeds, require
from unspot.data.dataset import Dataset
from unspot.eraser import Eraser
from unspot.evaluation.metrics import lacking
from unspot.evaluation.run import check_metrics, score
from unspot.io.journal import Journal, read_journal
from unspot.io.progress import phase
from unspot.lab.sweeps.grid import Cell, cells, named_methods
from unspot.machine import time_limit

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KEEPS_TASK", "read_results", "results_frame", "sweep"]

#: Increased when a metric changes its meaning, so that old and new results are not mixed.
METRICS_VERSION = 4
DEFAULT_METRICS = ("attack", "probe", "neighbours")
#: The end of the label of a method that is fitted with ``keep``, the task of the data.
KEEPS_TASK = ":keep"
#: The first and the last columns of the frame; the metrics are between them.
_FIRST = ("dataset", "method", "rank", "seed")
_LAST = ("kept_rank", "fit_seconds", "seconds", "status", "error", "key")


def sweep(
    methods: Any,
    datasets: Dataset | Sequence[Dataset] | Mapping[str, Dataset],
    ranks: Any = None,
    seeds: int | Sequence[int] = 3,
    metrics: Sequence[str] | Mapping[str, Any] = DEFAULT_METRICS,
    *,
    budget: str = "quick",
    path: str | os.PathLike[str] | None = None,
    resume: bool = False,
    retry: bool = False,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    verbose: bool = False,
) -> pd.DataFrame:
    """Fit and measure every method at every rank and seed on every data set.

    Parameters
    ----------
    methods : names, estimators, or mapping of labels to them
        Names of ``unspot.methods()``, "cascade:NAME", "original"; estimators, of which each cell
        sets ``rank`` and ``random_state``; or your own method: anything with ``fit`` and
        ``transform``, a frozen ``Eraser``, or a function of rows. Tables show a label as it is.
        A method whose label ends in ":keep" is fitted with ``keep``, the task of the data.
    datasets : Dataset, several, or mapping of names to them
        Methods are fitted on train rows, attackers learn from validation rows, and all scores are
        of test rows.
    ranks : sequence of int or fractions, or mapping of data sets' names to them
        For methods with a rank; the others have one cell per seed.
    seeds : int or sequence of int
        Each decides the fit and every metric of a cell.
    metrics : sequence of str, or mapping of names to functions of a ``Problem``
        See ``evaluate``. By default "attack", "probe" and "neighbours", as the data allow.
    budget : {"quick", "standard", "thorough"}
        The effort of the attackers.
    path : path, optional
        A file to which every finished cell is appended.
    resume : bool
        Run only the cells that are not in ``path`` yet.
    retry : bool
        With ``resume``, run failed cells again.
    n_jobs : int, optional
        The number of cells that run at once; by default that of ``joblib.parallel_config``, or one.
    max_seconds : float, optional
        A cell that takes longer has failed, and its error says so. Not on Windows.
    verbose : bool
        Show progress, with an estimate of the time left.

    Returns
    -------
    DataFrame
        One row per cell: data set, method, rank, seed, the metrics, seconds, and the error of a
        cell that failed. A failed cell does not stop the others.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> data = Dataset.from_arrays(X, np.arange(300) % 2, random_state=0)
    >>> frame = sweep(["original", "pca"], data, ranks=[3, 1], seeds=1, metrics=["variance"])
    >>> frame[["method", "rank", "variance"]].round(2).values.tolist()[0]
    ['original', nan, 1.0]
    >>> len(frame)
    3
    """
    named = _named_datasets(datasets)
    if metrics is DEFAULT_METRICS:  # a number has no classes for a probe
        metrics = [m for m in metrics if not any(m in lacking(data) for data in named.values())]
    for data in named.values():
        check_metrics(metrics, data)
    names = [metrics] if isinstance(metrics, str) else sorted(metrics)
    if not isinstance(metrics, Mapping):  # earlier versions had the gaps of another classifier
        names = ["fairness: logistic" if name == "fairness" else name for name in names]
    settings = {"metrics": names, "budget": budget, "version": METRICS_VERSION}
    labelled = isinstance(methods, Mapping)
    grid = cells(named_methods(methods), named, ranks, check_seeds(seeds), settings, labelled)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    if path is None and resume:
        raise ValueError(
            "Got resume=True without a path, but expected the file to go on with. Pass its path."
        )
    file: Any = nullcontext(None) if path is None else Journal(path, settings, resume=resume)
    with file as journal:
        records = _earlier_results(journal, grid, retry)
        calls = [
            delayed(run_cell)(cell, named[cell.dataset], metrics, budget, max_seconds)
            for cell in grid
            if cell.key not in records
        ]
        with phase("Sweep", len(calls), unit="cells", verbose=verbose) as here:
            for record in _results(calls, n_jobs):
                records[record["key"]] = record
                if journal is not None:
                    journal.append(record)
                here.advance()
    return results_frame([records[cell.key] for cell in grid])


def read_results(*paths: str | os.PathLike[str]) -> pd.DataFrame:
    """The frame of result files, in the order of their lines."""
    records = [record for path in paths for record in read_journal(path)[1].values()]
    return results_frame(records)


def run_cell(
    cell: Cell,
    data: Dataset,
    metrics: Sequence[str] | Mapping[str, Any],
    budget: str,
    max_seconds: float | None = None,
) -> dict[str, Any]:
    """Fit and measure one cell; an error becomes part of the result."""
    started = time.perf_counter()
    record: dict[str, Any] = {
        "key": cell.key,
        "dataset": cell.dataset,
        "data": cell.facts,
        "method": cell.method,
        "parameters": _parameters(cell.estimator),
        "rank": cell.rank,
        "seed": cell.seed,
        **({"label": cell.label} if cell.label else {}),
    }
    rank = "" if cell.rank is None else f", rank {cell.rank}"
    try:
        note = f"{cell.dataset}, {cell.method}{rank}"
        with time_limit(max_seconds), phase("Cell", note=note):
            eraser = _fitted(cell, data)
            kept = getattr(eraser, "rank", None)
            record |= {"kept_rank": kept, "fit_seconds": time.perf_counter() - started}
            scores = score(eraser, data, metrics, budget=budget, random_state=cell.seed)
        record |= {"metrics": scores.values, "details": scores.details, "status": "ok"}
    except Exception as error:  # any error: the other cells go on
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return record | {"seconds": time.perf_counter() - started}


def _fitted(cell: Cell, data: Dataset) -> Any:
    """What erases rows: an Eraser, a fitted transformer or a function."""
    estimator = cell.estimator
    if estimator is None:
        return Eraser.projection(np.eye(data.n_features))
    if not hasattr(estimator, "fit"):
        return estimator
    keeps = cell.method.endswith(KEEPS_TASK)
    if keeps and data.train.y is None:
        raise ValueError(
            f"Got the method {cell.method!r}, which keeps a task, but {cell.dataset!r} has none. "
            "Give the data set a task, y, or leave the method out."
        )
    beside = {"keep": data.train.y} if keeps else {}
    estimator.fit(data.train.X, data.train.z, **beside)
    return getattr(estimator, "eraser_", estimator)


def _parameters(estimator: Any) -> dict[str, str]:
    """Parameters that are not the default, as text."""
    if not hasattr(estimator, "get_params"):
        return {}
    try:
        default = type(estimator)().get_params()
    except TypeError:  # somebody's own class may have parameters without a default
        default = {}
    return {
        name: repr(value)
        for name, value in estimator.get_params().items()
        if not isinstance(value, BaseEstimator) and repr(default.get(name)) != repr(value)
    }


def _results(calls: Sequence[Any], n_jobs: int | None) -> Iterator[dict[str, Any]]:
    """Results in the order in which they are finished, wherever joblib runs the cells."""
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    except ValueError:  # a backend, such as Ray's, that gives results only at the end
        at_once = max(1, Parallel(n_jobs=n_jobs)._effective_n_jobs())
        for start in range(0, len(calls), at_once):
            yield from Parallel(n_jobs=n_jobs)(calls[start : start + at_once])
        return
    yield from parallel(calls)


def _earlier_results(
    journal: Journal | None, grid: Sequence[Cell], retry: bool
) -> dict[str, dict[str, Any]]:
    """Results in the file that belong to this grid."""
    if journal is None:
        return {}
    fingerprints = {cell.dataset: cell.facts["fingerprint"] for cell in grid}
    for record in journal.records.values():
        fingerprint = record["data"]["fingerprint"]
        if fingerprints.get(record["dataset"], fingerprint) != fingerprint:
            raise ValueError(
                f"Got {str(journal.path)!r}, which holds results of other rows under the name "
                f"{record['dataset']!r}. Use another file, or another name."
            )
    wanted = {cell.key for cell in grid}
    return {
        key: record
        for key, record in journal.records.items()
        if key in wanted and not (retry and record["status"] == "failed")
    }


def _named_datasets(datasets: Any) -> dict[str, Dataset]:
    if isinstance(datasets, Mapping):
        named = {str(name): data for name, data in datasets.items()}
    else:
        several = [datasets] if isinstance(datasets, Dataset) else list(datasets)
        named = {data.name: data for data in several if isinstance(data, Dataset)}
        if len(named) < len(several):
            raise ValueError(
                "Got data sets of another type, or two of one name, but expected unspot.Dataset "
                "objects of different names. Pass a mapping of names to them."
            )
    if not named:
        raise ValueError("Got no data sets, but expected at least one.")
    return named


def results_frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per cell of a result file."""
    require("sweep", "report", "pandas")
    import pandas as pd

    names = dict.fromkeys(name for record in records for name in record.get("metrics", ()))
    rows = [{**record, **record.get("metrics", {})} for record in records]
    labelled = ["label"] if any("label" in record for record in records) else []
    return pd.DataFrame(rows, columns=[*_FIRST, *names, *_LAST, *labelled])
