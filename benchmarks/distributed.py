"""One step of density matching with two processes, compared with one; one thread each.

``python -m benchmarks distributed`` starts both with torchrun, in turns, on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch

from unspot.density import GaussianMixture
from unspot.projections import Objective
from unspot.scale.processes import context
from unspot.scale.shared_objective import led, shared


def run(
    rows: int = 8192,
    rank: int = 125,
    features: int = 256,
    *,
    processes: int = 2,
    steps: int = 6,
    repeats: int = 3,
) -> dict[str, Any]:
    """Time of a loss and gradient, and the difference between the results.

    Parameters
    ----------
    rows, rank, features : int
        The sizes b, r and d of the step.
    processes : int
        Number of processes to compare with one.
    steps, repeats : int
        The time of a run is that of the fastest of ``steps`` steps; the result is the median over
        ``repeats`` runs.
    """
    found: dict[int, list[dict[str, Any]]] = {1: [], processes: []}
    for _ in range(repeats):
        for count, runs in found.items():
            runs.append(_started(count, rows, rank, features, steps))
    one, many = (median(run["seconds"] for run in runs) for runs in found.values())
    first, second = found[1][0], found[processes][0]
    return {
        "rows": rows,
        "rank": rank,
        "features": features,
        "processes": processes,
        "threads_of_each": 1,
        "seconds_of_one": one,
        "seconds_of_many": many,
        "times_faster": one / many,
        "value_relative_difference": abs(first["value"] / second["value"] - 1),
        "gradient_relative_difference": abs(first["gradient"] / second["gradient"] - 1),
        "target": "times_faster ≥ 1.6 with two processes",
    }


def _started(processes: int, *sizes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), "-m", "benchmarks.distributed"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *map(str, sizes)], capture_output=True, text=True, check=True, env=environment
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def work(rows: int, rank: int, features: int, steps: int) -> None:
    """The work of each process; the leader prints JSON."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    z = torch.arange(rows) % 2
    X = torch.randn(rows, features, generator=g) + 0.1 * z[:, None]
    V = torch.linalg.qr(torch.randn(features, rank, generator=g))[0]
    with context(timeout=120) as team:
        objectives = shared(team, Objective(X, z, GaussianMixture.paper()))
        outcome = led(team, objectives, lambda: _steps(objectives[0], V, steps))
    if team.leads:
        print(json.dumps(outcome))


def _steps(objective: Any, V: torch.Tensor, steps: int) -> dict[str, float]:
    value, gradient = objective(V)  # a first step, not measured: it allocates memory
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        value, gradient = objective(V)
        times.append(time.perf_counter() - began)
    return {"seconds": min(times), "value": value, "gradient": float(gradient.double().norm())}


if __name__ == "__main__":
    work(*map(int, sys.argv[1:]))
