"""Figure of erasure against utility: what the strongest attacker sees, and what is kept."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from unspot.lab.tables import COLUMNS, ResultLine, display_name

#: Red and orange are ours.
CURVES = {
    "transport:leopard": ("darkred", "D-"),
    "cascade": ("C3", "o-"),
    "leopard": ("C1", "o-"),
    "cascade:keep": ("C3", "s:"),
    "leopard:keep": ("C1", "s:"),
    "cascade/metric=whitened": ("C4", "o--"),
    "cascade:pca": ("0.45", ".:"),
    "pca": ("0.65", ".:"),
    "random": ("0.8", ".:"),
}
POINTS = {
    "leace": ("C0", "s"),
    "inlp": ("C2", "s"),
    "rlace": ("C9", "s"),
    "farm": ("C5", "^"),
    "cascade:farm": ("C5", "v"),
    "kram": ("C6", "^"),
    "cascade:kram": ("C6", "v"),
    "kernel": ("C8", "D"),
    "adversarial": ("C7", "D"),
    "matching": ("k", "D"),
    "transport": ("darkred", "*"),
    "mean": ("C0", "x"),
}
#: Drawn with all their settings.
RIVALS = {
    "mute": ("C2", "P"),
    "igbp": ("C9", "P"),
    "alf": ("C8", "P"),
    "fairpca": ("k", "P"),
    "obliviator": ("C4", "P"),
    "obliviator:keep": ("C4", "X"),
    "splince:keep": ("C0", "X"),
}


def plane_figure(found: Sequence[ResultLine], utilities: Sequence[str], chance: float) -> Figure:
    """One panel per measure of utility; lower and further right is better."""
    figure = Figure(figsize=(5.6 * len(utilities), 6.0), layout="constrained")
    panels = figure.subplots(1, len(utilities), sharey=True, squeeze=False)[0]
    for axes, utility in zip(panels, utilities, strict=True):
        for method, (colour, style) in {**CURVES, **POINTS}.items():
            _draw(axes, [line for line in found if line.method == method], utility, colour, style)
        for method, (colour, style) in RIVALS.items():
            own = [line for line in found if line.method.partition("/")[0] == method]
            _draw(axes, own, utility, colour, style)
        axes.axhline(100 * chance, color="0.3", linewidth=0.8, linestyle="--")
        axes.set_xlabel(f"{COLUMNS[utility].title} {COLUMNS[utility].better}")
        axes.grid(linewidth=0.4, alpha=0.5)
    panels[0].set_ylabel("accuracy of the strongest attacker, % ↓")
    named = panels[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=2 * len(utilities) + 1, fontsize=8)
    return figure


def _draw(axes: object, own: Sequence[ResultLine], utility: str, colour: str, style: str) -> None:
    shown = [line for line in own if {"attack", utility} <= set(line.values)]
    if not shown:
        return
    scale = 100 if COLUMNS[utility].unit == "share" else 1
    shown = sorted(shown, key=lambda line: line.rank or 0)
    axes.errorbar(  # type: ignore[attr-defined]
        [scale * line.values[utility][0] for line in shown],
        [100 * line.values["attack"][0] for line in shown],
        yerr=[100 * line.values["attack"][1] for line in shown],
        xerr=[scale * line.values[utility][1] for line in shown],
        fmt=style,
        color=colour,
        label=display_name(shown[0].method),
        markersize=5,
        linewidth=1.2,
        elinewidth=0.7,
    )
