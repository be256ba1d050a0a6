"""The paper's figures from the records of a benchmark: maps, rank and trade-off curves, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unspot.checks import require
from unspot.erasers.cascade import Cascade
from unspot.lab.bench.budgets import by_method
from unspot.lab.bench.paper import pick
from unspot.lab.tables import COLUMNS, ResultLine, display_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unspot.data.dataset import Dataset

__all__ = ["curves_figure", "frontier_figure", "gaps_figure", "map_figure", "save_figures"]

#: Rows of the map, which t-SNE can place in seconds.
_MAP_ROWS = 1500
#: Measures of utility for the frontier; the first that was measured is shown.
_UTILITIES = ("task_linear", "task", "neighbours", "words", "variance")


def save_figures(
    lines: Sequence[ResultLine],
    records: Sequence[Mapping[str, Any]],
    data: Dataset,
    chance: float,
    folder: Path,
) -> list[Path]:
    """Draw figures 2, 3 and 4 and the frontier of all methods, as PNG and PDF."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [*pick(lines, "main"), *pick(lines, "metric")]
    utility = "task" if any("task" in line.values for line in shown) else "neighbours"
    figures = {
        "figure-2-map": map_figure(lines, data),
        "figure-3-mdl": curves_figure(shown, "mdl", utility),
        "figure-3-mdl-of-the-paper": curves_figure(shown, "mdl_paper", utility),
        "figure-3-attacker": curves_figure(shown, "attack", utility),
        "figure-4-gaps": gaps_figure(records),
        "figure-frontier": frontier_figure(lines, chance),
    }
    files = []
    for name, figure in figures.items():
        if figure is not None:
            for ending in ("png", "pdf"):
                files.append(folder / f"{name}.{ending}")
                figure.savefig(files[-1], dpi=200)
    return files


def _new_figure(width: float, height: float, columns: int = 1) -> Any:
    require("A figure", "report", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def map_figure(lines: Sequence[ResultLine], data: Dataset) -> Figure | None:
    """Draw figure 2: t-SNE of test rows before and after cascaded L̄EOPARD at the middle rank."""
    ranks = [line.rank for line in lines if line.method == "cascade" and line.values and line.rank]
    if not ranks:
        return None
    from sklearn.manifold import TSNE

    rank = ranks[len(ranks) // 2]
    eraser = Cascade(rank=rank, random_state=0).fit(data.train.X, data.train.z)
    rows = np.random.default_rng(0).permutation(len(data.test.X))[:_MAP_ROWS]
    X, z = np.asarray(data.test.X)[rows], np.asarray(data.test.z)[rows]
    figure, panels = _new_figure(8.4, 4.2, 2)
    titles = ("before erasure", f"after {display_name('cascade')}, rank {rank}")
    for axes, title, shown in zip(panels, titles, (X, eraser.transform(X)), strict=True):
        places = TSNE(perplexity=min(30, len(rows) // 4), random_state=0).fit_transform(shown)
        for label in np.unique(z):
            axes.scatter(*places[z == label].T, s=5, label=str(label))
        axes.set(title=title, xticks=[], yticks=[])
    panels[0].legend(fontsize=8, frameon=False)
    return figure


def curves_figure(lines: Sequence[ResultLine], erasure: str, utility: str) -> Figure | None:
    """Draw figure 3: a measure of erasure against the rank, and against utility."""
    if not any(erasure in line.values and line.rank for line in lines):
        return None
    figure, (by_rank, by_utility) = _new_figure(8.4, 3.6, 2)
    for i, method in enumerate(dict.fromkeys(line.method for line in lines)):
        measured = [
            line
            for line in lines
            if line.method == method != "original" and {erasure, utility} <= set(line.values)
        ]
        if not measured:
            continue
        style = {"color": f"C{i % 10}", "capsize": 2, "markersize": 4, "linewidth": 1.2}
        (x, _), (y, bars) = _scaled(measured, utility), _scaled(measured, erasure)
        if measured[0].rank is None:
            by_rank.axhline(y[0], color=style["color"], linewidth=0.8, linestyle=":")
        else:
            by_rank.errorbar([line.rank for line in measured], y, bars, fmt="o-", **style)
        by_utility.errorbar(x, y, bars, fmt="o-", label=measured[0].name, **style)
    by_rank.set(xlabel="rank: dimensions kept", ylabel=_title(erasure))
    by_utility.set(xlabel=_title(utility))
    by_utility.legend(fontsize=7, frameon=False)
    return figure


def frontier_figure(lines: Sequence[ResultLine], chance: float) -> Figure | None:
    """Draw every method with all its settings, as the strongest attacker against utility."""
    utility = next((u for u in _UTILITIES if any(u in line.values for line in lines)), "")
    measured = [line for line in lines if {"attack", utility} <= set(line.values)]
    methods = by_method(measured)
    if not methods:
        return None
    figure, axes = _new_figure(8.4, 6.4)
    for i, (method, of_method) in enumerate(methods.items()):
        of_method = sorted(of_method, key=lambda line: line.values[utility][0])
        (x, _), (y, bars) = _scaled(of_method, utility), _scaled(of_method, "attack")
        marker = "osD^v"[i // 10 % 5]
        axes.errorbar(x, y, bars, fmt=f"{marker}-", color=f"C{i % 10}", label=display_name(method))
    axes.axhline(100 * chance, color="0.3", linestyle="--", linewidth=0.8)
    axes.set(xlabel=_title(utility), ylabel=_title("attack"))
    axes.legend(fontsize=7, frameon=False, ncols=2)
    return figure


def gaps_figure(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw figure 4: TPR gaps before and after cascaded L̄EOPARD at its middle rank."""
    with_gaps = [record for record in records if record.get("details", {}).get("gaps")]
    original = [record for record in with_gaps if record["method"] == "original"]
    cascades = [record for record in with_gaps if record["method"] == "cascade"]
    if not original or not cascades:
        return None
    cascades.sort(key=lambda record: record["rank"])
    erased = cascades[len(cascades) // 2]
    concept_class = original[0]["details"]["gaps"][0]["class"]
    figure, axes = _new_figure(5.6, 3.8)
    names = {"before erasure": original[0], f"cascade, rank {erased['rank']}": erased}
    for name, record in names.items():
        gaps = [g for g in record["details"]["gaps"] if g["class"] == concept_class]
        axes.scatter([g["share"] for g in gaps], [g["after"] for g in gaps], s=26, label=name)
    axes.axhline(0, color="0.3", linestyle="--", linewidth=1)
    axes.set(
        xlabel=f"share of {concept_class} among the rows of the label",
        ylabel=f"TPR gap of {concept_class}",
    )
    axes.legend(fontsize=8, frameon=False)
    return figure


def _scaled(lines: Sequence[ResultLine], metric: str) -> tuple[list[float], list[float]]:
    """Means and standard deviations, shares in per cent."""
    scale = 100 if COLUMNS[metric].unit == "share" else 1
    means, spreads = zip(*(line.values[metric] for line in lines), strict=True)
    return [scale * mean for mean in means], [scale * spread for spread in spreads]


def _title(metric: str) -> str:
    return f"{COLUMNS[metric].title} {COLUMNS[metric].better}"
