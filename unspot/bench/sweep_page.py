"""A sweep for people: a table for each data set, and a page with all of them on one plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unspot.bench.page import measures, plane
from unspot.bench.summary import Line, display_name, lines
from unspot.bench.tables import Table
from unspot.report.contents import Contents
from unspot.sweeps.grid import attack_chance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["sweep_contents", "sweep_tables"]

#: Columns that say how long a cell took and not how well it did.
_NOT_SHOWN = ("seconds",)


def sweep_tables(frame: pd.DataFrame) -> list[Table]:
    """Means and spreads over seeds, a table for each data set."""
    return [
        Table(name, name, tuple(found), tuple(_metrics(found)))
        for name, found in _by_dataset(frame).items()
    ]


def sweep_contents(
    frame: pd.DataFrame, records: Iterable[Mapping[str, Any]] = (), *, title: str = "Sweep"
) -> Contents:
    """Everything that the page of a sweep says.

    Parameters
    ----------
    frame : DataFrame
        As ``sweep`` returns it.
    records : iterable of mappings
        The same cells as the result file has them, with facts about the data.
    title : str
    """
    found = _by_dataset(frame)
    single = len(found) == 1
    facts = {record["dataset"]: record["data"] for record in records}
    everything = [
        _named(line, "" if single else name) for name, own in found.items() for line in own
    ]
    original = next((li for li in everything if li.method == "original"), None) if single else None
    shown = [line for line in _middle_ranks(everything) if line is not original and line.values]
    chance = next(map(attack_chance, facts.values()), None) if single else None
    return Contents(
        title=title,
        subtitle=", ".join(found),
        columns=tuple(_column(line) for line in shown),
        chosen=max(len(shown) - 1, 0),
        chance=chance,
        measures=tuple(measures(shown, original)),
        tradeoff=plane(everything, chance),
        facts=tuple((name, _facts(name, facts)) for name in found if name in facts),
        notes=tuple(f"{_column(li)}: {error}" for li in everything for error in li.errors),
    )


def _by_dataset(frame: pd.DataFrame) -> dict[str, list[Line]]:
    # A sweep has no studies: a slash in a label of the user's means nothing.
    return {
        str(name): [replace(line, study="main") for line in lines(own, None, 0)]
        for name, own in frame.groupby("dataset", sort=False)
    }


def _metrics(found: Sequence[Line]) -> list[str]:
    names = dict.fromkeys(name for line in found for name in line.values)
    return [name for name in names if name not in _NOT_SHOWN]


def _named(line: Line, dataset: str) -> Line:
    return replace(line, method=f"{dataset}: {display_name(line.method)}") if dataset else line


def _middle_ranks(found: Sequence[Line]) -> Iterable[Line]:
    """One line a method: of its ranks the middle one."""
    for method in dict.fromkeys(line.method for line in found):
        own = [line for line in found if line.method == method]
        yield own[len(own) // 2]


def _column(line: Line) -> str:
    return line.name if line.rank is None else f"{line.name}, rank {line.rank}"


def _facts(name: str, facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    own = facts[name]
    return (
        ("rows of train / validation / test", " / ".join(f"{n:,}" for n in own["rows"])),
        ("features", str(own["features"])),
        ("largest class", f"{100 * own['chance']:.1f} %"),
        ("chance of an attacker", f"{100 * attack_chance(own):.1f} %"),
        ("fingerprint", str(own["fingerprint"])),
    )
