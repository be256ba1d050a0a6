"""Attackers: how well could a determined adversary still recover the concept?

A family behind one interface. Each attacker is a model and the coordinates it sees; each is fitted
on training rows, and judged on other rows: by balanced accuracy for classes, and for a number by
R², the share of its variance that predictions explain.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, did_you_mean
from unspot.data.concept import read
from unspot.data.groups import counts_at_worst, group_codes
from unspot.data.rows import generator, in_memory, refuse_extreme, refuse_nonfinite
from unspot.evaluation import attack_models as models
from unspot.evaluation import inference
from unspot.evaluation.attack_models import ROWS, Effort, Model, View
from unspot.evaluation.attack_searches import interactions, residue, waves
from unspot.io.progress import steps
from unspot.machine import one_thread

Array = NDArray[Any]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class _Attacker:
    view: Callable[[Array], View]
    model: Model


FAMILY: dict[str, _Attacker] = {
    "logistic": _Attacker(models.standardised, models.linear),
    # In whitened coordinates a penalty does not hide directions of low variance, and one of 1/n is
    # next to none: a linear attacker that no linear map of the rows changes.
    "whitened-logistic": _Attacker(models.whitened, models.linear),
    "residue": _Attacker(models.as_given, residue),
    "interactions": _Attacker(models.standardised, interactions),
    "waves": _Attacker(models.whitened, waves),
    "quadratic": _Attacker(models.standardised, models.quadratic),
    "neighbours": _Attacker(models.principal, models.nearest),
    "rbf": _Attacker(models.standardised, models.radial),
    "mlp-64": _Attacker(models.standardised, models.networks(64)),
    "mlp-256": _Attacker(models.standardised, models.networks(256)),
    "mlp-128-128": _Attacker(models.principal, models.networks(128, 128)),
    "trees": _Attacker(models.with_statistics, models.boosted_trees),
    # Trees cut along axes: the rows' own axes and the principal ones show them different things.
    "rotated-trees": _Attacker(models.principal, models.patient_trees),
    "whitened-rbf": _Attacker(models.whitened, models.radial),
    "whitened-mlp-256": _Attacker(models.whitened, models.networks(256)),
    "mlp-512-512": _Attacker(models.standardised, models.networks(512, 512)),
}

#: The names of all attackers. For a number, logistic is called ridge.
ATTACKERS: tuple[str, ...] = tuple(FAMILY)


@dataclass(frozen=True)
class _Budget:
    attackers: tuple[str, ...]
    max_rows: int
    effort: Effort


# fmt: off
BUDGETS: dict[str, _Budget] = {
    "quick": _Budget(
        (*ATTACKERS[:6], "rbf", "mlp-64", "trees"),
        max_rows=12_000,
        effort=Effort(products=500, landmarks=200, networks=2, epochs=30, trees=100, pairs=500,
                      waves=2_000),
    ),
    "standard": _Budget(
        ATTACKERS[:13],
        max_rows=12_000,
        effort=Effort(products=1_000, landmarks=800, networks=4, epochs=60, trees=300, pairs=5_000,
                      waves=20_000),
    ),
    "thorough": _Budget(
        ATTACKERS,
        max_rows=100_000,
        effort=Effort(products=3_000, landmarks=1_500, networks=4, epochs=100, trees=1_000,
                      pairs=100_000, waves=50_000),
    ),
}
# fmt: on


# -- What an attacker reached ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Result of one attacker on the test rows.

    Attributes
    ----------
    name : str
    score, chance : float
        Balanced accuracy and that of guessing, 1/K for K classes: accuracy would not do, since with
        classes of 95 and 5 % no attacker may beat the guess of the first. For a number, R² and 0.
        If labels are given, chance is what they reach alone.
    n_rows : int
        Rows it was fitted on.
    seconds : float
        For fitting and predicting.
    predictions : array of shape (n_test, K) or (n_test, m)
        Probabilities, or predicted numbers.
    guesses : array of shape (n_test,) or None
        Predicted classes: the most probable one after rare classes got a weight.
    accuracy, log_loss_bits, correlation : float or None
        Share of rows whose most probable class is right, and mean code length of a label by the
        probabilities; for a number, its correlation with the predictions.
    """

    name: str
    score: float
    chance: float
    n_rows: int
    seconds: float
    predictions: Array
    guesses: Codes | None = None
    accuracy: float | None = None
    log_loss_bits: float | None = None
    correlation: float | None = None

    @property
    def advantage(self) -> float:
        """Score above chance."""
        return self.score - self.chance

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean recall of the classes; None for a number."""
        return None if self.guesses is None else self.score

    @property
    def r2(self) -> float | None:
        """Share of the variance that is explained; None for classes."""
        return self.score if self.guesses is None else None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        names = (
            *("name", "accuracy", "balanced_accuracy", "r2", "correlation", "advantage"),
            *("log_loss_bits", "n_rows", "seconds"),
        )
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, eq=False)
class Given:
    """Labels that attackers know, such as the task.

    Attributes
    ----------
    codes : array of shape (n,)
        Classes of the judged rows.
    alone : AttackResult
        A baseline that sees only these labels.
    """

    codes: Codes
    alone: AttackResult


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Scores of predicted classes on judged rows, with their uncertainty.

    With given labels, every cell of given label and class counts alike: a baseline that knows only
    the label predicts one class for all rows of it, and is right on one cell of them.
    """

    concept: Any
    groups: Codes | None = None
    given: Given | None = None

    score_name: ClassVar[str] = "balanced accuracy"
    promise_unit: ClassVar[str] = "points over guessing"

    def result(
        self, name: str, predictions: Array, guesses: Codes | None, *, n_rows: int, seconds: float
    ) -> AttackResult:
        """Score the predictions of an attacker."""
        codes = self.concept.codes
        if self.given is not None:  # classes that rows make more probable than the label does
            guesses = (predictions / self.given.alone.predictions).argmax(axis=1)
        assert guesses is not None
        result = AttackResult(
            name,
            score=0.0,
            chance=self.chance,
            n_rows=n_rows,
            seconds=seconds,
            predictions=predictions,
            guesses=guesses,
            accuracy=float(np.mean(predictions.argmax(axis=1) == codes)),
            log_loss_bits=models.log_loss(predictions, codes),
        )
        return replace(result, score=float(self._recalls(result).mean()))

    def from_labels(self, learned: Any, known: Codes, judged: Codes, name: str) -> AttackResult:
        """Score a baseline that sees only other labels: class shares among the rows of each."""
        n, K = int(max(known.max(), judged.max())) + 1, len(learned.classes)
        rows = np.bincount(known, minlength=n)[:, None]
        table = np.zeros((n, K))
        np.add.at(table, (known, learned.codes), 1)
        shares = learned.counts / len(learned)
        probabilities = (table + shares) / (rows + 1)
        guesses = (probabilities / shares).argmax(axis=1)
        facts: Any = {"n_rows": len(learned), "seconds": 0.0}
        return self.result(name, probabilities[judged], guesses[judged], **facts)

    @cached_property
    def chance(self) -> float:
        """Score of guessing, or of the given labels alone."""
        if self.given is None:
            return 1 / len(self.concept.classes)
        known = np.unique(self.given.codes[self.cells >= 0])
        return float(len(known) / (self.cells.max() + 1))

    @cached_property
    def cells(self) -> Codes:
        """Cell of given label and class of each row; −1 where nothing can be compared.

        A row that is alone in its cell says nothing, nor do rows of a label with one class.
        """
        assert self.given is not None
        known, classes = self.given.codes, self.concept.codes
        cells = known * len(self.concept.classes) + classes
        fine = np.bincount(cells)[cells] > 1
        different = {k: len(np.unique(classes[fine & (known == k)])) for k in np.unique(known)}
        fine &= np.array([different[k] for k in known]) > 1
        numbers = np.full(len(cells), -1)
        numbers[fine] = np.unique(cells[fine], return_inverse=True)[1]
        return numbers

    @property
    def n_left_out(self) -> int:
        """Number of rows that are alone in their cell."""
        assert self.given is not None
        cells = self.given.codes * len(self.concept.classes) + self.concept.codes
        return int((np.bincount(cells)[cells] == 1).sum())

    def _recalls(self, result: AttackResult) -> Array:
        """Compute the recall of each class or cell."""
        codes, guesses = self.concept.codes, result.guesses
        assert guesses is not None
        if self.given is None:
            return inference.recalls(guesses, codes, len(self.concept.classes))
        fine, counts = self.cells >= 0, self._counts(result)
        hits = np.bincount(self.cells[fine & (guesses == codes)], minlength=len(counts))
        return np.asarray(hits / counts)

    def _counts(self, result: AttackResult, alpha: float = 0.05) -> Array:
        """Count (effective) rows of each class or cell."""
        if self.given is not None:
            return np.bincount(self.cells[self.cells >= 0])
        assert result.guesses is not None
        codes, n_classes = self.concept.codes, len(self.concept.classes)
        return inference.counts_in_groups(result.guesses, codes, self.groups, n_classes, alpha)

    def interval(self, result: AttackResult, alpha: float) -> tuple[float, float]:
        """Compute a confidence interval of the score."""
        counts = self._counts(result, alpha)
        return inference.balanced_interval(self._recalls(result), counts, alpha)

    def p_values(
        self, results: Sequence[AttackResult], seed: int, n_permutations: int
    ) -> NDArray[np.float64]:
        """Compute corrected p-values that attackers are right by chance."""
        return inference.agreement_p_values(
            [result.predictions for result in results],
            [result.guesses for result in results if result.guesses is not None],
            self.concept.codes,
            seed,
            n_permutations=n_permutations,
            groups=self.groups,
            strata=None if self.given is None else self.given.codes,
        )

    def difference_error(self, first: AttackResult, second: AttackResult) -> float:
        """Estimate the standard error of the difference of two scores on these rows."""
        guesses = [one.guesses for one in (first, second) if one.guesses is not None]
        K = len(self.concept.classes)
        joint = inference.paired_covariance(guesses, self.concept.codes, self.groups, K)
        return float(max(joint[0, 0] + joint[1, 1] - 2 * joint[0, 1], 0.0)) ** 0.5

    def detectable(self, results: Sequence[AttackResult], alpha: float) -> float | None:
        """Find the smallest advantage that these rows show with a probability of 80 %."""
        rows = min(inference.effective_rows(self._counts(result)) for result in results)
        return inference.detectable_advantage(self.chance, int(rows), alpha)

    def smallest_bound(self, alpha: float, n_attackers: int) -> tuple[int, float]:
        """Count rows (or groups), and find the smallest advantage that they can rule out."""
        counts = counts_at_worst(self.concept.codes, self.groups, len(self.concept.classes))
        return int(counts.sum()), inference.smallest_bound(counts, alpha, n_attackers)

    def facts(self) -> dict[str, Any]:
        """Describe the classes, for a certificate."""
        counts, classes = self.concept.counts, self.concept.classes
        return {
            "kind": self.concept.kind,
            "majority": float(counts.max() / len(self.concept)),
            "n_classes": len(counts),
            "rows_of_class": {str(c): int(n) for c, n in zip(classes, counts, strict=True)},
        }


