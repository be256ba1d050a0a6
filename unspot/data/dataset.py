"""Data sets of three disjoint splits: fit on one, choose on the second, report on the third."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.concepts import Column, Concepts, Target, is_table, read_concepts, read_target
from unspot.data.groups import first_rows, group_codes, grouped_parts, looks_grouped
from unspot.data.labels import Labels, Measurements, as_array, check_length, encode, is_continuous
from unspot.data.rows import fingerprint, in_memory, refuse_masked, row_hashes

__all__ = ["Dataset", "Lexicon", "Split"]

SPLITS = ("train", "validation", "test")

#: The share of a split's rows that an eraser may have been fitted on: some rows just occur twice.
MAX_SEEN = 0.1

#: The share of rows to judge on that may be among those to learn from: single rows occur twice.
MAX_SHARED = 0.5


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a data set: embeddings, concept, and optionally task, names and groups."""

    X: NDArray[Any]  # (n, d)
    z: Any  # (n,), the concept: an array of labels or of numbers; or a table of ``Concepts``
    y: NDArray[Any] | None = None  # (n,), the downstream task
    names: NDArray[Any] | None = None  # (n,), for example words or ids
    groups: NDArray[Any] | None = None  # (n,), what rows come in: the author of each text
    kind: str | None = None  # of the concept, where its values do not show it: see ``read_target``
    table: Concepts | None = None  # that z is a column of: what an eraser is fitted on
    predictions: NDArray[Any] | None = None  # (n,), of y by a classifier of somebody's own

    def __post_init__(self) -> None:
        for what in _COLUMNS[1:]:
            value = getattr(self, what)
            if value is not None:
                check_length(value, len(self.X), what)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"<Split: {len(self):,} rows of {self.contents()}>"

    def contents(self) -> str:
        """The number of features and the classes, in words."""
        parts = [f"{self.X.shape[-1]} features"]
        for what, labels in (("concept", self.z), ("task", self.y)):
            if isinstance(labels, Concepts):
                shown = (f"{name} ({kind})" for name, kind in labels.kinds.items())
                parts.append(f"concepts {', '.join(shown)}")
            elif what == "concept" and is_number(labels, self.kind):
                low, high = np.min(self.z), np.max(self.z)
                parts.append(f"concept of numbers from {low:g} to {high:g}")
            elif labels is not None:
                classes = sorted(set(map(str, np.asarray(labels).tolist())))
                many = f"of {len(classes):,} classes"
                parts.append(f"{what} {', '.join(classes) if len(classes) <= 6 else many}")
        return "; ".join(parts)

    @property
    def target(self) -> Target:
        """The concept, encoded: ``Labels``, or ``Measurements`` of numbers."""
        if isinstance(self.z, Concepts):
            raise ValueError(
                f"Got a table of concepts ({', '.join(self.z)}), but expected one of them here. "
                "Choose it: data.of(name)."
            )
        return one_concept(self.z, self.kind, len(self))

    @property
    def group_codes(self) -> NDArray[np.int64] | None:
        """The groups as numbers, if there are any."""
        return None if self.groups is None else group_codes(self.groups, len(self))

    def take(self, rows: NDArray[Any]) -> Split:
        """Some of the rows, by number or by mask."""
        columns = ((name, getattr(self, name)) for name in _COLUMNS)
        return replace(self, **{name: old[rows] for name, old in columns if old is not None})

    def halves(self, random_state: int) -> tuple[Split, Split]:
        """Two halves at random, stratified by class; rows of one group stay together."""
        codes = strata(self.z if isinstance(self.z, Concepts) else self.target)
        rng = np.random.default_rng(random_state)
        first, second = stratified_parts(codes, (0.5, 0.5), rng, self.groups)
        return self.take(first), self.take(second)

    def joined(self, other: Split) -> Split:
        """These rows and then others, with the columns that both have."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in _COLUMNS)
        columns = {
            name: joined_columns([mine, theirs])
            for name, mine, theirs in pairs
            if mine is not None and theirs is not None
        }
        return Split(**columns, kind=self.kind)

    def of(self, name: str) -> Split:
        """The rows that have a value of one concept of a table, with that concept alone."""
        if not isinstance(self.z, Concepts):
            raise ValueError(
                f"Got the concept {name!r} of rows that have one concept, but expected a table of "
                "concepts as z. Leave the name out."
            )
        rows = self.take(~self.z.missing(name))
        z, kind = as_column(rows.z[name])
        return replace(rows, z=z, kind=kind, table=rows.z)


#: Fields of a split with a value for each row, but for those that are None.
_COLUMNS = ("X", "z", "y", "names", "groups", "table", "predictions")


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words and their vectors, for word similarity. They are not rows of a split."""

    words: NDArray[Any]  # (m,)
    X: NDArray[Any]  # (m, d)

    def __repr__(self) -> str:
        return f"<Lexicon: {len(self.words):,} words of {self.X.shape[-1]} features>"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train, validation and test rows that do not overlap.

    Erasers are fitted on ``train``, ranks and settings are chosen on ``validation``, and reported
    numbers are measured on ``test``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> data = Dataset.from_arrays(X, np.arange(100) % 2, random_state=0)
    >>> [len(split) for split in data]
    [50, 20, 30]
    >>> data
    <Dataset 'data': 50 train, 20 validation, 30 test rows of 4 features; concept 0, 1>
    """

    train: Split
    validation: Split
    test: Split
    name: str = "data"
    lexicon: Lexicon | None = None
    concept: str = ""  # what the labels z are called, such as "gender"

    def __iter__(self) -> Iterator[Split]:
        return iter((self.train, self.validation, self.test))

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(s):,} {name}" for name, s in zip(SPLITS, self, strict=True))
        words = "" if self.lexicon is None else f"; lexicon of {len(self.lexicon.words):,} words"
        return f"<Dataset {self.name!r}: {counts} rows of {self.train.contents()}{words}>"

    @property
    def grouped(self) -> bool:
        """Whether it is known what rows come in."""
        return any(split.groups is not None for split in self)

    @property
    def n_features(self) -> int:
        return int(self.train.X.shape[1])

    @property
    def concepts(self) -> tuple[str, ...]:
        """The names of several concepts; empty if there is one, which needs no name."""
        return self.train.z.names if isinstance(self.train.z, Concepts) else ()

    def of(self, name: str) -> Dataset:
        """The rows that have a value of one concept of a table, with that concept alone."""
        return replace(self.mapped(lambda split: split.of(name)), concept=name)

    def mapped(self, change: Callable[[Split], Split]) -> Dataset:
        """The data with every split changed; splits that are the same rows stay so."""
        changed = {id(split): change(split) for split in self}
        splits = {name: changed[id(split)] for name, split in zip(SPLITS, self, strict=True)}
        return replace(self, **splits)  # type: ignore[arg-type]

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        z: Any,
        y: Any = None,
        *,
        kind: str | Mapping[str, str] | None = None,
        names: Any = None,
        groups: Any = None,
        sizes: tuple[float, float, float] = (0.5, 0.2, 0.3),
        random_state: Any = None,
        name: str = "data",
        concept: str = "",
    ) -> Dataset:
        """Split arrays at random, stratified by the concept, and by the task if rows suffice.

        Parameters
        ----------
        X, z, y : array-like
            Embeddings (n, d), concept (n,) and optionally task labels (n,). Fractional numbers are
            a number as concept, anything else is labels. A table (a data frame, a dict of columns)
            is several concepts.
        kind : str, or mapping of names to str, optional
            What the concept is, where its values do not show it: "categories" or "continuous".
            Of a table, by the names of its columns.
        names : array-like, optional
            A name for each row.
        groups : array-like, optional
            What rows come in, such as the author of each text or the patient of each scan. Rows of
            a group stay together: all of them are in one split. Groups are to be independent of
            each other.
        sizes : three fractions that add to one
            Shares of train, validation and test.
        random_state : int, Generator or None
            Decides the split.
        name : str
            The name of the data set.
        concept : str
            What ``z`` is called, such as "gender": certificates and reports say it.
        """
        refuse_masked(X, "X")
        X = np.asarray(in_memory(X))
        if X.ndim != 2:
            raise ValueError(f"Got X of shape {X.shape}, but expected (rows, features).")
        if len(sizes) != 3 or min(sizes) <= 0 or abs(sum(sizes) - 1) > 1e-9:
            raise ValueError(f"Got sizes={sizes}, but expected three fractions that add to one.")
        labels, own_kind = _read_z(z, kind, len(X))
        cells = strata(labels)
        stored = labels if isinstance(labels, Concepts) else as_column(labels)[0]
        whole = Split(X, stored, names=None if names is None else as_array(names), kind=own_kind)
        if groups is not None:
            _refuse_few_groups(labels, group_codes(groups, len(X)))
            whole = replace(whole, groups=as_array(groups))
        if y is not None:
            _refuse_number_as_task(y)
            task = encode(y, n_rows=len(X), name="y")
            whole = replace(whole, y=task.values)
            pairs = cells * len(task.classes) + task.codes
            joint = np.unique(pairs, return_inverse=True)[1]
            if groups is None and np.bincount(joint).min() >= 3:
                cells = joint
        parts = stratified_parts(cells, sizes, np.random.default_rng(random_state), whole.groups)
        train, validation, test = (whole.take(rows) for rows in parts)
        return cls(train, validation, test, name=name, concept=concept)


def _refuse_number_as_task(y: Any) -> None:
    if is_continuous(y):
        raise ValueError(
            "Got fractional numbers as the task y, but expected categories: accuracies, gaps and "
            "what attackers know beside the rows are of classes. Cut y into bins, such as its "
            "quarters; the erasers' own given= and keep= take numbers."
        )


def refuse_continuous(z: Any) -> None:
    """Raise an error if a concept that must be categories has fractional numbers."""
    if z is not None and is_continuous(z):
        raise ValueError(
            "Got fractional numbers as the concept z, but expected categories: evaluate, certify "
            "and path take numbers as they are, this does not. Cut the values into bins, whatever "
            "the eraser was fitted on: numpy.digitize(z, numpy.quantile(z, [0.25, 0.5, 0.75]))."
        )


def refuse_other_than_classes(split: Split, who: str) -> None:
    """Raise an error if the concept of rows is a number or a table of several."""
    if isinstance(split.z, Concepts) or is_number(split.z, split.kind):
        what = "several concepts" if isinstance(split.z, Concepts) else "a number as concept"
        raise ValueError(
            f"Got {what}, but {who} expects one concept of classes. Choose one with data.of(name), "
            "and cut a number into bins."
        )


# -- What the concept is ---------------------------------------------------------------------------


def is_number(z: Any, kind: str | None = None) -> bool:
    """Whether a concept is numbers rather than labels: by its kind, or else by its values."""
    if kind is not None:
        return kind == "continuous"
    return z is not None and is_continuous(z)


def one_concept(
    z: Any, kind: str | None, n_rows: int, *, name: str = "z", min_rows: int = 1
) -> Target:
    """One concept, encoded; without a kind, fractional numbers are numbers and all else labels."""
    kind = "continuous" if kind is None and is_number(z) else kind
    if kind in (None, "categories"):
        return encode(z, n_rows=n_rows, name=name, min_rows=min_rows)
    return read_target(z, n_rows=n_rows, kind=kind, name=name, min_rows=min_rows)


def as_column(target: Target) -> tuple[Any, str]:
    """One concept as a split holds it, and its kind: ``Split.target`` reads the same again."""
    if isinstance(target, Measurements):
        values = target.values
        return values[:, 0] if values.shape[1] == 1 else values, target.kind
    return target.values, target.kind


def _read_z(z: Any, kind: Any, n_rows: int) -> tuple[Target | Concepts, str | None]:
    """The concept or the table of a new data set, and the kind of one concept."""
    if is_table(z) or isinstance(kind, Mapping):
        if kind is not None and not isinstance(kind, Mapping):
            raise ValueError(
                f"Got kind={kind!r} for a table of concepts, but expected the kinds by name, such "
                "as {'age': 'continuous'}."
            )
        return read_concepts(z, n_rows=n_rows, kinds=kind, min_rows=3), None
    return one_concept(z, kind, n_rows, min_rows=3), kind


def strata(concept: Target | Concepts) -> NDArray[np.int64]:
    """What rows are stratified by: classes, bins of a number, or both of several concepts."""
    if isinstance(concept, Labels):
        return concept.codes
    n_bins = int(np.clip(len(concept) // 30, 1, 10))
    if isinstance(concept, Measurements):
        return number_bins(concept.values, n_bins)
    cells = np.zeros(len(concept), dtype=np.int64)
    for target, missing in concept.columns.values():
        codes = np.zeros(len(missing), dtype=np.int64)
        if isinstance(target, Labels):
            codes[~missing] = target.codes + 1
        else:
            codes[~missing] = number_bins(target.values, min(n_bins, 3)) + 1
        cells = np.unique(cells * (codes.max() + 1) + codes, return_inverse=True)[1]
    rare = np.bincount(cells)[cells] < 10
    return np.unique(np.where(rare, -1, cells), return_inverse=True)[1].astype(np.int64)


def hashed(concept: Target | Concepts) -> NDArray[Any]:
    """The numbers by which the fingerprint of rows knows their concept."""
    if isinstance(concept, Concepts):
        return concept.numbers
    return concept.codes if isinstance(concept, Labels) else concept.values


def joined_columns(columns: Sequence[Any]) -> Any:
    """The same column of several splits, one after the other; so of tables of concepts."""
    if not isinstance(columns[0], Concepts):
        arrays = [np.asarray(column) for column in columns]
        # Text stays apart from numbers: the label "1" is not 1.
        if len({array.dtype.kind in "US" for array in arrays}) > 1:
            arrays[0] = arrays[0].astype(object)
        return np.concatenate(arrays)
    together = {}
    for name in columns[0]:
        targets = [table[name] for table in columns]
        missing = np.concatenate([table.missing(name) for table in columns])
        together[name] = Column(_joined_targets(targets), missing)
    return Concepts(together)


def _joined_targets(targets: Sequence[Any]) -> Target:
    first = targets[0]
    values = np.concatenate([target.values for target in targets])
    if isinstance(first, Measurements):
        return replace(first, values=values)
    return encode(values, min_classes=1)


def number_bins(values: NDArray[Any], n_bins: int = 10) -> NDArray[np.int64]:
    """Bins of about as many rows each, by the size of a number: what rows are stratified by.

    Of several numbers (n, m), by where each row lies along the direction that varies most.

    Examples
    --------
    >>> number_bins(np.array([0.1, 7.0, 0.3, 3.5]), 2)
    array([0, 1, 0, 1])
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 2:
        unit = values.std(axis=0)
        centred = (values - values.mean(axis=0)) / np.where(unit > 0, unit, 1.0)
        values = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    edges = np.quantile(values, np.arange(1, n_bins) / n_bins)
    bins = np.searchsorted(edges, values, side="right")
    return np.unique(bins, return_inverse=True)[1].astype(np.int64)


