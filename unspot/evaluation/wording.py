"""The words of a certificate: its finding, its limits and its legend.

The sentences are the same for classes and for numbers. The phrases in them differ: what an attacker
does (is right, explains), the unit of its advantage, how rows and concept depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate

__all__ = ["Phrases", "Scope", "finding", "limits", "phrases_of", "scope_of"]


@dataclass(frozen=True)
class Phrases:
    """What is said differently of classes and of numbers, as parts of sentences."""

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
    """The verdict in a sentence or two."""
    say, found = phrases_of(about), about.attack_p_value <= about.alpha / 2
    if about.verdict == "HOLDS":
        small = (
            f"A small leak was found (p = {about.attack_p_value:.2g})."
            if found
            else f"{say.independent} (p = {about.p_value:.2g}, where {about.alpha / 2:.4g} would "
            "be a leak)."
        )
        return f"The erasure holds: on {say.where}, {say.held} {small}"
    if about.verdict == "INCONCLUSIVE":
        return (
            f"These rows cannot decide: no leak was found, but {say.possible}, more than the "
            f"margin of {say.margin}. On {say.where}, {say.strongest}."
        )
    return f"The concept {about.concept}".rstrip() + f" leaks: {_leak(about, say, found)}"


def _leak(about: Certificate, say: Phrases, found: bool) -> str:
    if found and about.advantage > 0:
        return (
            f"{say.gain} with {_confidence(about)} confidence. Luck alone does as well as the "
            f"attackers with p = {about.attack_p_value:.2g}."
        )
    nobody = f"no attacker of {len(about.attackers)}"
    if found:
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
    """What would have been detected."""
    if about.detectable is None:
        return "There are too few test rows to detect any advantage."
    least = phrases_of(about).detectable
    return f"{least} would have been detected with a probability of 80 %."


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


def score_name(of_number: bool) -> str:
    """Name what attackers are judged by."""
    return "share of the variance" if of_number else "balanced accuracy"


def phrases_of(about: Certificate) -> Phrases:
    """The phrases that fit the concept."""
    return _of_number(about) if about.of_number else _of_classes(about)


def _of_classes(about: Certificate) -> Phrases:
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
        score=score_name(False),
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


def _of_number(about: Certificate) -> Phrases:
    best, margin = about.strongest, _share(about.margin)
    where = f"{about.n_test_rows:,} test rows"
    known = f" beyond the {_share(max(about.chance, 0.0))} that {about.given} explains"
    variance = f"of the variance of {about.concept or 'the number'}{known if about.given else ''}"
    strongest = f"{_strongest(about)}, explains {_share(max(best.advantage, 0.0))}"
    low, high = (f"{100 * end:.1f}" for end in best.interval)
    most = f"{_share(max(about.upper_bound, 0.0))} {variance} ({_confidence(about)})"
    above = f", above what {about.given} alone explains" if about.given else ""
    return Phrases(
        score=score_name(True),
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
