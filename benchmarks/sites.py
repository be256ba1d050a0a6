"""Sites, donors and sources: erasers against ComBat, CovBat, Harmony and LEACE.

Half of the rows fit. Attackers of budget "standard" learn from a quarter, and are judged on the
last one. They know the covariates: what counts is what rows add to them. Three seeds split the rows
and start fits and attackers. ``subjects`` are drawn here, with a known truth, and ``few_subjects``
are the same with 240 rows to fit on. The other sets are research data, and are read from the folder
in UNSPOT_DATA.

Columns are in units of their deviation over the fitted rows. ComBat and CovBat get the true site
and covariates of every row that they correct. Harmony cannot be applied to new rows: it is run on
all rows at once, with their sites. All others see rows alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

from unspot import LEACE, LEOPARD, Cascade, erase
from unspot.data.concept import read_covariate
from unspot.erasers import Transport
from unspot.evaluation import attack, lisi, neighbour_overlap, retrieval, robustness_index
from unspot.lab import ComBat, CovBat

Array = NDArray[np.float64]
SEEDS = 3


class Rows(NamedTuple):
    """Rows of several sites, what is known of them, and which of them fit, teach and judge."""

    X: Array
    z: NDArray[Any]
    given: dict[str, NDArray[Any]]
    fit: NDArray[np.int64]
    learn: NDArray[np.int64]
    judge: NDArray[np.int64]
    truth: Array | None = None

    def known(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return {name: column[rows] for name, column in self.given.items()}


def subjects(
    n: int = 3000, d: int = 60, n_sites: int = 6, *, seed: int = 0
) -> tuple[Array, Array, NDArray[Any], dict[str, NDArray[Any]]]:
    """Draw volumes of people at several sites: rows, the same without sites, sites, covariates.

    In the manner of the field's own generators: regional volumes that share factors fall with age
    (along a curve) and differ by sex; a site shifts and scales each of them, and changes how they
    correlate. Sites recruit other ages and other shares of women, so that age predicts the site.
    """
    rng = np.random.default_rng(seed)
    site = rng.choice(n_sites, size=n, p=rng.dirichlet(np.full(n_sites, 10.0)))
    age = np.clip(rng.normal(np.linspace(30, 65, n_sites)[site], 13), 18, 92)
    female = rng.random(n) < np.linspace(0.65, 0.35, n_sites)[rng.permutation(n_sites)][site]
    old = (age - 50) / 20
    effects = rng.normal([[-0.5], [-0.2], [0.3]], 0.3, size=(3, d))
    people = np.column_stack([old, old**2 - 1, female - 0.5]) @ effects
    loadings = rng.normal(size=(8, d)) * 0.35
    factors, noise = rng.normal(size=(n, 8)), 0.7 * rng.normal(size=(n, d))
    clean = people + factors @ loadings + noise
    shift = rng.normal(rng.normal(0, 0.15, size=(n_sites, 1)), 0.35, size=(n_sites, d))
    scale = np.sqrt(1 / rng.gamma(20, 1 / 20, size=(n_sites, d)))
    own = loadings + 0.2 * rng.normal(size=(n_sites, 8, d))  # how volumes correlate at a site
    spread = np.einsum("nf,nfd->nd", factors, own[site]) + noise
    units = np.exp(rng.normal(0, 1, size=d))  # cubic millimetres of small and of large regions
    X = people + shift[site] + scale[site] * spread
    names = np.array([f"site {k + 1}" for k in range(n_sites)])
    covariates = {"age": age, "sex": np.where(female, "f", "m")}
    return X * units, clean * units, names[site], covariates


def folder() -> Path | None:
    """The folder of research data, if there is one."""
    named = os.environ.get("UNSPOT_DATA")
    return Path(named) if named and Path(named).is_dir() else None


def load(name: str, seed: int) -> Rows:
    """Read or draw one set of rows and split it: half to fit, a quarter each to learn and judge."""
    truth = None
    if name.endswith("subjects"):
        X, truth, z, given = subjects(seed=seed)
    else:
        with np.load(folder() / f"{name}.npz") as file:
            X, z, y = (file[part] for part in "Xzy")
        given = {"type" if name == "cells_dataset" else "sentiment": y}
    order = np.random.default_rng(seed).permutation(len(X))
    ends = [240, 1620] if name == "few_subjects" else [len(X) // 2, 3 * len(X) // 4]
    fit, learn, judge = np.split(order, ends)
    mean, spread = X[fit].mean(axis=0, dtype=np.float64), X[fit].std(axis=0, dtype=np.float64)
    truth = None if truth is None else (truth - mean) / spread
    return Rows((X - mean) / spread, z, given, fit, learn, judge, truth)


def eraser(make: Callable[[int], Any], *conditions: str) -> Callable[[Rows, int], Array]:
    """A method that is fitted with sites and covariates, and applied to rows alone."""

    def erased(rows: Rows, seed: int) -> Array:
        beside = {name: rows.known(rows.fit) for name in conditions}
        return make(seed).fit(rows.X[rows.fit], rows.z[rows.fit], **beside).transform(rows.X)

    return erased


def chosen(rows: Rows, seed: int, **how: Any) -> Array:
    """The choice of ``unspot.erase``, by covariates given and neighbours kept."""
    fit = rows.X[rows.fit], rows.z[rows.fit]
    result = erase(*fit, given=rows.known(rows.fit) or None, random_state=seed, **how)
    print(f"  erase chooses {result.chosen.title}", flush=True)
    return np.asarray(result.eraser.transform(rows.X))


def keeping(rows: Rows, seed: int) -> Array:
    """The choice of ``unspot.erase`` with the first covariate as the task, too."""
    return chosen(rows, seed, task=next(iter(rows.known(rows.fit).values())))


def combat(make: Callable[[], Any]) -> Callable[[Rows, int], Array]:
    """A method that needs the site and the covariates of every row."""

    def corrected(rows: Rows, seed: int) -> Array:
        known = rows.known(rows.fit) or None
        fitted = make().fit(rows.X[rows.fit], rows.z[rows.fit], given=known)
        return fitted.transform(rows.X, rows.z, given=rows.given or None)

    return corrected


def harmony(rows: Rows, seed: int) -> Array:
    """Harmony as it is used: all rows at once, with their sites."""
    import harmonypy
    import pandas as pd

    table = pd.DataFrame({"site": rows.z})
    result = harmonypy.run_harmony(rows.X, table, "site", random_state=seed, verbose=False)
    moved = np.asarray(result.Z_corr)
    return moved if moved.shape == rows.X.shape else moved.T


def _foreign_leace(seed: int) -> Any:
    from unspot.lab.bench.foreign import ConceptErasureLEACE

    return ConceptErasureLEACE()


def _cascade(seed: int) -> Cascade:
    return Cascade(Transport(), LEOPARD(0.75, random_state=seed))


#: What each is, and what it needs of a new row.
METHODS: dict[str, tuple[Callable[[Rows, int], Array], str]] = {
    "rows as they are": (lambda rows, seed: rows.X, "nothing"),
    "ComBat": (combat(ComBat), "site and covariates"),
    "CovBat": (combat(CovBat), "site and covariates"),
    "Harmony": (harmony, "all rows again, with sites"),
    "LEACE of concept-erasure": (eraser(_foreign_leace), "nothing"),
    "LEACE, given": (eraser(lambda seed: LEACE(), "given"), "nothing"),
    "Transport, given": (eraser(lambda seed: Transport(), "given"), "nothing"),
    "Cascade, given and keep": (eraser(_cascade, "given", "keep"), "nothing"),
    "erase, given": (chosen, "nothing"),
    "erase, given and task": (keeping, "nothing"),
}
PACKAGES = {"Harmony": "harmonypy", "LEACE of concept-erasure": "concept_erasure"}


def best(rows: Rows, seen: Array, seed: int) -> tuple[float, str]:
    """The balanced accuracy of the strongest attacker, and its name."""
    learn, judge = rows.learn, rows.judge
    found = attack(seen[learn], rows.z[learn], seen[judge], rows.z[judge], random_state=seed)
    strongest = max(found, key=lambda result: result.balanced_accuracy)
    return float(strongest.balanced_accuracy), strongest.name


def kept(rows: Rows, erased: Array) -> dict[str, float]:
    """How well linear models tell the covariates: R² of numbers, accuracy of labels."""
    learn, judge = erased[rows.learn], erased[rows.judge]
    scores = {}
    for name, column in rows.given.items():
        if read_covariate(column, name, len(column)).has_classes:
            model: Any = LogisticRegressionCV(Cs=5, max_iter=2000, use_legacy_attributes=False)
        else:
            model = RidgeCV(np.logspace(-1, 5, 13))
        score = model.fit(learn, column[rows.learn]).score(judge, column[rows.judge])
        scores[name] = float(score)
    return scores


def measured(rows: Rows, erased: Array, alone: float, seed: int) -> dict[str, Any]:
    """All figures of one method on one split."""
    scale = erased[rows.fit].std(axis=0)
    seen = (erased - erased[rows.fit].mean(axis=0)) / np.where(scale > 1e-9, scale, 1.0)
    C = read_covariate(rows.given, "given", len(rows.z)).design()
    accuracy, name = best(rows, np.hstack([seen, C]), seed)
    judge = rows.judge
    figures = {"site beyond covariates": max(accuracy - alone, 0.0), "attacker": name}
    figures |= {f"{name} kept": score for name, score in kept(rows, seen).items()}
    figures["neighbours kept"] = neighbour_overlap(rows.X[judge], erased[judge])
    figures["iLISI"] = float(lisi(erased[judge], rows.z[judge]).mean())
    classes = rows.given.get("sex", rows.given.get("type"))
    if classes is not None:
        index = robustness_index(erased[judge], classes[judge], rows.z[judge])
        figures["robustness index"] = index
    if rows.truth is not None:  # R² of the columns that a site-free scan would have had
        gap, spread = (a - a.mean(axis=0) for a in (erased - rows.truth, rows.truth))
        figures["columns of the truth"] = 1 - float(
            np.sum(gap[judge] ** 2) / np.sum(spread[judge] ** 2)
        )
    return figures


def compared(name: str) -> dict[str, Any]:
    """Measure every method on one set of rows, over the seeds."""
    figures: dict[str, list[dict[str, Any]]] = {}
    for seed in range(SEEDS):
        rows = load(name, seed)
        C = read_covariate(rows.given, "given", len(rows.z)).design()
        alone, _ = best(rows, C, seed)
        for label, (method, needs) in METHODS.items():
            if label in PACKAGES and not find_spec(PACKAGES[label]):
                print(f"  {PACKAGES[label]} is not installed: {label} is left out")
                continue
            started = time.process_time()
            try:
                erased = method(rows, seed)
            except ValueError as error:  # too few rows to choose by
                print(f"  {name} {seed} {label}: {error}", flush=True)
                continue
            seconds = time.process_time() - started
            row = {"new rows need": needs, **measured(rows, erased, alone, seed)}
            row |= {"covariates alone": alone, "CPU seconds": seconds}
            figures.setdefault(label, []).append(row)
            print(f"  {name} {seed} {label}: {_short(row)}", flush=True)
    return {label: _summary(runs) for label, runs in figures.items()}


def search() -> dict[str, Any]:
    """Find the same task in another language: erasers are fitted on half of the tasks."""
    with np.load(folder() / "code_language.npz") as file:
        X, z, y = (file[part] for part in "Xzy")

    methods = {
        **{name: METHODS[name][0] for name in ("rows as they are", "ComBat", "Harmony")},
        "LEACE": eraser(lambda seed: LEACE()),
        "Transport": eraser(lambda seed: Transport()),
        "Cascade of rank 300": eraser(lambda seed: Cascade(rank=300, random_state=seed)),
        "erase, neighbours kept": lambda rows, seed: chosen(rows, seed, groups=y[rows.fit]),
        "erase, R@1 kept": lambda rows, seed: chosen(
            rows, seed, groups=y[rows.fit], utility=_right_first(y[rows.fit], z[rows.fit])
        ),
    }
    figures: dict[str, list[dict[str, Any]]] = {}
    for seed in range(SEEDS):
        tasks = np.random.default_rng(seed).permutation(np.unique(y))
        fit = np.isin(y, tasks[: len(tasks) // 2])
        rows = Rows(X.astype(np.float64), z, {}, *3 * [np.flatnonzero(fit)])
        for label, method in methods.items():
            if label in PACKAGES and not find_spec(PACKAGES[label]):
                continue
            started = time.process_time()
            erased = method(rows, seed)
            seconds = time.process_time() - started
            found = retrieval(erased[~fit], y[~fit], z[~fit])
            figures.setdefault(label, []).append(
                {
                    "R@1": found.recall.value,
                    "R@1 interval": f"{found.recall.low:.3f} to {found.recall.high:.3f}",
                    "nDCG@10": found.ndcg.value,
                    "same source of ten": found.same_source.value,
                    "fair share": found.fair_share,
                    "CPU seconds": seconds,
                }
            )
    return {label: _summary(runs) for label, runs in figures.items()}


def _right_first(ids: Array, sources: Array) -> Callable[[Array, Array], float]:
    """A utility for ``erase``: how often the nearest row is the same thing."""
    return lambda X, numbers: retrieval(X, ids[numbers], sources[numbers]).recall.value


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of numbers over the seeds; of texts, what each seed has."""
    summary: dict[str, Any] = {}
    for key in runs[0]:
        values = [run[key] for run in runs]
        if isinstance(values[0], str):
            summary[key] = values[0] if len(set(values)) == 1 else values
        else:
            summary[key] = [round(float(f(values)), 4) for f in (np.mean, np.std)]
    return summary


def _short(row: dict[str, Any]) -> str:
    shown = (f"{k} {v:.3f}" if isinstance(v, float) else str(v) for k, v in row.items())
    return ", ".join(shown)


def run() -> dict[str, Any]:
    """Measure all sets that are there; numbers are means and deviations over three seeds."""
    figures = {name: compared(name) for name in ("subjects", "few_subjects")}
    if folder() is None:
        print("  UNSPOT_DATA names no folder: cells, snippets and code are left out")
        return figures
    for name in ("cells_dataset", "snippets_source"):
        figures[name] = compared(name)
    return {**figures, "code_language": search()}