def _refuse_few_groups(concept: Target | Concepts, groups: NDArray[np.int64]) -> None:
    """Raise an error unless every class has a group for each of three splits."""
    if not isinstance(concept, Labels):
        n_all = len(np.unique(groups))
        if n_all < 3:
            raise ValueError(
                f"Got {n_all} groups, but expected at least 3, one for each split: a group is not "
                "divided. Add groups, or leave them out if rows are independent of each other."
            )
        return
    K = len(concept.classes)
    cells = np.unique(groups * K + concept.codes)
    n_groups = np.bincount(cells % K, minlength=K)
    fewest = int(np.argmin(n_groups))
    if n_groups[fewest] < 3:
        many = "group" if n_groups[fewest] == 1 else "groups"
        raise ValueError(
            f"Got {n_groups[fewest]} {many} with rows of class {concept.classes[fewest]!s}, but "
            "expected at least 3, one for each split: a group is not divided. Add groups, merge "
            "the class with another, or leave the groups out if rows are independent of each other."
        )


def stratified_parts(
    cells: NDArray[Any],
    sizes: tuple[float, ...],
    rng: np.random.Generator,
    groups: Any = None,
) -> list[NDArray[np.int64]]:
    """Sorted row numbers of disjoint parts, each with the given share of every cell.

    Of rows in groups the parts are whole groups, and their shares as near as these allow.
    """
    if groups is not None:
        return grouped_parts(cells, groups, sizes, rng)
    ends = np.cumsum(sizes)
    parts: list[list[NDArray[np.int64]]] = [[] for _ in sizes]
    for cell in np.unique(cells):
        rows = rng.permutation(np.flatnonzero(cells == cell))
        cuts = np.round(ends * len(rows)).astype(int)
        # Every part gets a row of every cell that has enough rows.
        if len(rows) >= len(sizes):
            cuts = np.maximum.accumulate(np.maximum(cuts, np.arange(1, len(sizes) + 1)))
            cuts = np.minimum(cuts, len(rows) - np.arange(len(sizes) - 1, -1, -1))
        cuts[-1] = len(rows)
        for part, start, end in zip(parts, [0, *cuts[:-1]], cuts, strict=True):
            part.append(rows[start:end])
    return [np.sort(np.concatenate(part)) for part in parts]


