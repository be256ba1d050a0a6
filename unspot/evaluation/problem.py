"""The question that every metric answers: the same rows, before and after erasure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import SPLITS, Dataset, Lexicon, Split, is_number
from unspot.data.labels import Labels, encode, encode_as
from unspot.data.rows import in_memory, refuse_extreme, refuse_masked, refuse_nonfinite
from unspot.evaluation.results import Row

__all__ = ["Coded", "Finding", "MetricFunction", "Problem", "erased", "erased_rows"]

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Finding:
    """Rows of a metric, and what lies behind them."""

    rows: tuple[Row, ...]
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Coded:
    """Labels of train and test rows, encoded once for all metrics."""

    train: Labels
    test: Codes  # positions among the classes of the train rows

    @classmethod
    def of(cls, data: Dataset, what: str) -> Coded:
        """The concept ``z`` or the task ``y`` of a data set."""
        labels = encode(getattr(data.train, what), name=f"{what} of the train split")
        test = getattr(data.test, what)
        return cls(labels, encode_as(test, labels.classes, name=f"{what} of the test split"))

    @property
    def test_share(self) -> float:
        """The share of the largest class among the test rows: a guess without looking."""
        return float(np.bincount(self.test).max() / len(self.test))

    def refuse_missing_class(self) -> None:
        """A class of the train rows without a test row is an error."""
        counts = np.bincount(self.test, minlength=len(self.train.classes))
        if counts.min() == 0:
            raise ValueError(
                f"Got no rows of class {self.train.classes[int(np.argmin(counts))]!s} in the test "
                "split, but expected every class of the train split there. Split the rows "
                "stratified, as Dataset.from_arrays does."
            )

    @cached_property
    def test_labels(self) -> Labels:
        """The labels of the test rows among the classes that occur there."""
        labels = present(self.test, self.train.classes)
        if len(labels.classes) < 2:
            raise ValueError(
                f"Got test rows of one class ({labels.classes[0]!s}), but expected at least two "
                "classes. Split the rows stratified, as Dataset.from_arrays does."
            )
        return labels


@dataclass(frozen=True, eq=False)
class Problem:
    """The same rows before and after erasure, and how hard to look at them."""

    before: Dataset
    after: Dataset
    seeds: int = 5
    budget: str = "quick"
    random_state: int = 0
    eraser: Any = None  # what erased ``before``, for those who fit it again
    #: What attackers found after erasure, by the rows that they learned from: notes compare.
    attacked: dict[str, Any] = field(default_factory=dict)
    predictions: str = ""  # what the predictions of the test rows are called, if there are any

    @property
    def train(self) -> Split:
        return self.before.train

    @property
    def test(self) -> Split:
        return self.before.test

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        """A measurement of the rows before and after erasure."""
        return measure(self.before), measure(self.after)

    @property
    def of_number(self) -> bool:
        """Whether the concept is a number, and so has no classes."""
        return is_number(self.train.z, self.train.kind)

    @cached_property
    def concept(self) -> Coded:
        return Coded.of(self.before, "z")

    @cached_property
    def task(self) -> Coded:
        return Coded.of(self.before, "y")

    @cached_property
    def task_fairness(self) -> tuple[list[Any], list[Any]]:
        """``Fairness`` of the paper's task classifier, one for each seed."""
        from unspot.evaluation.probes import predict_codes

        def of_every_seed(data: Dataset) -> list[Any]:
            predictions = predict_codes(
                data.train.X,
                self.task.train,
                data.test.X,
                seeds=self.seeds,
                random_state=self.random_state,
            )
            return [self._fairness(codes) for codes in predictions]

        return self.on_both(of_every_seed)

    @cached_property
    def linear_task(self) -> tuple[Codes, Codes]:
        """Predictions of the task by a logistic regression that is fitted to the end, as codes."""
        from unspot.evaluation.attackers import learned_attackers

        def predicted(data: Dataset) -> Codes:
            guess = learned_attackers(
                data.train.X,
                self.task.train,
                attackers=["logistic"],
                random_state=self.random_state,
            )["logistic"]
            probabilities, _ = guess(np.asarray(data.test.X, dtype=np.float64))
            return np.asarray(probabilities.argmax(axis=1))

        return self.on_both(predicted)

    @property
    def linear_fairness(self) -> tuple[list[Any], list[Any]]:
        """``Fairness`` of that logistic regression."""
        before, after = self.linear_task
        return [self._fairness(before)], [self._fairness(after)]

    @property
    def given_fairness(self) -> tuple[list[Any], list[Any]]:
        """``Fairness`` of the predictions of the test rows, which are of erased rows."""
        from unspot.evaluation.group_fairness import fairness

        return [], [fairness(self.test.y, self.test.predictions, self.test.z)]

    def _fairness(self, predictions: Codes) -> Any:
        """``Fairness`` of predictions of the test rows' task, as codes."""
        from unspot.evaluation.group_fairness import fairness_of_codes

        n = len(self.test)
        both = present(np.append(self.task.test, predictions), self.task.train.classes)
        labels = self.concept.test_labels
        return fairness_of_codes(both.codes[:n], both.codes[n:], both.classes, labels)


