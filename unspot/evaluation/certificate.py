"""Certify an eraser on held-out rows: attackers, a two-sample test, a verdict and its words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.dataset import Dataset, Split, warn_if_grouped
from unspot.data.parts import naming_concept, parts_of
from unspot.data.rows import as_seed, fingerprint
from unspot.eraser import Eraser
from unspot.evaluation.attackers import AttackResult
from unspot.evaluation.evaluations import Metadata
from unspot.evaluation.measure import (
    SPLIT_OF,
    Attacked,
    AttackRows,
    attack_eraser,
    check_splits,
    concept_name,
    eraser_facts,
)
from unspot.io.progress import phase, steps
from unspot.io.records import as_type
from unspot.machine import pieces_in_threads, versions

if TYPE_CHECKING:
    from unspot.evaluation.two_sample import TwoSampleTest

__all__ = [
    "MARGIN",
    "AttackerReport",
    "Certificate",
    "Verdict",
    "certify",
    "phrases_of",
    "verdict_of",
]

#: Rows and permutations of the two-sample test.
_TWO_SAMPLE = {"quick": (1_000, 200), "standard": (4_000, 200), "thorough": (8_000, 1_000)}

#: Permutations of the labels under the attackers' guesses.
_AGREEMENT = 999

#: Rows times permutations times classes of a two-sample test for a small alpha, about 1 GB: of
#: more permutations, fewer rows.
_MAX_PERMUTED = 2**25

#: Below, the tests would need more than 20,000 permutations.
_SMALLEST_ALPHA = 1e-4

Verdict = Literal["LEAKS", "HOLDS", "INCONCLUSIVE"]

#: The largest difference of an advantage that another machine or version may make.
TOLERANCE = 0.01

#: The largest advantage over guessing that counts as erased, where the user states no other.
MARGIN = 0.05


def verdict_of(*, found: bool, differ: bool, upper_bound: float, margin: float) -> Verdict:
    """Decide the verdict by what attackers gained and whether the classes still differ.

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
    any attacker at all would agree with unrelated labels as well as this one does. For a number,
    ``r2``, the share of its variance that is explained, takes the place of accuracies.
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
        score = self.r2 if self.balanced_accuracy is None else self.balanced_accuracy
        assert score is not None  # ``Certificate.from_dict`` refuses that
        return score


@dataclass(frozen=True)
class Certificate:
    """Attacks on held-out rows, and what follows from them.

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
        Provenance: eraser, data, digests, seed and package versions.
    kind : str
        Of the concept: "categories" or "continuous". Of numbers, advantages
        are shares of the variance, and there are no classes.
    given : str
        Labels that attackers knew; empty if none.
    baseline : float or None
        Score of a baseline that sees only ``given``; advantages are relative to it.
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
        """Combine certificates of several concepts: that of the worst, with all of them inside."""
        worst = max(parts, key=lambda name: (_ORDER[parts[name].verdict], parts[name].upper_bound))
        # The metadata are about all of them. Parts keep what their next step is about.
        named = {
            name: replace(part, metadata={**_eraser_metadata(part), "concept": name})
            for name, part in parts.items()
        }
        about = {**parts[worst].metadata, "concept": worst}
        inside = named if len(parts) > 1 else {}
        return replace(parts[worst], metadata=about, parts=inside, notes=notes)

    def called(self, *, given: str) -> Certificate:
        """Name the column that was given, if one was."""
        parts = {name: part.called(given=given) for name, part in self.parts.items()}
        return replace(self, given=given if self.given and given else self.given, parts=parts)

    @property
    def of_number(self) -> bool:
        """Whether the concept is a number, of which attackers explain a share of the variance."""
        return self.kind == "continuous"

    @property
    def verdict(self) -> Verdict:
        """LEAKS, HOLDS or INCONCLUSIVE; for several concepts, the worst of theirs.

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
        """Name of the concept; empty if it has none."""
        return str(self.metadata.get("concept", ""))

    @property
    def subject(self) -> str:
        """One line that distinguishes the certificate from others."""
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
        """Score of guessing: 1/K, or 0 for a number; with ``given``, of that alone."""
        if self.baseline is not None:
            return self.baseline
        return 1 / self.n_classes if self.n_classes else 0.0

    @property
    def strongest(self) -> AttackerReport:
        """Attacker with the largest advantage."""
        return max(self.attackers, key=lambda report: report.advantage)

    @property
    def advantage(self) -> float:
        """Advantage of the strongest attacker."""
        return self.strongest.advantage

    @property
    def upper_bound(self) -> float:
        """Upper bound on the advantage of every attacker, with confidence 1 − alpha."""
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
        """Read what ``to_dict`` gave; the error names the first wrong field."""
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
        """Say how many concepts there are, and which one the next sentences are about."""
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
        """List the cells of one line for each of several concepts."""
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
        """Unit of advantages in per cent: points of balanced accuracy, or of the variance."""
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


