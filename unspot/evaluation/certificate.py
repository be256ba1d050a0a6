"""Certify an eraser on rows that it has not seen: one statement, and a verdict for a margin."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.concept import read, read_covariate
from unspot.data.dataset import (
    Dataset,
    Split,
    knows_its_rows,
    naming_concept,
    parts_of,
    warn_if_grouped,
)
from unspot.data.rows import as_matrix, as_seed, fingerprint
from unspot.eraser import Eraser
from unspot.evaluation.attack_models import MIN_OF_A_CLASS, rows_needed
from unspot.evaluation.measure import (
    HALVINGS,
    Attacked,
    attack_eraser,
    attack_halves,
    eraser_facts,
    facts_of,
    frozen_eraser,
    in_fixed_order,
    once,
    refuse_other_columns,
)
from unspot.evaluation.utility import neighbour_overlap
from unspot.io.files import as_type
from unspot.io.progress import phase, steps
from unspot.machine import pieces_in_threads
from unspot.tables import plain

#: Rows and permutations of the two-sample test.
_TWO_SAMPLE = {"quick": (1_000, 200), "standard": (4_000, 200), "thorough": (8_000, 1_000)}

#: Rows whose neighbours are compared before and after.
_QUERIES = 1_000

Verdict = Literal["LEAKS", "HOLDS", "INCONCLUSIVE"]

#: The largest difference of an advantage that another machine or version may make.
TOLERANCE = 0.01

#: The advantage over guessing that a search aims at, where the user states no other.
MARGIN = 0.05


def verdict_of(lower_bound: float, upper_bound: float, margin: float) -> Verdict:
    """Compare the bounds on the advantage with the margin; nothing else decides.

    Examples
    --------
    >>> verdict_of(0.008, 0.109, margin=0.12), verdict_of(0.008, 0.109, margin=0.05)
    ('HOLDS', 'INCONCLUSIVE')
    """
    if upper_bound <= margin:
        return "HOLDS"
    return "LEAKS" if lower_bound > margin else "INCONCLUSIVE"


@dataclass(frozen=True)
class AttackerReport:
    """One attacker on the erased rows.

    ``score`` is the balanced accuracy, or R² of a number, and ``advantage`` what it has above
    guessing. ``interval`` is of the advantage, and holds for all attackers at once.
    """

    name: str
    score: float
    advantage: float
    interval: tuple[float, float]

    @property
    def cells(self) -> tuple[str, ...]:
        """Line of a table: name, score, advantage, interval."""
        ends = " … ".join(f"{100 * end:+.1f}" for end in self.interval)
        return self.name, f"{100 * self.score:.1f}", f"{100 * self.advantage:+.1f}", ends


@dataclass(frozen=True)
class UtilityKept:
    """One kind of utility, before and after erasure."""

    name: str
    before: float
    after: float
    unit: str = "share"  # shown in per cent; else as it is

    def __str__(self) -> str:
        if self.unit == "share":
            return f"{self.name} {100 * self.before:.1f} → {100 * self.after:.1f} %"
        ends = self.before, self.after
        was, now = (f"{v:.2f}" if 0.1 <= abs(v) < 100 else f"{v:.3g}" for v in ends)
        was = "" if self.before == 1 else f"{was} → "  # the share of what was there
        return " ".join(filter(None, [self.name, self.unit, was + now]))


@dataclass(frozen=True)
class Certificate:
    """Attacks on rows that the eraser has not seen, and what follows from them.

    Attributes
    ----------
    attackers : tuple of AttackerReport
        In the order they were tried.
    before : float
        Advantage of the strongest attacker on the original rows.
    chance : float
        Score of guessing: 1/K, or 0 for a number; with ``given``, of that alone.
    p_value : float or None
        p-value of the two-sample test on the erased rows. It decides nothing. None for groups with
        covariates, where labels cannot be permuted.
    confirmable : float
        The smallest bound that these rows can confirm, where nothing leaks.
    spread : float
        Standard deviation of the strongest attacker's score from halving to halving.
    margin : float or None
        The largest advantage that counts as erased.
    n_rows, n_groups, n_repeats : int
        Rows that judge, the groups they come in, and exact repeats of rows, which counted once.
    new_rows : bool
        Whether the eraser's file shows that it was not fitted on these rows.
    rows_of_class : mapping of str to int
    kept : tuple of UtilityKept
        Utility before and after erasure: of neighbours, and of the task if there is one.
    kind : str
        Kind of the concept: "categories" or "continuous". For the latter, advantages are shares of
        the variance, and there are no classes.
    given : str
        Names of the covariates that attackers knew of every row; empty if none.
    parts : mapping of str to Certificate
        The certificates of all of several concepts, each with its part of the false alarms.
    notes : tuple of str
        Sentences about what was left out.
    metadata : mapping
        Provenance: eraser, data, digests, seed and package versions.
    """

    attackers: tuple[AttackerReport, ...]
    before: float
    chance: float
    p_value: float | None
    confirmable: float
    spread: float
    alpha: float
    budget: str
    n_rows: int
    margin: float | None = None
    n_groups: int | None = None
    n_repeats: int = 0
    new_rows: bool = True
    rows_of_class: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[UtilityKept, ...] = ()
    kind: str = "categories"
    given: str = ""
    parts: Mapping[str, Certificate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of_several(cls, parts: Mapping[str, Certificate], notes: tuple[str, ...]) -> Certificate:
        """Combine certificates of several concepts: that of the worst, with all of them inside."""
        order = {"HOLDS": 0, "INCONCLUSIVE": 1, "LEAKS": 2, None: 0}
        worst = max(parts, key=lambda name: (order[parts[name].verdict], parts[name].upper_bound))
        notes = (*parts[worst].notes, *notes)
        return replace(parts[worst], parts=parts if len(parts) > 1 else {}, notes=notes)

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict, or None without a margin; for several concepts, the worst one.

        If an attacker has an advantage above the margin, HOLDS has a probability of at most
        ``alpha``; if none has, so has LEAKS.
        """
        if self.margin is None:
            return None
        return verdict_of(self.lower_bound, self.upper_bound, self.margin)

    @property
    def strongest(self) -> AttackerReport:
        """Attacker with the largest advantage."""
        return max(self.attackers, key=attrgetter("advantage"))

    @property
    def after(self) -> float:
        """Advantage of the strongest attacker after erasure."""
        return self.strongest.advantage

    @property
    def lower_bound(self) -> float:
        """Lower bound on the strongest attacker's advantage, with confidence 1 − alpha."""
        return max(report.interval[0] for report in self.attackers)

    @property
    def upper_bound(self) -> float:
        """Upper bound on the advantage of every attacker, with confidence 1 − alpha."""
        return max(report.interval[1] for report in self.attackers)

    @property
    def removed(self) -> float | None:
        """Share of the attackers' lead that is gone; None if they had none."""
        return removed_share(self.before, self.after)

    @property
    def concept(self) -> str:
        """Name of the concept; empty if it has none."""
        return str(self.metadata.get("concept", ""))

    @property
    def unit(self) -> str:
        """Unit of advantages in per cent: points of balanced accuracy, or of the variance."""
        return UNITS[self.kind]

    # -- words -----------------------------------------------------------------------------------

    @property
    def statement(self) -> str:
        """The result in three sentences that a user can defend."""
        of = f"Worst of {len(self.parts)} concepts and combinations. " if self.parts else ""
        return of + statement(
            concept=self.concept,
            kind=self.kind,
            chance=self.chance,
            before=self.before,
            after=self.after,
            upper_bound=self.upper_bound,
            alpha=self.alpha,
            rows=self._rows,
            kept=self.kept,
            given=self.given,
        )

    @property
    def _rows(self) -> str:
        return rows_in_words(self.n_rows, self.n_groups, self.new_rows)

    @property
    def decision(self) -> str:
        """The verdict in a sentence, or the margins for which it would hold."""
        low, high = (f"{100 * max(end, 0.0):.1f}" for end in (self.lower_bound, self.upper_bound))
        if self.margin is None:
            return f"It would hold for any margin of at least {high} {self.unit}."
        allowed = f"the margin of {100 * self.margin:.1f}"
        if self.verdict == "HOLDS":
            return f"HOLDS: at most {high} {self.unit} are left, within {allowed}."
        if self.verdict == "LEAKS":
            return f"LEAKS: at least {low} {self.unit} are left, more than {allowed}."
        return f"INCONCLUSIVE: {low} to {high} {self.unit} are left, on both sides of {allowed}."

    @property
    def test_sentence(self) -> str:
        """State the result of the two-sample test, in a sentence of its own."""
        test, dependent, independent = _TESTS[self.kind]
        if self.p_value is None:
            return f"{test}: not done for groups with covariates, where labels cannot be permuted."
        outcome = dependent if self.p_value <= self.alpha else independent
        return f"{test}, which decides nothing: {outcome} (p = {self.p_value:.2g})."

    @property
    def next_step(self) -> str:
        """Recommend a next step, in a sentence."""
        again = "Certify again when the rows, the model that makes them or the eraser changes."
        if self.margin is None or self.verdict == "HOLDS":
            return again
        if self.margin < 0.99 * self.confirmable:  # which depends on halves of the rows a little
            return (
                f"With these rows no eraser can be shown to hold {100 * self.margin:.1f} "
                f"{self.unit}: about {100 * self.confirmable:.1f} is the least that they confirm. "
                f"Give about {self.rows_needed:,} rows, or state a larger margin."
            )
        if self.verdict == "INCONCLUSIVE":
            needed, enough = self.rows_needed, math.ceil(1000 * self.upper_bound) / 1000
            more = f"About {needed:,} rows would decide"
            if needed <= self.n_rows:  # it counts on a leak of at most half of the margin
                more = "What is left is close to the margin: erase more"
            return f"{more}; or state a margin of {enough:.3f} or more."
        return (
            f"unspot erase --max-advantage {self.margin:g} looks for an eraser that removes more; "
            "one that is fitted on more rows does too."
        )

    @property
    def rows_needed(self) -> int:
        """About how many rows like these would decide at this margin."""
        margin = MARGIN if self.margin is None else self.margin
        widest = max(report.interval[1] - report.advantage for report in self.attackers)
        # Up to half of the margin may be a leak: with a larger one, more rows show LEAKS.
        leak = min(max(self.after, 0.0), margin / 2)
        room = margin - leak
        if self.kind == "continuous":  # the interval is that of a correlation: this is its square
            widest = math.sqrt(max(self.upper_bound, 0.0)) - math.sqrt(leak)
            room = math.sqrt(margin) - math.sqrt(leak)
        # No number of rows shows that there is nothing at all.
        rows = self.n_rows * (min(widest, 1.0) / max(room, 1e-4)) ** 2
        return int(float(f"{rows:.2g}"))

    @property
    def sentences(self) -> tuple[str, ...]:
        """List the sentences under the statement: decision, test, notes and the next step."""
        unknown = (
            "The eraser's file does not say which rows it was fitted on: that these are others "
        )
        said = {
            self.decision: True,
            self.test_sentence: True,
            f"{unknown}could not be checked.": not self.new_rows,
            f"Exact repeats of rows, which counted once: {self.n_repeats:,}.": self.n_repeats,
            **dict.fromkeys(self.notes, True),
            f"Next: {self.next_step}": True,
        }
        return tuple(sentence for sentence, applies in said.items() if applies)

    def __str__(self) -> str:
        """Format statement, decision, and a line for each attacker from the strongest down."""
        return "\n".join([self.statement, *self.sentences, "", *self._tables(), "", self._footer()])

    def _tables(self) -> list[str]:
        score = "R²" if self.kind == "continuous" else "balanced"
        header = ("attacker", score, "advantage", f"{100 * (1 - self.alpha):.4g} % interval")
        ranked = sorted(self.attackers, key=lambda report: -report.advantage)
        attackers = plain([header, *(report.cells for report in ranked)], right=True)
        if not self.parts:
            return [attackers]
        lines = [part._line(name) for name, part in self.parts.items()]
        head = ("concept", "strongest", "before", "after", "at most", "in", "verdict")
        return [plain([head, *lines], right=True), "", f"Of {self.concept}:", attackers]

    def _line(self, name: str) -> tuple[str, ...]:
        """List the cells of a line for one of several concepts."""
        ends = (f"{100 * end:+.1f}" for end in (self.before, self.after, self.upper_bound))
        return name, self.strongest.name, *ends, self.unit, self.verdict or "–"

    def _footer(self) -> str:
        halvings = HALVINGS.get(self.budget, 1)
        return (
            f"{len(self.attackers)} attackers (budget {self.budget}) learned from one half of the "
            f"rows and were judged on the other, both ways, for {halvings} halvings. From halving "
            f"to halving the strongest varies by ± {100 * self.spread:.1f}. Intervals hold for all "
            "attackers at once."
        )

    def _repr_html_(self) -> str:
        """Show statement and sentences in a notebook."""
        head, *lines = (*self.statement.split("\n"), *self.sentences)
        rest = "".join(f"<br>{escape(line)}" for line in lines)
        return f"<p><b>{escape(head)}</b>{rest}</p>"

    @property
    def scope(self) -> dict[str, tuple[str, ...]]:
        """State what the certificate covers, what not, and when to certify again, by heading."""
        half = self.n_rows // 2
        return {
            "The adversary has": (
                "The erased vectors, with every digit that is written.",
                f"About {half:,} other erased rows of the same source with the concept's labels, "
                "which the eraser was not fitted on.",
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
                f"an adversary may have many more than {half:,} labelled rows;",
                "stronger attackers are known, or a new version of unspot has them.",
            ),
        }

    # -- plain data ------------------------------------------------------------------------------

    def naming(self, *, task: str | None = None, given: str | None = None) -> Certificate:
        """Call the task, and what is given, by their names in the statement."""
        parts = {key: part.naming(task=task, given=given) for key, part in self.parts.items()}
        called = task or TASK
        kept = tuple(replace(one, name=called) if one.name == TASK else one for one in self.kept)
        return replace(self, kept=kept, parts=parts, given=given or self.given)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data as in the JSON, with statement, verdict and bounds spelt out."""
        derived = ("statement", "verdict", "after", "lower_bound", "upper_bound", "removed")
        content = {
            **{name: getattr(self, name) for name in derived},
            **asdict(self),
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            "strongest": self.strongest.name,
        }
        return json.loads(json.dumps(content))  # tuples become lists

    def to_json(self) -> str:
        """Return JSON text, which ``from_dict`` and ``unspot certify --check`` read."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def to_html(self, path: str | os.PathLike[str], *, name: str = "", **options: Any) -> Path:
        """Write one self-contained HTML page; options are those of ``unspot.report.to_html``."""
        from unspot.report import to_html

        return to_html({name: self}, path, **options)

    @classmethod
    def from_dict(cls, content: Any) -> Certificate:
        """Read what ``to_dict`` gave; the error names the first wrong field."""
        result: Certificate = as_type(cls, content)
        if any(not one.attackers for one in (result, *result.parts.values())):
            raise ValueError("attackers are missing")
        return result

    def differences_from(self, earlier: Certificate) -> tuple[str, ...]:
        """Compare with an earlier certificate: a sentence for each thing that differs.

        Eraser, rows, settings and attackers must be the same. Advantages and their bounds may
        differ by ``TOLERANCE``, as they do on another machine.
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


#: Settings and counts that must be equal in a second run.
_SETTINGS = (
    "alpha", "margin", "budget", "given", "kind", "n_rows", "n_groups", "rows_of_class",
)  # fmt: skip


def _checked_facts(certificate: Certificate) -> dict[str, Any]:
    """List what a second run on the same files has exactly, by the name of each fact."""
    metadata = certificate.metadata
    digests = metadata.get("digests", {})
    facts = {f"the digest of the {name}": value for name, value in digests.items()}
    facts |= {name: getattr(certificate, name) for name in _SETTINGS}
    facts["the seed"] = metadata.get("random_state")
    facts["the list of attackers"] = ", ".join(sorted(r.name for r in certificate.attackers))
    for name, part in certificate.parts.items():
        facts |= {f"{name}: {fact}": value for fact, value in _checked_facts(part).items()}
    return facts


def _bounds(certificate: Certificate) -> dict[str, NDArray[np.float64]]:
    """Collect advantage and interval of each attacker, for every concept."""
    return {
        f"{concept}: {report.name}".removeprefix(": "): np.array(
            [report.advantage, *report.interval]
        )
        for concept, part in {"": certificate, **certificate.parts}.items()
        for report in part.attackers
    }


# -- Words -----------------------------------------------------------------------------------------

#: Default name of the task in a statement.
TASK = "the task"

#: Unit of advantages, by the kind of the concept.
UNITS = {"categories": "points", "continuous": "% of the variance"}

#: Name of the attackers' score, by the kind of the concept.
SCORES = {"categories": "balanced accuracy", "continuous": "share of the variance"}

#: The test of distributions: its name, and its two outcomes.
_TESTS = {
    "categories": (
        "Two-sample test",
        "the classes still differ in distribution",
        "the classes do not differ detectably",
    ),
    "continuous": (
        "Test of independence",
        "rows and number still depend on each other",
        "rows and number do not depend on each other detectably",
    ),
}


def rows_in_words(n_rows: int, n_groups: int | None, is_new: bool) -> str:
    """Say which rows judge."""
    groups = "" if n_groups is None else f" in {n_groups:,} groups"
    return f"{n_rows:,} rows{groups}" + " that no fit has seen" * is_new


def removed_share(before: float, after: float) -> float | None:
    """Compute the share of a lead that is gone; None if there was none.

    Examples
    --------
    >>> round(removed_share(0.32, 0.059), 2), removed_share(-0.01, 0.0)
    (0.82, None)
    """
    return max(1 - max(after, 0.0) / before, 0.0) if before > 0 else None


def statement(
    *,
    concept: str,
    kind: str,
    chance: float,
    before: float,
    after: float,
    upper_bound: float,
    alpha: float,
    rows: str,
    kept: Sequence[UtilityKept] = (),
    given: str = "",
) -> str:
    """Write the statement about an eraser: three sentences, the same wherever results are shown.

    Examples
    --------
    >>> print(statement(concept="dialect", kind="categories", chance=0.5, before=0.32, after=0.059,
    ...                 upper_bound=0.109, alpha=0.05, rows="2,480 rows"))
    Dialect: attackers are right on 82.0 % before and 55.9 % after (guessing: 50.0 %). \
