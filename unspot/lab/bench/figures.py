"""The paper's figures from the cells of a benchmark: maps, rank and trade-off curves, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.checks import require
from unspot.erasers.cascade import Cascade
from unspot.erasers.leopard import LEOPARD
from unspot.lab.bench.paper import pick
from unspot.lab.sweeps.tables import COLUMNS, ResultLine, display_name, plane
from unspot.report.contents import Contents, GapPoint, Gaps
from unspot.report.figures import before_after_figure, gaps_figure, save, tradeoff_figure
from unspot.report.views import make_views

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unspot.data.dataset import Dataset

__all__ = ["curves_figure", "gap_contents", "map_figure", "save_figures", "save_frontier"]

#: Methods that are drawn as lines over ranks, and methods without a rank.
_CURVES = (
    *("leopard", "cascade", "transport:leopard", "cascade/metric=whitened"),
    *("pca", "cascade:pca"),
)
_POINTS = (
    *("leace", "inlp", "rlace", "farm", "cascade:farm", "kram", "cascade:kram"),
    *("kernel", "adversarial", "matching", "transport"),
)


def save_figures(
    lines: Sequence[ResultLine], records: Sequence[Mapping[str, Any]], data: Dataset, folder: Path
) -> list[Path]:
    """Draw figures 2, 3 and 4 as PNG and PDF, and the plane of the strongest attacker.

    Parameters
    ----------
    lines : sequence of ResultLine
    records : sequence of mappings
        Cells of the result file, with their details.
    data : Dataset
    folder : path
    """
    folder.mkdir(parents=True, exist_ok=True)
    shown = [*pick(lines, "main"), *pick(lines, "metric")]
    utility = "task" if any("task" in line.values for line in shown) else "neighbours"
    figures = {
        "figure-2-map": map_figure(lines, data),
        "figure-3-mdl": curves_figure(shown, "mdl", utility),
        "figure-3-mdl-of-the-paper": curves_figure(shown, "mdl_paper", utility),
        "figure-3-attacker": curves_figure(shown, "attack", utility),
    }
    contents = gap_contents(records)
    if contents is not None:
        figures["figure-4-gaps"] = gaps_figure(contents.gaps[0], contents)
    return [
        save(figure, folder / f"{name}.{ending}")
        for name, figure in figures.items()
        if figure is not None
        for ending in ("png", "pdf")
    ]


def save_frontier(lines: Sequence[ResultLine], chance: float, folder: Path) -> list[Path]:
    """Draw every method with all its settings, as erasure against utility, as PNG and PDF."""
    # One series for a method: its settings are points of one curve.
    series = [replace(line, method=line.method.partition("/")[0], label="") for line in lines]
    tradeoff = plane(series, chance)
    if tradeoff is None:
        return []
    figure = tradeoff_figure(tradeoff)
    figure.set_size_inches(8.4, 6.4)  # many methods
    return [save(figure, folder / f"figure-frontier.{ending}") for ending in ("png", "pdf")]


def curves_figure(lines: Sequence[ResultLine], erasure: str, utility: str) -> Figure | None:
    """Figure 3: a measure of erasure against the rank, and against utility."""
    if not any(erasure in line.values and line.rank for line in lines):
        return None
    require("A figure", "report", "matplotlib")
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    by_rank, by_utility = figure.subplots(1, 2, sharey=True)
    for i, method in enumerate((*_CURVES, *_POINTS)):
        of_method = [line for line in lines if line.method == method]
        measured = [line for line in of_method if {erasure, utility} <= set(line.values)]
        if measured:
            _draw((by_rank, by_utility), measured, colormaps["tab20"](i % 20), erasure, utility)
    y, x = COLUMNS[erasure], COLUMNS[utility]
    by_rank.set(xlabel="rank: dimensions kept", ylabel=f"{y.title} {y.better}")
    by_utility.set(xlabel=f"{x.title} {x.better}")
    by_utility.legend(fontsize=8, frameon=False, loc="best")
    for axes in (by_rank, by_utility):
        axes.grid(linewidth=0.4, alpha=0.5)
    return figure


def _draw(axes: Any, lines: Sequence[ResultLine], colour: Any, erasure: str, utility: str) -> None:
    """Draw one method: erasure by rank, and erasure by utility."""
    by_rank, by_utility = axes
    up, across = (100 if COLUMNS[key].unit == "share" else 1 for key in (erasure, utility))
    y = [up * line.values[erasure][0] for line in lines]
    bars = [up * line.values[erasure][1] for line in lines]
    x = [across * line.values[utility][0] for line in lines]
    style = {"color": colour, "capsize": 2, "markersize": 4, "linewidth": 1.2}
    if lines[0].rank is None:
        by_rank.axhline(y[0], color=colour, linewidth=0.8, linestyle=":")
        by_utility.errorbar(x, y, bars, fmt="s", label=lines[0].name, **style)
    else:
        by_rank.errorbar([line.rank for line in lines], y, bars, fmt="o-", **style)
        by_utility.errorbar(x, y, bars, fmt="o-", label=lines[0].name, **style)


def map_figure(lines: Sequence[ResultLine], data: Dataset) -> Figure | None:
    """Figure 2: t-SNE before and after cascaded L̄EOPARD at the middle rank."""
    ranks = [line.rank for line in lines if line.method == "cascade" and line.values and line.rank]
    if not ranks:
        return None
    rank = ranks[len(ranks) // 2]
    fitted = Cascade(LEOPARD(rank, max_rows=4096, random_state=0)).fit(data.train.X, data.train.z)
    named = {f"{display_name('cascade')}, rank {rank}": fitted}
    return before_after_figure(make_views(named, data, map_kind="tsne", max_points=1500))


def gap_contents(records: Sequence[Mapping[str, Any]], rank: int | None = None) -> Contents | None:
    """Figure 4: gaps without erasure and after cascaded L̄EOPARD, at a rank or the middle one."""
    with_gaps = [record for record in records if record.get("details", {}).get("gaps")]
    original = [record for record in with_gaps if record["method"] == "original"]
    cascades = [record for record in with_gaps if record["method"] == "cascade"]
    ranks = sorted({record["rank"] for record in cascades})
    if not original or not cascades or (rank is not None and rank not in ranks):
        return None
    rank = ranks[len(ranks) // 2] if rank is None else rank
    erased = next(record for record in cascades if record["rank"] == rank)
    before, after = (record["details"]["gaps"] for record in (original[0], erased))
    first = before[0]["class"]
    after_by_label = {gap["label"]: gap["after"] for gap in after if gap["class"] == first}
    points = tuple(
        GapPoint(gap["label"], gap["share"], gap["after"], (after_by_label.get(gap["label"]),))
        for gap in before
        if gap["class"] == first
    )
    name = f"{display_name('cascade')}, rank {rank}"
    return Contents("gaps", columns=(name,), gaps=(Gaps(first, points),))
