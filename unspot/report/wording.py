"""Numbers as people read them."""

from __future__ import annotations

from unspot.report.contents import Number

__all__ = ["interval_text", "number_text", "value_text"]


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
