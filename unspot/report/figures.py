"""The report's pictures for a paper or a README: matplotlib figures, as PNG and PDF."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unspot.checks import require
from unspot.io.files import naming_full_disk
from unspot.report.contents import Contents, Gaps, Panel, Tradeoff, Views
from unspot.report.style import (
    CLASS_COLOURS,
    DASHES,
    PALETTES,
    THEME,
    LegendEntry,
    class_legend,
    class_slots,
    column_legend,
    series_legend,
    texts_beside,
)
from unspot.tables import Number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "attackers_figure",
    "before_after_figure",
    "gaps_figure",
    "plan_figure",
    "save",
    "save_figures",
    "tradeoff_figure",
]

#: The marks of ``style.SHAPES``, as matplotlib calls them.
MARKERS = ("o", "s", "^", "D", "P", "v", ">")
#: Ticks of an axis of advantages over guessing.
_ADVANTAGES = (0.0001, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
INK, SOFT, LINE = (THEME[name][0] for name in ("ink", "soft", "line"))


def save_figures(
    folder: str | os.PathLike[str],
    contents: Contents,
    views: Views | None = None,
    *,
    formats: Sequence[str] = ("png", "pdf"),
) -> list[Path]:
    """Write every figure that has something to show, and return the files.

    Examples
    --------
    >>> import tempfile
    >>> from unspot.report.contents import Attack
    >>> attacks = (Attack("trees", 0, Number(0.9)), Attack("trees", 1, Number(0.5)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = save_figures(folder, Contents("t", columns=("LEACE",), attacks=attacks))
    ...     [file.name for file in files]
    ['attackers.png', 'attackers.pdf']
    """
    figures: dict[str, Figure] = {}
    if contents.attacks:
        figures["attackers"] = attackers_figure(contents)
    if views is not None:
        for i, panel in enumerate(views.after):
            figures[f"before-after-{i + 1}"] = before_after_figure(views, panel)
    if contents.tradeoff is not None:
        figures["tradeoff"] = tradeoff_figure(contents.tradeoff)
    for i, gaps in enumerate(contents.gaps):
        figures[f"gaps-{i + 1}"] = gaps_figure(gaps, contents)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [
        save(figure, target / f"{name}.{ending}")
        for name, figure in figures.items()
        for ending in formats
    ]


def save(figure: Figure, path: Path, *, dpi: int = 200) -> Path:
    """Write one figure; the same figure gives the same bytes."""
    with warnings.catch_warnings():
        # Words in scripts that the font lacks come out as boxes: the file is still right.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        stamp = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
        with naming_full_disk(path):
            figure.savefig(path, dpi=dpi, metadata=stamp)
    return path


def attackers_figure(contents: Contents) -> Figure:
    """Accuracy of the attackers before and after erasure, against chance."""
    order = contents.attackers
    legend = column_legend(contents.representations, contents.attacked)
    figure, axes = _figure(6.4, 1.2 + 0.13 * len(contents.attacks) + 0.12 * len(order))
    height = 0.8 / len(legend)
    for i, (column, entry) in enumerate(zip(contents.attacked, legend, strict=True)):
        attacks = contents.attacks_on(column)
        rows = [order.index(attack.attacker) + (i + 0.5) * height - 0.4 for attack in attacks]
        _dots(axes, [attack.accuracy for attack in attacks], rows, entry, sideways=True)
    if contents.chance is not None:
        axes.axvline(contents.chance, color=INK, linestyle="--", linewidth=1)
    axes.set_yticks(range(len(order)), order, parse_math=False)
    axes.invert_yaxis()
    _in_per_cent(axes.xaxis)
    axes.set_xlabel("accuracy on held-out rows (dashed: chance)")
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    _legend_above(axes, legend)
    return figure


def before_after_figure(views: Views, after: Panel | None = None) -> Figure:
    """Witness densities over maps, before on the left and after on the right."""
    panels = (views.before, after or views.after[-1])
    figure, grid = _figure(8.4, 5.6, rows=2, columns=2, height_ratios=(1, 1.7))
    titles = ("before erasure", f"after {panels[1].name}")
    for (top, bottom), panel, title in zip(grid.T, panels, titles, strict=True):
        top.set_title(title, fontsize=11, parse_math=False)
        _densities(top, views, panel)
        _map(bottom, views, panel)
    _legend(figure, class_legend(views), loc="outside lower center")
    return figure


def tradeoff_figure(tradeoff: Tradeoff) -> Figure:
    """Erasers on the plane of utility and erasure, the chosen one ringed."""
    figure, axes = _figure(5.6, 4.0)
    legend = series_legend(tradeoff)
    for entry in legend:
        points = sorted(
            (point for point in tradeoff.points if point.series == entry.text),
            key=lambda point: point.utility.value,
        )
        xs = [point.utility.value for point in points]
        erasures = [point.erasure for point in points]
        axes.plot(xs, [number.value for number in erasures], color=_colour(entry), alpha=0.5)
        _dots(axes, erasures, xs, entry)
    texts = texts_beside(tradeoff, width=260, height=190, font=8)  # in points, inside the axes
    for point, text in zip(tradeoff.points, texts, strict=True):
        at = (point.utility.value, point.erasure.value)
        if text:
            axes.annotate(
                text, at, (6, 5), textcoords="offset points", fontsize=8, parse_math=False
            )
        if point.chosen:
            axes.scatter(*at, s=170, facecolors="none", edgecolors=INK, linewidths=1.4)
    if tradeoff.reference is not None:
        axes.axhline(tradeoff.reference, color=INK, linestyle="--", linewidth=1)
    axes.set_xlabel(tradeoff.utility)
    axes.set_ylabel(tradeoff.erasure)
    axes.margins(0.15)
    for axis, unit in ((axes.xaxis, tradeoff.utility_unit), (axes.yaxis, tradeoff.erasure_unit)):
        if unit == "share":
            _in_per_cent(axis)
    axes.grid(color=LINE, linewidth=0.6)
    if len(legend) < len(tradeoff.points):
        _legend_above(axes, legend)
    return figure


def gaps_figure(gaps: Gaps, contents: Contents) -> Figure:
    """TPR gap against the share of the class, one line per label (Fig. 4 of the paper)."""
    figure, axes = _figure(5.6, 3.8)
    legend = column_legend(contents.representations, (0, contents.chosen + 1))
    for point in gaps.points:
        ends = (point.before, point.after[contents.chosen])
        if None not in ends:
            axes.plot([point.share] * 2, ends, color=LINE, linewidth=1.2, zorder=1)
        for entry, end in zip(legend, ends, strict=True):
            if end is not None:
                axes.scatter(point.share, end, s=26, **_style(entry), zorder=2)
    axes.axhline(0, color=INK, linestyle="--", linewidth=1)
    _in_per_cent(axes.xaxis)
    axes.set_xlabel(f"share of {gaps.concept_class} among the rows of the label", parse_math=False)
    axes.set_ylabel(f"TPR gap of {gaps.concept_class}", parse_math=False)
    _legend_above(axes, legend)
    return figure


def plan_figure(
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    *,
    have: int,
    needed: int,
    target: float,
    leaks: Mapping[int, float],
) -> Figure:
    """Advantages against labelled rows, by what they are of; and leaks by rank, where measured.

    Parameters
    ----------
    sizes : sequence of float
        Numbers of rows.
    curves : mapping of str to sequence of float
        An advantage for each of them, by name.
    have, needed : int
        The rows that there are, and that the target needs.
    target : float
        The advantage that is allowed.
    leaks : mapping of int to float
        Advantages by rank; the figure has a second part if there are any.
    """
    parts = 1 + bool(leaks)
    widths = (3, 2)[:parts]
    figure, axes = _figure(2.9 + 1.1 * sum(widths), 3.4, columns=parts, width_ratios=widths)
    left, *others = np.ravel(axes)
    for i, (name, values) in enumerate(curves.items()):
        dashes = (0, DASHES[i]) if i else "-"
        colour = PALETTES["method"][i + 1][0]
        left.plot(sizes, values, color=colour, linestyle=dashes, linewidth=1.6, label=name)
    for rows, name, style in ((have, "you have", "-"), (needed, "needed", ":")):
        left.axvline(rows, color=SOFT, linestyle=style, linewidth=1, label=f"{name} {rows:,}")
    left.set_xscale("log")
    left.set_yscale("log")
    left.minorticks_off()
    left.set_yticks([a for a in _ADVANTAGES if min(map(np.nanmin, curves.values())) <= a <= 0.5])
    left.set_xlabel("labelled rows, 70 % to fit and 30 % to test")
    left.set_ylabel("advantage over guessing, points")
    left.legend(fontsize=7, frameon=False)
    for right in others:
        right.plot(list(leaks), list(leaks.values()), "o-", color=PALETTES["method"][1][0], ms=4)
        right.set_xlabel("rank (quick fit on a part of the rows)")
    for each in (left, *others):
        each.axhline(target, color=INK, linestyle="--", linewidth=1)
        each.grid(color=LINE, linewidth=0.6)
        each.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}")
    left.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    return figure


# -- Parts of figures ------------------------------------------------------------------------------


def _figure(width: float, height: float, *, rows: int = 1, columns: int = 1, **grid: Any) -> Any:
    """A figure with its axes, without pyplot, which would change global state."""
    require("A figure", "report", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, gridspec_kw=grid or None)
    for each in np.ravel(axes):
        each.spines[["top", "right"]].set_visible(False)
        each.spines[["left", "bottom"]].set_color(LINE)
        each.tick_params(colors=SOFT, labelsize=8)
    return figure, axes


def _densities(axes: Any, views: Views, panel: Panel) -> None:
    for slot, curve in zip(class_slots(views), panel.witness.curves, strict=True):
        if not curve:
            continue
        dashes = DASHES[slot % len(DASHES)]
        style: Any = "-" if dashes == (1, 0) else (0, dashes)
        colour = CLASS_COLOURS[slot][0]
        axes.plot(panel.witness.grid, curve, color=colour, linestyle=style, linewidth=1.5)
        axes.fill_between(panel.witness.grid, curve, color=colour, alpha=0.1, linewidth=0)
    axes.set_yticks([])
    axes.set_xlabel("strongest direction (standard deviations)", fontsize=8)


def _map(axes: Any, views: Views, panel: Panel) -> None:
    slots = np.array(class_slots(views))[list(views.codes)]
    x, y = np.array(panel.points.x), np.array(panel.points.y)
    for entry in class_legend(views):
        members = slots == entry.slot
        axes.scatter(x[members], y[members], s=5, alpha=0.6, linewidths=0, **_style(entry))
    axes.set_xticks([])
    axes.set_yticks([])
    pca = ("first principal component", "second principal component")
    x_label, y_label = pca if views.map_kind == "pca" else ("t-SNE", "t-SNE")
    axes.set_xlabel(x_label, fontsize=8)
    axes.set_ylabel(y_label, fontsize=8)


def _dots(
    axes: Any,
    numbers: Sequence[Number],
    places: Sequence[float],
    entry: LegendEntry,
    sideways: bool = False,
) -> None:
    """Values with their intervals."""
    values = [number.value for number in numbers]
    ends = [
        (n.value - (n.value if n.low is None else n.low), (n.high or n.value) - n.value)
        for n in numbers
    ]
    error = np.maximum(np.array(ends).T, 0) if ends else None
    x, y = (values, places) if sideways else (places, values)
    bars = {"xerr": error} if sideways else {"yerr": error}
    axes.errorbar(x, y, **bars, linestyle="none", markersize=5, elinewidth=1.4, **_style(entry))


def _colour(entry: LegendEntry) -> str:
    return PALETTES[entry.palette][entry.slot][0]


def _style(entry: LegendEntry) -> dict[str, Any]:
    return {"color": _colour(entry), "marker": MARKERS[entry.mark]}


def _legend_above(axes: Any, entries: Sequence[LegendEntry]) -> None:
    _legend(axes, entries, loc="lower left", bbox_to_anchor=(0, 1.0), fontsize=8)


def _legend(where: Any, entries: Sequence[LegendEntry], **place: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="none", markersize=5, **_style(e)) for e in entries]
    names = [entry.text for entry in entries]
    legend = where.legend(handles, names, ncols=4, frameon=False, **place)
    for text in legend.get_texts():
        text.set_parse_math(False)  # a dollar sign in a name is no formula


def _in_per_cent(axis: Any) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
