"""The choice of ``unspot.erase`` against every candidate and rivals, on rows that only judge.

For each data set and seed, ``erase`` chooses. Then every candidate is fitted on the rows that chose
and attacked (budget "quick") beside the choice itself: on rows that ``erase`` never got, if there
are enough of them, or else on those that its certificate was measured on. The regret is what the
best of them leaks less at no less utility (within 0.005 of A_50%, or half a point of the task); one
half of the rows says which is the best and the other half how much less it leaks, both ways.
What keeps less than the choice, or leaks more to the first attackers, cannot beat it: no other
attackers try it ("at_least"). Where fewer than 2,000 rows judge, leaks are means of five halvings.
With the first seed, rivals of ``unspot.lab`` are fitted too, in the raw space.

GloVe, verses and laws are in the package. The others are research data, read from the folder in the
environment variable UNSPOT_DATA, and left out without it.

Run: UNSPOT_DATA=FOLDER python -m benchmarks choice. Runs in the result file are kept.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from unspot import erase
from unspot.choice.candidates import families, settings_for
from unspot.choice.erase import FIRST, _read, _utility
from unspot.data.concept import MERGED
from unspot.data.dataset import Split, stratified_parts
from unspot.data.goal import Goal
from unspot.datasets import load_glove_gender, load_translations
from unspot.datasets.synthetic import law
from unspot.erasers.registry import make
from unspot.evaluation.measure import attack_splits, erased_split, once

RESULTS = Path(__file__).parent / "results" / "choice.json"
FILES = {
    "tweets": "tweets_minilm",
    "bios": "bios_minilm",
    "code": "code_language",
    "snippets": "snippets_source",
    "digits": "digits_source",
    "cells": "cells_dataset",
}
#: Data sets, by name, rows (0: all) and whether the task is the utility.
SETS = (
    ("cells", 0, False),
    ("law:xor", 4000, False),
    ("law:variance", 4000, False),
    ("people", 0, True),
    ("bios", 600, True),
    ("tweets", 3000, True),
    ("digits", 0, True),
    ("law:mixture", 4000, False),
    ("words", 6000, False),
    ("snippets", 3000, False),
    ("tweets", 250, True),
    ("bios", 0, True),
    ("verses", 3000, False),
    ("law:ring", 4000, False),
    ("code", 0, False),
    ("words", 18_000, False),
)
RIVALS = ("mute", "inlp", "fairpca")
#: Utility that counts as equal.
EQUAL = 0.005
#: Rows that ``erase`` does not get and that judge, at least and at most.
FRESH = 1000, 3000
#: Halvings of the rows that judge, and with how many rows one is enough.
HALVINGS, MANY = 5, 2000


def load(name: str, seed: int) -> dict[str, Any] | None:
    """Load rows as ``erase`` takes them, or None without the file."""
    rows: dict[str, Any] = {}
    if name in ("words", "verses"):
        splits = list(load_glove_gender() if name == "words" else load_translations())
        rows = {key: np.concatenate([getattr(s, key) for s in splits]) for key in "Xz"}
        if name == "verses":
            rows["groups"] = np.concatenate([s.groups for s in splits])
    elif name.startswith("law:"):
        drawn = law(name[4:], n=7000, d=20, random_state=seed)
        rows = {"X": drawn.X, "z": drawn.z}
    elif name == "people":
        rows = _people(seed)
    else:
        path = Path(os.environ.get("UNSPOT_DATA", ".")) / f"{FILES[name]}.npz"
        if not path.exists():
            return None
        with np.load(path) as file:
            rows = {"X": file["X"].astype(np.float32), "z": file["z"], "task": file["y"]}
        if name == "code":  # a programming task in five languages
            rows["groups"] = rows.pop("task")
    return rows


def divided(rows: dict[str, Any], n_rows: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the rows that ``erase`` gets, and rows of other groups that only judge."""
    order = np.random.default_rng(seed).permutation(len(rows["X"]))
    some, others = order[: n_rows or None], order[n_rows or len(order) :]
    if "groups" in rows:
        others = others[~np.isin(rows["groups"][others], rows["groups"][some])]
    others = others[: FRESH[1]]
    return tuple({key: value[part] for key, value in rows.items()} for part in (some, others))


def as_erase_reads(columns: dict[str, Any], like: Split | None = None) -> Split:
    """Read rows once each; labels of the task that ``erase`` merged in others are merged here."""
    columns = {"task": None, "groups": None, "given": None} | columns
    if like is not None and columns["task"] is not None:
        known = np.isin(columns["task"], like.task.classes)
        columns["task"] = np.where(known, columns["task"], MERGED)
    return once(_read(**columns))


def _people(seed: int) -> dict[str, Any]:
    """Draw 40 people of 42 columns, and the five activities of everybody."""
    rng, K, d, n = np.random.default_rng(seed), 40, 42, 3000
    person, activity = rng.integers(K, size=n), rng.integers(5, size=n)
    people = rng.normal(size=(K, d)) * np.linspace(1.5, 0.1, d)
    activities = rng.normal(size=(5, d)) * np.linspace(1.2, 0.3, d)
    X = people[person] + activities[activity] + rng.normal(size=(n, d))
    return {"X": X, "z": np.char.add("p", person.astype(str)), "task": activity.astype(str)}


def measure(eraser: Any, rows: Split, mine: dict[str, Any] | None = None) -> dict[str, Any]:
    """Attack erased rows, each half by attackers that learn from the other, and measure utility."""
    after = erased_split(eraser, rows)
    utility, _ = _utility(rows, after, None)
    if mine is not None:
        leaks = _leaks(after, FIRST, 1)
        if utility < mine["utility"] - EQUAL or np.mean(leaks) > mine["leak"]:
            return {"at_least": _mean(leaks), "leaks": leaks, "utility": round(utility, 4)}
    leaks = _leaks(after, None, HALVINGS if len(rows) < MANY else 1)
    return {"leak": _mean(leaks), "leaks": leaks, "utility": round(utility, 4)}


