"""What an informed attacker gains, who erases raw rows that a teacher has labelled.

Advantages over guessing on the test rows, of attackers that learn from the same labelled rows. The
informed ones have the train rows too, without labels. ``labelled`` has their labels as well: the
most that labels for these rows could give. ``reduced`` sees the coordinates of the kept subspace.
And one student learns from the labels of the labelled rows, or from a teacher's probabilities.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
            "by labels": _student(data, validation, test, soft=False),
            "by a teacher's probabilities": _student(data, validation, test, soft=True),
        }
    return figures


def _student(data: Dataset, erased: Any, test: Any, *, soft: bool) -> float:
    """The advantage of a ridge regression on kernel features, of labels or of probabilities.

    The probabilities of a row are those of a teacher that saw other raw rows.
    """
    known = data.validation
    classes, codes = np.unique(known.z, return_inverse=True)
    target = np.eye(len(classes))[codes]
    if soft:
        teacher = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        target = cross_val_predict(teacher, known.X, codes, method="predict_proba")
    student = make_pipeline(
        StandardScaler(),
        Nystroem(gamma=1 / erased.shape[1], n_components=800, random_state=0),
        RidgeCV(np.logspace(-3, 2, 6)),
    )
    student.fit(erased, target)
    shares = np.bincount(codes) / len(codes)
    guesses = (student.predict(test) - shares).argmax(axis=1)
    return balanced_accuracy_score(data.test.z, classes[guesses]) - 1 / len(classes)


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
