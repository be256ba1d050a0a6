"""The pictures of a report, each drawn once by matplotlib: SVG in a page, PNG and PDF in a paper.

The colours are readable on light and on dark paper, and without colour vision: classes and methods
also differ by the shape of their marks. In a page they are CSS variables, so that they follow its
theme.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from unspot.checks import require
from unspot.report.contents import BEFORE, Contents, Tradeoff
from unspot.tables import OTHERS, Number, interval_text, number_text, value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unspot.report.views import Panel, Views

# -- Colours and marks -----------------------------------------------------------------------------

#: Name → (light, dark).
THEME: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14171c"),
    "card": ("#f5f7f9", "#1d2229"),
    "ink": ("#1b1f24", "#e8ebee"),
    "soft": ("#57606a", "#a3adb8"),
    "line": ("#d5dae0", "#38404a"),
    "link": ("#0b5cad", "#7fb8f0"),
    "good": ("#0a6b4b", "#4fc79a"),
    "good-wash": ("#e5f4ee", "#12302a"),
    "bad": ("#a83a00", "#ff9a63"),
    "bad-wash": ("#fdeee6", "#3a2118"),
    "unsure": ("#7a5200", "#f0bd5e"),
    "unsure-wash": ("#fdf4df", "#352a14"),
}
#: The colours of Okabe and Ito, lightened for dark paper. The last one is shared by all classes
#: that have no colour of their own.
CLASS_COLOURS: tuple[tuple[str, str], ...] = (
    *(("#0072b2", "#4ba6e0"), ("#d55e00", "#ff8a3d"), ("#009e73", "#2cc79a")),
    *(("#b3589a", "#e39ac8"), ("#b98100", "#e9b44c"), ("#3a9bd9", "#8fd0ff")),
    *(("#6b4fa0", "#b39ae6"), ("#5b6570", "#a8b2bd")),
)
#: The first is for "before erasure". A benchmark has a dozen methods: each has its own colour.
METHOD_COLOURS: tuple[tuple[str, str], ...] = (
    *(("#6a737d", "#9aa4af"), ("#8a3ffc", "#c2a0ff"), ("#007d79", "#3ddbd9")),
    *(("#c2255c", "#ff8fb1"), ("#b26a00", "#f1b04c"), ("#1a5fb4", "#84b6f4")),
    *(("#4a7a00", "#a5cf5b"), ("#7a4b2a", "#d3a585"), ("#b5179e", "#f28be0")),
    *(("#0084c7", "#25b3ff"), ("#d4380d", "#ff7a45"), ("#1b8a3a", "#5fe08a")),
    *(("#857400", "#dccb3f"), ("#4f4a6b", "#a08fc8")),
)
MARKERS = ("o", "s", "^", "D", "P", "v", ">")
DASHES = ((), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (12, 4), (3, 6))
INK, SOFT, LINE = (THEME[name][0] for name in ("ink", "soft", "line"))

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "unspot",
    "text.parse_math": False,  # names may hold dollar signs
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}


def theme_css(dark: bool) -> str:
    """Write the custom properties of one theme, for a stylesheet."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in _variables().items())


def _variables() -> dict[str, tuple[str, str]]:
    return THEME | {
        f"{palette}-{i}": pair
        for palette, colours in (("class", CLASS_COLOURS), ("method", METHOD_COLOURS))
        for i, pair in enumerate(colours)
    }


def _method_style(i: int) -> dict[str, Any]:
    """Return colour and mark of column or series ``i``; 0 is before erasure.

    Colours take turns, and the mark changes when a colour is used again.
    """
    turn, slot = divmod(max(i - 1, 0), len(METHOD_COLOURS) - 1)
    slot = 0 if i == 0 else 1 + slot
    return {"color": METHOD_COLOURS[slot][0], "marker": MARKERS[(slot + turn) % len(MARKERS)]}


