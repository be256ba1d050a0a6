"""The leak on rows that the eraser has not seen, against the rows of the fit.

Cascaded L̄EOPARD on 2,500 to 40,000 rows; attackers of budget standard learn on 12,000 other rows,
and are judged on 8,000. With ``max_rows=10_000`` only a sample of the 40,000 is looked at.

Data: the 66,000 most frequent words of a GloVe file (``words`` and ``X`` in the .npz that the
environment variable UNSPOT_GLOVE names), in three classes: the lowest, the middle and the highest
third by their cosine with the gender direction (``glove``), or by their score along it, in which
long vectors count more (``scores``). And a law whose best attacker is known: two classes of
Gaussians that differ only in the variances of a rotated half of the dimensions.

``SEEN`` is a fit on all rows, the attackers' and the judge's too. What the attackers have after
``40000 rows`` and not after it is no fault of the search: 40,000 rows do not tell more.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot import LEOPARD, Cascade
from unspot.evaluation import attack, neighbour_overlap
from unspot.lab.glove import cosines, gender_direction
from unspot.leopard import ManifoldSolver

RESULTS = Path(__file__).parent / "results" / "unseen.json"
TEST, ATTACK = 8_000, 12_000
SIZES = (2_500, 5_000, 10_000, 20_000, 40_000)
SAMPLE = "40000 rows, max_rows=10000"
SEEN = "60000 rows, all seen"
DATA = ("glove", "scores", "gaussians")


def run(seeds: int = 3) -> dict[str, Any]:
    """Measure every data set, seed and number of rows that is not in the result file."""
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cells: dict[str, Any] = found.get("cells", {})
    # What the comparison needs comes first, so that a run can be cut short.
    sizes = (f"{n} rows" for n in (2_500, 10_000, 5_000, 20_000))
    for label in (SAMPLE, "40000 rows", SEEN, *sizes):
        for name, seed in itertools.product(DATA, range(seeds)):
            key = f"{name} seed={seed} {label}"
            if key in cells or (data := _rows_of(name, seed)) is None:
                continue
            cells[key] = _measure(*data, label)
            print(f"  {key}: {json.dumps(cells[key])}", flush=True)
            RESULTS.write_text(json.dumps({"cells": cells}, indent=1) + "\n")
    return {**summary(cells), "cells": cells}


def summary(cells: dict[str, Any]) -> dict[str, Any]:
    """Compute ratios of all rows to the sample, and the exponent of the leak."""
    figures: dict[str, Any] = {}
    for name in DATA:
        labels = (SAMPLE, *(f"{n} rows" for n in SIZES))
        mean = {label: mean_cell(cells, name, label) for label in labels}
        whole, sample = mean["40000 rows"], mean[SAMPLE]
        if not whole or not sample:
            continue
        figures |= {
            f"{name}: advantage of the sample": sample["advantage"],
            f"{name}: advantage of all rows": whole["advantage"],
            f"{name}: ratio": whole["advantage"] / sample["advantage"],
            f"{name}: advantage of the sample, without neighbours": sample["others"],
            f"{name}: advantage of all rows, without neighbours": whole["others"],
            f"{name}: ratio, without neighbours": whole["others"] / sample["others"],
            f"{name}: A_50% of the sample": sample["neighbours"],
            f"{name}: A_50% of all rows": whole["neighbours"],
            f"{name}: ratio of CPU time": whole["seconds"] / sample["seconds"],
        }
        if seen := mean_cell(cells, name, SEEN):
            figures[f"{name}: advantage if all rows are seen"] = seen["advantage"]
            figures[f"{name}: advantage if all are seen, without neighbours"] = seen["others"]
        points = [(n, mean[f"{n} rows"]) for n in SIZES if mean[f"{n} rows"]]
        if len(points) > 2:
            x = np.log([n for n, _ in points])
            for kind in ("advantage", "others"):
                y = np.log([point[kind] for _, point in points])
                figures[f"{name}: exponent of the {kind}"] = float(np.polyfit(x, y, 1)[0])
    return figures


def mean_cell(cells: dict[str, Any], dataset: str, label: str) -> dict[str, float]:
    """Compute the mean over seeds; empty if there is none."""
    found = [c for key, c in cells.items() if key.split(" ", 2)[::2] == [dataset, label]]
    if not found:
        return {}
    names = ("advantage", "neighbours", "seconds")
    mean = {name: float(np.mean([cell[name] for cell in found])) for name in names}
    # Beside the strongest of all: nearest neighbours lose least by more rows of the fit, since
    # they read the neighbours that an eraser keeps on purpose (``benchmarks/kept_neighbours.py``).
    others = [
        max(a for name, a in cell["attackers"].items() if name != "neighbours") for cell in found
    ]
    return mean | {"others": float(np.mean(others))}


def _measure(X: NDArray[Any], z: NDArray[Any], rank: int, label: str) -> dict[str, Any]:
    n = int(label.split()[0])
    settings = {"solver": ManifoldSolver(max_rows=10_000)} if label == SAMPLE else {}
    first = TEST + ATTACK
    rows = slice(n) if label == SEEN else slice(first, first + n)
    began = time.process_time()
    eraser = Cascade(second=LEOPARD(rank, random_state=0, **settings))
    eraser.fit(X[rows], z[rows])
    seconds = time.process_time() - began
    erased = eraser.reduce(X[:first])
    results = attack(erased[TEST:], z[TEST:first], erased[:TEST], z[:TEST])
    strongest = max(results, key=lambda result: result.balanced_accuracy)
    return {
        "advantage": strongest.advantage,
        "strongest": strongest.name,
        "neighbours": neighbour_overlap(X[:TEST], erased[:TEST], max_queries=2_000),
        "seconds": seconds,
        "evaluations": int(eraser.history_["evaluations"][-1]),
        "attackers": {result.name: round(result.advantage, 4) for result in results},
    }


def _rows_of(name: str, seed: int) -> tuple[NDArray[Any], NDArray[Any], int] | None:
    return gaussians(seed) if name == "gaussians" else glove(seed, by=name)


def glove(seed: int, by: str = "glove") -> tuple[NDArray[Any], NDArray[Any], int] | None:
    """Load frequent words in three classes by gender; None without the file."""
    found = _glove_rows(seed, by)
    return None if found is None else (*found[1:], 50)


def glove_words(seed: int) -> NDArray[Any]:
    """Load the words of these rows."""
    found = _glove_rows(seed, "glove")
    return np.empty(0) if found is None else found[0]


def _glove_rows(seed: int, by: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    path = Path(os.environ.get("UNSPOT_GLOVE", "glove6B_100d_top150k_f16.npz"))
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        words, X = file["words"][:66_000], file["X"][:66_000].astype(np.float32)
    direction = gender_direction(words, X)
    order = np.argsort(X @ direction if by == "scores" else cosines(X, direction), kind="stable")
    z = np.repeat(["low", "middle", "high"], 22_000)
    shuffle = np.random.default_rng(seed).permutation(len(order))
    return words[order][shuffle], X[order][shuffle], z[shuffle]


def gaussians(seed: int, d: int = 40) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Draw two classes with variances 0.8² and 1.2² in half of the dimensions, rotated.

    The other half tells nothing: the best attacker on a projection to it has no advantage. The
    linear stage may take one dimension of it, so the rank is one less.
    """
    rng = np.random.default_rng(seed)
    n = TEST + ATTACK + max(SIZES)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d)) * np.linspace(1.5, 0.5, d)
    X[:, ::2] *= np.where(z == 1, 1.2, 0.8)[:, None]
    rotation, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return (X @ rotation).astype(np.float32), z, d // 2 - 1
