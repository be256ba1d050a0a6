"""Write the table and the picture of the leak on unseen rows, from the results of the benchmark.

    python tools/write_unseen_figures.py

reads ``benchmarks/results/{unseen,kept_neighbours}.json`` and writes ``docs/_generated/unseen.md``,
``docs/_generated/kept_neighbours.md`` and ``docs/_static/unseen.png``. No number is typed by hand.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from markdown_table import markdown
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.unseen import SAMPLE, SEEN, SIZES, mean_cell, summary  # noqa: E402

TITLES = {
    "glove": "66,000 words by cosine, rank 50 of 100",
    "scores": "66,000 words by score, rank 50 of 100",
    "gaussians": "Gaussians, two classes, rank 19 of 40",
}
ROWS = {SAMPLE: "10,000 of 40,000", "40000 rows": "40,000", SEEN: "60,000, the judge's too"}


def main() -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / "unseen.json").read_text())
    (ROOT / "docs" / "_generated" / "unseen.md").write_text(table(found["cells"]))
    kept = json.loads((ROOT / "benchmarks" / "results" / "kept_neighbours.json").read_text())
    (ROOT / "docs" / "_generated" / "kept_neighbours.md").write_text(neighbours(kept))
    picture(found["cells"]).savefig(ROOT / "docs" / "_static" / "unseen.png", dpi=130)


def table(cells: dict[str, Any]) -> str:
    """All rows next to a sample of 10,000: the leak, the neighbours kept and the time."""
    figures = summary(cells)
    lines = []
    for name, title in TITLES.items():
        sample = mean_cell(cells, name, SAMPLE)
        for label, rows in ROWS.items():
            if not (cell := mean_cell(cells, name, label)):
                continue
            seeds = sum(key.split(" ", 2)[::2] == [name, label] for key in cells)
            lines.append(
                (
                    f"{title} ({seeds} seeds)",
                    rows,
                    f"{100 * cell['advantage']:.1f}",
                    f"{100 * cell['others']:.1f}",
                    f"{cell['neighbours']:.3f}",
                    f"{cell['seconds'] / sample['seconds']:.1f}",
                )
            )
    head = [
        "data",
        "rows of the fit",
        "strongest attacker",
        "without `neighbours`",
        "A_50%",
        "CPU time, relative",
    ]
    slopes = [
        f"{TITLES[name]}: n^{figures[f'{name}: exponent of the others']:.2f}"
        for name in TITLES
        if f"{name}: exponent of the others" in figures
    ]
    return (
        markdown(head, lines)
        + "\n\nAdvantages in points of balanced accuracy, above guessing. Without `neighbours`, "
        + f"the leak falls with the rows of the fit as follows. {'; '.join(slopes)}.\n"
    )


def neighbours(found: dict[str, Any]) -> str:
    """Why nearest neighbours gain as much after a fit on more rows."""
    few, many = found["2500 rows"], found["40000 rows"]
    return f"""\
On words, the attacker `neighbours` loses little when the fit has more rows. What it reads is not an
error of the fit, but the geometry that an eraser keeps on purpose. Words with similar meanings have
similar gender scores: before erasure, the nearest word has the same class
{100 * found["agree before"]:.0f} points more often than guessing. After it,
{100 * many["kept"]:.0f} % of the nearest words were among the 50 nearest before, and those have the
class {100 * many["agree, kept"]:.0f} points more often than guessing, the others
{-100 * many["agree, not kept"]:.0f} points less often. With 2,500 rows instead of 40,000 these are
{100 * few["kept"]:.0f} % and {100 * few["agree, kept"]:.0f} points. Spelling has little to do with
it: without words that begin with the same four letters, {100 * many["agree"]:.1f} points in all
become {100 * many["agree, not same spelling"]:.1f} (`python -m benchmarks kept_neighbours`). So a
higher A_50% is paid for with what neighbours tell, and the way out is a lower rank.
"""


def picture(cells: dict[str, Any]) -> Figure:
    """The advantage on unseen rows against the rows of the fit."""
    whole = [name for name in TITLES if all(mean_cell(cells, name, f"{n} rows") for n in SIZES)]
    figure = Figure(figsize=(4.3 * len(whole), 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(whole)), whole, strict=True):
        for kind, label, colour in (
            ("advantage", "strongest attacker", "C3"),
            ("others", "without nearest neighbours", "C0"),
        ):
            points = [(n, mean_cell(cells, name, f"{n} rows")) for n in SIZES]
            shown = [(n, 100 * cell[kind]) for n, cell in points if cell]
            axes.loglog(*zip(*shown, strict=True), "o-", color=colour, label=label)
            sample = mean_cell(cells, name, SAMPLE)
            axes.plot(40_000, 100 * sample[kind], "x", color=colour)
            slope, level = np.polyfit(*np.log(np.array(shown).T), 1)
            x = np.array([SIZES[0], SIZES[-1]])
            axes.plot(x, np.exp(level) * x**slope, ":", color=colour, label=f"∝ n^{slope:.2f}")
        axes.set_title(TITLES[name], fontsize=9)
        axes.set_xticks(SIZES, [f"{n:,}" for n in SIZES], fontsize=8)
        axes.set_xticks([], minor=True)
        low, high = axes.get_ylim()
        points = [n for n in (0.5, 1, 2, 3, 5, 7, 10, 12) if low <= n <= high]
        axes.set_yticks(points, [f"{n:g}" for n in points], fontsize=8)
        axes.set_yticks([], minor=True)
        axes.set_xlabel("rows of the fit (× : 40,000 with max_rows=10,000)")
        axes.grid(which="both", linewidth=0.3, alpha=0.5)
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("advantage on unseen rows, points ↓")
    return figure


if __name__ == "__main__":
    main()
