"""What a monitor knows: the attackers' hits and bets so far, and the verdict that follows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from unspot.evaluation.betting import N_BETS, log_mean_exp, mean_recall_bound
from unspot.evaluation.certificate import Verdict, verdict_of

__all__ = ["MonitorReport", "Tally"]


@dataclass(frozen=True)
class Tally:
    """What one attacker has done so far: hits and rows of every class, and its bets."""

    hits: tuple[int, ...]
    counts: tuple[int, ...]
    log_wealth: tuple[float, ...]

    def plus(self, hits: Any, counts: Any, grown: Any) -> Tally:
        """The tally after one more batch."""
        return Tally(
            tuple((np.array(self.hits) + hits).tolist()),
            tuple((np.array(self.counts) + counts).tolist()),
            tuple((np.array(self.log_wealth) + grown).tolist()),
        )

    @property
    def balanced_accuracy(self) -> float:
        """The mean over the classes that had rows; NaN before the first."""
        counts = np.array(self.counts)
        seen = counts > 0
        return float((np.array(self.hits)[seen] / counts[seen]).mean()) if seen.any() else math.nan


@dataclass(frozen=True)
class MonitorReport:
    """What is known after a number of batches.

    Attributes
    ----------
    verdict : "LEAKS", "HOLDS" or "INCONCLUSIVE"
        LEAKS if the attackers' bets have won 1/alpha times the money they began with while an
        advantage above the margin is possible; then it stays. If labels are independent of erased
        rows, this ever happens with a probability of at most ``alpha``. HOLDS if no attacker's
        advantage is above the margin, INCONCLUSIVE if the rows so far cannot tell.
    n_batches, n_rows : int
        That were counted.
    log_wealth, peak_log_wealth : float
        The logarithm of what the bets together have made of 1, now and at best.
    attackers : mapping of str to Tally
        By name.
    shares : tuple of float
        Of the classes, among the first rows to learn from.
    """

    alpha: float
    margin: float
    classes: tuple[str, ...]
    shares: tuple[float, ...]
    attackers: Mapping[str, Tally]
    verdict: Verdict = "INCONCLUSIVE"
    n_batches: int = 0
    n_rows: int = 0
    log_wealth: float = 0.0
    peak_log_wealth: float = 0.0

    @classmethod
    def first(cls, settings: Mapping[str, Any]) -> MonitorReport:
        """Before any row was judged, with the settings of a monitor."""
        nothing = (0,) * len(settings["classes"])
        return cls(
            alpha=settings["alpha"],
            margin=settings["margin"],
            classes=tuple(settings["classes"]),
            shares=tuple(settings["shares"]),
            attackers={
                name: Tally(nothing, nothing, (0.0,) * N_BETS) for name in settings["attackers"]
            },
        )

    def after(self, attackers: Mapping[str, Tally], n_rows: int) -> MonitorReport:
        """With one more batch of so many rows; who has found a leak does not take it back."""
        wealth = log_mean_exp(np.concatenate([t.log_wealth for t in attackers.values()]))
        report = replace(
            self,
            attackers=attackers,
            n_batches=self.n_batches + 1,
            n_rows=self.n_rows + n_rows,
            log_wealth=wealth,
            peak_log_wealth=max(self.peak_log_wealth, wealth),
        )
        if self.verdict == "LEAKS":
            return report
        verdict = verdict_of(
            found=report.leak_found,
            differ=False,
            upper_bound=report.upper_bound,
            margin=report.margin,
        )
        return replace(report, verdict=verdict)

    @property
    def chance(self) -> float:
        """The balanced accuracy of guessing."""
        return 1 / len(self.classes)

    @property
    def p_value(self) -> float:
        """An upper bound, valid at any time, on the chance of such luck: 1 over the peak."""
        return math.exp(-max(self.peak_log_wealth, 0.0))

    @property
    def leak_found(self) -> bool:
        """Whether the labels are shown to depend on the erased rows, by however little."""
        return self.p_value <= self.alpha

    @property
    def strongest(self) -> str:
        """The attacker that was right most often so far, every class counted alike."""
        judged = self._judged or self.attackers
        return max(judged, key=lambda name: judged[name].balanced_accuracy)

    @property
    def advantage(self) -> float:
        """The strongest attacker's, over all rows so far; NaN before the first."""
        return self.attackers[self.strongest].balanced_accuracy - self.chance

    @property
    def upper_bounds(self) -> dict[str, float]:
        """For each attacker that has guessed, the largest advantage that it can have.

        One that is wrong more often than luck is of use as well: whoever avoids its guesses has a
        share 1/(K − 1) of what it lacks. With confidence 1 − alpha the bounds hold for all
        attackers and at all times together.
        """
        alpha, shares = self.alpha / len(self.attackers), np.array(self.shares)
        bounds = {}
        for name, tally in self._judged.items():
            hits, counts = np.array(tally.hits), np.array(tally.counts)
            gain = mean_recall_bound(hits, counts, shares, alpha) - self.chance
            lack = mean_recall_bound(counts - hits, counts, shares, alpha) - 1 + self.chance
            bounds[name] = max(gain, lack / (len(shares) - 1))
        return bounds

    @property
    def upper_bound(self) -> float:
        """No attacker's advantage is above this, with confidence 1 − alpha, at any time."""
        return max(self.upper_bounds.values(), default=1 - self.chance)

    @property
    def rows_needed(self) -> int:
        """About how many rows like these would decide at this margin, with those so far."""
        # Up to half of the margin may be a leak: with a larger one, more rows show LEAKS.
        room = self.margin - min(max(self.advantage, 0.0), self.margin / 2)
        rows = self.n_rows * ((self.upper_bound - self.advantage) / room) ** 2
        return int(float(f"{max(rows, self.n_rows):.2g}"))

    @property
    def _judged(self) -> dict[str, Tally]:
        return {name: tally for name, tally in self.attackers.items() if any(tally.counts)}

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self.n_rows:
            return "No rows were judged yet."
        so_far = f"after {self.n_rows:,} rows in {_times(self.n_batches, 'batch')}"
        best = (
            f"the strongest attacker, {self.strongest}, is {_points(self.advantage)} better than "
            f"guessing ({100 * self.chance:.1f} %)"
        )
        bound = f"at most {_points(self.upper_bound)} ({100 * (1 - self.alpha):g} %)"
        found = f"a leak is found, p = {self.p_value:.2g} at any time"
        if self.verdict == "LEAKS":
            return f"The concept leaks: {so_far}, {best}, and {bound}; {found}."
        if self.verdict == "HOLDS":
            small = f"; {found}, a small one" if self.leak_found else ""
            return (
                f"The erasure holds: {so_far}, {best}; the advantage of all is {bound}, within the "
                f"margin of {_points(self.margin)}{small}."
            )
        return (
            f"These rows cannot decide yet: {so_far}, {best}, but an advantage of "
            f"{_points(self.upper_bound)} is possible, more than the margin of "
            f"{_points(self.margin)}. About {self.rows_needed:,} rows in all would decide."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with what follows from it spelt out."""
        follows = ("sentence", "chance", "p_value", "leak_found", "strongest", "upper_bound")
        return {
            **asdict(self),
            **{name: getattr(self, name) for name in follows},
            "advantage": self.advantage if self.n_rows else None,
        }

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        """The verdict, and a line for each attacker from the strongest down."""
        bounds, judged = self.upper_bounds, self._judged
        ranked = sorted(judged, key=lambda name: -judged[name].balanced_accuracy)
        width = max(map(len, [*ranked, "attacker"]))
        lines = [f"{'attacker'.ljust(width)}  balanced  advantage  at most  wealth"]
        for name in ranked:
            accuracy = judged[name].balanced_accuracy
            wealth = log_mean_exp(np.array(judged[name].log_wealth))
            lines.append(
                f"{name.ljust(width)}  {100 * accuracy:8.1f}  "
                f"{100 * (accuracy - self.chance):+9.1f}  {100 * bounds[name]:+7.1f}  "
                f"{_wealth(wealth):>6}"
            )
        foot = (
            f"All bets together made {_wealth(self.log_wealth)} of 1, and "
            f"{_wealth(self.peak_log_wealth)} at best: 1/{self.alpha:g} = {1 / self.alpha:g} is a "
            f"leak. A false alarm at any time has a probability of at most {self.alpha:g}."
        )
        return "\n".join([f"Monitor: {self.verdict}", self.sentence, "", *lines, "", foot])


def _wealth(logarithm: float) -> str:
    return f"{math.exp(logarithm):.2g}" if logarithm < 12 else f"1e{logarithm / math.log(10):.0f}"


def _times(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}es"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
