"""The paper's numbers, how our data differ from its data, and tables like its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from unspot.data.dataset import Dataset
from unspot.lab.data import open_data, replaces_rows, sample_train
from unspot.lab.tables import ResultLine, ResultTable

__all__ = ["BenchData", "open_bench_data", "paper_rows", "paper_tables", "with_paper"]

#: Our names of the paper's columns, where they differ. Its probe is the one of its tables.
OUR_NAMES = {"probe": "probe_reference"}
#: The paper's largest batch, where it does not have all rows. Ours has; the tables say so.
LARGEST_BATCH = {"bios": 8192, "dial": 8192}


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper.

    Parameters
    ----------
    table : str
        "1a" to "2b" in the paper, "3" to "11" in its supplementary material.
    dataset : {"glove", "bios", "dial"}
    method : str
        "original", "random", "leace", "farm", "kram", "leopard", "cascade", "cascade:farm", …
    rank : int or None
    study : str
        "batch=full", "batch=2048", "kernels=2", …, or nothing.
    values : dict of str to (mean, spread)
        Shares from 0 to 1; MDL in units of 1024 bits, by the paper's scheme.
    cited : bool
        Whether the paper took the row from another paper.
    """

    table: str
    dataset: str
    method: str
    rank: int | None
    study: str = ""
    values: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    cited: bool = False


@cache
def _content() -> dict[str, Any]:
    text = files("unspot.lab.bench").joinpath("paper_tables.json").read_text(encoding="utf-8")
    return json.loads(text)


def paper_data(dataset: str) -> dict[str, Any]:
    """Describe the paper's data set: vectors, features, rows of the splits."""
    return _content()["datasets"][dataset]


@cache
def paper_rows() -> tuple[PaperRow, ...]:
    """List all rows of all tables.

    Examples
    --------
    >>> rows = paper_rows()
    >>> len(rows), rows[4].method, rows[4].rank, rows[4].values["neighbours_paper"]
    (338, 'leopard', 75, (0.75, None))
    """
    return tuple(_row(record) for record in _content()["records"])


def paper_row(dataset: str, method: str, rank: int | None, study: str = "") -> PaperRow | None:
    """Find the row of a cell, with the values of all tables that have it."""
    repeated = [
        row
        for row in paper_rows()
        if (row.dataset, row.method, row.rank, row.study) == (dataset, method, rank, study)
        and not row.cited
    ]
    if not repeated:
        return None
    # Later tables repeat earlier ones; the first to give a number is the one in the paper's text.
    values = {key: value for row in reversed(repeated) for key, value in row.values.items()}
    tables = ", ".join(dict.fromkeys(row.table for row in repeated))
    return PaperRow(tables, dataset, method, rank, study, values)


def same_share(dataset: str, rank: int, n_features: int) -> int | None:
    """Find the paper's rank that keeps the same share of the dimensions, or None.

    Examples
    --------
    >>> same_share("glove", 50, 100), same_share("glove", 42, 100), same_share("glove", 49, 300)
    (150, 125, None)
    """
    total = int(paper_data(dataset)["features"])
    ranks = {row.rank for row in paper_rows() if row.dataset == dataset and row.rank}
    wanted = rank * total / n_features
    nearest = min(ranks, key=lambda rank: abs(rank - wanted))
    # Half of one of our dimensions, counted in the paper's; equal ranks where both agree.
    tolerance = 0.5 * total / n_features if n_features != total else 0.0
    return nearest if abs(nearest - wanted) <= tolerance else None


def paper_row_like(paper: str, method: str, rank: int | None, n_features: int) -> PaperRow | None:
    """Find the paper's row for one of our cells: method, setting and share of the ranks agree.

    Parameters
    ----------
    paper : {"glove", "bios", "dial"}
        The paper's data set to compare with.
    method : str
        Our label: ``method`` or ``method/setting=value``.
    rank : int or None
    n_features : int
        The number of dimensions of our vectors.
    """
    base, _, study = method.partition("/")
    if rank is not None:
        rank = same_share(paper, rank, n_features)
        if rank is None:
            return None
    if study == "batch=full" and paper in LARGEST_BATCH:
        study = f"batch={LARGEST_BATCH[paper]}"
    return paper_row(paper, base, rank, study)


