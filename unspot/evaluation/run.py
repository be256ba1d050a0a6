"""Measure an erasure: ``evaluate`` before and after, ``score`` only after.

``evaluate`` tells a story about one eraser. Paths and sweeps ask the same questions about many
erasers of the same data, where the values before erasure are known already: they call ``score``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count, did_you_mean
from unspot.data.dataset import (
    Dataset,
    refuse_shared_groups,
    strata,
    warn_if_grouped,
)
from unspot.data.labels import missing_values
from unspot.data.rows import as_seed, in_memory, refuse_nonfinite
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.metrics import DEFAULT, METRICS, OF_CONCEPT, PAPER, TASK_METRICS, lacking
from unspot.evaluation.problem import Finding, MetricFunction, Problem, erased
from unspot.evaluation.results import Evaluation, concept_name, eraser_facts, eraser_name
from unspot.evaluation.several import naming_concept, parts_of, restricted
from unspot.io.progress import steps
from unspot.machine import pieces_in_threads, versions

__all__ = [
    "Scores",
    "after_refit",
    "check_metrics",
    "evaluate",
    "on_validation",
    "over_seeds",
    "score",
]


@pieces_in_threads()
def evaluate(
    eraser: Any,
    data: Dataset,
    *,
    task: bool | str = "auto",
    predictions: Any = None,
    metrics: str | Sequence[str] | None = None,
    seeds: int = 5,
    budget: str = "quick",
    random_state: Any = 0,
    verbose: bool = False,
) -> Evaluation:
    """Measure an erasure, before and after.

    Attackers learn from the validation rows, which the eraser has not seen, and are judged on the
    test rows, as in ``certify``: for the same rows, budget and seed the numbers are the same. Where
    validation rows are too few, an estimator is cross-fitted. The paper's probes and the task
    classifiers learn from the train rows. All see embeddings in the original d-dimensional space,
    before and after.

    Under two minutes on two cores for 22,000 rows of 100 features.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, Dataset or None
        What erases: anything with ``transform``, a frozen ``Eraser``, a function of rows. Or the
        erased rows themselves, as a data set of the same splits. None leaves the rows as they are.
    data : Dataset
        The original rows, with the concept's labels ``z``, and ``y`` if there is a task.
    task : "auto" or bool
        Whether to measure the task and its fairness; "auto" does if there are labels ``y``.
    predictions : array-like of shape (n_test,), or mapping of its name to it, optional
        The task of the test rows as a classifier of your own predicts it, from erased rows:
        ``fairness`` is that of these predictions. By default it is that of a logistic regression.
    metrics : sequence of str, "paper" or "all", optional
        Some of: chance, probe, linear, attack, attack_seen, mdl, mdl_paper, two_sample, neighbours,
        neighbours_paper, variance, words, task_linear, task, fairness (of ``predictions``, or of a
        logistic regression; fairness_paper: of the paper's network). By default all that the
        data allow but those of the paper's own conventions; "paper" gives just what the paper
        reports.
    seeds : int
        The number of networks of each probe and task classifier.
    budget : {"quick", "standard", "thorough"}
        How hard the attackers try. "quick" is for looking around, since rows are attacked before
        and after; ``certify``, which makes the claim, has "standard".
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
    >>> evaluation = evaluate(eraser, data, metrics=["linear", "variance"])
    >>> evaluation["linear"].before.mean > 0.9, evaluation["linear"].after.mean < 0.65
    (True, True)
    """
    _check_data(data)
    check_count("seeds", seeds)
    check_choice("budget", budget, tuple(BUDGETS))
    asked = _with_or_without_task(task, data)
    if isinstance(eraser, Dataset) and eraser.lexicon is None:
        asked = replace(asked, lexicon=None)
    functions = check_metrics(_preset(metrics, asked), asked)
    data, called = _with_predictions(predictions, data)
    problem = Problem(
        data,
        erased(eraser, data),
        seeds,
        budget,
        as_seed(random_state),
        eraser,
        predictions=called,
    )
    if not (data.concepts or problem.of_number):
        problem.concept.refuse_missing_class()
        concept = problem.concept
        warn_if_grouped((data.train, concept.train.codes), (data.test, concept.test))
    elif problem.of_number:
        warn_if_grouped(*((split, strata(split.target)) for split in (data.train, data.test)))
    if functions.keys() & set(TASK_METRICS) and not (data.concepts or problem.of_number):
        _warn_if_concept_decides_task(problem)
    findings, seconds = _measure(problem, functions, verbose)
    return Evaluation(
        name=f"{eraser_name(eraser)} on {data.name}",
        rows=tuple(row for finding in findings for row in finding.rows),
        metadata={**_facts(eraser, problem), "seconds": seconds},
        details={key: value for finding in findings for key, value in finding.details.items()},
    )


@dataclass(frozen=True)
class Scores:
    """Values by the keys of ``evaluate``'s rows, None where undefined, and what lies behind."""

    values: dict[str, float | None]
    details: dict[str, Any] = field(default_factory=dict)


class _AfterOnly(Problem):
    """A problem that is measured after erasure only, at half the cost."""

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        after = measure(self.after)
        return after, after


@pieces_in_threads()
def score(
    eraser: Any,
    data: Dataset,
    metrics: Sequence[str] | Mapping[str, MetricFunction],
    *,
    seeds: int = 1,
    budget: str = "quick",
    random_state: int = 0,
) -> Scores:
    """Measure an eraser on the test rows.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, Dataset or None
        As ``evaluate`` takes it.
    data : Dataset
        The original rows.
    metrics : sequence of str, or mapping of names to functions
        Names of ``evaluate``'s metrics; or functions of a ``Problem`` that give a ``Finding``.
    seeds : int
        The number of networks of each probe.
    budget : {"quick", "standard", "thorough"}
        How hard attackers try.
    random_state : int
        Decides every number.

    Notes
    -----
    Half the cost of ``evaluate``.

    Examples
    --------
    >>> from unspot import Eraser
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> data = Dataset.from_arrays(X, np.arange(300) % 2, random_state=0)
    >>> scores = score(Eraser.projection(np.eye(3)[:, 1:]), data, ["linear", "variance"])
    >>> sorted(scores.values), 0.5 < scores.values["variance"] < 0.8
    (['linear', 'variance'], True)
    """
    functions = check_metrics(metrics, data)
    problem = _AfterOnly(data, erased(eraser, data), seeds, budget, random_state, eraser)
    findings, _ = _measure(problem, functions)
    rows = [row for finding in findings for row in finding.rows]
    return Scores(
        {row.key: None if row.after is None else row.after.mean for row in rows},
        {key: value for finding in findings for key, value in finding.details.items()},
    )


def over_seeds(
    eraser: Any, data: Dataset, metrics: Sequence[str], *, seeds: int, random_state: int = 0
) -> tuple[dict[str, tuple[float, float]], dict[str, Any]]:
    """Mean and spread of every score over so many repetitions; undefined ones are left out.

    And what lies behind those of the first repetition, as ``Scores.details``.
    """
    repetitions = [
        score(eraser, data, metrics, random_state=random_state + seed) for seed in range(seeds)
    ]
    columns = {key: [one.values[key] for one in repetitions] for key in repetitions[0].values}
    means = {
        key: (float(np.mean(column)), float(np.std(column)))  # type: ignore[arg-type]
        for key, column in columns.items()
        if None not in column
    }
    return means, repetitions[0].details


def on_validation(data: Dataset, random_state: int = 0) -> Dataset:
    """A data set that is scored on validation rows: to choose by, not to publish.

    Attackers learn from one half of them, and all is judged on the other half.
    """
    learn, judge = data.validation.halves(random_state)
    return replace(data, validation=learn, test=judge)


def after_refit(data: Dataset, random_state: int = 0) -> Dataset:
    """The data as an eraser sees them that was fitted again on train and validation rows.

    Both are its ``train`` rows. Nobody but attackers has seen the test rows: they learn from one
    half of them, the ``validation`` rows, and are judged on the other half.
    """
    learn, judge = data.test.halves(random_state)
    return replace(data, train=data.train.joined(data.validation), validation=learn, test=judge)


def check_metrics(metrics: Any, data: Dataset) -> dict[str, MetricFunction]:
    """The metrics as functions; unknown names, and names that the data do not allow, are errors."""
    if isinstance(metrics, Mapping):
        return dict(metrics)
    missing = lacking(data)
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    for name in names:
        if name not in METRICS:
            raise ValueError(
                f"Got metric {name!r}, but expected some of {', '.join(METRICS)}."
                f"{did_you_mean(name, METRICS)}"
            )
        if name in missing:
            raise ValueError(
                f"Got metric {name!r}, but the data {data.name!r} have no {missing[name]}."
            )
    if {"fairness", "fairness_paper"} <= set(names):
        raise ValueError(
            "Got metrics 'fairness' and 'fairness_paper', but expected one of them: they are the "
            "same numbers of two classifiers."
        )
    return {name: METRICS[name] for name in names}


def _measure(
    problem: Problem, functions: Mapping[str, MetricFunction], verbose: bool = False
) -> tuple[list[Finding], dict[str, float]]:
    """What each metric finds, and how many seconds it takes."""
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    parts = _parts(problem)
    named = functions.items()
    for name, function in steps(named, "Measuring", name=itemgetter(0), verbose=verbose):
        started = time.perf_counter()
        if parts and name in OF_CONCEPT:
            findings.extend(_of_each(name, function, parts))
        else:
            findings.append(function(problem))
        seconds[name] = round(time.perf_counter() - started, 3)
    return findings, seconds


def _parts(problem: Problem) -> dict[str, Problem]:
    """Of several concepts: the same problem about each of them, and about their combination."""
    before, after = parts_of(problem.before), parts_of(problem.after)
    erasers = restricted(problem.eraser, problem.before, len(before))
    return {
        a.name: replace(problem, before=a.data, after=b.data, eraser=eraser)
        for a, b, eraser in zip(before, after, erasers, strict=True)
    }


def _of_each(
    name: str, function: MetricFunction, parts: Mapping[str, Problem]
) -> Iterator[Finding]:
    """What a metric finds about each concept that it is defined for: keys and labels say which."""
    for concept, problem in parts.items():
        if name in lacking(problem.before):
            continue
        with naming_concept(concept):
            found = function(problem)
        rows = tuple(
            replace(row, key=f"{row.key}:{concept}", label=f"{row.label}, {concept}")
            for row in found.rows
        )
        yield Finding(rows, {f"{key}:{concept}": value for key, value in found.details.items()})


def _check_data(data: Any) -> None:
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected an unspot.Dataset. Make one "
            "with Dataset.from_arrays(X, z, y)."
        )
    for split in data:
        refuse_nonfinite(split.X)
    learn = {} if data.train is data.validation else {"train": data.train}
    refuse_shared_groups(**learn, validation=data.validation, test=data.test)


