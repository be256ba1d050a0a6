"""What a benchmark leaves in its folder: tables, figures and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.data.labels import encode
from unspot.io.files import write_atomically
from unspot.io.journal import read_journal
from unspot.lab.bench.budgets import BudgetTable, budget_tables, lines_of_file
from unspot.lab.bench.figures import gap_contents, save_figures, save_frontier
from unspot.lab.bench.paper import paper_tables, pick
from unspot.lab.sweeps.tables import ResultLine, ResultTable, measures, plane, save_tables
from unspot.machine import versions
from unspot.report.contents import Contents, Gaps
from unspot.report.html import render

if TYPE_CHECKING:
    from unspot.lab.bench.run import BenchResult

__all__ = ["write_all", "write_page"]

_ABOUT_BUDGETS = (
    "The strongest attacker on rows that the eraser has not seen, in points above guessing, when "
    "the utility may fall by so many points below that of the original rows. Each method stands "
    "with the best of its ranks and settings that are within the budget (–: none is). They are "
    "chosen on the rows that are judged, which favours methods with many of them a little."
)


def write_all(result: BenchResult, folder: Path, *, figures: bool = True) -> list[Path]:
    """Write tables as Markdown, LaTeX and CSV, all cells as CSV, the page, and figures.

    The tables of leaks compare all methods in the result file, also those of earlier runs.
    """
    by_key = read_journal(folder / "results.jsonl")[1]  # it may hold cells of other settings
    every = lines_of_file(by_key.values(), result.source.data.name, result.frame["key"])
    tables = paper_tables(result.lines)
    budgets = budget_tables(every, _chance(result))
    texts = {
        "tables.md": _summary(result, tables, budgets),
        "cells.csv": result.frame.to_csv(index=False),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    written = [*save_tables(folder, tables, budgets), *(folder / name for name in texts)]
    records = [by_key[key] for key in result.frame["key"].unique()]
    written.append(write_page(result, records, folder / "report.html"))
    if figures:
        written += save_figures(result.lines, records, result.source.data, folder / "figures")
        written += save_frontier(every, _chance(result), folder / "figures")
    return written


def write_page(result: BenchResult, records: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Write one HTML page: the first table, and all methods on one plane."""
    page = render(_contents(result, records), made=datetime.now())
    write_atomically(path, page.encode())
    return path


def _summary(
    result: BenchResult, tables: Sequence[ResultTable], budgets: Sequence[BudgetTable]
) -> str:
    """All tables as Markdown, with a description of the data."""
    data = result.source.data
    parts = [
        f"# Benchmark on {data.name}",
        f"{_rows(result)} rows of train, validation and test, {data.n_features} features. "
        f"Mean ± spread over seeds. {result.source.about_paper}".strip(),
    ]
    for table in tables:
        parts += [f"## {table.title}", table.to_markdown()]
    for budget in budgets:
        parts += [f"## {budget.title}", _ABOUT_BUDGETS, budget.to_markdown()]
    failed = [f"- {line.name}: {error}" for line in result.lines for error in line.errors]
    if failed:
        parts += ["## Cells that failed", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def _contents(result: BenchResult, records: Sequence[Mapping[str, Any]]) -> Contents:
    """Everything on the page."""
    lines, data = result.lines, result.source.data
    chance = _chance(result)
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


def _chance(result: BenchResult) -> float:
    """The balanced accuracy of an attacker who guesses."""
    return 1 / len(encode(result.source.data.test.z).classes)


def _rows(result: BenchResult) -> str:
    return " / ".join(f"{len(split):,}" for split in result.source.data)
