"""Results as plain frozen data that a page shows: every table and picture is a function of it.

Results are sorted by eraser first, a column for each with its evaluation and its certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any, Literal

from unspot.checks import check_choice
from unspot.eraser import method_name
from unspot.evaluation.certificate import SCORES, Certificate
from unspot.evaluation.evaluations import Evaluation
from unspot.report.wording import (
    Facts,
    Verdict,
    attacker_name,
    facts,
    glance,
    no_verdict,
    notes,
    presented,
    title_of,
    verdict,
)
from unspot.tables import Number

#: Classes that have a table of gaps of their own.
_TABLES = 8
#: The name of the original rows among the representations.
BEFORE = "before"

Better = Literal["lower", "higher", "none"]


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


@dataclass(frozen=True)
class Attack:
    """The score of one attacker; ``column`` 0 is before erasure, then one column per method."""

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
        """Return the series, with the label if it says more."""
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
        """Return the first chosen point."""
        return next((point for point in self.points if point.chosen), None)


@dataclass(frozen=True)
class Gaps:
    """TPR gaps of one class of the concept.

    A line has a label of the task, the share of the class in it, and how much the classifier
    favours the class: before erasure, and after each method.
    """

    concept_class: str
    lines: tuple[tuple[str, float, tuple[float | None, ...]], ...]
    classifier: str = ""  # whose predictions these are, such as "the logistic regression"


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
        The score of guessing without looking at the vectors.
    score : str
        Name of the attackers' score.
    glance : Facts
        Answers to the first questions: which concept, which rows, which eraser.
    facts : tuple of (str, Facts)
        Groups of settings, versions and fingerprints.
    scope : tuple of (str, tuple of str)
        Scope of the certificate, by headings.
    """

    title: str
    columns: tuple[str, ...] = ()
    chosen: int = 0
    chance: float | None = None
    score: str = "accuracy"
    verdicts: tuple[Verdict, ...] = ()
    measures: tuple[Measure, ...] = ()
    attacks: tuple[Attack, ...] = ()
    tradeoff: Tradeoff | None = None
    gaps: tuple[Gaps, ...] = ()
    facts: tuple[tuple[str, Facts], ...] = ()
    notes: tuple[str, ...] = ()
    scope: tuple[tuple[str, tuple[str, ...]], ...] = ()
    glance: Facts = ()

    @property
    def measured_before(self) -> bool:
        """Tell whether a measure has a number before erasure."""
        return any(measure.before is not None for measure in self.measures)

    @property
    def attacked(self) -> tuple[int, ...]:
        """Return the representations that were attacked; 0 is before erasure."""
        return tuple(sorted({attack.column for attack in self.attacks}))

    @property
    def headline(self) -> Verdict | None:
        """Return the verdict on the chosen method."""
        return next((v for v in self.verdicts if v.column == self.chosen), None)

    @property
    def representations(self) -> tuple[str, ...]:
        """Return the names by which ``Attack.column`` counts: "before", then the methods."""
        return (BEFORE, *self.columns)

    @property
    def attackers(self) -> list[str]:
        """Return the attackers, those first that recover most after the chosen method."""
        strength: dict[str, float] = {}
        for attack in self.attacks:
            if attack.column == self.chosen + 1 or attack.attacker not in strength:
                strength[attack.attacker] = attack.accuracy.value
        return sorted(strength, key=lambda name: -strength[name])

    def attacks_on(self, column: int) -> list[Attack]:
        """Return the attacks on one representation; 0 is before erasure."""
        return [attack for attack in self.attacks if attack.column == column]

    def strongest(self, column: int) -> Attack | None:
        """Return the strongest attack on one representation; 0 is before erasure."""
        return strongest_on(self.attacks, column)


def strongest_on(attacks: Sequence[Attack], column: int) -> Attack | None:
    """Find the strongest attack on one representation; 0 is before erasure."""
    there = [attack for attack in attacks if attack.column == column]
    return max(there, key=lambda attack: attack.accuracy.value, default=None)


