"""Attackers: how well could a determined adversary still recover the concept?

A family behind one interface. Each attacker is a model and the coordinates it sees; each is fitted
on training rows, and judged on other rows: by balanced accuracy for classes, and for a number by
R², the share of its variance that predictions explain.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
from unspot.data.concept import read
from unspot.data.groups import group_codes
from unspot.data.rows import generator, in_memory, refuse_extreme, refuse_nonfinite
from unspot.evaluation import attack_models as models
from unspot.evaluation.attack_models import (
    ROWS,
    ClassRows,
    Effort,
    Features,
    Model,
    Predict,
    View,
    linear_on,
    precision_of,
    rounding_directions,
)
from unspot.evaluation.inference import AttackResult, ClassScores, scores_of
from unspot.io.progress import steps
from unspot.machine import one_thread

Array = NDArray[Any]
Codes = NDArray[np.int64]


# -- Attackers that search among many features ----------------------------------------------------
#
# Classifiers that improve step by step do not find a concept that only a combination shows: no
# single step gains anything. These models score all combinations of a kind at once, and give the
# most informative ones to a linear model. They are scored on rows that are not for validation; the
# model's penalty, chosen on the others, decides whether it was only chance.

# -- pairs of columns and products of signs ------------------------------------------------------

#: Bins of a column, by rank.
_BINS = 16
_BEST_PAIRS = 4
_BEST_PRODUCTS = 16


def interactions(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Search informative pairs of columns, and products of two, three or four signs.

    Every pair is judged by a table of its cells; the best ones count through the neighbours of a
    row in the plane of the pair, which know no cells.
    """
    fitted = rows.fitted
    rng = np.random.default_rng(seed)
    most = min(effort.pairs, 8 * effort.pairs // rows.n_classes)  # tables have all classes
    pairs = _some_pairs(rows.X.shape[1], most, rng)
    planes = _telling_pairs(fitted, pairs)
    votes = [_votes_in_plane(fitted, pair) for pair in planes]
    middle = _middle(fitted.X)
    sets = _telling_products(fitted, _signs(fitted.X, middle), pairs, effort, rng)

    def features(X: Array) -> Array:
        signs = _signs(X, middle)
        products = [signs[:, columns].prod(axis=1, keepdims=True) for columns in sets]
        return np.hstack([*(vote(X) for vote in votes), *products])

    return linear_on([lambda _: features], rows, penalties=(1.0, 0.1, 0.01, 0.001))


def _some_pairs(d: int, most: int, rng: np.random.Generator) -> Array:
    """Draw pairs of columns (p, 2): all, or ``most`` of them, after every column with itself."""
    total = d * (d - 1) // 2
    numbers = rng.choice(total, most, replace=False) if total > most else np.arange(total)
    right = ((1 + np.sqrt(1 + 8 * numbers)) // 2).astype(np.int64)  # 0 and 1 are pair number 0
    pairs = np.stack([numbers - right * (right - 1) // 2, right], axis=1)
    return np.vstack([np.repeat(np.arange(d), 2).reshape(-1, 2), pairs])


def _telling_pairs(rows: ClassRows, pairs: Array) -> Array:
    """Select the pairs whose cells differ most in class shares, by χ² in its own deviations."""
    bins = np.stack([_ranked(column) for column in rows.X.T], axis=1)
    K, expected = rows.n_classes, rows.shares
    scores = np.zeros(len(pairs))
    by_class = _BINS**2 * rows.codes
    for p, (i, j) in enumerate(pairs):
        cells = _BINS * bins[:, i] + bins[:, j] + by_class
        table = np.bincount(cells, minlength=K * _BINS**2).reshape(K, -1)
        table = table[:, table.any(axis=0)]
        chi2 = (table**2 / (table.sum(axis=0) * expected[:, None])).sum() - len(bins)
        freedom = max((table.shape[1] - 1) * (K - 1), 1)
        scores[p] = (chi2 - freedom) / freedom**0.5
    return pairs[np.argsort(-scores, kind="stable")[:_BEST_PAIRS]]


def _ranked(column: Array) -> NDArray[np.int64]:
    edges = np.quantile(column, np.arange(1, _BINS) / _BINS)
    return np.searchsorted(edges, column, side="right")


def _votes_in_plane(rows: ClassRows, pair: Array) -> Features:
    """Average class contrasts of the 3 and 9 nearest other rows in two columns."""
    from scipy.spatial import cKDTree

    tree = cKDTree(rows.X[:, pair])
    contrasts = rows.contrasts
    ks = [k for k in (3, 9) if k < len(rows)]

    def votes(X: Array) -> Array:
        distances, nearest = tree.query(X[:, pair], k=max(ks) + 1)
        seen = contrasts[nearest]  # (n, k + 1, q)
        others = np.where((distances[:, 0] == 0)[:, None, None], seen[:, 1:], seen[:, :-1])
        return np.hstack([others[:, :k].mean(axis=1) for k in ks])

    return votes


#: At most this many pairs are multiplied with each other.
_PRODUCTS_OF_PAIRS = 2_000
#: Multiplications in the search for products, for each of the budget's pairs.
_WORK_OF_A_PAIR = 5e6
#: Enough to nominate a product that is right on three of four rows.
_FEWEST_ROWS = 250


def _telling_products(
    rows: ClassRows, signs: Array, pairs: Array, effort: Effort, rng: np.random.Generator
) -> list[list[int]]:
    """Select sets of two to four columns whose product of signs correlates most.

    Search all sets of two and three with some or all columns; of four, pairs of pairs. Where that
    is too much work, few rows nominate sets; all rows choose among them.
    """
    contrasts, order = rows.contrasts, rng.permutation(len(rows))
    work = effort.pairs * _WORK_OF_A_PAIR / contrasts.shape[1]
    signs = np.hstack([signs, np.ones_like(signs[:, :1])])  # the third sign of a set of two
    d = signs.shape[1]
    few = order[: max(_FEWEST_ROWS, int(work / d**3))]
    columns = np.array([d - 1, *rng.permutation(d - 1)])[:, None]
    ordered = signs[few][:, columns[:, 0]]
    threes = [  # every set once: by the first of its columns in this order, and those after it
        _largest(ordered[:, t:], ordered[:, t], contrasts[few], columns[t:], columns[t])
        for t in range(min(1 + int(work / (len(few) * d**2)), d))
    ]
    pairs = pairs[rng.permutation(len(pairs))[:_PRODUCTS_OF_PAIRS]]
    few = order[: max(_FEWEST_ROWS, int(work / max(len(pairs), 1) ** 2))]
    both = signs[few][:, pairs[:, 0]] * signs[few][:, pairs[:, 1]]  # (n, p)
    fours = [_largest(both, signs[few, -1], contrasts[few], pairs, columns[0])]
    once = {_columns_once(some, d - 1) for some in [*_best(threes), *_best(fours)]} - {()}
    sets = [list(some) for some in sorted(once)]
    products = np.stack([signs[:, some].prod(axis=1) for some in sets])  # (sets, n)
    scores = ((products @ contrasts) ** 2).sum(axis=1)
    return [sets[t] for t in np.argsort(-scores, kind="stable")[:_BEST_PRODUCTS]]


def _middle(X: Array) -> Array:
    """Compute thresholds that halve the columns, as nearly as repeated values allow."""
    middle = np.median(X, axis=0)
    below, above = (middle > X).mean(axis=0), (middle < X).mean(axis=0)
    return np.where(above < below, np.nextafter(middle, -np.inf), middle)


def _signs(X: Array, middle: Array) -> Array:
    return 2 * np.greater(X, middle).astype(np.float32) - 1


def _columns_once(columns: Sequence[int], one: int) -> tuple[int, ...]:
    """Drop the constant column, and columns that occur twice: a sign squared is 1."""
    return tuple(sorted(int(j) for j in {*columns} - {one} if columns.count(j) % 2))


_NOMINATED = 8 * _BEST_PRODUCTS


def _largest(
    S: Array, weights: Array, contrasts: Array, sets: Array, weighted: Array
) -> tuple[Array, Array]:
    """Find, for each column, the partner whose product with it is most informative.

    Products are weighted. Returns their scores, and the union of the sets of both columns and of
    the weights (m, 2s + 1).
    """
    scores = np.zeros((S.shape[1], S.shape[1]), dtype=np.float32)
    for contrast in contrasts.T:
        scores += (S.T @ (S * (weights * contrast)[:, None])) ** 2
    np.fill_diagonal(scores, 0)
    best = scores.argmax(axis=1)
    unions = np.hstack([sets, sets[best], np.full((len(best), 1), weighted)])
    return scores[np.arange(len(best)), best], unions


def _best(searches: list[tuple[Array, Array]]) -> list[list[int]]:
    """Select the most informative sets."""
    values, sets = (np.concatenate(parts) for parts in zip(*searches, strict=True))
    return sets[np.argsort(-values, kind="stable")[:_NOMINATED]].tolist()


# -- waves -----------------------------------------------------------------------------------------

_CHUNK_VALUES = 2**20  # rows times waves at once
_REFINED = 16
_BEST_WAVES = 8


def waves(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Search waves cos(wᵀx + phase) of any direction and length, from many random starts.

    In whitened normal rows the correlation with a wave of another w falls by exp(−|w − w′|²/2), so
    that a step along the gradient of its logarithm leads to the top of the hill.
    """
    fitted = rows.fitted
    X, contrasts = fitted.X.astype(np.float32), fitted.contrasts
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(X.shape[1], effort.waves)).astype(np.float32)
    W *= rng.uniform(0.5, 10, size=effort.waves).astype(np.float32) / np.linalg.norm(W, axis=0)
    parts = np.array_split(W, -(-len(X) * effort.waves // _CHUNK_VALUES), axis=1)
    power = np.concatenate([_wave_power(X, contrasts, part)[0] for part in parts])
    best = W[:, np.argsort(-power, kind="stable")[:_REFINED]]
    for _ in range(12):
        _, uphill = _wave_power(X, contrasts, best, with_slope=True)
        best = best + uphill
    power, _ = _wave_power(X, contrasts, best)
    best = _apart(best[:, np.argsort(-power, kind="stable")])

    def features(X: Array) -> Array:
        phases = X @ best
        return np.hstack([np.cos(phases), np.sin(phases)])

    return linear_on([lambda _: features], rows, penalties=(1.0, 0.1, 0.01, 0.001))


def _wave_power(
    X: Array, contrasts: Array, W: Array, *, with_slope: bool = False
) -> tuple[Array, Array]:
    """Compute Σₖ |Σᵢ cᵢₖ exp(iwᵀxᵢ)|², and half the gradient of its logarithm (d, m)."""
    phases = X @ W  # (n, m)
    cos, sin = np.cos(phases), np.sin(phases)
    power, slope = np.zeros(W.shape[1], dtype=np.float32), np.zeros_like(W)
    for c in contrasts.T:
        real, imaginary = c @ cos, c @ sin
        power += real**2 + imaginary**2
        if with_slope:
            slope += X.T @ ((cos * imaginary - sin * real) * c[:, None])
    return power, slope / np.maximum(power, 1e-30)


def _apart(W: Array) -> Array:
    """Keep the first waves (d, q) that differ from those before, up to the sign."""
    distinct: list[Array] = []
    for w in W.T:
        if all(min(np.linalg.norm(w - v), np.linalg.norm(w + v)) > 0.5 for v in distinct):
            distinct.append(w)
    return np.stack(distinct[:_BEST_WAVES], axis=1)


# -- the form of the numbers -----------------------------------------------------------------------

_BEST_BITS = 16


def residue(rows: ClassRows, effort: Effort, seed: int) -> Predict:
    """Search what erasure or a copy left in the numbers: rounding errors, ranks and last bits."""
    fitted = rows.fitted
    enlarged = rounding_directions(rows.X)
    ranks = _normal_scores(enlarged(fitted.X))
    bits = _telling_bits(fitted)

    def features(X: Array) -> Array:
        small = enlarged(X)
        return np.hstack([small, ranks(small), _exact(X), bits(X)])

    return linear_on([lambda _: features], rows, penalties=(1.0, 0.03, 0.001))


def _normal_scores(X: Array) -> Features:
    """Transform values to normal scores of their ranks."""
    from scipy.special import ndtri

    known = np.sort(X, axis=0)

    def scores(X: Array) -> Array:
        columns = zip(X.T, known.T, strict=True)
        ranks = [
            np.searchsorted(old, new) + np.searchsorted(old, new, "right") for new, old in columns
        ]
        return ndtri((np.stack(ranks, axis=1) + 1) / (2 * len(known) + 2))

    return scores


def _exact(X: Array) -> Array:
    """Count the values of a row that float16, bfloat16 and float32 hold exactly."""
    with np.errstate(over="ignore"):
        held = [X.astype(np.float16) == X, _integers(X) << 19 == 0, X.astype(np.float32) == X]
    return np.stack([kind.sum(axis=1) for kind in held], axis=1).astype(np.float64)


def _integers(X: Array) -> NDArray[np.int64]:
    """View values as integers, whose lowest 52 bits are the fraction."""
    return np.ascontiguousarray(X, dtype=np.float64).view(np.int64)


def _telling_bits(rows: ClassRows) -> Features:
    """Select the bits and digits of columns that correlate most."""
    bits = _bits_of(rows.X)
    contrasts = rows.contrasts
    every = slice(None)
    scores = np.stack([((contrasts.T @ bit) ** 2).sum(axis=0) for bit in bits(rows.X, every)])
    order = np.argsort(-scores, axis=None, kind="stable")[:_BEST_BITS]
    kinds, columns = np.unravel_index(order, scores.shape)

    def features(X: Array) -> Array:
        values = np.zeros((len(X), len(order)), dtype=np.float32)
        for kind, bit in enumerate(bits(X, columns)):
            values[:, kinds == kind] = bit[:, kinds == kind]
        return values

    return features


def _bits_of(X: Array) -> Callable[[Array, Any], Iterator[Array]]:
    """Yield bits of rows in some columns, one kind after the other, each (n, columns) of 0 and 1.

    Four of the last bits that a column uses (values in single precision leave 29 of them zero).
    And whether a digit is odd: of nine decimal and 24 binary ones, from the column's spread down.
    """
    used = np.bitwise_or.reduce(_integers(X), axis=0)
    lowest = np.maximum(np.frexp(np.abs((used & -used).astype(np.float64)))[1] - 1, 0)
    width = np.ptp(X, axis=0)
    unit = np.floor(np.log10(np.where(width > 0, width, 1.0)))
    # A number of few decimals is not quite that number: 0.29 · 100 is 28.999….
    nudge = precision_of(X)

    def bits(X: Array, columns: Any) -> Iterator[Array]:
        X = X[:, columns]
        last = _integers(X) >> lowest[columns]
        for shift in range(4):
            yield ((last >> shift) & 1).astype(np.float32)
        scaled = (X + nudge * np.abs(X)) / 10.0 ** unit[columns]
        for base, n_digits in ((10, 9), (2, 24)):
            whole = np.clip(np.floor(scaled * float(base) ** (n_digits - 1)), -_LARGE, _LARGE)
            digits = whole.astype(np.int64)
            for _ in range(n_digits):
                yield (digits & 1).astype(np.float32)
                digits = digits // base

    return bits


_LARGE = 2.0**62


# -- The family and its budgets --------------------------------------------------------------------


#: The coordinates that each attacker sees, and its model.
FAMILY: dict[str, tuple[Callable[[Array], View], Model]] = {
    "logistic": (models.standardised, models.linear),
    # In whitened coordinates a penalty does not hide directions of low variance, and one of 1/n is
    # next to none: a linear attacker that no linear map of the rows changes.
    "whitened-logistic": (models.whitened, models.linear),
    "residue": (models.as_given, residue),
    "interactions": (models.standardised, interactions),
    "waves": (models.whitened, waves),
    "quadratic": (models.standardised, models.quadratic),
    "neighbours": (models.principal, models.nearest),
    "rbf": (models.standardised, models.radial),
    "mlp-64": (models.standardised, models.networks(64)),
    "mlp-256": (models.standardised, models.networks(256)),
    "mlp-128-128": (models.principal, models.networks(128, 128)),
    "trees": (models.with_statistics, models.boosted_trees),
    # Trees cut along axes: the rows' own axes and the principal ones show them different things.
    "rotated-trees": (models.principal, models.patient_trees),
    "whitened-rbf": (models.whitened, models.radial),
    "whitened-mlp-256": (models.whitened, models.networks(256)),
    "mlp-512-512": (models.standardised, models.networks(512, 512)),
}

#: The names of all attackers. For a number, logistic is called ridge.
ATTACKERS: tuple[str, ...] = tuple(FAMILY)


@dataclass(frozen=True)
class _Budget:
    attackers: tuple[str, ...]
    max_rows: int
    effort: Effort


# fmt: off
BUDGETS: dict[str, _Budget] = {
    "quick": _Budget(
        (*ATTACKERS[:6], "rbf", "mlp-64", "mlp-256", "trees"),
        max_rows=12_000,
        effort=Effort(products=500, landmarks=700, networks=2, epochs=60, trees=70, pairs=1_000,
                      waves=2_000),
    ),
    "standard": _Budget(
        ATTACKERS[:13],
        max_rows=12_000,
        effort=Effort(products=1_000, landmarks=1_000, networks=4, epochs=60, trees=100,
                      pairs=5_000, waves=20_000),
    ),
    "thorough": _Budget(
        ATTACKERS,
        max_rows=100_000,
        effort=Effort(products=3_000, landmarks=1_500, networks=4, epochs=100, trees=300,
                      pairs=100_000, waves=50_000),
    ),
}
# fmt: on


# -- Attacks ---------------------------------------------------------------------------------------


def attack(
    X_train: Any,
    z_train: Any,
    X_test: Any,
    z_test: Any,
    *,
    kind: str | None = None,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Any = None,
) -> tuple[AttackResult, ...]:
    """Train a family of attackers to recover the concept.

    Parameters
    ----------
    X_train, z_train : array-like of shape (n, d) and (n,) or (n, m)
        Rows that the attackers learn from, and the concept: labels of any type, or numbers.
    X_test, z_test : array-like
        Rows that they are judged on, some of every class. They must not be among the training rows.
    kind : {"categories", "continuous"}, optional
        Fractional numbers are continuous, all other values are labels.
    budget : "quick", "standard" or "thorough"
        Which attackers, how hard they try and on how many rows: ten or thirteen on at most
        12,000, sixteen on at most 100,000. More rows are sampled down, stratified.
    attackers : sequence of str, optional
        Names from ``ATTACKERS`` instead of the budget's.
    random_state : int, Generator or None
        Decides samples, validation parts and starts. The seed of an attacker depends on its name
        only, so that the choice of others does not change it.
    verbose : bool
        Show a progress bar.
    groups : array-like of shape (n,), optional
        Groups of training rows: attackers choose their strength on whole groups.

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
    >>> z, z_test = (X[:, 0] ** 2 for X in (rows.X, X_test))
    >>> attack(rows.X, z, X_test, z_test, attackers=["quadratic"])[0].r2 > 0.9
    True
    """
    X, X_test = checked_rows(X_train, X_test)
    learned = read(z_train, n_rows=len(X), name="z_train", kind=kind)
    judged = learned.read_alike(z_test, n_rows=len(X_test), name="z_test")
    judged.refuse_missing_class("z_test")
    how: Any = {"budget": budget, "attackers": attackers, "random_state": random_state}
    how |= {"groups": None if groups is None else group_codes(groups, len(X)), "verbose": verbose}
    return attack_concept(X, learned, X_test, scores_of(judged), **how)


@one_thread()
def attack_concept(
    X: Array,
    learned: Any,
    X_test: Array,
    scores: ClassScores,
    *,
    budget: str = "standard",
    attackers: Sequence[str] | None = None,
    random_state: Any = 0,
    verbose: bool = False,
    groups: Codes | None = None,
) -> tuple[AttackResult, ...]:
    """Attack checked rows and an encoded concept; see ``attack``.

    The score is NaN where a class has no test row.
    """
    kind = ROWS[learned.kind]
    names = attacker_names(learned.kind, budget, attackers)
    originals = {new: old for old, new in kind.renamed.items()}
    seed = int(generator(random_state).integers(2**31))
    rows = kind.sample(X, learned, BUDGETS[budget].max_rows, seed, groups)
    effort = BUDGETS[budget].effort.among(rows.n_classes)
    test = X_test.astype(np.float64, copy=False)
    results = []
    for name in steps(names, "Attacking", verbose=verbose):
        coordinates, model = FAMILY[originals.get(name, name)]
        view = coordinates(rows.X)
        seen = rows.seen_as(view)
        own_seed = (seed + zlib.crc32(name.encode())) % 2**31
        predict = model(seen, effort, own_seed)
        guessed = seen.finished(predict)(view(test))
        results.append(scores.result(name, *guessed, n_rows=len(rows)))
    return tuple(results)


def attacker_names(
    kind: str, budget: str, attackers: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Check names of attackers, or take those of the budget; return their names for the kind."""
    check_choice("budget", budget, tuple(BUDGETS))
    renamed = ROWS[kind].renamed
    chosen = BUDGETS[budget].attackers if attackers is None else attackers
    names = (chosen,) if isinstance(chosen, str) else tuple(chosen)
    every = tuple(renamed.get(name, name) for name in ATTACKERS)
    if not names:
        raise ValueError(f"Got no attackers, but expected some of: {', '.join(every)}.")
    names = tuple(renamed.get(name, name) for name in names)
    for name in names:
        check_choice("attackers", name, every)
    return tuple(dict.fromkeys(names))


def checked_rows(X_train: Any, X_test: Any) -> tuple[Array, Array]:
    """Check training and test rows: finite numbers of the same features."""
    from sklearn.utils.validation import check_array

    both: list[Array] = []
    for name, X in (("X_train", in_memory(X_train)), ("X_test", in_memory(X_test))):
        refuse_nonfinite(X)
        both.append(check_array(X, dtype=np.float64, input_name=name))
        refuse_extreme(both[-1])
    rows, test_rows = both
    if rows.shape[1] != test_rows.shape[1]:
        raise ValueError(
            f"Got {test_rows.shape[1]} features in X_test and {rows.shape[1]} in X_train, but "
            "expected the same number."
        )
    return rows, test_rows
