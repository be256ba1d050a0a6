"""Concepts: what is erased, given, kept and attacked, behind one protocol.

``Classes`` are labels, ``Number`` is one number or one vector of numbers per row, and ``Table`` is
several columns of both, in which values may be missing. No other module asks which of them it has:
whatever depends on the kind of a concept is a method here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, did_you_mean, warn
from unspot.data.columns import (
    check_length,
    classes_of,
    encode_as,
    is_continuous,
    label_warnings,
    missing_values,
    numbers_of,
    plain_objects,
    refuse_ids,
    shown,
    uncast,
)
from unspot.data.features import (
    LOST,
    centred,
    class_features,
    number_features,
    predicted,
    products,
    unit_variance,
)
from unspot.data.rows import generator, refuse_masked_or_sparse
from unspot.data.statistics import ClassStatistics, CrossStatistics

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Kinds of a column.
KINDS = ("categories", "continuous")
#: Integers with more distinct values than this may be labels or measurements: the user has to say.
FEW_VALUES = 20
#: The class that rare classes are merged to.
MERGED = "one of the others"
#: Rows for each term of a regression on covariates that has products of two.
ROWS_PER_TERM = 20


class Column(NamedTuple):
    """One concept of a table: its values where there are any, and where there are none."""

    target: Any  # Classes or Number of the rows that have a value
    missing: NDArray[np.bool_]  # (n,)

    def take(self, rows: Any) -> Column:
        """Select rows by number, slice or mask."""
        place = np.cumsum(~self.missing) - 1
        missing = self.missing[rows]
        return Column(self.target.take(place[rows][~missing]), missing)


class _Covariates:
    """Condition concepts on what is given by regression on its basis; for numbers and tables."""

    basis: Any

    def condition(self, concept: Any, random_state: Any = None) -> tuple[Array, Codes]:
        """Return residual features times those of what is given: (1 + φ·φ′)⟨r, r′⟩.

        r are the residuals of ψ in a ridge regression on φ.
        """
        rng = generator(random_state)
        psi = concept.features(rng)
        phi = self.basis(rng)
        psi = psi - predicted(psi, phi, rng)
        psi = products([psi, np.column_stack([np.ones(len(phi)), unit_variance(phi)])], rng)
        return unit_variance(psi), np.zeros(len(psi), dtype=np.int64)

    def condition_design(self, design: Array, random_state: Any = None) -> Array:
        """Return the residuals of the design in a regression on what is given.

        They are uncorrelated with it in these very rows, so that no eraser takes them for it.
        """
        phi = centred(self.basis(random_state))
        residuals = centred(design - phi @ np.linalg.lstsq(phi, design, rcond=1e-8)[0])
        return _beyond_rounding(residuals, design)


class Concept:
    """Base class of a concept of n rows: all that fits, splits, attacks and reports need.

    Every concept has ``values``, in the form in which a user passes it; ``numbers``, codes and
    numbers with NaN where a value is missing, for hashes; ``strata``, cells by which splits are
    stratified; ``take(rows)``, which selects rows by number, slice or mask, while classes without a
    row stay; ``describe()`` and ``facts()``, entries in the metadata of an eraser and of an
    evaluation; ``summary()``, a few words; and ``names``, ``columns``, ``column(name)`` and
    ``single()``, by which a table is taken apart.

    Classes and numbers also have ``design()``, the columns that linear erasure decorrelates from
    the rows, (n, q); ``features(rng)``, centred features ψ(z) for HSIC of unit total variance,
    (n, m), and ``features_within(cells, rng)`` for dependence within cells; ``basis(rng)``, what a
    regression on it uses, (n, m); ``condition(other, rng)``, features of another concept given this
    one with the cells they count within, and ``condition_design(design, rng)``;
    ``determines(other)``; ``statistics(X)``, the sums over the rows for linear erasure;
    ``bins(n)``, codes for stratified splits; ``merged(fewest)``; ``as_classes(n)`` and
    ``as_number()``; and ``drawn()``, the classes that a picture shows.
    """

    kind: ClassVar[str]
    has_classes: ClassVar[bool] = False

    def __len__(self) -> int:
        raise NotImplementedError

    def fewest_rows(self) -> tuple[int, str]:
        """Count the rows of the class that has the fewest, and say which it is."""
        return len(self), ""

    def fewest_groups(self, groups: Codes) -> tuple[int, str]:
        """Count the groups of the class that has the fewest, and say of what they are groups."""
        return len(np.unique(groups)), "rows"


class _Single(Concept):
    """A concept that is no table, and so its only column: without missing values."""

    names: ClassVar[tuple[str, ...]] = ()

    @property
    def columns(self) -> Mapping[str, Column]:
        return {"z": Column(self, np.zeros(len(self), dtype=bool))}

    def column(self, name: str) -> Column:
        raise ValueError(
            f"Got the concept {name!r} of rows that have one concept, but expected a table of "
            "concepts as z. Leave the name out."
        )

    def single(self) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class Classes(_Single):
    """Codes 0…K−1 of n rows, and the K sorted classes that they stand for.

    Examples
    --------
    >>> z = Classes.read(["f", "m", "f"])
    >>> z.codes, z.classes, z.counts
    (array([0, 1, 0]), array(['f', 'm'], dtype='<U1'), array([2, 1]))
    """

    codes: Codes  # (n,)
    classes: NDArray[Any]  # (K,)

    kind: ClassVar[str] = "categories"
    has_classes: ClassVar[bool] = True
    #: Fewest groups (of every class) that a test can compare.
    min_groups: ClassVar[int] = 2

    @classmethod
    def read(
        cls,
        z: Any,
        *,
        n_rows: int | None = None,
        name: str = "z",
        min_rows: int = 1,
        min_classes: int = 2,
    ) -> Classes:
        """Encode labels of any type.

        Parameters
        ----------
        z : array-like of shape (n,)
            Strings, integers, booleans, a pandas or polars series (categorical or not), a list.
        n_rows : int, optional
            Expected number of labels, one for each row of ``X``.
        name : str
            Name of the labels in messages.
        min_rows : int
            Fewest rows of a class. Density matching needs pairs, so 2.
        min_classes : int
            Fewest classes; a batch of a stream may have only one.
        """
        codes, classes = classes_of(z, n_rows=n_rows, name=name)
        labels = cls(codes, classes)
        labels.refuse_few_rows(name, min_rows, min_classes)
        return labels

    @property
    def counts(self) -> Codes:
        return np.bincount(self.codes, minlength=len(self.classes))

    @property
    def values(self) -> NDArray[Any]:
        return self.classes[self.codes]

    @property
    def numbers(self) -> Codes:
        return self.codes

    @property
    def strata(self) -> Codes:
        return self.codes

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: Any) -> Classes:
        return replace(self, codes=self.codes[rows])

    def facts(self) -> dict[str, Any]:
        """Return the concept's entries in the metadata of an evaluation."""
        return {"classes": [str(c) for c in self.classes]}

    def read_alike(self, z: Any, *, n_rows: int, name: str = "z") -> Classes:
        """Encode other labels by these classes."""
        codes = encode_as(z, self.classes, name=name)
        check_length(codes, n_rows, name)
        return Classes(codes, self.classes)

    def refuse_missing_class(self, name: str) -> None:
        """Raise an error if a class has no rows."""
        missing = self.classes[self.counts == 0]
        if len(missing):
            raise ValueError(
                f"Got no row of class {shown(missing[0])} in {name}, but expected every class. "
                "Split the rows stratified, as Dataset.from_arrays does."
            )

    def present(self) -> Classes:
        """Drop the classes that have no row."""
        occurring = np.unique(self.codes)
        if len(occurring) < 2:
            raise ValueError(
                f"Got rows of one class ({shown(self.classes[occurring[0]])}), but expected at "
                "least two classes. Split the rows stratified, as Dataset.from_arrays does."
            )
        return Classes(np.searchsorted(occurring, self.codes), self.classes[occurring])

    @property
    def median(self) -> float | None:
        """Return where a number is cut into halves; classes need no cut."""
        return None

    def halves(self, name: str, median: float | None) -> NDArray[Any]:
        """Label the rows by class, for names of cells such as "f / north"."""
        words = [str(c) for c in self.classes]
        # ("x / y", "z") is not ("x", "y / z").
        doubtful = [" / " in word or word.startswith(("'", '"')) for word in words]
        quoted = [repr(w) if odd else w for w, odd in zip(words, doubtful, strict=True)]
        return np.array(quoted)[self.codes]

    def describe(self) -> dict[str, Any]:
        return {
            "concept": self.kind,
            "classes": self.classes.tolist(),
            "class_counts": self.counts.tolist(),
        }

    def summary(self) -> str:
        present = self.classes[self.counts > 0].astype(str)
        return ", ".join(present) if len(present) <= 6 else f"of {len(present):,} classes"

    def fewest_rows(self) -> tuple[int, str]:
        k = int(np.argmin(self.counts))
        return int(self.counts[k]), f"of class {shown(self.classes[k])}"

    def fewest_groups(self, groups: Codes) -> tuple[int, str]:
        K = len(self.classes)
        n_groups = np.bincount(np.unique(groups * K + self.codes) % K, minlength=K)
        k = int(np.argmin(n_groups))
        return int(n_groups[k]), f"rows of class {shown(self.classes[k])}"

    def design(self) -> Array:
        return np.eye(len(self.classes))[self.codes]

    def features(self, random_state: Any = None) -> Array:
        return unit_variance(class_features(self.codes))

    def features_within(self, cells: Codes, random_state: Any = None) -> Array:
        psi = np.zeros((len(self), len(self.classes) - 1))
        for cell in np.unique(cells):  # class shares are those within the cell
            rows = cells == cell
            part = class_features(self.codes[rows])
            psi[rows, : part.shape[1]] = unit_variance(part)
        return psi

    def basis(self, random_state: Any = None) -> Array:
        return centred(self.design())

    def condition(self, concept: Any, random_state: Any = None) -> tuple[Array, Codes]:
        return concept.features_within(self.codes, random_state), self.codes

    def condition_design(self, design: Array, random_state: Any = None) -> Array:
        """Centre the design within every class, and give each class columns of its own."""
        within = centred(design, self.codes)
        blocks = [within * (self.codes == k)[:, None] for k in np.unique(self.codes)]
        return _beyond_rounding(np.hstack(blocks), design)

    def determines(self, other: Any) -> bool:
        columns = centred(other.design())
        return bool(
            np.square(centred(columns, self.codes)).sum() <= 1e-9 * np.square(columns).sum()
        )

    def merged(self, fewest: int) -> Classes:
        """Merge the rarest classes to one of some rows at least, if two classes are left."""
        order = np.argsort(self.counts, kind="stable")
        n = max(int(np.sum(self.counts < fewest)), 2)
        n = max(n, 1 + int(np.argmax(np.cumsum(self.counts[order]) >= fewest)))
        if self.counts.min() >= fewest or n >= len(self.classes):
            return self
        place = np.full(len(self.classes), len(self.classes) - n)
        place[np.sort(order[n:])] = np.arange(len(self.classes) - n)
        names = [*self.classes[np.sort(order[n:])].astype(str), MERGED]
        return Classes(place[self.codes], np.array(names))

    def statistics(self, X: Any, **options: Any) -> ClassStatistics:
        return ClassStatistics.from_rows(X, self.codes, len(self.classes), **options)

    def bins(self, n_bins: int) -> Codes:
        return self.codes

    def as_classes(self, n_classes: int) -> Classes:
        return self

    def drawn(self) -> Classes:
        return self

    def as_number(self) -> Number:
        """Read the labels as numbers."""
        return Number.read(self.values, n_rows=len(self), min_values=1)

    def observed(self, *, min_rows: int = 1) -> Classes:
        """Drop classes without a row; refuse too few rows of a class, and labels that are ids."""
        seen = self if self.counts.all() else Classes.read(self.values, min_classes=1)
        seen.refuse_few_rows("z", min_rows, 2)
        refuse_ids(len(seen), len(seen.classes), "z")
        return seen

    def refuse_few_rows(self, name: str, min_rows: int = 2, min_classes: int = 1) -> None:
        """Raise an error for too few classes, or a class of too few rows to be compared."""
        if len(self.classes) < min_classes:
            raise ValueError(
                f"Got one class in {name} ({shown(self.classes[0])}), but expected at least two: "
                "with one class there is nothing to erase."
            )
        k = int(np.argmin(self.counts))
        if self.counts[k] < min_rows:
            refuse_ids(len(self), len(self.classes), name)  # says more
            raise ValueError(
                f"Got {self.counts[k]} row of class {shown(self.classes[k])} in {name}, but "
                f"expected at least {min_rows} rows of every class. Add rows, merge the class with "
                "another, or give floats if it is a number."
            )


