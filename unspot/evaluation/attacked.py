"""Attackers and what they were judged on: the strongest, intervals, p-values, tests of the rows.

One interface for classes and for numbers, so that ``evaluate``, ``certify`` and paths need not know
which of both a concept is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.concepts import Target
from unspot.data.labels import Labels, Measurements
from unspot.evaluation.attackers import AttackResult, attack_codes
from unspot.evaluation.inference import (
    agreement_p_values,
    balanced_interval,
    counts_in_groups,
    detectable_advantage,
    effective_rows,
    recalls,
)
from unspot.evaluation.regression import (
    RegressionResult,
    correlation_p_values,
    detectable_share,
    effective_number_rows,
    explained_interval,
    regress_values,
)

__all__ = [
    "Attacked",
    "AttackedNumber",
    "Known",
    "Result",
    "Sample",
    "attacked_rows",
    "from_known",
    "relative_guesses",
    "with_known",
]

Array = NDArray[Any]
Codes = NDArray[np.int64]
Result = AttackResult | RegressionResult


@dataclass(frozen=True, eq=False)
class Known:
    """What attackers know beside the rows, such as the task: its classes, and what it tells alone.

    Attributes
    ----------
    codes : array of shape (n,)
        Of the judged rows.
    alone : AttackResult or RegressionResult
        Of who knows nothing else.
    """

    codes: Codes
    alone: Any


@dataclass(frozen=True, eq=False)
class Sample:
    """Judged rows that one eraser has erased: what a test of distributions compares."""

    X: Array
    target: Target
    groups: Codes | None
    known: Codes | None = None


@dataclass(frozen=True, eq=False)
class Attacked:
    """Attackers, the labels that they guessed, and erased rows that no eraser was fitted on.

    Attributes
    ----------
    results : tuple of AttackResult
    labels : Labels
        Of the judged rows, in the order of the attackers' guesses.
    groups : array of int or None
        What the judged rows come in.
    sample : Sample
    known : Known, optional
        What attackers know beside the rows: then only what rows add to it counts.
    learned : tuple of array, Labels or Measurements, and groups, or None
        The erased rows that attackers learned from; None if they did so fold by fold.
    """

    results: tuple[Any, ...]
    labels: Any
    groups: Codes | None
    sample: Sample
    known: Known | None = None
    learned: tuple[Array, Any, Codes | None] | None = None

    @staticmethod
    def of(
        results: Sequence[Any],
        target: Target,
        groups: Codes | None,
        sample: Sample,
        known: Known | None = None,
        learned: tuple[Array, Any, Codes | None] | None = None,
    ) -> Attacked:
        """Of classes, or of a number."""
        if not isinstance(target, Labels):
            return AttackedNumber(tuple(results), target, groups, sample, known, learned)
        attacked = Attacked(tuple(results), target, groups, sample, known, learned)
        if known is None:
            return attacked
        return replace(attacked, results=tuple(map(attacked._rescored, results)))

    @property
    def strongest(self) -> Any:
        """The attacker that recovered most of the judged rows' concept."""
        return max(self.results, key=lambda result: result.score)

    @property
    def chance(self) -> float:
        """The score of guessing, or of who knows nothing of the rows.

        Given something, every cell of it and of a class counts alike: who knows nothing else says
        one class of all rows that are alike in it, and is right on one cell of them.
        """
        if self.known is None:
            return 1 / len(self.labels.classes)
        known = np.unique(self.known.codes[self._in_cells >= 0])
        return len(known) / (self._in_cells.max() + 1)

    def advantage(self, result: Any) -> float:
        """The score of an attacker above chance."""
        return float(result.advantage)

    def interval(self, result: Any, alpha: float = 0.05) -> tuple[float, float]:
        """Of a score, for all attackers at once: it pays for the choice of one."""
        each = alpha / len(self.results)
        if self.known is not None:
            shares, counts = self._cell_recalls(result)
            return balanced_interval(shares, counts, each)
        shares = recalls(result.guesses, self.labels.codes, len(self.labels.classes))
        return balanced_interval(shares, self._counts(result, each), each)

    @cached_property
    def _in_cells(self) -> Codes:
        """The cell of each row, of what is known and of its class; −1 where it is alone in one.

        Cells of one row tell nothing, nor do the others of a class of what is known if there are
        none.
        """
        assert self.known is not None
        known, classes = self.known.codes, self.labels.codes
        cells = known * len(self.labels.classes) + classes
        fine = np.bincount(cells)[cells] > 1
        different = {k: len(np.unique(classes[fine & (known == k)])) for k in np.unique(known)}
        fine &= np.array([different[k] for k in known]) > 1
        numbers = np.full(len(cells), -1)
        numbers[fine] = np.unique(cells[fine], return_inverse=True)[1]
        return numbers

    def _cell_recalls(self, result: AttackResult) -> tuple[Array, Codes]:
        """The share of each cell that is guessed right, and how many rows it has."""
        cells, hits = self._in_cells, result.guesses == self.labels.codes
        counts = np.bincount(cells[cells >= 0])
        return np.bincount(cells[(cells >= 0) & hits], minlength=len(counts)) / counts, counts

    def _rescored(self, result: AttackResult) -> AttackResult:
        balanced = float(self._cell_recalls(result)[0].mean())
        return replace(result, balanced_accuracy=balanced, advantage=balanced - self.chance)

    def upper_bound(self, alpha: float = 0.05) -> float:
        """No attacker's advantage over guessing is above this, with confidence 1 − alpha."""
        ends = (self.interval(result, alpha)[1] for result in self.results)
        return max(ends) - self.chance

    @property
    def effective_rows(self) -> int:
        """Rows in equal classes, independent of each other, that would tell as much."""
        return int(min(effective_rows(self._counts(result)) for result in self.results))

    def _counts(self, result: AttackResult, alpha: float = 0.05) -> Array:
        if self.known is not None:
            return self._cell_recalls(result)[1]
        codes, n_classes = self.labels.codes, len(self.labels.classes)
        return counts_in_groups(result.guesses, codes, self.groups, n_classes, alpha)

    def p_values(self, seed: int, n_permutations: int) -> Array:
        """Corrected, one for each attacker: that it is right by luck."""
        return agreement_p_values(
            [result.probabilities for result in self.results],
            [result.guesses for result in self.results],
            self.labels.codes,
            seed,
            n_permutations=n_permutations,
            groups=self.groups,
            strata=None if self.known is None else self.known.codes,
        )

    def detectable(self, alpha: float) -> float | None:
        """The smallest advantage that these rows show with a probability of 80 %."""
        return detectable_advantage(self.chance, self.effective_rows, alpha)

    @property
    def width(self) -> int:
        """Columns of the test of distributions, on which its cost depends."""
        known = 1 if self.known is None else len(np.unique(self.known.codes))
        return len(self.labels.classes) * known

    def compare(self, **how: Any) -> Any:
        """The two-sample test of the sample; given what is known, within its classes."""
        from unspot.evaluation.two_sample import compare_laws

        X, labels, groups, known = vars(self.sample).values()
        if known is not None:
            labels = _cells(labels, known)
        return compare_laws(X, labels, groups=groups, strata=known, **how)

    def facts(self) -> dict[str, Any]:
        """What a certificate says of the classes."""
        counts = self.labels.counts
        return {
            "kind": self.labels.kind,
            "majority": float(counts.max() / len(self.labels)),
            "n_classes": len(counts),
            "rows_of_class": {
                str(c): int(n) for c, n in zip(self.labels.classes, counts, strict=True)
            },
        }


