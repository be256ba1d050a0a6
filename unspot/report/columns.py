"""The columns of a report, one per eraser, and the words about them: verdicts, facts, guide."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unspot.eraser import method_name
from unspot.evaluation.certificate import MARGIN, verdict_of
from unspot.report.contents import BEFORE, Attack, Contents, Facts, Tone, Verdict
from unspot.report.layout import METRICS, presented
from unspot.tables import value_text

__all__ = [
    "GLOSSARY",
    "Column",
    "Results",
    "facts",
    "glance",
    "glossary",
    "no_certificate",
    "notes",
    "sort_results",
    "title_of",
    "verdicts",
]

#: The metadata by which erasers differ, if both of two results have it.
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
        """What was measured, on which data, with which settings."""
        result = self.certificate if self.evaluation is None else self.evaluation
        return {} if result is None else dict(result.metadata)

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The metadata of the eraser."""
        return dict(self.metadata.get("eraser", {}))

    @property
    def concept(self) -> str:
        """What was to be erased, by its name; empty if it has none."""
        return str(self.metadata.get("concept") or self.eraser.get("concept_name", ""))

    @property
    def classes(self) -> Sequence[str]:
        """The classes of the concept."""
        certified = getattr(self.certificate, "rows_of_class", {})
        known = self.metadata.get("classes") or self.eraser.get("classes") or ()
        return [str(name) for name in certified or known]


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
    path : mapping
        The first path as its JSON has it: with metadata and the original rows.
    """

    columns: tuple[Column, ...] = ()
    before: Any = None
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    path: Mapping[str, Any] = field(default_factory=dict)

    @property
    def about_path(self) -> Mapping[str, Any]:
        """The data, the concept and the classes of the first path."""
        return dict(self.path.get("metadata", {}))

    @property
    def concept(self) -> str:
        """The name of the concept, as the first result has it that knows it."""
        known = [column.concept for column in self.columns] + [self.about_path.get("concept")]
        return next(filter(None, known), "")


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
    before: Any = None
    paths: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for name, result in _named(results):
        kind = _kind(result)
        if kind == "path":
            content = json.loads(result.to_json())
            paths[name or result.method] = content["points"]
            first = first or content
        elif kind == "certificate" and name == BEFORE:
            before = result
        else:
            column = _column(name, kind, result)
            key = name or _key(column, columns)
            columns[key] = _merged(columns[key], column) if key in columns else column
    if not columns and not paths:
        raise ValueError(
            "Got no results, but expected at least one: an Evaluation, a Certificate or a RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths, first)


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(results, Mapping):
        results = {"": results}
    for name, value in results.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _kind(result: Any) -> str:
    marks = {
        "path": "points",
        "evaluation": "rows",
        "certificate": "attackers",
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
    return replace(evaluated, name=first.name, certificate=certificate)


def _with_names(columns: list[Column]) -> Iterator[Column]:
    """Columns named by their method, and by the rank if a method has several columns."""
    methods = Counter(column.method for column in columns)
    seen: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if methods[column.method] == 1 else ranked)
        seen[name] += 1
        yield replace(column, name=name if seen[name] == 1 else f"{name} ({seen[name]})")


#: From this share on, most of the attackers' lead is gone, and the headline says so.
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
        headline=_headline(word, column.concept or "the concept", gone, attack, chance),
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


def _share_gone(before: Attack | None, after: Attack, chance: float) -> str:
    """How much of the strongest attacker's lead over guessing erasure removed; "" if not most."""
    if before is None or before.accuracy.value <= chance:
        return ""
    leads = [max(attack.accuracy.value - chance, 0.0) for attack in (before, after)]
    gone = 1 - leads[1] / leads[0]
    if gone < MOST:
        return ""
    was, left = (f"{100 * lead:.1f}" for lead in leads)
    return f"{100 * gone:.0f} % of an attacker’s lead over guessing is gone ({was} → {left} points)"


def _headline(word: str, concept: str, gone: str, attack: Attack, chance: float) -> str:
    if word == "HOLDS":
        return f"HOLDS: no attacker can read {concept}"
    if word == "INCONCLUSIVE":
        return f"INCONCLUSIVE: no leak of {concept} was found, but these rows cannot rule one out"
    low = attack.accuracy.low
    if low is not None and low <= chance:
        return f"LEAKS: attackers of {concept} are at chance, yet the classes still differ"
    return f"LEAKS: {concept} can still be read" + (f", but {gone}" if gone else "")


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
    subject = f"The strongest of {number} attackers ({after.attacker})" if number > 1 else name
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


