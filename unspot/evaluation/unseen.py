"""Attackers against an eraser, on rows that it was not fitted on.

The one measurement behind the strongest attacker of ``evaluate``, ``certify``, paths and sweeps:
for the same rows, budget and seed they give the same number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_choice
from unspot.data.dataset import (
    MAX_SEEN,
    MAX_SHARED,
    Dataset,
    Split,
    refuse_continuous,
    refuse_shared_groups,
    share_among,
    share_fitted_on,
    stratified_parts,
)
from unspot.data.groups import group_codes
from unspot.data.labels import Labels, encode
from unspot.data.rows import refuse_extreme
from unspot.evaluation.attackers import MIN_OF_A_CLASS, AttackResult, attack_codes, rows_needed
from unspot.evaluation.inference import (
    balanced_interval,
    counts_in_groups,
    effective_rows,
    recalls,
)
from unspot.evaluation.problem import erased_rows

__all__ = [
    "AttackRows",
    "Attacked",
    "attack_both_ways",
    "attack_eraser",
    "can_cross_fit",
    "check_attack_rows",
    "checked_labels",
]

Groups = NDArray[np.int64] | None
AttackRows = Literal["unseen", "seen", "cross-fit"]

#: The split that attackers learn from.
SPLIT_OF = {"unseen": "validation", "seen": "train"}

#: With fewer test rows not even a perfect attacker is told from luck with certainty.
MIN_TEST_ROWS = 30

#: Of five folds, two fit, two are learned from, and one is judged on.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Attacked:
    """Attackers, the labels that they guessed, and erased rows that no eraser was fitted on.

    Attributes
    ----------
    results : tuple of AttackResult
    labels : Labels
        Of the judged rows, in the order of the attackers' guesses.
    groups : array of int or None
        What the judged rows come in.
    sample : tuple of array, Labels and groups
        Judged rows that one eraser has erased: what a two-sample test compares.
    learned : tuple of array, Labels and groups, or None
        The erased rows that attackers learned from; None if they did so fold by fold.
    """

    results: tuple[AttackResult, ...]
    labels: Labels
    groups: Groups
    sample: tuple[NDArray[Any], Labels, Groups]
    learned: tuple[NDArray[Any], Labels, Groups] | None = None

    @property
    def strongest(self) -> AttackResult:
        """The attacker that was right most often on the judged rows, every class counted alike."""
        return max(self.results, key=lambda result: result.balanced_accuracy)

    def interval(self, result: AttackResult, alpha: float = 0.05) -> tuple[float, float]:
        """Of a balanced accuracy, for all attackers at once: it pays for the choice of one."""
        each = alpha / len(self.results)
        shares = recalls(result.guesses, self.labels.codes, len(self.labels.classes))
        return balanced_interval(shares, self._counts(result, each), each)

    @property
    def effective_rows(self) -> int:
        """Rows in equal classes, independent of each other, that would tell as much."""
        return int(min(effective_rows(self._counts(result)) for result in self.results))

    def _counts(self, result: AttackResult, alpha: float = 0.05) -> NDArray[Any]:
        codes, n_classes = self.labels.codes, len(self.labels.classes)
        return counts_in_groups(result.guesses, codes, self.groups, n_classes, alpha)

    def upper_bound(self, alpha: float = 0.05) -> float:
        """No attacker's advantage over guessing is above this, with confidence 1 − alpha."""
        ends = (self.interval(result, alpha)[1] for result in self.results)
        return max(ends) - 1 / len(self.labels.classes)


def attack_eraser(
    eraser: Any,
    data: Dataset,
    *,
    attack_rows: AttackRows = "unseen",
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: bool = False,
    labels: tuple[Labels, Labels] | None = None,
) -> Attacked:
    """Let attackers learn from some rows of the data, and judge them on others.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, Dataset or None
        As ``erased_rows`` takes it; for "cross-fit", an estimator that can be fitted again.
    data : Dataset
        The original rows. The eraser was fitted on ``train``.
    attack_rows : {"unseen", "seen", "cross-fit"}
        Attackers learn from the validation rows; from the train rows, which look cleaner to them
        than new ones; or fold by fold, where rows are few: see ``certify``.
    labels : pair of Labels, optional
        What ``checked_labels`` gave for these rows, for those who have it already.
    """
    how: dict[str, Any] = {"budget": budget, "attackers": attackers, "verbose": verbose}
    check_attack_rows(attack_rows)
    if attack_rows == "cross-fit":
        return _cross_fitted(eraser, data, random_state, how)
    learned, judged = labels or checked_labels(eraser, data, attack_rows)
    X, X_test = erased_rows(eraser, data, SPLIT_OF[attack_rows], "test")
    groups = getattr(data, SPLIT_OF[attack_rows]).group_codes
    results = attack_codes(
        X, learned, X_test, judged.codes, random_state=random_state, groups=groups, **how
    )
    judged_groups = data.test.group_codes
    sample = X_test, judged, judged_groups
    return Attacked(results, judged, judged_groups, sample, (X, learned, groups))


