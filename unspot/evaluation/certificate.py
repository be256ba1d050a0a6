"""A held-out certificate: what a family of attackers could still recover, and how sure that is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset
from unspot.data.labels import encode, encode_as
from unspot.data.sampling import generator
from unspot.evaluation.attackers import AttackResult, attack
from unspot.evaluation.held_out import SPLIT_OF, erased_rows, held_out_splits
from unspot.evaluation.inference import (
    agreement_p_values,
    balanced_interval,
    detectable_advantage,
    effective_rows,
    recalls,
)
from unspot.evaluation.results import eraser_facts
from unspot.evaluation.two_sample import TwoSampleTest, two_sample_test
from unspot.machine import versions

__all__ = ["AttackerReport", "Certificate", "as_table", "certify", "in_words"]

#: Rows and permutations of the two-sample test.
_TWO_SAMPLE = {"quick": (1_000, 200), "standard": (4_000, 200), "thorough": (8_000, 1_000)}

#: Permutations of the labels under the attackers' guesses.
_AGREEMENT = 999

#: Rows times permutations times classes of a two-sample test for a small alpha, about 1 GB: of
#: more permutations, fewer rows.
_MAX_PERMUTED = 2**25

#: Below, the tests would need more than 20,000 permutations.
_SMALLEST_ALPHA = 1e-4


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
    sentence : str
        The verdict in plain words.
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
    sentence: str
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
            "chance": self.chance,
            "strongest": self.strongest.name,
            "advantage": self.advantage,
            "upper_bound": self.upper_bound,
        }

    def to_json(self) -> str:
        """The same as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        return as_table(self)


def certify(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None = None,
    budget: str = "standard",
    alpha: float = 0.05,
    attack_rows: Literal["unseen", "seen"] = "unseen",
    random_state: Any = 0,
    verbose: bool = False,
) -> Certificate:
    """Attack an eraser on held-out rows, and say what could be recovered.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, callable, Dataset or None
        Whatever erases rows: by ``transform`` if it has one, else by a call. Or a Dataset of the
        same rows, erased. None leaves the rows as they are: what there was to erase.
    data : Dataset
        Fit the eraser on ``data.train`` before. Verdict and numbers are from ``data.test``.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS``; by default those of the budget.
    budget : "quick", "standard" or "thorough"
        Five, nine or twelve attackers, and how hard they try.
    alpha : float
        Probability of a false alarm, for everything in the certificate together; at least 0.0001.
    attack_rows : "unseen" or "seen"
        Attackers learn from ``data.validation``, which the eraser was not fitted on; or from
        ``data.train``, which it was: more rows as a rule, but they look cleaner than new ones.
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

    Examples
    --------
    >>> from unspot import Dataset, certify
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> U = rows.concept_basis
    >>> certify(None, data, budget="quick").leaks
    True
    >>> certify(lambda X: X - X @ U @ U.T, data, budget="quick").leaks
    False
    """
    _check_alpha(alpha)
    learn, test = held_out_splits(eraser, data, attack_rows)
    X = erased_rows(eraser, learn, SPLIT_OF[attack_rows])
    X_test = erased_rows(eraser, test, "test")
    rng = generator(random_state)
    seeds = rng.integers(2**31, size=3)
    results = attack(
        X,
        learn.z,
        X_test,
        test.z,
        budget=budget,
        attackers=attackers,
        random_state=int(seeds[0]),
        verbose=verbose,
    )
    codes = encode_as(test.z, encode(learn.z).classes)
    two_sample = _two_sample(X_test, codes, budget, alpha, int(seeds[1]))
    agreement = _agreement(results, codes, alpha, int(seeds[2]))
    found = _certificate(results, agreement, two_sample, codes, alpha, attack_rows, budget)
    return replace(found, metadata=_metadata(eraser, data, random_state))


def _certificate(
    results: tuple[AttackResult, ...],
    p_values: NDArray[np.float64],
    two_sample: TwoSampleTest,
    codes: NDArray[np.int64],
    alpha: float,
    attack_rows: str,
    budget: str,
) -> Certificate:
    counts, n, m = np.bincount(codes), len(codes), len(results)
    chance = 1 / len(counts)
    reports = []
    for result, p_value in zip(results, p_values, strict=True):
        shares = recalls(result.guesses, codes, len(counts))
        low, high = balanced_interval(shares, counts, alpha / m)
        reports.append(
            AttackerReport(
                name=result.name,
                accuracy=result.accuracy,
                balanced_accuracy=result.balanced_accuracy,
                advantage=result.advantage,
                interval=(low - chance, high - chance),
                p_value=float(p_value),
                log_loss_bits=result.log_loss_bits,
            )
        )
    facts: dict[str, Any] = {
        "attackers": tuple(reports),
        "attack_p_value": float(p_values.min()),
        "p_value": two_sample.p_value,
        "detectable": detectable_advantage(chance, int(effective_rows(counts)), alpha / (2 * m)),
        "majority": float(counts.max() / n),
        "alpha": alpha,
        "n_classes": len(counts),
        "n_attack_rows": results[0].n_rows,
        "n_test_rows": n,
        "attack_rows": attack_rows,
        "budget": budget,
    }
    leaks = bool(p_values.min() <= alpha / 2 or two_sample.p_value <= alpha / 2)
    draft = Certificate(leaks=leaks, sentence="", **facts)
    return Certificate(leaks=leaks, sentence=in_words(draft), **facts)


def _metadata(eraser: Any, data: Dataset, random_state: Any) -> dict[str, Any]:
    """In the words of an evaluation, so that a report reads both."""
    seed = int(random_state) if isinstance(random_state, (int, np.integer)) else None
    return {
        "eraser": {"method": "no erasure"} if eraser is None else eraser_facts(eraser),
        "data": data.name,
        "n_features": data.n_features,
        "random_state": seed,
        "versions": versions(),
    }


def _check_alpha(alpha: Any) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    if alpha < _SMALLEST_ALPHA:
        raise ValueError(
            f"Got alpha={alpha!r}, but expected at least {_SMALLEST_ALPHA:g}: a smaller one takes "
            "more permutations than there is time for. Use a larger alpha."
        )


def _agreement(
    results: Sequence[AttackResult], codes: NDArray[np.int64], alpha: float, seed: int
) -> NDArray[np.float64]:
    """The attackers' p-values, of more permutations where few leave the verdict open.

    A first p-value above the smallest possible one stands: it is above half of alpha too. So the
    second look can only take back what the first one found, and the level holds.
    """
    predicted = [r.probabilities for r in results], [r.guesses for r in results]
    many = max(_AGREEMENT, math.ceil(4 / alpha))  # one may be as extreme as the labels
    found = agreement_p_values(*predicted, codes, seed, n_permutations=_AGREEMENT)
    if many == _AGREEMENT or found.min() > 1 / (1 + _AGREEMENT):
        return found
    return agreement_p_values(*predicted, codes, seed, n_permutations=many)


def _two_sample(
    X: NDArray[Any], codes: NDArray[np.int64], budget: str, alpha: float, seed: int
) -> TwoSampleTest:
    """The two-sample test, of more permutations where few leave the verdict open, as above."""
    max_rows, usual = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = int(codes.max()) + 1
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    many = max(usual, math.ceil(2 / alpha))  # none may: each is dear
    found = two_sample_test(X, codes, max_rows=max_rows, n_permutations=usual, random_state=seed)
    if many == usual or found.p_value > 1 / (1 + usual):
        return found
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return two_sample_test(X, codes, max_rows=fewer_rows, n_permutations=many, random_state=seed)


# -- A certificate in words and as a table: pure functions of its data -----------------------------


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