def _eraser_metadata(certificate: Certificate) -> dict[str, Any]:
    """Select the metadata that a next step reads."""
    metadata = certificate.metadata
    return {name: metadata[name] for name in ("eraser", "n_features") if name in metadata}


def _has_rank(eraser: dict[str, Any]) -> bool:
    """Tell whether the method of an eraser, or the one inside of a cascade, takes a rank."""
    parts = [part for part in (eraser, eraser.get("inner")) if isinstance(part, dict)]
    known = [part["parameters"] for part in parts if isinstance(part.get("parameters"), dict)]
    return not known or any("rank" in parameters for parameters in known)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Align lines of a table: the first column to the left, the others to the right."""
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


# -- Words -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phrases:
    """Parts of sentences that depend on the kind of the concept."""

    score: str  # what attackers are judged by
    scores: tuple[str, str, str]  # heads of the columns of an attacker's scores
    test: str  # of the rows, without any attacker
    independent: str
    dependent: str
    output: str  # what an attacker says of a row
    where: str  # the rows that attackers are judged on
    margin: str
    strongest: str  # what the strongest attacker does
    gain: str  # the same, with its interval
    nothing: str  # what no attacker does
    bound: str  # the most that any attacker gains
    held: str
    possible: str
    detectable: str  # the least that would have been detected
    within: str  # when the erasure holds
    legend: str  # of the table


@dataclass(frozen=True)
class Scope:
    """What a certificate covers, in sentences: for whoever has to rely on it."""

    adversary_has: tuple[str, ...]
    adversary_may: tuple[str, ...]
    not_covered: tuple[str, ...]
    certify_again_when: tuple[str, ...]

    def parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the sentences by headings."""
        return (
            ("The adversary has", self.adversary_has),
            ("The adversary may", self.adversary_may),
            ("Not covered", self.not_covered),
            ("Certify again when", self.certify_again_when),
        )


def finding(about: Certificate) -> str:
    """Put the verdict into a sentence or two."""
    say, shown = phrases_of(about), about.attack_p_value <= about.alpha / 2
    if about.verdict == "HOLDS":
        small = (
            f"A small leak was found (p = {about.attack_p_value:.2g})."
            if shown
            else f"{say.independent} (p = {about.p_value:.2g}, where {about.alpha / 2:.4g} would "
            "be a leak)."
        )
        return f"The erasure holds: on {say.where}, {say.held} {small}"
    if about.verdict == "INCONCLUSIVE":
        return (
            f"These rows cannot decide: no leak was found, but {say.possible}, more than the "
            f"margin of {say.margin}. On {say.where}, {say.strongest}."
        )
    return f"The concept {about.concept}".rstrip() + f" leaks: {_leak(about, say, shown)}"


def _leak(about: Certificate, say: Phrases, shown: bool) -> str:
    if shown and about.advantage > 0:
        return (
            f"{say.gain} with {_confidence(about)} confidence. Luck alone does as well as the "
            f"attackers with p = {about.attack_p_value:.2g}."
        )
    nobody = f"no attacker of {len(about.attackers)}"
    if shown:
        telling = min(about.attackers, key=lambda report: report.p_value)
        return (
            f"{nobody} {say.nothing} on {say.where}, but the {say.output} of {telling.name} "
            f"follow the concept (p = {telling.p_value:.2g})."
        )
    return (
        f"{nobody} did better than luck would on {say.where} ({say.bound}), but {say.dependent} "
        f"(p = {about.p_value:.2g})."
    )


