"""A held-out certificate as plain data: the verdict, its numbers, a sentence and a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from unspot.evaluation.results import Metadata
from unspot.io.records import as_type

__all__ = ["AttackerReport", "Certificate"]


@dataclass(frozen=True)
class AttackerReport:
    """One attacker on the test rows.

    ``advantage`` is balanced accuracy above guessing, so above 1/K, and ``interval``, which is of
    the advantage, holds for all attackers at once. ``p_value`` is corrected too: the chance that
    any attacker at all would agree with unrelated labels as well as this one does.
    """

    name: str
    accuracy: float
    balanced_accuracy: float
    advantage: float
    interval: tuple[float, float]
    p_value: float
    log_loss_bits: float


@dataclass(frozen=True)
class Certificate:
    """What was tried on held-out rows, and what came of it.

    Attributes
    ----------
    leaks : bool
        The verdict. If rows and concept are independent it is true with a probability of at most
        ``alpha``: half of it for the attackers, half for the two-sample test.
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
    attack_rows : "unseen" or "seen"
        Whether the attackers learned from rows that the eraser was fitted on.
    metadata : mapping
        Which eraser, which data, which versions: who else may find the same.
    """

    leaks: bool
    attackers: tuple[AttackerReport, ...]
    attack_p_value: float
    p_value: float
    detectable: float | None
    majority: float
    alpha: float
    n_classes: int
    n_attack_rows: int
    n_test_rows: int
    attack_rows: str
    budget: str
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def chance(self) -> float:
        """The balanced accuracy of guessing."""
        return 1 / self.n_classes

    @property
    def strongest(self) -> AttackerReport:
        """The attacker that was right most often, every class counted alike."""
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
        """Plain data, with the strongest attacker and its bounds spelt out."""
        return {
            **asdict(self),
            "sentence": self.sentence,
            "chance": self.chance,
            "strongest": self.strongest.name,
            "advantage": self.advantage,
            "upper_bound": self.upper_bound,
        }

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_dict(cls, content: Any) -> Certificate:
        """The certificate that ``to_dict`` gave; the error names the first wrong field."""
        result: Certificate = as_type(cls, content)
        as_type(Metadata, result.metadata, "metadata")
        if not result.attackers or result.n_classes < 1:
            raise ValueError("attackers or classes are missing")
        return result

    @property
    def sentence(self) -> str:
        """The verdict in a few sentences that need no statistics to be read."""
        return f"{self._finding()} {self._limits()}"

    def __str__(self) -> str:
        """The verdict, a line for each attacker from the strongest down, and what it rests on."""
        verdict = "LEAKS" if self.leaks else "no leak found"
        interval = f"{self._confidence} interval"
        header = ("attacker", "balanced", "advantage", interval, "p", "accuracy", "bits")
        ranked = sorted(self.attackers, key=lambda report: -report.advantage)
        rows = [header, *(_cells(report) for report in ranked)]
        first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join([name.ljust(first), *map(str.rjust, numbers, others)])
            for name, *numbers in rows
        ]
        return "\n".join([f"Certificate: {verdict}", self.sentence, "", *table, "", self._footer()])

    @property
    def _confidence(self) -> str:
        return f"{100 * (1 - self.alpha):g} %"

    def _finding(self) -> str:
        best, n, half = self.strongest, len(self.attackers), self.alpha / 2
        where = f"{self.n_test_rows:,} test rows, every class counted alike"
        guessing = f"guessing ({100 * self.chance:.1f} %)"
        right = f"is right on {100 * best.balanced_accuracy:.1f} %"
        if self.attack_p_value <= half and best.advantage > 0:
            low, high = (f"{100 * end:+.1f}" for end in best.interval)
            return (
                f"The concept leaks: {best.name} {right} of {where}, {_points(best.advantage)} "
                f"better than {guessing}, and between {low} and {high} with {self._confidence} "
                "confidence. Luck alone does as well as the attackers with p = "
                f"{self.attack_p_value:.2g}."
            )
        if self.attack_p_value <= half:
            telling = min(self.attackers, key=lambda report: report.p_value)
            return (
                f"The concept leaks: no attacker of {n} beats {guessing} on {where}, but the "
                f"probabilities of {telling.name} follow the concept (p = {telling.p_value:.2g})."
            )
        bound = f"advantage at most {_points(max(self.upper_bound, 0.0))} ({self._confidence})"
        if self.p_value <= half:
            return (
                f"The concept leaks: no attacker of {n} did better than luck would on {where} "
                f"({bound}), but the classes still differ in distribution (p = {self.p_value:.2g})."
            )
        return (
            f"No attacker of {n} did better than luck would: on {where}, the strongest, "
            f"{best.name}, {right}, guessing on {100 * self.chance:.1f} %; {bound}. The classes do "
            f"not differ detectably in distribution (p = {self.p_value:.2g}, where {half:g} would "
            "be a leak)."
        )

    def _limits(self) -> str:
        if self.detectable is None:
            return "There are too few test rows to detect any advantage."
        return (
            f"An advantage of {_points(self.detectable)} or more of one of these attackers would "
            "have been detected with a probability of 80 %."
        )

    def _footer(self) -> str:
        seen = "was not fitted on" if self.attack_rows == "unseen" else "was fitted on"
        n_groups = self.metadata.get("n_test_groups")
        units = f"{n_groups:,} groups of test rows" if n_groups else "test rows"
        return (
            f"Attackers ({self.budget}) learned from {self.n_attack_rows:,} rows that the eraser "
            f"{seen}, and are judged on {self.n_test_rows:,} others.\n"
            f"Two-sample test p = {self.p_value:.2g}; attackers together p = "
            f"{self.attack_p_value:.2g}; either at {self.alpha / 2:g} or below is a leak, so that "
            f"a false alarm has a probability of at most {self.alpha:g}. This holds if the "
            f"{units} are independent of each other.\n"
            "Balanced: accuracy in %, every class counted alike; advantages over guessing, which "
            f"gets {100 * self.chance:.1f} %, in points. Accuracy: in %, where the largest class "
            f"is {100 * self.majority:.1f} %."
        )


def _cells(report: AttackerReport) -> tuple[str, ...]:
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
