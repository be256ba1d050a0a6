"""Tables for a paper: CSV with plain numbers, LaTeX with booktabs rules."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path

from unspot.report.contents import Contents, Measure, Number
from unspot.report.tables import attack_table, measure_groups

__all__ = ["TABLES", "save_tables", "to_csv", "to_latex"]

#: What ``save_tables`` writes.
TABLES = ("tables.csv", "tables.tex")

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "σ": r"$\sigma$",
    "≤": r"$\leq$",
    "–": "--",
    "…": r"\ldots{}",
}


def save_tables(folder: str | os.PathLike[str], contents: Contents) -> list[Path]:
    """Write ``tables.csv`` and ``tables.tex``, and return the files."""
    from unspot.eraser import write_atomically

    made = dict(zip(TABLES, (to_csv(contents), to_latex(contents)), strict=True))
    for name, text in made.items():
        write_atomically(Path(folder) / name, text.encode("utf-8"))
    return [Path(folder) / name for name in made]


def to_csv(contents: Contents) -> str:
    """Every measure and attacker, one number a line, before and after each method.

    Examples
    --------
    >>> from unspot.report.contents import Measure
    >>> row = Measure("probe", "Probe", Number(0.9, 0.01), (Number(0.4, 0.02),), "share")
    >>> print(to_csv(Contents("t", columns=("LEACE",), measures=(row,))))
    measure,unit,representation,value,spread,low,high
    Probe,share,before,0.9,0.01,,
    Probe,share,LEACE,0.4,0.02,,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["measure", "unit", "representation", "value", "spread", "low", "high"])
    names = ("before", *contents.columns)
    for measure in contents.measures:
        for name, number in zip(names, _numbers(measure), strict=False):
            if number is not None:
                writer.writerow([measure.title, measure.unit, name, *_cells(number)])
    for attack in contents.attacks:
        what = f"attacker: {attack.attacker}"
        writer.writerow([what, "share", names[attack.column], *_cells(attack.accuracy)])
    return text.getvalue()


def to_latex(contents: Contents) -> str:
    r"""The tables of measures and attackers, for ``\input`` in a paper; needs ``booktabs``."""
    head = ("Measure", "Before", *contents.columns)
    tables = []
    if contents.measures:
        rows = [
            [f"{line.title} {line.arrow}".strip(), line.before, *line.after]
            for _, lines in measure_groups(contents)
            for line in lines
        ]
        tables.append(_tabular(head, rows))
    if contents.attacks:
        rows = [[name, *cells] for name, cells in attack_table(contents)]
        tables.append(_tabular(("Attacker", *head[1:]), rows))
    return "\n\n".join(tables) + "\n"


def latex_text(text: str) -> str:
    r"""Text with everything escaped that LaTeX would take as a command.

    Examples
    --------
    >>> latex_text("50 % & more_or_less")
    '50 \\% \\& more\\_or\\_less'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _numbers(measure: Measure) -> Iterator[Number | None]:
    yield measure.before
    yield from measure.after


def _cells(number: Number) -> list[str]:
    values = (number.value, number.spread, number.low, number.high)
    return ["" if value is None else f"{value:.6g}" for value in values]


def _tabular(head: tuple[str, ...], rows: list[list[str]]) -> str:
    def line(cells: tuple[str, ...] | list[str]) -> str:
        return " & ".join(latex_text(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            line(head),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
