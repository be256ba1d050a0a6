"""Transport before projections: what attackers find on rows that no eraser has seen.

Fits today's cascade (LEACE, then L̄EOPARD), transport, and transport with LEACE and a projection
behind it, at a few ranks. The attackers of budget "standard" learn from validation rows and are
judged on test rows, both unseen by the eraser. Beside the strongest: the neighbours that are kept
and, if there is one, the task. The seed splits the rows and starts fits and attackers. GloVe is in
the package. The two sets of sentence vectors are research data and are
not; they are read from the folder ``--data``.

Run: python -m benchmarks.transport --data FOLDER --seeds 3. Rows in the result file are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unspot import LEACE, LEOPARD, Cascade, Dataset
from unspot.datasets import load_glove_gender
from unspot.erasers import PCAProjection, Transport
from unspot.evaluation import evaluate
from unspot.evaluation.measure import attack_splits, erased_split

RESULTS = Path(__file__).parent / "results" / "transport.json"
RANKS = {"glove": (90, 78, 60, 50, 30), "tweets": (300, 160, 96), "bios": (300, 200, 100)}
FILES = {"tweets": "tweets_minilm.npz", "bios": "bios_minilm.npz"}


def _first() -> Cascade:
    return Cascade(Transport(), LEACE(method="orthogonal"))


def _leopard(rank: int | None, seed: int) -> LEOPARD:
    return LEOPARD(rank, random_state=seed)


#: By rank and seed. The first three have no rank.
METHODS: dict[str, Callable[[int | None, int], Any]] = {
    "leace": lambda r, seed: LEACE(method="orthogonal"),
    "transport": lambda r, seed: Transport(),
    "transport:leace": lambda r, seed: _first(),
    "transport:pca": lambda r, seed: Cascade(_first(), PCAProjection(r)),
    "transport:leopard": lambda r, seed: Cascade(_first(), _leopard(r, seed)),
    "cascade": lambda r, seed: Cascade(second=_leopard(r, seed)),
}
RANKLESS = ("leace", "transport", "transport:leace")


def run(folder: Path, seeds: int, names: list[str], methods: list[str]) -> list[dict[str, Any]]:
    """Measure every data set, method, rank and seed."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    done = {_key(row) for row in rows}
    for name in names:
        for seed in range(seeds):
            data = _load(name, folder, seed)
            if data is None:
                print(f"{name}: not in {folder}, left out")
                break
            for method in methods:
                for rank in (None,) if method in RANKLESS else RANKS[name]:
                    row = {"dataset": name, "method": method, "rank": rank, "seed": seed}
                    if _key(row) in done:
                        continue
                    rows.append(row | _measure(METHODS[method](rank, seed), data, seed))
                    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
                    print(json.dumps(rows[-1]), flush=True)
    return rows


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset", "method", "rank", "seed"))


def _load(name: str, folder: Path, seed: int) -> Dataset | None:
    if name == "glove":
        words = load_glove_gender()
        X, z = (np.concatenate([getattr(part, key) for part in words]) for key in "Xz")
        return Dataset.from_arrays(X, z, random_state=seed, name=name)
    path = folder / FILES[name]
    if not path.exists():
        return None
    with np.load(path) as file:
        X, z, y = (file[part] for part in "Xzy")
    return Dataset.from_arrays(X.astype(np.float32), z, y, random_state=seed, name=name)


def _measure(eraser: Any, data: Dataset, seed: int) -> dict[str, Any]:
    started = time.process_time()
    fitted = eraser.fit(data.train.X, data.train.z)
    seconds = time.process_time() - started
    unseen = (erased_split(fitted, split) for split in (data.validation, data.test))
    attacked = attack_splits(*unseen, random_state=seed)
    kept = evaluate(
        fitted, data, metrics=["neighbours", *(["task_linear"] if data.test.y is not None else [])]
    )
    return {
        "attacker": attacked.strongest.name,
        "accuracy": round(float(attacked.strongest.balanced_accuracy), 4),
        "attackers": {r.name: round(float(r.balanced_accuracy), 4) for r in attacked.results},
        **{row.key: round(row.after.mean, 4) for row in kept if row.after},
        "processor seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(RANKS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    options = parser.parse_args()
    run(options.data, options.seeds, options.sets, options.methods)