def _with_or_without_task(task: bool | str, data: Dataset) -> Dataset:
    """The data, without labels of the task where it is not to be measured."""
    if task not in ("auto", True, False):
        raise ValueError(f"Got task={task!r}, but expected 'auto', True or False.")
    if task is True and (data.train.y is None or data.test.y is None):
        raise ValueError(
            "Got task=True, but the data have no task labels y in train and test. Give them to "
            "Dataset.from_arrays(X, z, y)."
        )
    return data if task else replace(data, train=replace(data.train, task=None))


def _with_predictions(predictions: Any, data: Dataset) -> tuple[Dataset, str]:
    """The data with predictions of the test rows, and what those are called."""
    if predictions is None:
        return data, ""
    called = "the given predictions"
    if isinstance(predictions, Mapping):
        if len(predictions) != 1:
            raise ValueError(
                f"Got predictions of {len(predictions)} names, but expected one name and its "
                "predictions. Evaluate each classifier on its own."
            )
        ((name, predictions),) = predictions.items()
        called = f"the predictions {name!r}"
    values, y = np.asarray(in_memory(predictions)), data.test.y
    if y is None:
        raise ValueError(
            f"Got {called}, but the test rows have no labels of the task to compare them with. "
            "Give the task too: Dataset.from_arrays(X, z, y), or --task."
        )
    if values.shape != (len(data.test),):
        raise ValueError(
            f"Got {called} of shape {values.shape}, but expected one for each of the "
            f"{len(data.test):,} test rows."
        )
    _refuse_other_labels(values, data, called)
    return replace(data, test=replace(data.test, predictions=values)), called