class NumberScores(ClassScores):
    """Scores of predicted numbers. Given labels, residuals of predictions and values count."""

    score_name: ClassVar[str] = "share of the variance"
    promise_unit: ClassVar[str] = "% of the variance"

    def result(
        self, name: str, predictions: Array, guesses: Codes | None, *, n_rows: int, seconds: float
    ) -> AttackResult:
        r2, correlation = inference.explained(predictions, self.concept.coordinates)
        facts: Any = {"n_rows": n_rows, "seconds": seconds, "correlation": correlation}
        return AttackResult(name, r2, self.chance, predictions=predictions, **facts)

    def from_labels(self, learned: Any, known: Codes, judged: Codes, name: str) -> AttackResult:
        n, values = int(max(known.max(), judged.max())) + 1, learned.coordinates
        rows = np.bincount(known, minlength=n)[:, None]
        sums = np.stack([np.bincount(known, weights=v, minlength=n) for v in values.T], axis=1)
        means = (sums + values.mean(axis=0)) / (rows + 1)
        return self.result(name, means[judged], None, n_rows=len(learned), seconds=0.0)

    @cached_property
    def chance(self) -> float:
        return 0.0 if self.given is None else self.given.alone.score

    @property
    def n_left_out(self) -> int:
        return 0

    @property
    def _baseline(self) -> Any:
        return 0.0 if self.given is None else self.given.alone.predictions

    @property
    def _values(self) -> Array:
        return np.asarray(self.concept.coordinates - self._baseline)

    def interval(self, result: AttackResult, alpha: float) -> tuple[float, float]:
        relative = result.predictions - self._baseline
        low, high = inference.explained_interval(relative, self._values, alpha, self.groups)
        left = 1 - self.chance  # the share of the variance that the given labels do not explain
        return self.chance + left * low, self.chance + left * high

    def p_values(
        self, results: Sequence[AttackResult], seed: int, n_permutations: int
    ) -> NDArray[np.float64]:
        return inference.correlation_p_values(
            [result.predictions - self._baseline for result in results],
            self._values,
            seed,
            n_permutations=n_permutations,
            groups=self.groups,
            strata=None if self.given is None else self.given.codes,
        )

    def difference_error(self, first: AttackResult, second: AttackResult) -> float:
        values = self.concept.coordinates
        return inference.explained_difference_error(
            first.predictions, second.predictions, values, self.groups
        )

    def detectable(self, results: Sequence[AttackResult], alpha: float) -> float | None:
        relative = (result.predictions - self._baseline for result in results)
        rows = min(inference.effective_number_rows(p, self._values, self.groups) for p in relative)
        return inference.detectable_share(rows, alpha)

    def smallest_bound(self, alpha: float, n_attackers: int) -> tuple[int, float]:
        n = len(self.concept) if self.groups is None else len(np.unique(self.groups))
        return n, inference.smallest_share(n, alpha, n_attackers)

    def facts(self) -> dict[str, Any]:
        return {"kind": self.concept.kind, "majority": 0.0, "n_classes": 0, "rows_of_class": {}}