def check_attack_rows(attack_rows: str) -> None:
    """One of the ways to choose the rows that attackers learn from."""
    check_choice("attack_rows", attack_rows, (*SPLIT_OF, "cross-fit"))


def attack_both_ways(eraser: Any, data: Dataset, **how: Any) -> Attacked:
    """Attackers that learn from validation rows judge the test rows, and the other way round.

    For a choice on few rows that the eraser has not seen: every row is judged on once.
    """
    swapped = replace(data, validation=data.test, test=data.validation)
    ways = [attack_eraser(eraser, rows, **how) for rows in (data, swapped)]
    classes = ways[0].labels.classes
    judged = Labels(np.concatenate([way.labels.codes for way in ways]), classes)
    groups = _joined_groups([data.test, data.validation])
    return Attacked(_pooled_results(ways, judged), judged, groups, ways[0].sample)


# -- fold by fold ----------------------------------------------------------------------------------


def can_cross_fit(eraser: Any, data: Dataset) -> bool:
    """Whether an eraser is an estimator, and there are rows enough to fit it on other rows."""
    if not _can_refit(eraser):
        return False
    try:
        _folds(_pooled(data), 0)
    except ValueError:
        return False
    return True


def _can_refit(eraser: Any) -> bool:
    return hasattr(eraser, "fit") and hasattr(eraser, "get_params")


def _cross_fitted(eraser: Any, data: Dataset, seed: int, how: dict[str, Any]) -> Attacked:
    """Every row is judged once, by attackers and after an eraser that have not seen it."""
    if not _can_refit(eraser):
        raise ValueError(
            f"Got attack_rows='cross-fit' and {type(eraser).__name__}, but expected an estimator, "
            "which is fitted again on a part of the rows. Pass the estimator, or more rows and "
            "attack_rows='unseen'."
        )
    whole = _pooled(data)
    labels, folds = _folds(whole, seed)
    parts = [
        _fold(eraser, whole, labels, folds[j:] + folds[:j], seed + j, how) for j in range(FOLDS)
    ]
    order = np.concatenate(folds)
    judged = Labels(labels.codes[order], labels.classes)
    groups = whole.take(order).group_codes
    return Attacked(_pooled_results(parts, judged), judged, groups, parts[0].sample)


def _pooled_results(parts: Sequence[Attacked], judged: Labels) -> tuple[AttackResult, ...]:
    """Each attacker over all parts."""
    each = zip(*(part.results for part in parts), strict=True)
    return tuple(_joined(results, judged.codes) for results in each)


def _pooled(data: Dataset) -> Split:
    """All rows of the data, each once: two splits may be the same rows."""
    splits = list({id(split): split for split in data}.values())
    z = np.concatenate([np.asarray(split.z, dtype=object) for split in splits])
    X = np.concatenate([np.asarray(split.X) for split in splits])
    return Split(X, encode(z).values, groups=_joined_groups(splits))


def _joined_groups(splits: Sequence[Split]) -> Groups:
    if any(split.groups is None for split in splits):
        return None
    joined = np.concatenate([np.asarray(split.groups) for split in splits])
    return group_codes(joined, len(joined))


