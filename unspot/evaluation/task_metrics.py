"""The rows of an evaluation about the downstream task: accuracy and fairness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspot.evaluation.fairness import Fairness
from unspot.evaluation.problem import Finding, Problem, mean_value, one_row
from unspot.evaluation.results import Row

__all__ = ["task", "task_fairness"]


def task(problem: Problem) -> Finding:
    both = [mean_value([f.accuracy for f in side]) for side in problem.task_fairness]
    note = "the paper's MLP on the task (a_y)."
    return one_row("task", "Task accuracy", "share", both[0], both[1], "higher", note)


def task_fairness(problem: Problem) -> Finding:
    sides = problem.task_fairness
    note = sides[1][0].note

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
