"""The columns of a report, one per eraser, and the words about them: verdicts, facts, guide."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unspot.eraser import method_name
from unspot.evaluation.certificate import MARGIN, verdict_of
from unspot.evaluation.metrics import REGISTRY
from unspot.report.contents import BEFORE, Attack, Contents, Facts, Tone, Verdict
from unspot.tables import value_text

__all__ = [
    "GLOSSARY",
    "Column",
    "Results",
    "facts",
    "notes",
    "sort_results",
    "subtitle",
    "title_of",
    "verdicts",
]

#: The metadata by which erasers differ, if both of two results have it.
_IDENTITY = ("method", "inner", "rank", "parameters", "fingerprint")


@dataclass(frozen=True)
class Column:
    """One eraser: its evaluation, its certificate, or both; and the certificate's audit record."""

    name: str
    method: str
    rank: int | None = None
    evaluation: Any = None
    certificate: Any = None
    audit: Any = None

    def row(self, key: str) -> Any:
        """A row of the evaluation, or None."""
        evaluation = self.evaluation
        return evaluation[key] if evaluation is not None and key in evaluation else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was measured, on which data, with which settings."""
        result = self.certificate if self.evaluation is None else self.evaluation
        return {} if result is None else dict(result.metadata)

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The metadata of the eraser."""
        return dict(self.metadata.get("eraser", {}))


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        The certificate of the original rows.
    paths : mapping of str to sequence of mappings
        The points of each path of ranks, by the name of the method. A point maps the names of
        metrics to plain numbers.
    """

    columns: tuple[Column, ...] = ()
    before: Any = None
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        A name may have both an evaluation and a certificate, as a pair. A certificate under the
        name "before" is that of the original rows. Without names, there is one column per method
        and rank, and a certificate belongs to the evaluation of its eraser. A certificate that
        does not name its eraser belongs to the evaluation before it.
    """
    columns: dict[str, Column] = {}
    before, paths = None, {}
    for name, result in _named(results):
        kind = _kind(result)
        if kind == "path":
            paths[name or result.method] = json.loads(result.to_json())["points"]
        elif kind in ("certificate", "audit") and name == BEFORE:
            before = getattr(result, "certificate", result)
        else:
            column = _column(name, kind, result)
            key = name or _key(column, columns)
            columns[key] = _merged(columns[key], column) if key in columns else column
    if not columns and not paths:
        raise ValueError(
            "Got no results, but expected at least one: an Evaluation, a Certificate or a RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(results, Mapping):
        results = {"": results}
    for name, value in results.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _kind(result: Any) -> str:
    marks = {
        "evaluation": "rows",
        "certificate": "attackers",
        "audit": "threat_model",
        "path": "points",
    }
    for kind, attribute in marks.items():
        if hasattr(result, attribute) and hasattr(result, "to_json"):
            return kind
    raise ValueError(
        f"Got a result of type {type(result).__name__}, but expected an Evaluation, a Certificate "
        "or a RankPath. Read result files with unspot.report.files.read_results."
    )


def _column(name: str, kind: str, result: Any) -> Column:
    column = Column(name, "", **{kind: result})
    if kind == "audit":
        column = replace(column, certificate=result.certificate)
    method = method_name(column.eraser) or name or "erased"
    return replace(column, method=method, rank=column.eraser.get("rank"))


def _key(column: Column, columns: dict[str, Column]) -> str:
    """The key of the column to which a result without a name belongs."""
    if column.certificate is not None:
        latest = next(reversed(columns), None)
        for key, other in reversed(columns.items()):
            comparable = key == latest or (column.eraser and other.eraser)
            if other.certificate is None and comparable and _may_be_same(column, other):
                return key
    key = f"{column.method} {column.rank}"
    if key not in columns or _may_be_same(column, columns[key]):
        return key
    # Two evaluations of one method and rank are refused later: only names would tell them apart.
    two_evaluations = column.certificate is None and columns[key].evaluation is not None
    return key if two_evaluations else f"{key}, {len(columns)}"


def _may_be_same(first: Column, second: Column) -> bool:
    """Whether the erasers agree in all the metadata that both have."""
    pairs = [(first.eraser.get(key), second.eraser.get(key)) for key in _IDENTITY]
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _merged(first: Column, second: Column) -> Column:
    for part in ("evaluation", "certificate"):
        if getattr(first, part) is not None and getattr(second, part) is not None:
            raise ValueError(
                f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
                "eraser a name of its own."
            )
    evaluated = second if second.evaluation is not None else first
    certificate = first.certificate or second.certificate
    audit = first.audit or second.audit
    return replace(evaluated, name=first.name, certificate=certificate, audit=audit)


def _with_names(columns: list[Column]) -> Iterator[Column]:
    """Columns named by their method, and by the rank if a method has several columns."""
    methods = Counter(column.method for column in columns)
    seen: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if methods[column.method] == 1 else ranked)
        seen[name] += 1
        yield replace(column, name=name if seen[name] == 1 else f"{name} ({seen[name]})")


