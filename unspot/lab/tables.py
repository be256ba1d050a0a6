"""Records of a sweep as tables: means and standard deviations over seeds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unspot.io.files import write_atomically
from unspot.lab.sweep import Record
from unspot.tables import markdown

__all__ = [
    "COLUMNS",
    "ResultLine",
    "ResultTable",
    "display_name",
    "latex",
    "result_lines",
    "save_tables",
    "sweep_tables",
    "to_csv",
]

#: Characters that LaTeX would read as commands, and characters that its fonts lack.
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "σ": r"$\sigma$",
    "–": "--",
    "…": r"\ldots{}",
    "\u0304": "",  # a macron; the one of L̄EOPARD is replaced before
}

#: Names of methods in tables, where they differ from their labels.
_NAMES = {
    "leace": "LEACE",
    "inlp": "INLP",
    "rlace": "R-LACE",
    "farm": "FaRM",
    "cascade:farm": "FaRM, cascaded",
    "kernel": "kernel erasure",
    "matching": "moment matching",
    "mean": "mean projection",
    "random": "random projection",
    "pca": "PCA",
    "cascade:pca": "PCA, cascaded",
    "fleace": "FLEACE",
    "alf": "ALF-QLEACE",
    "fairpca": "fair PCA",
    "mute": "MUtE",
    "igbp": "IGBP",
    "obliviator": "Obliviator",
    "leopard:keep": "L̄EOPARD, given the task",
    "cascade:keep": "L̄EOPARD, cascaded, given the task",
    "obliviator:keep": "Obliviator, given the task",
    "splince:keep": "SPLINCE, given the task",
    "concept-erasure": "LEACE of concept-erasure",
    "fairlearn": "CorrelationRemover of fairlearn",
    "kram": "KRaM",
    "cascade:kram": "KRaM, cascaded",
    "leopard": "L̄EOPARD",
    "cascade": "L̄EOPARD, cascaded",
    "transport:leopard": "transport + L̄EOPARD",
}


_CSV_HEAD = (
    *("table", "method", "rank", "metric", "mean", "spread"),
    *("paper_mean", "paper_spread", "paper_table"),
)


@dataclass(frozen=True)
class MetricColumn:
    """A metric in a table."""

    key: str
    title: str
    unit: str = ""  # "share" is shown in per cent
    better: str = ""  # "↓" or "↑"


COLUMNS = {
    key: MetricColumn(key, title, unit, better)
    for key, title, unit, better in (
        ("attack", "strongest attacker, %", "share", "↓"),
        ("probe", "probe of the text, %", "share", "↓"),
        ("probe_reference", "a_z, %", "share", "↓"),
        ("linear", "linear probe, %", "share", "↓"),
        ("probe_binary", "a_z binary, %", "share", "↓"),
        ("mdl", "MDL online, kbit", "kbit", "↑"),
        ("mdl_paper", "MDL of the paper, kbit", "kbit", "↑"),
        ("neighbours", "A_50% held out", "", "↑"),
        ("neighbours_paper", "A_50%", "", "↑"),
        ("words", "WS-353", "", "↑"),
        ("task", "a_y, %", "share", "↑"),
        ("task_linear", "task, logistic, %", "share", "↑"),
        ("tpr_gap", "TPR gap, RMS", "", "↓"),
        ("tpr_gap_correlation", "σ of gap and share", "", "↓"),
        ("demographic_parity", "DP", "", "↓"),
        ("variance", "variance kept, %", "share", "↑"),
        ("fit_seconds", "fit, s", "seconds", "↓"),
    )
}


@dataclass(frozen=True)
class ResultLine:
    """One method at one rank, summed up over seeds.

    Parameters
    ----------
    method : str
        The label, such as "leace" or "cascade/kernels=2".
    rank : int or None
    n_seeds : int
    values : mapping of str to (mean, spread)
    errors : tuple of str
        Messages of the cells that failed.
    published : mapping of str to (mean, spread or None)
        Numbers that a publication has for the same cell, by metric. Tables show them in brackets.
    published_in : str
        The tables that have these numbers.
    """

    method: str
    rank: int | None
    n_seeds: int
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    published_in: str = ""

    @property
    def name(self) -> str:
        """The name of the method in tables."""
        return display_name(self.method)

    @property
    def setting(self) -> str:
        """Setting and rank, which distinguish lines of one method: "layers=6, rank 50"."""
        rank = "" if self.rank is None else f"rank {self.rank}"
        return ", ".join(filter(None, (self.method.partition("/")[2], rank)))


@dataclass(frozen=True)
class ResultTable:
    """Lines to show, and their metrics to show.

    Examples
    --------
    >>> line = ResultLine("leace", None, 2, {"attack": (0.81, 0.01)})
    >>> print(ResultTable("erasure", "Erasure", (line,), ("attack",)).to_markdown())
    | method | r | strongest attacker, % ↓ |
    |:--|--:|--:|
    | LEACE | – | 81.0 ± 1.0 |
    """

    name: str
    title: str
    lines: tuple[ResultLine, ...]
    metrics: tuple[str, ...]

    @property
    def columns(self) -> list[MetricColumn]:
        """The metrics that at least one line has."""
        return [
            COLUMNS.get(key, MetricColumn(key, key))
            for key in self.metrics
            if any(key in line.values for line in self.lines)
        ]

    def to_markdown(self) -> str:
        """Write a Markdown table."""
        return markdown(self._rows())

    def to_latex(self) -> str:
        r"""A ``booktabs`` table, ready for ``\input``."""
        return latex(self._rows())

    def _rows(self) -> list[list[str]]:
        columns = self.columns
        rows = [["method", "r", *(f"{column.title} {column.better}".strip() for column in columns)]]
        for line in self.lines:
            rank = "–" if line.rank is None else str(line.rank)
            rows.append([line.name, rank, *(_cell(line, column) for column in columns)])
        return rows


def display_name(method: str) -> str:
    """Translate a label into the name that tables show.

    Examples
    --------
    >>> display_name("cascade:farm"), display_name("cascade/kernels=2")
    ('FaRM, cascaded', 'L̄EOPARD, cascaded, kernels=2')
    """
    base, _, setting = method.partition("/")
    name = _NAMES.get(base, base)
    return f"{name}, {setting}" if setting else name


def result_lines(records: Sequence[Record]) -> list[ResultLine]:
    """Summarise the cells of one data set: one line per method and rank, in their order.

    Of a seed that was run again, only the last cell counts.
    """
    cells: dict[tuple[str, int | None], dict[int, Record]] = {}
    for record in records:
        cells.setdefault((record["method"], record["rank"]), {})[record["seed"]] = record
    return [
        ResultLine(
            *place,
            len(by_seed),
            _means([_numbers(record) for record in by_seed.values()]),
            tuple(dict.fromkeys(r["error"] for r in by_seed.values() if "error" in r)),
        )
        for place, by_seed in cells.items()
    ]


def _numbers(record: Record) -> dict[str, float]:
    times = {"fit_seconds": record.get("fit_seconds")}
    return {k: v for k, v in {**record.get("metrics", {}), **times}.items() if v is not None}


def _means(columns: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    names = dict.fromkeys(name for numbers in columns for name in numbers)
    values = {name: [n[name] for n in columns if name in n] for name in names}
    return {name: (float(np.mean(v)), float(np.std(v))) for name, v in values.items()}


def sweep_tables(records: Sequence[Record]) -> list[ResultTable]:
    """Make one table per data set, with all metrics."""
    tables = []
    for name in dict.fromkeys(record["dataset"] for record in records):
        lines = result_lines([record for record in records if record["dataset"] == name])
        metrics = dict.fromkeys(metric for line in lines for metric in line.values)
        tables.append(ResultTable(name, name, tuple(lines), tuple(metrics)))
    return tables


def to_csv(tables: Sequence[ResultTable]) -> str:
    """Write all tables as one long table: one row per number."""
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


def save_tables(
    folder: Path, tables: Sequence[ResultTable], only_latex: Sequence[Any] = ()
) -> list[Path]:
    """Write ``tables.tex`` and ``tables.csv``, and return the files."""
    every = (*tables, *only_latex)
    as_latex = "\n\n".join(f"% {table.title}\n{table.to_latex()}" for table in every) + "\n"
    texts = {"tables.tex": as_latex, "tables.csv": to_csv(tables)}
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


def _cell(line: ResultLine, column: MetricColumn) -> str:
    """Format mean ± standard deviation, and the published number in brackets."""
    if column.key not in line.values:
        return "failed" if line.errors else "–"
    mean, spread = line.values[column.key]
    text = _digits(mean, column)
    if line.n_seeds > 1:  # the spread of one seed is unknown, not zero
        text += f" ± {_digits(spread, column)}"
    if column.key in line.published:
        text += f" ({_digits(line.published[column.key][0], column)})"
    return text


def _digits(value: float, column: MetricColumn) -> str:
    """Format a value without its unit, which is in the title of the column."""
    if column.unit == "share":
        return f"{100 * value:.1f}"
    return f"{value:.1f}" if column.unit in ("kbit", "seconds") else f"{value:.2f}"


# -- LaTeX ---------------------------------------------------------------------------------------


def latex(rows: Sequence[Sequence[str]]) -> str:
    r"""A LaTeX table with ``booktabs`` rules, ready for ``\input``.

    Examples
    --------
    >>> print(latex([["method", "accuracy"], ["LEACE", "42.7 ± 0.5 %"]]))
    \begin{tabular}{lr}
    \toprule
    method & accuracy \\
    \midrule
    LEACE & 42.7 $\pm$ 0.5 \% \\
    \bottomrule
    \end{tabular}
    """
    head, *body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def latex_text(text: str) -> str:
    r"""Text with everything escaped that LaTeX would read as a command.

    Examples
    --------
    >>> print(latex_text("50 % & more_or_less"))
    50 \% \& more\_or\_less
    """
    text = "".join(_LATEX.get(letter, letter) for letter in text.replace("L\u0304", "\0"))
    return text.replace("\0", r"$\overline{\mathrm{L}}$")
