"""Write the tables of the page on choosing from the results of ``benchmarks/choosing.py``.

    python tools/write_choosing_page.py

reads ``benchmarks/results/choosing.json`` and writes ``docs/_generated/choosing_evidence.md``. For
each data set, it shows what each setting erases and costs, and which settings are best. A last
table shows the average effect of each choice. No number is typed by hand.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from unspot import LEOPARD
from unspot.projections import ManifoldSolver

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "benchmarks" / "results" / "choosing.json"
TARGET = ROOT / "docs" / "_generated" / "choosing_evidence.md"

Row = dict[str, Any]
SETTING = ("rank", "metric", "preserve", "init")
_PLAIN = LEOPARD()
DEFAULT = {
    "metric": _PLAIN.metric,
    "preserve": _PLAIN.preserve,
    "init": _PLAIN._init(ManifoldSolver()),  # the meaning of "auto" in this metric
}

NAMES = {
    "glove": "Gender of words (GloVe 6B, 100 dimensions, three classes; in the package)",
    "tweets": "Dialect of tweets (MiniLM, 384 dimensions, two classes; the task is sentiment)",
    "bios": "Gender in biographies (MiniLM, 384 dimensions, two classes; the task is occupation)",
}
#: Columns: title, scale, digits, whether lower is better.
COLUMNS: dict[str, tuple[str, float, int, bool]] = {
    "advantage": ("strongest attacker over guessing", 100, 1, True),
    "probe": ("paper's probe over chance", 100, 1, True),
    "a50": ("A_50%", 1, 3, False),
    "task_accuracy": ("task accuracy, %", 100, 1, False),
    "variance_kept": ("variance kept, %", 100, 0, False),
}
#: Settings this close to the strongest erasure are compared by utility.
NEAR = 0.02


def page(rows: list[Row]) -> str:
    """All tables and summaries, as Markdown."""
    cells = averaged([over_chance(row) for row in rows])
    parts = [section(name, of) for name, of in _by(cells, "dataset").items()]
    return "\n".join([*parts, paired(cells)])


def over_chance(row: Row) -> Row:
    """The paper's probe relative to chance, as the attacker's advantage is."""
    return row | {"probe": row["paper_probe"] - row["chance"]}


def averaged(rows: list[Row]) -> list[Row]:
    """One row per setting, with a list over seeds for every number."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[(row["dataset"], *(row.get(key) for key in SETTING))].append(row)
    return [
        {"dataset": key[0], **dict(zip(SETTING, key[1:], strict=True))}
        | {c: [r[c] for r in group if r.get(c) is not None] for c in COLUMNS}
        | {
            "attackers": sorted({r["strongest_attacker"] for r in group}),
            "chance": group[0]["chance"],
        }
        for key, group in groups.items()
    ]


def section(name: str, cells: list[Row]) -> str:
    """One data set: the best settings, and a table that starts with the strongest erasure."""
    columns = [c for c in COLUMNS if any(cell[c] for cell in cells)]
    ordered = sorted(cells, key=lambda cell: fmean(cell["advantage"]))
    n_seeds = max(len(cell["advantage"]) for cell in cells)
    splits = "one split" if n_seeds == 1 else f"mean ± spread over {n_seeds} splits"
    lines = [
        f"### {NAMES.get(name, name)}",
        "",
        "The attacker's balanced accuracy is in points above guessing, and the probe's accuracy in "
        f"points above the largest class, which has {100 * cells[0]['chance']:.1f} %; {splits}.",
        "",
        *winners([cell for cell in cells if cell["rank"] is not None]),
        "",
        _line(["setting", *(COLUMNS[c][0] for c in columns)]),
        _line(["---", *("---:" for _ in columns)]),
    ]
    for cell in ordered:
        best = {c for c in columns if _is_best(cell, cells, c)}
        shown = [f"**{_text(cell, c)}**" if c in best else _text(cell, c) for c in columns]
        lines.append(_line([_setting(cell), *shown]))
    return "\n".join([*lines, ""])


