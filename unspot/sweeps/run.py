"""A grid of methods, ranks and seeds on several data sets: parallel, and safe to interrupt.

Where the cells run is joblib's choice (``joblib.parallel_config``): processes of this machine,
Dask or Ray. What is finished is written at once by the process that called ``sweep``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from unspot.data.dataset import Dataset
from unspot.eraser import Eraser
from unspot.evaluation.run import check_metrics, score
from unspot.sweeps.grid import Cell, cells, named_methods, seed_list
from unspot.sweeps.journal import Journal, read_journal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_results", "sweep"]

#: Raised whenever a metric changes its meaning, so that old results are not taken for new ones.
METRICS_VERSION = 3
DEFAULT_METRICS = ("attack", "probe", "neighbours")
#: What identifies a cell, and what every cell has; the metrics stand between.
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
    verbose: bool = False,
) -> pd.DataFrame:
    """Fit and measure every method at every rank and seed on every data set.

    Parameters
    ----------
    methods : names, estimators, or mapping of labels to them
        Names of ``unspot.methods()``, "cascade:NAME", "original"; or estimators. Their rank and
        random_state are set cell by cell.
    datasets : Dataset, several, or mapping of names to them
        Fitted on train rows; attackers chosen on validation rows; all scores of test rows.
    ranks : sequence of int or fractions, or mapping of data sets' names to them
        For methods with a rank; the others have one cell a seed.
    seeds : int or sequence of int
        Each decides the fit and every metric of a cell.
    metrics : sequence of str, or mapping of names to functions of a ``Problem``
        See ``evaluate``.
    budget : {"quick", "standard", "thorough"}
        How hard attackers try.
    path : path, optional
        A file that every finished cell is appended to.
    resume : bool
        Go on with the cells that ``path`` does not hold yet.
    retry : bool
        With ``resume``, run cells again that failed.
    n_jobs : int, optional
        Cells at once; by default what ``joblib.parallel_config`` says, else one.
    verbose : bool
        Show progress, with an estimate of the time left.

    Returns
    -------
    DataFrame
        One row a cell: data set, method, rank, seed, the metrics, seconds, and the error of a
        cell that failed. One that fails does not stop the others.

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
    for data in named.values():
        check_metrics(metrics, data)
    settings = {
        "metrics": sorted(metrics) if not isinstance(metrics, str) else [metrics],
        "budget": budget,
        "version": METRICS_VERSION,
    }
    grid = cells(named_methods(methods), named, ranks, seed_list(seeds), settings)
    if path is None and resume:
        raise ValueError("Got resume=True without a path, but there is no file to go on with.")
    journal: Any = nullcontext(None) if path is None else Journal(path, settings, resume=resume)
    with journal as kept:
        records = _known(kept, grid, retry)
        left = [cell for cell in grid if cell.key not in records]
        bar = tqdm(total=len(grid), initial=len(records), unit="cell", disable=not verbose)
        with bar:
            for record in _results(left, named, metrics, budget, n_jobs):
                records[record["key"]] = record
                if kept is not None:
                    kept.append(record)
                bar.update()
                bar.set_postfix_str(_describe(record))
    return _frame([records[cell.key] for cell in grid])


def read_results(*paths: str | os.PathLike[str]) -> pd.DataFrame:
    """The frame of result files, in the order of their lines."""
    records = [record for path in paths for record in read_journal(path)[1].values()]
    return _frame(records)


def run_cell(
    cell: Cell, data: Dataset, metrics: Sequence[str] | Mapping[str, Any], budget: str
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
    }
    try:
        eraser = _fitted(cell.estimator, data)
        record |= {"kept_rank": eraser.rank, "fit_seconds": time.perf_counter() - started}
        found = score(eraser, data, metrics, budget=budget, random_state=cell.seed)
        record |= {"metrics": found.values, "details": found.details, "status": "ok"}
    except Exception as error:  # whatever it is, the other cells go on
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return record | {"seconds": time.perf_counter() - started}


def _fitted(estimator: Any, data: Dataset) -> Eraser:
    if estimator is None:
        return Eraser.projection(np.eye(data.n_features))
    result: Eraser = estimator.fit(data.train.X, data.train.z).eraser_
    return result


def _parameters(estimator: Any) -> dict[str, str]:
    """Parameters that are not the default, as text."""
    if estimator is None:
        return {}
    from sklearn.base import BaseEstimator

    default = type(estimator)().get_params() if callable(type(estimator)) else {}
    return {
        name: repr(value)
        for name, value in estimator.get_params().items()
        if not isinstance(value, BaseEstimator) and repr(default.get(name)) != repr(value)
    }


def _results(
    left: Sequence[Cell],
    datasets: Mapping[str, Dataset],
    metrics: Any,
    budget: str,
    n_jobs: int | None,
) -> Iterator[dict[str, Any]]:
    """Results as they come, wherever joblib runs them."""
    from joblib import Parallel, delayed

    calls = [delayed(run_cell)(cell, datasets[cell.dataset], metrics, budget) for cell in left]
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    except ValueError:  # a backend, such as Ray's, that gives all results at the end
        at_once = max(1, Parallel(n_jobs=n_jobs)._effective_n_jobs())
        for start in range(0, len(calls), at_once):
            yield from Parallel(n_jobs=n_jobs)(calls[start : start + at_once])
        return
    yield from parallel(calls)


def _known(journal: Journal | None, grid: Sequence[Cell], retry: bool) -> dict[str, dict[str, Any]]:
    """Results of before that belong to this grid."""
    if journal is None:
        return {}
    prints = {cell.dataset: cell.facts["fingerprint"] for cell in grid}
    for record in journal.records.values():
        found = record["data"]["fingerprint"]
        if prints.get(record["dataset"], found) != found:
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
                "Got data sets that are none, or two of one name, but expected unspot.Dataset "
                "objects of different names. Pass a mapping of names to them."
            )
    if not named:
        raise ValueError("Got no data sets, but expected at least one.")
    return named


def _frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    try:
        import pandas as pd
    except ImportError:
        raise ImportError('sweep needs pandas: pip install "unspot[report]"') from None
    names = dict.fromkeys(name for record in records for name in record.get("metrics", ()))
    rows = [{**record, **record.get("metrics", {})} for record in records]
    return pd.DataFrame(rows, columns=[*_FIRST, *names, *_LAST])


def _describe(record: Mapping[str, Any]) -> str:
    rank = "" if record["rank"] is None else f" {record['rank']}"
    return f"{record['dataset']} {record['method']}{rank}"