def no_certificate() -> Verdict:
    """What stands in the place of a verdict where ranks were measured and none was certified."""
    return Verdict(
        column=0,
        tone="unsure",
        headline="NO VERDICT: no rank was chosen and certified",
        sentence="The numbers of each rank are measured on validation rows, to choose a rank by. "
        "They are no promise about the rank that looks best.",
        details=(
            "Next: unspot path with --max-advantage 0.05 chooses a rank, and certifies it on rows "
            "that had no part in the choice.",
        ),
    )


def title_of(results: Results) -> str:
    """A title for results without one."""
    columns, concept = results.columns, results.concept
    data = (columns[0].metadata if columns else results.about_path).get("data")
    of_concept = f" of {concept}" if concept else ""
    on_data = f" on {data}" if data else ""
    if not columns:
        by = f"Ranks of {', '.join(results.paths)}"
        return f"{by}: erasure of {concept}{on_data}" if concept else f"{by}{on_data}"
    if len(columns) > 1:
        return f"{len(columns)} erasers{of_concept} compared{on_data}"
    name = columns[0].name
    return f"Erasure{of_concept}{on_data}: {name}" if concept else f"{name}{on_data}"


def glance(results: Results, chosen: int) -> Facts:
    """What everybody asks first: which concept, which rows, which eraser."""
    columns = results.columns
    column = columns[chosen] if columns else None
    metadata = column.metadata if column else results.about_path
    classes = list(column.classes if column else metadata.get("classes", ()))
    features = metadata.get("n_features")
    listed = ", ".join(classes[:6]) + (f" and {len(classes) - 6} more" if len(classes) > 6 else "")
    parts = (metadata.get("data"), f"{features} dimensions" if features else None)
    return _as_facts(
        {
            "Concept": f"{results.concept} ({listed})" if results.concept and listed else listed,
            "Data": ", ".join(str(part) for part in parts if part),
            "Rows": _glance_rows(column, metadata),
            "Eraser": _glance_eraser(column),
        }
    )


def _glance_rows(column: Column | None, metadata: Mapping[str, Any]) -> str:
    certificate = column.certificate if column else None
    if certificate is None:
        return _rows_text(metadata)
    learned, judged = (f"{n:,}" for n in (certificate.n_attack_rows, certificate.n_test_rows))
    return f"{judged} test rows, {learned} to learn from"


def _glance_eraser(column: Column | None) -> str:
    if column is None:
        return ""
    says_rank = column.rank is None or "rank" in column.name
    return column.name if says_rank else f"{column.name}, rank {column.rank}"


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
    counts = {n for n, v in values.items() if type(v) is int and (v > 9999 or "rows" in n)}
    return tuple(
        (name, f"{value:,}" if name in counts else str(value))
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
    *((metric.term, metric.meaning) for metric in METRICS.values() if metric.term),
    (
        "Rank",
        "How many dimensions are kept. Fewer erase more and keep less.",
    ),
)


def glossary(contents: Contents) -> tuple[tuple[str, str], ...]:
    """The terms that occur on the page, and what they mean."""
    tradeoff = contents.tradeoff
    axes = {tradeoff.utility, tradeoff.erasure} if tradeoff else set()
    keys = {measure.key for measure in contents.measures}
    keys |= {key for key, metric in METRICS.items() if axes & {metric.axis, metric.title}}
    keys |= {presented(key).explained_by for key in keys}
    ranked = tradeoff is not None and any(point.rank is not None for point in tradeoff.points)
    occurs = {
        "Interval": any(attack.accuracy.low is not None for attack in contents.attacks),
        "Chance": contents.chance is not None,
        "Attacker": bool(contents.attacks) or "attack" in keys,
        "TPR gap": bool(contents.gaps) or "tpr_gap" in keys,
        "Rank": ranked or any("rank" in name for name in contents.columns),
    }
    occurs |= {m.term: k in keys for k, m in METRICS.items() if m.term and m.term not in occurs}
    return tuple((term, meaning) for term, meaning in GLOSSARY if occurs.get(term, True))