# -- Results sorted by eraser ----------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """One eraser: its evaluation, its certificate, or both."""

    name: str
    evaluation: Evaluation | None = None
    certificate: Certificate | None = None

    def row(self, key: str) -> Any:
        """Return a row of the evaluation, or None."""
        evaluation = self.evaluation
        return evaluation[key] if evaluation is not None and key in evaluation else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the evaluation, or of the certificate if there is none."""
        result = self.evaluation or self.certificate
        return {} if result is None else result.metadata

    @property
    def eraser(self) -> Mapping[str, Any]:
        """Return the metadata of the eraser."""
        return self.metadata.get("eraser", {})

    @property
    def owner(self) -> str:
        """Return the digest of the eraser; a function has none, and is known by its name."""
        return str(self.eraser.get("digest") or f"{self.method}, rank {self.rank}")

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return method_name(self.eraser) or self.name or "erased"

    @property
    def rank(self) -> int | None:
        """Return the rank of the eraser, if it has one."""
        return self.eraser.get("rank")

    @property
    def attackers(self) -> Mapping[str, Any]:
        """Return what attackers of the evaluation scored: by side, with chance and score."""
        details = self.evaluation.details if self.evaluation else {}
        return details.get("attackers", {})


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        The certificate of the original rows.
    paths : mapping of str to RankPath
        Keyed by the name of the method.
    """

    columns: tuple[Column, ...] = ()
    before: Certificate | None = None
    paths: Mapping[str, Any] = field(default_factory=dict)

    @property
    def certificates(self) -> list[Certificate | None]:
        """Return the certificate of the original rows, then that of each column."""
        return [self.before, *(column.certificate for column in self.columns)]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the first result."""
        first = next(iter(self.paths.values()), None)
        return self.columns[0].metadata if self.columns else first.facts() if first else {}

    @property
    def concept(self) -> str:
        """Return the name of the concept; empty if no result has one."""
        every = [*(column.metadata for column in self.columns), self.metadata]
        return next((str(facts["concept"]) for facts in every if facts.get("concept")), "")


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        A name may have both an evaluation and a certificate, as a pair. A certificate under the
        name "before" is that of the original rows. Results without names share a column if their
        erasers have the same digest.
    """
    columns: dict[str, Column] = {}
    before: Certificate | None = None
    paths: dict[str, Any] = {}
    for name, result in _named(results):
        if isinstance(result, Certificate) and name == BEFORE:
            before = result
        elif isinstance(result, Evaluation | Certificate):
            part = "evaluation" if isinstance(result, Evaluation) else "certificate"
            parts: dict[str, Any] = {part: result}
            column = Column(name, **parts)
            key = name or _key(column, columns)
            columns[key] = _merged(columns[key], column, part) if key in columns else column
        elif hasattr(result, "points"):
            paths[name or result.method] = result
        else:
            raise ValueError(
                f"Got a result of type {type(result).__name__}, but expected an Evaluation, a "
                "Certificate or a RankPath. Read files with Evaluation.from_json and "
                "Certificate.from_dict."
            )
    if not columns and not paths:
        raise ValueError(
            "Got no results, but expected at least one: an Evaluation, a Certificate or a RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    by_name = results if isinstance(results, Mapping) else {"": results}
    for name, value in by_name.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _key(column: Column, columns: Mapping[str, Column]) -> str:
    """Find the column of the same eraser."""
    same = (key for key, other in columns.items() if other.owner == column.owner)
    return next(same, column.owner)


def _merged(first: Column, second: Column, part: str) -> Column:
    if getattr(first, part) is not None:
        raise ValueError(
            f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
            "eraser a name of its own."
        )
    return replace(first, **{part: getattr(second, part)})


def _with_names(columns: Sequence[Column]) -> Iterator[Column]:
    """Name columns by their method, and by the rank if a method has several columns."""
    methods = Counter(column.method for column in columns)
    used: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if methods[column.method] == 1 else ranked)
        used[name] += 1
        yield replace(column, name=name if used[name] == 1 else f"{name} ({used[name]})")


