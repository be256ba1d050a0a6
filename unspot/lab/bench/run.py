"""The benchmark: its studies as sweeps into one result file, then tables, figures and a page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unspot.checks import check_choice
from unspot.data.dataset import Dataset
from unspot.evaluation.metrics import METRICS, lacking, one_row
from unspot.evaluation.problem import Finding, MetricFunction, Problem
from unspot.evaluation.results import Value
from unspot.io.progress import steps
from unspot.lab.bench.output import write_all
from unspot.lab.bench.paper import BenchData, open_bench_data, with_paper
from unspot.lab.bench.studies import SCHEDULES, Schedule, Study, studies
from unspot.lab.sweeps.run import sweep
from unspot.lab.sweeps.tables import ResultLine, result_lines

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BenchResult", "bench", "bench_metrics", "probe_binary", "probe_reference"]

#: The class that the paper leaves out where it treats gender as binary.
NEUTRAL = "neutral"


def probe_reference(problem: Problem) -> Finding:
    """The probe behind the paper's tables: scikit-learn's defaults, 20 iterations."""
    value = _accuracy(problem, np.ones(len(problem.train), bool), np.ones(len(problem.test), bool))
    return one_row("probe_reference", None, value)


def probe_binary(problem: Problem) -> Finding:
    """The same probe on two of the three classes, male and female."""
    value = _accuracy(problem, problem.train.z != NEUTRAL, problem.test.z != NEUTRAL)
    return one_row("probe_binary", None, value)


def bench_metrics(data: Dataset) -> dict[str, MetricFunction]:
    """All that the paper reports and the data allow, and the strongest attacker."""
    names = (
        *("attack", "probe", "mdl", "mdl_paper", "neighbours", "neighbours_paper", "variance"),
        *("words", "task_linear", "task", "fairness"),
    )
    missing = lacking(data)
    chosen = {name: METRICS[name] for name in names if name not in missing}
    if "fairness" in chosen:  # under its old name, so that results of earlier runs are found
        chosen["fairness"] = METRICS["fairness_paper"]
    chosen["probe_reference"] = probe_reference
    if NEUTRAL in data.train.z and len(np.unique(data.train.z)) == 3:
        chosen["probe_binary"] = probe_binary
    return chosen


def _accuracy(
    problem: Problem,
    train: np.ndarray[tuple[int], np.dtype[np.bool_]],
    test: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Value:
    from unspot.evaluation.probes import probe_accuracy

    scores = probe_accuracy(
        problem.after.train.X[train],
        problem.train.z[train],
        problem.after.test.X[test],
        problem.test.z[test],
        preset="reference",
        seeds=problem.seeds,
        random_state=problem.random_state,
    )
    return Value(scores.mean, scores.spread)


# -- The run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BenchResult:
    """All cells as a frame, the data that they were run on, and the files that were written."""

    frame: pd.DataFrame
    source: BenchData
    seconds: float
    files: tuple[Path, ...] = ()

    @cached_property
    def lines(self) -> list[ResultLine]:
        """The cells summed up over seeds, with the paper's numbers."""
        lines = result_lines(self.frame)
        return with_paper(lines, self.source.paper, self.source.data.n_features)


def bench(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    concept: str = "z",
    task: str | None = "y",
    features: str | None = None,
    effort: str | Schedule = "standard",
    ranks: Sequence[int | float] | None = None,
    seeds: int | Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    max_train_rows: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    retry: bool = False,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    figures: bool = True,
    verbose: bool = False,
) -> BenchResult:
    """Regenerate the paper's tables and figures on a data set.

    Parameters
    ----------
    name, source, concept, task, features
        The data: see ``unspot.lab.sweeps.data.open_data``.
    effort : {"quick", "standard", "paper"} or Schedule
        How much is run: minutes, tens of minutes, or the paper's schedule.
    ranks : sequence of int or fractions, optional
        Used instead of the paper's ranks.
    seeds : int or sequence of int, optional
        The seeds of every cell.
    only : sequence of str, optional
        Studies to run: main, field, rivals, task, metric, preserve, kernels, batch, solver.
    methods : sequence of str, optional
        Labels of the studies' methods to run.
    max_train_rows : int, optional
        Fit on a sample of the training rows.
    out : path, optional
        A folder for ``results.jsonl``, to which every finished cell is added, and for tables,
        figures and the page.
    resume : bool
        Continue the run in ``out``.
    retry : bool
        With ``resume``, run failed cells again.
    n_jobs : int, optional
        The number of cells that run at once; as in ``sweep``.
    max_seconds : float, optional
        The most that a cell may take; as in ``sweep``.
    figures : bool
        Whether to draw figures, which needs matplotlib.
    verbose : bool
        Show progress.
    """
    started = time.perf_counter()
    if isinstance(effort, Schedule):
        schedule = effort
    else:
        schedule = SCHEDULES[check_choice("effort", effort, SCHEDULES)]
    columns = {"concept": concept, "task": task, "features": features}
    source_data = open_bench_data(name, source=source, max_rows=max_train_rows, **columns)
    to_run = studies(only or schedule.studies, source_data.data, source_data.paper, schedule, ranks)
    if methods is not None:
        to_run = _limited(to_run, methods)
    folder = None if out is None else Path(out)
    frame = _run(
        to_run,
        source_data,
        folder,
        seeds=schedule.seeds if seeds is None else seeds,
        budget=schedule.budget,
        resume=resume,
        retry=retry,
        n_jobs=n_jobs,
        max_seconds=max_seconds,
        verbose=verbose,
    )
    result = BenchResult(frame, source_data, time.perf_counter() - started)
    if folder is None:
        return result
    return replace(result, files=tuple(write_all(result, folder, figures=figures)))


def _run(
    to_run: Sequence[Study], source: BenchData, folder: Path | None, *, resume: bool, **options: Any
) -> pd.DataFrame:
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for study in steps(to_run, "Study", name=attrgetter("name"), verbose=options["verbose"]):
        frame = sweep(
            study.methods,
            {source.data.name: source.data},
            study.ranks,
            metrics=bench_metrics(source.data),
            path=None if folder is None else folder / "results.jsonl",
            # All studies go into one file, which holds results after the first of them.
            resume=folder is not None and (resume or bool(frames)),
            **options,
        )
        frames.append(frame.drop(columns="label"))  # tables have names for the labels of studies
    return pd.concat(frames, ignore_index=True)


def _limited(to_run: Sequence[Study], methods: Sequence[str]) -> list[Study]:
    """The studies with only these methods, without studies that have none of them."""
    labels = [label for study in to_run for label in study.methods]
    for method in methods:
        check_choice("method", method, labels)
    limited = [
        replace(study, methods={k: v for k, v in study.methods.items() if k in methods})
        for study in to_run
    ]
    return [study for study in limited if study.methods]
