"""The metrics of an evaluation.

A metric measures one side, the rows before or after erasure, and describes both as rows of a table.
A new one is a ``Metric`` in ``METRICS``; ``unspot.report.wording`` says how a page presents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset
from unspot.evaluation.attack_models import MIN_OF_A_CLASS, quiet_logistic, rows_needed, sought
from unspot.evaluation.attackers import attack_concept
from unspot.evaluation.inference import AttackResult, scores_of
from unspot.evaluation.measure import (
    Attacked,
    attack_eraser,
    attack_folds,
    can_cross_fit,
    check_rows,
    erased_rows,
    joined_splits,
    refitted,
    unseen,
)
from unspot.evaluation.utility import (
    Fairness,
    Retrieval,
    fairness,
    lisi,
    neighbour_overlap,
    retrieval,
    robustness_index,
    value_of,
    variance_kept,
)

Codes = NDArray[np.int64]
Direction = Literal["lower", "higher", "none"]

#: Pairs of rows compared for A_k, and rows coded for the description length: more are sampled.
MAX_PAIRS = 400_000_000
MAX_CODED = 30_000
#: Row orders that the description length is averaged over, if there are as many seeds.
MAX_ORDERS = 3


@dataclass(frozen=True)
class Value:
    """A mean over seeds, and the standard deviation over them where there are several."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class Row:
    """One metric, before and after erasure.

    Attributes
    ----------
    key, label : str
        Name of the metric in code, and in tables.
    unit : str
        "share" for a number from 0 to 1 that tables show in per cent, else a unit or nothing.
    before, after : Value or None
        None where the metric is undefined; the note says why.
    direction : {"lower", "higher", "none"}
        Which way is better.
    note : str
        How to read it, what was left out.
    """

    key: str
    label: str
    unit: str
    before: Value | None
    after: Value | None
    direction: Direction = "none"
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """Rows of a metric, and the details behind them."""

    rows: tuple[Row, ...]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Side:
    """The rows before or after erasure, and the settings of a measurement.

    Attributes
    ----------
    data, original : Dataset
        The rows of this side, and before erasure.
    eraser : object
        The eraser under evaluation; on both sides.
    is_original : bool
        Whether this is the side before erasure.
    utility : tuple of a function and an array, optional
        A number that the user computes from erased rows, and the rows in the user's order.
    """

    data: Dataset
    original: Dataset
    eraser: Any = None
    seeds: int = 5
    budget: str = "quick"
    random_state: int = 0
    utility: tuple[Callable[[Any, Any], float], NDArray[Any]] | None = None
    is_original: bool = False

    @property
    def concept(self) -> Any:
        """Concept of the test rows."""
        return self.original.test.target

    @property
    def effort(self) -> dict[str, Any]:
        return {"budget": self.budget, "random_state": self.random_state}

    @cached_property
    def attack_rows(self) -> str:
        """Tell how attackers are judged: on "halves", "cross-fit", or why they are not."""
        try:
            check_rows(self.eraser, unseen(self.original))
        except ValueError as error:
            if can_cross_fit(self.eraser, self.original):
                return "cross-fit"
            return f"undefined: {str(error)[:1].lower()}{str(error)[1:]}"
        return "halves"

    @cached_property
    def attacked(self) -> Attacked | None:
        """Attackers of rows that the eraser has not seen, as ``certify`` measures them."""
        if self.attack_rows == "halves":
            # One halving shows what there was; a bound is stated only of what is left.
            original: Any = {"halvings": 1} if self.is_original and self.eraser is not None else {}
            eraser = None if self.is_original else self.eraser
            return attack_eraser(eraser, unseen(self.original), **original, **self.effort)
        if self.attack_rows != "cross-fit":
            return None
        fitted = (lambda whole, fit: None) if self.is_original else None
        fitted = fitted or refitted(self.eraser, self.original)
        return attack_folds(fitted, joined_splits(self.original), **self.effort)

    def erased(self, X: NDArray[Any]) -> NDArray[Any]:
        """Erase rows, or leave them as they are on the side before erasure."""
        return X if self.is_original else erased_rows(self.eraser, X)

    @cached_property
    def linear_task(self) -> AttackResult:
        """Predictions of the task by a logistic or ridge regression that is fitted to the end."""
        learn, test = self.data.probe_rows, self.data.test
        how: Any = {"attackers": ["logistic"], "random_state": self.random_state}
        return attack_concept(learn.X, learn.task, test.X, scores_of(test.task), **how)[0]

    def fairness(self, predictions: Codes) -> Fairness:
        """Compute the fairness of predictions of the test rows' task, as codes."""
        task = self.original.test.task
        return fairness(task.values, task.classes[predictions], self.concept.values)


