"""What to erase, given what, and what to keep: the goal of a fit beyond one column of labels.

``terms`` turns a goal into features for density matching, ``design`` into the columns that linear
erasure must make uncorrelated with the rows. All messages about goals are here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.data.concepts import Column, Concepts, Target, is_table, read_target
from unspot.data.features import (
    LOST,
    centred,
    class_features,
    concept_features,
    number_features,
    products,
    unit_variance,
)
from unspot.data.labels import (
    Labels,
    Measurements,
    is_continuous,
    missing_values,
    plain_objects,
    uncast,
)
from unspot.data.rows import generator

__all__ = ["Features", "Goal", "as_goal", "design", "keep_design", "keep_features", "terms"]

Array = NDArray[np.float64]
#: Rows are left out in turn where a regression predicts features of the concept.
FOLDS = 5


@dataclass(frozen=True)
class Goal:
    """Concepts to erase, what their dependence on x is judged given, and what x must still tell."""

    erase: Labels | Measurements | Concepts
    given: Target | None = None
    keep: Target | None = None

    @property
    def table(self) -> Concepts:
        """What to erase, as a table."""
        if isinstance(self.erase, Concepts):
            return self.erase
        return Concepts({"z": Column(self.erase, np.zeros(len(self.erase), dtype=bool))})

    @property
    def numbers(self) -> NDArray[Any]:
        """Codes and measurements of what to erase, for hashes."""
        if isinstance(self.erase, Concepts):
            return self.erase.numbers
        return self.erase.codes if isinstance(self.erase, Labels) else self.erase.values

    def __len__(self) -> int:
        return len(self.erase)

    def take(self, rows: Any) -> Goal:
        """The goal for some of the rows."""
        parts = {name: part.take(rows) for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)

    def describe(self) -> dict[str, Any]:
        """The goal in the metadata of an eraser."""
        facts = self.erase.describe()
        for name in ("given", "keep"):
            target = getattr(self, name)
            if target is not None:
                described = target.describe()
                facts[name] = {"kind": described["concept"], "classes": described["classes"]}
        return facts


def as_goal(target: Labels | Measurements | Concepts | Goal) -> Goal:
    """A goal, from what ``BaseEraser`` passes to a method."""
    return target if isinstance(target, Goal) else Goal(target)


def read_beside(values: Any, name: str, n_rows: int) -> Target:
    """What is given or kept: fractional numbers are numbers, all others are labels."""
    if is_table(values):
        raise ValueError(
            f"Got a table as {name}, but expected one column: one label or number for each row. "
            "Make one label of those of each row, such as 'f/nurse'."
        )
    plain = uncast(values)
    plain = plain_objects(plain, name) if plain.dtype.kind == "O" else plain
    if len(plain) and not missing_values(plain).any() and np.all(plain == plain[0]):
        raise ValueError(
            f"Got {name} with the same value in every row, but expected at least two values. Leave "
            f"{name} out."
        )
    kind = "continuous" if is_continuous(plain) else "categories"
    return read_target(values, n_rows=n_rows, kind=kind, name=name)


# -- Features for density matching -----------------------------------------------------------------


class Features(NamedTuple):
    """A term of the loss in numpy; see ``unspot.density.Term``."""

    psi: Array  # (n, m)
    weight: float
    groups: NDArray[np.int64] | None  # (n,), −1 for rows without a value

    def part(self, rows: slice) -> Features:
        """The same for some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        return Features(self.psi[rows], self.weight, groups)


def terms(goal: Goal, *, random_state: Any = None) -> list[Features]:
    """List the terms of the loss to make small, one for each concept."""
    rng = generator(random_state)
    listed = []
    for target, missing in goal.table.columns.values():
        beside = None if goal.given is None else goal.given.take(~missing)
        psi, groups = _conditional(target, beside, rng)
        listed.append(_whole(psi, groups, missing))
    return listed


def keep_features(goal: Goal, random_state: Any = None) -> Array:
    """Features of what to keep, (n, m)."""
    assert goal.keep is not None
    return concept_features(goal.keep, generator(random_state))


