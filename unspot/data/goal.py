"""The goal of a fit: what to erase, given what, and what to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.data.concept import Table, read_covariate
from unspot.data.features import centred
from unspot.data.groups import group_codes
from unspot.data.rows import generator
from unspot.data.statistics import ClassStatistics, CrossStatistics

Array = NDArray[np.float64]
#: A class of fewer rows is too small to compare concepts within.
RARE = 10


class Features(NamedTuple):
    """A term of the loss in numpy; see ``unspot.leopard.Term``."""

    psi: Array  # (n, m)
    weight: float
    groups: NDArray[np.int64] | None  # (n,), −1 for rows without a value

    def part(self, rows: slice) -> Features:
        """Select some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        return Features(self.psi[rows], self.weight, groups)


@dataclass(frozen=True)
class Goal:
    """Concept to erase, covariate that is given, task to keep, and the groups that rows come in."""

    erase: Any
    given: Any = None
    keep: Any = None
    groups: NDArray[np.int64] | None = None  # (n,), for a fit that splits its rows

    @classmethod
    def read(cls, erase: Any, given: Any = None, keep: Any = None, groups: Any = None) -> Goal:
        """Read what comes with a concept, and refuse what leaves nothing to erase or to keep."""
        conditions = {
            name: read_covariate(values, name, len(erase), fewest=fewest)
            for name, values, fewest in (("given", given, RARE), ("keep", keep, 0))
            if values is not None
        }
        codes = None if groups is None else group_codes(groups, len(erase))
        goal = cls(erase, **conditions, groups=codes)
        goal.refuse_contradictions()
        return goal

    def __len__(self) -> int:
        return len(self.erase)

    @property
    def codes(self) -> NDArray[np.int64] | None:
        """Codes of one concept of classes, if nothing is given or kept; else None."""
        conditional = self.given is not None or self.keep is not None
        return self.erase.codes if self.erase.has_classes and not conditional else None

    @property
    def n_classes(self) -> int:
        """Number of classes, or 0."""
        return len(self.erase.classes) if self.erase.has_classes else 0

    @property
    def conditions(self) -> tuple[str, ...]:
        """List the conditions that were passed: "given", "keep" or both."""
        return tuple(name for name in ("given", "keep") if getattr(self, name) is not None)

    @property
    def numbers(self) -> NDArray[Any]:
        """Codes and numbers of what to erase, for hashes."""
        return np.asarray(self.erase.numbers)

    def take(self, rows: Any) -> Goal:
        """Select some of the rows."""
        conditions = {name: getattr(self, name).take(rows) for name in self.conditions}
        groups = None if self.groups is None else self.groups[rows]
        return Goal(self.erase.take(rows), **conditions, groups=groups)

    def describe(self) -> dict[str, Any]:
        """Return the goal's entries in the metadata of an eraser."""
        facts: dict[str, Any] = self.erase.describe()
        for name in self.conditions:
            described = getattr(self, name).describe()
            facts[name] = {"kind": described["concept"], "classes": described["classes"]}
            if names := getattr(self, name).names:
                facts[name]["columns"] = list(names)
        return facts

    def statistics(self, X: Any) -> ClassStatistics | CrossStatistics:
        """Sum up rows and what they must not correlate with in one pass, for linear erasure."""
        if self.conditions or self.erase.names:
            return CrossStatistics.from_rows(X, self.design())
        return self.erase.statistics(X, per_class=False)

    def terms(self, random_state: Any = None) -> list[Features]:
        """Return features for density matching, one term for each concept."""
        rng = generator(random_state)
        return [
            self._term(column.target, column.missing, rng) for column in self.erase.columns.values()
        ]

    def design(self) -> Array:
        """Return the columns that erased rows must not correlate with, centred, (n, q).

        One-hots of classes and the numbers themselves, conditional on what is given. A missing
        value is a zero, the mean, which changes no covariance.
        """
        parts = []
        for target, missing in self.erase.columns.values():
            columns = centred(target.design())
            if self.given is not None:
                given = self.given.take(~missing)
                columns = given.condition_design(columns, generator(0))
            full = np.zeros((len(missing), columns.shape[1]))
            full[~missing] = columns
            parts.append(full)
        return np.hstack(parts)

    def unexplained(self, X: Any, codes: NDArray[np.int64]) -> Array:
        """Subtract from rows what given and keep explain within the classes of these codes."""
        conditions = [getattr(self, name).basis(generator(0)) for name in self.conditions]
        phi = np.hstack(conditions)  # (n, m)
        X = np.asarray(X, dtype=np.float64)
        within = np.linalg.lstsq(centred(phi, codes), centred(X, codes), rcond=1e-8)[0]
        return np.asarray(X - centred(phi) @ within)

    def _term(self, target: Any, missing: NDArray[np.bool_], rng: np.random.Generator) -> Features:
        if self.given is None:
            psi, cells = target.features(rng), np.zeros(len(target), dtype=np.int64)
        else:
            psi, cells = self.given.take(~missing).condition(target, rng)
        if not missing.any():
            return Features(psi, 1.0, cells if cells.any() else None)
        full, codes = np.zeros((len(missing), psi.shape[1])), np.full(len(missing), -1)
        full[~missing], codes[~missing] = psi, cells
        return Features(full, 1.0, codes)

    def refuse_contradictions(self) -> None:
        """Refuse a given that determines every concept, and a task that is one of them."""
        each = [(target, ~missing) for target, missing in self.erase.columns.values()]
        if self.given is not None and all(self.given.take(r).determines(z) for z, r in each):
            raise ValueError(
                "Got a concept that is a function of what is given: within each value of it, all "
                "rows have the same concept, but expected at least two. There is nothing to erase "
                "or to find beyond it; leave given out."
            )
        columns = {} if self.keep is None else self.keep.columns
        tasks = [(Table({k: y}).take(rows), z) for k, y in columns.items() for z, rows in each]
        if any(y.determines(z) and z.determines(y) for y, z in tasks):
            raise ValueError(
                "Got keep=y whose signal is that of z: each decides the other, and the same would "
                "have to be erased and kept, but expected tasks that z does not decide. Keep "
                "another task, or erase without keep."
            )