@dataclass(frozen=True)
class Metric:
    """A measurement of one side, and the words about both.

    Attributes
    ----------
    name : str
    measure : function of a Side
        Gives anything that ``describe`` understands.
    describe : function
        Function of the values before (None if not measured) and after, and of the side after.
    needs : str
        Requirement on the data.
    classes_only : bool
        Whether it is undefined for a continuous concept.
    shared : bool
        Whether several concepts share it, since it is not about the concept.
    """

    name: str
    measure: Callable[[Side], Any]
    describe: Callable[[Any, Any, Side], Finding]
    needs: str = ""
    classes_only: bool = False
    shared: bool = False


#: Requirements of metrics besides rows and the concept.
TASK, PAIRS, OWN = "task labels", "ids of rows that belong together (pairs)", "function (utility)"

#: Label, unit and direction of the rows, in the order of an evaluation.
ROWS: dict[str, tuple[str, str, Direction]] = {
    "chance": ("Chance", "share", "none"),
    "linear": ("Linear probe accuracy", "share", "lower"),
    "attack": ("Strongest attacker", "share", "lower"),
    "mdl": ("MDL", "kbit", "higher"),
    "mdl_prior": ("MDL, prior code", "kbit", "none"),
    "two_sample": ("Two-sample p-value", "p", "none"),
    "neighbours": ("A_50%", "", "higher"),
    "variance": ("Variance kept", "share", "higher"),
    "task_linear": ("Task accuracy, logistic", "share", "higher"),
    "tpr_gap": ("TPR gap, RMS", "", "lower"),
    "tpr_gap_correlation": ("σ of TPR gap and share", "", "lower"),
    "demographic_parity": ("Demographic parity", "", "lower"),
    "equalised_odds": ("Equalised odds gap", "", "lower"),
    "recall_at_1": ("R@1, all sources", "share", "higher"),
    "ndcg": ("nDCG@10, all sources", "", "higher"),
    "same_source": ("Same source among the ten nearest", "share", "none"),
    "ilisi": ("Sources around a row (iLISI)", "", "none"),
    "robustness": ("Robustness index", "", "higher"),
    "utility": ("Utility", "", "higher"),
}


#: Labels and notes that depend on the kind of the concept.
_LABELS = {
    "categories": {},
    "continuous": {
        "linear": "Linear probe R²",
        "attack": "Strongest attacker, R²",
        "two_sample": "Independence p-value",
        "task_linear": "Task R², ridge",
    },
}
_NOTES = {
    "categories": {
        "chance": "share of the largest class among the test rows: a guess without looking.",
        "linear": "a logistic regression that learned from the train rows, as the paper's probe "
        "does.",
        "attack": "Every class counts alike, so that guessing gets {chance:.1f} %.",
        "two_sample": "of the hypothesis that the classes have one distribution; a small value "
        "refutes it.",
    },
    "continuous": {
        "linear": "a ridge regression that learned from the train rows: the share of the variance.",
        "attack": "R², the share of the variance of the number: zero or less is nothing.",
        "two_sample": "of the hypothesis that rows and number are independent; a small one refutes "
        "it.",
    },
}


def lacking(
    data: Dataset, metrics: Mapping[str, Metric] | None = None, *, utility: bool = False
) -> dict[str, str]:
    """Return names of the metrics that the data do not allow, and what the data lack."""
    has_task = data.probe_rows.task is not None and data.test.task is not None
    has_pairs = data.validation.pairs is not None and data.test.pairs is not None
    has_classes = any(column.target.has_classes for column in data.test.concept.columns.values())
    lacks = {}
    for name, metric in (METRICS if metrics is None else metrics).items():
        if not {TASK: has_task, PAIRS: has_pairs, OWN: utility}.get(metric.needs, True):
            lacks[name] = metric.needs
        elif metric.name == "fairness" and not data.test.task.has_classes:
            lacks[name] = "task with classes: theirs is numeric"
        elif metric.classes_only and not has_classes:
            lacks[name] = "concept with classes: theirs is numeric"
    return lacks


def _one_row(
    key: str, note: Callable[[Side], str] | None = None
) -> Callable[[Any, Any, Side], Finding]:
    """Describe a metric of one row, with a note about the side after erasure, or by the kind."""

    def describe(before: Value | None, after: Value | None, side: Side) -> Finding:
        if note is not None:
            kind = side.original.test.task.kind if key == "task_linear" else "categories"
            return Finding((_row(key, before, after, note(side), kind),))
        return Finding(
            (_row(key, before, after, _NOTES[side.concept.kind][key], side.concept.kind),)
        )

    return describe