def limits(about: Certificate) -> str:
    """State what would have been detected."""
    if about.detectable is None:
        return "There are too few test rows to detect any advantage."
    least = phrases_of(about).detectable
    return f"{least} would have been detected with a probability of 80 %."


def phrases_of(about: Certificate) -> Phrases:
    """Return the phrases that fit the kind of the concept."""
    return _PHRASES[about.kind](about)


def scope_of(about: Certificate) -> Scope:
    """State what the adversary has, what is not covered and what ends the certificate."""
    names = ", ".join(report.name for report in about.attackers)
    learned = {
        "unseen": "which the eraser was not fitted on",
        "seen": "which the eraser was fitted on, so that they look cleaner than new ones",
        "cross-fit": "fold by fold, which the eraser of the fold was not fitted on",
    }[about.attack_rows]
    return Scope(
        adversary_has=(
            "The erased vectors, with every digit that is written.",
            f"Other erased rows of the same source with the concept's labels: "
            f"{about.n_attack_rows:,} of them, {learned}.",
        ),
        adversary_may=(
            f"Train these models, with the effort of the budget {about.budget!r}: {names}.",
            "Use the best of them: the bound holds for all of them at once.",
            "Look at any number of erased rows; each guess is about one row alone.",
        ),
        not_covered=(
            "Rows of another source, period or model than the test rows.",
            "Other attackers, more effort or more labelled rows. The two-sample test looks for "
            "any difference between the classes, but misses one that is too small.",
            *_left_open(about),
            "An adversary who has the eraser and rows from before erasure.",
            "Whatever else is known about a row: other columns, its text, its origin.",
            "Whether decisions of a model that is trained on the vectors are fair.",
            "A choice among several erasers by their certificates on the same test rows.",
        ),
        certify_again_when=(
            "the eraser changes, which shows in its digest;",
            "the model that makes the vectors changes, or how they are computed or stored;",
            "rows come from another source or period, or the shares of the classes shift;",
            f"an adversary may have more than {about.n_attack_rows:,} labelled rows;",
            "stronger attackers are known, or a new version of unspot has them;",
            f"a smaller advantage than {_share(about.margin)} is asked for.",
        ),
    )


def _left_open(about: Certificate) -> tuple[str, ...]:
    """List what groups, numbers, several concepts and given labels leave open."""
    groups = about.metadata.get("n_test_groups")
    sentences = [
        f"Dependence between groups: the numbers count {groups:,} of them as independent."
        if groups
        else "Rows that belong together, such as several of one person: the numbers count test "
        "rows as independent."
    ]
    if about.of_number:
        sentences.append("What the rows reveal of the number beyond its mean, such as its spread.")
    if about.given:
        sentences.append(f"What {about.given} alone reveals of the concept: it counts as known.")
    if about.parts:
        sentences.append("Functions of several concepts other than each one and the cells of all.")
    return tuple(sentences)


