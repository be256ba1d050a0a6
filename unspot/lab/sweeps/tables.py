"""Results of cells for people: means and spreads over seeds as lines, tables and a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unspot.io.files import write_atomically
from unspot.lab.sweeps.grid import attack_chance
from unspot.report.contents import Contents, Measure, Tradeoff, TradeoffPoint
from unspot.report.layout import presented
from unspot.tables import Number, latex, markdown

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "COLUMNS",
    "ResultLine",
    "ResultTable",
    "display_name",
    "measures",
    "plane",
    "result_lines",
    "save_tables",
    "sweep_contents",
    "sweep_tables",
    "to_csv",
]

#: Columns of a frame of cells that are not shown in tables.
_NOT_METRICS = {
    *("dataset", "method", "rank", "seed", "kept_rank"),
    *("seconds", "status", "error", "key", "label"),
}

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
    column.key: column
    for column in (
        MetricColumn("attack", "strongest attacker, %", "share", "↓"),
        MetricColumn("probe", "probe of the text, %", "share", "↓"),
        MetricColumn("probe_reference", "a_z, %", "share", "↓"),
        MetricColumn("linear", "linear probe, %", "share", "↓"),
        MetricColumn("probe_binary", "a_z binary, %", "share", "↓"),
        MetricColumn("mdl", "MDL online, kbit", "kbit", "↑"),
        MetricColumn("mdl_paper", "MDL of the paper, kbit", "kbit", "↑"),
        MetricColumn("neighbours", "A_50% held out", "", "↑"),
        MetricColumn("neighbours_paper", "A_50%", "", "↑"),
        MetricColumn("words", "WS-353", "", "↑"),
        MetricColumn("task", "a_y, %", "share", "↑"),
        MetricColumn("task_linear", "task, logistic, %", "share", "↑"),
        MetricColumn("tpr_gap", "TPR gap, RMS", "", "↓"),
        MetricColumn("tpr_gap_correlation", "σ of gap and share", "", "↓"),
        MetricColumn("demographic_parity", "DP", "", "↓"),
        MetricColumn("variance", "variance kept, %", "share", "↑"),
        MetricColumn("fit_seconds", "fit, s", "seconds", "↓"),
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
    label : str
        The name that somebody gave the method, which is shown as it is.
    """

    method: str
    rank: int | None
    n_seeds: int
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    published: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    published_in: str = ""
    label: str = ""

    @property
    def name(self) -> str:
        """The name of the method in tables."""
        return self.label or display_name(self.method)

    @property
    def title(self) -> str:
        """The name with the rank."""
        return self.name if self.rank is None else f"{self.name}, rank {self.rank}"

    def number(self, metric: str) -> Number | None:
        """The value of a metric; one seed has no spread."""
        if metric not in self.values:
            return None
        mean, spread = self.values[metric]
        return Number(mean, spread if self.n_seeds > 1 else None)


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
        """A Markdown table."""
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
    """The name of a label in tables.

    Examples
    --------
    >>> display_name("cascade:farm"), display_name("cascade/kernels=2")
    ('FaRM, cascaded', 'L̄EOPARD, cascaded, kernels=2')
    """
    base, _, setting = method.partition("/")
    name = _NAMES.get(base, base)
    return f"{name}, {setting}" if setting else name


def result_lines(frame: pd.DataFrame) -> list[ResultLine]:
    """One line per method and rank, in the order in which they come.

    Of a seed that was run again, after a default changed, only the last cell counts.
    """
    metrics = [column for column in frame.columns if column not in _NOT_METRICS]
    groups: dict[tuple[str, int | None], dict[Any, Any]] = {}
    for row in frame.to_dict("records"):
        rank = None if _missing(row["rank"]) else int(row["rank"])
        groups.setdefault((row["method"], rank), {})[row["seed"]] = row
    cells = ((*key, list(by_seed.values())) for key, by_seed in groups.items())
    return [
        ResultLine(
            method,
            rank,
            len(rows),
            _means(rows, metrics),
            tuple(dict.fromkeys(str(row["error"]) for row in rows if row["status"] == "failed")),
            label="" if _missing(rows[0].get("label")) else str(rows[0]["label"]),
        )
        for method, rank, rows in cells
    ]


def lines_by_dataset(frame: pd.DataFrame) -> dict[str, list[ResultLine]]:
    """The lines of each data set."""
    groups = frame.groupby("dataset", sort=False)
    return {str(name): result_lines(rows) for name, rows in groups}


def sweep_tables(frame: pd.DataFrame) -> list[ResultTable]:
    """One table per data set, with all metrics."""
    tables = []
    for name, lines in lines_by_dataset(frame).items():
        metrics = dict.fromkeys(metric for line in lines for metric in line.values)
        tables.append(ResultTable(name, name, tuple(lines), tuple(metrics)))
    return tables


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