82 % of their lead is gone.
    What is left is at most 10.9 points (95 % confidence, 2,480 rows).
    """
    who = f"attackers who know {given}" if given else "attackers"
    was, now = (f"{100 * (chance + max(lead, 0.0)):.1f} %" for lead in (before, after))
    guess = f"guessing among those alike in {given}" if given else "guessing"
    numbers = f"are right on {was} before and {now} after ({guess}: {100 * chance:.1f} %)"
    if kind == "continuous":
        numbers = f"explain {was} of the variance before and {now} after"
        numbers += f" ({given} alone: {100 * chance:.1f} %)" if given else ""
    gone = removed_share(before, after)
    share = "None" if gone is not None and gone < 0.005 else f"{100 * (gone or 0):.0f} %"
    lead = "They had no lead before." if gone is None else f"{share} of their lead is gone."
    name = concept[:1].upper() + concept[1:] or "The concept"
    lines = [
        f"{name}: {who} {numbers}. {lead}",
        f"What is left is at most {100 * max(upper_bound, 0.0):.1f} {UNITS[kind]} "
        f"({100 * (1 - alpha):.4g} % confidence, {rows}).",
        *([f"Kept: {', '.join(map(str, kept))}."] if kept else []),
    ]
    return "\n".join(lines)


def _left_open(about: Certificate) -> tuple[str, ...]:
    """List what groups, numbers, several concepts and given labels leave open."""
    groups = about.n_groups
    rows = "Rows that belong together, such as several of one person: the numbers count rows "
    sentences = {
        f"{rows}as independent.": not groups,
        f"Dependence between groups: the numbers count {groups or 0:,} of them as "
        "independent.": groups,
        "What the rows reveal of the number beyond its mean, such as its spread.": about.kind
        == "continuous",
        f"What {about.given} alone reveals of the concept: it counts as known.": about.given,
        "Functions of several concepts other than each one and the cells of all.": about.parts,
    }
    return tuple(sentence for sentence, applies in sentences.items() if applies)


# -- Certifying ------------------------------------------------------------------------------------


@pieces_in_threads()
def certify(
    eraser: Any,
    X: Any,
    z: Any = None,
    *,
    groups: Any = None,
    given: Any = None,
    margin: float | None = None,
    alpha: float = 0.05,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> Certificate:
    """Attack an eraser on rows that it has not seen, and bound what is left of the concept.

    Attackers learn from one half of the rows and are judged on the other, both ways, for several
    halvings. For a number, what is left is a share of its variance. Each of several concepts is
    attacked, and their combination: the verdict is that of the worst, and each has its part of
    ``alpha``.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, callable or None
        Erases rows by ``transform`` if it has one, else by a call. None leaves the rows as they
        are: what there is to erase.
    X, z : array-like of shape (n, d) and (n,)
        Rows that the eraser was not fitted on, and their concept: labels, numbers, or a table of
        several. Or a ``Dataset`` as ``X``, whose validation and test rows are taken.
    groups : array-like of shape (n,), optional
        Groups of rows, such as the author of each text: only groups must be independent of each
        other then. Otherwise all rows must be.
    given : array-like of shape (n,) or table, optional
        Covariates that attackers know (labels, numbers, or several columns): only what rows add
        to it counts. For a ``Dataset``, "y" is its task.
    margin : float, optional
        The largest advantage over guessing that counts as erased; for a number, the largest share
        of its variance. Without it there is a bound, and no verdict.
    alpha : float
        One minus the confidence, for everything in the certificate together.
    budget : "quick", "standard" or "thorough"
        Which attackers, how hard they try, and how many halvings.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS``; by default those of the budget.
    random_state : int, Generator or None
        Decides everything that is random.
    verbose : bool
        Show a progress bar.

    Notes
    -----
    Intervals are of the balanced accuracy, given the class counts of the rows, corrected for all
    attackers (Bonferroni), and averaged over the halvings: ``unspot.evaluation.measure``.

    Examples
    --------
    >>> from unspot import Eraser
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=1000, d=5)
    >>> rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    >>> certificate = certify(Eraser.projection(rest), rows.X, rows.z, budget="quick", margin=0.1)
    >>> certificate.verdict, certificate.before > 0.2 > 0.1 > certificate.upper_bound
    ('HOLDS', True)
    """
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    check_choice("budget", budget, tuple(_TWO_SAMPLE))
    if margin is not None:
        check_share("margin", margin)
    refuse_other_columns(eraser, X)
    about = read_rows(X, z, groups=groups, given=given)
    how = {"attackers": attackers, "budget": budget, "random_state": as_seed(random_state)}
    parts, made = parts_of(about.rows), {}
    for part in steps(
        parts, "Concept", name=attrgetter("name"), verbose=verbose and len(parts) > 1
    ):
        with naming_concept(part.name):
            one = _certified(eraser, part.data, alpha / len(parts), verbose=verbose, **how)
        metadata = _metadata(eraser, part.data, about, random_state)
        metadata["concept"] = part.name or metadata["concept"]
        made[part.name] = replace(one, margin=margin, given=about.given, metadata=metadata)
    if not about.rows.concept.names:
        return made[""]
    return Certificate.of_several(made, tuple(part.note for part in parts if part.note))


@dataclass(frozen=True, eq=False)
class RowsToJudge:
    """Rows with concept, groups and covariates, and the names of these."""

    rows: Split
    data: str
    concept: str
    given: str


def read_rows(X: Any, z: Any = None, *, groups: Any = None, given: Any = None) -> RowsToJudge:
    """Read arrays, or the validation and test rows of a ``Dataset``."""
    if isinstance(X, Dataset):
        if z is not None or groups is not None:
            raise ValueError("Got a Dataset with z or groups, which it has inside. Leave them out.")
        rows, name, concept = X.validation.joined(X.test), X.name, X.concept
    elif z is None:
        raise ValueError(
            f"Got {type(X).__name__} without z, but expected the concept of the rows too: "
            "certify(eraser, X, z), or a Dataset."
        )
    else:
        vectors = as_matrix(X)
        rows = Split(vectors, read(z, n_rows=len(vectors)), groups=groups)
        name, concept = "", str(getattr(z, "name", None) or "")
    if given is None:
        return RowsToJudge(rows, name, concept, "" if rows.given is None else names_of(rows.given))
    if isinstance(given, str):
        if given != "y" or not isinstance(X, Dataset) or rows.task is None:
            raise ValueError(
                f"Got given={given!r}, but expected 'y' and data with task labels y: "
                "Dataset.from_arrays(X, z, y). Or give a value for each row."
            )
        given = {"y": rows.y}
    rows = replace(rows, given=read_covariate(given, "given", len(rows)))
    return RowsToJudge(rows, name, concept, names_of(given))


def names_of(given: Any) -> str:
    """Name what is given: the columns of a table, or one column."""
    attribute = "names" if hasattr(given, "has_classes") else "columns"  # of a concept, or a frame
    names = given if isinstance(given, Mapping) else getattr(given, attribute, ())
    return ", ".join(map(str, names)) or str(getattr(given, "name", None) or "what is given")


def _certified(
    eraser: Any, whole: Split, alpha: float, *, verbose: bool, **how: Any
) -> Certificate:
    """Certify one concept."""
    rows = once(whole)
    if len(rows):
        warn_if_grouped((rows, rows.target.strata))
        rows = in_fixed_order(rows)
    attacked = attack_eraser(eraser, rows, verbose=verbose, **how)
    with phase("Comparing with the original rows", verbose=verbose):
        before = attacked if eraser is None else attack_halves(rows, halvings=1, **how)
        p_value = _two_sample(attacked, how["budget"], how["random_state"])
    scores, chance = attacked.scores, attacked.chance
    untold = rows.given is None and "given" in eraser_facts(eraser)
    alone = 0 if scores.given is None else scores.n_left_out
    note = f"Rows left out: {alone:,}, each the only one with its class and given label."
    reports = []
    for result in attacked.results:
        low, high = attacked.interval(result, alpha)
        ends = low - chance, high - chance
        reports.append(AttackerReport(result.name, result.score, result.score - chance, ends))
    return Certificate(
        attackers=tuple(reports),
        before=before.strongest.score - before.chance,
        chance=chance,
        p_value=p_value,
        confirmable=min(scores.smallest_bound(alpha, len(reports)), attacked.bounds(alpha)[1]),
        spread=attacked.spread,
        alpha=alpha,
        budget=how["budget"],
        n_rows=len(rows),
        n_groups=None if (groups := rows.group_codes) is None else len(np.unique(groups)),
        n_repeats=len(whole) - len(rows),
        new_rows=knows_its_rows(eraser, rows),
        kept=what_is_kept(rows, attacked.sample, how["random_state"]),
        **scores.facts(),
        notes=(*[note] * bool(alone), *[_UNTOLD] * untold),
    )


#: Warning about an eraser that was fitted with ``given`` and is certified without it.
_UNTOLD = (
    "The eraser was fitted with given=…, and left what that explains: give it here too, and only "
    "what rows add to it counts."
)


def what_is_kept(rows: Split, erased: Split, random_state: int) -> tuple[UtilityKept, ...]:
    """Measure the task, if there is one, and the neighbours, before and after erasure."""
    kept, task = [], rows.task
    enough = task is not None and len(task) >= 2 * rows_needed(task)
    if task is not None and enough and task.fewest_rows()[0] >= 2 * MIN_OF_A_CLASS:
        how: Any = {"attackers": ("logistic",), "halvings": 1, "random_state": random_state}
        before, after = (
            attack_halves(replace(split, concept=task, given=None), **how).strongest.score
            for split in (rows, erased)
        )
        kept.append(UtilityKept(TASK, before, after, "share" if task.has_classes else "R²"))
    same = neighbour_overlap(rows.X, erased.X, max_queries=_QUERIES, random_state=random_state)
    return (*kept, UtilityKept("neighbours", 1.0, float(same), ""))


def _metadata(eraser: Any, rows: Split, about: RowsToJudge, random_state: Any) -> dict[str, Any]:
    """Describe eraser, data and settings, with digests of both."""
    frozen = frozen_eraser(eraser)
    # For comparison with another run.
    digests = {"eraser": frozen.digest} if isinstance(frozen, Eraser) else {}
    digests["rows"] = fingerprint(np.asarray(rows.X), rows.concept.numbers)
    return {
        **facts_of(eraser, about.data, about.concept, int(rows.X.shape[1])),
        "random_state": int(random_state) if isinstance(random_state, int | np.integer) else None,
        "digests": digests,
    }


def _two_sample(attacked: Attacked, budget: str, seed: int) -> float | None:
    """Compare the distributions of the erased rows, where labels can be permuted."""
    from unspot.evaluation.two_sample import n_features_of, two_sample_test

    rows, strata = attacked.sample, attacked.sample_given
    if rows.groups is not None and strata is not None:
        return None  # labels cannot be permuted by group and within cells at once
    max_rows, n_permutations = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = n_features_of(rows.target, strata)
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    how: Any = {"max_rows": max_rows, "n_permutations": n_permutations, "random_state": seed}
    how |= {"groups": rows.group_codes, "strata": strata}
    return two_sample_test(rows.X, rows.target, **how).p_value
