"""The paper's tables, made from the lines of a benchmark."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from unspot.sweeps.tables import ResultLine, ResultTable

__all__ = ["paper_tables", "pick", "study_of", "to_csv"]

_ERASURE = (
    *("probe_binary", "probe_reference", "attack", "mdl_paper", "mdl", "neighbours_paper"),
    *("words", "task", "task_linear", "fit_seconds"),
)
_STUDY = (
    *("probe_reference", "attack", "mdl_paper", "neighbours_paper"),
    *("words", "task", "task_linear"),
)
_FAIRNESS = ("task", "tpr_gap", "tpr_gap_correlation", "demographic_parity")
#: Title and metrics of the table of each of the smaller studies.
_STUDIES = {
    "batch": ("Batch size (Tables 6–8)", _STUDY),
    "kernels": ("Number of kernels (Tables 9–11)", _STUDY),
    "metric": ("Metric", (*_STUDY, "neighbours")),
    "preserve": ("Preservation of variance", (*_STUDY, "variance")),
    "solver": ("Solver", (*_STUDY, "fit_seconds")),
}
_FIRST_TABLES = {"1a", "1b", "1c"}
_CSV_HEAD = (
    *("table", "method", "rank", "metric", "mean", "spread"),
    *("paper_mean", "paper_spread", "paper_table"),
)


def study_of(method: str) -> str:
    """The study that a label belongs to: the name of its setting.

    Examples
    --------
    >>> study_of("cascade:farm"), study_of("cascade/kernels=2")
    ('main', 'kernels')
    """
    return method.partition("/")[2].partition("=")[0] or "main"


def pick(lines: Iterable[ResultLine], study: str) -> list[ResultLine]:
    """The lines of a study."""
    return [line for line in lines if study_of(line.method) == study]


def paper_tables(lines: Sequence[ResultLine]) -> list[ResultTable]:
    """The paper's tables that there are lines for."""
    main = pick(lines, "main")
    first = (*(line for line in main if line.rank is None), *_ranks_of_first_table(main))
    tables = [
        ResultTable("erasure", "Erasure (Table 1)", first, _ERASURE),
        ResultTable("fairness", "Fairness of the task (Table 2)", first, _FAIRNESS),
        ResultTable("by-rank", "By rank (Tables 3–5)", tuple(main), _ERASURE),
    ]
    for study, (title, metrics) in _STUDIES.items():
        tables.append(ResultTable(study, title, tuple(pick(lines, study)), metrics))
    return [table for table in tables if table.columns]


def _ranks_of_first_table(main: Sequence[ResultLine]) -> Iterator[ResultLine]:
    """For each L̄EOPARD the ranks of the paper's first table, or else the middle rank."""
    for method in ("leopard", "cascade"):
        lines = [line for line in main if line.method == method]
        first = [line for line in lines if _FIRST_TABLES & set(line.published_in.split(", "))]
        middle = len(lines) // 2
        yield from first or lines[middle : middle + 1]


def to_csv(tables: Sequence[ResultTable]) -> str:
    """All tables as one long table: one row per number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEAD)
    for table in tables:
        for line in table.lines:
            for metric in (column.key for column in table.columns if column.key in line.values):
                cell = [table.name, line.method, line.rank, metric, *line.values[metric]]
                published = line.published.get(metric, (None, None))
                source = line.published_in if metric in line.published else None
                writer.writerow([*cell, *published, source])
    return text.getvalue()
