"""Attackers against an eraser, on rows that it was not fitted on.

The one measurement behind ``evaluate``, ``certify``, paths of ranks and automatic ranks: for the
same rows, budget and seed they give the same number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
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
from unspot.data.rows import KNOWN, in_memory, refuse_extreme, refuse_masked, refuse_nonfinite
from unspot.eraser import Eraser, method_name
from unspot.evaluation.attack_models import MIN_OF_A_CLASS, refuse_few, rows_needed, sought
from unspot.evaluation.attackers import attack_concept
from unspot.evaluation.inference import AttackResult, ClassScores, Given, scores_of
from unspot.machine import versions

Codes = NDArray[np.int64]
AttackRows = Literal["unseen", "seen", "cross-fit"]

#: The split that attackers learn from.
SPLIT_OF = {"unseen": "validation", "seen": "train"}

#: With fewer test rows not even a perfect attacker is distinguished from chance with certainty.
MIN_TEST_ROWS = 30

#: Of five folds, two fit, two are learned from, and one is judged on.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Attacked:
    """Attackers and their scores on judged rows.

    Attributes
    ----------
    results : tuple of AttackResult
    scores : ClassScores
        The judged rows' concept, groups and given labels.
    sample : Split
        Judged rows that one eraser has erased, for tests of distributions.
    sample_given : array of int or None
        Given labels of these rows.
    """

    results: tuple[AttackResult, ...]
    scores: ClassScores
    sample: Split
    sample_given: Codes | None = None

    @property
    def strongest(self) -> AttackResult:
        """The attacker that recovered most of the judged rows' concept."""
        return max(self.results, key=lambda result: result.score)

    def interval(self, result: AttackResult, alpha: float = 0.05) -> tuple[float, float]:
        """Compute a Bonferroni-corrected confidence interval of a score."""
        return self.scores.interval(result, alpha / len(self.results))

    def upper_bound(self, alpha: float = 0.05) -> float:
        """Bound the advantage of every attacker, with confidence 1 − alpha."""
        ends = (self.interval(result, alpha)[1] for result in self.results)
        return max(ends) - self.scores.chance


# -- Attacks ---------------------------------------------------------------------------------------


def attack_eraser(
    eraser: Any,
    data: Dataset,
    *,
    attack_rows: AttackRows = "unseen",
    random_state: int = 0,
    given: bool = False,
    **how: Any,
) -> Attacked:
    """Train attackers on some rows of the data, and judge them on others.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows or None
        As ``erased`` takes it; for "cross-fit", an estimator that can be fitted again.
    data : Dataset
        The original rows. The eraser was fitted on ``train``.
    attack_rows : {"unseen", "seen", "cross-fit"}
        Attackers learn from the validation rows; from the train rows, which look cleaner to them
        than new ones; or fold by fold, where rows are few: see ``certify``.
    given : bool
        Attackers know the task ``y`` of every row, and only what rows add to it counts.
    **how
        ``budget``, ``attackers`` and ``verbose``, as in ``attack``.
    """
    check_choice("attack_rows", attack_rows, (*SPLIT_OF, "cross-fit"))
    how |= {"random_state": random_state, "given": given}
    if attack_rows == "cross-fit":
        return attack_folds(_refitted(eraser, data), joined_splits(data), **how)
    check_splits(eraser, data, attack_rows)
    learn = getattr(data, SPLIT_OF[attack_rows])
    return attack_splits(erased_split(eraser, learn), erased_split(eraser, data.test), **how)


def attack_splits(learn: Split, judge: Split, *, given: bool = False, **how: Any) -> Attacked:
    """Train attackers on erased rows, and judge them on others."""
    concept, groups = judge.target, judge.group_codes
    X, X_test, label, codes = learn.X, judge.X, None, None
    if given:
        known, codes = _given_codes(learn, judge)
        X, X_test = _with_labels(X, X_test, known, codes)
        baseline = scores_of(concept, groups).from_labels(learn.target, known, codes, "y alone")
        label = Given(codes, baseline)
    scores = scores_of(concept, groups, label)
    results = attack_concept(X, learn.target, X_test, scores, groups=learn.group_codes, **how)
    return Attacked(results, scores, judge, codes)


