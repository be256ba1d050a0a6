"""Attackers against an eraser, on rows that it was not fitted on.

The one measurement behind ``evaluate``, ``certify``, paths of ranks, automatic ranks and ``erase``:
for the same rows, budget and seed they give the same number.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.checks import warn
from unspot.data.dataset import MAX_SEEN, Dataset, Split, share_fitted_on, stratified_parts
from unspot.data.goal import Goal
from unspot.data.rows import (
    KNOWN,
    column_names,
    fingerprint,
    in_memory,
    refuse_extreme,
    refuse_masked_or_sparse,
    refuse_nonfinite,
    repeated_rows,
    row_hashes,
)
from unspot.eraser import Eraser, method_name
from unspot.evaluation.attack_models import MIN_OF_A_CLASS, refuse_few, rows_needed, sought
from unspot.evaluation.attackers import attack_concept
from unspot.evaluation.inference import AttackResult, ClassScores, Given, scores_of
from unspot.io.progress import steps
from unspot.machine import versions

Codes = NDArray[np.int64]

#: How often rows are halved, by budget. A seed decides less of the result with every halving.
HALVINGS = {"quick": 2, "standard": 2, "thorough": 4}

#: With fewer rows not even a perfect attacker is distinguished from chance with certainty.
MIN_ROWS = 60

#: Number of folds: two fit, attackers learn from two, and one is judged.
FOLDS = 5

#: Attackers that see only what is given: their strongest is the baseline.
_OF_GIVEN = ("logistic", "quadratic", "interactions", "rbf", "trees")


class Round(NamedTuple):
    """Attackers that judged every row once, and their scores."""

    results: tuple[AttackResult, ...]
    scores: ClassScores


@dataclass(frozen=True, eq=False)
class Attacked:
    """Attackers and their scores on judged rows, over one or several rounds.

    Scores and the ends of intervals are averaged over the rounds. An average varies no more than
    one of its terms, so an interval for the number of rows still covers it, and with every round
    the seed decides less (``benchmarks/results/coverage.json``).

    Attributes
    ----------
    rounds : tuple of Round
    sample : Split
        Erased rows, for tests of distributions.
    sample_given : array of int or None
        The cells of what is given of these rows.
    """

    rounds: tuple[Round, ...]
    sample: Split
    sample_given: Codes | None = None

    @cached_property
    def results(self) -> tuple[AttackResult, ...]:
        """List the attackers, with scores averaged over the rounds."""
        return tuple(
            _averaged(each) for each in zip(*(r.results for r in self.rounds), strict=True)
        )

    @property
    def scores(self) -> ClassScores:
        """Scores of the first round: rows, groups and given labels are the same in all."""
        return self.rounds[0].scores

    @property
    def chance(self) -> float:
        """Score of guessing, or of what is given alone."""
        return float(np.mean([r.scores.chance for r in self.rounds]))

    @property
    def strongest(self) -> AttackResult:
        """The attacker that recovered most of the judged rows' concept."""
        return max(self.results, key=lambda result: result.score)

    @property
    def spread(self) -> float:
        """Standard deviation of the strongest attacker's score over the rounds."""
        i = self.results.index(self.strongest)
        return float(np.std([r.results[i].score for r in self.rounds]))

    def interval(self, result: AttackResult, alpha: float = 0.05) -> tuple[float, float]:
        """Compute a Bonferroni-corrected confidence interval of a score."""
        i, level = self.results.index(result), alpha / len(self.results)
        ends = [r.scores.interval(r.results[i], level) for r in self.rounds]
        low, high = np.mean(ends, axis=0).tolist()
        return low, high

    def bounds(self, alpha: float = 0.05) -> tuple[float, float]:
        """Bound the strongest attacker's advantage from below and above, with confidence."""
        ends = np.array([self.interval(result, alpha) for result in self.results])
        low, high = (ends.max(axis=0) - self.chance).tolist()
        return low, high