class AttackedNumber(Attacked):
    """The same of regressors and the number that they predicted.

    Given what is known, predictions and values are taken relative to those from it alone.
    """

    @property
    def chance(self) -> float:
        return 0.0 if self.known is None else float(self.known.alone.score)

    def advantage(self, result: Any) -> float:
        return float(result.score - self.chance)

    @property
    def _values(self) -> Array:
        values = self.labels.coordinates
        return values if self.known is None else values - self.known.alone.predictions

    def _predicted(self, result: RegressionResult) -> Array:
        own = result.predictions
        return own if self.known is None else own - self.known.alone.predictions

    def interval(self, result: Any, alpha: float = 0.05) -> tuple[float, float]:
        each = alpha / len(self.results)
        low, high = explained_interval(self._predicted(result), self._values, each, self.groups)
        left = 1 - self.chance  # the share of the variance that is not known anyhow
        return self.chance + left * low, self.chance + left * high

    @property
    def effective_rows(self) -> int:
        return min(
            effective_number_rows(self._predicted(result), self._values, self.groups)
            for result in self.results
        )

    def p_values(self, seed: int, n_permutations: int) -> Array:
        return correlation_p_values(
            [self._predicted(result) for result in self.results],
            self._values,
            seed,
            n_permutations=n_permutations,
            groups=self.groups,
            strata=None if self.known is None else self.known.codes,
        )

    def detectable(self, alpha: float) -> float | None:
        return detectable_share(self.effective_rows, alpha)

    @property
    def width(self) -> int:
        return 4 * int(self.labels.coordinates.shape[1])

    def compare(self, **how: Any) -> Any:
        from unspot.evaluation.two_sample import compare_with_number

        X, numbers, groups, known = vars(self.sample).values()
        return compare_with_number(X, numbers, groups=groups, strata=known, **how)

    def facts(self) -> dict[str, Any]:
        return {"kind": self.labels.kind, "majority": 0.0, "n_classes": 0, "rows_of_class": {}}