@dataclass(frozen=True, eq=False)
class Number(_Covariates, _Single):
    """A continuous concept: m numbers for each of n rows."""

    coordinates: Array  # (n, m)

    kind: ClassVar[str] = "continuous"
    min_groups: ClassVar[int] = 3

    @classmethod
    def read(
        cls, z: Any, *, n_rows: int | None = None, name: str = "z", min_values: int = 2
    ) -> Number:
        """Check one number, or one vector of numbers, for each row.

        Parameters
        ----------
        z : array-like of shape (n,) or (n, m)
        n_rows : int, optional
            Expected number of rows.
        name : str
            Name of the concept in messages.
        min_values : {1, 2}
            Fewest distinct values: 2, or 1 for a batch of a stream.
        """
        return cls(numbers_of(z, n_rows=n_rows, name=name, min_values=min_values))

    def facts(self) -> dict[str, Any]:
        return {"classes": None, "kinds": {"z": self.kind}}

    def read_alike(self, z: Any, *, n_rows: int, name: str = "z") -> Number:
        """Read other numbers of this kind."""
        return Number.read(z, n_rows=n_rows, name=name)

    def refuse_missing_class(self, name: str) -> None:
        """Raise an error if the number does not vary."""
        if np.all(self.coordinates == self.coordinates[0]):
            raise ValueError(
                f"Got the same number in every row of {name}, but expected one that varies. Give "
                "other rows."
            )

    def present(self) -> Number:
        return self

    @property
    def median(self) -> float | None:
        return float(np.median(self.coordinates[:, 0]))

    def halves(self, name: str, median: float | None) -> NDArray[Any]:
        """Label the rows as below or above the median, for names of cells."""
        low = self.coordinates[:, 0] < np.float64(median or 0.0)
        return np.where(low, f"{name} < {median:g}", f"{name} ≥ {median:g}")

    def refuse_few_rows(self, name: str) -> None:
        """Accept any rows: a number has no classes."""

    @property
    def values(self) -> Array:
        return self.coordinates[:, 0] if self.coordinates.shape[1] == 1 else self.coordinates

    @property
    def numbers(self) -> Array:
        return self.coordinates

    @property
    def strata(self) -> Codes:
        return self.bins(int(np.clip(len(self) // 30, 1, 10)))

    def __len__(self) -> int:
        return len(self.coordinates)

    def take(self, rows: Any) -> Number:
        return replace(self, coordinates=self.coordinates[rows])

    def describe(self) -> dict[str, Any]:
        return {"concept": self.kind, "classes": None, "class_counts": None}

    def summary(self) -> str:
        return f"of numbers from {self.coordinates.min():g} to {self.coordinates.max():g}"

    def design(self) -> Array:
        spread = self.coordinates.std(axis=0)
        return np.asarray(self.coordinates / np.where(spread > 0, spread, 1.0))

    def features(self, random_state: Any = None) -> Array:
        return unit_variance(number_features(self.coordinates, random_state))

    def features_within(self, cells: Codes, random_state: Any = None) -> Array:
        return unit_variance(self.features(random_state), cells)

    def basis(self, random_state: Any = None) -> Array:
        return number_features(self.coordinates, random_state)

    def determines(self, other: Any) -> bool:
        """Tell whether the number explains another concept but for a thousandth of its variance."""
        if self.coordinates.shape[1] > 1:
            return False  # vectors have no order
        columns = centred(other.design())
        # How far each row is from the line between its neighbours (Gasser et al. 1986).
        order = np.argsort(self.coordinates[:, 0])
        y, z = self.coordinates[order], columns[order]
        wide = y[2:] - y[:-2]
        share = np.divide(y[2:] - y[1:-1], wide, out=np.full_like(wide, 0.5), where=wide > 0)
        apart = z[1:-1] - share * z[:-2] - (1 - share) * z[2:]
        return bool(np.square(apart).sum() <= 1.5 * LOST * np.square(columns).sum())

    def statistics(self, X: Any, **options: Any) -> CrossStatistics:
        return CrossStatistics.from_rows(X, self.coordinates)

    def as_number(self) -> Number:
        return self

    def merged(self, fewest: int) -> Number:
        return self

    def bins(self, n_bins: int) -> Codes:
        return _quantile_bins(self.coordinates, n_bins)

    def as_classes(self, n_classes: int) -> Classes:
        values = self.coordinates
        if values.shape[1] > 1:
            raise ValueError(
                f"Got {values.shape[1]} numbers for each row, but expected one: a vector cannot be "
                "cut into ordered classes. Use LEOPARD or LEACE, which take vectors."
            )
        inner = np.arange(1, n_classes) / n_classes
        # Rows at the maximum are a class if they are many, as those at the minimum are.
        cuts = np.minimum(np.quantile(values, inner), values[values < values.max()].max())
        classes, codes = np.unique(np.searchsorted(cuts, values[:, 0]), return_inverse=True)
        return Classes(codes, classes)

    def drawn(self) -> Classes:
        low, high = np.quantile(self.coordinates[:, 0], [1 / 3, 2 / 3])
        names = np.array([f"below {low:.3g}", f"{low:.3g} to {high:.3g}", f"from {high:.3g}"])
        return Classes(np.searchsorted([low, high], self.coordinates[:, 0], side="right"), names)


@dataclass(frozen=True, eq=False)
class Table(_Covariates, Concept):
    """Several concepts of the same n rows, by name and in order; values may be missing.

    A name gives the ``Classes`` or the ``Number`` of the rows that have a value, which are all but
    ``missing(name)``.

    Examples
    --------
    >>> Z = Table.read({"gender": ["f", "m", None], "age": [31.5, 28.0, 40.25]})
    >>> len(Z), Z.names, Z.kinds
    (3, ('gender', 'age'), {'gender': 'categories', 'age': 'continuous'})
    >>> Z["gender"].values.tolist(), Z.missing("gender").tolist()
    (['f', 'm'], [False, False, True])
    >>> Z.take([0, 1])["age"].values
    array([31.5, 28. ])
    """

    columns: Mapping[str, Column]

    kind: ClassVar[str] = "several"

    @classmethod
    def read(
        cls,
        Z: Any,
        *,
        n_rows: int | None = None,
        kinds: Mapping[str, str] | None = None,
        min_rows: int = 1,
    ) -> Table:
        """Read a table of concepts.

        Parameters
        ----------
        Z : data frame, mapping of columns, structured array or array of shape (n, c)
            Columns of an array without names are called "0", "1", … A column of a mapping may hold
            a vector of numbers for each row. None and NaN are missing values.
        n_rows : int, optional
            Expected number of rows.
        kinds : mapping of str to str, optional
            Kinds of some columns: "categories" or "continuous". By default text, booleans and
            integers of at most 20 distinct values are categories, and fractional numbers are
            continuous.
        min_rows : int
            Fewest rows of a class.
        """
        if isinstance(Z, Table):
            return Z
        columns, kinds = _columns_of(Z), dict(kinds or {})
        for name in kinds:
            if name not in columns:
                raise ValueError(
                    f"Got the kind of {name!r}, but expected one of the table's columns: "
                    f"{', '.join(columns)}.{did_you_mean(name, columns)}"
                )
        length = len(next(iter(columns.values()))) if n_rows is None else n_rows
        return cls(
            {
                name: _read_column(column, name, length, kinds.get(name), min_rows)
                for name, column in columns.items()
            }
        )

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).missing)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, key: Any) -> Any:
        return self.column(key).target if isinstance(key, str) else self.take(key)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """Return the kind of every column, by name."""
        return {name: column.target.kind for name, column in self.columns.items()}

    def facts(self) -> dict[str, Any]:
        return {"classes": None, "kinds": self.kinds}

    @property
    def values(self) -> Table:
        return self

    @property
    def numbers(self) -> Array:
        parts = []
        for target, missing in self.columns.values():
            values = target.numbers.reshape(len(target), -1)
            part = np.full((len(missing), values.shape[1]), np.nan)
            part[~missing] = values
            parts.append(part)
        return np.hstack(parts)

    @property
    def strata(self) -> Codes:
        """Combinations of all columns; those of fewer than ten rows are one cell."""
        cells = self._cells(min(int(np.clip(len(self) // 30, 1, 10)), 3))
        rare = np.bincount(cells)[cells] < 10
        return np.unique(np.where(rare, -1, cells), return_inverse=True)[1].astype(np.int64)

    def _cells(self, n_bins: int) -> Codes:
        """Number the combinations of labels and bins; a gap is a value of its own."""
        cells = np.zeros(len(self), dtype=np.int64)
        for target, missing in self.columns.values():
            codes = np.zeros(len(missing), dtype=np.int64)
            codes[~missing] = target.bins(n_bins) + 1
            cells = np.unique(cells * (codes.max() + 1) + codes, return_inverse=True)[1]
        return cells

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Return which rows have no value of a column, (n,)."""
        return self.column(name).missing

    def take(self, rows: Any) -> Table:
        return Table({name: column.take(rows) for name, column in self.columns.items()})

    def design(self) -> Array:
        return np.hstack(self._beside(lambda column: column.design()))

    def features(self, random_state: Any = None) -> Array:
        rng = generator(random_state)
        return unit_variance(np.hstack(self._beside(lambda column: column.features(rng))))

    def basis(self, random_state: Any = None) -> Array:
        """Return those of the columns, and their products in pairs where rows suffice."""
        rng = generator(random_state)
        parts = self._beside(lambda column: column.basis(rng))
        pairs = [products([A, B], rng) for A, B in combinations(parts, 2)]
        alone, both = np.hstack(parts), np.hstack([*parts, *pairs])
        return both if both.shape[1] * ROWS_PER_TERM <= len(self) else alone

    def _beside(self, columns_of: Callable[[Any], Array]) -> list[Array]:
        """Compute columns of each concept; a gap is the mean, and has a column that says so."""
        parts = []
        for target, missing in self.columns.values():
            columns = centred(columns_of(target))
            full = np.zeros((len(missing), columns.shape[1] + int(missing.any())))
            full[missing, -1] = 1.0
            full[~missing, : columns.shape[1]] = columns
            parts.append(centred(full))
        return parts

    def determines(self, other: Any) -> bool:
        """Tell whether a column, or all labels together, determine another concept."""
        pairs = ((c.target, other.take(~c.missing)) for c in self.columns.values())
        cells = self._cells(1)
        shared = np.bincount(cells)[cells] > 1  # a row alone in its cell says nothing
        together = Classes(cells[shared], np.arange(cells.max() + 1))
        return any(column.determines(of_rows) for column, of_rows in pairs) or (
            2 * shared.sum() > len(cells) and together.determines(other.take(shared))
        )

    def single(self) -> Any:
        raise ValueError(
            f"Got a table of concepts ({', '.join(self.columns)}), but expected one of them here. "
            "Choose it: data.of(name)."
        )

    def describe(self) -> dict[str, Any]:
        listed = []
        for name, (target, missing) in self.columns.items():
            facts = {key: value for key, value in target.describe().items() if value is not None}
            facts = {"name": name, "kind": facts.pop("concept"), **facts}
            listed.append({**facts, "missing": int(missing.sum())} if missing.any() else facts)
        return {"concept": self.kind, "concepts": listed, "classes": None, "class_counts": None}

    def summary(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self.kinds.items())

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise ValueError(
                f"Got the concept {name!r}, but expected one of: {', '.join(self.columns)}."
                f"{did_you_mean(name, self.columns)}"
            )
        return self.columns[name]


# -- Reading ---------------------------------------------------------------------------------------


def read(
    z: Any,
    *,
    n_rows: int,
    kind: str | Mapping[str, str] | None = None,
    name: str = "z",
    min_rows: int = 1,
    min_values: int = 2,
) -> Any:
    """Read a concept in any form: ``Classes``, ``Number`` or ``Table``.

    Parameters
    ----------
    z : array-like, table or Concept
        Fractional numbers are a continuous concept, all other values are labels. A data frame, a
        dict of columns or an array of several columns is a table.
    n_rows : int
        Expected number of rows.
    kind : {"categories", "continuous"} or mapping of column names to these, optional
        Kind of z, where its values do not show it. A matrix is a vector of numbers for each row if
        it is "continuous".
    name : str
        Name of the concept in messages.
    min_rows, min_values : int
        Fewest rows of a class, and fewest distinct values.

    Examples
    --------
    >>> read([0.5, 1.25], n_rows=2).kind, read([1, 2], n_rows=2).kind
    ('continuous', 'categories')
    >>> read([31, 28], n_rows=2, kind="continuous").values
    array([31., 28.])
    """
    if isinstance(z, (Classes, Number, Table)):
        check_length(z, n_rows, name)
        return z
    if isinstance(kind, Mapping):
        return Table.read(z, n_rows=n_rows, kinds=kind, min_rows=min_rows)
    if kind is not None:
        check_choice("kind", kind, KINDS)
    if is_table(z) and (kind != "continuous" or isinstance(z, Mapping)):
        if kind is not None:
            raise ValueError(
                f"Got kind={kind!r} for a table of concepts, but expected the kinds by name, such "
                "as {'age': 'continuous'}."
            )
        return Table.read(z, n_rows=n_rows, min_rows=min_rows)
    if kind == "continuous" or (kind is None and z is not None and is_continuous(z)):
        return Number.read(z, n_rows=n_rows, name=name, min_values=min_values)
    return Classes.read(z, n_rows=n_rows, name=name, min_rows=min_rows, min_classes=min_values)


def refuse_doubtful(values: Any, name: str) -> None:
    """Raise an error for whole numbers of many values: only the user knows what they are."""
    plain = uncast(values)
    if plain.ndim == 1:
        plain = plain[~missing_values(plain)]
        _kind_of(plain_objects(plain, name) if plain.dtype.kind == "O" else plain, values, name)


def warn_about_labels(concept: Any, name: str = "z") -> None:
    """Warn of classes whose names or numbers of rows look like mistakes."""
    for key, (target, _) in concept.columns.items():
        if isinstance(target, Classes):
            where = key if concept.names else name
            for sentence in label_warnings(target.classes, target.counts, where):
                warn(sentence)


def read_covariate(values: Any, name: str, n_rows: int, *, fewest: int = 0) -> Any:
    """Read what is given or kept: one column of labels or numbers, or a table of them.

    Fractional numbers, and whole numbers of more than 20 values, are numbers; all else are labels.
    Classes of fewer rows than ``fewest`` are merged.
    """
    if isinstance(values, Table):
        check_length(values, n_rows, name)
        columns: Mapping[str, Any] = values.columns
    else:
        columns = _columns_of(values) if is_table(values) else {"": values}
    called = {key: f"{name}[{key!r}]" if key else name for key in columns}
    table = Table({k: _covariate(v, called[k], n_rows, fewest) for k, v in columns.items()})
    (column, *others) = table.columns.values()
    return table if others or column.missing.any() else column.target


def _covariate(values: Any, name: str, n_rows: int, fewest: int) -> Column:
    target, missing = _read_column(values, name, n_rows, None, 1, is_covariate=True)
    if missing.any() and not isinstance(values, Column):  # a Column has warned already
        warn(
            f"Got no value of {name} in {missing.sum():,} of {n_rows:,} rows: these count as rows "
            "of the mean, and as a class of their own. Fill the gaps if you know better."
        )
    if np.all(target.numbers == target.numbers[0]):
        raise ValueError(
            f"Got {name} with the same value in every row, but expected at least two values. Leave "
            f"{name} out."
        )
    merged = target.merged(fewest)
    if isinstance(target, Classes) and target.counts.min() < fewest:
        so = "too few to learn what it explains"
        if merged is not target:
            rarest = len(target.classes) - len(merged.classes) + 1
            so = f"the {rarest} rarest count as one class"
        warn(f"Got {name} with a class of fewer than {fewest} rows: {so}.")
    return Column(merged, missing)


def is_table(z: Any) -> bool:
    """Tell whether z is a table of concepts rather than one label or number for each row.

    Examples
    --------
    >>> is_table({"a": [0, 1]}), is_table([[0, 1], [1, 1]]), is_table(["f", "m"])
    (True, True, False)
    """
    if isinstance(z, (Table, Mapping)):
        return True
    if hasattr(z, "columns"):  # a frame of pandas or polars; one column is the column itself
        return len(_names(z)) != 1
    if getattr(getattr(z, "dtype", None), "names", None):
        return True
    if isinstance(z, Sequence) and not isinstance(z, str):
        return bool(z) and all(isinstance(row, (list, tuple, np.ndarray)) for row in z[:2])
    shape: tuple[int, ...] = getattr(z, "shape", ())
    return len(shape) == 2 and shape[1] != 1


def joined(parts: Sequence[Any]) -> Any:
    """Concatenate concepts of one kind; classes are those of all parts.

    Labels of different types stay apart: the label "1" is not 1.

    Examples
    --------
    >>> joined([Classes.read(["a", "b"]), Classes.read(["b", "c"])]).codes
    array([0, 1, 1, 2])
    """
    first = parts[0]
    if isinstance(first, Table):
        together = {}
        for name in first:
            missing = np.concatenate([table.missing(name) for table in parts])
            together[name] = Column(joined([table[name] for table in parts]), missing)
        return Table(together)
    if isinstance(first, Number):
        return Number(np.concatenate([part.coordinates for part in parts]))
    if all(np.array_equal(part.classes, first.classes) for part in parts[1:]):
        return Classes(np.concatenate([part.codes for part in parts]), first.classes)
    values = np.concatenate([part.values.astype(object) for part in parts])
    return Classes.read(values, min_classes=1)


def aligned(parts: Sequence[Any]) -> list[Any]:
    """Encode the same concept of several splits alike: by the same classes, or all as numbers.

    Numbers of one split may all be whole: they are numbers if those of another split are not.
    """
    if len({part.kind for part in parts}) > 1:
        parts = [part.as_number() for part in parts]
    first = parts[0]
    if not first.has_classes or all(np.array_equal(p.classes, first.classes) for p in parts):
        return list(parts)
    whole, ends = joined(parts), np.cumsum([0, *map(len, parts)])
    return [whole.take(slice(*ends[i : i + 2])) for i in range(len(parts))]


def _beyond_rounding(columns: Array, design: Array) -> Array:
    """Drop columns of rounding errors, which a unit of their own would make as large as others.

    They are left where a class of what is given has one class of the concept.
    """
    real = np.abs(columns).max(axis=0) > 1e-9 * np.abs(design).max()
    return columns[:, real] if real.any() else 0 * columns[:, :1]


def _names(Z: Any) -> list[Any]:
    return list(getattr(Z, "column_names", Z.columns))  # a table of Arrow, or a frame


def _columns_of(Z: Any) -> dict[str, Any]:
    """Return the columns of any table, by their names as text."""
    if isinstance(Z, Mapping):
        listed = [(name, Z[name]) for name in Z]
    elif hasattr(Z, "columns"):
        names = _names(Z)
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"Got two columns called {twice[0]!r}, but expected names that differ: rename one."
            )
        listed = [(name, Z[name]) for name in names]
    elif getattr(getattr(Z, "dtype", None), "names", None):
        listed = [(name, Z[name]) for name in Z.dtype.names]
    else:
        refuse_masked_or_sparse(Z, "the table of concepts")
        values = uncast(Z)
        if values.ndim != 2:
            raise ValueError(
                f"Got concepts of shape {values.shape}, but expected a table: a data frame, a dict "
                "of columns, or an array with one column for each concept."
            )
        listed = [(i, values[:, i]) for i in range(values.shape[1])]
    columns = {str(name): column for name, column in listed}
    if not columns:
        raise ValueError(
            "Got a table without columns, but expected at least one concept. Pass one column for "
            "each concept, or the labels themselves."
        )
    return columns


def _read_column(
    column: Any, name: str, n_rows: int, kind: str | None, min_rows: int, is_covariate: bool = False
) -> Column:
    if isinstance(column, Column):
        return column
    if isinstance(column, (Classes, Number)):
        check_length(column, n_rows, name)
        return Column(column, np.zeros(n_rows, dtype=bool))
    refuse_masked_or_sparse(column, name)
    if kind is not None:
        check_choice(f"the kind of {name}", kind, KINDS)
    values = uncast(column)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    check_length(values, n_rows, name)
    missing = np.isnan(values).any(axis=1) if values.ndim == 2 else missing_values(values)
    present = values[~missing]
    if not len(present):
        raise ValueError(
            f"Got no value of {name} in any of {n_rows} rows, but expected two values at least. "
            "Leave the column out."
        )
    if present.dtype.kind == "O":
        present = plain_objects(present, name)
    least = 1 if is_covariate else 2
    if (kind or _kind_of(present, column, name, is_covariate)) == "continuous":
        return Column(Number.read(present, name=name, min_values=least), missing)
    return Column(Classes.read(present, name=name, min_rows=min_rows, min_classes=least), missing)


def _kind_of(values: NDArray[Any], column: Any, name: str, is_covariate: bool = False) -> str:
    """Infer the kind of a column from its values, or ask for it."""
    if values.ndim == 2 or is_continuous(values):
        return "continuous"
    if values.dtype.kind in "mM":
        raise ValueError(
            f"Got dates or times in {name}, but expected labels or numbers. Convert them to what "
            "is to be erased, such as the year as a number or the day of the week."
        )
    whole = values.dtype.kind in "iuf" and str(getattr(column, "dtype", "")) != "category"
    n_values = len(np.unique(values)) if whole else 0
    if n_values > FEW_VALUES and is_covariate:
        return "continuous"
    if n_values > FEW_VALUES:
        raise ValueError(
            f"Got whole numbers of {n_values} different values in {name}, which may be a number or "
            "labels, but expected to know which. In Python, pass unspot.data.Table.read(z, "
            f"kinds={{{name!r}: 'continuous'}}), or 'categories'; else --kind {name}=continuous."
        )
    return "categories"


def _quantile_bins(values: Array, n_bins: int) -> Codes:
    """Return quantile bins of a number, for stratified splits.

    Vectors are ordered along their first principal component.

    Examples
    --------
    >>> _quantile_bins(np.array([[0.1], [7.0], [0.3], [3.5]]), 2)
    array([0, 1, 0, 1])
    """
    unit = values.std(axis=0)
    centred_values = (values - values.mean(axis=0)) / np.where(unit > 0, unit, 1.0)
    along = centred_values @ np.linalg.svd(centred_values, full_matrices=False)[2][0]
    edges = np.quantile(along, np.arange(1, n_bins) / n_bins)
    bins = np.searchsorted(edges, along, side="right")
    return np.unique(bins, return_inverse=True)[1].astype(np.int64)
