"""Results sorted for a report: one column for each eraser, and the paths of ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unspot.evaluation.results import method_name
from unspot.report.contents import Attack, Contents, Tone, Verdict, strongest
from unspot.tables import value_text

__all__ = [
    "BEFORE",
    "Column",
    "Results",
    "facts",
    "notes",
    "sort_results",
    "subtitle",
    "title_of",
    "verdicts",
]

#: The name under which a certificate of the original rows may stand.
BEFORE = "before"

#: What tells erasers apart, where both of two results say it.
_IDENTITY = ("method", "inner", "rank", "parameters", "fingerprint")


@dataclass(frozen=True)
class Column:
    """One eraser: its evaluation, its certificate, or both."""

    name: str
    method: str
    rank: int | None = None
    evaluation: Any = None
    certificate: Any = None

    def row(self, key: str) -> Any:
        """A row of the evaluation, or None."""
        evaluation = self.evaluation
        return evaluation[key] if evaluation is not None and key in evaluation else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was measured on which data, by which settings."""
        result = self.certificate if self.evaluation is None else self.evaluation
        found: Mapping[str, Any] = {} if result is None else result.metadata
        return found

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The eraser's own metadata."""
        found: Mapping[str, Any] = self.metadata.get("eraser", {})
        return found


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        That of the original rows.
    paths : mapping of str to sequence of mappings
        Points of a path of ranks by the name of the method: plain numbers by their names.
    """

    columns: tuple[Column, ...] = ()
    before: Any = None
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        Under one name there may be an evaluation and a certificate, as a pair; a certificate
        under "before" is of the original rows. Without names, evaluations stand in columns by
        method and rank, and a certificate belongs to the evaluation of its eraser; one that does
        not say whose it is, to the evaluation before it.
    """
    columns: dict[str, Column] = {}
    before, paths = None, {}
    for name, result in _named(results):
        kind = _kind(result)
        if kind == "path":
            paths[name or result.method] = json.loads(result.to_json())["points"]
        elif kind == "certificate" and name == BEFORE:
            before = result
        else:
            column = _column(name, kind, result)
            key = name or _place(column, columns)
            columns[key] = _merged(columns[key], column) if key in columns else column
    if not columns and not paths:
        raise ValueError(
            "Got no results, but a report needs at least one: an Evaluation, a Certificate or a "
            "RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(results, Mapping):
        results = {"": results}
    for name, value in results.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _kind(result: Any) -> str:
    marks = {"evaluation": "rows", "certificate": "attackers", "path": "points"}
    for kind, attribute in marks.items():
        if hasattr(result, attribute) and hasattr(result, "to_json"):
            return kind
    raise ValueError(
        f"Got a result of type {type(result).__name__}, but expected an Evaluation, a Certificate "
        "or a RankPath."
    )


def _column(name: str, kind: str, result: Any) -> Column:
    column = Column(name, "", **{kind: result})
    method = method_name(column.eraser) or name or "erased"
    return replace(column, method=method, rank=column.eraser.get("rank"))


def _place(column: Column, columns: Mapping[str, Column]) -> str:
    """Where a result without a name belongs."""
    if column.certificate is not None:
        for at, (key, other) in enumerate(reversed(list(columns.items()))):
            told = bool(column.eraser and other.eraser)
            if other.certificate is None and (told or at == 0) and _may_be_one(column, other):
                return key
    own = f"{column.method} {column.rank}"
    found = columns.get(own)
    # Two evaluations of one method and rank are refused later: only names would tell them apart.
    twice = found is not None and column.certificate is None and found.evaluation is not None
    if found is None or twice or _may_be_one(column, found):
        return own
    return f"{own}, {len(columns)}"


def _may_be_one(first: Column, second: Column) -> bool:
    """Whether nothing that both say about their eraser differs."""
    pairs = [(first.eraser.get(key), second.eraser.get(key)) for key in _IDENTITY]
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _merged(first: Column, second: Column) -> Column:
    for part in ("evaluation", "certificate"):
        if getattr(first, part) is not None and getattr(second, part) is not None:
            raise ValueError(
                f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
                "eraser a name of its own."
            )
    later = second if second.evaluation is not None else first
    return replace(
        later,
        name=first.name,
        evaluation=later.evaluation,
        certificate=first.certificate or second.certificate,
    )


def _with_names(columns: list[Column]) -> Iterator[Column]:
    """Columns without a name get that of the method, with the rank where it comes more often."""
    often = Counter(column.method for column in columns)
    seen: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if often[column.method] == 1 else ranked)
        seen[name] += 1
        yield replace(column, name=name if seen[name] == 1 else f"{name} ({seen[name]})")


