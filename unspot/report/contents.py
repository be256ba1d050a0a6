"""What a report shows, as plain frozen data: every table, picture and page is a function of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from unspot.io.records import as_type
from unspot.tables import Number

__all__ = [
    "BEFORE",
    "VIEWS_FORMAT",
    "Attack",
    "Contents",
    "Facts",
    "GapPoint",
    "Gaps",
    "MapKind",
    "Measure",
    "NeighbourList",
    "Panel",
    "Points",
    "ScopePart",
    "Tone",
    "Tradeoff",
    "TradeoffPoint",
    "Verdict",
    "Views",
    "Witness",
]

#: The name of the original rows among the representations.
BEFORE = "before"
#: The format of a JSON file with views.
VIEWS_FORMAT = "unspot-views/1"

Better = Literal["lower", "higher", "none"]
Facts = tuple[tuple[str, str], ...]
MapKind = Literal["pca", "tsne"]
Tone = Literal["good", "bad", "unsure"]


# -- Numbers and words -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """One row of the main table: a number before erasure and after each method."""

    key: str
    title: str
    before: Number | None
    after: tuple[Number | None, ...]
    unit: str = ""  # "share" is shown in per cent, "p" as a p-value
    better: Better = "none"
    note: str = ""
    published: tuple[Number | None, ...] = ()  # what a publication has for each method


@dataclass(frozen=True)
class Attack:
    """What one attacker recovers; ``column`` 0 is before erasure, then one column per method."""

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

    @property
    def name(self) -> str:
        """The series, with the label if it says more."""
        says_more = self.label and self.label not in self.series
        return f"{self.series}, {self.label}" if says_more else self.series


@dataclass(frozen=True)
class Tradeoff:
    """Erasers compared: what each keeps, and what an attacker still recovers."""

    utility: str
    erasure: str
    points: tuple[TradeoffPoint, ...]
    utility_unit: str = ""
    erasure_unit: str = "share"
    reference: float | None = None

    @property
    def chosen(self) -> TradeoffPoint | None:
        """The first chosen point."""
        return next((point for point in self.points if point.chosen), None)


@dataclass(frozen=True)
class GapPoint:
    """A task label: the share of the class in it, and how much the classifier favours the class."""

    label: str
    share: float
    before: float | None
    after: tuple[float | None, ...]


@dataclass(frozen=True)
class Gaps:
    """TPR gaps of one class of the concept, one per label of the task."""

    concept_class: str
    points: tuple[GapPoint, ...]
    classifier: str = ""  # whose predictions these are, such as "the logistic regression"


@dataclass(frozen=True)
class NeighbourList:
    """The words nearest to one word, before erasure and after the chosen method."""

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
class ScopePart:
    """A part of what a certificate covers: sentences, and names with values."""

    title: str
    sentences: tuple[str, ...] = ()
    facts: Facts = ()


@dataclass(frozen=True)
class Contents:
    """Everything a report shows, except the pictures of the embeddings.

    Parameters
    ----------
    columns : tuple of str
        Names of the methods, in the order of every ``after``.
    chosen : int
        The column that the headline is about.
    chance : float or None
        The accuracy of guessing without looking at the vectors.
    glance : Facts
        What everybody asks first: which concept, which rows, which eraser.
    facts : tuple of (str, Facts)
        Groups of settings, versions and fingerprints.
    """

    title: str
    subtitle: str = ""
    columns: tuple[str, ...] = ()
    chosen: int = 0
    chance: float | None = None
    of_number: bool = False  # whether attackers explain variance rather than guess classes
    verdicts: tuple[Verdict, ...] = ()
    measures: tuple[Measure, ...] = ()
    attacks: tuple[Attack, ...] = ()
    tradeoff: Tradeoff | None = None
    gaps: tuple[Gaps, ...] = ()
    neighbours: tuple[NeighbourList, ...] = ()
    facts: tuple[tuple[str, Facts], ...] = ()
    notes: tuple[str, ...] = ()
    scope: tuple[ScopePart, ...] = ()
    glance: Facts = ()

    @property
    def measured_before(self) -> bool:
        """Whether a measure has a number before erasure."""
        return any(measure.before is not None for measure in self.measures)

    @property
    def attacked(self) -> tuple[int, ...]:
        """The representations that were attacked; 0 is before erasure."""
        found = {attack.column for attack in self.attacks}
        return tuple(sorted(found))

    @property
    def reads_least(self) -> bool:
        """Whether attackers recover less after the chosen method than after all others."""
        after = next((m.after for m in self.measures if m.key == "attack"), ())
        values = [number.value for number in after if number is not None]
        all_of_one_data_set = self.chance is not None and len(values) == len(self.columns)
        return all_of_one_data_set and values[self.chosen] == min(values)

    @property
    def headline(self) -> Verdict | None:
        """The verdict on the chosen method."""
        return next((v for v in self.verdicts if v.column == self.chosen), None)

    @property
    def representations(self) -> tuple[str, ...]:
        """The names by which ``Attack.column`` counts: "before", then the methods."""
        return (BEFORE, *self.columns)

    @property
    def attackers(self) -> list[str]:
        """Names of the attackers, those first that recover most after the chosen method."""
        strength: dict[str, float] = {}
        for attack in self.attacks:
            if attack.column == self.chosen + 1 or attack.attacker not in strength:
                strength[attack.attacker] = attack.accuracy.value
        return sorted(strength, key=lambda name: -strength[name])

    def attacks_on(self, column: int) -> list[Attack]:
        """The attacks on one representation; 0 is before erasure."""
        return [attack for attack in self.attacks if attack.column == column]

    def strongest(self, column: int) -> Attack | None:
        """The strongest attack on one representation; 0 is before erasure."""
        attacks = self.attacks_on(column)
        return max(attacks, key=lambda attack: attack.accuracy.value, default=None)


# -- Pictures of the embeddings --------------------------------------------------------------------


@dataclass(frozen=True)
class Witness:
    """Densities of the classes along the direction that tells them apart best.

    Parameters
    ----------
    grid : tuple of float
        Where the densities are given, in standard deviations of the rows.
    curves : tuple of tuple of float
        One density per class; empty for a class without rows to draw.
    distance : float
        The largest Kolmogorov–Smirnov distance between two classes: 0 if the curves are the same,
        1 if they do not overlap.
    noise : float
        A distance that classes with the same distribution exceed by chance in one of twenty
        pictures.
    """

    grid: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    distance: float
    noise: float


@dataclass(frozen=True)
class Points:
    """Coordinates of a map, one entry per row."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """The pictures of one representation."""

    name: str
    witness: Witness
    points: Points


@dataclass(frozen=True)
class Views:
    """Pictures of the same held-out rows, before erasure and after each eraser.

    Parameters
    ----------
    classes : tuple of str
        The concept's classes.
    codes : tuple of int
        The class of each point of the maps.
    names : tuple of str or None
        The name of each point.
    map_kind : {"pca", "tsne"}
    before : Panel
    after : tuple of Panel
        One per eraser.
    """

    classes: tuple[str, ...]
    codes: tuple[int, ...]
    names: tuple[str, ...] | None
    map_kind: MapKind
    before: Panel
    after: tuple[Panel, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panel before erasure, then those after it."""
        return (self.before, *self.after)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": VIEWS_FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Any) -> Views:
        """The views that ``to_dict`` wrote; the error names the first wrong field."""
        views: Views = as_type(cls, content)
        n_points, n_classes = len(views.codes), len(views.classes)
        if not all(0 <= code < n_classes for code in views.codes):
            raise ValueError(f"codes has numbers that are not from 0 to {n_classes - 1}")
        if views.names is not None:
            _check_length("names", views.names, n_points)
        for panel in views.panels:
            _check_length("points.x", panel.points.x, n_points)
            _check_length("points.y", panel.points.y, n_points)
            _check_length("witness.curves", panel.witness.curves, n_classes)
            for curve in filter(None, panel.witness.curves):
                _check_length("a curve of witness.curves", curve, len(panel.witness.grid))
        return views


def _check_length(what: str, entries: tuple[Any, ...], length: int) -> None:
    if len(entries) != length:
        raise ValueError(f"{what} has {len(entries)} entries, but expected {length}")