def _class_slots(views: Views) -> tuple[int, ...]:
    """Assign a colour to each class; if there are too many, the smallest share the last one."""
    limit, n_classes = len(CLASS_COLOURS), len(views.classes)
    if n_classes <= limit:
        return tuple(range(n_classes))
    counts = np.bincount(views.codes, minlength=n_classes)
    slots = np.full(n_classes, limit - 1)
    slots[np.sort(np.argsort(-counts, kind="stable")[: limit - 1])] = np.arange(limit - 1)
    return tuple(slots.tolist())


def _class_style(slot: int) -> dict[str, Any]:
    return {"color": CLASS_COLOURS[slot][0], "marker": MARKERS[slot % len(MARKERS)]}


# -- Figures and files -----------------------------------------------------------------------------


def _styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function with the style of the report, which leaves global settings alone."""

    @wraps(draw)
    def styled(*args: Any, **kwargs: Any) -> Any:
        require("A figure", "report", "matplotlib")
        import matplotlib

        with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
            # Words in scripts that the font lacks are boxes in a PNG, and right in a page.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            return draw(*args, **kwargs)

    return styled


def page_figures(contents: Contents, views: Views | None) -> dict[str, Figure]:
    """Draw every picture that has something to show, by its name."""
    figures: dict[str, Figure] = {}
    if contents.attacks:
        figures["attackers"] = attackers_figure(contents)
    if contents.tradeoff is not None:
        figures["tradeoff"] = tradeoff_figure(contents.tradeoff)
    if views is not None:
        figures["embedding"] = embedding_figure(views)
    return figures


_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


@_styled
def to_svg(figure: Figure, label: str) -> str:
    """Write a figure as SVG for a page: its colours follow the theme, and points have tooltips."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    for prefix, address in (("", _SVG), ("xlink", _XLINK)):
        ElementTree.register_namespace(prefix, address)
    root = ElementTree.fromstring(buffer.getvalue())
    for name in ("metadata", "defs"):  # the first defs hold a style sheet for the whole page
        root.remove(root.find(f"{{{_SVG}}}{name}"))  # type: ignore[arg-type]
    for group in root.iter(f"{{{_SVG}}}g"):
        titles = group.attrib.pop("id", "")
        marks = list(group.iter(f"{{{_SVG}}}use"))
        if titles.startswith('["'):
            for mark, title in zip(marks, json.loads(titles), strict=False):
                ElementTree.SubElement(mark, f"{{{_SVG}}}title").text = title
    _share_styles(root)
    width = float(root.attrib["width"].removesuffix("pt"))
    for name in ("width", "height", "version"):
        del root.attrib[name]
    root.attrib |= {"role": "img", "aria-label": label, "style": f"max-width: {1.45 * width:.0f}px"}
    text = ElementTree.tostring(root, encoding="unicode")
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\s*\n\s*", " ", text))
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    colours = {pair[0]: f"var(--{name})" for name, pair in _variables().items()}
    return re.sub("#[0-9a-f]{6}", lambda match: colours.get(match[0], match[0]), text)


def _share_styles(root: ElementTree.Element) -> None:
    """Move the style of many equal marks to their group: a map has thousands."""
    for group in root.iter(f"{{{_SVG}}}g"):
        marks = group.findall(f"{{{_SVG}}}use")
        styles = {mark.attrib.get("style", "") for mark in marks}
        if len(marks) > 1 and len(styles) == 1:
            group.attrib["style"] = styles.pop()
            for mark in marks:
                mark.attrib.pop("style", None)