def _conditional(
    target: Target, beside: Target | None, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    """Features of a concept given a task, and the groups within which they count."""
    if not (isinstance(target, Labels) and isinstance(beside, Labels)):
        return _given(concept_features(target, rng), beside, rng)
    psi = np.zeros((len(target), len(target.classes) - 1))
    for group in np.unique(beside.codes):  # the classes' shares are those within the group
        rows = beside.codes == group
        part = class_features(target.codes[rows])
        psi[rows, : part.shape[1]] = unit_variance(part)
    return psi, beside.codes


def _given(
    psi: Array, beside: Target | None, rng: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    if isinstance(beside, Labels):
        return unit_variance(psi, beside.codes), beside.codes
    if isinstance(beside, Measurements):
        phi = number_features(beside.values, rng)
        psi = psi - _predicted(psi, phi, rng)
        # K_y(y_a, y_b)⟨r_a, r_b⟩ with the residuals r of ψ, and K_y = 1 + φ·φ′.
        psi = products([psi, np.column_stack([np.ones(len(phi)), unit_variance(phi)])], rng)
    return unit_variance(psi), np.zeros(len(psi), dtype=np.int64)


def _predicted(psi: Array, phi: Array, rng: np.random.Generator) -> Array:
    """ψ as ridge regression on φ predicts it, for each row from other rows."""
    from sklearn.linear_model import RidgeCV

    fold = rng.permutation(len(psi)) % FOLDS
    predicted = np.empty_like(psi)
    for k in range(FOLDS):
        model = RidgeCV(np.logspace(-6, 2, 9)).fit(phi[fold != k], psi[fold != k])
        predicted[fold == k] = model.predict(phi[fold == k]).reshape(-1, psi.shape[1])
    return predicted


def _whole(psi: Array, groups: NDArray[np.int64], missing: NDArray[np.bool_]) -> Features:
    """Features of all rows, from those of the rows with a value."""
    if not missing.any():
        return Features(psi, 1.0, groups if groups.any() else None)
    full, codes = np.zeros((len(missing), psi.shape[1])), np.full(len(missing), -1)
    full[~missing], codes[~missing] = psi, groups
    return Features(full, 1.0, codes)


# -- Columns for linear erasure --------------------------------------------------------------------


def design(goal: Goal, *, random_state: Any = 0) -> Array:
    """Columns that erased rows must not correlate with, centred, (n, q).

    One-hots of classes and the numbers themselves; within each value of a discrete task, or the
    residuals beside a continuous one. Where a value is missing there is a zero, the mean, which
    changes no covariance.
    """
    parts = []
    for target, missing in goal.table.columns.values():
        columns = _linear(target)
        full = np.zeros((len(missing), columns.shape[1]))
        full[~missing] = centred(columns)
        parts.append(_given_design(full, missing, goal, random_state))
    return np.hstack(parts)


def keep_design(goal: Goal) -> Array:
    """Columns whose covariance with the rows must stay, centred, (n, p)."""
    assert goal.keep is not None
    return centred(_linear(goal.keep))


def _linear(target: Target) -> Array:
    if isinstance(target, Labels):
        return np.eye(len(target.classes))[target.codes]
    spread = target.values.std(axis=0)
    return np.asarray(target.values / np.where(spread > 0, spread, 1.0))


def _given_design(
    columns: Array, missing: NDArray[np.bool_], goal: Goal, random_state: Any
) -> Array:
    """Columns within every value of a task, or their residuals."""
    rows = ~missing
    full = np.zeros_like(columns)
    if goal.given is None:
        full[rows] = centred(columns[rows])
        return full
    beside = goal.given.take(rows)
    if isinstance(beside, Labels):
        full[rows] = centred(columns[rows], beside.codes)
        given = goal.given.codes  # type: ignore[union-attr]
        blocks = [full * (given == group)[:, None] for group in np.unique(beside.codes)]
        # Where a value of the task has one class only, rounding is left, and no signal.
        least = 1e-9 * np.abs(columns).max()
        return np.hstack([block for block in blocks if np.abs(block).max() > least] or [0 * full])
    rng = generator(random_state)
    phi = number_features(beside.values, rng)
    full[rows] = centred(columns[rows] - _predicted(columns[rows], phi, rng))
    return full


# -- What cannot be a goal -------------------------------------------------------------------------


def check_beside(goal: Goal) -> None:
    """Refuse what is given if it decides all concepts, and what is kept if it is one of them."""
    each = [(target, ~missing) for target, missing in goal.table.columns.values()]
    if goal.given is not None and all(_tells(goal.given.take(rows), z) for z, rows in each):
        raise ValueError(
            "Got a concept that is a function of what is given: within each value of it, all rows "
            "have the same concept, but expected at least two. There is nothing to erase; leave "
            "given out."
        )
    kept = [] if goal.keep is None else [(goal.keep.take(rows), z) for z, rows in each]
    if any(_tells(y, z) and _tells(z, y) for y, z in kept):
        raise ValueError(
            "Got keep=y whose signal is that of z: each decides the other, and the same would have "
            "to be erased and kept, but expected tasks that z does not decide. Keep another task, "
            "or erase without keep."
        )


def _tells(one: Target, other: Target) -> bool:
    """Whether one concept decides another; a number, all but a thousandth of its variance."""
    columns = centred(_linear(other))
    if isinstance(one, Labels):
        return bool(np.square(centred(columns, one.codes)).sum() <= 1e-9 * np.square(columns).sum())
    if one.values.shape[1] > 1:
        return False  # vectors have no order
    # How far each row is from the line between its neighbours (Gasser et al. 1986).
    order = np.argsort(one.values[:, 0])
    y, z = one.values[order], columns[order]
    wide = y[2:] - y[:-2]
    share = np.divide(y[2:] - y[1:-1], wide, out=np.full_like(wide, 0.5), where=wide > 0)
    apart = z[1:-1] - share * z[:-2] - (1 - share) * z[2:]
    return bool(np.square(apart).sum() <= 1.5 * LOST * np.square(columns).sum())