# -- Settings, versions and fingerprints of results, as pairs of name and text ---------------------


#: Parameters that are shown elsewhere, or decide no number.
_NO_SETTINGS = {"rank", "verbose", "device"}

Facts = tuple[tuple[str, str], ...]


def facts(columns: Sequence[Column]) -> tuple[tuple[str, Facts], ...]:
    """Groups of facts: the data, every eraser, how it was measured, versions."""
    if not columns:
        return ()
    groups = [("Data", _data(columns[0]))]
    groups += [(column.name, _eraser(column)) for column in columns]
    groups += [("Measured with", _measurement(columns))]
    versions = columns[0].metadata.get("versions", {})
    groups += [("Versions", tuple((str(k), str(v)) for k, v in versions.items()))]
    return tuple((name, found) for name, found in groups if found)


def notes(results: Results) -> tuple[str, ...]:
    """What a reader must know before comparing columns."""
    prints = {column.eraser.get("fingerprint") for column in results.columns} - {None}
    sizes = {_rows_text(column.metadata) for column in results.columns} - {""}
    certified = [column.certificate is not None for column in results.columns]
    found = []
    if len(prints) > 1:
        found.append("The erasers were not fitted on the same rows: their fingerprints differ.")
    if len(sizes) > 1:
        found.append("The results were not measured on the same number of rows.")
    if any(certified) and (not all(certified) or results.before is None):
        found.append(
            "Attackers of certificates learn from other rows than those of evaluations, so that "
            "their accuracies differ a little where a report has both."
        )
    return tuple(found)


def subtitle(column: Column) -> str:
    """The data in one line."""
    metadata = column.metadata
    parts = []
    if rows := _rows_text(metadata):
        parts.append(rows)
    if features := metadata.get("n_features"):
        parts.append(f"{features} dimensions")
    if classes := metadata.get("classes"):
        shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
        parts.append(f"{len(classes)} classes: {shown}")
    name = metadata.get("data")
    return " · ".join([str(name), *parts] if name else parts)


def title_of(results: Results) -> str:
    """A title for results without one."""
    columns = results.columns
    if len(columns) > 1:
        return f"{len(columns)} erasers compared"
    if not columns:
        return f"Ranks of {', '.join(results.paths)}"
    data = columns[0].metadata.get("data")
    return f"{columns[0].name} on {data}" if data else columns[0].name


def _data(column: Column) -> Facts:
    metadata, eraser = column.metadata, column.eraser
    counts = eraser.get("class_counts") or ()
    classes = eraser.get("classes") or metadata.get("classes") or ()
    return _facts(
        {
            "name": metadata.get("data"),
            "rows": _rows_text(metadata),
            "dimensions": metadata.get("n_features"),
            "classes of the concept": ", ".join(map(str, classes)),
            "rows of each class, in the fit": ", ".join(f"{count:,}" for count in counts),
            "fingerprint of the fitted rows": eraser.get("fingerprint"),
        }
    )


def _eraser(column: Column) -> Facts:
    eraser = column.eraser
    inner = eraser.get("inner") if isinstance(eraser.get("inner"), Mapping) else {}
    parameters = {**eraser.get("parameters", {}), **inner.get("parameters", {})}  # type: ignore[union-attr]
    if inner:
        parameters.pop("eraser", None)
    return _facts(
        {
            "eraser": column.method,
            "dimensions kept": eraser.get("rank"),
            "rows fitted on": eraser.get("n_rows"),
            **{key: value for key, value in parameters.items() if key not in _NO_SETTINGS},
        }
    )


def _measurement(columns: Sequence[Column]) -> Facts:
    metadata = columns[0].metadata
    seconds = sum(_seconds(column.metadata.get("seconds")) for column in columns)
    certificate = next((c.certificate for c in columns if c.certificate is not None), None)
    budget = metadata.get("budget") if certificate is None else certificate.budget
    return _facts(
        {
            "seeds of each probe": metadata.get("seeds"),
            "budget of the attackers": budget,
            "rows that attackers learn from": certificate and certificate.n_attack_rows,
            "rows that they are judged on": certificate and certificate.n_test_rows,
            "probability of a false alarm": certificate and certificate.alpha,
            "time": f"{seconds:.0f} s" if seconds else None,
        }
    )


def _seconds(value: Any) -> float:
    if isinstance(value, Mapping):
        return float(sum(value.values()))
    return float(value or 0)


