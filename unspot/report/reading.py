"""Results as the contents of a report: measures, attacks, gaps, and erasers on one plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from unspot.checks import did_you_mean
from unspot.report.columns import (
    Column,
    Results,
    facts,
    glance,
    no_certificate,
    notes,
    sort_results,
    title_of,
    verdicts,
)
from unspot.report.contents import (
    BEFORE,
    Attack,
    Contents,
    GapPoint,
    Gaps,
    Measure,
    NeighbourList,
    ScopePart,
    Tradeoff,
    TradeoffPoint,
)
from unspot.report.layout import presented
from unspot.tables import Number

__all__ = ["attacker_name", "read_contents"]


def read_contents(
    results: Any,
    *,
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
    neighbours: Sequence[NeighbourList] = (),
) -> Contents:
    """Everything that results say, ready to be shown.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        As ``sort_results`` takes them.
    title : str, optional
    chosen : str, optional
        The column that the headline is about; by default the last one.
    chosen_rank : int, optional
        The point of a path of ranks that is marked.
    neighbours : sequence of NeighbourList
    """
    sorted_results = sort_results(results)
    columns = sorted_results.columns
    at = _chosen_column(chosen, columns)
    _check_rank(chosen_rank, sorted_results)
    contents = Contents(
        title=title or title_of(sorted_results),
        columns=tuple(column.name for column in columns),
        chosen=at,
        chance=_chance(sorted_results),
        of_number=_is_of_number(sorted_results),
        measures=(*_certified_measures(sorted_results), *_measures(columns, at)),
        attacks=_attacks(sorted_results),
        gaps=_gaps(columns),
        neighbours=tuple(neighbours),
        facts=facts(columns),
        notes=notes(sorted_results),
        scope=_scope(columns[at].certificate) if columns else (),
        glance=glance(sorted_results, at),
    )
    return replace(
        contents,
        verdicts=verdicts(contents, columns) if columns else (no_certificate(),),
        tradeoff=_tradeoff(sorted_results, contents, chosen_rank),
    )


def _chosen_column(name: str | None, columns: Sequence[Column]) -> int:
    names = [column.name for column in columns]
    if name is None:
        return max(len(names) - 1, 0)
    if name not in names:
        raise ValueError(
            f"Got chosen={name!r}, but expected one of: {', '.join(names)}."
            f"{did_you_mean(name, names)}"
        )
    return names.index(name)


def _check_rank(rank: int | None, results: Results) -> None:
    """Refuse a rank that no result has: otherwise, nothing would be marked, without a word."""
    of_paths = {point["rank"] for points in results.paths.values() for point in points}
    of_columns = {column.rank for column in results.columns if column.rank is not None}
    ranks = of_paths or of_columns
    if rank is not None and rank not in ranks:
        listed = ", ".join(map(str, sorted(ranks, reverse=True))) or "none: no result has a rank"
        raise ValueError(f"Got chosen_rank={rank}, but expected one of: {listed}.")


def _chance(results: Results) -> float | None:
    """What attackers get by guessing, where every class counts equally.

    Without attackers, it is what probes get: the share of the largest class.
    """
    for certificate in (results.before, *(column.certificate for column in results.columns)):
        if certificate is not None:
            return float(certificate.chance)
    if _is_of_number(results):
        return 0.0
    for column in results.columns:
        classes = column.metadata.get("classes")
        if classes and column.evaluation is not None and "attackers" in column.evaluation.details:
            return 1 / len(classes)
    of_path = results.about_path.get("classes")
    return 1 / len(of_path) if of_path and not results.columns else _majority(results)


def _is_of_number(results: Results) -> bool:
    """Whether the concept that the attackers sought is a number."""
    certificates = (results.before, *(column.certificate for column in results.columns))
    first = next((c for c in certificates if c is not None), None)
    if first is not None:
        return bool(getattr(first, "of_number", False))
    attacked = (
        column.evaluation.details.get("attackers", {}).get("after", ())
        for column in results.columns
        if column.evaluation is not None
    )
    return any("r2" in attacker for side in attacked for attacker in side)


def _majority(results: Results) -> float | None:
    """The share of the largest class."""
    rows = [column.row("chance") for column in results.columns]
    return next((float(row.before.mean) for row in rows if row is not None), None)


# -- Measures and gaps -----------------------------------------------------------------------------


def _measures(columns: Sequence[Column], chosen: int) -> tuple[Measure, ...]:
    """The rows of the evaluations, except those that certificates answer better."""
    evaluations = [column.evaluation for column in columns if column.evaluation is not None]
    keys = dict.fromkeys(row.key for evaluation in evaluations for row in evaluation.rows)
    if any(column.certificate is not None for column in columns):
        for key in ("chance", "attack", "two_sample"):
            keys.pop(key, None)
    return tuple(_measure(key, columns, chosen) for key in keys)


def _measure(key: str, columns: Sequence[Column], chosen: int) -> Measure:
    rows = [column.row(key) for column in columns]
    present = [row for row in rows if row is not None]
    first = present[0]
    return Measure(
        key=key,
        title=first.label,
        before=_number(next((row.before for row in present if row.before is not None), None)),
        after=tuple(_number(row and row.after) for row in rows),
        unit=first.unit,
        better=first.direction,
        note=(rows[chosen] or first).note,
    )


def _number(value: Any) -> Number | None:
    return None if value is None else Number(value.mean, value.spread)


def _certified_measures(results: Results) -> tuple[Measure, ...]:
    """The strongest attacker and the two-sample test, as the certificates have them."""
    certificates = [column.certificate for column in results.columns]
    first = next((c for c in certificates if c is not None), None)
    if first is None:
        return ()
    everything = (results.before, *certificates)
    accuracies = [c and Number(c.strongest.score) for c in everything]
    p_values = [c and Number(c.p_value) for c in everything]
    attack = Measure(
        key="attack",
        title="Strongest attacker",
        before=accuracies[0],
        after=tuple(accuracies[1:]),
        unit="share",
        better="lower",
        note=f"of {len(first.attackers)} that learned from {first.n_attack_rows:,} rows; every "
        f"class counts equally, so guessing gets {100 * first.chance:.1f} %.",
    )
    if first.of_number:
        note = f"of {len(first.attackers)} that learned from {first.n_attack_rows:,} rows: the "
        attack = replace(attack, note=f"{note}share of the variance of the number.")
    two_sample = Measure(
        key="two_sample",
        title="Two-sample p-value",
        before=p_values[0],
        after=tuple(p_values[1:]),
        unit="p",
        note="of the hypothesis that the classes have the same distribution; a small value "
        "refutes it.",
    )
    if first.of_number:
        note = "of the hypothesis that rows and number are independent; a small value refutes it."
        two_sample = replace(two_sample, title="Independence p-value", note=note)
    return attack, two_sample, *_measures_of_parts(everything)


def _measures_of_parts(certificates: Sequence[Any]) -> Iterator[Measure]:
    """Of several concepts, the strongest attacker of each: one line."""
    names = dict.fromkeys(name for c in certificates if c is not None for name in c.parts)
    for name in names:
        parts = [None if c is None else c.parts.get(name) for c in certificates]
        scores = [part and Number(part.strongest.score) for part in parts]
        last = next(part for part in reversed(parts) if part is not None)
        yield Measure(
            key=f"attack:{name}",
            title=f"Strongest attacker, {name}" + (", R²" if last.of_number else ""),
            before=scores[0],
            after=tuple(scores[1:]),
            unit="share",
            better="lower",
            note=f"{last.verdict}: {last.strongest.name}, at most {100 * last.upper_bound:.1f} "
            f"{last.unit} over {100 * last.chance:.1f} % by guessing.",
        )


def _gaps(columns: Sequence[Column]) -> tuple[Gaps, ...]:
    """TPR gaps by class; of two classes only the first, as the gaps of the other are opposite."""
    records = [
        {(r["class"], r["label"]): r for r in column.evaluation.details.get("gaps", ())}
        if column.evaluation is not None
        else {}
        for column in columns
    ]
    whose = _classifiers(columns)
    cells = list(dict.fromkeys(cell for by_cell in records for cell in by_cell))
    classes = list(dict.fromkeys(name for name, _ in cells))
    shown = classes[:1] if len(classes) == 2 else classes
    return tuple(
        Gaps(name, tuple(_gap_point(cell, records) for cell in cells if cell[0] == name), whose)
        for name in shown
    )


def _classifiers(columns: Sequence[Column]) -> str:
    """Whose gaps they are; of different classifiers, with the columns of each."""
    columns_of: dict[str, list[str]] = {}
    for column in columns:
        who = column.evaluation and column.evaluation.details.get("gaps_of")
        if who:
            columns_of.setdefault(who, []).append(column.name)
    if len(columns_of) < 2:
        return "".join(columns_of)
    return " and ".join(f"{who} ({', '.join(names)})" for who, names in columns_of.items())


def _gap_point(cell: tuple[str, str], records: Sequence[Mapping[Any, Any]]) -> GapPoint:
    first = next(by_cell[cell] for by_cell in records if cell in by_cell)
    return GapPoint(
        label=cell[1],
        share=first["share"],
        before=first["before"],
        after=tuple(by_cell[cell]["after"] if cell in by_cell else None for by_cell in records),
    )


# -- Attacks ---------------------------------------------------------------------------------------


_NAMES = {
    "logistic": "logistic regression",
    "ridge": "ridge regression",
    "whitened-ridge": "ridge regression, whitened",
    "whitened-logistic": "logistic regr., whitened",
    "residue": "rounding errors, last bits",
    "interactions": "signs of pairs of columns",
    "waves": "waves of any direction",
    "quadratic": "quadratic features",
    "neighbours": "nearest neighbours",
    "rbf": "radial basis functions",
    "whitened-rbf": "radial basis, whitened",
    "trees": "boosted trees",
    "rotated-trees": "boosted trees, rotated",
}


def attacker_name(name: str) -> str:
    """The name of an attacker for people.

    Examples
    --------
    >>> attacker_name("mlp-128-128"), attacker_name("whitened-mlp-256"), attacker_name("trees")
    ('network, 128-128 wide', 'network, 256 wide, whitened', 'boosted trees')
    """
    if name in _NAMES:
        return _NAMES[name]
    before, mark, widths = name.rpartition("mlp-")
    if not mark:
        return name
    return f"network, {widths} wide" + (f", {before.rstrip('-')}" if before else "")


def _attacks(results: Results) -> tuple[Attack, ...]:
    """What attackers recover before erasure and after each eraser.

    If there are both an evaluation and a certificate, the certificate's attackers count.
    """
    if results.before is not None:
        before = _certified_attacks(results.before, 0)
    else:  # the same in all evaluations that have attackers
        each = (_measured_attacks(column.evaluation, "before", 0) for column in results.columns)
        before = next(filter(None, each), [])
    after = [
        _measured_attacks(column.evaluation, "after", i)
        if column.certificate is None
        else _certified_attacks(column.certificate, i)
        for i, column in enumerate(results.columns, start=1)
    ]
    return (*before, *chain(*after))


def _measured_attacks(evaluation: Any, side: str, column: int) -> list[Attack]:
    """Attackers of an evaluation: their intervals are widened for their number."""
    if evaluation is None:
        return []
    entries = evaluation.details.get("attackers", {}).get(side, ())
    return [
        _attack(entry["name"], column, _score(entry), entry.get("interval")) for entry in entries
    ]


def _score(attacker: Mapping[str, Any]) -> float:
    """Its balanced accuracy, or R² of a number."""
    return float(attacker["r2"] if "r2" in attacker else attacker["balanced_accuracy"])


def _certified_attacks(certificate: Any, column: int) -> list[Attack]:
    """Attackers of a certificate: their intervals are those of the advantage over guessing."""
    return [
        _attack(
            report.name,
            column,
            report.score,
            [certificate.chance + end for end in report.interval],
        )
        for report in certificate.attackers
    ]


def _attack(name: str, column: int, accuracy: float, interval: Sequence[float] | None) -> Attack:
    low, high = interval or (None, None)
    return Attack(attacker_name(name), column, Number(float(accuracy), low=low, high=high))


# -- Erasers on the plane of utility and erasure ---------------------------------------------------


#: Measures of utility, the most telling first: key → (title, unit).
UTILITIES = {
    key: (presented(key).axis, presented(key).unit)
    for key in ("task_linear", "task", "neighbours", "words", "variance")
} | {"rank": ("rank: dimensions kept", "")}
#: Measures of what is left of the concept, likewise.
LEFT = {
    key: (presented(key).axis, presented(key).unit) for key in ("attack", "probe", "linear")
} | {"held_out": ("held-out distance between the classes (MMD²)", "")}


def _tradeoff(results: Results, contents: Contents, chosen_rank: int | None) -> Tradeoff | None:
    """The plane, if at least two erasers can be drawn on it."""
    if results.paths:
        return _tradeoff_of_paths(results, contents.chance, chosen_rank)
    return _tradeoff_of_columns(results.columns, contents)


def _tradeoff_of_columns(columns: Sequence[Column], contents: Contents) -> Tradeoff | None:
    methods = Counter(column.method for column in columns)
    accuracies = [
        [attack.accuracy for attack in contents.attacks_on(i)] for i in range(1, len(columns) + 1)
    ]
    for key, (title, unit) in UTILITIES.items():
        points = tuple(
            TradeoffPoint(
                series=column.method if methods[column.method] > 1 else column.name,
                label="" if column.rank is None else f"rank {column.rank}",
                utility=Number(row.after.mean, row.after.spread),
                erasure=max(accuracies[i], key=lambda number: number.value),
                rank=column.rank,
                chosen=i == contents.chosen,
            )
            for i, column in enumerate(columns)
            if accuracies[i] and (row := column.row(key)) is not None and row.after is not None
        )
        if len(points) > 1:
            left = "share of variance explained" if contents.of_number else LEFT["attack"][0]
            return Tradeoff(title, left, points, unit, reference=contents.chance)
    return None


def _tradeoff_of_paths(
    results: Results, chance: float | None, chosen_rank: int | None
) -> Tradeoff | None:
    everything = [point for points in results.paths.values() for point in points]

    def measured(key: str) -> bool:
        return all(point.get(key) is not None for point in everything)

    utility = next(filter(measured, UTILITIES))
    left = next(filter(measured, LEFT), None)
    if left is None or len(everything) < 2:
        return None
    points = tuple(
        TradeoffPoint(
            series=name,
            label=f"rank {point['rank']}",
            utility=_point_number(point, utility),
            erasure=_point_number(point, left),
            rank=point["rank"],
            chosen=point["rank"] == chosen_rank,
        )
        for name, path in results.paths.items()
        for point in path
    )
    original = results.path.get("original")
    if original and original.get(utility) is not None and original.get(left) is not None:
        kept, recovered = (_point_number(original, key) for key in (utility, left))
        points = (*points, TradeoffPoint(BEFORE, "no erasure", kept, recovered))
    (utility_title, utility_unit), (left_title, left_unit) = UTILITIES[utility], LEFT[left]
    reference = None
    if left_unit == "share":
        # For attackers every class counts equally, for probes every row.
        reference = chance if left == "attack" else _majority(results)
    return Tradeoff(utility_title, left_title, points, utility_unit, left_unit, reference)


def _point_number(point: Mapping[str, Any], key: str) -> Number:
    # One seed has no spread.
    return Number(float(point[key]), float(point.get(f"{key}_spread") or 0.0) or None)


# -- What the certificate covers -------------------------------------------------------------------


def _scope(certificate: Any) -> tuple[ScopePart, ...]:
    """Write what the certificate covers as parts of the page."""
    if certificate is None:
        return ()
    scope, digests = certificate.scope, certificate.metadata.get("digests", {})
    parts = (
        ScopePart("The adversary has", scope.adversary_has),
        ScopePart("The adversary may", scope.adversary_may),
        ScopePart("Not covered", scope.not_covered),
        ScopePart("Certify again when", scope.certify_again_when),
        ScopePart("Digests", facts=tuple(digests.items())),
    )
    return tuple(part for part in parts if part.sentences or part.facts)
