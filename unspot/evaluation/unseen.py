"""Attackers against an eraser, on rows that it was not fitted on.

The one measurement behind the strongest attacker of ``evaluate``, ``certify``, paths and sweeps:
for the same rows, budget and seed they give the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from unspot.checks import check_choice
from unspot.data.concept import joined
from unspot.data.concepts import Target
from unspot.data.dataset import (
    MAX_SEEN,
    MAX_SHARED,
    Dataset,
    Split,
    refuse_shared_groups,
    share_among,
    share_fitted_on,
    stratified_parts,
)
from unspot.data.labels import Labels
from unspot.data.rows import refuse_extreme
from unspot.evaluation.attacked import (
    Attacked,
    Known,
    Sample,
    attacked_rows,
    from_known,
    relative_guesses,
    with_known,
)
from unspot.evaluation.attackers import MIN_OF_A_CLASS, AttackResult, rows_needed
from unspot.evaluation.problem import erased_rows
from unspot.evaluation.regression import MIN_NUMBER_ROWS, RegressionResult

__all__ = [
    "AttackRows",
    "attack_both_ways",
    "attack_eraser",
    "attack_folds",
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


def attack_eraser(
    eraser: Any,
    data: Dataset,
    *,
    attack_rows: AttackRows = "unseen",
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: int = 0,
    verbose: bool = False,
    labels: tuple[Target, Target] | None = None,
    given: bool = False,
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
    labels : pair of Labels or Measurements, optional
        What ``checked_labels`` gave for these rows, for those who have it already.
    given : bool
        Attackers know the task ``y`` of every row, and only what rows add to it counts.
    """
    how: dict[str, Any] = {"budget": budget, "attackers": attackers, "verbose": verbose}
    check_attack_rows(attack_rows)
    if attack_rows == "cross-fit":
        return _cross_fitted(eraser, data, random_state, {**how, "given": given})
    learned, judged = labels or checked_labels(eraser, data, attack_rows)
    learn = getattr(data, SPLIT_OF[attack_rows])
    X, X_test = erased_rows(eraser, data, SPLIT_OF[attack_rows], "test")
    sample = Sample(X_test, judged, data.test.group_codes)
    known = None
    if given:
        codes = known_codes(learn, data.test)
        sample = replace(sample, known=codes[1])
        X, X_test = with_known(X, X_test, *codes)
        known = Known(codes[1], from_known(learned, codes[0], judged, codes[1], "y alone"))
    results = attacked_rows(
        X, learned, X_test, judged, random_state=random_state, groups=learn.group_codes, **how
    )
    if known is not None and isinstance(judged, Labels):
        results = tuple(relative_guesses(result, known.alone) for result in results)
    taught = X, learned, learn.group_codes
    return Attacked.of(results, judged, sample.groups, sample, known, taught)


def known_codes(*splits: Split) -> list[NDArray[np.int64]]:
    """The classes of the task, which attackers know, in each split."""
    if any(split.y is None for split in splits):
        raise ValueError(
            "Got given='y', but the data have no task labels y. Give them to "
            "Dataset.from_arrays(X, z, y), or name their column with --given."
        )
    if any(split.groups is not None for split in splits):
        raise ValueError(
            "Got given='y' and groups, but expected one of both: labels cannot be permuted within "
            "the classes of y and by group at once. Leave one of them out."
        )
    if not all(split.task.has_classes for split in splits):
        raise ValueError(
            "Got given='y' and fractional numbers as y, but expected categories: labels are "
            "permuted within each. Cut y into bins."
        )
    return [split.task.codes for split in splits]


def check_attack_rows(attack_rows: str) -> None:
    """One of the ways to choose the rows that attackers learn from."""
    check_choice("attack_rows", attack_rows, (*SPLIT_OF, "cross-fit"))


def attack_both_ways(eraser: Any, data: Dataset, **how: Any) -> Attacked:
    """Attackers that learn from validation rows judge the test rows, and the other way round.

    For a choice on few rows that the eraser has not seen: every row is judged on once.
    """
    swapped = replace(data, validation=data.test, test=data.validation)
    ways = [attack_eraser(eraser, rows, **how) for rows in (data, swapped)]
    judged = joined([way.labels for way in ways])
    groups = data.test.joined(data.validation).group_codes
    return _pooled_attacks(ways, judged, groups)


def _pooled_attacks(parts: Sequence[Attacked], judged: Target, groups: Groups) -> Attacked:
    """The attacks on all parts as one."""
    known = None
    if parts[0].known is not None:
        each = [part.known for part in parts if part.known is not None]
        codes = np.concatenate([one.codes for one in each])
        known = Known(codes, _joined([one.alone for one in each], judged))
    results = _pooled_results(parts, judged)
    return Attacked.of(results, judged, groups, parts[0].sample, known)


