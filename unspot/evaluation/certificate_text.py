"""A certificate in words and as a table: pure functions of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspot.evaluation.certificate import AttackerReport, Certificate

__all__ = ["as_table", "in_words"]


def in_words(certificate: Certificate) -> str:
    """The verdict as a sentence or two that need no statistics to be read."""
    return _finding(certificate) + " " + _limits(certificate)


def as_table(certificate: Certificate) -> str:
    """The verdict, a line for each attacker from the strongest down, and what it rests on."""
    verdict = "LEAKS" if certificate.leaks else "no leak found"
    confidence = f"{100 * (1 - certificate.alpha):g} %"
    header = (
        "attacker",
        "balanced",
        "advantage",
        f"{confidence} interval",
        "p",
        "accuracy",
        "bits",
    )
    ranked = sorted(certificate.attackers, key=lambda report: -report.advantage)
    rows = [header, *(_row(report) for report in ranked)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(
        [f"Certificate: {verdict}", in_words(certificate), "", *lines, "", _footer(certificate)]
    )


def _finding(certificate: Certificate) -> str:
    best, n = certificate.strongest, len(certificate.attackers)
    half = certificate.alpha / 2
    confidence = f"{100 * (1 - certificate.alpha):g} %"
    where = f"{certificate.n_test_rows:,} test rows, every class counted alike"
    guessing = f"guessing ({100 * certificate.chance:.1f} %)"
    by_attack, by_test = certificate.attack_p_value <= half, certificate.p_value <= half
    if by_attack and best.advantage > 0:
        low, high = best.interval
        return (
            f"The concept leaks: {best.name} is right on {100 * best.balanced_accuracy:.1f} % of "
            f"{where}, {_points(best.advantage)} better than {guessing}, and between "
            f"{100 * low:+.1f} and {100 * high:+.1f} with {confidence} confidence. Luck alone does "
            f"as well as the attackers with p = {certificate.attack_p_value:.2g}."
        )
    if by_attack:
        telling = min(certificate.attackers, key=lambda report: report.p_value)
        return (
            f"The concept leaks: no attacker of {n} beats {guessing} on {where}, but the "
            f"probabilities of {telling.name} follow the concept (p = {telling.p_value:.2g})."
        )
    bound = f"advantage at most {_points(max(certificate.upper_bound, 0.0))} ({confidence})"
    if by_test:
        return (
            f"The concept leaks: no attacker of {n} did better than luck would on {where} "
            f"({bound}), but the classes still differ in distribution "
            f"(p = {certificate.p_value:.2g})."
        )
    return (
        f"No attacker of {n} did better than luck would: on {where}, the strongest, {best.name}, "
        f"is right on {100 * best.balanced_accuracy:.1f} %, guessing on "
        f"{100 * certificate.chance:.1f} %; {bound}. The classes do not differ detectably in "
        f"distribution (p = {certificate.p_value:.2g}, where {half:g} would be a leak)."
    )


def _limits(certificate: Certificate) -> str:
    if certificate.detectable is None:
        return "There are too few test rows to detect any advantage."
    return (
        f"An advantage of {_points(certificate.detectable)} or more would have been detected with "
        "a probability of 80 %."
    )


def _footer(certificate: Certificate) -> str:
    seen = "was not fitted on" if certificate.attack_rows == "unseen" else "was fitted on"
    return (
        f"Attackers ({certificate.budget}) learned from {certificate.n_attack_rows:,} rows that "
        f"the eraser {seen}, and are judged on {certificate.n_test_rows:,} others.\n"
        f"Two-sample test p = {certificate.p_value:.2g}; attackers together "
        f"p = {certificate.attack_p_value:.2g}; either at {certificate.alpha / 2:g} or below is a "
        f"leak, so that a false alarm has a probability of at most {certificate.alpha:g}.\n"
        "Balanced: accuracy in %, every class counted alike; advantages over guessing, which gets "
        f"{100 * certificate.chance:.1f} %, in points. Accuracy: in %, where the largest class is "
        f"{100 * certificate.majority:.1f} %."
    )


def _row(report: AttackerReport) -> tuple[str, ...]:
    low, high = report.interval
    return (
        report.name,
        f"{100 * report.balanced_accuracy:.1f}",
        f"{100 * report.advantage:+.1f}",
        f"{100 * low:+.1f} … {100 * high:+.1f}",
        f"{report.p_value:.3f}" if report.p_value >= 0.001 else f"{report.p_value:.1g}",
        f"{100 * report.accuracy:.1f}",
        f"{report.log_loss_bits:.3f}",
    )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
