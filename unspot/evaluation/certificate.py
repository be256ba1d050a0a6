"""Certify an eraser on held-out rows: attackers, a two-sample test, a verdict and its words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.dataset import Dataset, Split, naming_concept, parts_of, warn_if_grouped
from unspot.data.rows import as_seed, fingerprint
from unspot.eraser import Eraser
from unspot.evaluation.inference import AttackResult
from unspot.evaluation.measure import (
    SPLIT_OF,
    Attacked,
    AttackRows,
    attack_eraser,
    check_dataset,
    check_splits,
    facts_of,
)
from unspot.io.files import as_type
from unspot.io.progress import phase, steps
from unspot.machine import pieces_in_threads
from unspot.tables import plain

if TYPE_CHECKING:
    from unspot.evaluation.two_sample import TwoSampleTest

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

    @property
    def cells(self) -> tuple[str, ...]:
        """Line of a table: name, score, advantage, interval, p-value, accuracy, bits."""
        score, advantage = f"{100 * self.score:.1f}", f"{100 * self.advantage:+.1f}"
        interval = " … ".join(f"{100 * end:+.1f}" for end in self.interval)
        p_value = f"{self.p_value:.3f}" if self.p_value >= 0.001 else f"{self.p_value:.1g}"
        accuracy = "" if self.accuracy is None else f"{100 * self.accuracy:.1f}"
        bits = "" if self.log_loss_bits is None else f"{self.log_loss_bits:.3f}"
        return self.name, score, advantage, interval, p_value, accuracy, bits


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
        about = {**parts[worst].metadata, "concept": worst}
        # The metadata are about all of them. Parts keep what their next step is about.
        shared = {key: value for key, value in about.items() if key in ("eraser", "n_features")}
        named = {
            name: replace(part, metadata={**shared, "concept": name})
            for name, part in parts.items()
        }
        notes = (*parts[worst].notes, *notes)
        inside = named if len(parts) > 1 else {}
        return replace(parts[worst], metadata=about, parts=inside, notes=notes)

    def called(self, *, given: str) -> Certificate:
        """Name the column that was given, if one was."""
        parts = {name: part.called(given=given) for name, part in self.parts.items()}
        return replace(self, given=given if self.given and given else self.given, parts=parts)

    @property
    def of_number(self) -> bool:
        """Tell whether the concept is a number, whose variance attackers explain in part."""
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
        classes, data = list(self.rows_of_class), self.metadata.get("data")
        listed = ", ".join(classes[:6]) + (", …" if len(classes) > 6 else "")
        about = f"{self.concept or 'the concept'}{f' ({listed})' if listed else ''}"
        return f"{about}{f' in {data}' if data else ''} on {self.n_test_rows:,} test rows"

    @property
    def leaks(self) -> bool:
        """Tell whether the verdict is LEAKS."""
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
        derived = ("sentence", "next_step", "chance", "advantage", "upper_bound")
        content = {
            **{"verdict": self.verdict, "leaks": self.leaks, **asdict(self)},
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            **{name: getattr(self, name) for name in derived},
            "strongest": self.strongest.name,
        }
        plain_data: dict[str, Any] = json.loads(json.dumps(content))  # tuples become lists
        return plain_data

    def to_json(self) -> str:
        """JSON text; ``from_dict`` and ``unspot certify --check`` read it."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, content: Any) -> Certificate:
        """Read what ``to_dict`` gave; the error names the first wrong field."""
        result: Certificate = as_type(cls, content)
        for one in (result, *result.parts.values()):
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
        bounds = _bounds(earlier)
        gaps = {name: np.abs(ends - bounds[name]).max() for name, ends in _bounds(self).items()}
        return tuple(
            f"the advantage of {name} or its bounds differ by {100 * gap:.1f} points, where "
            f"{100 * TOLERANCE:g} may come from another machine or version."
            for name, gap in gaps.items()
            if gap > TOLERANCE
        )

    @property
    def scope(self) -> dict[str, tuple[str, ...]]:
        """State what the certificate covers, what not, and when to certify again, by heading."""
        cleaner = ", so that they look cleaner than new ones" if self.attack_rows == "seen" else ""
        return {
            "The adversary has": (
                "The erased vectors, with every digit that is written.",
                f"Other erased rows of the same source with the concept's labels: "
                f"{self.n_attack_rows:,} of them, which {_ERASER[self.attack_rows]}{cleaner}.",
            ),
            "The adversary may": (
                f"Train these models, with the effort of the budget {self.budget!r}: "
                f"{', '.join(report.name for report in self.attackers)}.",
                "Use the best of them: the bound holds for all of them at once.",
                "Look at any number of erased rows; each guess is about one row alone.",
            ),
            "Not covered": (
                "Rows of another source, period or model than the test rows.",
                "Other attackers, more effort or more labelled rows. The two-sample test looks for "
                "any difference between the classes, but misses one that is too small.",
                *_left_open(self),
                "An adversary who has the eraser and rows from before erasure.",
                "Whatever else is known about a row: other columns, its text, its origin.",
                "Whether decisions of a model that is trained on the vectors are fair.",
                "A choice among several erasers by their certificates on the same test rows.",
            ),
            "Certify again when": (
                "the eraser changes, which shows in its digest;",
                "the model that makes the vectors changes, or how they are computed or stored;",
                "rows come from another source or period, or the shares of the classes shift;",
                f"an adversary may have more than {self.n_attack_rows:,} labelled rows;",
                "stronger attackers are known, or a new version of unspot has them;",
                f"a smaller advantage than {100 * self.margin:.1f} % is asked for.",
            ),
        }

    @property
    def sentence(self) -> str:
        """The verdict in a few sentences that need no statistics to be read."""
        verdicts = ", ".join(f"{name} {part.verdict}" for name, part in self.parts.items())
        several = f"Of {len(self.parts)} concepts and combinations ({verdicts}), about "
        overview = f"{several}{self.concept}:" if self.parts else ""
        power = "There are too few test rows to detect any advantage."
        if self.detectable is not None:
            least = phrases_of(self)["detectable"]
            power = f"{least} would have been detected with a probability of 80 %."
        return " ".join(filter(None, (overview, finding(self), power, *self.notes)))

    @property
    def next_step(self) -> str:
        """Recommend a next step, in a sentence."""
        if self.verdict == "HOLDS":
            return "Certify again when the rows, the model that makes them or the eraser changes."
        if self.verdict == "INCONCLUSIVE":
            return (
                f"Certify on about {self.rows_needed:,} test rows, or state a margin of "
                f"{math.ceil(100 * self.upper_bound) / 100:.2f} or more."
            )
        eraser, of = self.metadata.get("eraser", {}), self.metadata.get("n_features")
        if not _has_rank(eraser):
            return (
                f"{eraser.get('method')} has no rank to lower: fit a method that has one, such as "
                "cascade, or transport:leopard where rows are many."
            )
        rank = eraser.get("rank")
        now = "" if rank is None or of is None else f" (it is {rank} of {of})"
        return (
            f"Lower the rank{now}, or fit on more labelled rows; unspot path finds the largest "
            "rank that holds."
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
        say = phrases_of(self)
        score, *others = ("R²", "", "") if self.of_number else ("balanced", "accuracy", "bits")
        header = ("attacker", score, "advantage", f"{say['confidence']} interval", "p", *others)
        ranked = sorted(self.attackers, key=lambda report: -report.advantage)
        concepts = [part._line(name) for name, part in self.parts.items()]
        head = [f"Certificate: {self.verdict}", f"About: {self.subject}.", self.sentence]
        tables = [
            *([plain([_OF_PARTS, *concepts], right=True), ""] if concepts else []),
            plain([header, *(report.cells for report in ranked)], right=True),
        ]
        return "\n".join([*head, f"Next: {self.next_step}", "", *tables, "", self._footer(say)])

    def _line(self, name: str) -> tuple[str, ...]:
        """List the cells of a line for one of several concepts."""
        ends = (f"{100 * end:+.1f}" for end in (self.advantage, self.upper_bound))
        return name, self.kind, self.verdict, self.strongest.name, *ends, self.unit

    @property
    def unit(self) -> str:
        """Unit of advantages in per cent: points of balanced accuracy, or of the variance."""
        return "% of variance" if self.of_number else "points"

    def _footer(self, say: Mapping[str, str]) -> str:
        n_groups = self.metadata.get("n_test_groups")
        units = f"{n_groups:,} groups of test rows" if n_groups else "test rows"
        return (
            f"Attackers ({self.budget}) learned from {self.n_attack_rows:,} rows that "
            f"{_ERASER[self.attack_rows]}, and are judged on {self.n_test_rows:,} others.\n"
            f"{say['test']} p = {self.p_value:.2g}; attackers together p = "
            f"{self.attack_p_value:.2g}; either at {self.alpha / 2:.4g} or below is a leak, so "
            f"that a false alarm has a probability of at most {self.alpha:.4g}, if the {units} are "
            f"independent of each other. Where {say['within_margin']} and the "
            f"{say['test'].lower()} finds no leak, the erasure holds.\n{say['legend']}"
        )


#: What the eraser has to do with the rows that attackers learned from.
_ERASER = {
    "unseen": "the eraser was not fitted on",
    "seen": "the eraser was fitted on",
    "cross-fit": "the eraser of each fold was not fitted on",
}


def _checked_facts(certificate: Certificate) -> dict[str, Any]:
    """List what a second run on the same files has exactly, by the name of each fact."""
    metadata = certificate.metadata
    digests = metadata.get("digests", {})
    facts = {f"the digest of the {name}": value for name, value in digests.items()}
    facts |= {name: getattr(certificate, name) for name in _SETTINGS}
    facts["the seed"] = metadata.get("random_state")
    facts["the list of attackers"] = ", ".join(sorted(r.name for r in certificate.attackers))
    facts["the verdict"] = certificate.verdict
    for name, part in certificate.parts.items():
        facts |= {f"{name}: {fact}": value for fact, value in _checked_facts(part).items()}
    return facts


def _bounds(certificate: Certificate) -> dict[str, NDArray[np.float64]]:
    """Advantage and interval of each attacker, for every concept."""
    return {
        f"{concept}: {report.name}".removeprefix(": "): np.array(
            [report.advantage, *report.interval]
        )
        for concept, part in {"": certificate, **certificate.parts}.items()
        for report in part.attackers
    }


#: Settings and counts that must be the same in a second run.
_SETTINGS = (
    "alpha", "margin", "budget", "attack_rows", "given", "kind", "n_classes", "n_attack_rows",
    "n_test_rows", "rows_of_class",
)  # fmt: skip

#: From good to bad.
_ORDER: dict[str, int] = {"HOLDS": 0, "INCONCLUSIVE": 1, "LEAKS": 2}

#: The head of the lines of several concepts.
_OF_PARTS = ("concept", "kind", "verdict", "strongest", "advantage", "at most", "in")


def _has_rank(eraser: dict[str, Any]) -> bool:
    """Tell whether the method of an eraser, or the one inside of a cascade, takes a rank."""
    parts = [part for part in (eraser, eraser.get("inner")) if isinstance(part, dict)]
    known = [part["parameters"] for part in parts if isinstance(part.get("parameters"), dict)]
    return not known or any("rank" in parameters for parameters in known)


# -- Words -----------------------------------------------------------------------------------------


def finding(about: Certificate) -> str:
    """Put the verdict into a sentence or two."""
    say, half = phrases_of(about), f"{about.alpha / 2:.4g}"
    shown = about.attack_p_value <= about.alpha / 2
    if about.verdict == "HOLDS":
        small = f"{say['independent']} (p = {about.p_value:.2g}, where {half} would be a leak)."
        if shown:
            small = f"A small leak was found (p = {about.attack_p_value:.2g})."
        return f"The erasure holds: on {say['where']}, {say['held']} {small}"
    if about.verdict == "INCONCLUSIVE":
        return (
            f"These rows cannot decide: no leak was found, but {say['possible']}, more than the "
            f"margin of {say['margin']}. On {say['where']}, {say['strongest']}."
        )
    nobody = f"no attacker of {len(about.attackers)}"
    if shown and about.advantage > 0:
        leak = (
            f"{say['gain']} with {say['confidence']} confidence. Luck alone does as well as the "
            f"attackers with p = {about.attack_p_value:.2g}."
        )
    elif shown:
        telling = min(about.attackers, key=lambda report: report.p_value)
        leak = (
            f"{nobody} {say['nothing']} on {say['where']}, but the {say['output']} of "
            f"{telling.name} follow the concept (p = {telling.p_value:.2g})."
        )
    else:
        leak = (
            f"{nobody} did better than luck would on {say['where']} ({say['bound']}), but "
            f"{say['dependent']} (p = {about.p_value:.2g})."
        )
    return f"The concept {about.concept}".rstrip() + f" leaks: {leak}"


def phrases_of(about: Certificate) -> dict[str, str]:
    """Fill in the phrases that fit the kind of the concept."""
    best, given, unit = about.strongest, about.given, about.unit.split()[0]

    def amount(share: float) -> str:
        return f"{100 * share:.1f} {unit}"

    low, high = (f"{100 * end:{'' if about.of_number else '+'}.1f}" for end in best.interval)
    said = {
        "name": best.name,
        "best": f"the strongest of {len(about.attackers)} attackers, {best.name}",
        "rows": f"{about.n_test_rows:,} test rows",
        "concept": about.concept or "the number",
        "confidence": f"{100 * (1 - about.alpha):.4g} %",
        "right": f"{100 * best.score:.1f} %",
        "chance": f"{100 * about.chance:.1f} %",
        "majority": f"{100 * about.majority:.1f} %",
        "low": low,
        "high": high,
        "margin": amount(about.margin),
        "advantage": amount(best.advantage),
        "gained": amount(max(best.advantage, 0.0)),
        "most": amount(max(about.upper_bound, 0.0)),
        "least": amount(about.detectable or 0.0),
        "guess": f"{given} alone" if given else "guessing",
        "within": f" within each {given}" if given else "",
        "known": f" beyond the {amount(max(about.chance, 0.0))} that {given} explains"
        if given
        else "",
        "above": f", above what {given} alone explains" if given else "",
    }
    for name, phrase in _PHRASES[about.kind].items():
        said[name] = phrase.format_map(said)
    return said


#: Phrases by the kind of the concept. Each may have those before it inside.
_PHRASES = {
    "categories": {
        "score": "balanced accuracy",
        "test": "Two-sample test",
        "output": "probabilities",
        "independent": "The classes do not differ detectably in distribution",
        "dependent": "the classes still differ in distribution",
        "alike": "every class{within} counted alike",
        "where": "{rows}, {alike}",
        "guessing": "{guess} ({chance})",
        "strongest": "{best}, is right on {right}, against {guessing}",
        "gain": "{name} is right on {right} of {where}, {advantage} better than {guessing}, and "
        "between {low} and {high}",
        "nothing": "beats {guessing}",
        "bound": "advantage at most {most} ({confidence})",
        "held": "{strongest}; the advantage is at most {most} ({confidence}), within the margin of "
        "{margin}.",
        "possible": "an advantage of up to {most} ({confidence}) is possible",
        "detectable": "An advantage of {least} or more of one of these attackers",
        "within_margin": "the bound on the advantage is within {margin}",
        "legend": "Balanced: accuracy in %, {alike}; advantages over {guess}, which gets {chance}, "
        "in points. Accuracy: in %, where the largest class is {majority}.",
    },
    "continuous": {
        "score": "share of the variance",
        "test": "Test of independence",
        "output": "predictions",
        "independent": "Rows and number do not depend on each other detectably",
        "dependent": "rows and number still depend on each other",
        "where": "{rows}",
        "variance": "of the variance of {concept}{known}",
        "strongest": "{best}, explains {gained}",
        "gain": "{name} explains {advantage} {variance} on {rows}, and between {low} and {high} %",
        "nothing": "explains any {variance}",
        "bound": "at most {most} {variance} ({confidence})",
        "held": "attackers explain {bound}, within the margin of {margin}; {strongest}.",
        "possible": "an attacker may explain up to {most} {variance} ({confidence})",
        "detectable": "An attacker that explains {least} or more",
        "within_margin": "the bound is within {margin} of the variance",
        "legend": "R²: the share of the variance that predictions explain, in %; advantages in % "
        "of the variance{above}. Zero or less is nothing. The upper ends of intervals hold for "
        "predictions in the best unit too.",
    },
}


def _left_open(about: Certificate) -> tuple[str, ...]:
    """List what groups, numbers, several concepts and given labels leave open."""
    groups = about.metadata.get("n_test_groups")
    rows = "Rows that belong together, such as several of one person: the numbers count test rows "
    sentences = {
        f"{rows}as independent.": not groups,
        f"Dependence between groups: the numbers count {groups or 0:,} of them as "
        "independent.": groups,
        "What the rows reveal of the number beyond its mean, such as its spread.": about.of_number,
        f"What {about.given} alone reveals of the concept: it counts as known.": about.given,
        "Functions of several concepts other than each one and the cells of all.": about.parts,
    }
    return tuple(sentence for sentence, applies in sentences.items() if applies)


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
    how = {"attackers": attackers, "budget": budget, "verbose": verbose}
    how |= {"attack_rows": attack_rows, "given": given is not None}
    check_dataset(data)
    parts, made = parts_of(data), {}
    named = steps(parts, "Concept", name=attrgetter("name"), verbose=verbose)
    for part in named if len(parts) > 1 else parts:
        with naming_concept(part.name):
            certificate = _certified(
                eraser, part.data, alpha / len(parts), as_seed(random_state), how
            )
        metadata = _metadata(eraser, part.data, random_state)
        made[part.name] = replace(certificate, margin=margin, given=given or "", metadata=metadata)
    if not data.concepts:
        return made[""]
    return Certificate.of_several(made, tuple(part.note for part in parts if part.note))


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
    alone = 0 if scores.given is None else scores.n_left_out
    note = f"{alone:,} test rows are alone with their class and given label, and left out."
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
        notes=(note,) if alone else (),
    )