# -- fold by fold ----------------------------------------------------------------------------------


def can_cross_fit(eraser: Any, data: Dataset) -> bool:
    """Whether an eraser is an estimator, and the rows suffice to fit it on others as it was."""
    if not _can_refit(eraser):
        return False
    try:
        _folds(_pooled(data), 0)
        _conditions(eraser, data)
    except ValueError:
        return False
    return True


def _can_refit(eraser: Any) -> bool:
    return hasattr(eraser, "fit") and hasattr(eraser, "get_params")


def _cross_fitted(eraser: Any, data: Dataset, seed: int, how: dict[str, Any]) -> Attacked:
    """``attack_folds`` of an estimator."""
    if not _can_refit(eraser):
        raise ValueError(
            f"Got attack_rows='cross-fit' and {type(eraser).__name__}, but expected an estimator, "
            "which is fitted again on a part of the rows. Pass the estimator, or more rows and "
            "attack_rows='unseen'."
        )

    conditions = _conditions(eraser, data)

    def fitted(whole: Split, fit: NDArray[np.int64]) -> Any:
        concept = whole.concept if whole.table is None else whole.table
        beside = {name: whole.task.take(fit).values for name in conditions}
        return clone(eraser).fit(whole.X[fit], concept.take(fit).values, **beside)

    return attack_folds(fitted, data, random_state=seed, **how)


def _conditions(eraser: Any, data: Dataset) -> list[str]:
    """Whether an estimator was fitted with given=y or keep=y, so that it is again."""
    metadata = getattr(getattr(eraser, "eraser_", None), "metadata", {})
    conditions = [name for name in ("given", "keep") if name in metadata]
    tasks = set() if data.test.y is None else set(map(str, data.test.y))
    for name in conditions:
        known = metadata[name]["classes"]
        if known is None or not tasks or not tasks <= set(map(str, known)):
            raise ValueError(
                f"Got attack_rows='cross-fit' and an eraser that was fitted with {name}=…, but "
                "the task y of the data is not what it was fitted with, so that it cannot be "
                "fitted again. Give that as y, or use attack_rows='unseen'."
            )
    return conditions


def attack_folds(
    fitted: Callable[[Split, NDArray[np.int64]], Any],
    data: Dataset,
    *,
    random_state: int = 0,
    **how: Any,
) -> Attacked:
    """Every row is judged once, by attackers and after an eraser that have not seen it.

    Parameters
    ----------
    fitted : callable
        All rows, and the numbers of those to fit on → eraser.
    data : Dataset
    random_state : int
    **how
        As of ``attack_eraser``.
    """
    whole = _pooled(data)
    labels, folds = _folds(whole, random_state)
    parts = [
        _fold(fitted, whole, labels, folds[j:] + folds[:j], random_state + j, how)
        for j in range(FOLDS)
    ]
    order = np.concatenate(folds)
    return _pooled_attacks(parts, labels.take(order), whole.take(order).group_codes)


def _pooled_results(parts: Sequence[Attacked], judged: Target) -> tuple[Any, ...]:
    """Each attacker over all parts."""
    each = zip(*(part.results for part in parts), strict=True)
    return tuple(_joined(results, judged) for results in each)


def _pooled(data: Dataset) -> Split:
    """Join all rows of the data, each once: two splits may be the same rows."""
    first, *others = {id(split): split for split in data}.values()
    return first.joined(*others)


def _folds(whole: Split, seed: int) -> tuple[Target, list[NDArray[np.int64]]]:
    """The labels of all rows, and the rows of each fold; too few rows are an error."""
    labels = whole.target
    if isinstance(labels, Labels):
        _refuse_few_of_a_class(labels)
    elif len(labels) < FOLDS * MIN_NUMBER_ROWS // 2:
        raise ValueError(
            f"Got {len(labels)} rows, but cross-fitting of a number needs at least "
            f"{FOLDS * MIN_NUMBER_ROWS // 2}. Give more rows."
        )
    rng = np.random.default_rng(seed)
    return labels, stratified_parts(labels.strata, (1 / FOLDS,) * FOLDS, rng, whole.groups)


