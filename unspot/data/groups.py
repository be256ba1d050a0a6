"""Rows in groups, such as the texts of one author: split, permuted and recognised as groups.

Rows of one group resemble each other and often share their label, so that they are not as many
independent rows as they seem. What is drawn, split or permuted must then be whole groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.columns import classes_of, is_continuous

Array = NDArray[Any]
Codes = NDArray[np.int64]

#: Ways to deal the groups before a part without some class is accepted.
_TRIES = 50

#: Groups that exchange labels which vary within them: of like size, where there are as many.
_FEWEST_ALIKE = 10

#: Rows that are searched for groups, rows whose neighbours are looked at, and how many of these.
_MOST_ROWS, _QUERIES, _MOST_NEIGHBOURS = 10_000, 300, 1024

#: Fewest rows, per class and in total, for the near-duplicate check.
_FEWEST_OF_CLASS, _FEWEST_QUERIES = 32, 100

#: Thresholds that independent rows do not reach by chance: how much faster distances grow than
#: later on (1.2 for normal rows, 1.3 for the bundled words), and the excess agreement of labels.
_STEP, _NEAR_EXCESS = 1.5, 0.15


def counts_at_worst(codes: Codes, groups: Codes | None, n_classes: int) -> Codes:
    """Count the rows of each class, or its groups: at worst a group counts as one row.

    Examples
    --------
    >>> counts_at_worst(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), 2)
    array([1, 2])
    """
    if groups is not None:
        codes = np.unique(np.stack([groups, codes]), axis=1)[1]
    return np.bincount(codes, minlength=n_classes)


def group_codes(groups: Any, n_rows: int) -> Codes:
    """Encode groups of any type as 0…G−1.

    Examples
    --------
    >>> group_codes(["ann", "bob", "ann"], 3)
    array([0, 1, 0])
    """
    if is_continuous(groups):
        raise ValueError(
            "Got fractional numbers as groups, but expected a name or a number for each group: "
            "rows of one group have the same. Round them, or make them text."
        )
    return classes_of(groups, n_rows=n_rows, name="groups")[0]


def joined_groups(rows: Sequence[Any], groups: Codes | None) -> Codes:
    """Join the groups of rows that are the same; without groups, each different row is one.

    Examples
    --------
    >>> joined_groups(["x", "y", "x", "z"], None)
    array([0, 1, 0, 2])
    >>> joined_groups(["x", "y", "x", "z"], np.array([0, 0, 1, 2]))
    array([0, 0, 0, 1])
    """
    row = np.unique(np.asarray(rows), return_inverse=True)[1].reshape(-1)
    if groups is None:
        return row.astype(np.int64)
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_groups, n = int(groups.max()) + 1, int(groups.max() + row.max()) + 2
    edges = coo_array((np.ones(len(row)), (groups, n_groups + row)), shape=(n, n))
    return connected_components(edges, directed=False)[1][groups].astype(np.int64)


def row_shuffler(
    labels: Array, groups: Codes | None, strata: Codes | None = None
) -> Callable[[np.random.Generator], Codes]:
    """Return a function that permutes rows, or whole groups of rows; labels[rows] are permuted.

    With strata, rows stay in their stratum.

    Labels that are the same throughout a group are so permuted over the groups. Labels that vary
    within groups are handed on in their order, from a place drawn at random and around the end:
    else groups that all have the same sequence would never change. They go to groups of about as
    many rows, since repeated labels vary more than those of a group. Of groups of one size these
    changes are a mathematical group, so that the test that permutes by them is exact.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1, 1])
    >>> rows = row_shuffler(labels, np.array([5, 5, 7, 7, 7]))
    >>> sorted({tuple(labels[rows(np.random.default_rng(i))].tolist()) for i in range(20)})
    [(0, 0, 1, 1, 1), (1, 1, 0, 0, 0)]
    >>> rows = row_shuffler(np.array([0.5, 0.1, 0.7]), None, np.array([0, 1, 0]))
    >>> sorted({tuple(rows(np.random.default_rng(i)).tolist()) for i in range(20)})
    [(0, 1, 2), (2, 1, 0)]
    """
    if groups is None and strata is None:
        return lambda rng: rng.permutation(len(labels))
    if groups is None:
        parts = [np.flatnonzero(strata == s) for s in np.unique(strata)]  # type: ignore[arg-type]

        def within(rng: np.random.Generator) -> Codes:
            rows = np.empty(len(labels), dtype=np.int64)
            for part in parts:
                rows[part] = rng.permutation(part)
            return rows

        return within
    group = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    group, sequence = group[order], labels[order]
    place = np.arange(len(labels)) - starts[group]  # position of a row in its group
    uniform = np.array_equal(sequence, sequence[starts][group])
    alike = [np.arange(len(sizes))] if uniform else _of_like_size(sizes)

    def shuffled(rng: np.random.Generator) -> Codes:
        giver = np.empty(len(sizes), dtype=np.int64)
        for members in alike:
            giver[members] = rng.permutation(members)
        first = rng.integers(sizes[giver])
        taken = starts[giver][group] + (first[group] + place) % sizes[giver][group]
        rows = np.empty(len(labels), dtype=np.int64)
        rows[order] = order[taken]
        return rows

    return shuffled


def _of_like_size(sizes: Array) -> list[Codes]:
    """Gather groups of similar size: at most twice the rows, and ten groups where possible."""
    order = np.argsort(sizes, kind="stable")
    cuts, first = [], 0
    for i in range(len(order)):
        if i - first >= _FEWEST_ALIKE and sizes[order[i]] > 2 * sizes[order[first]]:
            cuts.append(i)
            first = i
    if cuts and len(order) - first < _FEWEST_ALIKE:
        cuts.pop()
    return np.split(order, cuts)


# -- Parts of whole groups -------------------------------------------------------------------------


def grouped_parts(
    cells: Codes, groups: Any, sizes: Sequence[float], rng: np.random.Generator
) -> list[Codes]:
    """Split row numbers into parts of whole groups, each with about its share of every cell.

    A group counts by the cell that most of its rows are in. Large groups are dealt first, each to a
    part drawn by what the parts still lack, so that small ones even out the sizes. Every part gets
    a group of every cell that has enough of them.

    Examples
    --------
    >>> cells = np.repeat([0, 1], 8)
    >>> parts = grouped_parts(cells, np.arange(16) // 2, (0.5, 0.5), np.random.default_rng(0))
    >>> [np.bincount(cells[part]).tolist() for part in parts]
    [[4, 4], [4, 4]]
    """
    group = group_codes(groups, len(cells))
    cell = np.unique(cells, return_inverse=True)[1]
    table = np.zeros((group.max() + 1, cell.max() + 1), dtype=np.int64)
    np.add.at(table, (group, cell), 1)
    main, n_rows = table.argmax(axis=1), table.sum(axis=1)
    common = (table > 0).sum(axis=0) >= len(sizes)
    for _ in range(_TRIES):
        part = np.empty(len(table), dtype=np.int64)
        for k in np.unique(main):
            members = rng.permutation(np.flatnonzero(main == k))
            members = members[np.argsort(-n_rows[members], kind="stable")]
            part[members] = _dealt(n_rows[members], sizes, rng.random(len(members)))
        # Where labels vary within groups, a part may lack a class that is the main one of none.
        if all((table[part == p].sum(axis=0) > 0)[common].all() for p in range(len(sizes))):
            break
    return [np.flatnonzero(part[group] == p) for p in range(len(sizes))]


def _dealt(n_rows: Array, sizes: Sequence[float], draws: Array) -> list[int]:
    """Draw the part of each group by the rows that parts still lack; no part stays empty."""
    lacks = [size * float(n_rows.sum()) for size in sizes]
    empty = set(range(len(sizes)))
    dealt = []
    for i, (n, draw) in enumerate(zip(n_rows.tolist(), draws.tolist(), strict=True)):
        offered = sorted(empty) if len(n_rows) - i <= len(empty) else range(len(sizes))
        weights = np.array([max(lacks[p], 0.0) for p in offered])
        if not weights.any():
            weights[np.argmax([lacks[p] for p in offered])] = 1.0
        p = offered[int(np.searchsorted(np.cumsum(weights), draw * weights.sum(), side="right"))]
        lacks[p] -= n
        empty.discard(p)
        dealt.append(p)
    return dealt


# -- Groups that nobody named ----------------------------------------------------------------------


def looks_grouped(X: Any, codes: Codes) -> bool:
    """Tell whether rows look grouped: near-duplicates that share their label.

    Two things must come together. Within a class, distances grow in a step: a row has some rows
    close by, then none for a while. Of independent rows the distance grows ever faster from one
    doubling of the neighbours to the next, as balls reach the edge of the law. And labels agree
    with those of the nearest row far more often than with those beyond the step; a leak would
    reach these too. Groups of more than a quarter of their class look like clusters, and are
    taken for such.

    Cost: the distances of 300 rows to at most 10,000, the first of each class: rows of a group are
    often next to each other.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> authors, X = np.repeat(np.arange(60), 10), rng.normal(size=(600, 20))
    >>> z = rng.integers(2, size=60)[authors]  # one label for each author
    >>> looks_grouped(X, z), looks_grouped(3 * rng.normal(size=(60, 20))[authors] + X, z)
    (False, True)
    """
    some = first_rows(codes)
    rows, codes = np.asarray(X[some], dtype=np.float64), codes[some]
    counts = np.bincount(codes)[codes]
    fitting = np.flatnonzero(counts >= _FEWEST_OF_CLASS)
    if len(fitting) < _FEWEST_QUERIES:
        return False
    queries = np.random.default_rng(0).permutation(fitting)[:_QUERIES]
    distances = _distances(rows, queries)
    same = codes == codes[queries, None]
    n_doublings = int(np.log2(min(counts[queries].min() / 2, _MOST_NEIGHBOURS)))
    neighbours = 2 ** np.arange(n_doublings + 1)
    step = _first_step(np.where(same, distances, np.inf), neighbours)
    if step is None:
        return False
    beyond = 2 * neighbours[step + 1]
    order = np.argsort(distances, axis=1)[:, :beyond]
    agrees = np.take_along_axis(same, order, axis=1)
    chance = np.mean(counts / len(codes))
    near, far = agrees[:, 0].mean() - chance, agrees[:, beyond // 2 :].mean() - chance
    return bool(near >= _NEAR_EXCESS and far <= near / 2)


def first_rows(codes: Codes) -> Codes:
    """Select the rows that are searched for groups: the first of each class."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    place = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[order]]
    return np.sort(order[place < max(1, _MOST_ROWS // len(counts))])


def _distances(rows: Array, queries: Codes) -> Array:
    """Compute distances from the queried rows to all, (queries, n); infinite to themselves."""
    centred = rows - rows.mean(axis=0)
    norms = (centred**2).sum(axis=1)
    squared = norms[queries, None] + norms - 2 * centred[queries] @ centred.T
    squared[np.arange(len(queries)), queries] = np.inf
    return np.sqrt(np.maximum(squared, 0.0))


def _first_step(distances: Array, neighbours: Codes) -> int | None:
    """Find the doubling of k at which neighbour distances jump, relative to later ones."""
    nearest = np.sort(np.partition(distances, neighbours[-1] - 1)[:, : neighbours[-1]])
    floor = 1e-6 * nearest[:, -1].max()  # rows that occur twice are at no distance
    if not floor > 0:
        return None
    logs = np.log(np.maximum(nearest[:, neighbours - 1], floor)).mean(axis=0)
    # In d dimensions the logarithm of the distance to the k-th neighbour grows by 1/(kd) with k.
    units = [np.sum(1 / np.arange(k, 2 * k)) for k in neighbours[:-1]]
    growth = np.diff(logs) / units
    later = np.minimum.accumulate(growth[::-1])[::-1]
    ratios = growth[:-1] / np.maximum(later[1:], 1e-12)
    step = int(np.argmax(ratios)) if len(ratios) else 0
    return step if len(ratios) and ratios[step] >= _STEP else None