def attacked_rows(
    X: Array, learned: Target, X_test: Array, judged: Target, **how: Any
) -> tuple[Any, ...]:
    """Attackers of classes or of a number."""
    if isinstance(learned, Labels):
        assert isinstance(judged, Labels)
        return attack_codes(X, learned, X_test, judged.codes, **how)
    assert isinstance(judged, Measurements)
    return regress_values(X, learned, X_test, judged, **how)


# -- what attackers know beside the rows -----------------------------------------------------------


def _cells(labels: Labels, known: Codes) -> Labels:
    """A class for each pair of what is known and what is sought."""
    K = len(labels.classes)
    cells, codes = np.unique(known * K + labels.codes, return_inverse=True)
    return Labels(codes.astype(np.int64), cells)


def from_known(
    learned: Target, known: Codes, judged: Target, known_of_judged: Codes, name: str
) -> Result:
    """Who knows only the class of something else: shares of labels, or the mean number, in it."""
    n = int(max(known.max(), known_of_judged.max())) + 1
    rows = np.bincount(known, minlength=n)[:, None]
    facts: Any = {"n_rows": len(learned), "seconds": 0.0}
    if isinstance(learned, Labels):
        assert isinstance(judged, Labels)
        K = len(learned.classes)
        table = np.zeros((n, K))
        np.add.at(table, (known, learned.codes), 1)
        shares = learned.counts / len(learned)
        probabilities = (table + shares) / (rows + 1)
        guesses = (probabilities / shares).argmax(axis=1)
        told = guesses[known_of_judged], probabilities[known_of_judged]
        return AttackResult.of(name, *told, judged.codes, **facts)
    assert isinstance(judged, Measurements)
    values = learned.coordinates
    sums = np.stack([np.bincount(known, weights=v, minlength=n) for v in values.T], axis=1)
    means = (sums + values.mean(axis=0)) / (rows + 1)
    return RegressionResult.of(name, means[known_of_judged], judged.coordinates, **facts)


def relative_guesses(result: AttackResult, alone: AttackResult) -> AttackResult:
    """The classes that rows make more probable than what is known anyhow does."""
    return replace(result, guesses=(result.probabilities / alone.probabilities).argmax(axis=1))


def with_known(X: Array, X_test: Array, known: Codes, known_of_test: Codes) -> tuple[Array, Array]:
    """Rows with the class of what is known, as columns that vary as much as theirs do."""
    n = int(max(known.max(), known_of_test.max())) + 1
    spread = float(np.asarray(X, dtype=np.float64).std(axis=0).mean()) or 1.0
    shares = np.bincount(known, minlength=n) / len(known)
    unit = spread / np.sqrt(np.maximum(shares * (1 - shares), 1 / len(known)))
    columns = np.eye(n) * unit
    return tuple(  # type: ignore[return-value]
        np.hstack([np.asarray(rows, dtype=np.float64), columns[codes]])
        for rows, codes in ((X, known), (X_test, known_of_test))
    )