def with_paper(lines: Iterable[ResultLine], paper: str | None, n_features: int) -> list[ResultLine]:
    """Add the paper's numbers for the same cells."""
    compared = []
    for line in lines:
        row = paper and paper_row_like(paper, line.method, line.rank, n_features)
        if row:
            values = {OUR_NAMES.get(key, key): value for key, value in row.values.items()}
            line = replace(line, published=values, published_in=row.table)
        compared.append(line)
    return compared


@dataclass(frozen=True)
class BenchData:
    """A data set, the paper's data set that it can be compared with, and what differs."""

    data: Dataset
    paper: str | None = None
    difference: str = ""

    @property
    def about_paper(self) -> str:
        """A sentence for tables that show the paper's numbers."""
        return f"In brackets: the paper. {self.difference}".strip() if self.paper else ""


def open_bench_data(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    max_rows: int | None = None,
    **columns: Any,
) -> BenchData:
    """Load the data of a benchmark, and compare them with the paper's.

    Parameters
    ----------
    name, source, max_rows, **columns
        See ``unspot.lab.data.open_data``.

    Examples
    --------
    >>> opened = open_bench_data("glove")
    >>> opened.paper, opened.data.n_features
    ('glove', 100)
    """
    data = open_data(name, source=source, **columns)
    paper = name if name in _content()["datasets"] else None
    differences = [] if paper is None else _differences(paper, data)
    if paper is not None and source is not None and replaces_rows(name, source):
        differences.insert(0, f"Rows of {Path(source).name}, which are not the paper's.")
    n_rows = len(data.train)
    if max_rows is not None and max_rows < n_rows:
        data = sample_train(data, max_rows)
        differences.append(f"Fitted on {max_rows:,} of {n_rows:,} training rows.")
    return BenchData(data, paper, " ".join(differences))


def _differences(paper: str, data: Dataset) -> list[str]:
    """Sentences about what differs between our rows and the paper's."""
    theirs = paper_data(paper)
    sentences = []
    if data.n_features != theirs["features"]:
        sentences.append(
            f"Vectors of {data.n_features} dimensions; the paper's have {theirs['features']} "
            f"({theirs['vectors']}). Its ranks are compared at equal shares of the dimensions."
        )
    n_rows = [len(split) for split in data]
    if n_rows != theirs["rows"]:
        ours, papers = (" / ".join(f"{n:,}" for n in rows) for rows in (n_rows, theirs["rows"]))
        sentences.append(f"{ours} rows; the paper has {papers}.")
    if paper in LARGEST_BATCH:
        largest = LARGEST_BATCH[paper]
        sentences.append(f"The paper's largest batch has {largest:,} rows; ours has all.")
    return sentences


def _row(record: dict[str, Any]) -> PaperRow:
    study = next((f"{key}={record[key]}" for key in ("batch", "kernels") if key in record), "")
    values = {key: (mean, spread) for key, (mean, spread) in record["values"].items()}
    return PaperRow(
        *(record["table"], record["dataset"], record["method"], record["rank"]),
        *(study, values, record.get("cited", False)),
    )


# -- Tables like the paper's ---------------------------------------------------------------------

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


def study_of(method: str) -> str:
    """Name the study of a label: that of its setting, or "rivals" for settings of rivals.

    Examples
    --------
    >>> study_of("cascade:farm"), study_of("cascade/kernels=2"), study_of("mute/layers=6")
    ('main', 'kernels', 'rivals')
    """
    setting = method.partition("/")[2].partition("=")[0]
    if not setting:
        return "main"
    return setting if setting in _STUDIES else "rivals"


def pick(lines: Iterable[ResultLine], study: str) -> list[ResultLine]:
    """Select the lines of a study."""
    return [line for line in lines if study_of(line.method) == study]


def paper_tables(lines: Sequence[ResultLine]) -> list[ResultTable]:
    """Make the paper's tables that there are lines for."""
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
    """List the ranks of the paper's first table for each L̄EOPARD, or else the middle rank."""
    for method in ("leopard", "cascade"):
        lines = [line for line in main if line.method == method]
        first = [line for line in lines if _FIRST_TABLES & set(line.published_in.split(", "))]
        middle = len(lines) // 2
        yield from first or lines[middle : middle + 1]