#: Scores by the kind of the concept.
SCORES: dict[str, type[ClassScores]] = {"categories": ClassScores, "continuous": NumberScores}


def scores_of(concept: Any, groups: Codes | None = None, given: Given | None = None) -> ClassScores:
    """Make the scores that fit the concept of the judged rows."""
    return SCORES[concept.kind](concept, groups, given)


# -- Attacks ---------------------------------------------------------------------------------------


def attack(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    kind: str | None = None,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Any = None,
) -> tuple[AttackResult, ...]:
    """Let a family of attackers recover the concept, as well as each can.

    Parameters
    ----------
    X_train, z_train : array-like of shape (n, d) and (n,) or (n, m)
        Rows that the attackers learn from, and the concept: labels of any type, or numbers.
    X_test, z_test : array-like
        Rows that they are judged on, some of every class. They must not be among the training rows.
    kind : {"categories", "continuous"}, optional
        Fractional numbers are continuous, all other values are labels.
    budget : "quick", "standard" or "thorough"
        Which attackers, how hard they try and on how many rows: nine or thirteen on at most
        12,000, sixteen on at most 100,000. More rows are sampled down, stratified.
    attackers : sequence of str, optional
        Names from ``ATTACKERS`` instead of the budget's.
    random_state : int, Generator or None
        Decides samples, validation parts and starts. The seed of an attacker depends on its name
        only, so that the choice of others does not change it.
    verbose : bool
        Show a progress bar.
    groups : array-like of shape (n,), optional
        What training rows come in: attackers choose their strength on whole groups.

    Returns
    -------
    tuple of AttackResult
        One for each attacker, in their order.

    Notes
    -----
    About 5 s (quick) and 30 s (standard) of one core for 10,000 rows of 100 features.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("xor", n=1000, d=5)
    >>> X_test, z_test = rows.sample(1000, random_state=1)
    >>> line, curve = attack(rows.X, rows.z, X_test, z_test, attackers=["logistic", "quadratic"])
    >>> line.accuracy < 0.6, curve.accuracy > 0.8  # the best possible is 0.875
    (True, True)
    >>> z, z_test = (X[:, 0] ** 2 for X in (rows.X, X_test))
    >>> attack(rows.X, z, X_test, z_test, attackers=["quadratic"])[0].r2 > 0.9
    True
    """
    X, X_test = checked_rows(X_train, X_test)
    learned = read(z_train, n_rows=len(X), name="z_train", kind=kind)
    judged = learned.read_alike(z_test, n_rows=len(X_test), name="z_test")
    judged.refuse_missing_class("z_test")
    return attack_concept(
        X,
        learned,
        X_test,
        scores_of(judged),
        budget=budget,
        attackers=attackers,
        random_state=random_state,
        verbose=verbose,
        groups=None if groups is None else group_codes(groups, len(X)),
    )