MetricFunction = Callable[[Problem], Finding]


def present(codes: Codes, classes: NDArray[Any]) -> Labels:
    """Labels without the classes that do not occur.

    Examples
    --------
    >>> labels = present(np.array([2, 0]), np.array(["a", "b", "c"]))
    >>> labels.codes, labels.classes
    (array([1, 0]), array(['a', 'c'], dtype='<U1'))
    """
    occurring = np.unique(codes)
    return Labels(np.searchsorted(occurring, codes), classes[occurring])


# -- erasers of any kind ---------------------------------------------------------------------------


def erased(eraser: Any, data: Dataset) -> Dataset:
    """A data set after erasure: all rows, and the lexicon.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, Dataset or None
        As ``erased_rows`` takes it.
    data : Dataset
        The original rows.

    Examples
    --------
    >>> from unspot import Dataset, Eraser
    >>> data = Dataset.from_arrays(np.ones((20, 2)), np.arange(20) % 2, random_state=0)
    >>> erased(Eraser.projection(np.eye(2)[:, :1]), data).test.X[0]
    array([1., 0.])
    """
    rows = erased_rows(eraser, data, *SPLITS)
    train, validation, test = (replace(split, X=X) for split, X in zip(data, rows, strict=True))
    lexicon = data.lexicon
    if isinstance(eraser, Dataset):
        lexicon = eraser.lexicon
    elif lexicon is not None:
        lexicon = Lexicon(lexicon.words, *erased_rows(eraser, data, "lexicon"))
    return replace(data, train=train, validation=validation, test=test, lexicon=lexicon)


def erased_rows(eraser: Any, data: Dataset, *names: str) -> list[NDArray[Any]]:
    """The rows of some splits after erasure, checked.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, Dataset or None
        What has ``transform`` erases by it, anything else by a call; a function may return a torch
        tensor. A Dataset holds the erased rows themselves. None leaves the rows as they are.
    data : Dataset
        The original rows.
    *names : {"train", "validation", "test", "lexicon"}
        Which rows to erase.
    """
    rows = [_erased_split(eraser, data, name) for name in names]
    widths = {name: X.shape[1] for name, X in zip(names, rows, strict=True) if len(X)}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{width} in {name}" for name, width in widths.items())
        raise ValueError(f"Got erased rows of {shown} features, but expected the same number.")
    return rows


def _erased_split(eraser: Any, data: Dataset, name: str) -> NDArray[Any]:
    X = getattr(data, name).X
    if isinstance(eraser, Dataset):
        rows = getattr(eraser, name).X
    elif eraser is None or not len(X):  # a split without rows is allowed: nothing to erase
        rows = X
    else:
        rows = _function(eraser)(X)
    refuse_masked(rows, f"the rows of the {name} split")
    rows = np.asarray(in_memory(rows))
    if rows.ndim != 2 or len(rows) != len(X):
        raise ValueError(
            f"Got erased rows of shape {rows.shape} for the {len(X)} original rows of the {name} "
            "split, but expected one for each."
        )
    refuse_nonfinite(rows)
    refuse_extreme(rows)
    return rows


def _function(eraser: Any) -> Callable[[Any], Any]:
    if isinstance(eraser, type):
        raise ValueError(
            f"Got the class {eraser.__name__}, but expected a fitted eraser: call "
            f"{eraser.__name__}(…).fit(data.train.X, data.train.z) first."
        )
    function = getattr(eraser, "transform", eraser)
    if not callable(function):
        raise ValueError(
            f"Got an eraser of type {type(eraser).__name__}, but expected a fitted estimator with "
            "transform, an Eraser, a function of rows, a Dataset of erased rows, or None for the "
            "rows as they are."
        )
    checked: Callable[[Any], Any] = function
    return checked