def _leaks(after: Split, attackers: Any, halvings: int) -> list[float]:
    """Attack both halves of each halving, one after the other."""
    leaks = list[float]()
    for i in range(halvings):
        halves = stratified_parts(
            after.target.strata, (0.5, 0.5), np.random.default_rng(i), after.groups
        )
        ways = [
            attack_splits(after.take(learn), after.take(judge), attackers=attackers, budget="quick")
            for judge, learn in (halves, halves[::-1])
        ]
        leaks += [round(float(way.strongest.score - way.chance), 4) for way in ways]
    return leaks


def _mean(leaks: list[float]) -> float:
    return round(float(np.mean(leaks)), 4)


def one(name: str, n_rows: int, with_task: bool, seed: int) -> dict[str, Any] | None:
    """Choose on one data set, and measure the choice and all others on the rows that judge."""
    everything = load(name, seed)
    if everything is None:
        return None
    if not with_task:
        everything.pop("task", None)
    columns, others = divided(everything, n_rows, seed)
    began = time.process_time()
    chosen = erase(**columns, random_state=seed)
    seconds = time.process_time() - began
    whole = as_erase_reads(columns)
    judges = np.isin(whole.names, chosen.judging)
    fit, judging = whole.take(np.flatnonzero(~judges)), whole.take(np.flatnonzero(judges))
    if len(others["X"]) >= FRESH[0]:
        judging = as_erase_reads(others, like=whole)
    goal = Goal.read(fit.concept, None, fit.task)
    mine = measure(chosen.eraser, judging)
    points = [{"name": "original rows", "rank": None, **measure(None, judging, mine)}]
    settings = settings_for(fit.X)
    for family in families(goal, fit.X.shape[1], len(fit), seed, settings):
        try:
            for rank, fitted in family.fits(fit, family.ranks):
                point = measure(fitted.eraser_, judging, mine)
                points.append({"name": family.name, "rank": rank, **point})
        except ValueError as error:
            print(f"  {family.name}: {error}", flush=True)
    for rival in RIVALS if seed == 0 else ():
        try:
            fitted = make(rival).fit(fit.X, fit.concept)
            point = measure(fitted, judging, mine)
            points.append({"name": f"rival {rival}", "rank": None, **point})
        except ValueError as error:
            print(f"  {rival}: {error}", flush=True)
    return {
        "data": name,
        "rows": len(columns["X"]),
        "features": int(whole.X.shape[1]),
        "judged_on": len(judging),
        "by": "task" if with_task else "neighbours",
        "seed": seed,
        "chosen": chosen.chosen.title,
        **mine,
        "bound": round(chosen.certificate.upper_bound, 4),
        "regret": regret(mine, points),
        "best": beaten_by(mine, points),
        "processor_seconds": round(seconds, 1),
        "points": points,
    }


def regret(mine: dict[str, Any], points: list[dict[str, Any]]) -> float:
    """Estimate how much less the best other point leaks at no less utility."""
    rivals = [mine, *(p for p in points if "leak" in p)]
    gains = []
    for way in range(len(mine["leaks"])):
        other = way ^ 1  # the other half of the same halving
        best = min(rivals, key=lambda p: p["leaks"][way])
        gains.append(mine["leaks"][other] - best["leaks"][other])
    return round(max(0.0, float(np.mean(gains))), 4)


def beaten_by(mine: dict[str, Any], points: list[dict[str, Any]]) -> str:
    """Name the point of least leak at no less utility."""
    best = min([mine, *(p for p in points if "leak" in p)], key=lambda p: p["leak"])
    if best is mine:
        return ""
    return best["name"] + ("" if best["rank"] is None else f", rank {best['rank']}")


def run(seeds: int = 3) -> dict[str, Any]:
    """Measure all data sets and seeds; those in the result file are kept."""
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    done = {(r["data"], r["rows"], r["by"], r["seed"]) for r in runs}
    sizes = {name: {r["rows"] for r in runs if r["data"] == name} for name, _, _ in SETS}
    for seed in range(seeds):
        for name, n_rows, with_task in SETS:
            sized = any(
                (name, rows, "task" if with_task else "neighbours", seed) in done
                for rows in (
                    [n_rows]
                    if n_rows
                    else sizes[name] - {n for other, n, _ in SETS if other == name}
                )
            )
            if sized:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = one(name, n_rows, with_task, seed)
            if found is None:
                print(f"{name}: not in UNSPOT_DATA, left out", flush=True)
                continue
            runs.append(found)
            shown = {k: v for k, v in found.items() if k != "points"}
            print(json.dumps(shown), flush=True)
            RESULTS.write_text(json.dumps(figures(runs), indent=1) + "\n")
    return figures(runs)


def figures(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the regrets."""
    regrets = np.array([r["regret"] for r in runs])
    # At most: of two independent attackers of two classes, on all rows that judge.
    errors = np.array([(0.5 / r["judged_on"]) ** 0.5 for r in runs])
    return {
        "runs_measured": len(runs),
        "regret_within_1.5_points": float(np.mean(regrets <= 0.015)) if runs else None,
        "regret_within_1.5_points_or_two_errors": float(
            np.mean(regrets <= np.maximum(0.015, 2 * errors))
        )
        if runs
        else None,
        "median_regret": float(np.median(regrets)) if runs else None,
        "runs": runs,
    }