def attack_both_ways(eraser: Any, data: Dataset, **how: Any) -> Attacked:
    """Attack test rows by attackers that learn from validation rows, and the other way round.

    For a choice on few rows that the eraser has not seen: every row is judged on once.
    """
    swapped = replace(data, validation=data.test, test=data.validation)
    ways = [attack_eraser(eraser, rows, **how) for rows in (data, swapped)]
    return _pooled(ways, data.test.joined(data.validation))


def attack_folds(
    fitted: Callable[[Split, Codes], Any], whole: Split, *, random_state: int = 0, **how: Any
) -> Attacked:
    """Judge every row once, by attackers and after an eraser that have not seen it.

    Parameters
    ----------
    fitted : callable
        Takes all rows, and the numbers of those to fit on; returns an eraser.
    whole : Split
    random_state : int
    **how
        As for ``attack_splits``.
    """
    folds, parts = _folds(whole, random_state), []
    for j in range(FOLDS):
        judge, *others = folds[j:] + folds[:j]
        learn, fit = np.concatenate(others[:2]), np.concatenate(others[2:])
        eraser = fitted(whole, fit)
        rows = (erased_split(eraser, whole.take(part)) for part in (learn, judge))
        parts.append(attack_splits(*rows, random_state=random_state + j, **how))
    return _pooled(parts, whole.take(np.concatenate(folds)))


def _pooled(parts: Sequence[Attacked], judged: Split) -> Attacked:
    """Pool attacks on parts of the judged rows, given in this order."""
    plain, given = scores_of(judged.target, judged.group_codes), None
    labels = [part.scores.given for part in parts if part.scores.given is not None]
    if labels:
        alone = _pooled_result([label.alone for label in labels], plain)
        given = Given(np.concatenate([label.codes for label in labels]), alone)
    scores = scores_of(judged.target, judged.group_codes, given)
    each = zip(*(part.results for part in parts), strict=True)
    results = tuple(_pooled_result(results, scores) for results in each)
    return Attacked(results, scores, parts[0].sample, parts[0].sample_given)


def _pooled_result(parts: Sequence[AttackResult], scores: ClassScores) -> AttackResult:
    guesses = [part.guesses for part in parts if part.guesses is not None]
    return scores.result(
        parts[0].name,
        np.concatenate([part.predictions for part in parts]),
        np.concatenate(guesses) if guesses else None,
        n_rows=min(part.n_rows for part in parts),
        seconds=sum(part.seconds for part in parts),
    )


# -- Labels that attackers know --------------------------------------------------------------------


def _given_codes(*splits: Split) -> list[Codes]:
    """Return the classes of the task in each split."""
    if any(split.task is None for split in splits):
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