@one_thread()
def attack_concept(
    X: Array,
    learned: Any,
    X_test: Array,
    scores: ClassScores,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Codes | None = None,
) -> tuple[AttackResult, ...]:
    """Attack checked rows and an encoded concept; see ``attack``.

    The score is NaN where a class has no test row.
    """
    kind = ROWS[learned.kind]
    names = attacker_names(learned.kind, budget, attackers)
    seed = int(generator(random_state).integers(2**31))
    rows = kind.sample(X, learned, BUDGETS[budget].max_rows, seed, groups)
    test = X_test.astype(np.float64, copy=False)
    results = []
    for name in steps(names, "Attacking", verbose=verbose):
        started = time.perf_counter()
        attacker = FAMILY[_original_name(kind.renamed, name)]
        view = attacker.view(rows.X)
        seen = rows.seen_as(view)
        predict = attacker.model(seen, BUDGETS[budget].effort, _seed_of(name, seed))
        predictions, guesses = seen.finished(predict)(view(test))
        seconds = time.perf_counter() - started
        facts: Any = {"n_rows": len(rows), "seconds": seconds}
        results.append(scores.result(name, predictions, guesses, **facts))
    return tuple(results)


def _seed_of(name: str, seed: int) -> int:
    return (seed + zlib.crc32(name.encode())) % 2**31


