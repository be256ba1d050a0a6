"""Numbers and tables as text: the one place for digits, spreads, Markdown and LaTeX.

A table is a list of rows of text; its first row is the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Number",
    "interval_text",
    "latex",
    "latex_text",
    "markdown",
    "number_text",
    "plain",
    "value_text",
]

#: What LaTeX would take for a command, and what its fonts lack.
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
    "σ": r"$\sigma$",
    "–": "--",
    "\u0304": "",  # after the L of L̄EOPARD, which is replaced before
}


@dataclass(frozen=True)
class Number:
    """A measured value, with its spread over seeds or its interval where there is one."""

    value: float
    spread: float | None = None
    low: float | None = None
    high: float | None = None


def value_text(value: float, unit: str = "") -> str:
    """One value in its unit: "share" in per cent, "p" as a p-value, anything else as it is.

    Examples
    --------
    >>> value_text(0.4267, "share"), value_text(0.0002, "p"), value_text(15.934, "kbit")
    ('42.7 %', '< 0.001', '15.9 kbit')
    """
    if unit == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    return f"{_figure(value, unit)}{_sign(unit)}"


def number_text(number: Number | None, unit: str = "") -> str:
    """A value with its spread, where there is one; a dash where there is no value.

    Examples
    --------
    >>> number_text(Number(0.4267, 0.0051), "share"), number_text(Number(0.731), "")
    ('42.7 ± 0.5 %', '0.731')
    """
    if number is None:
        return "–"
    if number.spread is None or unit == "p":
        return value_text(number.value, unit)
    spread = _figure(number.spread, unit, like=number.value)
    return f"{_figure(number.value, unit)} ± {spread}{_sign(unit)}"


def interval_text(number: Number, unit: str = "") -> str:
    """A value with its interval, or with its spread where there is no interval.

    Examples
    --------
    >>> interval_text(Number(0.43, low=0.41, high=0.45), "share")
    '43.0 % (41.0 to 45.0)'
    """
    if number.low is None or number.high is None:
        return number_text(number, unit)
    low, high = (_figure(end, unit, like=number.value) for end in (number.low, number.high))
    return f"{value_text(number.value, unit)} ({low} to {high})"


def _figure(value: float, unit: str, like: float | None = None) -> str:
    """Digits as fit the unit and the size of ``like``, by default of the value itself."""
    if unit == "share":
        return f"{100 * value:.1f}"
    size = abs(value if like is None else like)
    digits = 3 if size < 2 and not unit else 2 if size < 10 else 1
    return f"{value:,.{digits}f}"


def _sign(unit: str) -> str:
    return " %" if unit == "share" else f" {unit}" if unit else ""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right.

    Examples
    --------
    >>> print(markdown([["method", "r"], ["LEACE", "99"]]))
    | method | r |
    |:--|--:|
    | LEACE | 99 |
    """
    head, *body = [[cell.replace("|", "/") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in (head, *body)]
    return "\n".join([lines[0], "|:--|" + "--:|" * (len(head) - 1), *lines[1:]])


def latex(rows: Sequence[Sequence[str]]) -> str:
    r"""A ``booktabs`` table, ready for ``\input``."""
    head, *body = [" & ".join(map(latex_text, row)) + r" \\" for row in rows]
    columns = "l" + "r" * (len(rows[0]) - 1)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def latex_text(text: str) -> str:
    """Text with everything that LaTeX would take for a command escaped."""
    text = "".join(_LATEX.get(letter, letter) for letter in text.replace("L\u0304", "\0"))
    return text.replace("\0", r"$\overline{\mathrm{L}}$")


def plain(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text under one another, for a terminal.

    Examples
    --------
    >>> print(plain([["name", "rank"], ["leace", "99"]]))
    name   rank
    leace  99
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
