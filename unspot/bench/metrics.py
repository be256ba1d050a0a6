"""What the benchmark measures: the metrics of ``evaluate``, and some of its own."""

from __future__ import annotations

import numpy as np

from unspot.data.dataset import Dataset
from unspot.evaluation.metrics import METRICS, lacking, one_row
from unspot.evaluation.problem import Finding, MetricFunction, Problem
from unspot.evaluation.results import Value

__all__ = ["bench_metrics", "probe_binary", "probe_reference"]

#: The class that the paper leaves out where it treats gender as binary.
NEUTRAL = "neutral"


def probe_reference(problem: Problem) -> Finding:
    """The probe behind the paper's tables: scikit-learn's defaults, 20 iterations."""
    value = _accuracy(problem, np.ones(len(problem.train), bool), np.ones(len(problem.test), bool))
    return one_row("probe_reference", None, value)


def probe_binary(problem: Problem) -> Finding:
    """The same probe on two of the three classes, male and female."""
    value = _accuracy(problem, problem.train.z != NEUTRAL, problem.test.z != NEUTRAL)
    return one_row("probe_binary", None, value)


def bench_metrics(data: Dataset) -> dict[str, MetricFunction]:
    """All that the paper reports and the data allow, and the strongest attacker."""
    names = (
        *("attack", "probe", "mdl", "mdl_paper", "neighbours", "neighbours_paper", "variance"),
        *("words", "task_linear", "task", "fairness"),
    )
    missing = lacking(data)
    chosen = {name: METRICS[name] for name in names if name not in missing}
    chosen["probe_reference"] = probe_reference
    if NEUTRAL in data.train.z and len(np.unique(data.train.z)) == 3:
        chosen["probe_binary"] = probe_binary
    return chosen


def _accuracy(
    problem: Problem,
    train: np.ndarray[tuple[int], np.dtype[np.bool_]],
    test: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> Value:
    from unspot.evaluation.probes import probe_accuracy

    scores = probe_accuracy(
        problem.after.train.X[train],
        problem.train.z[train],
        problem.after.test.X[test],
        problem.test.z[test],
        preset="reference",
        seeds=problem.seeds,
        random_state=problem.random_state,
    )
    return Value(scores.mean, scores.spread)