# -- From results to contents ----------------------------------------------------------------------


def read_contents(
    results: Any,
    *,
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
    tradeoff: Mapping[str, Any] | None = None,
) -> Contents:
    """Collect everything that results say.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        See ``sort_results``.
    title : str, optional
    chosen : str, optional
        The column that the headline is about; by default the last one.
    chosen_rank : int, optional
        The point of a path of ranks that is marked.
    tradeoff : mapping, optional
        Fields of a ``Tradeoff`` and its points: erasers that were tried, instead of the results.
    """
    ordered = sort_results(results)
    columns = ordered.columns
    at = _chosen_column(chosen, columns)
    _check_rank(chosen_rank, ordered)
    certificate = columns[at].certificate if columns else None
    attacks = _attacks(ordered)
    contents = Contents(
        title=title or title_of(ordered),
        columns=tuple(column.name for column in columns),
        chosen=at,
        chance=_chance(ordered),
        score=_score(ordered),
        measures=(*_certified_measures(ordered, attacks), *_measures(columns, at)),
        attacks=attacks,
        gaps=_gaps(columns),
        facts=facts(columns),
        notes=notes(columns),
        scope=tuple(certificate.scope.items()) if certificate else (),
        glance=glance(ordered, at),
    )
    verdicts = [verdict(i, contents, column) for i, column in enumerate(columns)]
    return replace(
        contents,
        verdicts=tuple(filter(None, verdicts)) if columns else (no_verdict(),),
        tradeoff=_tried(tradeoff) if tradeoff else _tradeoff(ordered, contents, chosen_rank),
    )


def _chosen_column(name: str | None, columns: Sequence[Column]) -> int:
    names = [column.name for column in columns]
    if name is None:
        return max(len(names) - 1, 0)
    return names.index(check_choice("chosen", name, names))


def _check_rank(rank: int | None, results: Results) -> None:
    """Refuse a rank that no result has: otherwise, nothing would be marked, without a word."""
    of_paths = {point.rank for path in results.paths.values() for point in path.points}
    ranks = of_paths or {column.rank for column in results.columns if column.rank is not None}
    if rank is not None and rank not in ranks:
        listed = ", ".join(map(str, sorted(ranks, reverse=True))) or "none: no result has a rank"
        raise ValueError(f"Got chosen_rank={rank}, but expected one of: {listed}.")


def _chance(results: Results) -> float | None:
    """Return the score of guessing, as attackers are judged, or else as probes are."""
    of_certificates = (c.chance for c in results.certificates if c is not None)
    of_attackers = (c.attackers["chance"] for c in results.columns if "chance" in c.attackers)
    of_paths = (path.facts().get("chance") for path in results.paths.values())
    known = (value for value in chain(of_certificates, of_attackers, of_paths) if value is not None)
    chance = next(known, None)
    return None if chance is None else float(chance)


def _score(results: Results) -> str:
    """Return the name of what attackers are judged by."""
    certified = (SCORES[c.kind] for c in results.certificates if c is not None)
    evaluated = (c.attackers["score"] for c in results.columns if "score" in c.attackers)
    return next(chain(certified, evaluated), "accuracy")


def _majority(results: Results) -> float | None:
    """Return the share of the largest class."""
    rows = [column.row("chance") for column in results.columns]
    return next((float(row.before.mean) for row in rows if row is not None), None)


# -- Measures and gaps -----------------------------------------------------------------------------


def _measures(columns: Sequence[Column], chosen: int) -> Iterator[Measure]:
    """Read the rows of the evaluations, except those that certificates answer better."""
    evaluations = [column.evaluation for column in columns if column.evaluation is not None]
    keys = dict.fromkeys(row.key for evaluation in evaluations for row in evaluation.rows)
    if any(column.certificate is not None for column in columns):
        for key in ("chance", "attack", "two_sample"):
            keys.pop(key, None)
    for key in keys:
        rows = [column.row(key) for column in columns]
        present = [row for row in rows if row is not None]
        before = next((row.before for row in present if row.before is not None), None)
        measure = Measure(
            key=key,
            title=presented(key).title or present[0].label,
            before=_number(before),
            after=tuple(_number(row and row.after) for row in rows),
            unit=present[0].unit,
            better=present[0].direction,
            note=(rows[chosen] or present[0]).note,
        )
        if key == "variance" and any(number.value > 1.001 for number in measure.after if number):
            measure = replace(measure, better="none", note=f"{measure.note} {_STRETCHED}".strip())
        yield measure


