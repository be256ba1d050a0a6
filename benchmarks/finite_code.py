"""The price of a finite code: bounds for every classifier, and neighbours kept, by cells.

The bundled words, after a cascade of rank 50 and before it. The code is fitted on the train rows;
bounds and neighbours are of the test rows. Beside it what attackers make of the same code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unspot import LEOPARD, Cascade
from unspot.datasets import load_glove_gender
from unspot.evaluation import FiniteCode, attack, neighbour_overlap

CELLS = (4, 8, 16, 32, 64, 128, 256)


def run() -> dict[str, Any]:
    """Advantages over guessing (1/3) as shares; A_50% against the original rows."""
    data = load_glove_gender()
    cascade = Cascade(LEOPARD(rank=50, max_rows=1500, random_state=0))
    eraser = cascade.fit(data.train.X, data.train.z)
    figures: dict[str, Any] = {}
    for name, erase in {"cascade": eraser.transform, "raw": np.asarray}.items():
        rows = {split: erase(getattr(data, split).X) for split in ("train", "validation", "test")}
        kept = neighbour_overlap(data.test.X, rows["test"], max_queries=500)
        figures[f"{name}, no code"] = {"A_50": kept}
        for n_cells in CELLS:
            code = FiniteCode(n_cells, random_state=0).fit(rows["train"], data.train.z)
            bound = code.bound(rows["test"], data.test.z)
            figures[f"{name}, {n_cells} cells"] = {
                "upper_bound": bound.upper_bound,
                "best on these rows": bound.advantage,
                "attackers": _attacked(code, rows, data),
                "A_50": neighbour_overlap(
                    data.test.X, code.transform(rows["test"]), max_queries=500
                ),
                "test_rows": bound.n_rows,
            }
    return figures


def _attacked(code: FiniteCode, rows: dict[str, Any], data: Any) -> float:
    results = attack(
        np.eye(code.n_cells)[code.cells(rows["validation"])],
        data.validation.z,
        np.eye(code.n_cells)[code.cells(rows["test"])],
        data.test.z,
        attackers=["logistic"],
    )
    return max(result.advantage for result in results)
