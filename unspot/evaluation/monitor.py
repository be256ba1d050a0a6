"""Watch an eraser on rows that arrive in batches: one verdict, valid however often one looks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_share
from unspot.data.dataset import (
    MAX_SEEN,
    Dataset,
    Split,
    refuse_continuous,
    share_fitted_on,
    was_fitted_on,
)
from unspot.data.labels import Labels, encode, encode_as
from unspot.data.rows import identity, in_memory, refuse_extreme, refuse_nonfinite, row_hashes
from unspot.eraser import Eraser
from unspot.evaluation.attackers import BUDGETS, Guess, attacker_names, learned_attackers
from unspot.evaluation.betting import growth
from unspot.evaluation.certificate import MARGIN
from unspot.evaluation.problem import erased_rows
from unspot.evaluation.results import eraser_name
from unspot.evaluation.tally import MonitorReport
from unspot.io.journal import Journal, read_journal
from unspot.io.records import as_type
from unspot.machine import one_thread
from unspot.maps.file import packed

__all__ = ["Monitor"]


class Monitor:
    """Judge an eraser by batch after batch of labelled rows, with one verdict at all times.

    Attackers learn from rows that the eraser was not fitted on. They guess the concept of every new
    batch before its labels are looked at, and money is bet on their guesses, in a game that is fair
    if labels and erased rows are independent. Then each batch is one more to learn from: attackers
    learn anew whenever their rows have doubled, up to the limit of the budget.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows or None
        As in ``certify``; None for rows that are erased already.
    X, z : array-like of shape (n, d) and (n,)
        Rows to learn from first, all classes among them.
    budget : "quick", "standard" or "thorough"
        Which attackers, and how hard they try.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS`` instead of the budget's.
    alpha : float
        The probability of a false LEAKS, and of a false HOLDS, at any time at all.
    margin : float
        The largest advantage that counts as erased.
    state : path, optional
        A file that remembers what was counted, one line for each batch: a later monitor of the same
        eraser and settings goes on from there. It may learn from other rows, for example from the
        batches that were counted since.
    random_state : int
        Decides everything that is random.

    Notes
    -----
    Rows must be new in every batch, and of a batch independent given their labels: not ten rows of
    one person. Rows that were learned from are left out. A batch that was counted before is
    refused.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=500, d=5)
    >>> monitor = Monitor(None, rows.X, rows.z, attackers=["logistic"])
    >>> for night in range(3):
    ...     report = monitor.update(*rows.sample(100, random_state=night + 1))
    >>> report.verdict, report.n_rows
    ('LEAKS', 300)
    """

    def __init__(
        self,
        eraser: Any,
        X: Any,
        z: Any,
        *,
        budget: str = "quick",
        attackers: Sequence[str] | None = None,
        alpha: float = 0.05,
        margin: float = MARGIN,
        state: str | os.PathLike[str] | None = None,
        random_state: int = 0,
    ) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
        if check_share("margin", margin) == 0:
            raise ValueError("Got margin=0, but no number of rows shows that there is no leak.")
        names = attacker_names(budget, attackers)
        self._eraser, self._budget, self._random_state = eraser, budget, int(random_state)
        self._chosen = None if attackers is None else names
        rows = self._unseen(_split(X, z), "rows to learn from")
        self._labels = encode(rows.z)
        self._pool = [(self._erased(rows), self._labels.codes)]
        self._known = set(row_hashes(rows.X))
        self._attackers: dict[str, Guess] = {}
        settings = {
            "monitor": _identity_of(eraser),
            "classes": list(map(str, self._labels.classes)),
            "shares": (self._labels.counts / len(self._labels)).tolist(),
            "attackers": list(names),
            "budget": budget,
            "alpha": alpha,
            "margin": margin,
            "random_state": self._random_state,
        }
        self._journal, past = _opened(state, settings)
        self._counted = [record["known"] for record in past]
        self.report = past[-1]["report"] if past else MonitorReport.first(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file of the state."""
        if self._journal is not None:
            self._journal.close()

    def update(self, X: Any, z: Any) -> MonitorReport:
        """Guess the concept of new rows, compare with their labels, and say what is known now.

        Parameters
        ----------
        X, z : array-like of shape (n, d) and (n,)
            New rows as they are before erasure, and their labels.
        """
        split = self._unseen(_split(X, z), "batch")
        known = self._refuse_counted(split)
        new = np.array([row not in self._known for row in row_hashes(split.X)])
        if new.mean() < 0.5:
            raise ValueError(
                f"Got a batch of {len(split):,} rows of which {int((~new).sum()):,} were learned "
                "from, but expected new rows: what was learned by heart is no evidence. Keep "
                "rows to learn from and rows to judge on apart."
            )
        split = split.take(new)
        codes = encode_as(split.z, self._labels.classes)
        erased = self._erased(split)
        report = self._judged(erased, codes)
        if self._journal is not None:
            self._journal.append({"key": str(report.n_batches), **known, **asdict(report)})
        self._counted.append(known["known"])
        self._remember(split, erased, codes)
        self.report = report
        return report

    @one_thread()
    def _judged(self, X: NDArray[Any], codes: NDArray[np.int64]) -> MonitorReport:
        """The report with one more batch. Labels are used when all guesses are made."""
        K, old = len(self._labels.classes), self.report
        guessed = {name: guess(X) for name, guess in self._learned().items()}
        seed = [self._random_state, old.n_batches]
        counts = np.bincount(codes, minlength=K)
        tallies = dict(old.attackers)
        for name, (probabilities, guesses) in guessed.items():
            hits = np.bincount(codes[guesses == codes], minlength=K)
            grown = growth(guesses, probabilities, self._learned_shares, codes, seed)
            tallies[name] = tallies[name].plus(hits, counts, grown)
        return old.after(tallies, len(codes))

    def _learned(self) -> dict[str, Guess]:
        """The attackers, which learn anew if their rows have doubled."""
        if not self._attackers:
            codes = np.concatenate([codes for _, codes in self._pool])
            labels = Labels(codes, self._labels.classes)
            self._learned_shares = labels.counts / len(labels)
            self._n_learned = len(labels)
            self._attackers = learned_attackers(
                np.concatenate([rows for rows, _ in self._pool]),
                labels,
                budget=self._budget,
                attackers=self._chosen,
                random_state=self._random_state,
            )
        return self._attackers

    def _remember(self, split: Split, erased: NDArray[Any], codes: NDArray[np.int64]) -> None:
        """Rows that were judged on are rows to learn from, as far as attackers can use more."""
        self._known.update(row_hashes(split.X))
        if self._n_learned >= BUDGETS[self._budget].max_rows:
            return
        self._pool.append((erased, codes))
        if sum(len(codes) for _, codes in self._pool) >= 2 * self._n_learned:
            self._attackers = {}

    def _erased(self, split: Split) -> NDArray[Any]:
        rows = erased_rows(self._eraser, Dataset(split, split, split), "test")[0]
        pool = getattr(self, "_pool", None)
        if pool and rows.shape[1] != pool[0][0].shape[1]:
            raise ValueError(
                f"Got a batch of {rows.shape[1]} features, but attackers learned from rows of "
                f"{pool[0][0].shape[1]}. Give rows of the same kind."
            )
        return rows

    def _unseen(self, split: Split, what: str) -> Split:
        if was_fitted_on(self._eraser, split):
            raise ValueError(
                f"Got {what} that the eraser was fitted on, but expected rows that it has not "
                "seen: on its own rows every eraser looks good."
            )
        return split

    def _refuse_counted(self, split: Split) -> dict[str, Any]:
        """What the batch is known by; an error if it was counted before."""
        labels = encode(split.z, min_classes=1)
        for number, known in enumerate(self._counted, start=1):
            share = share_fitted_on(SimpleNamespace(metadata=known), split, labels)
            if share > MAX_SEEN:
                raise ValueError(
                    f"Got a batch of which {100 * share:.0f} % of the rows were counted in batch "
                    f"{number}, but expected new rows: counted twice, luck looks like evidence. "
                    "Leave those rows out."
                )
        return {"known": {**identity(split.X, labels.codes), "n_rows": len(split)}}


