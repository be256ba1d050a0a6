"""A rank path, compared with separate fits of every rank: cost, and held-out MMD² at every rank.

Both are fitted on the same training rows with the same seeds, and measured on the same validation
rows, which neither has seen. The seed decides which rows a fit uses, and changes the held-out loss
by a tenth or more. Ranks are therefore compared by the mean over seeds. Cost is the number of
evaluations of loss and gradient, their work (an evaluation is O(b²r) for b rows), and seconds.

    python -m benchmarks rank_path
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import unspot.leopard.objective as objective_module
from unspot import LEOPARD, Cascade, rank_path
from unspot.datasets import load_glove_gender
from unspot.leopard import ManifoldSolver, mmd2


class Counter:
    """Count evaluations of loss and gradient, and sum their work b²r."""

    def __init__(self) -> None:
        self.calls, self.cost = 0, 0.0
        self._inner = objective_module.discrepancy_and_grad
        objective_module.discrepancy_and_grad = self

    def __call__(self, Y: Any, *args: Any, **options: Any) -> Any:
        self.calls += 1
        self.cost += float(len(Y)) ** 2 * Y.shape[1]
        return self._inner(Y, *args, **options)

    def take(self) -> tuple[int, float]:
        taken = self.calls, self.cost
        self.calls, self.cost = 0, 0.0
        return taken


def run(
    max_rows: int = 8192,
    ranks: tuple[int, ...] = (90, 80, 70, 60, 50, 40, 30, 20, 10),
    *,
    seeds: int = 3,
) -> dict[str, Any]:
    """Compare both, for the standard and the cascaded method.

    Parameters
    ----------
    max_rows : int
        The row budget of every fit.
    ranks : tuple of int
        In decreasing order.
    seeds : int
        Number of fits of each.
    """
    counter, solver = Counter(), ManifoldSolver(max_rows=max_rows)
    found: dict[str, Any] = {"max_rows": max_rows, "seeds": seeds}
    for name, wrap in (("standard", lambda e: e), ("cascaded", lambda e: Cascade(second=e))):
        runs = [
            compare(wrap, list(ranks), {"solver": solver, "random_state": seed}, counter)
            for seed in range(seeds)
        ]
        found[name] = summary(list(ranks), runs)
    found["target"] = "times_cheaper ≥ 3, ranks_not_worse all of them"
    return found


def compare(wrap: Any, ranks: list[int], settings: dict[str, Any], counter: Counter) -> Any:
    """Measure losses at every rank and the cost, for the path and separate fits."""
    data = load_glove_gender()
    started = time.perf_counter()
    path = rank_path(wrap(LEOPARD(**settings)), data, ranks)
    warm = (*counter.take(), time.perf_counter() - started)
    scratch, started = [], time.perf_counter()
    for rank in ranks:
        scratch.append(wrap(LEOPARD(rank, **settings)).fit(data.train.X, data.train.z).eraser_)
    cold = (*counter.take(), time.perf_counter() - started)
    return {
        "path": [on(data.validation, point.eraser) for point in path],
        "scratch": [on(data.validation, eraser) for eraser in scratch],
        "cost": {
            name: {"path": warm[i], "scratch": cold[i]}
            for i, name in enumerate(("evaluations", "work", "seconds"))
        },
    }


def summary(ranks: list[int], runs: list[Any]) -> dict[str, Any]:
    """Compute means over the seeds, and ranks that are worse by more than their error."""
    rows = []
    for i, rank in enumerate(ranks):
        values = {way: [run[way][i] for run in runs] for way in ("path", "scratch")}
        path, scratch = (float(np.mean(v)) for v in values.values())
        error = float(np.sqrt(sum(np.var(v, ddof=1) / len(v) for v in values.values())))
        rows.append(
            {"rank": rank, "path": path, "scratch": scratch, "error": error, "by_seed": values}
        )
    total = {
        name: {way: sum(run["cost"][name][way] for run in runs) for way in ("path", "scratch")}
        for name in runs[0]["cost"]
    }
    return {
        "times_cheaper": {name: cost["scratch"] / cost["path"] for name, cost in total.items()},
        "ranks_lower": sum(row["path"] <= row["scratch"] for row in rows),
        "ranks_not_worse": sum(row["path"] <= row["scratch"] + row["error"] for row in rows),
        "ranks": rows,
        **total,
    }


def on(split: Any, eraser: Any) -> float:
    codes = np.unique(split.z, return_inverse=True)[1]
    return float(mmd2(torch.from_numpy(np.array(eraser.reduce(split.X))), codes))
