"""Data sets of three disjoint splits: fit on one, choose on the second, report on the third."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.columns import as_array, check_length
from unspot.data.concept import Table, aligned, joined, read
from unspot.data.groups import first_rows, group_codes, grouped_parts, looks_grouped
from unspot.data.rows import as_matrix, column_names, possible_hashes, row_hashes

SPLITS = ("train", "validation", "test")

#: The share of a split's rows that an eraser may have been fitted on: some rows just occur twice.
MAX_SEEN = 0.1


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a data set: embeddings, concept, and optionally task, names and groups.

    Concept and task are encoded when the split is made: labels, numbers or a table are read by
    ``unspot.data.concept.read``. The other columns become arrays.
    """

    X: NDArray[Any]  # (n, d)
    concept: Any  # (n,), a Concept, or what ``read`` takes
    task: Any = None  # (n,), the downstream task, likewise
    names: NDArray[Any] | None = None  # (n,), for example words or ids
    groups: NDArray[Any] | None = None  # (n,), such as the author of each text
    table: Table | None = None  # whose column the concept is, and which an eraser is fitted on
    given: Any = None  # (n,), a Concept that attackers know of every row
    pairs: NDArray[Any] | None = None  # (n,), rows of one id are the same thing of several sources

    def __post_init__(self) -> None:
        for name in ("concept", "task"):
            value = getattr(self, name)
            if value is not None:
                encoded = read(value, n_rows=len(self.X), name="zy"[name == "task"], min_values=1)
                object.__setattr__(self, name, encoded)
        for name in ("names", "groups", "pairs"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, as_array(value))
                check_length(getattr(self, name), len(self.X), name)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"<Split: {len(self):,} rows of {self.contents()}>"

    @property
    def z(self) -> Any:
        """Return the concept as a user passes it: labels, numbers, or the table itself."""
        return self.concept.values

    @property
    def y(self) -> Any:
        """Return the task as a user passes it, or None."""
        return None if self.task is None else self.task.values

    def contents(self) -> str:
        """Describe features, concept and task in words."""
        what = "concepts" if len(self.concept.columns) > 1 else "concept"
        task = [] if self.task is None else [f"task {self.task.summary()}"]
        parts = [f"{self.X.shape[-1]} features", f"{what} {self.concept.summary()}", *task]
        return "; ".join(parts)

    @property
    def target(self) -> Any:
        """Return the concept if it is no table."""
        return self.concept.single()

    @property
    def group_codes(self) -> NDArray[np.int64] | None:
        """Return the groups as codes, or None."""
        return None if self.groups is None else group_codes(self.groups, len(self))

    def take(self, rows: Any) -> Split:
        """Select rows by number, slice or mask."""
        parts: dict[str, Any] = {}
        for name, value in vars(self).items():
            if value is not None:
                parts[name] = value.take(rows) if name in _ENCODED else value[rows]
        return Split(**parts)

    def halves(self, random_state: int) -> tuple[Split, Split]:
        """Split the rows in half at random, stratified; rows of one group stay together."""
        rng = np.random.default_rng(random_state)
        first, second = stratified_parts(self.concept.strata, (0.5, 0.5), rng, self.groups)
        return self.take(first), self.take(second)

    def joined(self, *others: Split) -> Split:
        """Append the rows of other splits, with the columns that all of them have."""
        splits = (self, *others)
        columns: dict[str, Any] = {}
        for name in vars(self):
            values = [getattr(split, name) for split in splits]
            if all(value is not None for value in values):
                columns[name] = joined(values) if name in _ENCODED else _concatenated(values)
        return Split(**columns)

    def of(self, name: str) -> Split:
        """Select the rows that have a value of one column of the table, with that column alone."""
        column = self.concept.column(name)
        rows = self.take(~column.missing)
        return replace(rows, concept=column.target, table=rows.concept)


#: Fields of a split that are concepts.
_ENCODED = ("concept", "task", "table", "given")


