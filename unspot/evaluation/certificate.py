"""A held-out certificate as plain data: the verdict, its numbers, a sentence and a table."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from unspot.evaluation.results import Metadata
from unspot.evaluation.wording import Scope, finding, limits, phrases_of, scope_of
from unspot.io.records import as_type

__all__ = ["MARGIN", "AttackerReport", "Certificate", "Verdict", "verdict_of"]

Verdict = Literal["LEAKS", "HOLDS", "INCONCLUSIVE"]

#: The largest difference of an advantage that another machine or version may make.
TOLERANCE = 0.01

#: The largest advantage over guessing that counts as erased, where the user states no other.
MARGIN = 0.05


def verdict_of(*, found: bool, differ: bool, upper_bound: float, margin: float) -> Verdict:
    """One of three verdicts, by what attackers gained and whether the classes still differ.

    Parameters
    ----------
    found : bool
        Whether attackers did better than luck.
    differ : bool
        Whether the classes differ in distribution. No bound says how much a better attacker could
        make of that, so the verdict is never HOLDS then.
    upper_bound : float
        No attacker's advantage is above this, with confidence.
    margin : float
        The largest advantage that counts as erased.

    Examples
    --------
    >>> verdict_of(found=False, differ=False, upper_bound=0.28, margin=0.05)
    'INCONCLUSIVE'
    """
    if upper_bound <= margin and not differ:
        return "HOLDS"
    return "LEAKS" if found or differ else "INCONCLUSIVE"


@dataclass(frozen=True)
class AttackerReport:
    """One attacker on the test rows.

    ``advantage`` is balanced accuracy above guessing, so above 1/K, and ``interval``, which is of
    the advantage, holds for all attackers at once. ``p_value`` is corrected too: the chance that
    any attacker at all would agree with unrelated labels as well as this one does. Of a number
    there is ``r2``, the share of its variance that is explained, in place of accuracies.
    """

    name: str
    accuracy: float | None
    balanced_accuracy: float | None
    advantage: float
    interval: tuple[float, float]
    p_value: float
    log_loss_bits: float | None
    r2: float | None = None

    @property
    def score(self) -> float:
        """Balanced accuracy, or R²: chance and advantage together."""
        found = self.r2 if self.balanced_accuracy is None else self.balanced_accuracy
        assert found is not None  # ``Certificate.from_dict`` refuses that
        return found


@dataclass(frozen=True)
class Certificate:
    """What was tried on held-out rows, and what came of it.

    Attributes
    ----------
    attackers : tuple of AttackerReport
        In the order they were tried.
    attack_p_value : float
        Of the attackers together: the smallest of their corrected p-values.
    p_value : float
        Of the two-sample test on the erased test rows.
    detectable : float or None
        The smallest advantage that this many test rows would have shown with a probability of
        80 %; None if no advantage would.
    majority : float
        Share of the most frequent class in the test rows.
    attack_rows : "unseen", "cross-fit" or "seen"
        Whether the attackers learned from rows that the eraser was fitted on.
    margin : float
        The largest advantage that counts as erased.
    rows_of_class : mapping of str to int
        How many test rows each class has.
    metadata : mapping
        Which eraser, which data, which versions: who else may find the same.
    kind : str
        Of the concept: "categories" or "continuous". Of numbers, advantages
        are shares of the variance, and there are no classes.
    given : str
        What attackers knew beside the rows; empty if nothing.
    baseline : float or None
        The score of who knows only that: advantages are above it.
    parts : mapping of str to Certificate
        The certificates of all of several concepts, each with its part of the false alarms.
    notes : tuple of str
        What was left out, in sentences.
    """

    attackers: tuple[AttackerReport, ...]
    attack_p_value: float
    p_value: float
    detectable: float | None
    majority: float
    alpha: float
    n_classes: int
    n_attack_rows: int
    n_test_rows: int
    attack_rows: Literal["unseen", "seen", "cross-fit"]
    budget: str
    margin: float = MARGIN
    rows_of_class: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    kind: str = "categories"
    given: str = ""
    baseline: float | None = None
    parts: Mapping[str, Certificate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of_several(cls, parts: Mapping[str, Certificate], notes: tuple[str, ...]) -> Certificate:
        """One certificate of several concepts: that of the worst, with all of them inside."""
        worst = max(parts, key=lambda name: (_ORDER[parts[name].verdict], parts[name].upper_bound))
        # The metadata are about all of them. Parts keep what their next step is about.
        named = {
            name: replace(part, metadata={**_of_eraser(part), "concept": name})
            for name, part in parts.items()
        }
        about = {**parts[worst].metadata, "concept": worst}
        inside = named if len(parts) > 1 else {}
        return replace(parts[worst], metadata=about, parts=inside, notes=notes)

    def called(self, *, given: str) -> Certificate:
        """The same with the name of the column that was given, if one was."""
        parts = {name: part.called(given=given) for name, part in self.parts.items()}
        return replace(self, given=given if self.given and given else self.given, parts=parts)

    @property
    def of_number(self) -> bool:
        """Whether the concept is a number, of which attackers explain a share of the variance."""
        return self.kind == "continuous"

    @property
    def verdict(self) -> Verdict:
        """LEAKS, HOLDS or INCONCLUSIVE; of several concepts, the worst of theirs.

        If rows and concept are independent, LEAKS has a probability of at most ``alpha``: half of
        it for the attackers, half for the two-sample test. If one of the attackers has an advantage
        above the margin, HOLDS has a probability of at most ``alpha``.
        """
        if self.parts:
            return max((part.verdict for part in self.parts.values()), key=_ORDER.__getitem__)
        return verdict_of(
            found=self.attack_p_value <= self.alpha / 2,
            differ=self.p_value <= self.alpha / 2,
            upper_bound=self.upper_bound,
            margin=self.margin,
        )

    @property
    def concept(self) -> str:
        """What was erased, by its name; empty if it has none."""
        return str(self.metadata.get("concept", ""))

    @property
    def subject(self) -> str:
        """What the certificate is about, in a line that tells it from others."""
        classes = list(self.rows_of_class)
        listed = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
        data = self.metadata.get("data")
        parts = (
            f"{self.concept or 'the concept'}{f' ({listed})' if listed else ''}",
            data and f"in {data}",
            f"on {self.n_test_rows:,} test rows",
        )
        return " ".join(part for part in parts if part)

    @property
    def leaks(self) -> bool:
        """Whether the verdict is LEAKS."""
        return self.verdict == "LEAKS"

    @property
    def chance(self) -> float:
        """The balanced accuracy of guessing; 0 of numbers; with ``given``, what that tells."""
        if self.baseline is not None:
            return self.baseline
        return 0.0 if self.of_number else 1 / self.n_classes

    @property
    def strongest(self) -> AttackerReport:
        """The attacker that was right most often, every class counted alike, or explains most."""
        return max(self.attackers, key=lambda report: report.advantage)

    @property
    def advantage(self) -> float:
        """The strongest attacker's."""
        return self.strongest.advantage

    @property
    def upper_bound(self) -> float:
        """No attacker's advantage is above this, with confidence 1 − alpha."""
        return max(report.interval[1] for report in self.attackers)

    def to_dict(self) -> dict[str, Any]:
        """Plain data as in the JSON, with the strongest attacker and its bounds spelt out."""
        content = {
            "verdict": self.verdict,
            "leaks": self.leaks,
            **asdict(self),
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            "sentence": self.sentence,
            "next_step": self.next_step,
            "chance": self.chance,
            "strongest": self.strongest.name,
            "advantage": self.advantage,
            "upper_bound": self.upper_bound,
        }
        plain: dict[str, Any] = json.loads(json.dumps(content))  # tuples become lists
        return plain

    def to_json(self) -> str:
        """JSON text; ``from_dict`` and ``unspot certify --check`` read it."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, content: Any) -> Certificate:
        """The certificate that ``to_dict`` gave; the error names the first wrong field."""
        result: Certificate = as_type(cls, content)
        for one in (result, *result.parts.values()):
            as_type(Metadata, one.metadata, "metadata")
            if not one.attackers or (one.n_classes < 1 and not one.of_number):
                raise ValueError("attackers or classes are missing")
            for report in one.attackers:
                if report.r2 is None if one.of_number else report.balanced_accuracy is None:
                    raise ValueError(f"the score of the attacker {report.name} is missing")
        return result

    def differences_from(self, earlier: Certificate) -> tuple[str, ...]:
        """Compare with an earlier certificate: a sentence for each thing that differs.

        Eraser, rows, settings, attackers and verdict must be the same. Advantages and their bounds
        may differ by ``TOLERANCE``, as they do on another machine.
        """
        now, then = _checked_facts(self), _checked_facts(earlier)
        sentences = [
            f"{name} is {now.get(name)}, but was {then.get(name)}."
            for name in dict.fromkeys((*then, *now))
            if now.get(name) != then.get(name)
        ]
        if sentences:
            return tuple(sentences)
        gaps = {
            name: max(abs(a - b) for a, b in zip(value, _bounds(earlier)[name], strict=True))
            for name, value in _bounds(self).items()
        }
        return tuple(
            f"the advantage of {name} or its bounds differ by {100 * gap:.1f} points, where "
            f"{100 * TOLERANCE:g} may come from another machine or version."
            for name, gap in gaps.items()
            if gap > TOLERANCE
        )

    @property
    def scope(self) -> Scope:
        """What the certificate covers, what it does not, and when to certify again."""
        return scope_of(self)

    @property
    def sentence(self) -> str:
        """The verdict in a few sentences that need no statistics to be read."""
        parts = (self._overview(), finding(self), limits(self), *self.notes)
        return " ".join(filter(None, parts))

    def _overview(self) -> str:
        """Of several concepts: how many, and which one the sentences after it are about."""
        if not self.parts:
            return ""
        verdicts = ", ".join(f"{name} {part.verdict}" for name, part in self.parts.items())
        return f"Of {len(self.parts)} concepts and combinations ({verdicts}), about {self.concept}:"

    @property
    def next_step(self) -> str:
        """What to do about the verdict, in a sentence."""
        if self.verdict == "LEAKS":
            eraser, of = self.metadata.get("eraser", {}), self.metadata.get("n_features")
            if not _has_rank(eraser):
                return (
                    f"{eraser.get('method')} has no rank to lower: fit a method that has one, such "
                    "as cascade, or transport:leopard where rows are many."
                )
            rank = eraser.get("rank")
            now = "" if rank is None or of is None else f" (it is {rank} of {of})"
            return (
                f"Lower the rank{now}, or fit on more labelled rows; unspot path finds the largest "
                "rank that holds."
            )
        if self.verdict == "HOLDS":
            return "Certify again when the rows, the model that makes them or the eraser changes."
        return (
            f"Certify on about {self.rows_needed:,} test rows, or state a margin of "
            f"{math.ceil(100 * self.upper_bound) / 100:.2f} or more."
        )

    @property
    def rows_needed(self) -> int:
        """About how many test rows like these would decide at this margin."""
        widest = max(report.interval[1] - report.advantage for report in self.attackers)
        # Up to half of the margin may be a leak: with a larger one, more rows show LEAKS.
        leak = min(max(self.advantage, 0.0), self.margin / 2)
        room = self.margin - leak
        if self.of_number:  # the interval is that of a correlation, of which this is the square
            widest = math.sqrt(max(self.upper_bound, 0.0)) - math.sqrt(leak)
            room = math.sqrt(self.margin) - math.sqrt(leak)
        # No number of rows shows that there is nothing at all.
        rows = self.n_test_rows * (min(widest, 1.0) / max(room, 1e-4)) ** 2
        return int(float(f"{rows:.2g}"))

    def __str__(self) -> str:
        """The verdict, a line for each attacker from the strongest down, and what it rests on."""
        interval = f"{100 * (1 - self.alpha):.4g} % interval"
        score, *others = phrases_of(self).scores
        header = ("attacker", score, "advantage", interval, "p", *others)
        ranked = sorted(self.attackers, key=lambda report: -report.advantage)
        table = _aligned([header, *(_cells(report) for report in ranked)])
        head = [f"Certificate: {self.verdict}", f"About: {self.subject}.", self.sentence]
        head.append(f"Next: {self.next_step}")
        several = [*_aligned([_OF_PARTS, *self._lines()]), ""] if self.parts else []
        return "\n".join([*head, "", *several, *table, "", self._footer()])

    def _lines(self) -> list[tuple[str, ...]]:
        """Of several concepts: one line for each."""
        return [
            (
                name,
                part.kind,
                part.verdict,
                part.strongest.name,
                f"{100 * part.advantage:+.1f}",
                f"{100 * part.upper_bound:+.1f}",
                part.unit,
            )
            for name, part in self.parts.items()
        ]

    @property
    def unit(self) -> str:
        """Of advantages in per cent: points of balanced accuracy, or of the variance."""
        return "% of variance" if self.of_number else "points"

    def _footer(self) -> str:
        say, n_groups = phrases_of(self), self.metadata.get("n_test_groups")
        units = f"{n_groups:,} groups of test rows" if n_groups else "test rows"
        return (
            f"Attackers ({self.budget}) learned from {self.n_attack_rows:,} rows that "
            f"{_ERASER[self.attack_rows]}, and are judged on {self.n_test_rows:,} others.\n"
            f"{say.test} p = {self.p_value:.2g}; attackers together p = {self.attack_p_value:.2g}; "
            f"either at {self.alpha / 2:.4g} or below is a leak, so that a false alarm has a "
            f"probability of at most {self.alpha:.4g}, if the {units} are independent of each "
            f"other. Where {say.within} and the {say.test.lower()} finds no leak, the erasure "
            f"holds.\n{say.legend}"
        )


#: What the eraser has to do with the rows that attackers learned from.
_ERASER = {
    "unseen": "the eraser was not fitted on",
    "seen": "the eraser was fitted on",
    "cross-fit": "the eraser of each fold was not fitted on",
}


def _checked_facts(certificate: Certificate) -> dict[str, Any]:
    """List what a second run on the same files has exactly, by the name of each fact."""
    facts = {
        f"the digest of the {name}": value
        for name, value in certificate.metadata.get("digests", {}).items()
    }
    facts |= {name: getattr(certificate, name) for name in _SETTINGS}
    facts["the seed"] = certificate.metadata.get("random_state")
    facts["the list of attackers"] = ", ".join(sorted(r.name for r in certificate.attackers))
    facts["the verdict"] = certificate.verdict
    for name, part in certificate.parts.items():
        facts |= {f"{name}: {fact}": value for fact, value in _checked_facts(part).items()}
    return facts


def _bounds(certificate: Certificate, of: str = "") -> dict[str, tuple[float, ...]]:
    """Advantage and interval of each attacker, for every concept."""
    bounds: dict[str, tuple[float, ...]]
    bounds = {of + r.name: (r.advantage, *r.interval) for r in certificate.attackers}
    for name, part in certificate.parts.items():
        bounds |= _bounds(part, f"{name}: ")
    return bounds


#: Settings and counts that must be the same in a second run.
_SETTINGS = (
    "alpha", "margin", "budget", "attack_rows", "given", "kind", "n_classes", "n_attack_rows",
    "n_test_rows", "rows_of_class",
)  # fmt: skip

#: From good to bad.
_ORDER: dict[str, int] = {"HOLDS": 0, "INCONCLUSIVE": 1, "LEAKS": 2}

#: The head of the lines of several concepts.
_OF_PARTS = ("concept", "kind", "verdict", "strongest", "advantage", "at most", "in")


def _of_eraser(certificate: Certificate) -> dict[str, Any]:
    """The metadata that a next step reads."""
    metadata = certificate.metadata
    return {name: metadata[name] for name in ("eraser", "n_features") if name in metadata}


def _has_rank(eraser: dict[str, Any]) -> bool:
    """Whether the method of an eraser, or the one inside of a cascade, takes a rank."""
    parts = [part for part in (eraser, eraser.get("inner")) if isinstance(part, dict)]
    known = [part["parameters"] for part in parts if isinstance(part.get("parameters"), dict)]
    return not known or any("rank" in parameters for parameters in known)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([name.ljust(first), *map(str.rjust, numbers, others)]).rstrip()
        for name, *numbers in rows
    ]


def _cells(report: AttackerReport) -> tuple[str, ...]:
    low, high = report.interval
    return (
        report.name,
        f"{100 * report.score:.1f}",
        f"{100 * report.advantage:+.1f}",
        f"{100 * low:+.1f} … {100 * high:+.1f}",
        f"{report.p_value:.3f}" if report.p_value >= 0.001 else f"{report.p_value:.1g}",
        "" if report.accuracy is None else f"{100 * report.accuracy:.1f}",
        "" if report.log_loss_bits is None else f"{report.log_loss_bits:.3f}",
    )
