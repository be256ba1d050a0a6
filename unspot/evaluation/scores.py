"""Numbers about one eraser: the metrics of ``evaluate``, after erasure alone.

``evaluate`` tells a story, before and after, about one eraser. Paths and sweeps ask the same
questions of many erasers of the same data, where what was before is known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from unspot.data.dataset import Dataset, Lexicon, Split
from unspot.evaluation.metrics import METRICS, TASK_METRICS
from unspot.evaluation.problem import Metric, Problem

__all__ = ["Scores", "check_metrics", "on_validation", "over_seeds", "score"]

#: What a metric needs besides rows and the concept.
_NEEDS = {**dict.fromkeys(TASK_METRICS, "task labels"), "words": "lexicon of words"}


@dataclass(frozen=True)
class Scores:
    """Values by the keys of ``evaluate``'s rows, None where undefined, and what lies behind."""

    values: dict[str, float | None]
    details: dict[str, Any] = field(default_factory=dict)


class _After(Problem):
    """A problem that is looked at after erasure only, at half the cost."""

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        found = measure(self.after)
        return found, found


def score(
    eraser: Callable[[Any], Any],
    data: Dataset,
    metrics: Sequence[str] | Mapping[str, Metric],
    *,
    seeds: int = 1,
    budget: str = "quick",
    random_state: int = 0,
) -> Scores:
    """Measure an eraser on the test rows.

    Parameters
    ----------
    eraser : Eraser or function of rows
    data : Dataset
        The original rows.
    metrics : sequence of str, or mapping of names to functions
        Names of ``evaluate``'s metrics; or functions of a ``Problem`` that give a ``Finding``.
    seeds : int
        Networks of each probe.
    budget : {"quick", "standard", "thorough"}
        How hard attackers try.
    random_state : int
        Decides every number.

    Notes
    -----
    Half the cost of ``evaluate``.

    Examples
    --------
    >>> from unspot import Eraser
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> data = Dataset.from_arrays(X, np.arange(300) % 2, random_state=0)
    >>> found = score(Eraser.projection(np.eye(3)[:, 1:]), data, ["linear", "variance"])
    >>> sorted(found.values), 0.5 < found.values["variance"] < 0.8
    (['linear', 'variance'], True)
    """
    functions = check_metrics(metrics, data)
    problem = _After(data, erased(eraser, data), seeds, budget, random_state)
    values: dict[str, float | None] = {}
    details: dict[str, Any] = {}
    for function in functions.values():
        finding = function(problem)
        values |= {row.key: None if row.after is None else row.after.mean for row in finding.rows}
        details |= finding.details
    return Scores(values, details)


def over_seeds(
    eraser: Callable[[Any], Any],
    data: Dataset,
    metrics: Sequence[str],
    *,
    seeds: int,
    random_state: int = 0,
) -> dict[str, tuple[float, float]]:
    """Mean and spread of every score over so many repetitions; undefined ones are left out."""
    found = [
        score(eraser, data, metrics, random_state=random_state + seed).values
        for seed in range(seeds)
    ]
    columns = {key: [values[key] for values in found] for key in found[0]}
    return {
        key: (float(np.mean(column)), float(np.std(column)))  # type: ignore[arg-type]
        for key, column in columns.items()
        if None not in column
    }


def on_validation(train: Split, validation: Split, lexicon: Lexicon | None = None) -> Dataset:
    """A data set whose rows to report on are the validation rows: to choose by, not to publish."""
    none = validation.take(np.arange(0))
    return Dataset(train, none, validation, lexicon=lexicon)


def check_metrics(metrics: Any, data: Dataset) -> dict[str, Metric]:
    """The metrics as functions; unknown names, and names that the data do not allow, are errors."""
    if isinstance(metrics, Mapping):
        return dict(metrics)
    names: Iterable[str] = (metrics,) if isinstance(metrics, str) else metrics
    lacking = set() if data.train.y is not None else set(TASK_METRICS)
    lacking |= set() if data.lexicon is not None else {"words"}
    chosen = {}
    for name in names:
        if name not in METRICS:
            near = get_close_matches(str(name), METRICS, n=2)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ValueError(
                f"Got metric {name!r}, but expected some of {', '.join(METRICS)}.{hint}"
            )
        if name in lacking:
            raise ValueError(
                f"Got metric {name!r}, but the data {data.name!r} have no {_NEEDS[name]}."
            )
        chosen[name] = METRICS[name]
    return chosen


def erased(eraser: Callable[[Any], Any], data: Dataset) -> Dataset:
    """All rows of a data set after erasure, and its lexicon."""

    def apply(split: Split) -> Split:
        return replace(split, X=np.asarray(eraser(split.X))) if len(split) else split

    lexicon = data.lexicon
    if lexicon is not None:
        lexicon = Lexicon(lexicon.words, np.asarray(eraser(lexicon.X)))
    train, validation, test = (apply(split) for split in data)
    return Dataset(train, validation, test, data.name, lexicon)