def _class_phrases(about: Certificate) -> Phrases:
    best, margin = about.strongest, _points(about.margin)
    within = f" within each {about.given}" if about.given else ""
    alike = f"every class{within} counted alike"
    where = f"{about.n_test_rows:,} test rows, {alike}"
    guess = f"{about.given} alone" if about.given else "guessing"
    guessing = f"{guess} ({100 * about.chance:.1f} %)"
    right = f"is right on {100 * best.score:.1f} %"
    strongest = f"{_strongest(about)}, {right}, against {guessing}"
    low, high = (f"{100 * end:+.1f}" for end in best.interval)
    most = _points(max(about.upper_bound, 0.0))
    return Phrases(
        score="balanced accuracy",
        scores=("balanced", "accuracy", "bits"),
        test="Two-sample test",
        independent="The classes do not differ detectably in distribution",
        dependent="the classes still differ in distribution",
        output="probabilities",
        where=where,
        margin=margin,
        strongest=strongest,
        gain=f"{best.name} {right} of {where}, {_points(best.advantage)} better than {guessing}, "
        f"and between {low} and {high}",
        nothing=f"beats {guessing}",
        bound=f"advantage at most {most} ({_confidence(about)})",
        held=f"{strongest}; the advantage is at most {most} ({_confidence(about)}), within the "
        f"margin of {margin}.",
        possible=f"an advantage of up to {most} ({_confidence(about)}) is possible",
        detectable=f"An advantage of {_points(about.detectable or 0.0)} or more of one of these "
        "attackers",
        within=f"the bound on the advantage is within {margin}",
        legend=f"Balanced: accuracy in %, {alike}; advantages over {guess}, which gets "
        f"{100 * about.chance:.1f} %, in points. Accuracy: in %, where the largest class is "
        f"{100 * about.majority:.1f} %.",
    )


def _number_phrases(about: Certificate) -> Phrases:
    best, margin = about.strongest, _share(about.margin)
    where = f"{about.n_test_rows:,} test rows"
    known = f" beyond the {_share(max(about.chance, 0.0))} that {about.given} explains"
    variance = f"of the variance of {about.concept or 'the number'}{known if about.given else ''}"
    strongest = f"{_strongest(about)}, explains {_share(max(best.advantage, 0.0))}"
    low, high = (f"{100 * end:.1f}" for end in best.interval)
    most = f"{_share(max(about.upper_bound, 0.0))} {variance} ({_confidence(about)})"
    above = f", above what {about.given} alone explains" if about.given else ""
    return Phrases(
        score="share of the variance",
        scores=("R²", "", ""),
        test="Test of independence",
        independent="Rows and number do not depend on each other detectably",
        dependent="rows and number still depend on each other",
        output="predictions",
        where=where,
        margin=margin,
        strongest=strongest,
        gain=f"{best.name} explains {_share(best.advantage)} {variance} on {where}, and between "
        f"{low} and {high} %",
        nothing=f"explains any {variance}",
        bound=f"at most {most}",
        held=f"attackers explain at most {most}, within the margin of {margin}; {strongest}.",
        possible=f"an attacker may explain up to {most}",
        detectable=f"An attacker that explains {_share(about.detectable or 0.0)} or more",
        within=f"the bound is within {margin} of the variance",
        legend="R²: the share of the variance that predictions explain, in %; advantages in % of "
        f"the variance{above}. Zero or less is nothing. The upper ends of intervals hold for "
        "predictions in the best unit too.",
    )


def _strongest(about: Certificate) -> str:
    return f"the strongest of {len(about.attackers)} attackers, {about.strongest.name}"


def _confidence(about: Certificate) -> str:
    return f"{100 * (1 - about.alpha):.4g} %"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


#: Phrases by the kind of the concept.
_PHRASES = {"categories": _class_phrases, "continuous": _number_phrases}


# -- Certifying ------------------------------------------------------------------------------------