def _figure(width: float, height: float, rows: int = 1, columns: int = 1, **grid: Any) -> Any:
    """Make a figure and its axes without pyplot, which would change global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, gridspec_kw=grid or None)


# -- Charts of numbers -----------------------------------------------------------------------------


@_styled
def attackers_figure(contents: Contents) -> Figure:
    """Draw the score of every attacker before and after erasure, against chance."""
    order, columns = contents.attackers, contents.attacked
    figure, axes = _figure(6.6, 1.0 + 0.11 * len(contents.attacks) + 0.07 * len(order))
    height = 0.8 / len(columns)
    for i in range(1, len(order)):
        axes.axhline(i - 0.5, color=LINE, linewidth=0.6)
    for i, column in enumerate(columns):
        attacks = contents.attacks_on(column)
        rows = [order.index(attack.attacker) + (i + 0.5) * height - 0.4 for attack in attacks]
        numbers = [attack.accuracy for attack in attacks]
        hover = [f"{a.attacker}: {interval_text(a.accuracy, 'share')}" for a in attacks]
        _dots(axes, numbers, rows, hover, sideways=True, **_method_style(column))
    _chance(axes.axvline, contents.chance)
    axes.set_yticks(range(len(order)), order)
    axes.invert_yaxis()
    _in_per_cent(axes.xaxis)
    axes.set_xlabel(f"{contents.score} on held-out rows (dashed: chance)")
    axes.grid(axis="x")
    names = contents.representations
    _legend(figure, {names[column]: _method_style(column) for column in columns})
    return figure


@_styled
def tradeoff_figure(tradeoff: Tradeoff) -> Figure:
    """Draw erasers on the plane of utility and erasure, the chosen one ringed."""
    figure, axes = _figure(6.2, 4.0)
    styles = _series_styles(tradeoff)
    for name, style in styles.items():
        points = [point for point in tradeoff.points if point.series == name]
        points.sort(key=lambda point: point.utility.value)
        xs = [point.utility.value for point in points]
        erasures = [point.erasure for point in points]
        ranks = [point.rank for point in points if point.rank is not None and len(points) > 1]
        if ranks:
            axes.plot(xs, [number.value for number in erasures], color=style["color"], alpha=0.5)
        hover = [
            f"{p.name}: {number_text(p.utility, tradeoff.utility_unit)}, "
            f"{interval_text(p.erasure, tradeoff.erasure_unit)}"
            for p in points
        ]
        _dots(axes, erasures, xs, hover, **style)
        for point in points:
            at = (point.utility.value, point.erasure.value)
            # More texts than those of both ends would cover each other.
            if ranks and (point.chosen or point.rank in (min(ranks), max(ranks))):
                text = f"rank {point.rank}"
                axes.annotate(text, at, (6, 5), textcoords="offset points", fontsize=8, color=SOFT)
            if point.chosen:
                axes.scatter(*at, s=170, facecolors="none", edgecolors=INK, linewidths=1.4)
    _chance(axes.axhline, tradeoff.reference)
    axes.set_xlabel(tradeoff.utility)
    axes.set_ylabel(tradeoff.erasure)
    axes.margins(0.12)
    for axis, unit in ((axes.xaxis, tradeoff.utility_unit), (axes.yaxis, tradeoff.erasure_unit)):
        if unit == "share":
            _in_per_cent(axis)
    axes.grid()
    _legend(figure, styles)
    return figure


def _series_styles(tradeoff: Tradeoff) -> dict[str, dict[str, Any]]:
    names = list(dict.fromkeys(point.series for point in tradeoff.points))
    coloured = [name for name in names if name not in (BEFORE, OTHERS)]
    slots = {name: 1 + coloured.index(name) if name in coloured else 0 for name in names}
    return {name: _method_style(slot) for name, slot in slots.items()}


# -- Pictures of the embeddings --------------------------------------------------------------------


@_styled
def embedding_figure(views: Views, panels: Sequence[Panel] | None = None) -> Figure:
    """Draw densities along the strongest direction over maps, before and after each eraser."""
    panels = views.panels if panels is None else panels
    columns = min(len(panels), 4)
    blocks = -(-len(panels) // columns)
    size = (2.2 * columns + 0.9, 3.2 * blocks + 0.5)
    figure, grid = _figure(*size, 2 * blocks, columns, height_ratios=(1, 2.1) * blocks)
    grid = np.reshape(grid, (2 * blocks, columns))
    for axes in grid.flat[:]:
        axes.set_axis_off()
    for i, panel in enumerate(panels):
        row, column = 2 * (i // columns), i % columns
        title = "before erasure" if panel is views.before else f"after {panel.name}"
        grid[row, column].set_title(title if len(title) <= 40 else f"{title[:39]}…")
        _densities(grid[row, column], views, panel)
        _map(grid[row + 1, column], views, panel)
        if column == 0:
            grid[row + 1, column].set_ylabel("second component")
    slots = _class_slots(views)
    names = {
        slot: name if slots.count(slot) == 1 else f"{slots.count(slot)} other classes"
        for name, slot in zip(views.classes, slots, strict=True)
    }
    _legend(figure, {names[slot]: _class_style(slot) for slot in sorted(names)})
    return figure


def _densities(axes: Any, views: Views, panel: Panel) -> None:
    axes.set_axis_on()
    slots = _class_slots(views)
    for slot, curve in zip(slots, panel.witness.curves, strict=True):
        if curve and slots.count(slot) == 1:  # other classes share a colour
            colour, dashes = CLASS_COLOURS[slot][0], DASHES[slot % len(DASHES)] or (None, None)
            axes.plot(panel.witness.grid, curve, color=colour, dashes=dashes, linewidth=1.5)
            axes.fill_between(panel.witness.grid, curve, color=colour, alpha=0.1, linewidth=0)
    axes.set_yticks([])
    axes.set_ylim(bottom=0)
    noise = ", as by chance" if panel.witness.distance <= panel.witness.noise else ""
    axes.set_xlabel(f"strongest direction\n(distance {panel.witness.distance:.2f}{noise})")


def _map(axes: Any, views: Views, panel: Panel) -> None:
    axes.set_axis_on()
    slots = np.array(_class_slots(views))[list(views.codes)]
    x, y = np.array(panel.x), np.array(panel.y)
    for slot in np.unique(slots):
        rows = np.flatnonzero(slots == slot)
        hover = [views.names[i] if views.names else views.classes[views.codes[i]] for i in rows]
        style = {"markersize": 2.6, "alpha": 0.6, "markeredgewidth": 0, **_class_style(int(slot))}
        axes.plot(x[rows], y[rows], linestyle="none", gid=json.dumps(hover), **style)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("first principal component")


# -- Parts that the figures share ------------------------------------------------------------------


def _dots(
    axes: Any,
    numbers: Sequence[Number],
    places: Sequence[float],
    hover: Sequence[str],
    *,
    sideways: bool = False,
    **style: Any,
) -> None:
    """Draw values with their intervals."""
    values = [number.value for number in numbers]
    ends = [
        (n.value - (n.value if n.low is None else n.low), (n.high or n.value) - n.value)
        for n in numbers
    ]
    error = np.maximum(np.array(ends).T, 0) if ends else None
    x, y = (values, places) if sideways else (places, values)
    bars = {"xerr": error} if sideways else {"yerr": error}
    drawn = axes.errorbar(x, y, **bars, linestyle="none", markersize=5, elinewidth=1.4, **style)
    drawn.lines[0].set_gid(json.dumps(list(hover)))


def _chance(line: Callable[..., Any], chance: float | None) -> None:
    if chance is not None:
        line(chance, color=INK, linestyle="--", linewidth=1, gid=f"chance {chance}")


def _in_per_cent(axis: Any) -> None:
    axis.set_major_formatter(lambda share, _: value_text(share, "share").replace(".0 %", " %"))


def _legend(figure: Figure, styles: Mapping[str, Mapping[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="none", markersize=5, **style) for style in styles.values()]
    widest = min(max(map(len, styles), default=0), 52)
    columns = min(len(styles), 84 // (widest + 5))  # as many as fit the width of a page
    place: dict[str, Any] = {"loc": "outside upper left", "ncols": max(columns, 1)}
    legend = figure.legend(handles, [" "] * len(handles), handletextpad=0.1, **place)
    # Set afterwards: matplotlib hides entries that begin with an underscore.
    for text, name in zip(legend.get_texts(), styles, strict=True):
        text.set_text(name if len(name) <= 52 else f"{name[:51]}…")