def winners(cells: list[Row]) -> list[str]:
    """The strongest erasure, and the highest utility among settings that are close to it."""
    if not cells:
        return []
    strongest = min(cells, key=lambda cell: fmean(cell["advantage"]))
    limit = fmean(strongest["advantage"]) + NEAR
    near = [cell for cell in cells if fmean(cell["advantage"]) <= limit]
    lines = [
        f"- Strongest erasure: {_setting(strongest)}, {_text(strongest, 'advantage')} points above "
        f"guessing for the strongest attacker ({', '.join(strongest['attackers'])})."
    ]
    for column in ("a50", "task_accuracy"):
        if not all(cell[column] for cell in near):
            continue
        best = max(near, key=lambda cell: fmean(cell[column]))
        lines.append(
            f"- Highest {COLUMNS[column][0].removesuffix(', %')} among the {len(near)} settings "
            f"within {100 * NEAR:.0f} points of that: {_setting(best)}, {_text(best, column)} "
            f"(strongest attacker {_text(best, 'advantage')})."
        )
    return lines


# -- the effect of a choice -----------------------------------------------------------------------

CHOICES: dict[str, tuple[Callable[[Row], bool], Row]] = {
    "whitened instead of euclidean": (lambda c: c["metric"] == "euclidean", {"metric": "whitened"}),
    "preserve 0.3 instead of 0 (from pca)": (
        lambda c: c["preserve"] == 0 and c["init"] == "pca",
        {"preserve": 0.3},
    ),
    "preserve 0.3 instead of 0 (from moments)": (
        lambda c: c["preserve"] == 0 and c["init"] == "moments",
        {"preserve": 0.3},
    ),
    "preserve 1 instead of 0.3": (lambda c: c["preserve"] == 0.3, {"preserve": 1.0}),
    "init pca instead of identity": (lambda c: c["init"] == "identity", {"init": "pca"}),
    "init pca instead of moments": (lambda c: c["init"] == "moments", {"init": "pca"}),
}


def paired(cells: list[Row]) -> str:
    """Mean change with each choice, all else equal, over the data sets that have both."""
    columns = ("advantage", "probe", "a50", "task_accuracy", "variance_kept")
    lines = [
        "### The effect of each choice",
        "",
        "Mean change if one setting changes and all others stay the same, over the measured pairs. "
        "The smallest and the largest change are in brackets.",
        "",
        _line(["choice", "pairs", *(COLUMNS[c][0] for c in columns)]),
        _line(["---", "---:", *("---:" for _ in columns)]),
    ]
    for title, (applies, change) in CHOICES.items():
        pairs = [(a, b) for a in cells if applies(a) for b in cells if _differs_by(a, b, change)]
        if pairs:
            changes = [_change(pairs, column) for column in columns]
            lines.append(_line([title, str(len(pairs)), *changes]))
    return "\n".join([*lines, ""])


def _differs_by(a: Row, b: Row, change: Row) -> bool:
    keys = ("dataset", *SETTING)
    return a is not b and {k: b[k] for k in keys} == {k: a[k] for k in keys} | change


def _change(pairs: Iterable[tuple[Row, Row]], column: str) -> str:
    _, scale, digits, _ = COLUMNS[column]
    changes = [
        scale * (fmean(b[column]) - fmean(a[column])) for a, b in pairs if a[column] and b[column]
    ]
    if not changes:
        return "–"
    text = f"{fmean(changes):+.{digits}f}"
    if len(changes) == 1:
        return text
    return f"{text} [{min(changes):+.{digits}f}, {max(changes):+.{digits}f}]"


# -- cells of tables -----------------------------------------------------------------------------


def _setting(cell: Row) -> str:
    if cell["rank"] is None:
        return str(cell["metric"])
    text = f"r={cell['rank']}, {cell['metric']}, preserve {cell['preserve']:g}, {cell['init']}"
    return f"{text} (default)" if all(cell[k] == v for k, v in DEFAULT.items()) else text


def _text(cell: Row, column: str) -> str:
    _, scale, digits, _ = COLUMNS[column]
    values = [scale * value for value in cell[column]]
    if not values:
        return "–"
    text = f"{fmean(values):.{digits}f}"
    return f"{text} ± {pstdev(values):.{digits}f}" if len(values) > 1 else text


def _is_best(cell: Row, cells: list[Row], column: str) -> bool:
    means = [fmean(other[column]) for other in cells if other[column] and other["rank"] is not None]
    if cell["rank"] is None or not cell[column] or not means:
        return False
    return fmean(cell[column]) == (min(means) if COLUMNS[column][3] else max(means))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _by(cells: list[Row], key: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for cell in cells:
        groups[cell[key]].append(cell)
    return groups


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(page(json.loads(SOURCE.read_text())), encoding="utf-8")
    print(TARGET.relative_to(ROOT))