#: Some erasers change the scale of the rows.
_STRETCHED = "Above 100 % an eraser stretches the rows, and this says nothing about what it keeps."


def _number(value: Any) -> Number | None:
    return None if value is None else Number(value.mean, value.spread)


def _certified_measures(results: Results, attacks: Sequence[Attack]) -> Iterator[Measure]:
    """Read the strongest attacker and the two-sample test, if there is a certificate."""
    every: list[Any] = results.certificates
    first = next((c for c in every[1:] if c is not None), None)
    if first is None:
        return
    note = (
        f"of {len(first.attackers)} (budget {first.budget}), judged on {first.n_rows:,} rows: "
        f"{SCORES[first.kind]}; guessing gets {100 * first.chance:.1f} %."
    )
    strongest = [strongest_on(attacks, i) for i in range(len(every))]
    scores = [None if attack is None else Number(attack.accuracy.value) for attack in strongest]
    before = scores[0] or Number(first.chance + first.before)
    yield Measure("attack", "Strongest attacker", before, (*scores[1:],), "share", "lower", note)
    note = "of the hypothesis that rows and concept are independent; a small value refutes it."
    p_values = [None if c is None or c.p_value is None else Number(c.p_value) for c in every]
    title = "Two-sample test, p-value"
    yield Measure("two_sample", title, p_values[0], (*p_values[1:],), "p", "none", note)
    for name in dict.fromkeys(name for c in every if c is not None for name in c.parts):
        parts = [c and c.parts.get(name) for c in every]
        last = next(part for part in reversed(parts) if part is not None)
        note = (
            f"{last.strongest.name}, at most {100 * last.upper_bound:.1f} {last.unit} over "
            f"{100 * last.chance:.1f} % by guessing."
        )
        scores = [part and Number(part.strongest.score) for part in parts]
        before = scores[0] or Number(last.chance + last.before)
        title = f"Strongest attacker, {name} ({SCORES[last.kind]})"
        yield Measure(f"attack:{name}", title, before, (*scores[1:],), "share", "lower", note)


def _gaps(columns: Sequence[Column]) -> tuple[Gaps, ...]:
    """Read TPR gaps by class, of the first classes; of two the other's gaps are opposite."""
    records = [
        {(r["class"], r["label"]): r for r in column.evaluation.details.get("gaps", ())}
        if column.evaluation is not None
        else {}
        for column in columns
    ]
    cells = list(dict.fromkeys(cell for by_cell in records for cell in by_cell))
    classes = list(dict.fromkeys(name for name, _ in cells))
    details = (column.evaluation.details for column in columns if column.evaluation)
    classifiers = " and ".join(dict.fromkeys(d["gaps_of"] for d in details if d.get("gaps_of")))
    return tuple(
        Gaps(name, tuple(_gap_line(c, records) for c in cells if c[0] == name), classifiers)
        for name in classes[: 1 if len(classes) == 2 else _TABLES]
    )


def _gap_line(cell: tuple[str, str], records: Sequence[Mapping[Any, Any]]) -> Any:
    first = next(by_cell[cell] for by_cell in records if cell in by_cell)
    after = (by_cell[cell]["after"] if cell in by_cell else None for by_cell in records)
    return cell[1], first["share"], (first["before"], *after)


# -- Attacks ---------------------------------------------------------------------------------------