def _report(
    attacked: Attacked, result: AttackResult, p_value: float, alpha: float
) -> AttackerReport:
    chance = attacked.scores.chance
    low, high = (end - chance for end in attacked.interval(result, alpha))
    shared = {name: getattr(result, name) for name in _RESULT}
    return AttackerReport(**shared, interval=(low, high), p_value=p_value)


#: What the report of an attacker has from its result.
_RESULT = ("name", "accuracy", "balanced_accuracy", "advantage", "log_loss_bits", "r2")


def _metadata(eraser: Any, data: Dataset, random_state: Any) -> dict[str, Any]:
    """Describe eraser, data and settings, with digests of both."""
    groups, frozen = data.test.group_codes, getattr(eraser, "eraser_", eraser)
    # For comparison with another run.
    digests = {"eraser": frozen.digest} if isinstance(frozen, Eraser) else {}
    for name, split in data.splits.items():
        digests[f"{name} rows"] = fingerprint(np.asarray(split.X), split.concept.numbers)
    return {
        **facts_of(eraser, data),
        "n_test_groups": None if groups is None else len(np.unique(groups)),
        "random_state": int(random_state) if isinstance(random_state, int | np.integer) else None,
        "digests": digests,
    }


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
    from unspot.evaluation.two_sample import n_features_of, two_sample_test

    rows: Split = attacked.sample
    max_rows, usual = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = n_features_of(rows.target, attacked.sample_given)
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    # One extreme permutation is too many here: each takes long.
    many = max(usual, math.ceil(2 / alpha))
    compare = partial(
        two_sample_test, rows.X, rows.target,
        groups=rows.group_codes, strata=attacked.sample_given, random_state=seed,
    )  # fmt: skip
    test = compare(max_rows=max_rows, n_permutations=usual)
    if many == usual or test.p_value > 1 / (1 + usual):
        return test
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return compare(max_rows=fewer_rows, n_permutations=many)
