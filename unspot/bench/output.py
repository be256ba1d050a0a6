"""What a benchmark leaves in its folder: the paper's tables, figures and a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.bench.figures import gap_contents, save_figures
from unspot.data.labels import encode
from unspot.io.files import write_atomically
from unspot.io.journal import read_journal
from unspot.machine import versions
from unspot.report.contents import Contents, Gaps
from unspot.report.html import render
from unspot.sweeps.tables import ResultLine, ResultTable, measures, plane

if TYPE_CHECKING:
    from unspot.bench.run import BenchResult

__all__ = ["paper_tables", "pick", "study_of", "to_csv", "write_all", "write_page"]

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


# -- Files -----------------------------------------------------------------------------------------


def write_all(result: BenchResult, folder: Path, *, figures: bool = True) -> list[Path]:
    """Write tables as Markdown, LaTeX and CSV, all cells as CSV, the page, and figures."""
    tables = paper_tables(result.lines)
    texts = {
        "tables.md": _summary(result, tables),
        "tables.tex": "\n\n".join(f"% {t.title}\n{t.to_latex()}" for t in tables) + "\n",
        "tables.csv": to_csv(tables),
        "cells.csv": result.frame.to_csv(index=False),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    written = [folder / name for name in texts]
    by_key = read_journal(folder / "results.jsonl")[1]  # it may hold cells of other settings
    records = [by_key[key] for key in result.frame["key"].unique()]
    written.append(write_page(result, records, folder / "report.html"))
    if figures:
        written += save_figures(result.lines, records, result.source.data, folder / "figures")
    return written


def write_page(result: BenchResult, records: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Write one HTML page: the first table, and all methods on one plane."""
    page = render(_contents(result, records), made=datetime.now())
    write_atomically(path, page.encode())
    return path


def _summary(result: BenchResult, tables: Sequence[ResultTable]) -> str:
    """All tables as Markdown, with a description of the data."""
    data = result.source.data
    parts = [
        f"# Benchmark on {data.name}",
        f"{_rows(result)} rows of train, validation and test, {data.n_features} features. "
        f"Mean ± spread over seeds. {result.source.about_paper}".strip(),
    ]
    for table in tables:
        parts += [f"## {table.title}", table.to_markdown()]
    failed = [f"- {line.name}: {error}" for line in result.lines for error in line.errors]
    if failed:
        parts += ["## Cells that failed", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def _contents(result: BenchResult, records: Sequence[Mapping[str, Any]]) -> Contents:
    """Everything on the page."""
    lines, data = result.lines, result.source.data
    chance = 1 / len(encode(data.test.z).classes)
    tables = paper_tables(lines)  # none if all cells failed
    first = tables[0].lines if tables else ()
    shown = [line for line in first if line.method != "original" and line.values]
    original = next((li for li in lines if li.method == "original" and li.values), None)
    on_plane = [line for study in ("main", "metric", "preserve") for line in pick(lines, study)]
    return Contents(
        title=f"Benchmark on {data.name}",
        subtitle=result.source.difference,
        columns=tuple(line.title for line in shown),
        chosen=len(shown) - 1,
        chance=chance,
        measures=measures(shown, original),
        tradeoff=plane(on_plane, chance),
        gaps=_gaps(shown, records),
        facts=(("Benchmark", _facts(result)),),
        notes=tuple(f"{line.title}: {line.errors[0]}" for line in lines if line.errors),
    )


def _gaps(shown: Sequence[ResultLine], records: Sequence[Mapping[str, Any]]) -> tuple[Gaps, ...]:
    """The gaps of the chosen method, which is the last one; the others have none."""
    chosen = gap_contents(records, shown[-1].rank) if shown and shown[-1].rank else None
    if chosen is None or chosen.columns != (shown[-1].title,):
        return ()
    others: tuple[None, ...] = (None,) * (len(shown) - 1)
    return tuple(
        replace(gaps, points=tuple(replace(p, after=(*others, *p.after)) for p in gaps.points))
        for gaps in chosen.gaps
    )


def _facts(result: BenchResult) -> tuple[tuple[str, str], ...]:
    return (
        ("data", result.source.data.name),
        ("rows of train / validation / test", _rows(result)),
        ("features", str(result.source.data.n_features)),
        ("cells", str(sum(line.n_seeds for line in result.lines))),
        ("seconds of this run", f"{result.seconds:.0f}"),
        *versions().items(),
    )


def _rows(result: BenchResult) -> str:
    return " / ".join(f"{len(split):,}" for split in result.source.data)
