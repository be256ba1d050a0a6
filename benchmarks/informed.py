"""What an informed attacker gains, who erases raw rows that a teacher has labelled.

Advantages over guessing on the test rows, of attackers that learn from the same labelled rows. The
informed ones have the train rows too, without labels. ``labelled`` has their labels as well: the
most that labels for these rows could give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unspot import LEOPARD, Cascade, Dataset
from unspot.datasets import load_glove_gender
from unspot.evaluation import attack, informed_attack

#: Sentence vectors; not in the package, and used where they are.
SENTENCES = Path(__file__).parent.parent.parent / "shared" / "data" / "tweets_minilm.npz"


def run() -> dict[str, Any]:
    """The strongest attacker of each, by name and advantage."""
    figures: dict[str, Any] = {}
    for name, data, rank in _datasets():
        cascade = Cascade(LEOPARD(rank=rank, max_rows=1500, random_state=0))
        eraser = cascade.fit(data.train.X, data.train.z)
        train, validation, test = (eraser.transform(split.X) for split in data)
        both = np.concatenate([validation, train])
        z = np.concatenate([data.validation.z, data.train.z])
        figures[f"{name}, rank {rank}"] = {
            "rows": [len(split) for split in data],
            "uninformed": _best(attack(validation, data.validation.z, test, data.test.z)),
            "reduced": _best(
                attack(
                    eraser.reduce(data.validation.X),
                    data.validation.z,
                    eraser.reduce(data.test.X),
                    data.test.z,
                )
            ),
            "informed": _best(informed_attack(eraser, data)),
            "labelled": _best(attack(both, z, test, data.test.z)),
        }
    return figures


def _datasets() -> list[tuple[str, Dataset, int]]:
    found = [("words", load_glove_gender(), 50)]
    if SENTENCES.exists():
        with np.load(SENTENCES) as file:
            data = Dataset.from_arrays(file["X"].astype(np.float64), file["z"], random_state=0)
        found.append(("tweets", data, 100))
    else:
        print("  tweets: not here, left out")
    return found


def _best(results: Any) -> dict[str, Any]:
    best = max(results, key=lambda result: result.advantage)
    return {"attacker": best.name, "advantage": best.advantage, "n_rows": best.n_rows}