#: From this share of the attackers' advantage on, "most" of it is gone.
MOST = 0.8
#: The level of the two-sample test, as in a certificate: half of 0.05, as attackers have the rest.
CLASSES_DIFFER = 0.025
#: Parameters that are shown elsewhere, or that do not change a number.
_NO_SETTINGS = {"rank", "verbose", "device"}


# -- Verdicts: what the strongest attacker still recovers, against chance --------------------------


def verdicts(contents: Contents, columns: Sequence[Column]) -> tuple[Verdict, ...]:
    """One verdict for each eraser that was attacked."""
    each = (_verdict(i, contents, column) for i, column in enumerate(columns))
    return tuple(verdict for verdict in each if verdict is not None)


def _verdict(i: int, contents: Contents, column: Column) -> Verdict | None:
    attack, chance = contents.strongest(i + 1), contents.chance
    if attack is None or chance is None:
        return None
    attacks, before = contents.attacks_on(i + 1), contents.strongest(0)
    gone = _share_gone(before, attack, chance)
    word = _word(column, attacks, chance)
    certificate = column.certificate
    return Verdict(
        column=i,
        tone=_TONES[word],
        headline=_headline(word, gone, attack, chance),
        sentence=_sentence(before, attack, len(attacks), chance, contents.of_number),
        short=f"{_per_cent(attack)}, by {attack.attacker}",
        details=(
            (_limits(attacks),)
            if certificate is None
            else (
                f"Certificate: {certificate.sentence}",
                *(f"{name}: {_of_part(part)}" for name, part in certificate.parts.items()),
                f"Next: {certificate.next_step}",
            )
        ),
    )


#: How the page shows a verdict.
_TONES: dict[str, Tone] = {"HOLDS": "good", "LEAKS": "bad", "INCONCLUSIVE": "unsure"}


def _word(column: Column, attacks: Sequence[Attack], chance: float) -> str:
    """The certificate's verdict; without one, that of the attackers' intervals."""
    if column.certificate is not None:
        return str(column.certificate.verdict)
    test = column.row("two_sample")
    accuracies = [attack.accuracy for attack in attacks]
    return verdict_of(
        found=max(a.value if a.low is None else a.low for a in accuracies) > chance,
        differ=bool(test and test.after and test.after.mean <= CLASSES_DIFFER),
        upper_bound=max(a.value if a.high is None else a.high for a in accuracies) - chance,
        margin=MARGIN,
    )


def _share_gone(before: Attack | None, after: Attack, chance: float) -> float | None:
    """The share of the strongest attacker's advantage over chance that erasure removed."""
    if before is None or before.accuracy.value <= chance:
        return None
    advantage = max(after.accuracy.value - chance, 0.0)
    return max(0.0, 1 - advantage / (before.accuracy.value - chance))


def _headline(word: str, gone: float | None, attack: Attack, chance: float) -> str:
    if word == "HOLDS":
        return "HOLDS: no attacker can read the concept"
    if word == "INCONCLUSIVE":
        return "INCONCLUSIVE: no leak was found, but these rows cannot rule one out"
    low = attack.accuracy.low
    if low is not None and low <= chance:
        return "LEAKS: attackers are at chance, yet the classes still differ"
    if gone is not None and gone >= MOST:
        return f"LEAKS, but {100 * gone:.0f} % of what attackers could read is gone"
    return "LEAKS: the concept can still be read"


def _of_part(part: Any) -> str:
    """One of several concepts, in a line."""
    return (
        f"{part.verdict}. {part.strongest.name} has {100 * part.advantage:.1f} {part.unit}, and "
        f"no attacker more than {100 * part.upper_bound:.1f}."
    )


def _sentence(
    before: Attack | None, after: Attack, number: int, chance: float, of_number: bool = False
) -> str:
    name = after.attacker[0].upper() + after.attacker[1:]
    subject = f"The strongest of {number} attackers, {after.attacker}," if number > 1 else name
    was = f" (before erasure: {_per_cent(before)})" if before else ""
    if of_number:
        return (
            f"{subject} explains {_per_cent(after)} of the variance of the number on the held-out "
            f"rows{was}. Zero or less is nothing."
        )
    return (
        f"{subject} is right on {_per_cent(after)} of the held-out rows{was}. Guessing is right on "
        f"{value_text(chance, 'share')}. Every class counts equally."
    )


def _per_cent(attack: Attack) -> str:
    return value_text(attack.accuracy.value, "share")