# -- Rows in groups --------------------------------------------------------------------------------


def refuse_shared_groups(**splits: Split) -> None:
    """Raise an error if rows of one group are in two splits."""
    known: dict[Any, str] = {}
    for name, split in splits.items():
        if split.groups is None:
            continue
        for group in set(np.asarray(split.groups).tolist()):
            if known.setdefault(group, name) != name:
                raise ValueError(
                    f"Got rows of the group {group!s} in the {known[group]} split and in the "
                    f"{name} split, but expected each group in one of them: what is learned of a "
                    "group by heart is no evidence. Split whole groups, as "
                    "Dataset.from_arrays(X, z, groups=groups) does."
                )


def warn_if_grouped(*splits: tuple[Split, NDArray[np.int64]]) -> None:
    """Warn where rows of splits without groups, with their labels as codes, look grouped."""
    if any(split.groups is not None for split, _ in splits):
        return
    chosen = [(split.X, codes, first_rows(codes)) for split, codes in splits if len(split)]
    X = np.concatenate([X[rows] for X, _, rows in chosen])
    if looks_grouped(X, np.concatenate([codes[rows] for _, codes, rows in chosen])):
        warnings.warn(
            "Got rows that look grouped: each has near-duplicates with its own label, as texts of "
            "one author or scans of one patient have. Verdict, intervals and p-values expect rows "
            "that are independent of each other, and would see a leak where there is none. Say "
            "what the rows come in: Dataset.from_arrays(X, z, groups=authors), or --groups COLUMN.",
            UserWarning,
            stacklevel=3,
        )