def _means(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    values = {}
    for name in metrics:
        column = [float(row[name]) for row in rows if not _missing(row[name])]
        if column:
            values[name] = (float(np.mean(column)), float(np.std(column)))
    return values


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _cell(line: ResultLine, column: MetricColumn) -> str:
    number = line.number(column.key)
    if number is None:
        return "failed" if line.errors else "–"
    text = _digits(number.value, column)
    if number.spread is not None:
        text += f" ± {_digits(number.spread, column)}"
    if column.key in line.published:
        text += f" ({_digits(line.published[column.key][0], column)})"
    return text


def _digits(value: float, column: MetricColumn) -> str:
    """The value without its unit, which is in the title of the column."""
    if column.unit == "share":
        return f"{100 * value:.1f}"
    return f"{value:.1f}" if column.unit in ("kbit", "seconds") else f"{value:.2f}"


# -- The page: a table, and all methods on one plane -----------------------------------------------


#: Metrics of utility for the plane; the first that was measured is shown.
UTILITIES = ("task_linear", "task", "neighbours", "words", "variance")


def sweep_contents(
    frame: pd.DataFrame, records: Iterable[Mapping[str, Any]] = (), *, title: str = "Sweep"
) -> Contents:
    """Everything on the page of a sweep.

    Parameters
    ----------
    frame : DataFrame
        The result of ``sweep``.
    records : iterable of mappings
        The same cells as in the result file, with facts about the data.
    title : str
    """
    by_dataset = lines_by_dataset(frame)
    facts = {record["dataset"]: record["data"] for record in records}
    single = len(by_dataset) == 1
    lines = [
        line if single else _of_dataset(line, name)
        for name, lines_of_one in by_dataset.items()
        for line in lines_of_one
    ]
    original = next((line for line in lines if line.method == "original"), None)
    chance = next(map(attack_chance, facts.values()), None) if single else None
    shown = [line for line in _middle_ranks(lines) if line is not original and line.values]
    several_ranks = len({line.name for line in lines}) < len(lines)
    return Contents(
        title=title,
        subtitle=", ".join(by_dataset) + (_ONE_RANK if several_ranks else ""),
        columns=tuple(line.title for line in shown),
        chosen=_least_read(shown) if single else max(len(shown) - 1, 0),
        chance=chance,
        measures=measures(shown, original),
        tradeoff=plane(lines, chance),
        facts=tuple((name, _facts(facts[name])) for name in by_dataset if name in facts),
        notes=tuple(f"{line.title}: {error}" for line in lines for error in line.errors),
    )


#: Of a sweep with several ranks.
_ONE_RANK = ". Numbers are those of the middle rank of each method; the chart has all ranks."


def _least_read(lines: Sequence[ResultLine]) -> int:
    """The line after which the strongest attacker recovers least; the last one if none was made."""
    attacked = [(line.number("attack"), i) for i, line in enumerate(lines)]
    least = min(((number.value, i) for number, i in attacked if number is not None), default=None)
    return max(len(lines) - 1, 0) if least is None else least[1]


def _of_dataset(line: ResultLine, name: str) -> ResultLine:
    return replace(line, method=f"{name}: {line.method}", label=f"{name}: {line.name}")


def measures(shown: Sequence[ResultLine], original: ResultLine | None) -> tuple[Measure, ...]:
    """The table: one column per line, and the values before erasure."""
    return tuple(
        Measure(
            key=column.key,
            title=presented(column.key).title or column.title,
            before=None if original is None else original.number(column.key),
            after=tuple(line.number(column.key) for line in shown),
            unit=column.unit,
            better="lower" if column.better == "↓" else "higher",
            published=tuple(_published(line, column.key) for line in shown),
        )
        for column in COLUMNS.values()
        if any(column.key in line.values for line in shown)
    )


def _published(line: ResultLine, key: str) -> Number | None:
    return Number(*line.published[key]) if key in line.published else None


def plane(lines: Sequence[ResultLine], chance: float | None) -> Tradeoff | None:
    """Erasure against utility: every line that has both."""
    utility = next((k for k in UTILITIES if any(k in line.values for line in lines)), UTILITIES[-1])
    points = []
    # Curves come first: each gets a colour that no other method has, however many there are.
    for line in sorted(lines, key=lambda line: line.rank is None):
        useful, attack = line.number(utility), line.number("attack")
        if useful is not None and attack is not None and line.method != "original":
            label = "" if line.rank is None else f"rank {line.rank}"
            points.append(TradeoffPoint(line.name, label, useful, attack, line.rank))
    if len(points) < 2:
        return None
    titles = presented(utility).title, presented("attack").title
    return Tradeoff(*titles, tuple(points), COLUMNS[utility].unit, reference=chance)


def _middle_ranks(lines: Sequence[ResultLine]) -> Iterable[ResultLine]:
    """One line per method, at the middle one of its ranks."""
    for name in dict.fromkeys(line.name for line in lines):
        of_method = [line for line in lines if line.name == name]
        yield of_method[len(of_method) // 2]


def _facts(facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return (
        ("rows of train / validation / test", " / ".join(f"{n:,}" for n in facts["rows"])),
        ("features", str(facts["features"])),
        ("largest class", f"{100 * facts['chance']:.1f} %"),
        ("chance of an attacker", f"{100 * attack_chance(facts):.1f} %"),
        ("fingerprint", str(facts["fingerprint"])),
    )
