"""Numbers and tables as text: the one place for digits, spreads, Markdown, LaTeX and plain columns.

A table is a list of rows of text, all of the same length. Its first row is the head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import combining

#: Series of candidates that were no better than others, or dropped early.
OTHERS = "no better, or dropped early"


@dataclass(frozen=True)
class Number:
    """A measured value, with its spread over seeds or its interval if there is one.

    Parameters
    ----------
    value : float
    spread : float or None
        The standard deviation over seeds.
    low, high : float or None
        The ends of a confidence interval.
    """

    value: float
    spread: float | None = None
    low: float | None = None
    high: float | None = None


def value_text(value: float, unit: str = "") -> str:
    """Format a value with its unit: "share" is shown in per cent, "p" as a p-value.

    Any other unit is written behind the value.

    Examples
    --------
    >>> value_text(0.4267, "share"), value_text(0.0002, "p"), value_text(15.934, "kbit")
    ('42.7 %', '< 0.001', '15.9 kbit')
    """
    if unit == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    return f"{_digits(value, unit)}{_unit_text(unit)}"


def number_text(number: Number | None, unit: str = "") -> str:
    """Format a value with its spread, if it has one; a dash for None.

    Examples
    --------
    >>> number_text(Number(0.4267, 0.0051), "share"), number_text(Number(0.731)), number_text(None)
    ('42.7 ± 0.5 %', '0.731', '–')
    """
    if number is None:
        return "–"
    if number.spread is None or unit == "p":
        return value_text(number.value, unit)
    spread = _digits(number.spread, unit, like=number.value)
    return f"{_digits(number.value, unit)} ± {spread}{_unit_text(unit)}"


def interval_text(number: Number, unit: str = "") -> str:
    """Format a value with its interval, or with its spread if it has no interval.

    Examples
    --------
    >>> interval_text(Number(0.43, low=0.41, high=0.45), "share")
    '43.0 % (41.0 to 45.0)'
    """
    if number.low is None or number.high is None:
        return number_text(number, unit)
    low, high = (_digits(end, unit, like=number.value) for end in (number.low, number.high))
    return f"{value_text(number.value, unit)} ({low} to {high})"


def _digits(value: float, unit: str, like: float | None = None) -> str:
    """Round a value as suits the unit and the size of ``like``, by default its own size."""
    if unit == "share":
        return f"{100 * value:.1f}"
    size = abs(value if like is None else like)
    decimals = 3 if size < 2 and not unit else 2 if size < 10 else 1
    return f"{value:,.{decimals}f}"


def _unit_text(unit: str) -> str:
    short = {"share": " %", "seconds": " s"}
    return short.get(unit, f" {unit}" if unit else "")


def points_text(advantage: float) -> str:
    """Write an advantage over guessing in percentage points, to two digits.

    Examples
    --------
    >>> points_text(0.0432), points_text(0.00021), points_text(0.5)
    ('4.3 points', '0.021 points', '50 points')
    """
    return f"{float(f'{100 * advantage:.2g}'):g} points"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table: the first column is aligned to the left, the others to the right.

    Examples
    --------
    >>> print(markdown([["method", "r"], ["LEACE", "99"]]))
    | method | r |
    |:--|--:|
    | LEACE | 99 |
    """
    cells = [[cell.replace("|", "/") for cell in row] for row in rows]
    head, *body = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([head, "|:--|" + "--:|" * (len(rows[0]) - 1), *body])


def plain(rows: Sequence[Sequence[str]], *, right: bool = False) -> str:
    """Align columns of text for a terminal; all but the first to the right if asked for.

    Examples
    --------
    >>> print(plain([["name", "rank"], ["leace", "99"]], right=True))
    name   rank
    leace    99
    """
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]

    def padded(cell: str, i: int) -> str:
        space = " " * (widths[i] - _width(cell))
        return space + cell if right and i else cell + space

    return "\n".join("  ".join(map(padded, row, range(len(row)))).rstrip() for row in rows)


def _width(text: str) -> int:
    """Count letters as a terminal shows them: the macron of L̄EOPARD takes no place."""
    return sum(not combining(letter) for letter in text)
