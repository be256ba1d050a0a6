"""Ten seeds of ``unspot.erase`` on the same 5,000 rows: how many choices, leaks and bounds differ?

The seed decides which rows fit, choose and judge, and where searches start. Words are in the
package; tweets (with their sentiment as the task) are read from the folder in UNSPOT_DATA, and left
out without it. Every eraser is then attacked (budget "quick") on the same other rows, by attackers
that learn from one half of them.

Run: UNSPOT_DATA=FOLDER python -m benchmarks seeds
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

from benchmarks.choice import as_erase_reads, divided, load, measure
from unspot import erase
from unspot.machine import one_thread

SETS = (("words", 5000, False), ("tweets", 4500, True))
SEEDS = 10


def run() -> dict[str, Any]:
    """Choose with every seed, and sum up."""
    figures = {}
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, n_rows, with_task in SETS:
            if (rows := load(name, 0)) is None:
                print(f"  {name}: not in UNSPOT_DATA, left out", flush=True)
                continue
            if not with_task:
                rows.pop("task", None)
            mine, others = divided(rows, n_rows, 0)
            fresh = as_erase_reads(others)
            runs = [_one(mine, fresh, seed) for seed in range(SEEDS)]
            figures[f"{name}, {n_rows} rows"] = _summary(runs)
    return figures


def _one(rows: dict[str, Any], fresh: Any, seed: int) -> dict[str, Any]:
    started = time.process_time()
    result = erase(**rows, random_state=seed)
    seconds = time.process_time() - started
    found = measure(result.eraser, fresh)
    run = {
        "chosen": result.chosen.title,
        "bound": round(result.certificate.upper_bound, 4),
        "leak on other rows": found["leak"],
        "utility on other rows": found["utility"],
        "processor seconds": round(seconds, 1),
    }
    print(f"  {run}", flush=True)
    return run


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = {key: [run[key] for run in runs] for key in runs[0] if key != "chosen"}
    spread = {key: [round(float(f(v)), 4) for f in (np.mean, np.std)] for key, v in numbers.items()}
    return {"choices": dict(Counter(run["chosen"] for run in runs)), **spread, "runs": runs}
