"""Data sets of three disjoint splits: fit on one, choose on the second, report on the third."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.groups import first_rows, group_codes, grouped_parts, looks_grouped
from unspot.data.labels import Labels, check_length, encode, is_continuous
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
    z: NDArray[Any]  # (n,), the concept
    y: NDArray[Any] | None = None  # (n,), the downstream task
    names: NDArray[Any] | None = None  # (n,), for example words or ids
    groups: NDArray[Any] | None = None  # (n,), what rows come in: the author of each text

    def __post_init__(self) -> None:
        for what in ("z", "y", "names", "groups"):
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
            if labels is not None:
                classes = np.unique(np.asarray(labels).astype(str))
                many = f"of {len(classes):,} classes"
                parts.append(f"{what} {', '.join(classes) if len(classes) <= 6 else many}")
        return "; ".join(parts)

    @property
    def group_codes(self) -> NDArray[np.int64] | None:
        """The groups as numbers, if there are any."""
        return None if self.groups is None else group_codes(self.groups, len(self))

    def take(self, rows: NDArray[Any]) -> Split:
        """Some of the rows, by number or by mask."""
        columns = {name: value[rows] for name, value in vars(self).items() if value is not None}
        return Split(**columns)

    def halves(self, random_state: int) -> tuple[Split, Split]:
        """Two halves at random, stratified by class; rows of one group stay together."""
        codes = encode(self.z, n_rows=len(self)).codes
        rng = np.random.default_rng(random_state)
        first, second = stratified_parts(codes, (0.5, 0.5), rng, self.groups)
        return self.take(first), self.take(second)

    def joined(self, other: Split) -> Split:
        """These rows and then others, with the columns that both have."""
        pairs = ((name, value, getattr(other, name)) for name, value in vars(self).items())
        return Split(
            **{
                name: _stacked(mine, theirs)
                for name, mine, theirs in pairs
                if mine is not None and theirs is not None
            }
        )


def _stacked(first: Any, second: Any) -> NDArray[Any]:
    """Two columns as one, in which text stays apart from numbers: the label "1" is not 1."""
    first, second = np.asarray(first), np.asarray(second)
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        first = first.astype(object)
    return np.concatenate([first, second])


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

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        z: Any,
        y: Any = None,
        *,
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
            Embeddings (n, d), concept labels (n,) and optionally task labels (n,). Labels are
            categories: cut a continuous concept into bins.
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
        refuse_continuous(z)
        labels = encode(z, n_rows=len(X), min_rows=3)
        cells = labels.codes
        whole = Split(X, labels.values, names=None if names is None else np.asarray(names))
        if groups is not None:
            _refuse_few_groups(labels, group_codes(groups, len(X)))
            whole = replace(whole, groups=np.asarray(in_memory(groups)))
        if y is not None:
            task = encode(y, n_rows=len(X), name="y")
            whole = replace(whole, y=task.values)
            pairs = labels.codes * len(task.classes) + task.codes
            joint = np.unique(pairs, return_inverse=True)[1]
            if groups is None and np.bincount(joint).min() >= 3:
                cells = joint
        parts = stratified_parts(cells, sizes, np.random.default_rng(random_state), whole.groups)
        train, validation, test = (whole.take(rows) for rows in parts)
        return cls(train, validation, test, name=name, concept=concept)


def refuse_continuous(z: Any) -> None:
    """Raise an error if the concept of rows to evaluate on has fractional numbers."""
    if z is not None and is_continuous(z):
        raise ValueError(
            "Got fractional numbers as the concept z, but expected categories: probes and "
            "attackers classify. Cut the values into bins and evaluate on those, whatever the "
            "eraser was fitted on: numpy.digitize(z, numpy.quantile(z, [0.25, 0.5, 0.75]))."
        )


def _refuse_few_groups(concept: Labels, groups: NDArray[np.int64]) -> None:
    """Raise an error unless every class has a group for each of three splits."""
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


def share_fitted_on(eraser: Any, split: Split, labels: Labels | None = None) -> float:
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
    codes = (labels or encode(split.z)).codes
    if metadata["fingerprint"] == fingerprint(X, codes):
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
