"""The paper's figures from the cells of a benchmark: maps, rank and trade-off curves, gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.bench.summary import Line, display_name, pick
from unspot.report.contents import Contents, GapPoint, Gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unspot.data.dataset import Dataset

__all__ = ["curves_figure", "gap_contents", "map_figure", "save_figures"]

#: Lines over ranks, then points for methods without one.
_CURVES = ("leopard", "cascade", "cascade/metric=whitened", "pca", "cascade:pca")
_POINTS = (
    *("leace", "inlp", "rlace", "farm", "cascade:farm", "kram", "cascade:kram"),
    *("kernel", "adversarial", "matching"),
)


def save_figures(
    found: Sequence[Line],
    records: Sequence[Mapping[str, Any]],
    data: Dataset,
    folder: Path,
) -> list[Path]:
    """Figures 2, 3 and 4 as PNG and PDF, and the plane of the strongest attacker.

    Parameters
    ----------
    found : sequence of Line
    records : sequence of mappings
        Cells as they are in the result file, with their details.
    data : Dataset
    folder : path
    """
    from unspot.report.figures import gaps_figure, save

    folder.mkdir(parents=True, exist_ok=True)
    main = [*pick(found, "main"), *pick(found, "metric")]
    utility = "task" if any("task" in line.values for line in main) else "neighbours"
    figures = {
        "figure-2-map": map_figure(found, data),
        "figure-3-mdl": curves_figure(main, "mdl", utility),
        "figure-3-mdl-of-the-paper": curves_figure(main, "mdl_paper", utility),
        "figure-3-attacker": curves_figure(main, "attack", utility),
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


def curves_figure(main: Sequence[Line], erasure: str, utility: str) -> Figure | None:
    """Figure 3: a measure of erasure against the rank, and against utility."""
    from unspot.bench.tables import COLUMNS

    if not any(erasure in line.values and line.rank for line in main):
        return None
    figure = _blank()
    left, right = figure.subplots(1, 2, sharey=True)
    for i, method in enumerate((*_CURVES, *_POINTS)):
        own = [
            line
            for line in main
            if line.method == method and erasure in line.values and utility in line.values
        ]
        if own:
            _draw(left, right, own, i, erasure, utility)
    erased, kept = COLUMNS[erasure], COLUMNS[utility]
    left.set(xlabel="rank: dimensions kept", ylabel=f"{erased.title} {erased.better}")
    right.set(xlabel=f"{kept.title} {kept.better}")
    right.legend(fontsize=8, frameon=False, loc="best")
    for axes in (left, right):
        axes.grid(linewidth=0.4, alpha=0.5)
    return figure


def _blank() -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('Figures need matplotlib: pip install "unspot[report]"') from None
    return Figure(figsize=(8.4, 3.6), layout="constrained")


def _draw(left: Any, right: Any, own: Sequence[Line], i: int, erasure: str, utility: str) -> None:
    from matplotlib import colormaps

    from unspot.bench.tables import COLUMNS

    up, across = (100 if COLUMNS[key].unit == "share" else 1 for key in (erasure, utility))
    colour, name = colormaps["tab20"](i % 20), display_name(own[0].method)
    y = [up * line.values[erasure][0] for line in own]
    bars = [up * line.values[erasure][1] for line in own]
    x = [across * line.values[utility][0] for line in own]
    style = {"color": colour, "capsize": 2, "markersize": 4, "linewidth": 1.2}
    if own[0].rank is None:
        left.axhline(y[0], color=colour, linewidth=0.8, linestyle=":")
        right.errorbar(x, y, bars, fmt="s", label=name, **style)
    else:
        left.errorbar([line.rank for line in own], y, bars, fmt="o-", **style)
        right.errorbar(x, y, bars, fmt="o-", label=name, **style)


def map_figure(found: Sequence[Line], data: Dataset) -> Figure | None:
    """Figure 2: t-SNE before and after, of cascaded L̄EOPARD at the middle rank."""
    from unspot.erasers.cascade import Cascade
    from unspot.erasers.leopard import LEOPARD
    from unspot.report.figures import before_after_figure
    from unspot.report.views import make_views

    own = pick(found, "main", ["cascade"])
    ranks = [line.rank for line in own if line.values and line.rank is not None]
    if not ranks:
        return None
    rank = ranks[len(ranks) // 2]
    fitted = Cascade(LEOPARD(rank, max_rows=4096, random_state=0)).fit(data.train.X, data.train.z)
    named = {f"{display_name('cascade')}, rank {rank}": fitted}
    return before_after_figure(make_views(named, data, map_kind="tsne", max_points=1500))


def gap_contents(records: Sequence[Mapping[str, Any]], rank: int | None = None) -> Contents | None:
    """Figure 4: gaps without erasure and after cascaded L̄EOPARD, at a rank or the middle one."""
    with_gaps = [r for r in records if r.get("details", {}).get("gaps")]
    before = [r for r in with_gaps if r["method"] == "original"]
    own = [r for r in with_gaps if r["method"] == "cascade"]
    ranks = sorted({r["rank"] for r in own})
    if not before or not own or (rank is not None and rank not in ranks):
        return None
    rank = ranks[len(ranks) // 2] if rank is None else rank
    after = next(r for r in own if r["rank"] == rank)
    gaps = before[0]["details"]["gaps"]
    first = gaps[0]["class"]
    then = {g["label"]: g["after"] for g in after["details"]["gaps"] if g["class"] == first}
    points = tuple(
        GapPoint(g["label"], g["share"], g["after"], (then.get(g["label"]),))
        for g in gaps
        if g["class"] == first
    )
    name = f"{display_name('cascade')}, rank {rank}"
    return Contents("gaps", columns=(name,), gaps=(Gaps(first, points),))
