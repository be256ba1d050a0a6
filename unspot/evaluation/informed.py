"""An informed attacker: who has the eraser and raw rows, and can erase as many as they like.

Labels are what an attacker lacks, and erased rows are hard to label. Raw rows are not: a teacher
that learned from a few labelled raw rows labels all others before they are erased. Then the usual
attackers learn from many times more rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import (
    Dataset,
    Split,
    refuse_other_than_classes,
    stratified_parts,
    was_fitted_on,
)
from unspot.data.labels import Labels, encode, encode_as
from unspot.data.rows import generator, in_memory, refuse_nonfinite, row_hashes
from unspot.evaluation.attack_models import log_loss
from unspot.evaluation.attackers import AttackResult, Guess, attack_codes, learned_attackers
from unspot.evaluation.problem import erased_rows

__all__ = ["informed_attack"]

#: The best of them labels raw rows: the one that is good with few rows, or one that sees curves.
_TEACHERS = ("logistic", "quadratic", "mlp-256")


def informed_attack(
    eraser: Any,
    data: Dataset,
    *,
    raw: Any = None,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> tuple[AttackResult, ...]:
    """Attack an eraser as somebody who has it, some labelled raw rows and many raw rows.

    Parameters
    ----------
    eraser : fitted estimator, Eraser or function of rows
        As in ``certify``.
    data : Dataset
        Raw rows. The labels of ``data.validation`` are known to the attacker, those of
        ``data.test`` are sought. Labels of ``data.train`` are not used.
    raw : array-like of shape (m, d), optional
        Rows without labels that the attacker erases too; by default ``data.train.X``. Rows of
        ``data.test`` among them are left out: who has these raw has no need to attack.
    budget, attackers, random_state, verbose
        As in ``unspot.evaluation.attack``.

    Returns
    -------
    tuple of AttackResult
        One for each attacker, on ``data.test``. ``n_rows`` counts labelled and other rows.

    Notes
    -----
    The teacher is the best of three on a fifth of the labelled raw rows. Labels of the other rows
    are drawn from its probabilities, so that their shares are right and its doubts stay. The
    results do not belong into one certificate with those of other attackers, since they answer
    another question: what an eraser withstands that is in the adversary's own hands.

    Examples
    --------
    >>> from unspot import Dataset, LEACE
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("variance", n=3000, d=4)
    >>> data = Dataset.from_arrays(rows.X, rows.z, sizes=(0.6, 0.1, 0.3), random_state=0)
    >>> eraser = LEACE().fit(data.train.X, data.train.z)
    >>> result = informed_attack(eraser, data, attackers=["quadratic"])[0]
    >>> result.n_rows, result.advantage > 0.2
    (2100, True)
    """
    refuse_other_than_classes(data.validation, "an informed attacker")
    if was_fitted_on(eraser, data.test):
        raise ValueError(
            "Got an eraser that was fitted on the test split, but expected one fitted on other "
            "rows: on its own rows every eraser looks good."
        )
    labels = encode(data.validation.z, n_rows=len(data.validation))
    codes = encode_as(data.test.z, labels.classes, name="z of the test split")
    others = _without(data.train.X if raw is None else raw, data.test, data.n_features)
    seeds = generator(random_state).integers(2**31, size=2).tolist()
    taught = _taught(data.validation, labels, others, budget, seeds[0])
    own = Dataset(Split(others, taught), data.validation, data.test)
    X_own, X, X_test = erased_rows(eraser, own, "train", "validation", "test")
    return attack_codes(
        np.concatenate([X, X_own]),
        Labels(np.concatenate([labels.codes, taught]), labels.classes),
        X_test,
        codes,
        budget=budget,
        attackers=attackers,
        random_state=seeds[1],
        verbose=verbose,
    )


def _without(raw: Any, test: Split, n_features: int) -> NDArray[Any]:
    """The raw rows, checked, that are not among the test rows."""
    X = np.asarray(in_memory(raw))
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(
            f"Got raw rows of shape {X.shape}, but expected (rows, {n_features}): rows as they are "
            "before erasure."
        )
    refuse_nonfinite(X)
    sought = set(row_hashes(np.asarray(test.X)))
    others: NDArray[Any] = X[[row not in sought for row in row_hashes(X)]]
    return others


def _taught(
    known: Split, labels: Labels, others: NDArray[Any], budget: str, seed: int
) -> NDArray[np.int64]:
    """Labels of other raw rows, drawn from the probabilities of the best teacher."""
    if not len(others):
        return np.empty(0, dtype=np.int64)
    rng, X = np.random.default_rng(seed), np.asarray(known.X, dtype=np.float64)

    def learned(rows: Any, names: Sequence[str]) -> dict[str, Guess]:
        part = Labels(labels.codes[rows], labels.classes)
        return learned_attackers(X[rows], part, budget=budget, attackers=names, random_state=seed)

    learn, judge = stratified_parts(labels.codes, (0.8, 0.2), rng)
    teachers = learned(learn, _TEACHERS)
    losses = {
        name: log_loss(guess(X[judge])[0], labels.codes[judge]) for name, guess in teachers.items()
    }
    best = min(losses, key=lambda name: losses[name])
    shares, _ = learned(np.arange(len(X)), [best])[best](others.astype(np.float64))
    drawn = rng.random((len(shares), 1)) * shares.sum(axis=1, keepdims=True)
    return np.minimum((drawn > shares.cumsum(axis=1)).sum(axis=1), len(labels.classes) - 1)