def _refuse_few_of_a_class(labels: Labels) -> None:
    needed = FOLDS * max(MIN_TEST_ROWS // FOLDS, -(-rows_needed(len(labels.classes)) // 2))
    few = int(np.argmin(labels.counts))
    if len(labels) < needed or labels.counts[few] < FOLDS * MIN_OF_A_CLASS:
        raise ValueError(
            f"Got {len(labels)} rows, {labels.counts[few]} of them of class "
            f"{labels.classes[few]!s}, but cross-fitting needs at least {needed}, and "
            f"{FOLDS * MIN_OF_A_CLASS} of every class. Give more rows, or merge small classes."
        )


def _fold(
    fitted: Callable[[Split, NDArray[np.int64]], Any],
    whole: Split,
    labels: Target,
    folds: Sequence[NDArray[np.int64]],
    seed: int,
    how: dict[str, Any],
) -> Attacked:
    """Attackers that judge the first fold."""
    judge, learn, fit = folds[0], np.concatenate(folds[1:3]), np.concatenate(folds[3:])
    unseen = Dataset(whole.take(fit), whole.take(learn), whole.take(judge))
    both = labels.take(learn), labels.take(judge)
    return attack_eraser(fitted(whole, fit), unseen, random_state=seed, labels=both, **how)


def _joined(folds: Sequence[Any], judged: Target) -> AttackResult | RegressionResult:
    """One attacker over all parts of the rows."""
    if not isinstance(judged, Labels):
        return RegressionResult.of(
            folds[0].name,
            np.concatenate([fold.predictions for fold in folds]),
            judged.coordinates,
            n_rows=min(fold.n_rows for fold in folds),
            seconds=sum(fold.seconds for fold in folds),
        )
    return AttackResult.of(
        folds[0].name,
        np.concatenate([fold.guesses for fold in folds]),
        np.concatenate([fold.probabilities for fold in folds]),
        judged.codes,
        n_rows=min(fold.n_rows for fold in folds),
        seconds=sum(fold.seconds for fold in folds),
    )


# -- which rows ------------------------------------------------------------------------------------


def checked_labels(eraser: Any, data: Any, attack_rows: str) -> tuple[Target, Target]:
    """Labels of the rows to learn from and to judge on: every class in both, new to the eraser.

    Or their numbers.
    """
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected a Dataset. Make one with "
            "Dataset.from_arrays(X, z)."
        )
    names = SPLIT_OF[attack_rows], "test"
    splits = [getattr(data, name) for name in names]
    for name, split in zip(names, splits, strict=True):
        refuse_extreme(np.asarray(split.X))  # before hashes of the rows are taken
        if len(split) == 0:
            raise ValueError(f"Got no rows in the {name} split, but expected some to certify on.")
    labels, test_labels = (split.target for split in splits)
    if isinstance(labels, Labels) and isinstance(test_labels, Labels):
        _refuse_missing_class(labels, names[0])
        _refuse_missing_class(test_labels, "test")
        _refuse_too_few(labels, test_labels, names[0])
    else:
        _refuse_few_numbers(labels, test_labels, names[0])
    refuse_shared_groups(**dict(zip(names, splits, strict=True)))
    _refuse_single_groups(data.test, test_labels)
    _refuse_shared(data.test, splits[0], names[0])
    _refuse_fitted_on(eraser, data.test, "test")
    if attack_rows == "unseen":
        _refuse_fitted_on(eraser, splits[0], names[0])
    return labels, test_labels


def _refuse_few_numbers(learned: Target, judged: Target, name: str) -> None:
    if len(learned) < MIN_NUMBER_ROWS:
        raise ValueError(
            f"Got {len(learned)} rows in the {name} split, but attackers need at least "
            f"{MIN_NUMBER_ROWS} to learn a number. Give more rows, or an estimator and "
            "attack_rows='cross-fit'."
        )
    if len(judged) < MIN_TEST_ROWS:
        raise ValueError(
            f"Got {len(judged)} rows in the test split, but a certificate needs at least "
            f"{MIN_TEST_ROWS}."
        )
    for target, which in ((learned, name), (judged, "test")):
        if np.all(target.values == target.values[0]):
            raise ValueError(
                f"Got the same number in every row of the {which} split, but expected one that "
                "varies. Give other rows."
            )


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


def _refuse_single_groups(test: Split, labels: Target) -> None:
    """A class that is in one group only cannot be told from that group."""
    groups = test.group_codes
    if groups is None:
        return
    if not isinstance(labels, Labels):
        if len(np.unique(groups)) < 3:
            raise ValueError(
                f"Got {len(np.unique(groups))} groups in the test split, but expected at least 3: "
                "a number is not told from its group. Add groups."
            )
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


def _refuse_fitted_on(eraser: Any, split: Split, name: str) -> None:
    share = share_fitted_on(eraser, split)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        way_out = " After RankPath.select, give path.unseen." if name == "validation" else ""
        raise ValueError(
            f"Got an eraser that was fitted on {part}the {name} split, but expected one fitted on "
            f"other rows: on its own rows every eraser looks good.{way_out}"
        )