def _attacks(results: Results) -> tuple[Attack, ...]:
    """Read the attackers of certificates, or of evaluations if there is no certificate."""
    columns = results.columns
    if results.before is not None:
        before = _certified_attacks(results.before, 0)
    else:  # the same in all evaluations that have attackers
        each = (_measured_attacks(column, "before", 0) for column in columns)
        before = next(filter(None, each), [])
    after = [
        _measured_attacks(column, "after", i)
        if column.certificate is None
        else _certified_attacks(column.certificate, i)
        for i, column in enumerate(columns, start=1)
    ]
    return (*before, *chain(*after))


def _measured_attacks(column: Column, side: str, i: int) -> list[Attack]:
    return [
        _attack(entry["name"], i, entry["score"], *(entry.get("interval") or (None, None)))
        for entry in column.attackers.get(side, ())
    ]


def _certified_attacks(certificate: Any, i: int) -> list[Attack]:
    """Read attackers of a certificate, whose intervals are those of advantages over guessing."""
    return [
        _attack(one.name, i, one.score, *(certificate.chance + end for end in one.interval))
        for one in certificate.attackers
    ]


def _attack(name: str, column: int, score: float, low: float | None, high: float | None) -> Attack:
    return Attack(attacker_name(name), column, Number(float(score), low=low, high=high))


# -- Erasers on the plane of utility and erasure ---------------------------------------------------

#: Measures of utility and of erasure, the most telling first.
_UTILITIES = ("task_linear", "neighbours", "variance", "rank")
_ERASURES = ("attack", "linear", "held_out")


def _tradeoff(results: Results, contents: Contents, chosen_rank: int | None) -> Tradeoff | None:
    """Draw the plane of the first two measures that at least two erasers have."""
    erasers = [*_of_paths(results, chosen_rank)] or [*_of_columns(results.columns, contents)]
    for x, y in product(_UTILITIES, _ERASURES):
        points = tuple(
            TradeoffPoint(utility=numbers[x], erasure=numbers[y], **facts)
            for facts, numbers in erasers
            if x in numbers and y in numbers
        )
        if len(points) > 1:
            about, left = presented(x), presented(y)
            # For attackers every class counts equally, for probes every row.
            chance = contents.chance if y == "attack" else _majority(results)
            reference = chance if left.unit == "share" else None
            title = f"{contents.score} of the strongest attacker" if y == "attack" else left.axis
            return Tradeoff(about.axis, title, points, about.unit, left.unit, reference)
    return None


def _tried(plane: Mapping[str, Any]) -> Tradeoff:
    points = tuple(TradeoffPoint(**point) for point in plane["points"])
    return Tradeoff(**{**plane, "points": points})


_Eraser = tuple[dict[str, Any], dict[str, Number]]


def _of_columns(columns: Sequence[Column], contents: Contents) -> Iterator[_Eraser]:
    methods = Counter(column.method for column in columns)
    for i, column in enumerate(columns):
        series = column.method if methods[column.method] > 1 else column.name
        label = "" if column.rank is None else f"rank {column.rank}"
        after = {key: column.row(key) and column.row(key).after for key in _UTILITIES}
        attack = contents.strongest(i + 1)
        numbers = {key: Number(v.mean, v.spread) for key, v in after.items() if v}
        numbers |= {"attack": attack.accuracy} if attack else {}
        chosen = i == contents.chosen
        yield {"series": series, "label": label, "rank": column.rank, "chosen": chosen}, numbers


def _of_paths(results: Results, chosen_rank: int | None) -> Iterator[_Eraser]:
    for name, path in results.paths.items():
        for p in path.points:
            facts = {"rank": p.rank, "chosen": p.rank == chosen_rank}
            numbers = {"rank": Number(p.rank), "held_out": Number(p.held_out), **_metrics(p)}
            yield {"series": name, "label": f"rank {p.rank}", **facts}, numbers
        if path.original is not None:
            yield {"series": BEFORE, "label": "no erasure"}, _metrics(path.original)


def _metrics(point: Any) -> dict[str, Number]:
    # One seed has no spread.
    return {name: Number(mean, spread or None) for name, (mean, spread) in point.metrics.items()}
