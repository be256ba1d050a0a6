"""Evidence for the defaults: metric, preservation and start on three real data sets.

Fits cascaded L̄EOPARD at a few ranks. Measures the strongest of the quick attackers, which learn
from validation rows and are judged on test rows, the paper's probe, the neighbours that are kept
and, if there is one, the task. GloVe is in the package. The two sets of sentence vectors are
research data and are not; they are read from the folder ``--data``.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from unspot import LEACE, LEOPARD, Cascade, Dataset
from unspot.datasets import load_glove_gender
from unspot.evaluation import attack, neighbour_overlap, variance_kept
from unspot.lab.probes import probe_accuracy

RESULTS = Path(__file__).parent / "results" / "choosing.json"
RANKS = {"glove": (50,), "tweets": (150,), "bios": (150,)}
SETTINGS: list[dict[str, Any]] = [
    *(
        {"metric": metric, "preserve": preserve, "init": init}
        for metric in ("euclidean", "whitened")
        for preserve, init in ((0.0, "moments"), (0.3, "pca"), (1.0, "pca"))
    ),
    {"metric": "euclidean", "preserve": 0.0, "init": "identity"},
    {"metric": "euclidean", "preserve": 0.0, "init": "pca"},
    {"metric": "euclidean", "preserve": 0.3, "init": "moments"},
]


def run(folder: Path, seeds: int = 2) -> list[dict[str, Any]]:
    """Measure every data set, rank, setting and seed that is not in the result file yet."""
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    done = {_key(row) for row in rows}
    for dataset in RANKS:
        # The split of GloVe is fixed and has many rows, so one seed is enough.
        for seed in range(1 if dataset == "glove" else seeds):
            data = _load(dataset, folder, seed)
            if data is None:
                print(f"{dataset}: not in {folder}, left out")
                continue
            for rank in (None, *RANKS[dataset]):
                for setting in SETTINGS if rank else [{"metric": "LEACE alone"}]:
                    row = {"dataset": dataset, "seed": seed, "rank": rank, **setting}
                    if _key(row) not in done:
                        rows.append(row | _measure(data, row))
                        RESULTS.parent.mkdir(exist_ok=True)
                        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
                        print(json.dumps(rows[-1]), flush=True)
    return rows


def _key(row: dict[str, Any]) -> str:
    return json.dumps(
        [row.get(k) for k in ("dataset", "seed", "rank", "metric", "preserve", "init")]
    )


def _load(name: str, folder: Path, seed: int) -> Dataset | None:
    if name == "glove":
        return load_glove_gender()
    path = folder / f"{name}_minilm.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as file:
        X, z, y = file["X"].astype(np.float32), file["z"], file["y"]
    return Dataset.from_arrays(X, z, y, random_state=seed, name=name)


def _measure(data: Dataset, row: dict[str, Any]) -> dict[str, Any]:
    began = time.perf_counter()
    if row["rank"] is None:
        eraser: Any = LEACE()
    else:
        settings = {k: row[k] for k in ("metric", "preserve", "init")}
        eraser = Cascade(second=LEOPARD(rank=row["rank"], random_state=row["seed"], **settings))
    eraser.fit(data.train.X, data.train.z)
    seconds = time.perf_counter() - began
    train, unseen, test = (eraser.transform(split.X) for split in data)
    z, z_test = data.train.z, data.test.z
    results = attack(
        unseen, data.validation.z, test, z_test, budget="quick", random_state=row["seed"]
    )
    strongest = max(results, key=lambda result: result.advantage)
    measured = {
        "strongest_attacker": strongest.name,
        "advantage": strongest.advantage,
        "chance": float(np.unique(z_test, return_counts=True)[1].max() / len(z_test)),
        "paper_probe": probe_accuracy(train, z, test, z_test, seeds=3).mean,
        "a50": neighbour_overlap(data.test.X, test, k=0.5),
        "variance_kept": variance_kept(data.test.X, test),
        "seconds": round(seconds, 2),
    }
    if hasattr(eraser, "history_"):
        measured["held_out_mmd2"] = float(np.min(eraser.history_["held_out"]))
        measured["evaluations"] = int(eraser.history_["evaluations"][-1])
    if data.train.y is not None:
        y, y_test = data.train.y, data.test.y
        measured["task_accuracy"] = probe_accuracy(
            train, y, test, y_test, preset="reference", seeds=3
        ).mean
    return measured


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    run(arguments.data, arguments.seeds)
