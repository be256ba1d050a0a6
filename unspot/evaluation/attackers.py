"""Attackers: how well could a determined adversary still recover the concept?

A family behind one interface. Each attacker is a model and the coordinates it sees; each is fitted
on training rows, and judged on other rows.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, did_you_mean
from unspot.data.groups import group_codes
from unspot.data.labels import Labels
from unspot.data.rows import generator
from unspot.evaluation.attack_models import (
    Effort,
    Model,
    TrainingRows,
    View,
    as_given,
    boosted_trees,
    linear,
    log_loss,
    nearest,
    networks,
    patient_trees,
    principal,
    quadratic,
    radial,
    standardised,
    whitened,
    with_statistics,
)
from unspot.evaluation.attack_searches import interactions, residue, waves
from unspot.evaluation.inference import recalls
from unspot.evaluation.probes import checked_codes, checked_rows
from unspot.io.progress import steps
from unspot.machine import one_thread

__all__ = ["ATTACKERS", "BUDGETS", "MIN_OF_A_CLASS", "AttackResult", "attack", "rows_needed"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class AttackResult:
    """How one attacker did on the test rows.

    Attributes
    ----------
    name : str
        One of ``ATTACKERS``.
    accuracy : float
        Share of rows whose most probable class is the right one.
    balanced_accuracy : float
        Every class counted alike: the mean over classes of the share of ``guesses`` that are right.
    advantage : float
        Balanced accuracy above that of guessing, which is 1/K for K classes. Accuracy would not do:
        of classes of 95 and 5 % no attacker may beat the guess of the first, whatever it knows.
    log_loss_bits : float
        Mean code length of a label by the attacker's probabilities.
    n_rows : int
        Rows it was fitted on.
    seconds : float
        For fitting and guessing.
    guesses, probabilities : arrays of shape (n_test,) and (n_test, K)
        Row by row; not in ``to_dict``. A guess is the most probable class after rare classes got
        a weight: 1/share, or less if that serves the attacker's validation rows better.
    """

    name: str
    accuracy: float
    balanced_accuracy: float
    advantage: float
    log_loss_bits: float
    n_rows: int
    seconds: float
    guesses: NDArray[np.int64]
    probabilities: Array

    @property
    def score(self) -> float:
        """What stands for the attacker: its balanced accuracy."""
        return self.balanced_accuracy

    @classmethod
    def of(
        cls,
        name: str,
        guesses: NDArray[np.int64],
        probabilities: Array,
        codes: NDArray[np.int64],
        *,
        n_rows: int,
        seconds: float,
    ) -> AttackResult:
        """The scores of guesses, given the labels 0…K−1 of the test rows."""
        n_classes = probabilities.shape[1]
        balanced = float(recalls(guesses, codes, n_classes).mean())
        return cls(
            name=name,
            accuracy=float(np.mean(probabilities.argmax(axis=1) == codes)),
            balanced_accuracy=balanced,
            advantage=balanced - 1 / n_classes,
            log_loss_bits=log_loss(probabilities, codes),
            n_rows=n_rows,
            seconds=seconds,
            guesses=guesses,
            probabilities=probabilities,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        arrays = ("guesses", "probabilities")
        return {name: value for name, value in vars(self).items() if name not in arrays}


@dataclass(frozen=True)
class _Attacker:
    view: Callable[[Array], View]
    model: Model


FAMILY: dict[str, _Attacker] = {
    "logistic": _Attacker(standardised, linear),
    # In whitened coordinates a penalty does not hide directions of low variance, and one of 1/n is
    # next to none: a linear attacker that no linear map of the rows changes.
    "whitened-logistic": _Attacker(whitened, linear),
    "residue": _Attacker(as_given, residue),
    "interactions": _Attacker(standardised, interactions),
    "waves": _Attacker(whitened, waves),
    "quadratic": _Attacker(standardised, quadratic),
    "neighbours": _Attacker(principal, nearest),
    "rbf": _Attacker(standardised, radial),
    "mlp-64": _Attacker(standardised, networks(64)),
    "mlp-256": _Attacker(standardised, networks(256)),
    "mlp-128-128": _Attacker(principal, networks(128, 128)),
    "trees": _Attacker(with_statistics, boosted_trees),
    # Trees cut along axes: the rows' own axes and the principal ones show them different things.
    "rotated-trees": _Attacker(principal, patient_trees),
    "whitened-rbf": _Attacker(whitened, radial),
    "whitened-mlp-256": _Attacker(whitened, networks(256)),
    "mlp-512-512": _Attacker(standardised, networks(512, 512)),
}

#: The names of all attackers.
ATTACKERS: tuple[str, ...] = tuple(FAMILY)


@dataclass(frozen=True)
class _Budget:
    attackers: tuple[str, ...]
    max_rows: int
    effort: Effort


BUDGETS: dict[str, _Budget] = {
    "quick": _Budget(
        (*ATTACKERS[:6], "rbf", "mlp-64", "trees"),
        max_rows=12_000,
        effort=Effort(
            products=500, landmarks=200, networks=2, epochs=30, trees=100, pairs=500, waves=2_000
        ),
    ),
    "standard": _Budget(
        ATTACKERS[:13],
        max_rows=12_000,
        effort=Effort(
            products=1_000,
            landmarks=800,
            networks=4,
            epochs=60,
            trees=300,
            pairs=5_000,
            waves=20_000,
        ),
    ),
    "thorough": _Budget(
        ATTACKERS,
        max_rows=100_000,
        effort=Effort(
            products=3_000,
            landmarks=1_500,
            networks=4,
            epochs=100,
            trees=1_000,
            pairs=100_000,
            waves=50_000,
        ),
    ),
}


def attack(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Any = None,
) -> tuple[AttackResult, ...]:
    """Let a family of attackers recover the concept, as well as each can.

    Parameters
    ----------
    X_train, z_train : array-like of shape (n, d) and (n,)
        Rows that the attackers learn from, and the concept's labels of any type.
    X_test, z_test : array-like of shape (m, d) and (m,)
        Rows that they are judged on, some of every class. They must not be among the training rows.
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
        What training rows come in: attackers choose their strength on groups of their own.

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
    """
    X, labels, X_test = checked_rows(X_train, z_train, X_test, dtype=np.float64)
    codes = checked_codes(z_test, labels, len(X_test))
    missing = labels.classes[np.bincount(codes, minlength=len(labels.classes)) == 0]
    if len(missing):
        raise ValueError(
            f"Got no row of class {missing[0]!s} in z_test, but expected every class of z_train. "
            "Split the rows stratified, as Dataset.from_arrays does."
        )
    return attack_codes(
        X,
        labels,
        X_test,
        codes,
        budget=budget,
        attackers=attackers,
        random_state=random_state,
        verbose=verbose,
        groups=None if groups is None else group_codes(groups, len(X)),
    )


@one_thread()
def attack_codes(
    X: Array,
    labels: Labels,
    X_test: Array,
    codes: NDArray[np.int64],
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: NDArray[np.int64] | None = None,
) -> tuple[AttackResult, ...]:
    """``attack`` on rows that are checked and labels that are encoded.

    Balanced accuracy and advantage are NaN where a class has no test row. ``groups`` are those of
    the rows to learn from, as numbers: attackers choose their strength on groups of their own.
    """
    rows, names, effort, seed = _prepared(X, labels, budget, attackers, random_state, groups)
    test = X_test.astype(np.float64, copy=False)
    results = []
    for name in steps(names, "Attacking", verbose=verbose):
        results.append(_attack(name, rows, test, codes, effort, seed))
    return tuple(results)


#: Rows (n, d) → probabilities (n, K) and guesses (n,).
Guess = Callable[[Array], tuple[Array, NDArray[np.int64]]]


@one_thread()
def learned_attackers(
    X: Array,
    labels: Labels,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
) -> dict[str, Guess]:
    """Attackers that have learned and wait for rows, by name; as ``attack_codes`` has them."""
    rows, names, effort, seed = _prepared(X, labels, budget, attackers, random_state)
    learning = steps(names, "Attackers learn")
    return {name: _learned(name, rows, effort, seed) for name in learning}


def rows_needed(n_classes: int) -> int:
    """The fewest rows that attackers learn from: ten per class, and at least forty."""
    return max(40, 10 * n_classes)


#: The fewest rows of a class that attackers learn from.
MIN_OF_A_CLASS = 5


def _prepared(
    X: Array,
    labels: Labels,
    budget: str,
    attackers: Sequence[str] | None,
    random_state: Any,
    groups: NDArray[np.int64] | None = None,
) -> tuple[TrainingRows, tuple[str, ...], Effort, int]:
    """What to learn from, who learns, how hard, and the seed."""
    names = attacker_names(budget, attackers)
    _refuse_too_few(labels)
    seed = int(generator(random_state).integers(2**31))
    max_rows = BUDGETS[budget].max_rows
    rows = _sample(X.astype(np.float64, copy=False), labels, max_rows, seed, groups)
    return rows, names, BUDGETS[budget].effort, seed


def _learned(name: str, rows: TrainingRows, effort: Effort, seed: int) -> Guess:
    own_seed = (seed + zlib.crc32(name.encode())) % 2**31
    view = FAMILY[name].view(rows.X)
    seen = rows.seen_as(view)
    predict = FAMILY[name].model(seen, effort, own_seed)
    weights = _weights(predict, seen)

    def guess(X: Array) -> tuple[Array, NDArray[np.int64]]:
        probabilities = np.asarray(predict(view(X)), dtype=np.float64)
        return probabilities, (probabilities * weights).argmax(axis=1)

    return guess


def _attack(
    name: str, rows: TrainingRows, test: Array, codes: NDArray[np.int64], effort: Effort, seed: int
) -> AttackResult:
    started = time.perf_counter()
    probabilities, guesses = _learned(name, rows, effort, seed)(test)
    seconds = time.perf_counter() - started
    return AttackResult.of(name, guesses, probabilities, codes, n_rows=len(rows), seconds=seconds)


def _weights(predict: Callable[[Array], Array], rows: TrainingRows) -> Array:
    """What makes up for the shares of the classes: equal odds, unless the validation part objects.

    By the odds of the data a rare class would never be guessed. At equal odds it is guessed too
    often where small probabilities are not to be trusted: hence the steps between, where they are
    better by more than a standard error.
    """
    validation = rows.validation
    probabilities = np.asarray(predict(validation.X), dtype=np.float64)
    choices = [rows.shares**-power for power in (1.0, 0.75, 0.5, 0.25, 0.0)]
    served = np.array(
        [
            recalls((probabilities * weights).argmax(axis=1), validation.codes, rows.n_classes)
            for weights in choices
        ]
    )
    counts = np.bincount(validation.codes, minlength=rows.n_classes)
    error = np.sqrt((served[0] * (1 - served[0]) / counts).sum()) / rows.n_classes
    gains = (served - served[0]).mean(axis=1)
    best = int(np.argmax(gains))
    return choices[best if gains[best] > error else 0]


def _sample(
    X: Array,
    labels: Labels,
    max_rows: int,
    seed: int,
    groups: NDArray[np.int64] | None = None,
) -> TrainingRows:
    """About ``max_rows`` of the rows, the classes in their shares, with a validation part."""
    rng = np.random.default_rng(seed)
    chosen = np.arange(len(X))
    if len(X) > max_rows:
        # A rare class keeps the rows without which it could not be learned.
        wanted = np.maximum(np.round(labels.counts * max_rows / len(X)), MIN_OF_A_CLASS)
        drawn = [
            rng.permutation(np.flatnonzero(labels.codes == k))[: int(count)]
            for k, count in enumerate(wanted)
        ]
        chosen = np.sort(np.concatenate(drawn))
    groups = None if groups is None else groups[chosen]
    return TrainingRows.split(X[chosen], labels.codes[chosen], len(labels.classes), rng, groups)


# -- what is wrong with the input ----------------------------------------------------------------


def attacker_names(budget: str, attackers: Sequence[str] | None) -> tuple[str, ...]:
    """The given names, checked; or those of the budget."""
    check_choice("budget", budget, tuple(BUDGETS))
    return BUDGETS[budget].attackers if attackers is None else _names(attackers)


def _names(attackers: Sequence[str]) -> tuple[str, ...]:
    names = (attackers,) if isinstance(attackers, str) else tuple(attackers)
    if not names:
        raise ValueError(f"Got no attackers, but expected some of: {', '.join(ATTACKERS)}.")
    for name in names:
        if name not in FAMILY:
            raise ValueError(
                f"Got the attacker {name!r}, but expected one of: {', '.join(ATTACKERS)}."
                f"{did_you_mean(name, ATTACKERS)}"
            )
    return tuple(dict.fromkeys(names))


def _refuse_too_few(labels: Labels) -> None:
    needed = rows_needed(len(labels.classes))
    if len(labels) < needed:
        raise ValueError(
            f"Got {len(labels)} rows to train attackers on, but they need at least {needed} for "
            f"{len(labels.classes)} classes. Give more rows: an attacker that cannot learn proves "
            "nothing."
        )
    fewest = int(np.argmin(labels.counts))
    if labels.counts[fewest] < MIN_OF_A_CLASS:
        raise ValueError(
            f"Got {labels.counts[fewest]} rows of class {labels.classes[fewest]!s} to train "
            f"attackers on, but they need at least {MIN_OF_A_CLASS} of every class. Give more "
            "rows, or merge it with another class."
        )