def _averaged(results: Sequence[AttackResult]) -> AttackResult:
    """Average the scores of one attacker; predictions are those of the first round."""
    means = {
        name: float(np.mean([getattr(one, name) for one in results]))
        for name in ("score", "chance", "accuracy", "log_loss_bits", "correlation")
        if getattr(results[0], name) is not None
    }
    return replace(results[0], **means)  # type: ignore[arg-type]


# -- Attacks ---------------------------------------------------------------------------------------


def attack_eraser(eraser: Any, rows: Split, **how: Any) -> Attacked:
    """Attack the rows of a split, which the eraser has not seen, after erasure.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows or None
        Eraser in any form that ``erased`` accepts.
    rows : Split
        The original rows. Attackers know what is ``given`` of them: only what rows add counts.
    **how
        ``budget``, ``attackers``, ``random_state`` and ``verbose``, as in ``attack``.
    """
    check_rows(eraser, rows)
    _warn_of_new_classes(eraser, rows)
    return attack_halves(erased_split(eraser, in_fixed_order(rows)), **how)


def attack_halves(
    rows: Split,
    *,
    budget: str = "standard",
    halvings: int | None = None,
    random_state: int = 0,
    verbose: bool = False,
    **how: Any,
) -> Attacked:
    """Let attackers learn from one half of erased rows and judge the other, both ways, repeatedly.

    Every row is judged once in a round. There are ``HALVINGS`` rounds, each with other halves.
    """
    target, rounds, numbers = rows.target, [], range(halvings or HALVINGS[budget])
    known = None if rows.given is None else SideInformation.of(rows.given)
    for i in steps(numbers, "Halving", verbose=verbose):
        rng = np.random.default_rng([random_state, i])
        halves = stratified_parts(target.strata, (0.5, 0.5), rng, rows.groups)
        ways = [
            attack_splits(
                rows.take(learn),
                rows.take(judge),
                known=None if known is None else (known.take(learn), known.take(judge)),
                budget=budget,
                random_state=random_state + i,
                **how,
            )
            for judge, learn in (halves, halves[::-1])
        ]
        rounds.append(_pooled(ways, rows.take(np.concatenate(halves))))
    return Attacked(tuple(rounds), rows, None if known is None else known.cells)


