"""The question that every metric answers: the same rows, before and after erasure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Split
from unspot.data.labels import encode
from unspot.evaluation.group_fairness import Fairness, fairness
from unspot.evaluation.results import Direction, Row, Value

__all__ = ["Finding", "Metric", "Problem", "learned_nothing", "mean_value", "one_row"]


@dataclass(frozen=True)
class Finding:
    """Rows of a metric, and what lies behind them."""

    rows: tuple[Row, ...]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Problem:
    """The same rows before and after erasure, and how hard to look at them."""

    before: Dataset
    after: Dataset
    seeds: int = 5
    budget: str = "quick"
    random_state: int = 0

    @property
    def train(self) -> Split:
        return self.before.train

    @property
    def test(self) -> Split:
        return self.before.test

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        return measure(self.before), measure(self.after)

    @cached_property
    def task_predictions(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels (seeds, n) that the paper's classifier predicts for the test rows."""
        from unspot.evaluation.probes import probe_predictions

        classes = encode(self.train.y, name="y").classes

        def predicted(data: Dataset) -> NDArray[Any]:
            codes = probe_predictions(
                data.train.X,
                self.train.y,
                data.test.X,
                seeds=self.seeds,
                random_state=self.random_state,
            )
            labels: NDArray[Any] = classes[codes]
            return labels

        return self.on_both(predicted)

    @cached_property
    def task_fairness(self) -> tuple[list[Fairness], list[Fairness]]:
        """One for each seed."""
        before, after = self.task_predictions
        y, z = self.test.y, self.test.z
        return [fairness(y, p, z) for p in before], [fairness(y, p, z) for p in after]


Metric = Callable[[Problem], Finding]


def one_row(
    key: str,
    label: str,
    unit: str,
    before: Value | None,
    after: Value | None,
    direction: Direction,
    note: str = "",
) -> Finding:
    return Finding((Row(key, label, unit, before, after, direction, note),))


def mean_value(values: Iterable[float | None]) -> Value | None:
    """Mean and spread of the defined values, or None if none is."""
    defined = [value for value in values if value is not None]
    return Value(float(np.mean(defined)), float(np.std(defined))) if defined else None


def learned_nothing(before: Value | None, labels: Any, who: str = "It") -> str:
    """A caveat for a classifier that does no better than a guess before erasure, else nothing.

    Examples
    --------
    >>> learned_nothing(Value(0.9), ["a", "a", "b"])
    ''
    >>> learned_nothing(Value(0.6), ["a", "a", "b"])
    ' It learned nothing: before erasure it is no better than a guess, 66.7 %.'
    """
    guess = float(encode(labels, min_classes=1).counts.max() / len(labels))
    if before is None or before.mean > guess:
        return ""
    return (
        f" {who} learned nothing: before erasure it is no better than a guess, {100 * guess:.1f} %."
    )