def _folds(whole: Split, seed: int) -> tuple[Labels, list[NDArray[np.int64]]]:
    """The labels of all rows, and the rows of each fold; too few rows are an error."""
    labels = encode(whole.z, n_rows=len(whole))
    needed = FOLDS * max(MIN_TEST_ROWS // FOLDS, -(-rows_needed(len(labels.classes)) // 2))
    few = int(np.argmin(labels.counts))
    if len(whole) < needed or labels.counts[few] < FOLDS * MIN_OF_A_CLASS:
        raise ValueError(
            f"Got {len(whole)} rows, {labels.counts[few]} of them of class "
            f"{labels.classes[few]!s}, but cross-fitting needs at least {needed}, and "
            f"{FOLDS * MIN_OF_A_CLASS} of every class. Give more rows, or merge small classes."
        )
    rng = np.random.default_rng(seed)
    return labels, stratified_parts(labels.codes, (1 / FOLDS,) * FOLDS, rng, whole.groups)


def _fold(
    eraser: Any,
    whole: Split,
    labels: Labels,
    folds: Sequence[NDArray[np.int64]],
    seed: int,
    how: dict[str, Any],
) -> Attacked:
    """Attackers that judge the first fold."""
    judge, learn, fit = folds[0], np.concatenate(folds[1:3]), np.concatenate(folds[3:])
    fitted = clone(eraser).fit(whole.X[fit], whole.z[fit])
    unseen = Dataset(whole.take(fit), whole.take(learn), whole.take(judge))
    learned, judged = (Labels(labels.codes[rows], labels.classes) for rows in (learn, judge))
    return attack_eraser(fitted, unseen, random_state=seed, labels=(learned, judged), **how)


def _joined(folds: Sequence[AttackResult], codes: NDArray[np.int64]) -> AttackResult:
    """One attacker over all parts of the rows."""
    return AttackResult.of(
        folds[0].name,
        np.concatenate([fold.guesses for fold in folds]),
        np.concatenate([fold.probabilities for fold in folds]),
        codes,
        n_rows=min(fold.n_rows for fold in folds),
        seconds=sum(fold.seconds for fold in folds),
    )


# -- which rows ------------------------------------------------------------------------------------


def checked_labels(eraser: Any, data: Any, attack_rows: str) -> tuple[Labels, Labels]:
    """Labels of the rows to learn from and to judge on: every class in both, new to the eraser."""
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected a Dataset. Make one with "
            "Dataset.from_arrays(X, z)."
        )
    names = SPLIT_OF[attack_rows], "test"
    splits = [getattr(data, name) for name in names]
    for name, split in zip(names, splits, strict=True):
        refuse_continuous(split.z)
        refuse_extreme(np.asarray(split.X))  # before hashes of the rows are taken
        if len(split) == 0:
            raise ValueError(f"Got no rows in the {name} split, but expected some to certify on.")
    # As objects, so that the label "1" and the label 1 are not made one.
    z = np.concatenate([np.asarray(split.z, dtype=object) for split in splits])
    both = encode(z, name=f"z of the {names[0]} and test splits")
    parts = np.split(both.codes, [len(splits[0])])
    labels, test_labels = (Labels(codes, both.classes) for codes in parts)
    _refuse_missing_class(labels, names[0])
    _refuse_missing_class(test_labels, "test")
    _refuse_too_few(labels, test_labels, names[0])
    refuse_shared_groups(**dict(zip(names, splits, strict=True)))
    _refuse_single_groups(data.test, test_labels)
    _refuse_shared(data.test, splits[0], names[0])
    _refuse_fitted_on(eraser, data.test, test_labels, "test")
    if attack_rows == "unseen":
        _refuse_fitted_on(eraser, splits[0], labels, names[0])
    return labels, test_labels


def _refuse_missing_class(labels: Labels, name: str) -> None:
    missing = labels.classes[labels.counts == 0]
    if len(missing):
        raise ValueError(
            f"Got no row of class {missing[0]!s} in the {name} split, but expected every class in "
            "it. Split the rows stratified, as Dataset.from_arrays does."
        )


def _refuse_too_few(labels: Labels, test_labels: Labels, name: str) -> None:
    n_classes = len(labels.classes)
    needed = rows_needed(n_classes)
    if len(labels) < needed:
        raise ValueError(
            f"Got {len(labels)} rows in the {name} split, but attackers need at least {needed} to "
            f"learn {n_classes} classes. Give more rows, or an estimator and "
            "attack_rows='cross-fit'."
        )
    if len(test_labels) < MIN_TEST_ROWS:
        raise ValueError(
            f"Got {len(test_labels)} rows in the test split, but a certificate needs at least "
            f"{MIN_TEST_ROWS}."
        )
    fewest = int(np.argmin(test_labels.counts))
    if test_labels.counts[fewest] < 2:
        raise ValueError(
            f"Got 1 row of class {labels.classes[fewest]!s} in the test split, but expected at "
            "least 2 rows of every class. Add rows, or merge it with another class."
        )


def _refuse_single_groups(test: Split, labels: Labels) -> None:
    """A class that is in one group only cannot be told from that group."""
    groups = test.group_codes
    if groups is None:
        return
    for k, name in enumerate(labels.classes):
        if len(np.unique(groups[labels.codes == k])) < 2:
            raise ValueError(
                f"Got one group with rows of class {name!s} in the test split, but expected at "
                "least 2 of every class: a class in one group is not told from the group. Add "
                "groups, or merge the class with another."
            )


def _refuse_shared(test: Split, learn: Split, name: str) -> None:
    share = share_among(test, learn)
    if share > MAX_SHARED:
        raise ValueError(
            f"Got {100 * share:.0f} % of the test split in the {name} split too, but expected "
            "other rows to learn from: what was learned by heart is no evidence. Split the rows, "
            "as Dataset.from_arrays does."
        )


def _refuse_fitted_on(eraser: Any, split: Split, labels: Labels, name: str) -> None:
    share = share_fitted_on(eraser, split, labels)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        way_out = " After RankPath.select, give path.unseen." if name == "validation" else ""
        raise ValueError(
            f"Got an eraser that was fitted on {part}the {name} split, but expected one fitted on "
            f"other rows: on its own rows every eraser looks good.{way_out}"
        )