def attack_splits(
    learn: Split, judge: Split, *, known: Sequence[SideInformation] | None = None, **how: Any
) -> Attacked:
    """Train attackers on erased rows, and judge them on others."""
    X, X_test, given = learn.X, judge.X, None
    if known is not None:
        alone, mine, theirs = _baseline(learn, judge, known, how)
        unit = _known_unit(X, mine)
        X, X_test = mine.appended_to(X, unit), theirs.appended_to(X_test, unit)
        by_attacker = {one.name: one.predictions for one in alone[1:]}
        given = Given(known[1].cells, replace(_most_likely(alone), name="given alone"), by_attacker)
    scores = scores_of(judge.target, judge.group_codes, given)
    results = attack_concept(X, learn.target, X_test, scores, groups=learn.group_codes, **how)
    return Attacked((Round(results, scores),), judge, None if given is None else given.codes)


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
        Settings of ``attack_splits``.
    """
    folds, parts = _folds(whole, random_state), []
    for j in range(FOLDS):
        judge, *others = folds[j:] + folds[:j]
        learn, fit = np.concatenate(others[:2]), np.concatenate(others[2:])
        eraser = fitted(whole, fit)
        rows = (erased_split(eraser, whole.take(part)) for part in (learn, judge))
        parts.append(attack_splits(*rows, random_state=random_state + j, **how))
    return Attacked((_pooled(parts, whole.take(np.concatenate(folds))),), parts[0].sample)


def _pooled(parts: Sequence[Attacked], judged: Split) -> Round:
    """Pool attacks on parts of the judged rows, given in this order."""
    plain, given = scores_of(judged.target, judged.group_codes), None
    labels = [part.scores.given for part in parts if part.scores.given is not None]
    if labels:
        alone = _pooled_result([label.alone for label in labels], plain)
        by_attacker = {
            name: np.concatenate([label.by_attacker[name] for label in labels])
            for name in labels[0].by_attacker
        }
        given = Given(np.concatenate([label.codes for label in labels]), alone, by_attacker)
    scores = scores_of(judged.target, judged.group_codes, given)
    each = zip(*(part.results for part in parts), strict=True)
    return Round(tuple(_pooled_result(results, scores) for results in each), scores)


def _pooled_result(parts: Sequence[AttackResult], scores: ClassScores) -> AttackResult:
    guesses = [part.guesses for part in parts if part.guesses is not None]
    return scores.result(
        parts[0].name,
        np.concatenate([part.predictions for part in parts]),
        np.concatenate(guesses) if guesses else None,
        n_rows=min(part.n_rows for part in parts),
    )


# -- Covariates that attackers know ----------------------------------------------------------------


#: Baselines by the fingerprints of what is given and the concept, of both halves.
_BASELINES: dict[tuple[Any, ...], Any] = {}


class SideInformation(NamedTuple):
    """Covariates that attackers know of every row, besides its vector."""

    columns: NDArray[np.float64]  # (n, q)
    cells: Codes  # (n,), combinations of labels and bins of numbers
    exact: bool  # whether the cells determine all columns

    @classmethod
    def of(cls, given: Any) -> SideInformation:
        """Encode labels, numbers or a table of both; missing values are indicated."""
        return cls(given.design(), given.strata, bool(given.has_classes))

    def take(self, rows: Any) -> SideInformation:
        """Select rows."""
        return SideInformation(self.columns[rows], self.cells[rows], self.exact)

    def with_predictions(self, predictions: NDArray[Any], learn: Split) -> SideInformation:
        """Append predictions of the concept; of probabilities the logarithms."""
        if learn.target.has_classes:
            predictions = np.log(np.clip(predictions, 1e-3, None))
        columns = predictions.reshape(len(predictions), -1)
        return self._replace(columns=np.hstack([self.columns, columns]))

    def appended_to(self, X: NDArray[Any], unit: NDArray[Any]) -> NDArray[Any]:
        """Append the covariates to rows, in these units."""
        return np.hstack([np.asarray(X, dtype=np.float64), self.columns * unit])


def _baseline(
    learn: Split, judge: Split, known: Sequence[SideInformation], how: Mapping[str, Any]
) -> tuple[list[AttackResult], SideInformation, SideInformation]:
    """Predict from what is given alone, and add the predictions to what attackers know.

    An attacker that predicted worse from what is given would seem to guess against what rows tell,
    and one that predicted better would seem to read rows. So all know the same predictions: of rows
    to learn from, those of models of their other half. The best of them comes first; then what each
    attacker makes of them.
    """
    mine, theirs = known
    sides, groups = zip(known, (learn, judge), strict=True), np.asarray(learn.group_codes)
    digests = (fingerprint(one.columns, side.target.numbers) for one, side in sides)
    key = *digests, groups.tobytes(), repr(sorted(how.items()))
    if key in _BASELINES:  # the erasers of a search share the rows that judge them
        return _BASELINES[key]
    plain = scores_of(judge.target, judge.group_codes)
    if mine.exact:
        return [plain.from_labels(learn.target, mine.cells, theirs.cells, "")], mine, theirs
    quick: Any = {"attackers": _OF_GIVEN, "budget": "quick"}
    rows = mine.columns, learn.target, theirs.columns, plain
    results = [_most_likely(attack_concept(*rows, **quick))]
    few = learn.target.fewest_rows()[0] < 2 * MIN_OF_A_CLASS
    if not few and len(learn) >= 2 * rows_needed(learn.target):
        quick["attackers"], (best,) = [results[0].name], results
        columns, rng = np.zeros((len(learn), *best.predictions.shape[1:])), np.random.default_rng(0)
        halves = stratified_parts(learn.target.strata, (0.5, 0.5), rng, learn.groups)
        for part, others in (halves, halves[::-1]):
            target, scores = learn.target.take(others), scores_of(learn.target.take(part))
            rows = mine.columns[others], target, mine.columns[part], scores
            columns[part] = attack_concept(*rows, **quick)[0].predictions
        mine, theirs = (
            mine.with_predictions(columns, learn),
            theirs.with_predictions(best.predictions, learn),
        )
        rows = mine.columns, learn.target, theirs.columns, plain
        results += attack_concept(*rows, **{**how, "verbose": False})
    while len(_BASELINES) >= 64:
        _BASELINES.pop(next(iter(_BASELINES)))
    _BASELINES[key] = results, mine, theirs
    return _BASELINES[key]


def _most_likely(results: Sequence[AttackResult]) -> AttackResult:
    """Return the result of the least log loss, or the largest R² of a number."""
    return max(results, key=lambda r: r.score if r.log_loss_bits is None else -r.log_loss_bits)


def _known_unit(X: NDArray[Any], known: SideInformation) -> NDArray[Any]:
    """Find the unit in which what is known varies as much as the columns of rows do."""
    spread = float(np.asarray(X, dtype=np.float64).std(axis=0).mean()) or 1.0
    deviation = known.columns.std(axis=0)
    return np.asarray(spread / np.where(deviation > 0, deviation, 1.0))


# -- Fold by fold ----------------------------------------------------------------------------------


def can_cross_fit(eraser: Any, data: Dataset) -> bool:
    """Tell whether an eraser is an estimator, and the rows suffice to fit it again on others."""
    try:
        refitted(eraser, data)
        _folds(joined_splits(data), 0)
    except ValueError:
        return False
    return True


def joined_splits(data: Dataset) -> Split:
    """Join all rows of the data."""
    first, *others = data
    return first.joined(*others)


def refitted(eraser: Any, data: Dataset) -> Callable[[Split, Codes], Any]:
    """Return a function that fits a clone of an estimator on some rows."""
    from sklearn.base import clone

    from unspot.erasers.base import fit_concept

    if not (hasattr(eraser, "fit") and hasattr(eraser, "get_params")):
        raise ValueError(
            f"Got {type(eraser).__name__} and few rows, but expected an estimator, which is fitted "
            "again on a part of the rows. Pass the estimator, or more rows."
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
                f"Got few rows and an eraser that was fitted with {name}=…, but the task y of the "
                "data is not what it was fitted with, so that it cannot be fitted again. Give that "
                "as y, or more rows."
            )
    return conditions


def _folds(whole: Split, seed: int) -> list[Codes]:
    """Draw the rows of each fold; too few rows are an error."""
    concept = whole.target
    needed = FOLDS * max(MIN_ROWS // (2 * FOLDS), -(-rows_needed(concept) // 2))
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


# -- Rows to judge on ------------------------------------------------------------------------------


def check_dataset(data: Any) -> None:
    """Raise an error unless data are a Dataset."""
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected an unspot.Dataset. Make one "
            "with Dataset.from_arrays(X, z)."
        )


def unseen(data: Dataset) -> Split:
    """Join the rows that an eraser of ``data.train`` has not seen; exact repeats count once."""
    return once(data.validation.joined(data.test))


def once(rows: Split) -> Split:
    """Drop rows that repeat an earlier row exactly.

    Copies of a row on both sides of a halving would be learned by heart. Rows of columns that have
    few values meet by chance, and are no copies.
    """
    X = np.asarray(rows.X)
    refuse_extreme(X)  # before hashes of the rows are taken
    repeats = repeated_rows(X, rows.concept.strata)
    n_left, copied = len(rows) - len(repeats), len(repeats) <= len(rows) / 2
    if not copied and n_left >= MIN_ROWS:
        copied = 2 * np.median([len(np.unique(column)) for column in X.T]) > n_left
    return rows.take(np.delete(np.arange(len(rows)), repeats)) if copied else rows


def in_fixed_order(rows: Split) -> Split:
    """Sort rows by their hashes: their order in a file decides nothing."""
    return rows.take(np.argsort(row_hashes(np.asarray(rows.X)), kind="stable"))


def check_rows(eraser: Any, rows: Split) -> None:
    """Raise an error unless rows can be halved and judged on, and are new to the eraser."""
    if len(rows) == 0:
        raise ValueError("Got no rows, but expected some that the eraser was not fitted on.")
    rows.target.refuse_missing_class("these rows")
    half = stratified_parts(rows.target.strata, (0.5, 0.5), np.random.default_rng(0), rows.groups)
    for numbers in half:
        refuse_few(rows.target.take(numbers), "in each half")
    if len(rows) < MIN_ROWS:
        raise ValueError(
            f"Got {len(rows)} rows, but expected at least {MIN_ROWS}: with fewer, even a perfect "
            "attacker is not significantly better than chance."
        )
    _refuse_few_groups(rows)
    Goal(rows.target, rows.given).refuse_contradictions()
    share = share_fitted_on(eraser, rows)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        raise ValueError(
            f"Got an eraser that was fitted on {part}these rows, but expected one fitted on other "
            "rows: on its own rows every eraser looks good. Keep some rows away from the fit: "
            "unspot split, or Dataset.from_arrays. After a path of ranks, give path.unseen; after "
            "unspot path, the same task, groups and seed."
        )


def _warn_of_new_classes(eraser: Any, rows: Split) -> None:
    """Warn of classes that the fit did not have; if it had none of them, it had another concept."""
    sides = eraser_facts(eraser), rows.target.describe()
    fitted, now = (set(map(str, side.get("classes") or ())) for side in sides)
    if fitted & now and (new := sorted(now - fitted)):
        warn(
            f"Got rows of class {', '.join(new[:5])}, but the eraser was fitted on others: what is "
            "special about these may stay. Fit it again with some of them."
        )


def _refuse_few_groups(rows: Split) -> None:
    if rows.groups is None:
        return
    n_groups, of = rows.target.fewest_groups(rows.group_codes)
    if n_groups < rows.target.min_groups:
        raise ValueError(
            f"Got {n_groups} {'group' if n_groups == 1 else 'groups'} with {of}, "
            f"but expected at least {rows.target.min_groups}: with fewer, group effects cannot be "
            "separated from the concept. Add groups, or merge small classes."
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # checked before
        rows = X if eraser is None or not len(X) else function(X)
    refuse_masked_or_sparse(rows, "erased rows")
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


def frozen_eraser(eraser: Any) -> Any:
    """Return what a fit of an estimator left; anything else as it is."""
    return getattr(eraser, "eraser_", eraser)


def refuse_other_columns(eraser: Any, X: Any) -> None:
    """Raise an error for a data frame of other columns than those of the fit."""
    frozen, names = frozen_eraser(eraser), column_names(X)
    if isinstance(frozen, Eraser):
        frozen.refuse_other_columns(X)
    elif names and names != list(getattr(eraser, "feature_names_in_", names)):  # of a pipeline
        raise ValueError(
            "Got a data frame of other columns, or in another order, than those of the fit, but "
            "expected X[list(eraser.feature_names_in_)]."
        )


def eraser_facts(eraser: Any) -> dict[str, Any]:
    """Return the metadata of an eraser as plain data; without metadata, its name."""
    frozen = frozen_eraser(eraser)
    if not isinstance(frozen, Eraser):
        return {"method": eraser_name(eraser)}
    # Through JSON, so that what is kept is plain: tuples, arrays and numbers of numpy are not.
    facts = {key: value for key, value in frozen.metadata.items() if key not in KNOWN}
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return {**plain, "rank": frozen.rank, "digest": frozen.digest}


def facts_of(eraser: Any, data: str, concept: str, n_features: int) -> dict[str, Any]:
    """Describe eraser and data as every result does, so that a report reads all of them.

    The concept's name is that of the data, or else that of the eraser's fit.
    """
    facts = eraser_facts(eraser)
    return {
        "eraser": facts,
        "data": data,
        "concept": concept or str(facts.get("concept_name", "")),
        "n_features": n_features,
        "versions": versions(),
    }


def eraser_name(eraser: Any) -> str:
    """Return the name of an eraser of any kind."""
    if eraser is None:
        return "no erasure"
    frozen = frozen_eraser(eraser)
    method = method_name(frozen.metadata) if isinstance(frozen, Eraser) else ""
    name = method or getattr(eraser, "__name__", type(eraser).__name__)
    return "erased" if name == "<lambda>" else name
