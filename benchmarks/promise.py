"""Does the bound that ``unspot.erase`` states hold for other attackers, on other rows?

Six laws of 20 columns, whose rows never end: ``erase`` gets 3,000 of them and chooses. Then
classifiers of scikit-learn with their defaults learn from as many fresh rows as the attackers of
the certificate had, and are judged on 10,000 others. The bound is broken if the best of them, or
the strongest attacker of the package on the same rows, has more. A finished run is a line of
``results/promise.jsonl`` and is not run again.

Run: python -m benchmarks promise
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from unspot import erase
from unspot.datasets.synthetic import law
from unspot.evaluation.attackers import attack

DONE = Path(__file__).parent / "results" / "promise.jsonl"
LAWS = ("variance", "xor", "ring", "mixture", "heavy", "mean")
REPETITIONS, ROWS, FEATURES, JUDGE = 10, 3000, 20, 10_000


def run() -> dict[str, Any]:
    """Count the bounds that held."""
    done = {(line["data"], line["repetition"]) for line in _lines()}
    for repetition in range(REPETITIONS):  # each law gets its first before any its second
        for name in LAWS:
            if (name, repetition) not in done:
                found = one(name, repetition)
                with DONE.open("a") as file:
                    file.write(json.dumps(found) + "\n")
                print(f"  {json.dumps(found)}", flush=True)
    return summary(_lines())


def one(name: str, repetition: int) -> dict[str, Any]:
    """Erase one draw of a law, and attack the eraser on fresh rows."""
    rows = law(name, n=2 * ROWS + JUDGE, d=FEATURES, random_state=repetition)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = erase(rows.X[:ROWS], rows.z[:ROWS], random_state=repetition)
        seconds = time.process_time() - started
        n_learn = len(result.judging) // 2
        X, z = result.eraser.transform(rows.X[ROWS:]), rows.z[ROWS:]
        learn, judge = (X[:n_learn], z[:n_learn]), (X[-JUDGE:], z[-JUDGE:])
        stock = {}
        for model in models():
            guesses = make_pipeline(StandardScaler(), model).fit(*learn).predict(judge[0])
            chance = 1 / len(set(z))
            stock[type(model).__name__] = balanced_accuracy_score(judge[1], guesses) - chance
        strongest = max(attack(*learn, *judge, budget="standard"), key=lambda r: r.advantage)
    best = max(stock, key=lambda model: stock[model])
    certificate = result.certificate
    return {
        "data": name,
        "repetition": repetition,
        "chosen": result.chosen.title,
        "before": round(certificate.before, 4),
        "bound": round(certificate.upper_bound, 4),
        "best": best,
        "reaches": round(float(stock[best]), 4),
        "own": round(float(strongest.advantage), 4),
        "holds": bool(max(stock[best], strongest.advantage) <= certificate.upper_bound),
        "processor_seconds": round(seconds, 1),
    }


def models() -> tuple[Any, ...]:
    """List classifiers with their defaults; erased rows span no full space, so QDA is shrunk."""
    return (
        HistGradientBoostingClassifier(random_state=0),
        RandomForestClassifier(random_state=0),
        MLPClassifier(random_state=0),
        SVC(),
        LogisticRegression(max_iter=1000),
        QuadraticDiscriminantAnalysis(reg_param=0.01),
        KNeighborsClassifier(),
    )


def summary(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Count by law."""
    counted: dict[str, Any] = {}
    for line in lines:
        here = counted.setdefault(line["data"], {"runs": 0, "held": 0})
        here["runs"] += 1
        here["held"] += line["holds"]
    runs, held = (sum(one[key] for one in counted.values()) for key in ("runs", "held"))
    return {"runs": runs, "held": held, "laws": counted}


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in DONE.read_text().splitlines()] if DONE.exists() else []