# -- Rows that were seen before ------------------------------------------------------------------


def was_fitted_on(eraser: Any, split: Split) -> bool:
    """Whether an eraser's metadata says that it was fitted on these rows, or on many of them."""
    return share_fitted_on(eraser, split) > MAX_SEEN


def share_fitted_on(eraser: Any, split: Split, labels: Target | None = None) -> float:
    """About how many of the rows an eraser was fitted on, by its metadata; 0 if that is silent.

    The metadata hold hashes of some rows of the fit. If these are all hashes up to a bound, the
    split's rows up to that bound are known or new. Else they are a sample, as in old files and of
    rows on disk: if all of those are found in the split, so are all rows of the fit. The split's
    labels are encoded here where they are not given.
    """
    metadata: Any = getattr(getattr(eraser, "eraser_", eraser), "metadata", None)
    if not hasattr(metadata, "get") or "fingerprint" not in metadata or not len(split):
        return 0.0
    X = np.asarray(split.X)
    concept = split.table or (split.z if isinstance(split.z, Concepts) else labels or split.target)
    if metadata["fingerprint"] == fingerprint(X, hashed(concept)):
        return 1.0
    hashes_of_fit = set(metadata.get("known_rows", ()))
    if not hashes_of_fit:
        return 0.0
    hashes = set(row_hashes(X))
    found = len(hashes_of_fit & hashes)
    if "known_below" in metadata:
        # One row is no evidence: it may occur twice, and be one of few up to the bound.
        bound = metadata["known_below"]
        return found / sum(row <= bound for row in hashes) if found > 1 else 0.0
    return float(min(1.0, found / len(hashes_of_fit) * metadata["n_rows"] / len(X)))


def share_among(split: Split, others: Split) -> float:
    """The share of the rows that are among the others too; 1 if both are the same rows.

    Rows that occur more than once in the split do not count: where rows repeat, other rows of the
    same source repeat them too.

    Examples
    --------
    >>> rows = Split(np.array([[1.0], [2.0], [3.0], [3.0]]), np.array([0, 1, 0, 1]))
    >>> share_among(rows.take([0, 1]), rows.take([1, 2])), share_among(rows, rows)
    (0.5, 1.0)
    """
    counts, known = (Counter(row_hashes(np.asarray(part.X))) for part in (split, others))
    if counts == known:
        return 1.0
    return sum(n == 1 and row in known for row, n in counts.items()) / max(len(split), 1)
