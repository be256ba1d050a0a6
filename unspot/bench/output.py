"""Everything that a benchmark leaves in its folder, each a function of its result file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.bench.data import BenchData
from unspot.bench.summary import Line, lines
from unspot.bench.tables import Table, tables, to_csv, to_latex, to_markdown
from unspot.io.files import write_atomically
from unspot.io.journal import read_journal

if TYPE_CHECKING:
    from unspot.bench.run import BenchResult

__all__ = ["summary_markdown", "write_all", "write_page"]


def write_all(result: BenchResult, folder: Path, *, figures: bool = True) -> list[Path]:
    """Tables as Markdown, LaTeX and CSV, all cells as CSV, the page, and figures."""
    found = lines(result.frame, result.source.paper, result.source.data.n_features)
    made = tables(found)
    texts = {
        "tables.md": summary_markdown(made, found, result.source),
        "tables.tex": "\n\n".join(f"% {table.title}\n{to_latex(table)}" for table in made) + "\n",
        "tables.csv": to_csv(made),
        "cells.csv": result.frame.to_csv(index=False),
    }
    written = []
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
        written.append(folder / name)
    known = read_journal(folder / "results.jsonl")[1]  # maybe with cells of other settings
    records = [known[key] for key in result.frame["key"].unique()]
    written.append(write_page(result, found, records, folder / "report.html"))
    if figures:
        from unspot.bench.figures import save_figures

        written += save_figures(found, records, result.source.data, folder / "figures")
    return written


def write_page(
    result: BenchResult, found: Sequence[Line], records: Sequence[Any], path: Path
) -> Path:
    """One HTML page: the first table, and all methods on one plane."""
    from datetime import datetime

    from unspot.bench.page import contents
    from unspot.report.html import render

    page = render(contents(found, result.source, records, result.seconds), made=datetime.now())
    write_atomically(path, page.encode())
    return path


def summary_markdown(made: Sequence[Table], found: Sequence[Line], source: BenchData) -> str:
    """All tables under one another, with what they were measured on."""
    rows = " / ".join(f"{len(split):,}" for split in source.data)
    parts = [
        f"# Benchmark on {source.data.name}",
        f"{rows} rows of train, validation and test, {source.data.n_features} features. "
        f"Mean ± spread over seeds. {_about_paper(source)}".strip(),
    ]
    for table in made:
        parts += [f"## {table.title}", to_markdown(table)]
    failed = [f"- {line.name}: {error}" for line in found for error in line.errors]
    if failed:
        parts += ["## Cells that failed", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def _about_paper(source: BenchData) -> str:
    if source.paper is None:
        return ""
    return f"In brackets: the paper. {source.difference}"