@pieces_in_threads()
def certify(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None = None,
    budget: str = "standard",
    alpha: float = 0.05,
    margin: float = MARGIN,
    attack_rows: AttackRows = "unseen",
    given: str | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> Certificate:
    """Attack an eraser on held-out rows, and say what could be recovered.

    For a number, that is a share of its variance. Each of several concepts is attacked, and their
    combination: the verdict is that of the worst, and each has its part of ``alpha``.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, callable or None
        Erases rows by ``transform`` if it has one, else by a call. None leaves the rows as they
        are: what there was to erase.
    data : Dataset
        Fit the eraser on ``data.train`` before. Verdict and numbers are from ``data.test``.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS``; by default those of the budget.
    budget : "quick", "standard" or "thorough"
        Which attackers, and how hard they try.
    alpha : float
        Probability of a false alarm, for everything in the certificate together; at least 0.0001.
    margin : float
        The largest advantage over guessing that counts as erased; for a number, the largest share
        of its variance. The verdict is HOLDS if no attacker can have more, INCONCLUSIVE if these
        rows cannot tell.
    attack_rows : "unseen", "seen" or "cross-fit"
        Attackers learn from ``data.validation``, which the eraser was not fitted on; or from
        ``data.train``, which it was: more rows as a rule, but they look cleaner than new ones.
        "cross-fit" is for few rows, and needs an estimator: of five folds of all rows, two fit it
        anew, attackers learn from two others and are judged on the fifth, five times over, so that
        every row is judged on once. It is about the recipe rather than one fitted eraser, and its
        p-values are approximate: a row to judge on is a row of the fit in other folds.
    given : "y", optional
        Attackers know the task of every row, and only what rows reveal beyond it counts: whether
        rows and concept are independent *given* the task, as equalised odds ask.
    random_state : int, Generator or None
        Decides everything that is random.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    Certificate

    Notes
    -----
    About 20 s of one core for 22,000 rows of 100 features at ``budget="standard"``.

    The attackers' p-values permute the labels of the test rows: predictions stay, so that any
    number of dependent attackers is corrected for exactly, and unbalanced classes need no care.
    Where half of ``alpha`` is out of reach of the usual number of permutations, and none of those
    is as extreme as the labels, there are more of them: up to a minute, and in the two-sample test
    fewer rows.
    Intervals are of the balanced accuracy, Bonferroni-corrected, given the class counts of the test
    rows; see ``unspot.evaluation.inference.balanced_interval``.
    All this takes rows to be independent of each other. If they come in groups, such as texts of
    one author, give the groups to ``Dataset.from_arrays``: labels are then permuted by group,
    intervals go by the variation from group to group, and only groups must be independent.

    Examples
    --------
    >>> from unspot import Dataset, Eraser, certify
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> certify(None, data, budget="quick").verdict
    'LEAKS'
    >>> rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    >>> certify(Eraser.projection(rest), data, budget="quick", margin=0.1).verdict
    'HOLDS'
    """
    _check_alpha(alpha)
    check_choice("budget", budget, tuple(_TWO_SAMPLE))
    check_share("margin", margin)
    check_choice("attack_rows", attack_rows, (*SPLIT_OF, "cross-fit"))
    if given is not None:
        check_choice("given", given, ("y",))
    how: dict[str, Any] = {"attackers": attackers, "budget": budget, "verbose": verbose}
    how |= {"attack_rows": attack_rows, "given": given is not None}
    parts = parts_of(data) if isinstance(data, Dataset) else [None]
    made: dict[str, Certificate] = {}
    names = steps(parts, "Concept", name=lambda part: part.name, verbose=verbose)
    for part in names if len(parts) > 1 else parts:
        rows = data if part is None else part.data
        with naming_concept("" if part is None else part.name):
            certificate = _certified(eraser, rows, alpha / len(parts), as_seed(random_state), how)
        metadata = _metadata(eraser, rows, random_state)
        made["" if part is None else part.name] = replace(
            certificate, margin=margin, given=given or "", metadata=metadata
        )
    if len(made) == 1 and "" in made:
        return made[""]
    return Certificate.of_several(made, tuple(part.note for part in parts if part and part.note))


def _certified(
    eraser: Any, data: Dataset, alpha: float, seed: int, how: dict[str, Any]
) -> Certificate:
    """Certify one concept."""
    attack_rows: AttackRows = how["attack_rows"]
    if attack_rows != "cross-fit":
        check_splits(eraser, data, attack_rows)
        splits = getattr(data, SPLIT_OF[attack_rows]), data.test
        warn_if_grouped(*((split, split.target.strata) for split in splits))
    attacked = attack_eraser(eraser, data, random_state=seed, **how)
    with phase("Comparing the classes", verbose=how["verbose"]):
        two_sample = _two_sample(attacked, budget=how["budget"], alpha=alpha, seed=seed)
        p_values = _agreement(attacked, alpha, seed)
    results, scores = attacked.results, attacked.scores
    return Certificate(
        attackers=tuple(
            _report(attacked, result, float(p_value), alpha)
            for result, p_value in zip(results, p_values, strict=True)
        ),
        attack_p_value=float(p_values.min()),
        p_value=two_sample.p_value,
        detectable=scores.detectable(results, alpha / (2 * len(results))),
        alpha=alpha,
        n_attack_rows=results[0].n_rows,
        n_test_rows=len(scores.concept),
        attack_rows=attack_rows,
        budget=how["budget"],
        **scores.facts(),
        baseline=scores.chance if how["given"] else None,
        notes=_left_out(attacked),
    )


def _left_out(attacked: Attacked) -> tuple[str, ...]:
    """Say how many rows cannot be compared with others of the same given label."""
    n = 0 if attacked.scores.given is None else attacked.scores.n_left_out
    return (
        (f"{n:,} test rows are alone with their class and given label, and left out.",) if n else ()
    )


def _report(
    attacked: Attacked, result: AttackResult, p_value: float, alpha: float
) -> AttackerReport:
    low, high = attacked.interval(result, alpha)
    chance = attacked.scores.chance
    return AttackerReport(
        name=result.name,
        accuracy=result.accuracy,
        balanced_accuracy=result.balanced_accuracy,
        advantage=result.advantage,
        interval=(low - chance, high - chance),
        p_value=p_value,
        log_loss_bits=result.log_loss_bits,
        r2=result.r2,
    )


def _metadata(eraser: Any, data: Dataset, random_state: Any) -> dict[str, Any]:
    """Describe eraser, data and settings as an evaluation does, so that a report reads both."""
    groups = data.test.group_codes
    seed = int(random_state) if isinstance(random_state, (int, np.integer)) else None
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "concept": concept_name(eraser, data),
        "n_features": data.n_features,
        "n_test_groups": None if groups is None else len(np.unique(groups)),
        "random_state": seed,
        "versions": versions(),
        "digests": _digests(eraser, data),
    }