def _row(
    key: str, before: Value | None, after: Value | None, note: str = "", kind: str = "categories"
) -> Row:
    label, unit, better = ROWS[key]
    return Row(key, _LABELS[kind].get(key, label), unit, before, after, better, note)


def mean_value(values: Iterable[float | None]) -> Value | None:
    """Average the defined values, with the spread of several; None if none is defined."""
    defined = [value for value in values if value is not None]
    spread = float(np.std(defined)) if len(defined) > 1 else None
    return Value(float(np.mean(defined)), spread) if defined else None


def learned_nothing(before: Value | None, concept: Any, who: str = "It") -> str:
    """Warn if a classifier is no better than a guess before erasure; else return nothing."""
    guess = largest_share(concept)
    if before is None or before.mean > guess:
        return ""
    return (
        f" {who} learned nothing: before erasure it is no better than a guess, {100 * guess:.1f} %."
    )


def largest_share(concept: Any) -> float:
    """Return the share of the largest class: a guess without looking."""
    return float(concept.counts.max() / len(concept))


# -- What is left of the concept -------------------------------------------------------------------


def _chance(side: Side) -> Value:
    return Value(largest_share(side.concept))


def _linear_classes(side: Side) -> Value:
    from sklearn.linear_model import LogisticRegression

    from unspot.evaluation.description_length import standardisation

    learn = side.data.probe_rows
    X, X_test = (split.X.astype(np.float64) for split in (learn, side.data.test))
    mean, scale = standardisation(X)
    with quiet_logistic():
        model = LogisticRegression(max_iter=200).fit((X - mean) / scale, learn.target.codes)
        guesses = model.predict((X_test - mean) / scale)
    return Value(float(np.mean(guesses == side.concept.codes)))


def _linear_number(side: Side) -> Value:
    learn, test = side.data.probe_rows, side.data.test
    rows: Any = learn.X, learn.target, test.X, scores_of(test.target)
    (result,) = attack_concept(*rows, attackers=["ridge"], **side.effort)
    return Value(result.score)


_LINEAR = {"categories": _linear_classes, "continuous": _linear_number}


#: How the attackers were judged, for the notes.
_LEARNED = {
    "halves": "They learned from one half of {n:,} rows that the eraser has not seen and were "
    "judged on the other, both ways (budget {budget}).",
    "cross-fit": "They were judged fold by fold on {n:,} rows that the eraser of the fold has not "
    "seen (budget {budget}).",
}


def _attack(before: Attacked | None, after: Attacked | None, side: Side) -> Finding:
    if after is None:
        return Finding((_row("attack", None, None, side.attack_rows),))
    best, kind = after.strongest, after.scores.concept.kind
    was = best if before is None else before.strongest
    low, high = after.interval(best)
    learned = _LEARNED[side.attack_rows].format(n=len(after.scores.concept), budget=side.budget)
    note = (
        f"{was.name} before, {best.name} after: the strongest of {len(after.results)}; "
        f"{100 * low:.1f} to {100 * high:.1f} % after, with 95 % confidence for all of them at "
        f"once. {learned} {_NOTES[kind]['attack'].format(chance=100 * after.chance)}"
    )
    sides = {"before": before, "after": after}
    details: dict[str, Any] = {
        name: [
            {**result.to_dict(), "score": result.score, "interval": list(one.interval(result))}
            for result in one.results
        ]
        for name, one in sides.items()
        if one is not None
    }
    details |= {"chance": after.chance, "score": after.scores.score_name}
    spread = after.spread if before is None else None  # a table of ranks has no intervals
    values = None if before is None else Value(was.score), Value(best.score, spread)
    return Finding((_row("attack", *values, note, kind),), {"attackers": details})


def _code(side: Side) -> list[Any]:
    from unspot.evaluation.description_length import mdl

    test = side.data.test
    return [
        mdl(
            test.X,
            side.concept.present(),
            max_rows=MAX_CODED,
            control=order == 0,
            random_state=side.random_state + order,
            groups=test.group_codes,
        )
        for order in range(min(side.seeds, MAX_ORDERS))
    ]


