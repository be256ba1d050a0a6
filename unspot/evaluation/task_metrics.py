"""The rows of an evaluation about the downstream task: accuracy and fairness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspot.dataset import Dataset
from unspot.evaluation.fairness import Fairness
from unspot.evaluation.problem import (
    Finding,
    Metric,
    Problem,
    learned_nothing,
    mean_value,
    one_row,
)
from unspot.evaluation.results import Row, Value
from unspot.labels import encode

__all__ = ["TASK_METRICS", "task", "task_fairness", "task_linear"]


def task_linear(problem: Problem) -> Finding:
    """The task by logistic regression that is fitted to the end: what a user would train.

    The paper's network stops after 20 passes, which few rows leave unfinished.
    """
    from unspot.evaluation.attackers import attack

    def accuracy(data: Dataset) -> Value:
        rows = (data.train.X, problem.train.y, data.test.X, problem.test.y)
        (found,) = attack(
            *rows, attackers=["logistic"], random_state=problem.random_state, every_class=False
        )
        return Value(found.accuracy)

    too_few = _too_few_to_learn(problem.train.y)
    before, after = (None, None) if too_few else problem.on_both(accuracy)
    note = "what erasure costs the task: a logistic regression, fitted to the end."
    note = f"undefined: {too_few}" if too_few else note
    label = "Task accuracy, logistic"
    return one_row("task_linear", label, "share", before, after, "higher", note)


def task(problem: Problem) -> Finding:
    before, after = (_accuracy(side) for side in problem.task_fairness)
    note = "a_y. The network stops after 20 passes: with few rows, see the logistic regression."
    note += learned_nothing(before, problem.test.y)
    label = "Task accuracy, paper's MLP"
    return one_row("task", label, "share", before, after, "higher", note)


def task_fairness(problem: Problem) -> Finding:
    sides = problem.task_fairness
    who = "The paper's MLP, whose predictions these are,"
    note = sides[1][0].note + learned_nothing(_accuracy(sides[0]), problem.test.y, who)
    note = note.strip()

    def row(key: str, label: str, of: Callable[[Fairness], float | None]) -> Row:
        before, after = (mean_value([of(f) for f in side]) for side in sides)
        missing = "undefined: too few labels, or no variation." if after is None else ""
        return Row(key, label, "", before, after, "lower", missing or note)

    rows = (
        row("tpr_gap", "TPR gap, RMS", lambda f: f.rms_gap),
        row("tpr_gap_correlation", "σ of TPR gap and share", lambda f: f.correlation),
        row("demographic_parity", "Demographic parity", lambda f: f.demographic_parity),
        row("equalised_odds", "Equalised odds gap", lambda f: f.equalised_odds),
    )
    return Finding(rows, {"gaps": _gaps(*sides)})


#: By their names in ``evaluate``: those that need labels of a task.
TASK_METRICS: dict[str, Metric] = {
    "task_linear": task_linear,
    "task": task,
    "fairness": task_fairness,
}


def _too_few_to_learn(y: Any) -> str:
    """Why nothing can be learned from these labels of the task; empty if it can."""
    from unspot.evaluation.attackers import MIN_OF_A_CLASS, rows_needed

    labels = encode(y, name="y")
    if labels.counts.min() < MIN_OF_A_CLASS:
        return "a label has too few rows to learn from. Merge it with another."
    needed = rows_needed(len(labels.classes))
    if len(labels) < needed:
        return f"{len(labels)} train rows, where {len(labels.classes)} labels need {needed}."
    return ""


def _accuracy(side: Sequence[Fairness]) -> Value | None:
    return mean_value(found.accuracy for found in side)


def _gaps(before: Sequence[Fairness], after: Sequence[Fairness]) -> list[dict[str, Any]]:
    """Mean gaps over seeds, a record for each class and label."""

    def gap(side: Sequence[Fairness], c: Any, y: Any) -> float | None:
        value = mean_value(f.gaps[c][y] for f in side)
        return None if value is None else value.mean

    return [
        {
            "class": str(c),
            "label": str(y),
            "share": share,
            "before": gap(before, c, y),
            "after": gap(after, c, y),
        }
        for c, shares in after[0].shares.items()
        for y, share in shares.items()
    ]