def _concatenated(columns: Sequence[Any]) -> NDArray[Any]:
    arrays = [np.asarray(column) for column in columns]
    # Text stays apart from numbers: the group "1" is not 1.
    if len({array.dtype.kind in "US" for array in arrays}) > 1:
        arrays[0] = arrays[0].astype(object)
    return np.concatenate(arrays)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Train, validation and test rows that do not overlap.

    Erasers are fitted on ``train``, ranks and settings are chosen on ``validation``, and reported
    numbers are measured on ``test``. Where the rows of the fit are not at hand, ``train`` is None.

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

    train: Any  # a Split, or None
    validation: Split
    test: Split
    name: str = "data"
    concept: str = ""  # name of the labels z, such as "gender"
    columns: Any = field(default=(), kw_only=True)  # names of the features, of a data frame

    def __post_init__(self) -> None:
        """Encode concept and task of all splits by the same classes."""
        splits = self.splits
        for name in ("concept", "task"):
            parts = [getattr(split, name) for split in splits.values()]
            if all(part is not None for part in parts):
                pairs = zip(splits.items(), aligned(parts), strict=True)
                splits = {
                    key: split if getattr(split, name) is new else replace(split, **{name: new})
                    for (key, split), new in pairs
                }
        for name, split in splits.items():
            object.__setattr__(self, name, split)

    def __iter__(self) -> Iterator[Split]:
        return iter(self.splits.values())

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(split):,} {name}" for name, split in self.splits.items())
        return f"<Dataset {self.name!r}: {counts} rows of {self.test.contents()}>"

    @property
    def splits(self) -> dict[str, Split]:
        """The splits by name; without ``train`` if its rows are not at hand."""
        every = {name: getattr(self, name) for name in SPLITS}
        return {name: split for name, split in every.items() if split is not None}

    @property
    def probe_rows(self) -> Split:
        """Rows that probes and classifiers of the task learn from: train, or else validation."""
        return self.validation if self.train is None else self.train

    @property
    def n_features(self) -> int:
        return int(self.test.X.shape[1])

    @property
    def concepts(self) -> tuple[str, ...]:
        """Return the names of the columns of a table of concepts; empty for a single concept."""
        return self.test.concept.names

    def of(self, name: str) -> Dataset:
        """Select the rows that have a value of one column of a table, with that column alone."""
        return replace(self.mapped(lambda split: split.of(name)), concept=name)

    def mapped(self, change: Callable[[Split], Split]) -> Dataset:
        """Apply a function to every split."""
        changed = {name: change(split) for name, split in self.splits.items()}
        return replace(self, **changed)  # type: ignore[arg-type]

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
            Embeddings (n, d), concept (n,) and optionally a task (n,). Fractional numbers are a
            number as concept or task, anything else is labels. A table (a data frame, a dict of
            columns) is several concepts.
        kind : str, or mapping of names to str, optional
            Kind of the concept, where its values do not show it: "categories" or "continuous". For
            a table, by the names of its columns.
        names : array-like, optional
            A name for each row.
        groups : array-like, optional
            Groups of rows, such as the author of each text or the patient of each scan. Rows of
            a group stay together: all of them are in one split. Groups are to be independent of
            each other.
        sizes : three fractions that add to one
            Shares of train, validation and test.
        random_state : int, Generator or None
            Decides the split.
        name : str
            The name of the data set.
        concept : str
            Name of ``z``, such as "gender", for certificates and reports.
        """
        columns, X = column_names(X), as_matrix(X)
        if len(sizes) != 3 or min(sizes) <= 0 or abs(sum(sizes) - 1) > 1e-9:
            raise ValueError(f"Got sizes={sizes}, but expected three fractions that add to one.")
        concept_read = read(z, n_rows=len(X), kind=kind, min_rows=3)
        task = None if y is None else read(y, n_rows=len(X), name="y")
        whole = Split(X, concept_read, task, names=names, groups=groups)
        facts: Any = {"random_state": random_state, "name": name, "concept": concept}
        return cls.from_split(whole, sizes=sizes, columns=columns, **facts)

    @classmethod
    def from_split(
        cls,
        whole: Split,
        *,
        sizes: tuple[float, float, float] = (0.5, 0.2, 0.3),
        random_state: Any = None,
        name: str = "data",
        concept: str = "",
        columns: Sequence[str] = (),
    ) -> Dataset:
        """Split rows at random, as ``from_arrays`` does."""
        cells, task = whole.concept.strata, whole.task
        if whole.groups is not None:
            _refuse_few_groups(whole.concept, group_codes(whole.groups, len(whole)))
        if task is not None:
            pairs = cells * (task.strata.max() + 1) + task.strata
            joint = np.unique(pairs, return_inverse=True)[1]
            if whole.groups is None and np.bincount(joint).min() >= 3:
                cells = joint
        parts = stratified_parts(cells, sizes, np.random.default_rng(random_state), whole.groups)
        train, validation, test = (whole.take(rows) for rows in parts)
        return cls(train, validation, test, name=name, concept=concept, columns=columns)


def _refuse_few_groups(concept: Any, groups: NDArray[np.int64]) -> None:
    """Raise an error unless every class has a group for each of three splits."""
    n_groups, of = concept.fewest_groups(groups)
    if n_groups < 3:
        raise ValueError(
            f"Got {n_groups} {'group' if n_groups == 1 else 'groups'} with {of}, but expected at "
            "least 3, one for each split: a group is not divided. Add groups, merge small classes, "
            "or leave the groups out if rows are independent of each other."
        )


def stratified_parts(
    cells: NDArray[Any], sizes: tuple[float, ...], rng: np.random.Generator, groups: Any = None
) -> list[NDArray[np.int64]]:
    """Split row numbers into disjoint sorted parts with the given shares of every cell.

    With groups, parts hold whole groups, and shares are as close as these allow.
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