def _mdl(before: list[Any] | None, after: list[Any], side: Side) -> Finding:
    was, now = (mean_value(code.kilobits for code in one or ()) for one in (before, after))
    prior = Value(after[0].prior_bits / 1000)
    note = (
        f"online code of {after[0].n_rows:,} test labels, over row orders; permuted labels cost "
        f"{after[0].control_bits / 1000:.2f} kbit after erasure."
    )
    nothing_left = (
        "what the labels cost if only the class shares are known; a code that has to learn those "
        "and finds nothing else costs a little more."
    )
    return Finding((_row("mdl", was, now, note), _row("mdl_prior", prior, prior, nothing_left)))


def _test(side: Side) -> Value:
    from unspot.evaluation.two_sample import two_sample_test

    test, concept = side.data.test, side.concept.present()
    how: Any = {"random_state": side.random_state, "groups": test.group_codes}
    return Value(two_sample_test(test.X, concept, **how).p_value)


# -- What is left of the rest ----------------------------------------------------------------------


def _overlap(side: Side) -> Value:
    if side.is_original:
        return Value(1.0)
    X, X_erased = side.original.test.X, side.data.test.X
    return Value(neighbour_overlap(X, X_erased, max_queries=max(1000, MAX_PAIRS // len(X))))


def _sampled(side: Side) -> str:
    """Note if neighbours are sought of a sample only."""
    n = len(side.original.test)
    queries = max(1000, MAX_PAIRS // n)
    return f"over {queries:,} test rows drawn at random." if queries < n else ""


def _variance_kept(side: Side) -> Value:
    if side.is_original:
        return Value(1.0)
    return Value(variance_kept(side.original.test.X, side.data.test.X))


def _lost_norm(side: Side) -> str:
    """Note if rows had unit norm before erasure and no longer have it."""
    norms = [np.linalg.norm(data.test.X, axis=1) for data in (side.original, side.data)]
    had, has = (bool(np.abs(of_rows - 1).max() < 1e-2) for of_rows in norms)
    if not had or has or not norms[1].any():
        return ""
    low, high = np.quantile(norms[1], [0.05, 0.95])
    return (
        f"the rows had unit norm, and most now have norms from {low:.2g} to {high:.2g}. If you "
        "store unit vectors, fit with normalise=True: to scale the rows later changes what was "
        "judged here."
    )


# -- The task, and its fairness --------------------------------------------------------------------


def _task_accuracy(side: Side) -> Value | None:
    if _too_few_to_learn(side):
        return None
    result = side.linear_task
    return Value(result.score if result.accuracy is None else result.accuracy)


def _task_note(side: Side) -> str:
    model = "logistic" if side.original.test.task.has_classes else "ridge"
    note = f"what erasure costs the task: a {model} regression, fitted to the end."
    return _too_few_to_learn(side) or note


def _too_few_to_learn(side: Side) -> str:
    """Explain why a logistic regression cannot learn the task; empty if it can."""
    task = side.original.probe_rows.task
    needed = rows_needed(task)
    if task.fewest_rows()[0] < MIN_OF_A_CLASS:
        return "undefined: a label has too few rows to learn from. Merge it with another."
    if len(task) < needed:
        return f"undefined: {len(task)} train rows, where {sought(task)} need {needed}."
    return ""


def _task_fairness(side: Side) -> list[Fairness]:
    """Compute gaps of a logistic regression for the task."""
    if _too_few_to_learn(side):
        return []
    return [side.fairness(side.linear_task.predictions.argmax(axis=1))]


_GAPS: dict[str, Callable[[Fairness], float | None]] = {
    "tpr_gap": lambda f: f.rms_gap,
    "tpr_gap_correlation": lambda f: f.correlation,
    "demographic_parity": lambda f: f.demographic_parity,
    "equalised_odds": lambda f: f.equalised_odds,
}


def _fairness(before: list[Fairness] | None, after: list[Fairness], side: Side) -> Finding:
    if not after:
        lack = _too_few_to_learn(side)
        return Finding(tuple(_row(key, None, None, lack) for key in _GAPS))
    return describe_fairness(before or [], after, side, "the logistic regression")


def describe_fairness(
    before: Sequence[Fairness], after: Sequence[Fairness], side: Side, who: str
) -> Finding:
    """Describe gaps of a classifier of the task, averaged over seeds."""
    accuracies = [mean_value(one.accuracy for one in part) for part in (before, after)]
    right = accuracies[1]
    whose = f"of {who}" + ("" if right is None else f", right on {100 * right.mean:.1f} % after")
    caveat = learned_nothing(accuracies[0], side.original.test.task, who[:1].upper() + who[1:])
    note = f"{whose}. {after[0].note}{caveat}".strip()

    def row(key: str, of: Callable[[Fairness], float | None]) -> Row:
        was, now = (mean_value([of(f) for f in part]) for part in (before, after))
        missing = "undefined: too few labels, or no variation." if now is None else ""
        return _row(key, was, now, missing or note)

    rows = tuple(row(key, of) for key, of in _GAPS.items())
    return Finding(rows, {"gaps": _gaps(before, after), "gaps_of": who})


def _gaps(before: Sequence[Fairness], after: Sequence[Fairness]) -> list[dict[str, Any]]:
    """List mean gaps over seeds, one record for each class and label."""

    def gap(side: Sequence[Fairness], c: Any, y: Any) -> float | None:
        value = mean_value(f.gaps[c][y] for f in side)
        return None if value is None else value.mean

    return [
        {
            "class": str(c),
            "label": str(y),
            "share": share,
            "before": gap(before, c, y),
            "after": gap(after, c, y),
        }
        for c, shares in after[0].shares.items()
        for y, share in shares.items()
    ]


# -- Search and mixing -----------------------------------------------------------------------------


def _search(side: Side) -> Retrieval:
    rows = unseen(side.original)
    sources = next(iter(rows.concept.columns.values()))
    known = None if sources.missing.any() else sources.target.drawn().values
    return retrieval(side.erased(rows.X), rows.pairs, known)


def _search_rows(before: Retrieval | None, after: Retrieval, side: Side) -> Finding:
    alone = f" {after.n_alone:,} ids occur once." if after.n_alone else ""
    notes = {
        "recall_at_1": ("recall", f"how often the nearest of all rows has the same id.{alone}"),
        "ndcg": ("ndcg", "whether rows of the same id come first."),
        "same_source": ("same_source", f"fair is {100 * (after.fair_share or 0.0):.1f} %."),
    }
    rows = []
    for key, (name, note) in notes.items():
        was, now = (getattr(one, name) if one else None for one in (before, after))
        if now is not None:
            ends = f"{now.low:.3f} to {now.high:.3f} after, with 95 % confidence; "
            before_value = None if was is None else Value(was.value)
            rows.append(_row(key, before_value, Value(now.value), ends + note))
    return Finding(tuple(rows))


def _mixing(side: Side) -> tuple[Value, Value | None]:
    rows = unseen(side.original)
    X, sources, task = side.erased(rows.X), rows.target, rows.task
    index = None
    if task is not None and task.has_classes:
        index = robustness_index(X, task.values, sources.values)
    return Value(float(lisi(X, sources.values).mean())), None if index is None else Value(index)


def _mixing_rows(before: Any, after: Any, side: Side) -> Finding:
    was = (None, None) if before is None else before
    read = side.attack_rows
    if side.attacked is not None:
        best, chance = side.attacked.strongest, side.attacked.chance
        read = f"{best.name} is right on {100 * best.score:.1f} % (guessing: {100 * chance:.1f} %)"
    about = {
        "ilisi": f"from 1, a single one, to {len(side.concept.classes)}, all mixed. Rows that look "
        f"mixed may still be read: {read}.",
        "robustness": "1 if rows have neighbours of their class, 0 if of their source.",
    }
    rows = zip(about.items(), was, after, strict=True)
    return Finding(tuple(_row(key, one, two, note) for (key, note), one, two in rows if two))


def _user_utility(side: Side) -> Value:
    assert side.utility is not None  # guaranteed by ``needs``
    function, rows = side.utility
    return Value(value_of(function, side.erased(rows), np.arange(len(rows))))


# -- All of them -----------------------------------------------------------------------------------


#: Measured only where they are asked for.
ON_REQUEST = ("mixing",)

#: In the order of an evaluation's rows.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("chance", _chance, _one_row("chance"), classes_only=True),
        Metric("linear", lambda side: _LINEAR[side.concept.kind](side), _one_row("linear")),
        Metric("attack", attrgetter("attacked"), _attack),
        Metric("mdl", _code, _mdl, classes_only=True),
        Metric("two_sample", _test, _one_row("two_sample")),
        Metric("neighbours", _overlap, _one_row("neighbours", _sampled), shared=True),
        Metric("variance", _variance_kept, _one_row("variance", _lost_norm), shared=True),
        Metric(
            "task_linear", _task_accuracy, _one_row("task_linear", _task_note), TASK, shared=True
        ),
        Metric("fairness", _task_fairness, _fairness, needs=TASK, classes_only=True),
        Metric("search", _search, _search_rows, needs=PAIRS, shared=True),
        Metric("mixing", _mixing, _mixing_rows, classes_only=True),
        Metric("utility", _user_utility, _one_row("utility", lambda _: ""), needs=OWN, shared=True),
    )
}
