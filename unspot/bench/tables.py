"""Tables of the benchmark: Markdown, LaTeX and CSV, the paper's numbers in brackets beside ours."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unspot.bench.summary import Line, pick
from unspot.evaluation.metrics import about

__all__ = ["COLUMNS", "Column", "Table", "tables", "to_csv", "to_latex", "to_markdown"]


@dataclass(frozen=True)
class Column:
    """A metric in a table."""

    key: str
    title: str
    unit: str = ""  # "share" is shown in per cent
    better: str = ""  # "↓" or "↑"


_ARROWS = {"lower": "↓", "higher": "↑", "none": ""}
COLUMNS = {
    metric.key: Column(metric.key, metric.column, metric.unit, _ARROWS[metric.better])
    for metric in map(
        about,
        (
            *("attack", "probe", "probe_reference", "linear", "probe_binary"),
            *("mdl", "mdl_paper", "neighbours", "neighbours_paper", "words", "task", "task_linear"),
            *("tpr_gap", "tpr_gap_correlation", "demographic_parity", "variance"),
        ),
    )
}
COLUMNS["fit_seconds"] = Column("fit_seconds", "fit, s", "seconds", "↓")

_ERASURE = ("probe_binary", "probe_reference", "attack", "mdl_paper", "mdl", "neighbours_paper")
_UTILITY = ("words", "task", "task_linear", "fit_seconds")
_STUDY = (
    *("probe_reference", "attack", "mdl_paper", "neighbours_paper"),
    *("words", "task", "task_linear"),
)
_FAIRNESS = ("task", "tpr_gap", "tpr_gap_correlation", "demographic_parity")
_LEOPARDS = ("leopard", "cascade")


@dataclass(frozen=True)
class Table:
    """Lines to show, and the metrics of them to show."""

    name: str
    title: str
    lines: tuple[Line, ...]
    metrics: tuple[str, ...]

    @property
    def columns(self) -> list[Column]:
        """Those that at least one line has."""
        return [
            COLUMNS.get(key, Column(key, key))
            for key in self.metrics
            if any(key in line.values for line in self.lines)
        ]


def tables(found: Sequence[Line]) -> list[Table]:
    """The paper's tables, as far as there are lines for them."""
    main = pick(found, "main")
    without = [line for line in main if line.rank is None]
    shown = [*without, *_of_first_table(main)]
    made = [
        Table("erasure", "Erasure (Table 1)", tuple(shown), (*_ERASURE, *_UTILITY)),
        Table("fairness", "Fairness of the task (Table 2)", tuple(shown), _FAIRNESS),
        Table("by-rank", "By rank (Tables 3–5)", tuple(main), (*_ERASURE, *_UTILITY)),
        Table("batch", "Batch size (Tables 6–8)", tuple(pick(found, "batch")), _STUDY),
        Table("kernels", "Number of kernels (Tables 9–11)", tuple(pick(found, "kernels")), _STUDY),
        Table("metric", "Metric", tuple(pick(found, "metric")), (*_STUDY, "neighbours")),
        Table(
            "preserve",
            "Preservation of variance",
            tuple(pick(found, "preserve")),
            (*_STUDY, "variance"),
        ),
        Table("solver", "Solver", tuple(pick(found, "solver")), (*_STUDY, "fit_seconds")),
    ]
    return [table for table in made if table.lines and table.columns]


def to_markdown(table: Table) -> str:
    """A Markdown table.

    Examples
    --------
    >>> line = Line("main", "leace", None, 2, {"attack": (0.81, 0.01)})
    >>> print(to_markdown(Table("erasure", "Erasure", (line,), ("attack",))))
    | method | r | strongest attacker, % ↓ |
    |:--|--:|--:|
    | LEACE | – | 81.0 ± 1.0 |
    """
    head, *body = _cells(table)
    rows = [head, [":--", *["--:"] * (len(head) - 1)], *body]
    return "\n".join(
        "| " + " | ".join(row) + " |" if row[0] != ":--" else _rule(row) for row in rows
    )


def to_latex(table: Table) -> str:
    r"""A ``booktabs`` table, ready for ``\input``."""
    head, *body = _cells(table)
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", "\\toprule"]
    lines += [_latex_row(head), "\\midrule", *map(_latex_row, body)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def to_csv(made: Sequence[Table]) -> str:
    """All tables as one long table: a row for each number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "table",
            "method",
            "rank",
            "metric",
            "mean",
            "spread",
            "paper_mean",
            "paper_spread",
            "paper_table",
        ]
    )
    for table in made:
        for line in table.lines:
            for column in table.columns:
                if column.key in line.values:
                    writer.writerow(_csv_row(table, line, column))
    return text.getvalue()


def _of_first_table(main: Sequence[Line]) -> Iterator[Line]:
    """Of each L̄EOPARD, the ranks that are in the paper's first table; else the middle one."""
    for method in _LEOPARDS:
        own = [line for line in main if line.method == method]
        first = [line for line in own if _in_first_table(line)]
        yield from first or own[len(own) // 2 : len(own) // 2 + 1]


def _in_first_table(line: Line) -> bool:
    named = set() if line.paper is None else set(line.paper.table.split(", "))
    return bool(named & {"1a", "1b", "1c"})


def _cells(table: Table) -> list[list[str]]:
    head = ["method", "r", *(f"{c.title} {c.better}".strip() for c in table.columns)]
    rows = [head]
    for line in table.lines:
        rank = "–" if line.rank is None else str(line.rank)
        rows.append([line.name, rank, *(_cell(line, column) for column in table.columns)])
    return rows


def _cell(line: Line, column: Column) -> str:
    if column.key not in line.values:
        return "failed" if line.errors else "–"
    mean, spread = line.values[column.key]
    text = _number(mean, column)
    if line.n_seeds > 1:
        text += f" ± {_number(spread, column)}"
    theirs = line.papers(column.key)
    return text if theirs is None else f"{text} ({_number(theirs[0], column)})"


def _number(value: float, column: Column) -> str:
    if column.unit == "share":
        return f"{100 * value:.1f}"
    return f"{value:.1f}" if column.unit in ("kbit", "seconds") else f"{value:.2f}"


def _rule(row: Sequence[str]) -> str:
    return "|" + "|".join(row) + "|"


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "↓": "$\\downarrow$",
    "↑": "$\\uparrow$",
    "±": "$\\pm$",
    "σ": "$\\sigma$",
    "–": "--",
    "L̄": "$\\overline{\\mathrm{L}}$",
}


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_latex(cell) for cell in cells) + r" \\"


def _latex(text: str) -> str:
    for sign, meant in _LATEX.items():
        if sign not in "${}":  # those that the others bring in
            text = text.replace(sign, meant)
    return text


def _csv_row(table: Table, line: Line, column: Column) -> list[object]:
    mean, spread = line.values[column.key]
    theirs = line.papers(column.key)
    paper = ["", "", ""]
    if theirs is not None and line.paper is not None:
        paper = [str(theirs[0]), "" if theirs[1] is None else str(theirs[1]), line.paper.table]
    rank = "" if line.rank is None else line.rank
    return [table.name, line.method, rank, column.key, mean, spread, *paper]