def _rows_text(metadata: Mapping[str, Any]) -> str:
    rows = metadata.get("n_rows")
    if isinstance(rows, Mapping):
        return ", ".join(f"{count:,} {name}" for name, count in rows.items()) + " rows"
    return f"{rows:,} rows" if isinstance(rows, int) else ""


def _facts(found: Mapping[str, Any]) -> Facts:
    shown = ((name, value) for name, value in found.items() if value not in (None, ""))
    return tuple(
        (name, f"{value:,}" if type(value) is int and value > 9999 else str(value))
        for name, value in shown
    )


# -- The outcome in plain words: what the strongest attacker still recovers, against chance --------


#: From this share of the attackers' advantage on, "most" of it is gone.
MOST = 0.8
#: A two-sample p-value that says so, as in a certificate: half of 0.05, attackers have the other.
CLASSES_DIFFER = 0.025


def verdicts(contents: Contents, columns: Sequence[Column]) -> tuple[Verdict, ...]:
    """One verdict for every eraser that was attacked."""
    found = (_verdict(i, contents, column) for i, column in enumerate(columns))
    return tuple(verdict for verdict in found if verdict is not None)


def _verdict(i: int, contents: Contents, column: Column) -> Verdict | None:
    attack, chance = strongest(contents, i + 1), contents.chance
    if attack is None or chance is None:
        return None
    leaks = _leaks(contents, i + 1, column)
    gone = _gone(contents, attack, chance)
    tone: Tone = "good" if not leaks else "unsure" if gone is not None and gone >= MOST else "bad"
    number = sum(a.column == i + 1 for a in contents.attacks)
    certificate = column.certificate
    return Verdict(
        column=i,
        tone=tone,
        headline=_headline(tone, gone, attack, chance),
        sentence=_sentence(attack, chance, number, contents),
        short=f"{value_text(attack.accuracy.value, 'share')}, by {attack.attacker}",
        details=(_limits(contents, i + 1) if certificate is None else _certified(certificate),),
    )


def _certified(certificate: Any) -> str:
    """The certificate's own sentence."""
    return f"Certificate: {certificate.sentence}"


def _limits(contents: Contents, column: int) -> str:
    """What an evaluation cannot say."""
    highest = max(a.accuracy.high or 0.0 for a in contents.attacks if a.column == column)
    reach = f"Intervals reach up to {value_text(highest, 'share')}. " if highest else ""
    return (
        f"{reach}This is an evaluation and no certificate: unspot certify tells how small a leak "
        "the rows could have shown."
    )


def _leaks(contents: Contents, number: int, column: Column) -> bool:
    """The certificate's verdict; without one, an attacker above chance or classes that differ."""
    if column.certificate is not None:
        return bool(column.certificate.leaks)
    law = column.row("two_sample")
    if law is not None and law.after is not None and law.after.mean <= CLASSES_DIFFER:
        return True
    accuracies = [a.accuracy for a in contents.attacks if a.column == number]
    lows = [a.value if a.low is None else a.low for a in accuracies]
    return contents.chance is not None and max(lows) > contents.chance


def _gone(contents: Contents, attack: Attack, chance: float) -> float | None:
    """The share of the strongest attacker's advantage over chance that erasure took away."""
    before = strongest(contents, 0)
    if before is None or before.accuracy.value <= chance:
        return None
    advantage = max(attack.accuracy.value - chance, 0.0)
    return max(0.0, 1 - advantage / (before.accuracy.value - chance))


def _headline(tone: Tone, gone: float | None, attack: Attack, chance: float) -> str:
    if tone == "good":
        return "No attacker found the concept"
    low = attack.accuracy.low
    if low is not None and low <= chance:
        return "Attackers are at chance, yet the classes still differ a little"
    if tone == "unsure" and gone is not None:
        return f"{100 * gone:.0f} % of what attackers could read is gone"
    return "The concept can still be read"


def _sentence(attack: Attack, chance: float, number: int, contents: Contents) -> str:
    before = strongest(contents, 0)
    was = f" (before erasure: {value_text(before.accuracy.value, 'share')})" if before else ""
    of = (
        f"the strongest of {number} attackers, {attack.attacker},"
        if number > 1
        else attack.attacker
    )
    share = value_text(attack.accuracy.value, "share")
    text = f"{of} is right on {share} of the held-out rows, every class counted alike{was}; "
    text += f"guessing gets {value_text(chance, 'share')}."
    return text[0].upper() + text[1:]
