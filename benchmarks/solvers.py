"""The manifold solver, compared with the paper's at equal held-out loss, on the bundled GloVe data.

How many evaluations of loss and gradient does the manifold solver need to reach the held-out
MMD² (on validation rows) that Algorithm 1 has after 1000 full-batch epochs? Both solvers use all
training rows. The comparison is made for the standard and the cascaded method, at two ranks. It
takes long, because each cell has 1000 epochs. Algorithm 1 is not run again for a cell that is
already in the result file.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unspot.data.statistics import ClassStatistics
from unspot.datasets import load_glove_gender
from unspot.erasers.leace import LEACE
from unspot.leopard import (
    GaussianMixture,
    ManifoldSolver,
    Objective,
    PairWeights,
    PaperSolver,
    mmd2,
    nearest_projector,
    start,
)

RESULTS = Path(__file__).parent / "results" / "solvers.json"


def run(ranks: tuple[int, ...] = (50, 25), epochs: int = 1000) -> dict[str, Any]:
    """Measure evaluations and seconds of both solvers, per cell."""
    cells = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for rank in ranks:
        for cascaded in (False, True):
            name = f"{'cascaded' if cascaded else 'standard'} r={rank} epochs={epochs}"
            cell = cells.setdefault(name, {})
            objective, held_out, first = _problem(cascaded, rank)
            if "paper" not in cell:
                cell["paper"] = _paper(objective, held_out, rank, epochs)
            cell["manifold"] = _manifold(objective, held_out, first, cell["paper"]["held_out"])
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(cells, indent=1) + "\n")
            print(name, json.dumps(cell), flush=True)
    return cells


def _problem(cascaded: bool, rank: int) -> tuple[Objective, Any, dict[str, torch.Tensor]]:
    data = load_glove_gender()
    classes, codes = np.unique(data.train.z, return_inverse=True)
    X, X_held = data.train.X, data.validation.X
    if cascaded:
        U = LEACE(method="orthogonal").fit(X, data.train.z).eraser_.U
        X, X_held = (X @ U).astype(np.float32), (X_held @ U).astype(np.float32)
    statistics = ClassStatistics.from_rows(X, codes, len(classes))
    mean = statistics.mean.astype(np.float32)
    kernel = GaussianMixture.paper()
    objective = Objective(torch.from_numpy(X - mean), PairWeights.between(codes), kernel)
    rows, z = torch.from_numpy(X_held - mean), np.searchsorted(classes, data.validation.z)
    first = {
        init: objective.X.new_tensor(start(init, statistics, rank))
        for init in ("pca", "moments", "identity")
    }
    return objective, lambda V: float(mmd2(rows @ V, z, kernel)), first


def _paper(objective: Objective, held_out: Any, rank: int, epochs: int) -> dict[str, float]:
    began = time.perf_counter()
    U = torch.eye(objective.X.shape[1], rank)
    U, _ = PaperSolver(epochs=epochs).minimise(objective, U, rng=np.random.default_rng(0))
    V = torch.from_numpy(nearest_projector(U.numpy())).float()
    return {
        "held_out": held_out(V),
        "evaluations": epochs,
        "seconds": round(time.perf_counter() - began, 1),
    }


def _manifold(
    objective: Objective, held_out: Any, first: dict[str, torch.Tensor], target: float
) -> dict[str, Any]:
    found: dict[str, Any] = {"target": target}
    for init, V in first.items():
        solver = ManifoldSolver(max_evaluations=120, patience=20)
        _, history = solver.minimise(objective, V, held_out=held_out)
        reached = next((i for i, h in enumerate(history.held_out) if h <= target), None)
        found[init] = {
            "held_out": min(history.held_out),
            "evaluations_to_target": None if reached is None else history.evaluations[reached],
            "seconds_to_target": None if reached is None else round(history.seconds[reached], 1),
            "evaluations": history.evaluations[-1],
        }
    return found


if __name__ == "__main__":
    run()