def _with_labels(
    X: NDArray[Any], X_test: NDArray[Any], known: Codes, codes: Codes
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Append given labels to the rows, as columns that vary as much as theirs do."""
    n = int(max(known.max(), codes.max())) + 1
    spread = float(np.asarray(X, dtype=np.float64).std(axis=0).mean()) or 1.0
    shares = np.bincount(known, minlength=n) / len(known)
    unit = spread / np.sqrt(np.maximum(shares * (1 - shares), 1 / len(known)))
    columns = np.eye(n) * unit
    first, second = (
        np.hstack([np.asarray(rows, dtype=np.float64), columns[labels]])
        for rows, labels in ((X, known), (X_test, codes))
    )
    return first, second


# -- Fold by fold ----------------------------------------------------------------------------------


def can_cross_fit(eraser: Any, data: Dataset) -> bool:
    """Tell whether an eraser is an estimator, and the rows suffice to fit it again on others."""
    try:
        _refitted(eraser, data)
        _folds(joined_splits(data), 0)
    except ValueError:
        return False
    return True


def joined_splits(data: Dataset) -> Split:
    """Join all rows of the data."""
    first, *others = data
    return first.joined(*others)


def _refitted(eraser: Any, data: Dataset) -> Callable[[Split, Codes], Any]:
    """Return a function that fits a clone of an estimator on some rows."""
    from sklearn.base import clone

    from unspot.erasers.base import fit_concept

    if not (hasattr(eraser, "fit") and hasattr(eraser, "get_params")):
        raise ValueError(
            f"Got attack_rows='cross-fit' and {type(eraser).__name__}, but expected an estimator, "
            "which is fitted again on a part of the rows. Pass the estimator, or more rows and "
            "attack_rows='unseen'."
        )
    conditions = _conditions(eraser, data)

    def fitted(whole: Split, fit: Codes) -> Any:
        concept = whole.concept if whole.table is None else whole.table
        covariates = {name: whole.task.take(fit).values for name in conditions}
        return fit_concept(clone(eraser), whole.X[fit], concept.take(fit), **covariates)

    return fitted


def _conditions(eraser: Any, data: Dataset) -> list[str]:
    """List given and keep, if the estimator was fitted with the task as such."""
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


def _folds(whole: Split, seed: int) -> list[Codes]:
    """Draw the rows of each fold; too few rows are an error."""
    concept = whole.target
    needed = FOLDS * max(MIN_TEST_ROWS // FOLDS, -(-rows_needed(concept) // 2))
    few, of = concept.fewest_rows()
    if len(concept) < needed or few < FOLDS * MIN_OF_A_CLASS:
        each = f", and {FOLDS * MIN_OF_A_CLASS} of every class" if of else ""
        raise ValueError(
            f"Got {len(concept)} rows{f', {few} of them {of}' if of else ''}, but cross-fitting of "
            f"{sought(concept)} needs at least {needed}{each}. Give more rows, or merge small "
            "classes."
        )
    rng = np.random.default_rng(seed)
    return stratified_parts(concept.strata, (1 / FOLDS,) * FOLDS, rng, whole.groups)


# -- Checks of the rows ----------------------------------------------------------------------------


def check_dataset(data: Any) -> None:
    """Raise an error unless data are a Dataset."""
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected an unspot.Dataset. Make one "
            "with Dataset.from_arrays(X, z)."
        )


def check_splits(eraser: Any, data: Dataset, attack_rows: str) -> None:
    """Raise an error unless rows can be learned from and judged on, and are new to the eraser."""
    name = SPLIT_OF[attack_rows]
    learn, test = getattr(data, name), data.test
    if learn is None:
        raise ValueError("Got no train split, but expected the rows that the eraser was fitted on.")
    for which, split in ((name, learn), ("test", test)):
        refuse_extreme(np.asarray(split.X))  # before hashes of the rows are taken
        if len(split) == 0:
            raise ValueError(f"Got no rows in the {which} split, but expected some to certify on.")
        split.target.refuse_missing_class(f"the {which} split")
    _refuse_too_few(learn, test, name)
    refuse_shared_groups(**{name: learn, "test": test})
    _refuse_few_groups(test)
    share = share_among(test, learn)
    if share > MAX_SHARED:
        raise ValueError(
            f"Got {100 * share:.0f} % of the test split in the {name} split too, but expected "
            "other rows to learn from: what was learned by heart is no evidence. Split the rows, "
            "as Dataset.from_arrays does."
        )
    _refuse_fitted_on(eraser, test, "test")
    if attack_rows == "unseen":
        _refuse_fitted_on(eraser, learn, name)


def _refuse_too_few(learn: Split, test: Split, name: str) -> None:
    way_out = ", or an estimator and attack_rows='cross-fit'"
    refuse_few(learn.target, f"in the {name} split", way_out)
    if len(test) < MIN_TEST_ROWS:
        raise ValueError(
            f"Got {len(test)} rows in the test split, but a certificate needs at least "
            f"{MIN_TEST_ROWS}."
        )
    test.target.refuse_few_rows("the test split")


def _refuse_few_groups(test: Split) -> None:
    if test.groups is None:
        return
    n_groups, of = test.target.fewest_groups(test.group_codes)
    if n_groups < test.target.min_groups:
        raise ValueError(
            f"Got {n_groups} {'group' if n_groups == 1 else 'groups'} with {of} in the test split, "
            f"but expected at least {test.target.min_groups}: with fewer, group effects cannot be "
            "separated from the concept. Add groups, or merge small classes."
        )


def _refuse_fitted_on(eraser: Any, split: Split, name: str) -> None:
    share = share_fitted_on(eraser, split)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        raise ValueError(
            f"Got an eraser that was fitted on {part}the {name} split, but expected one fitted on "
            "other rows: on its own rows every eraser looks good. Keep some rows away from the "
            "fit. After a path of ranks, give path.unseen, or to unspot certify the same file and "
            "the same --seed."
        )


# -- Erased rows -----------------------------------------------------------------------------------


def erased(eraser: Any, data: Dataset) -> Dataset:
    """Erase all rows of a data set.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows or None
        If it has ``transform``, that erases, otherwise a call; a function may return a torch
        tensor. None leaves the rows as they are.
    data : Dataset
        The original rows.

    Examples
    --------
    >>> from unspot import Dataset, Eraser
    >>> data = Dataset.from_arrays(np.ones((20, 2)), np.arange(20) % 2, random_state=0)
    >>> erased(Eraser.projection(np.eye(2)[:, :1]), data).test.X[0]
    array([1., 0.])
    """
    if eraser is None:
        return data
    changed = data.mapped(lambda split: erased_split(eraser, split))
    widths = {name: part.X.shape[1] for name, part in changed.splits.items() if len(part)}
    if len(set(widths.values())) > 1:
        shown = ", ".join(f"{width} in {name}" for name, width in widths.items())
        raise ValueError(f"Got erased rows of {shown} features, but expected the same number.")
    return changed


def erased_split(eraser: Any, split: Split) -> Split:
    """Erase the rows of a split, as ``erased`` does."""
    return replace(split, X=erased_rows(eraser, split.X))


def erased_rows(eraser: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Erase an array of rows, as ``erased`` does."""
    if isinstance(eraser, type):
        raise ValueError(
            f"Got the class {eraser.__name__}, but expected a fitted eraser: call "
            f"{eraser.__name__}(…).fit(data.train.X, data.train.z) first."
        )
    function = getattr(eraser, "transform", eraser)
    if eraser is not None and not callable(function):
        raise ValueError(
            f"Got an eraser of type {type(eraser).__name__}, but expected a fitted estimator with "
            "transform, an Eraser, a function of rows, or None for the rows as they are."
        )
    # A split without rows is allowed: nothing to erase.
    rows = X if eraser is None or not len(X) else function(X)
    refuse_masked(rows, "erased rows")
    rows = np.asarray(in_memory(rows))
    if rows.ndim != 2 or len(rows) != len(X):
        raise ValueError(
            f"Got erased rows of shape {rows.shape} for {len(X)} original rows, but expected one "
            "for each."
        )
    refuse_nonfinite(rows)
    refuse_extreme(rows)
    return rows


# -- Names and facts of erasers --------------------------------------------------------------------


def eraser_facts(eraser: Any) -> dict[str, Any]:
    """Return the metadata of an eraser as plain data; without metadata, its name."""
    frozen = getattr(eraser, "eraser_", eraser)
    if not isinstance(frozen, Eraser):
        return {"method": eraser_name(eraser)}
    # Through JSON, so that what is kept is plain: tuples, arrays and numbers of numpy are not.
    facts = {key: value for key, value in frozen.metadata.items() if key not in KNOWN}
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return {**plain, "rank": frozen.rank, "digest": frozen.digest}


def facts_of(eraser: Any, data: Dataset) -> dict[str, Any]:
    """Describe eraser and data as every result does, so that a report reads all of them."""
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "concept": concept_name(eraser, data),
        "n_features": data.n_features,
        "versions": versions(),
    }


def concept_name(eraser: Any, data: Dataset) -> str:
    """Return the concept's name from the data, else from the eraser's metadata, else ""."""
    return data.concept or str(eraser_facts(eraser).get("concept_name", ""))


def eraser_name(eraser: Any) -> str:
    """Return the name of an eraser of any kind."""
    if eraser is None:
        return "no erasure"
    frozen = getattr(eraser, "eraser_", eraser)
    method = method_name(frozen.metadata) if isinstance(frozen, Eraser) else ""
    name = method or getattr(eraser, "__name__", type(eraser).__name__)
    return "erased" if name == "<lambda>" else name
