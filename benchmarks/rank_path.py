"""A rank path against fitting every rank from scratch: cost, and held-out MMD² at every rank.

Both are fitted on the same training rows with the same seed, and measured on the same validation
rows, which neither has seen. Cost is counted in evaluations of loss and gradient, in their work (an
evaluation is O(b²r) for b rows), and in seconds.

    python benchmarks/rank_path.py [--max-rows 8192] [--ranks 90,80,…] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

import unspot.projections.objective as objective_module
from unspot import LEOPARD, Cascade, rank_path
from unspot.datasets import load_glove_gender
from unspot.density import mmd2


class Counter:
    """Counts the evaluations of loss and gradient, and their work b²r."""

    def __init__(self) -> None:
        self.calls, self.cost = 0, 0.0
        self._inner = objective_module.mmd2_and_grad
        objective_module.mmd2_and_grad = self

    def __call__(self, Y: Any, *args: Any, **options: Any) -> Any:
        self.calls += 1
        self.cost += float(len(Y)) ** 2 * Y.shape[1]
        return self._inner(Y, *args, **options)

    def take(self) -> tuple[int, float]:
        taken = self.calls, self.cost
        self.calls, self.cost = 0, 0.0
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-rows", type=int, default=8192)
    parser.add_argument("--ranks", default="90,80,70,60,50,40,30,20,10")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    ranks = [int(rank) for rank in arguments.ranks.split(",")]
    counter = Counter()
    results = {}
    for name, wrap in (("standard", lambda e: e), ("cascaded", Cascade)):
        results[name] = compare(name, wrap, ranks, arguments, counter)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


def compare(name: str, wrap: Any, ranks: list[int], arguments: Any, counter: Counter) -> Any:
    data = load_glove_gender()
    settings = {"max_rows": arguments.max_rows, "random_state": arguments.seed}
    started = time.perf_counter()
    path = rank_path(wrap(LEOPARD(**settings)), data, ranks)
    warm = (*counter.take(), time.perf_counter() - started)
    scratch = []
    for rank in ranks:
        started = time.perf_counter()
        fitted = wrap(LEOPARD(rank, **settings)).fit(data.train.X, data.train.z)
        scratch.append((fitted.eraser_, time.perf_counter() - started))
    calls, cost = counter.take()
    held_out = [on(data.validation, eraser) for eraser, _ in scratch]
    print(f"{name}: held-out MMD² × 1000 on {len(data.validation)} validation rows")
    print("  rank     path  scratch")
    rows = []
    for point, loss in zip(path, held_out, strict=True):
        mine = on(data.validation, point.eraser)
        rows.append({"rank": point.rank, "path": mine, "scratch": loss})
        print(f"  {point.rank:4}  {1e3 * mine:7.2f}  {1e3 * loss:7.2f}")
    seconds = sum(s for _, s in scratch)
    print(
        f"  scratch / path: evaluations {calls / warm[0]:.1f}, work "
        f"{cost / warm[1]:.1f}, seconds {seconds / warm[2]:.1f}  ({seconds:.0f} s, {warm[2]:.0f} s)"
    )
    return {
        "ranks": rows,
        "evaluations": {"path": warm[0], "scratch": calls},
        "work": {"path": warm[1], "scratch": cost},
        "seconds": {"path": warm[2], "scratch": seconds},
    }


def on(split: Any, eraser: Any) -> float:
    codes = np.unique(split.z, return_inverse=True)[1]
    return float(mmd2(torch.from_numpy(np.array(eraser.reduce(split.X))), codes))


if __name__ == "__main__":
    main()