def _refuse_other_labels(values: NDArray[Any], data: Dataset, called: str) -> None:
    """Raise an error if predictions are missing, or are no labels of the task."""
    missing = int(missing_values(values).sum())
    if missing:
        raise ValueError(
            f"Got {called} with {missing} missing values, but expected a label for each of the "
            f"{len(values):,} test rows. Predict all of them, or drop those rows."
        )
    tasks = [split.y for split in (data.train, data.test) if split.y is not None]
    # True equals 1, and is another label.
    known = {(isinstance(label, bool), label) for y in tasks for label in np.asarray(y).tolist()}
    for value in values.tolist():
        if (isinstance(value, bool), value) not in known:
            labels = ", ".join(sorted(repr(label) for _, label in known)[:6])
            raise ValueError(
                f"Got {called} with {value!r}, which is no label of the task, but expected labels "
                f"such as {labels}. Give labels, and not probabilities."
            )


def _preset(metrics: str | Sequence[str] | None, data: Dataset) -> str | Sequence[str]:
    """The names of a set of metrics, as far as the data allow; other names as they are."""
    every = tuple(name for name in METRICS if name != "fairness_paper")  # the rows of fairness
    presets = {None: DEFAULT, "paper": PAPER, "all": every}
    if not (metrics is None or (isinstance(metrics, str) and metrics in presets)):
        return metrics
    missing = lacking(data)
    return tuple(name for name in presets[metrics] if name not in missing)


def _warn_if_concept_decides_task(problem: Problem) -> None:
    concept, task = problem.concept.train, problem.task.train
    pairs = np.unique(np.stack([concept.codes, task.codes]), axis=1)
    if pairs.shape[1] == len(concept.classes):
        warnings.warn(
            "Got task labels that are a function of the concept: every class has one task label. "
            "Erasing the concept must then erase the task too, and TPR gaps say little.",
            UserWarning,
            stacklevel=3,
        )


def _facts(eraser: Any, problem: Problem) -> dict[str, Any]:
    data = problem.before
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "concept": concept_name(eraser, data),
        "n_rows": {"train": len(data.train), "test": len(data.test)},
        "n_features": data.n_features,
        "n_features_erased": int(problem.after.test.X.shape[1]),
        **_concept_facts(problem),
        "seeds": problem.seeds,
        "budget": problem.budget,
        "versions": versions(),
    }


def _concept_facts(problem: Problem) -> dict[str, Any]:
    if problem.before.concepts:
        return {"classes": None, "kinds": problem.train.z.kinds}
    if problem.of_number:
        return {"classes": None, "kinds": {"z": problem.train.target.kind}}
    return {"classes": [str(c) for c in problem.concept.train.classes]}
