"""Several erasers side by side: the same rows, the same attackers, and by how much they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset
from unspot.data.labels import encode, encode_as
from unspot.data.rows import as_seed
from unspot.evaluation.attackers import attack_codes
from unspot.evaluation.inference import paired_covariance, recalls
from unspot.evaluation.metrics import about, lacking, one_row
from unspot.evaluation.problem import erased_rows
from unspot.evaluation.results import Evaluation, Value
from unspot.evaluation.run import evaluate
from unspot.evaluation.unseen import Attacked, attack_eraser, checked_labels
from unspot.io.progress import phase, steps
from unspot.machine import same_bits

__all__ = ["Comparison", "Difference", "compare"]

#: What is measured beside the attackers, as far as the data allow.
_OTHERS = ("two_sample", "neighbours", "variance", "task_linear")


@dataclass(frozen=True)
class Difference:
    """An accuracy after one eraser minus that after another, on the same rows.

    Attributes
    ----------
    metric : str
        "attack", the strongest attacker; or "task_linear".
    name, other : str
        The erasers.
    value : float
    interval : tuple of float
        For all differences of the metric at once, and for the choice of the strongest attackers.
    """

    metric: str
    name: str
    other: str
    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        low, high = self.interval
        decided = "" if low > 0 or high < 0 else ": these rows cannot tell them apart"
        return (
            f"{about(self.metric).title}: {100 * self.value:+.1f} points after {self.name} "
            f"compared with {self.other}, between {100 * low:+.1f} and {100 * high:+.1f} with 95 % "
            f"confidence{decided}."
        )


@dataclass(frozen=True)
class Comparison:
    """Evaluations by the names of the erasers, and how far each is from the first one."""

    evaluations: Mapping[str, Evaluation]
    differences: tuple[Difference, ...]

    @property
    def best(self) -> str:
        """The eraser whose strongest attacker recovers least."""
        left = {name: found["attack"].after for name, found in self.evaluations.items()}
        return min((value.mean, name) for name, value in left.items() if value is not None)[1]

    def to_json(self) -> str:
        """JSON text with the evaluations and the differences."""
        content = {
            "format": "unspot-comparison/1",
            "evaluations": {name: found.to_dict() for name, found in self.evaluations.items()},
            "differences": [asdict(difference) for difference in self.differences],
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


@same_bits()
def compare(
    erasers: Mapping[str, Any],
    data: Dataset,
    *,
    budget: str = "quick",
    random_state: Any = 0,
    verbose: bool = False,
) -> Comparison:
    """Measure erasers on the same rows, with the same attackers.

    Attackers learn from the validation rows and are judged on the test rows, as in ``certify``: for
    the same rows, budget and seed the numbers are the same. No eraser may have been fitted on
    either.

    Parameters
    ----------
    erasers : mapping of names to erasers
        As ``evaluate`` takes them. The others are compared with the first one.
    data : Dataset
    budget : {"quick", "standard", "thorough"}
        How hard the attackers try.
    random_state : int, Generator or None
        Decides everything that is random.
    verbose : bool
        Whether to show progress on stderr.

    Notes
    -----
    One measurement for the original rows and one for every eraser. Intervals of differences are
    normal approximations from the rows (or groups) on which two attackers differ. They are
    Bonferroni-corrected for all pairs of attackers, so that they hold for the two strongest.

    Examples
    --------
    >>> from unspot import Eraser
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    >>> found = compare({"nothing": None, "projection": Eraser.projection(rest)}, data)
    >>> found.best, found.differences[0].interval[1] < 0
    ('projection', True)
    """
    if len(erasers) < 2:
        raise ValueError(
            f"Got {len(erasers)} eraser to compare, but expected two or more. One is measured by "
            "evaluate."
        )
    seed = as_seed(random_state)
    for eraser in erasers.values():  # before the attacks, which take long
        checked_labels(eraser, data, "unseen")
    how: dict[str, Any] = {"budget": budget, "random_state": seed}
    attacked: dict[str, Attacked] = {}
    with phase("The original", verbose=verbose):
        before = attack_eraser(None, data, **how)
    others = [name for name in _OTHERS if name not in lacking(data)]
    evaluations = {}
    for name, eraser in steps(erasers.items(), "Eraser", name=itemgetter(0), verbose=verbose):
        attacked[name] = attack_eraser(eraser, data, **how)
        measured = evaluate(eraser, data, metrics=others, seeds=1, **how)
        evaluations[name] = _with_attackers(measured, before, attacked[name])
    differences = _attack_differences(attacked)
    if "task_linear" in others:
        differences += _task_differences(erasers, data, seed)
    return Comparison(evaluations, tuple(differences))


def _with_attackers(measured: Evaluation, before: Attacked, after: Attacked) -> Evaluation:
    """The evaluation with the attackers, as the metric ``attack`` has them."""
    was, left = (Value(side.strongest.balanced_accuracy) for side in (before, after))
    low, high = after.interval(after.strongest)
    note = (
        f"{before.strongest.name} before, {after.strongest.name} after, {100 * low:.1f} to "
        f"{100 * high:.1f} %; every class counts alike."
    )
    attackers = {
        side: [
            {
                "name": result.name,
                "balanced_accuracy": result.balanced_accuracy,
                "interval": list(found.interval(result)),
            }
            for result in found.results
        ]
        for side, found in (("before", before), ("after", after))
    }
    rows = (*one_row("attack", was, left, note).rows, *measured.rows)
    return replace(measured, rows=rows, details={**measured.details, "attackers": attackers})


def _attack_differences(attacked: Mapping[str, Attacked]) -> list[Difference]:
    first = next(iter(attacked.values()))
    guesses = {name: found.strongest.guesses for name, found in attacked.items()}
    pairs = len(first.results) ** 2
    classes = len(first.labels.classes)
    return _differences("attack", guesses, first.labels.codes, first.groups, classes, pairs)


def _task_differences(erasers: Mapping[str, Any], data: Dataset, seed: int) -> list[Difference]:
    """Of the logistic regression of the task, whose accuracy counts every row alike."""
    labels = encode(data.train.y, name="y of the train split")
    codes = encode_as(data.test.y, labels.classes, name="y of the test split")
    right = {}
    for name, eraser in erasers.items():
        X, X_test = erased_rows(eraser, data, "train", "test")
        (model,) = attack_codes(X, labels, X_test, codes, attackers=["logistic"], random_state=seed)
        # Not its guesses, for which every class counts alike: those of the metric "task_linear".
        right[name] = (model.probabilities.argmax(axis=1) == codes).astype(np.int64)
    # Of one class, "right", the share that was recognised is the accuracy.
    ones = np.zeros(len(codes), dtype=np.int64)
    hits = {name: 1 - hit for name, hit in right.items()}
    return _differences("task_linear", hits, ones, data.test.group_codes, 1, 1)


def _differences(
    metric: str,
    guesses: Mapping[str, NDArray[np.int64]],
    codes: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
    n_classes: int,
    pairs: int,
    alpha: float = 0.05,
) -> list[Difference]:
    """Of every eraser against the first one, with intervals for all of them at once."""
    names = list(guesses)
    quantile = NormalDist().inv_cdf(1 - alpha / (2 * pairs * (len(names) - 1)))
    accuracy = [float(recalls(guesses[name], codes, n_classes).mean()) for name in names]
    joint = paired_covariance([guesses[name] for name in names], codes, groups, n_classes)
    found = []
    for i, name in enumerate(names[1:], start=1):
        value = accuracy[i] - accuracy[0]
        variance = float(joint[i, i] + joint[0, 0] - 2 * joint[i, 0])
        reach = quantile * max(variance, 0.0) ** 0.5
        found.append(Difference(metric, name, names[0], value, (value - reach, value + reach)))
    return found
