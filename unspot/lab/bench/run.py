"""The benchmark: its studies as sweeps into one result file, then tables and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unspot.checks import check_choice
from unspot.data.dataset import Dataset
from unspot.evaluation.metrics import Metric
from unspot.io.files import write_atomically
from unspot.lab.bench.budgets import budget_tables
from unspot.lab.bench.figures import save_figures
from unspot.lab.bench.paper import BenchData, open_bench_data, paper_tables, with_paper
from unspot.lab.bench.studies import SCHEDULES, Schedule, Study, studies
from unspot.lab.metrics import LAB_METRICS, NEUTRAL, lacking_in_lab
from unspot.lab.sweep import Record, attack_chance, read_results, sweep
from unspot.lab.tables import ResultLine, result_lines, save_tables

__all__ = ["BenchResult", "bench", "bench_metrics"]


def bench_metrics(data: Dataset) -> list[Metric]:
    """Choose the metrics that the paper reports and the data allow, and the strongest attacker."""
    names = (
        *("attack", "probe", "mdl", "mdl_paper", "neighbours", "neighbours_paper", "variance"),
        *("words", "task_linear", "task", "fairness_paper", "probe_reference"),
    )
    missing = lacking_in_lab(data)
    chosen = [LAB_METRICS[name] for name in names if name not in missing]
    if NEUTRAL in data.train.z and len(np.unique(data.train.z)) == 3:
        chosen.append(LAB_METRICS["probe_binary"])
    return chosen


# -- The run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BenchResult:
    """Records of all cells, the data that they were run on, and the files that were written."""

    records: list[Record]
    source: BenchData
    files: tuple[Path, ...] = ()

    @cached_property
    def lines(self) -> list[ResultLine]:
        """The cells summarised over seeds, with the paper's numbers."""
        lines = result_lines(self.records)
        return with_paper(lines, self.source.paper, self.source.data.n_features)

    @property
    def chance(self) -> float:
        """Balanced accuracy of an attacker who guesses."""
        return attack_chance(self.records[0]["data"])


def bench(
    name: str,
    *,
    effort: str | Schedule = "standard",
    ranks: Sequence[int | float] | None = None,
    seeds: int | Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    n_jobs: int | None = None,
    figures: bool = True,
    verbose: bool = False,
    **data: Any,
) -> BenchResult:
    """Regenerate the paper's tables and figures on a data set.

    Parameters
    ----------
    name, **data
        The data: see ``unspot.lab.data.open_data``.
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
    out : path, optional
        A folder for ``results.jsonl``, to which every finished cell is added, tables and figures.
    resume, n_jobs, verbose
        See ``sweep``.
    figures : bool
        Whether to draw figures, which needs matplotlib.
    """
    if not isinstance(effort, Schedule):
        effort = SCHEDULES[check_choice("effort", effort, SCHEDULES)]
    source = open_bench_data(name, **data)
    to_run = studies(only or effort.studies, source.data, source.paper, effort, ranks)
    if methods is not None:
        to_run = _limited(to_run, methods)
    folder = None if out is None else Path(out)
    records: list[Record] = []
    for study in to_run:
        records += sweep(
            study.methods,
            {source.data.name: source.data},
            study.ranks,
            effort.seeds if seeds is None else seeds,
            bench_metrics(source.data),
            budget=effort.budget,
            path=None if folder is None else folder / "results.jsonl",
            # All studies go into one file, which holds results after the first of them.
            resume=folder is not None and (resume or bool(records)),
            n_jobs=n_jobs,
            verbose=verbose,
        )
    result = BenchResult(records, source)
    if folder is None:
        return result
    return replace(result, files=tuple(_write_all(result, folder, figures)))


def _limited(to_run: Sequence[Study], methods: Sequence[str]) -> list[Study]:
    """Keep only these methods of the studies, and no study without a method."""
    labels = [label for study in to_run for label in study.methods]
    for method in methods:
        check_choice("method", method, labels)
    limited = [
        replace(study, methods={k: v for k, v in study.methods.items() if k in methods})
        for study in to_run
    ]
    return [study for study in limited if study.methods]


# -- Files -----------------------------------------------------------------------------------------

_ABOUT_BUDGETS = (
    "The strongest attacker on rows that the eraser has not seen, in points above guessing, when "
    "the utility may fall by so many points below that of the original rows. Each method stands "
    "with the best of its ranks and settings that are within the budget (–: none is). They are "
    "chosen on the rows that are judged, which favours methods with many of them a little."
)


def _write_all(result: BenchResult, folder: Path, figures: bool) -> list[Path]:
    """Write tables as Markdown, LaTeX and CSV, and figures.

    The tables of leaks compare all methods in the result file, also those of earlier runs.
    """
    name = result.source.data.name
    earlier = [r for r in read_results(folder / "results.jsonl") if r["dataset"] == name]
    every = result_lines([*earlier, *result.records])
    tables, budgets = paper_tables(result.lines), budget_tables(every, result.chance)
    data = result.source.data
    rows = " / ".join(f"{len(split):,}" for split in data)
    parts = [
        f"# Benchmark on {name}",
        f"{rows} rows of train, validation and test, {data.n_features} features. Mean ± spread "
        f"over seeds. {result.source.about_paper}".strip(),
    ]
    for table in tables:
        parts += [f"## {table.title}", table.to_markdown()]
    for budget in budgets:
        parts += [f"## {budget.title}", _ABOUT_BUDGETS, budget.to_markdown()]
    failed = [f"- {line.name}: {error}" for line in result.lines for error in line.errors]
    if failed:
        parts += ["## Cells that failed", "\n".join(failed)]
    write_atomically(folder / "tables.md", ("\n\n".join(parts) + "\n").encode())
    files = [*save_tables(folder, tables, budgets), folder / "tables.md"]
    if figures:
        files += save_figures(every, result.records, data, result.chance, folder / "figures")
    return files
