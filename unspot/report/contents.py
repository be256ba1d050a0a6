"""What a report says, as plain frozen data: every table, picture and page is a function of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from unspot.tables import Number

__all__ = [
    "Attack",
    "Contents",
    "GapPoint",
    "Gaps",
    "Measure",
    "NeighbourList",
    "Tradeoff",
    "TradeoffPoint",
    "Verdict",
    "strongest",
    "strongest_first",
]

Better = Literal["lower", "higher", "none"]
Tone = Literal["good", "bad", "unsure"]


@dataclass(frozen=True)
class Measure:
    """One row of the table: a number before erasure and after each method."""

    key: str
    title: str
    before: Number | None
    after: tuple[Number | None, ...]
    unit: str = ""  # "share" is shown in per cent, "p" as a p-value
    better: Better = "none"
    note: str = ""


@dataclass(frozen=True)
class Attack:
    """What one attacker recovers; ``column`` 0 is before erasure, then one for each method."""

    attacker: str
    column: int
    accuracy: Number


@dataclass(frozen=True)
class TradeoffPoint:
    """One eraser on the plane of utility and erasure."""

    series: str
    label: str
    utility: Number
    erasure: Number
    rank: int | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Tradeoff:
    """Erasers compared: what each keeps, and what an attacker still recovers."""

    utility: str
    erasure: str
    points: tuple[TradeoffPoint, ...]
    utility_unit: str = ""
    erasure_unit: str = "share"
    reference: float | None = None


@dataclass(frozen=True)
class GapPoint:
    """A task label: how common the class is in it, and by how much the classifier favours it."""

    label: str
    share: float
    before: float | None
    after: tuple[float | None, ...]


@dataclass(frozen=True)
class Gaps:
    """TPR gaps of one class of the concept over the labels of the task."""

    concept_class: str
    points: tuple[GapPoint, ...]


@dataclass(frozen=True)
class NeighbourList:
    """The words nearest to one, before erasure and after the chosen method."""

    word: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """The outcome in plain words, for one method."""

    column: int
    tone: Tone
    headline: str
    sentence: str
    short: str = ""  # for a list of verdicts
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contents:
    """Everything a report says, the pictures of the embeddings aside.

    Parameters
    ----------
    columns : tuple of str
        Names of the methods, in the order of every ``after``.
    chosen : int
        Which of the columns the headline is about.
    chance : float or None
        The share of the largest class: the accuracy of a guess without looking.
    facts : tuple of (str, tuple of (str, str))
        Settings, versions and fingerprints, group by group.
    """

    title: str
    subtitle: str = ""
    columns: tuple[str, ...] = ()
    chosen: int = 0
    chance: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    measures: tuple[Measure, ...] = ()
    attacks: tuple[Attack, ...] = ()
    tradeoff: Tradeoff | None = None
    gaps: tuple[Gaps, ...] = ()
    neighbours: tuple[NeighbourList, ...] = ()
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> Verdict | None:
        """The verdict on the chosen method."""
        return next((v for v in self.verdicts if v.column == self.chosen), None)


def strongest_first(contents: Contents) -> list[str]:
    """Names of the attackers, by what they recover after the chosen method."""
    strength: dict[str, float] = {}
    for attack in contents.attacks:
        if attack.column == contents.chosen + 1 or attack.attacker not in strength:
            strength[attack.attacker] = attack.accuracy.value
    return sorted(strength, key=lambda name: -strength[name])


def strongest(contents: Contents, column: int) -> Attack | None:
    """The strongest attack on one representation, 0 being before erasure.

    It is the one that the table names, if it names one: an evaluation chooses it on validation
    rows, so that another may be a little stronger on the test rows by luck.
    """
    attacks = [attack for attack in contents.attacks if attack.column == column]
    measure = next((m for m in contents.measures if m.key == "attack"), None)
    named = None
    if measure is not None:
        named = measure.before if column == 0 else measure.after[column - 1]
    for attack in attacks:
        if named is not None and math.isclose(attack.accuracy.value, named.value, rel_tol=1e-9):
            return attack
    return max(attacks, key=lambda attack: attack.accuracy.value, default=None)