def _limits(attacks: Sequence[Attack]) -> str:
    """What an evaluation cannot say."""
    highest = max(attack.accuracy.high or 0.0 for attack in attacks)
    reach = f"Confidence intervals reach up to {value_text(highest, 'share')}. " if highest else ""
    return (
        f"{reach}This is an evaluation and no certificate: run unspot certify to learn how small a "
        "leak these rows could have shown."
    )


# -- Title and notes -------------------------------------------------------------------------------


def title_of(results: Results) -> str:
    """A title for results without one."""
    columns = results.columns
    if len(columns) > 1:
        return f"{len(columns)} erasers compared"
    if not columns:
        return f"Ranks of {', '.join(results.paths)}"
    data = columns[0].metadata.get("data")
    return f"{columns[0].name} on {data}" if data else columns[0].name


def subtitle(column: Column) -> str:
    """The data in one line."""
    metadata = column.metadata
    features, classes = metadata.get("n_features"), metadata.get("classes")
    parts = [metadata.get("data"), _rows_text(metadata)]
    if features:
        parts.append(f"{features} dimensions")
    if classes:
        shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
        parts.append(f"{len(classes)} classes: {shown}")
    return " · ".join(str(part) for part in parts if part)


def notes(results: Results) -> tuple[str, ...]:
    """What a reader must know before comparing columns."""
    columns = results.columns
    fingerprints = {column.eraser.get("fingerprint") for column in columns} - {None}
    sizes = {_rows_text(column.metadata) for column in columns} - {""}
    found = []
    if len(fingerprints) > 1:
        found.append("The erasers were not fitted on the same rows: their fingerprints differ.")
    if len(sizes) > 1:
        found.append("The results were not measured on the same number of rows.")
    return tuple(found)


# -- Facts: settings, versions and fingerprints as pairs of name and text --------------------------


def facts(columns: Sequence[Column]) -> tuple[tuple[str, Facts], ...]:
    """Groups of facts: the data, each eraser, how it was measured, versions."""
    if not columns:
        return ()
    groups = [
        ("Data", _data(columns[0])),
        *((column.name, _eraser(column)) for column in columns),
        ("Measured with", _measurement(columns)),
        ("Versions", _as_facts(columns[0].metadata.get("versions", {}))),
    ]
    return tuple((name, group) for name, group in groups if group)


def _data(column: Column) -> Facts:
    metadata, eraser = column.metadata, column.eraser
    counts = eraser.get("class_counts") or ()
    classes = eraser.get("classes") or metadata.get("classes") or ()
    return _as_facts(
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
    parameters = dict(eraser.get("parameters", {}))
    inner = eraser.get("inner")
    if isinstance(inner, Mapping):
        parameters |= inner.get("parameters", {})
        parameters.pop("eraser", None)  # the inner one, which its own parameters describe
    return _as_facts(
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
    return _as_facts(
        {
            "seeds of each probe": metadata.get("seeds"),
            "budget of the attackers": budget,
            "rows that attackers learn from": certificate and certificate.n_attack_rows,
            "rows that they are judged on": certificate and certificate.n_test_rows,
            "probability of a false alarm": certificate and certificate.alpha,
            "margin of the advantage": certificate and certificate.margin,
            "time": f"{seconds:.0f} s" if seconds else None,
        }
    )


def _seconds(value: Any) -> float:
    return float(sum(value.values()) if isinstance(value, Mapping) else value or 0)


def _rows_text(metadata: Mapping[str, Any]) -> str:
    rows = metadata.get("n_rows")
    if isinstance(rows, Mapping):
        return ", ".join(f"{count:,} {name}" for name, count in rows.items()) + " rows"
    return f"{rows:,} rows" if isinstance(rows, int) else ""


def _as_facts(values: Mapping[str, Any]) -> Facts:
    """Pairs of text, without values that are missing."""
    return tuple(
        (name, f"{value:,}" if type(value) is int and value > 9999 else str(value))
        for name, value in values.items()
        if value not in (None, "")
    )


# -- The reading guide of the report: what its words and its measures mean -------------------------


#: Terms and what they mean: those of all results, those of the metrics, those of paths.
GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "Concept",
        "What was to be erased from the vectors: gender, dialect, source… Its classes are the "
        "values that a row can have.",
    ),
    (
        "Held-out rows",
        "Rows that neither the eraser nor the classifier under test was fitted on. The numbers of "
        "this report are measured on such rows, unless a note says otherwise.",
    ),
    (
        "Interval",
        "Where the accuracy on all rows of this kind is likely to lie. Attackers are compared at "
        "once, so intervals are widened for their number.",
    ),
    *((metric.term, metric.meaning) for metric in REGISTRY if metric.term),
    (
        "Rank",
        "How many dimensions are kept. Fewer erase more and keep less.",
    ),
)
