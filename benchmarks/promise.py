"""Does a promise of at most a hold on test rows, against attackers of budget standard?

Each repetition splits the rows anew and fits with another seed: a path of the default ranks, a
choice for each a by attackers on validation rows (cross-fitted where these are few), a fit
on train and validation rows, and both ways of attacking the test rows. A finished repetition is a
line of ``results/promise.jsonl`` and is not run again; ``python -m benchmarks.promise variance xor
--repetitions 5`` runs some of them, and ``python -m benchmarks promise`` all.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unspot import Cascade, Dataset, rank_path
from unspot.choice import RankPath
from unspot.choice.selection import largest
from unspot.datasets import load_glove_gender
from unspot.datasets.synthetic import law
from unspot.evaluation.measure import attack_eraser, unseen

PROMISES = (0.05, 0.10)
REPETITIONS = 10
DONE = Path(__file__).parent / "results" / "promise.jsonl"
SENTENCES = Path(__file__).parent.parent.parent / "shared" / "data" / "tweets_minilm.npz"
BIOGRAPHIES = SENTENCES.with_name("bios_minilm.npz")

LAWS = ("variance", "xor", "ring", "mixture")
#: Rows of a law: a fifth of them, for the choice, can decide a promise of 0.05.
LAW_ROWS, LAW_FEATURES = 12_000, 20


def run(
    names: Iterable[str] = (), repetitions: int = REPETITIONS, max_rows: int | None = None
) -> dict[str, Any]:
    """Count bounds that were stated and held, by data set and bound."""
    sets = _datasets()
    done = {(line["data"], line["repetition"], line["rows"]) for line in _lines()}
    for repetition in range(repetitions):  # each data set gets its first before any its second
        for name in names or sets:
            data = sets[name](repetition)
            data = data if max_rows is None else _capped(data, max_rows, repetition)
            rows = sum(len(split) for split in data)
            if (name, repetition, rows) not in done:
                facts = {"data": name, "repetition": repetition, "rows": rows}
                _append({**facts, **_cells(data, repetition)})
    return summary(_lines())


def summary(lines: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Count by data set, rows and bound.

    ``promised``: a rank met the bound on validation rows; else the result says that none does, or
    that these rows cannot decide it. ``holds``: the strongest attacker has at most that on test
    rows. ``shown``: with 95 % confidence none has more.
    """
    figures: dict[str, Any] = {}
    for line in lines:
        for bound, cell in line["bounds"].items():
            key = f"{line['data']}, {line['rows']} rows, at most {bound}"
            counts = figures.setdefault(
                key, dict.fromkeys(("repetitions", "promised", "holds", "shown"), 0) | {"ranks": []}
            )
            counts["repetitions"] += 1
            if cell["met"]:
                counts["promised"] += 1
                counts["holds"] += cell["advantage"] <= float(bound)
                counts["shown"] += cell["upper_bound"] <= float(bound)
                counts["ranks"].append(cell["rank"])
    return figures


def _cells(data: Dataset, seed: int) -> dict[str, Any]:
    began = time.process_time()
    path = rank_path(Cascade(random_state=seed), data)
    fitted = time.process_time()
    checked: dict[int, dict[str, Any]] = {}
    bounds = {f"{bound:g}": _cell(path, bound, checked) for bound in PROMISES}
    seconds = {"path": fitted - began, "choices and checks": time.process_time() - fitted}
    return {"bounds": bounds, "seconds": seconds}


def _cell(path: RankPath, bound: float, checked: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Choose a rank and attack it on test rows, once for every rank."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in the line
        try:
            choice = largest(path, max_advantage=bound)
        except ValueError as error:
            return {"met": False, "why": str(error)}
        if not choice.met:
            return {"met": False, "tried": choice.describe()["tried"]}
        if choice.rank not in checked:
            checked[choice.rank] = _checked(path, choice.rank)
    facts = {"met": True, "rank": choice.rank, "of": path.data.n_features}
    return {**facts, "tried": choice.describe()["tried"], **checked[choice.rank]}


def _checked(path: RankPath, rank: int) -> dict[str, Any]:
    """Attack the rank, fitted again, on test rows that had no part in the choice."""
    eraser, seed = path.fit_again(rank), path.random_state
    rows = unseen(path.unseen)
    attacked = attack_eraser(eraser, rows, budget="standard", random_state=seed)
    return {
        "advantage": attacked.strongest.score - attacked.chance,
        "upper_bound": attacked.bounds(0.05)[1],
        "attacker": attacked.strongest.name,
        "test_rows": len(rows),
    }


def _datasets() -> dict[str, Callable[[int], Dataset]]:
    """List data sets by name, as functions of the seed that splits them."""
    sets: dict[str, Callable[[int], Dataset]] = {
        name: lambda seed, name=name: _split(_law_rows(name, seed), seed) for name in LAWS
    }
    sets["words"] = lambda seed: _split(_all_rows(load_glove_gender()), seed)
    for name, path in (("tweets", SENTENCES), ("biographies", BIOGRAPHIES)):
        if path.exists():
            sets[name] = lambda seed, path=path: _split(_stored(path), seed)
    return sets


def _law_rows(name: str, seed: int) -> tuple[Any, Any]:
    rows = law(name, n=LAW_ROWS, d=LAW_FEATURES, random_state=seed)
    return rows.X, rows.z


def _all_rows(data: Dataset) -> tuple[Any, Any]:
    return tuple(np.concatenate([getattr(split, part) for split in data]) for part in ("X", "z"))


def _stored(path: Path) -> tuple[Any, Any]:
    with np.load(path) as file:
        return file["X"].astype(np.float32), file["z"]


def _split(rows: tuple[Any, Any], seed: int) -> Dataset:
    return Dataset.from_arrays(*rows, random_state=seed)


def _capped(data: Dataset, max_rows: int, seed: int) -> Dataset:
    X, z = _all_rows(data)
    keep = np.random.default_rng(seed).permutation(len(X))[:max_rows]
    return _split((X[keep], z[keep]), seed)


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in DONE.read_text().splitlines()] if DONE.exists() else []


def _append(line: dict[str, Any]) -> None:
    with DONE.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(_datasets()))
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--max-rows", type=int)
    given = parser.parse_args()
    for key, counts in run(given.names, given.repetitions, given.max_rows).items():
        print(key, counts)