def warn_if_grouped(*splits: tuple[Split, NDArray[np.int64]]) -> bool:
    """Warn if rows look grouped and no groups were given; return whether it warned."""
    if any(split.groups is not None for split, _ in splits):
        return False
    chosen = [(split.X, codes, first_rows(codes)) for split, codes in splits if len(split)]
    X = np.concatenate([X[rows] for X, _, rows in chosen])
    grouped = looks_grouped(X, np.concatenate([codes[rows] for _, codes, rows in chosen]))
    if grouped:
        warnings.warn(
            "Got rows that look grouped: each has near-duplicates with its own label, as texts of "
            "one author or scans of one patient have. Verdict, intervals and p-values expect rows "
            "that are independent of each other, and would see a leak where there is none. Say "
            "what the rows come in: Dataset.from_arrays(X, z, groups=authors), or --groups COLUMN.",
            UserWarning,
            stacklevel=3,
        )
    return grouped


# -- Rows that were seen before ------------------------------------------------------------------


def was_fitted_on(eraser: Any, split: Split) -> bool:
    """Tell whether an eraser was fitted on these rows or many of them, by its metadata."""
    return share_fitted_on(eraser, split) > MAX_SEEN


def knows_its_rows(eraser: Any, split: Split) -> bool:
    """Tell whether the metadata of an eraser would recognise rows of its fit among these.

    Rows of few values, most of which meet each other, meet those of the fit by chance.
    """
    is_known = _metadata(eraser).get("known_rows") and _metadata(eraser).get("known_step")
    return bool(is_known) and _share_that_meet(split) < 0.5


def _share_that_meet(split: Split) -> float:
    _, counts = np.unique(row_hashes(np.asarray(split.X)), return_counts=True)
    return float(counts[counts > 1].sum() / max(len(split), 1))


def share_fitted_on(eraser: Any, split: Split) -> float:
    """Estimate the share of the rows that an eraser was fitted on; 0 if its metadata do not say.

    The metadata hold hashes of some rows of the fit, which rounding to float16 leaves as they are.
    If these are all hashes up to a bound, the split's rows up to that bound are known or new.
    Otherwise they are a sample, as for rows on disk: if all of it is in the split, so are all rows
    of the fit.
    """
    metadata = _metadata(eraser)
    if not (len(split) and knows_its_rows(eraser, split)):
        return 0.0
    known = set(metadata["known_rows"])
    possible = possible_hashes(np.asarray(split.X), metadata["known_step"])
    hashes = {each[0]: each for each in possible}
    matched = sum(not known.isdisjoint(each) for each in hashes.values())
    if "known_below" in metadata:
        # One row is no evidence: it may occur twice, and be one of few up to the bound.
        of = sum(first <= metadata["known_below"] for first in hashes)
        by_chance = _share_that_meet(split)
        seen = matched / max(of, matched) if matched > 1 else 0.0
        return max(0.0, (seen - by_chance) / (1 - by_chance))
    return float(min(1.0, matched / len(known) * metadata["n_rows"] / len(split)))