def _digests(eraser: Any, data: Dataset) -> dict[str, str]:
    """Compute digests of eraser and rows, for comparison with another run."""
    frozen = getattr(eraser, "eraser_", eraser)
    digests = {"eraser": frozen.digest} if isinstance(frozen, Eraser) else {}
    for name, split in data.splits.items():
        digests[f"{name} rows"] = fingerprint(np.asarray(split.X), split.concept.numbers)
    return digests


def _check_alpha(alpha: Any) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    if alpha < _SMALLEST_ALPHA:
        raise ValueError(
            f"Got alpha={alpha!r}, but expected at least {_SMALLEST_ALPHA:g}: a smaller one takes "
            "more permutations than there is time for. Use a larger alpha."
        )


def _agreement(attacked: Attacked, alpha: float, seed: int) -> NDArray[np.float64]:
    """Compute the attackers' p-values, with more permutations where few leave the verdict open.

    A first p-value above the smallest possible one stands: it is above half of alpha too. So the
    second look can only take back what the first one found, and the level holds.
    """
    many = max(_AGREEMENT, math.ceil(4 / alpha))  # one may be as extreme as the labels
    p_values = attacked.scores.p_values(attacked.results, seed, _AGREEMENT)
    if many == _AGREEMENT or p_values.min() > 1 / (1 + _AGREEMENT):
        return p_values
    return attacked.scores.p_values(attacked.results, seed, many)


def _two_sample(attacked: Attacked, *, budget: str, alpha: float, seed: int) -> TwoSampleTest:
    """Compare the distributions, with more permutations where few leave the verdict open."""
    from unspot.evaluation.two_sample import compare_concept, n_features_of

    rows: Split = attacked.sample
    max_rows, usual = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = n_features_of(rows.target, attacked.sample_given)
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    # One extreme permutation is too many here: each takes long.
    many = max(usual, math.ceil(2 / alpha))
    compare = partial(
        compare_concept,
        rows.X,
        rows.target,
        groups=rows.group_codes,
        strata=attacked.sample_given,
        random_state=seed,
    )
    test = compare(max_rows=max_rows, n_permutations=usual)
    if many == usual or test.p_value > 1 / (1 + usual):
        return test
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return compare(max_rows=fewer_rows, n_permutations=many)
