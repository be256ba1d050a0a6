"""Leak at a utility budget: how much each method still leaks if utility may fall by so much.

A method stands for all its ranks and settings. For each budget it may choose the one that leaks
least among those that keep enough. So methods with a dial and methods without one can be compared,
by one line each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unspot.lab.tables import COLUMNS, ResultLine, display_name, latex
from unspot.tables import markdown

__all__ = ["BudgetTable", "budget_tables", "by_method"]

#: How far a measure of utility may fall, as a share. Neighbours are lost long before the task is.
BUDGETS = {
    "task_linear": (0.01, 0.03, 0.05, 0.10),
    "task": (0.01, 0.03, 0.05, 0.10),
    "neighbours": (0.01, 0.03, 0.05, 0.10, 0.20, 0.30),
}


@dataclass(frozen=True)
class BudgetTable:
    """One row per method: its lowest leak at each budget, as points of accuracy above guessing.

    Parameters
    ----------
    utility : str
        The measure that may fall: "task_linear", "task" or "neighbours".
    leaks : mapping of str to tuple of (ResultLine or None)
        For each method and budget the line that leaks least, or None if none keeps enough.
    chance : float
        The accuracy of an attacker who guesses.
    """

    utility: str
    leaks: Mapping[str, tuple[ResultLine | None, ...]]
    chance: float

    @property
    def name(self) -> str:
        return f"leak-{self.utility}"

    @property
    def title(self) -> str:
        return f"Leak at a utility budget: {COLUMNS[self.utility].title}"

    def to_markdown(self) -> str:
        """A Markdown table."""
        return markdown(self._rows())

    def to_latex(self) -> str:
        r"""A ``booktabs`` table, ready for ``\input``."""
        return latex(self._rows())

    def _rows(self) -> list[list[str]]:
        budgets = [f"≤ {100 * budget:.0f}" for budget in BUDGETS[self.utility]]
        rows = [["method", *budgets, "at the last budget"]]
        for method, chosen in self.leaks.items():
            setting = "" if chosen[-1] is None else chosen[-1].setting
            rows.append([display_name(method), *map(self._cell, chosen), setting or "–"])
        return rows

    def _cell(self, line: ResultLine | None) -> str:
        if line is None:
            return "–"
        mean, spread = line.values["attack"]
        text = f"{100 * (mean - self.chance):+.1f}"
        return f"{text} ± {100 * spread:.1f}" if line.n_seeds > 1 else text


def budget_tables(lines: Sequence[ResultLine], chance: float) -> list[BudgetTable]:
    """A table for each measure of utility that the lines have, the best method first.

    Parameters
    ----------
    lines : sequence of ResultLine
        Of all studies, with a line of the method "original".
    chance : float

    Examples
    --------
    >>> def line(method, attack, task):
    ...     return ResultLine(method, None, 1, {"attack": (attack, 0.0), "task": (task, 0.0)})
    >>> lines = [
    ...     line("original", 0.9, 0.80), line("alf", 0.70, 0.78), line("alf/target=0.5", 0.8, 0.795)
    ... ]
    >>> print(budget_tables(lines, chance=0.5)[0].to_markdown().splitlines()[-1])
    | ALF-QLEACE | +30.0 | +20.0 | +20.0 | +20.0 | – |
    """
    original = next((line for line in lines if line.method == "original"), None)
    tables = []
    for utility, budgets in BUDGETS.items():
        if original is None or utility not in original.values:
            continue
        measured = [line for line in lines if {"attack", utility} <= set(line.values)]
        whole = original.values[utility][0]
        leaks = {
            method: tuple(_least(of_method, utility, whole - budget) for budget in budgets)
            for method, of_method in by_method(measured).items()
        }
        order = sorted(leaks, key=lambda method: tuple(map(_leak, reversed(leaks[method]))))
        tables.append(BudgetTable(utility, {method: leaks[method] for method in order}, chance))
    return [table for table in tables if table.leaks]


def by_method(lines: Iterable[ResultLine]) -> dict[str, list[ResultLine]]:
    """Lines by the label without its settings; the original is no method."""
    methods: dict[str, list[ResultLine]] = {}
    for line in lines:
        if line.method != "original":
            methods.setdefault(line.method.partition("/")[0], []).append(line)
    return methods


def _least(lines: Sequence[ResultLine], utility: str, least: float) -> ResultLine | None:
    """Find the line of the weakest attacker among those with enough utility."""
    # What is equal but for rounding is within the budget.
    enough = [line for line in lines if line.values[utility][0] >= least - 1e-9]
    return min(enough, key=_leak, default=None)


def _leak(line: ResultLine | None) -> float:
    return float("inf") if line is None else line.values["attack"][0]