def _metadata(eraser: Any) -> Mapping[str, Any]:
    metadata: Any = getattr(getattr(eraser, "eraser_", eraser), "metadata", None)
    return metadata if hasattr(metadata, "get") else {}


#: The class of all cells that are too small to be one.
OTHERS = "other combinations"

#: The fewest rows of a cell, in rows to learn from and in rows to judge on.
MIN_LEARNED, MIN_JUDGED = 10, 20


@dataclass(frozen=True, eq=False)
class Part:
    """One concept of several, or their combination.

    Attributes
    ----------
    name : str
        Empty if the data have one concept, which needs no name.
    data : Dataset or Split
        The rows that have a value of it, with that concept alone.
    note : str
        A sentence about what was left out or merged; empty if nothing was.
    """

    name: str
    data: Any
    note: str = ""


def parts_of(data: Any) -> list[Part]:
    """List each concept of a data set or split, and their combination if there are several."""
    names = data.concepts if isinstance(data, Dataset) else data.concept.names
    if not names:
        return [Part("", data)]
    parts = [Part(name, data.of(name)) for name in names]
    if len(parts) > 1:
        splits, note = _combined(data.splits if isinstance(data, Dataset) else {"test": data})
        name = " × ".join(names)
        if splits is None:  # the last concept carries the sentence
            parts[-1] = replace(parts[-1], note=note)
        elif isinstance(data, Dataset):
            combined = replace(data, concept=name, **splits)  # type: ignore[arg-type]
            parts.append(Part(name, combined, note))
        else:
            parts.append(Part(name, splits["test"], note))
    return parts


def _combined(splits: Mapping[str, Split]) -> tuple[dict[str, Split] | None, str]:
    """Make the cells of all concepts classes, or None; a sentence says what was left out."""
    complete = {key: split.take(~_lacks_any(split)) for key, split in splits.items()}
    tables = {key: split.concept for key, split in complete.items()}
    cuts = medians(list(tables.values()))
    labels = {key: cell_names(table, cuts) for key, table in tables.items()}
    cells = np.unique(np.concatenate(list(labels.values())))
    needed = {key: MIN_JUDGED if key == "test" else MIN_LEARNED for key in splits}
    enough = np.all([_counts(z, cells) >= needed[key] for key, z in labels.items()], axis=0)
    rare = cells[~enough]
    merged = {key: np.where(np.isin(z, rare), OTHERS, z) for key, z in labels.items()}
    fits = all((z == OTHERS).sum() >= needed[key] for key, z in merged.items())
    name = " × ".join(tables["test"].names)
    if int(enough.sum()) + int(fits) < 2:
        return None, (
            f"{name} was not attacked: only {int(enough.sum())} of {len(cells)} combinations has "
            f"{MIN_JUDGED} test rows and {MIN_LEARNED} others."
        )
    made = {}
    for key, z in merged.items():
        rows = np.arange(len(z)) if fits else np.flatnonzero(z != OTHERS)
        part = complete[key].take(rows)
        made[key] = replace(part, concept=z[rows], table=part.concept)
    return made, _note(name, rare, fits)


def _note(name: str, rare: NDArray[Any], merged: bool) -> str:
    if not len(rare):
        return ""
    shown = ", ".join(map(str, rare[:5])) + (f" and {len(rare) - 5} more" if len(rare) > 5 else "")
    became = "counted as one class" if merged else "left out"
    return f"Of {name}, combinations with too few rows were {became}: {shown}."


def _lacks_any(split: Split) -> NDArray[np.bool_]:
    table = split.concept
    return np.any([table.missing(name) for name in table.names], axis=0)


def medians(tables: Sequence[Any]) -> dict[str, float | None]:
    """Compute where each number is cut into halves: its median over all rows."""
    return {name: joined([table[name] for table in tables]).median for name in tables[0].names}


def cell_names(table: Any, cuts: Mapping[str, float | None]) -> NDArray[Any]:
    """Label each row with its cell, such as "f / north"."""
    columns = [table[name].halves(name, cuts[name]) for name in table.names]
    return np.array([" / ".join(words) for words in zip(*columns, strict=True)])


def _counts(labels: NDArray[Any], cells: NDArray[Any]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(cells, labels), minlength=len(cells))


@contextmanager
def naming_concept(name: str) -> Iterator[None]:
    """Prefix an error about one of several concepts with its name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}" if name else str(error)) from error