def _original_name(renamed: dict[str, str], name: str) -> str:
    return {new: old for old, new in renamed.items()}.get(name, name)


def attacker_names(
    kind: str, budget: str, attackers: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Check names of attackers of a kind of concept; without any, return those of the budget."""
    check_choice("budget", budget, tuple(BUDGETS))
    renamed = ROWS[kind].renamed
    if attackers is None:
        return tuple(renamed.get(name, name) for name in BUDGETS[budget].attackers)
    names = (attackers,) if isinstance(attackers, str) else tuple(attackers)
    every = tuple(renamed.get(name, name) for name in ATTACKERS)
    if not names:
        raise ValueError(f"Got no attackers, but expected some of: {', '.join(every)}.")
    for name in names:
        if name not in every:
            hint = did_you_mean(name, every)
            if name in renamed:
                hint = f" For a number, {name} is {renamed[name]}."
            raise ValueError(
                f"Got the attacker {name!r}, but expected one of: {', '.join(every)}.{hint}"
            )
    return tuple(dict.fromkeys(names))


def rows_needed(concept: Any) -> int:
    """Return the fewest rows that attackers learn this concept from."""
    return ROWS[concept.kind].rows_needed(concept)


def sought(concept: Any) -> str:
    """Describe what attackers learn, for messages."""
    return ROWS[concept.kind].sought(concept)


def checked_rows(X_train: Any, X_test: Any) -> tuple[Array, Array]:
    """Check training and test rows: finite numbers of the same features."""
    from sklearn.utils.validation import check_array

    def checked(X: Any, name: str) -> Array:
        X = in_memory(X)
        refuse_nonfinite(X)
        rows: Array = check_array(X, dtype=np.float64, input_name=name)
        refuse_extreme(rows)
        return rows

    rows, test_rows = checked(X_train, "X_train"), checked(X_test, "X_test")
    if rows.shape[1] != test_rows.shape[1]:
        raise ValueError(
            f"Got {test_rows.shape[1]} features in X_test and {rows.shape[1]} in X_train, but "
            "expected the same number."
        )
    return rows, test_rows
