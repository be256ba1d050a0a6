"""One call that measures an erasure: what is left of the concept, and of everything else."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import SPLITS, Dataset, Lexicon, Split, refuse_continuous
from unspot.data.labels import encode, encode_as
from unspot.data.rows import refuse_nonfinite
from unspot.evaluation.metrics import DEFAULT, METRICS, PAPER, TASK_METRICS
from unspot.evaluation.problem import Finding, Problem
from unspot.evaluation.results import Evaluation, Row, Value, eraser_facts, eraser_name
from unspot.machine import versions

__all__ = ["Evaluation", "Row", "Value", "evaluate"]

BUDGETS = ("quick", "standard", "thorough")


def evaluate(
    eraser: Any,
    data: Dataset,
    *,
    task: bool | str = "auto",
    metrics: str | Sequence[str] | None = None,
    seeds: int = 5,
    budget: str = "quick",
    random_state: Any = 0,
    verbose: bool = False,
) -> Evaluation:
    """Measure an erasure, before and after.

    Probes, attackers and task classifiers train on the train rows and are scored on the test rows;
    the strongest attacker is chosen on the validation rows. All see embeddings in the original
    d-dimensional space, before and after.

    Under two minutes on two cores for 22,000 rows of 100 features.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, callable or Dataset
        What erases: anything with ``transform``, a frozen ``Eraser``, a function of rows. Or the
        erased rows themselves, as a data set of the same splits.
    data : Dataset
        The original rows, with the concept's labels ``z``, and ``y`` if there is a task.
    task : "auto" or bool
        Whether to measure the task and its fairness; "auto" does if there are labels ``y``.
    metrics : sequence of str, "paper" or "all", optional
        Some of: chance, probe, linear, attack, mdl, mdl_paper, two_sample, neighbours,
        neighbours_paper, variance, words, task_linear, task, fairness. By default all that the
        data allow but those of the paper's own conventions; "paper" gives just what the paper
        reports.
    seeds : int
        Networks of each probe and task classifier.
    budget : {"quick", "standard", "thorough"}
        How hard the attackers try.
    random_state : int, Generator or None
        Decides every number.
    verbose : bool
        Whether to show progress on stderr.

    Returns
    -------
    Evaluation
        Plain frozen data, with ``to_frame``, ``to_json``, ``to_markdown`` and ``to_latex``.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot import Dataset, Eraser
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(600) % 2
    >>> X = rng.normal(size=(600, 3)) + 4 * z[:, None] * [1, 0, 0]
    >>> data = Dataset.from_arrays(X, z, random_state=0)
    >>> eraser = Eraser.projection(np.eye(3)[:, 1:])
    >>> found = evaluate(eraser, data, metrics=["linear", "variance"])
    >>> found["linear"].before.mean > 0.9, found["linear"].after.mean < 0.65
    (True, True)
    """
    _check_data(data)
    with_task = _with_task(task, data)
    with_words = None not in (data.lexicon, getattr(eraser, "lexicon", data.lexicon))
    names = _check_metrics(metrics, with_task, with_words)
    if budget not in BUDGETS:
        raise ValueError(f"Got budget={budget!r}, but expected one of {', '.join(BUDGETS)}.")
    _check_labels(data, "z")
    if with_task and TASK_METRICS.keys() & set(names):
        _check_labels(data, "y")
        _warn_if_concept_decides_task(data)
    problem = Problem(data, _erased(eraser, data), seeds, budget, _seed(random_state))
    findings, seconds = _measure(problem, names, verbose)
    return Evaluation(
        name=f"{eraser_name(eraser)} on {data.name}",
        rows=tuple(row for finding in findings for row in finding.rows),
        metadata={**_facts(eraser, problem), "seconds": seconds},
        details={key: value for found in findings for key, value in found.details.items()},
    )


def _measure(
    problem: Problem, names: Sequence[str], verbose: bool
) -> tuple[list[Finding], dict[str, float]]:
    from tqdm import tqdm

    findings, seconds = [], {}
    bar = tqdm(names, desc="evaluate", unit="metric", leave=False, disable=not verbose)
    for name in bar:
        bar.set_postfix_str(name)
        started = time.perf_counter()
        findings.append(METRICS[name](problem))
        seconds[name] = round(time.perf_counter() - started, 3)
    return findings, seconds


# -- the erased rows -------------------------------------------------------------------------------


def _erased(eraser: Any, data: Dataset) -> Dataset:
    """The data set after erasure: all rows, and the lexicon."""
    if isinstance(eraser, Dataset):
        _check_same_rows(eraser, data)
        return eraser
    function = _function(eraser)

    def apply(split: Split, name: str) -> Split:
        if not len(split):  # no rows to choose on: allowed, and nothing to erase
            return split
        return replace(split, X=_checked_rows(function(split.X), len(split), name))

    lexicon = data.lexicon
    if lexicon is not None:
        erased = _checked_rows(function(lexicon.X), len(lexicon.X), "lexicon")
        lexicon = Lexicon(lexicon.words, erased)
    splits = {name: apply(getattr(data, name), name) for name in SPLITS}
    return Dataset(**splits, name=data.name, lexicon=lexicon)


def _function(eraser: Any) -> Callable[[Any], Any]:
    if isinstance(eraser, type):
        raise ValueError(
            f"Got the class {eraser.__name__}, but expected a fitted eraser: call "
            f"{eraser.__name__}(…).fit(data.train.X, data.train.z) first."
        )
    if hasattr(eraser, "transform"):
        return eraser.transform
    if callable(eraser):
        return eraser
    raise ValueError(
        f"Got an eraser of type {type(eraser).__name__}, but expected a fitted estimator with "
        "transform, an Eraser, a function of rows, or a Dataset of erased rows."
    )


def _checked_rows(erased: Any, n_rows: int, split: str) -> NDArray[Any]:
    rows = np.asarray(erased.detach().cpu() if hasattr(erased, "detach") else erased)
    if rows.ndim != 2 or len(rows) != n_rows:
        raise ValueError(
            f"Got erased rows of shape {rows.shape} for the {n_rows} original rows of the {split} "
            "split, but expected one for each."
        )
    refuse_nonfinite(rows)
    return rows


def _check_same_rows(erased: Dataset, data: Dataset) -> None:
    for name in SPLITS:
        _checked_rows(getattr(erased, name).X, len(getattr(data, name)), name)
    widths = {name: getattr(erased, name).X.shape[1] for name in SPLITS}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{width} in {name}" for name, width in widths.items())
        raise ValueError(f"Got erased rows of {shown} features, but expected the same number.")


# -- what was asked --------------------------------------------------------------------------------


def _check_data(data: Any) -> None:
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected an unspot.Dataset. Make one "
            "with Dataset.from_arrays(X, z, y)."
        )
    for split in data:
        refuse_nonfinite(split.X)
        refuse_continuous(split.z)


def _with_task(task: bool | str, data: Dataset) -> bool:
    if task not in ("auto", True, False):
        raise ValueError(f"Got task={task!r}, but expected 'auto', True or False.")
    has_task = data.train.y is not None and data.test.y is not None
    if task is True and not has_task:
        raise ValueError(
            "Got task=True, but the data have no task labels y in train and test. Give them to "
            "Dataset.from_arrays(X, z, y)."
        )
    return has_task and task is not False


def _check_metrics(
    metrics: str | Sequence[str] | None, with_task: bool, with_words: bool
) -> tuple[str, ...]:
    lacking = {} if with_task else dict.fromkeys(TASK_METRICS, "task labels")
    if not with_words:
        lacking["words"] = "lexicon of words"
    if metrics is None or metrics in ("paper", "all"):
        preset = {None: DEFAULT, "paper": PAPER, "all": tuple(METRICS)}[metrics]
        return tuple(name for name in preset if name not in lacking)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        if name not in METRICS:
            near = get_close_matches(str(name), METRICS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"Got metric {name!r}, but expected some of {', '.join(METRICS)}.{hint}"
            )
        if name in lacking:
            raise ValueError(f"Got metric {name!r}, but the data have no {lacking[name]}.")
    return names


def _check_labels(data: Dataset, what: str) -> None:
    """Every test label known from training, and for the concept, every class in the test."""
    classes = encode(getattr(data.train, what), name=f"{what} of the train split").classes
    if what == "z" and len(data.validation):
        encode_as(data.validation.z, classes, name="z of the validation split")
    codes = encode_as(getattr(data.test, what), classes, name=f"{what} of the test split")
    counts = np.bincount(codes, minlength=len(classes))
    if what == "z" and counts.min() == 0:
        raise ValueError(
            f"Got no rows of class {classes[int(np.argmin(counts))]!s} in the test split, but "
            "expected every class of the train split there. Split the rows stratified, as "
            "Dataset.from_arrays does."
        )


def _warn_if_concept_decides_task(data: Dataset) -> None:
    concept, labels = encode(data.train.z).codes, encode(data.train.y, name="y").codes
    pairs = np.unique(np.stack([concept, labels]), axis=1)
    if pairs.shape[1] == len(np.unique(concept)):
        warnings.warn(
            "Got task labels that are a function of the concept: every class has one task label. "
            "Erasing the concept must then erase the task too, and TPR gaps say little.",
            UserWarning,
            stacklevel=3,
        )


def _seed(random_state: Any) -> int:
    from unspot.data.sampling import generator

    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(generator(random_state).integers(2**31))


# -- what it is called -----------------------------------------------------------------------------


def _facts(eraser: Any, problem: Problem) -> dict[str, Any]:
    data = problem.before
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "n_rows": {"train": len(data.train), "test": len(data.test)},
        "n_features": data.n_features,
        "n_features_erased": int(problem.after.test.X.shape[1]),
        "classes": [str(c) for c in encode(data.train.z).classes],
        "seeds": problem.seeds,
        "budget": problem.budget,
        "versions": versions(),
    }