def _opened(
    state: str | os.PathLike[str] | None, settings: dict[str, Any]
) -> tuple[Journal | None, list[dict[str, Any]]]:
    """The file of the state, and what it holds: what batches are known by, and the reports."""
    if state is None:
        return None, []
    path = Path(state)
    if path.is_file() and path.stat().st_size:
        first, _ = read_journal(path)
        # The bounds rest on the shares at the start; rows to learn from may change.
        settings["shares"] = first.get("shares", settings["shares"])
    journal = Journal(path, settings, resume=True)
    try:
        past = [
            {"known": record.get("known", {}), "report": as_type(MonitorReport, record)}
            for record in journal.records.values()
        ]
    except ValueError as error:
        journal.close()
        raise ValueError(
            f"Got {str(path)!r} with a line that is damaged: {error}. Restore the file, or begin "
            "another one."
        ) from None
    return journal, past


def _split(X: Any, z: Any) -> Split:
    """Rows and labels, checked."""
    X = np.asarray(in_memory(X))
    if X.ndim != 2 or not len(X):
        raise ValueError(f"Got X of shape {X.shape}, but expected (rows, features), with rows.")
    refuse_nonfinite(X)
    refuse_extreme(X)
    refuse_continuous(z)
    return Split(X, encode(z, n_rows=len(X), min_classes=1).values)


def _identity_of(eraser: Any) -> str:
    """The method and a hash of what an eraser does; of a function only its name is known."""
    frozen = getattr(eraser, "eraser_", eraser)
    name = eraser_name(eraser)
    if not isinstance(frozen, Eraser):
        return name
    return f"{name} {hashlib.sha256(packed(frozen.maps, {})).hexdigest()[:16]}"
