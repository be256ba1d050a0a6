"""The power of the attackers: how much of what could be learned does the strongest one find?

On each law the attackers learn from 10,000 rows and are judged on other rows. The yardstick is an
ideal learner: it knows the form of the law, and learns its parameters from the same rows by a
search that only this knowledge allows. A law of which even that learner finds nothing is not
learnable from these rows by any search that we know.

Run: python -m benchmarks power
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.datasets.synthetic import law
from unspot.evaluation.attackers import attack
from unspot.evaluation.inference import recalls
from unspot.evaluation.two_sample import two_sample_test

Array = NDArray[Any]
Guess = Callable[[Array], Array]  # rows (n, d) → classes (n,)
Ideal = Callable[[Array, Array], Guess]
Draw = Callable[[np.random.Generator, int], tuple[Array, Array]]

N_LEARN, D = 10_000, 20
#: An ideal learner below this advantage has found nothing.
LEARNABLE = 0.005


@dataclass(frozen=True)
class Law:
    draw: Draw
    ideal: Ideal
    n_test: int = 10_000


# -- ideal learners --------------------------------------------------------------------------------


def _best_of(candidates: Callable[[Array], Iterator[Array]]) -> Ideal:
    """Try every parameter: each candidate is a guess in {−1, 1}, and the best one is kept."""

    def ideal(X: Array, z: Array) -> Guess:
        signs = 2.0 * z - 1
        agreement = np.array([np.dot(guess, signs) for guess in candidates(X)])
        best = int(np.argmax(np.abs(agreement)))

        def guess(rows: Array) -> Array:
            chosen = next(g for i, g in enumerate(candidates(rows)) if i == best)
            return (chosen * agreement[best] > 0).astype(int)

        return guess

    return ideal


def _threshold(statistic: Callable[[Array], Array]) -> Ideal:
    """Learn the threshold of one known number per row."""

    def ideal(X: Array, z: Array) -> Guess:
        values = statistic(X)
        order = np.argsort(values, kind="stable")
        excess = np.cumsum(np.where(z[order] == 1, 1 / (z == 1).sum(), -1 / (z == 0).sum()))
        last = np.append(np.diff(values[order]) > 0, False)  # no cut between equal values
        cut = int(np.argmax(np.where(last, np.abs(excess), 0)))
        middle = values[order][cut : cut + 2].mean()
        return lambda rows: ((statistic(rows) > middle) == (excess[cut] < 0)).astype(int)

    return ideal


def _linear(features: Callable[[Array], Array] = np.asarray) -> Ideal:
    """Least squares, in coordinates in which every direction has the same size."""

    def ideal(X: Array, z: Array) -> Guess:
        mean = features(X).mean(axis=0)
        _, sizes, directions = np.linalg.svd(features(X) - mean, full_matrices=False)
        W = directions.T / sizes
        weights = W @ (((features(X) - mean) @ W).T @ (z - z.mean()))
        return lambda rows: ((features(rows) - mean) @ weights > 0).astype(int)

    return ideal


def _known(guess: Guess) -> Ideal:
    """Return the best possible rule; there is nothing to learn."""
    return lambda X, z: guess


def _smallest_component(X: Array, z: Array) -> Guess:
    """Learn a threshold on the component of least variance."""
    w = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][-1]
    return _threshold(lambda rows: np.abs(rows @ w))(X, z)


def _by_argmax(X: Array, z: Array) -> Guess:
    majority = np.array([z[X.argmax(axis=1) == j].mean() > 0.5 for j in range(X.shape[1])])
    return lambda rows: majority[rows.argmax(axis=1)].astype(int)


def _outliers(X: Array, z: Array) -> Guess:
    """Learn the column and the size beyond which its sign is the class."""
    signs = 2.0 * z - 1
    cuts = np.linspace(2, 6, 41)
    gains = np.array(
        [[np.sum(np.sign(x) * signs * (np.abs(x) > cut)) for cut in cuts] for x in X.T]
    )
    column, place = np.unravel_index(np.argmax(np.abs(gains)), gains.shape)
    sign = np.sign(gains[column, place])

    def guess(rows: Array) -> Array:
        x = rows[:, column]
        return np.where(np.abs(x) > cuts[place], sign * x > 0, 0).astype(int)

    return guess


def _waves(n_starts: int = 100_000, n_refined: int = 50) -> Ideal:
    """Search frequencies from many starts: sign(sin(wᵀx + phase))."""

    def ideal(X: Array, z: Array) -> Guess:
        rng = np.random.default_rng(1)
        rows, signs = X.astype(np.float32), (2.0 * z - 1).astype(np.float32)
        d = X.shape[1]
        starts = rng.normal(size=(d, n_starts))
        starts *= rng.uniform(1, 12, size=n_starts) / np.linalg.norm(starts, axis=0)
        W = starts.astype(np.float32)
        sizes = np.concatenate(
            [np.abs(_wave_sums(rows, signs, part)) for part in np.split(W, n_starts // 100, axis=1)]
        )
        best = W[:, np.argsort(-sizes)[:n_refined]].astype(np.float64)
        for _ in range(300):  # the gradient of |Σ s·exp(iwᵀx)|² in steps of the kernel's width
            waves = np.exp(1j * (X @ best)) * (2.0 * z - 1)[:, None]
            sums = waves.sum(axis=0)
            slope = np.real((1j * (X.T @ waves)) * np.conj(sums)) / np.abs(sums) ** 2
            best += 0.5 * slope
        sums = _wave_sums(X, 2.0 * z - 1, best)
        top = int(np.argmax(np.abs(sums)))
        w, phase = best[:, top], np.angle(sums[top])
        return lambda rows: (np.cos(rows @ w - phase) > 0).astype(int)

    return ideal


def _wave_sums(X: Array, signs: Array, W: Array) -> Array:
    phases = X @ W
    return signs @ np.cos(phases) + 1j * (signs @ np.sin(phases))


def _products(k: int) -> Callable[[Array], Iterator[Array]]:
    def candidates(X: Array) -> Iterator[Array]:
        signs = np.sign(X)
        for columns in combinations(range(X.shape[1]), k):
            yield signs[:, columns].prod(axis=1)

    return candidates


def _boards(widths: Array) -> Callable[[Array], Iterator[Array]]:
    def candidates(X: Array) -> Iterator[Array]:
        for width in widths:
            cells = 1.0 - 2 * (np.floor(X / width) % 2)
            for i, j in combinations(range(X.shape[1]), 2):
                yield cells[:, i] * cells[:, j]

    return candidates


def _sines(X: Array) -> Iterator[Array]:
    for frequency in np.arange(0.5, 12, 0.05):
        yield from np.sign(np.sin(frequency * X)).T


# -- laws ------------------------------------------------------------------------------------------


def _function_of_rows(concept: Callable[[Array], Array], d: int = D) -> Draw:
    """Draw standard normal rows, and a concept that they determine."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        X = rng.normal(size=(n, d))
        return X, np.asarray(concept(X)).astype(int)

    return draw


def _rows_of_class(change: Callable[[Array, Array, np.random.Generator], Array]) -> Draw:
    """Draw standard normal rows that are changed by their class."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        z = rng.integers(2, size=n)
        return change(rng.normal(size=(n, D)), z, rng), z

    return draw


_ROTATION = np.linalg.qr(np.random.default_rng(0).normal(size=(D, D)))[0]


def _small_direction(size: float) -> Draw:
    def change(X: Array, z: Array, rng: np.random.Generator) -> Array:
        X[:, 0] = size * (X[:, 0] + 2.17 * (2 * z - 1)) / 2.4
        return X @ _ROTATION

    return _rows_of_class(change)


def _small_spread(X: Array, z: Array, rng: np.random.Generator) -> Array:
    X[:, 0] *= 1e-4 * (1 + 2 * z)
    return X @ _ROTATION


def _removed_from_unit_rows(X: Array, z: Array, rng: np.random.Generator) -> Array:
    """Project the concept's direction out of rows of unit norm."""
    X[:, 0] += 1 + 2 * z
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X[:, 1:] @ _ROTATION[1:]


def _in_few_rows(X: Array, z: Array, rng: np.random.Generator) -> Array:
    told = rng.random(len(X)) < 0.02
    X[told, 3] = (6 * (2 * z - 1) + X[:, 3])[told]
    return X


def _lowest_bit(X: Array, z: Array, rng: np.random.Generator) -> Array:
    bits = X.view(np.int64)
    bits[:, 3] = (bits[:, 3] & ~1) | z
    return X


def _through_half(X: Array, z: Array, rng: np.random.Generator) -> Array:
    return np.where(z[:, None] == 1, X.astype(np.float16).astype(np.float64), X)


def _unit_norm(X: Array, z: Array, rng: np.random.Generator) -> Array:
    return X / np.linalg.norm(X, axis=1, keepdims=True) * np.where(z, 1.001, 1.0)[:, None]


def _kurtosis(X: Array, z: Array, rng: np.random.Generator) -> Array:
    """Draw uniform or Laplace numbers of mean 0 and variance 1."""
    uniform = rng.uniform(-(3**0.5), 3**0.5, size=len(X))
    laplace = rng.laplace(scale=0.5**0.5, size=len(X))
    # Rounded alike: numbers from different formulas would be known by their last bits.
    X[:, 3] = np.where(z, uniform, laplace).astype(np.float32)
    return X


def _tail(X: Array, z: Array, rng: np.random.Generator) -> Array:
    # No factor of 1: rows that are not rounded again would be known by their last bits.
    return X * (0.7 * np.where(z, np.sqrt(3 / rng.chisquare(3, size=len(X))), 1.0))[:, None]


def _correlation(X: Array, z: Array, rng: np.random.Generator) -> Array:
    X[:, 3] = 0.6 * (2 * z - 1) * X[:, 5] + 0.8 * X[:, 3]
    return X


def _shift(X: Array, z: Array, rng: np.random.Generator) -> Array:
    return X + 0.1 * (2 * z[:, None] - 1) * _ROTATION[0]


def _tail_ratio(X: Array) -> Array:
    """Compute the log density ratio of Student's t₃ and the normal distribution."""
    from scipy.special import gammaln

    d, squared = X.shape[1], ((X / 0.7) ** 2).sum(axis=1)
    constant = gammaln((3 + d) / 2) - gammaln(1.5) - d / 2 * np.log(3 / 2)
    return constant - (3 + d) / 2 * np.log1p(squared / 3) + squared / 2


def _board(width: float) -> Draw:
    return _function_of_rows(lambda X: (np.floor(X[:, 3] / width) + np.floor(X[:, 8] / width)) % 2)


def _four_by_four(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    X = rng.uniform(size=(n, D))
    return X, ((np.floor(4 * X[:, 3]) + np.floor(4 * X[:, 8])) % 2).astype(int)


def _wave(frequency: float, d: int) -> Law:
    a = np.random.default_rng(1).normal(size=d)
    a /= np.linalg.norm(a)
    return Law(_function_of_rows(lambda X: np.sin(frequency * X @ a) > 0, d), _waves())


def _gaussian(name: str) -> Law:
    """Take a law of the package, with its Bayes rule as the ideal learner."""
    rows = law(name, n=1, d=D)

    def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        return rows.sample(n, random_state=rng)

    return Law(draw, _known(lambda X: densities(rows, X, np.eye(D)).argmax(axis=1)))


def densities(rows: Any, X: Array, U: Array) -> Array:
    """Compute p(Uᵀx | class), (n, K), of a law of the package as the law is defined."""
    from scipy.stats import multivariate_normal, multivariate_t

    classes, A, Y = rows._classes, U.T @ rows.concept_basis, X @ U  # A is (r, q)
    out = np.zeros((len(X), rows.n_classes))
    for k in range(rows.n_classes):
        for mean, variances in zip(classes.means[k], classes.variances[k], strict=True):
            shape = np.eye(U.shape[1]) + A @ np.diag(variances - 1) @ A.T
            if classes.df is None:
                out[:, k] += multivariate_normal(A @ mean, shape).pdf(Y)
            else:
                out[:, k] += multivariate_t(A @ mean, shape, df=classes.df).pdf(Y)
    return out


def _exact_in_half(X: Array) -> Array:
    return (X.astype(np.float16) == X).sum(axis=1)


def _norm(X: Array) -> Array:
    return np.linalg.norm(X, axis=1)


def _columns_of(statistic: Callable[[Array], Array]) -> Callable[[Array], Iterator[Array]]:
    """Yield a sign for every column."""
    return lambda X: iter(statistic(X).T)


LAWS: dict[str, Law] = {
    **{f"rotated direction of size {s:g}": Law(_small_direction(s), _linear()) for s in
       (1e-2, 1e-4, 1e-6, 1e-7)},
    "sin(8 aᵀx), 20 columns": _wave(8, 20),
    "sin(3 aᵀx), 20 columns": _wave(3, 20),
    "sin(8 aᵀx), 5 columns": _wave(8, 5),
    "checkerboard 4 × 4": Law(_four_by_four, _best_of(_boards(1 / np.arange(1, 13)))),
    "checkerboard, cells of 0.5": Law(_board(0.5), _best_of(_boards(np.arange(0.1, 2, 0.1)))),
    "2 % of the rows": Law(_rows_of_class(_in_few_rows), _outliers, n_test=50_000),
    "parity of 4 signs": Law(
        _function_of_rows(lambda X: X[:, [2, 5, 11, 17]].prod(axis=1) > 0), _best_of(_products(4))
    ),
    "parity of 3 signs": Law(
        _function_of_rows(lambda X: X[:, [2, 5, 11]].prod(axis=1) > 0), _best_of(_products(3))
    ),
    "lowest bit of a column": Law(
        _rows_of_class(_lowest_bit), _best_of(_columns_of(lambda X: 2.0 * (X.view("i8") & 1) - 1))
    ),
    "parity of 10⁴ x": Law(
        _function_of_rows(lambda X: np.floor(1e4 * X[:, 3]) % 2),
        _best_of(
            lambda X: (2 * (np.floor(10.0**k * x) % 2) - 1 for k in range(8) for x in X.T)
        ),
    ),
    "one class through float16": Law(_rows_of_class(_through_half), _threshold(_exact_in_half)),
    "norm 1 or 1.001": Law(_rows_of_class(_unit_norm), _threshold(_norm)),
    "direction removed from unit rows": Law(
        _rows_of_class(_removed_from_unit_rows), _threshold(_norm)
    ),
    "spread of a direction of size 1e-4": Law(_rows_of_class(_small_spread), _smallest_component),
    "xor": _gaussian("xor"),
    "ring": _gaussian("ring"),
    "mixture": _gaussian("mixture"),
    "radial": Law(_function_of_rows(lambda X: _norm(X) > 4.4), _threshold(_norm)),
    "sin(8 x₃)": Law(
        _function_of_rows(lambda X: np.sin(8 * X[:, 3]) > 0), _best_of(_sines)
    ),
    "kurtosis": Law(
        _rows_of_class(_kurtosis),
        _best_of(
            _columns_of(
                lambda X: np.where(
                    (np.abs(X) < 3**0.5) & (np.exp(-(2**0.5) * np.abs(X)) < 1 / 6**0.5), 1.0, -1.0
                )
            )
        ),
    ),
    "tail": Law(_rows_of_class(_tail), _known(lambda X: (_tail_ratio(X) > 0).astype(int))),
    "sign of a correlation": Law(_rows_of_class(_correlation), _best_of(_products(2))),
    "shift of 0.2": Law(_rows_of_class(_shift), _linear(), n_test=50_000),
    "parity of the argmax": Law(_function_of_rows(lambda X: X.argmax(axis=1) % 2), _by_argmax),
    "sum of cubes": Law(
        _function_of_rows(lambda X: (X**3).sum(axis=1) > 0), _linear(lambda X: X**3)
    ),
}  # fmt: skip


# -- the measurement -------------------------------------------------------------------------------


def run() -> dict[str, Any]:
    """Measure advantages for every law; ``coverage`` counts false alarms."""
    laws = {}
    for name in LAWS:
        laws[name] = found = measured(name)
        print(
            f"  {name:36} ideal {100 * found['ideal']:5.1f}, strongest "
            f"{100 * found['advantage']:5.1f} ({found['strongest']})",
            flush=True,
        )
    shares = [found["share"] for found in laws.values() if found["share"] is not None]
    return {
        "rows": N_LEARN,
        "budget": "standard",
        "learnable": len(shares),
        "smallest_share": min(shares),
        "laws": laws,
    }


def measured(name: str, budget: str = "standard", attackers: Any = None) -> dict[str, Any]:
    """Measure the ideal learner and all attackers on one law."""
    this = LAWS[name]
    X, z = this.draw(np.random.default_rng(1), N_LEARN)
    X_test, z_test = this.draw(np.random.default_rng(2), this.n_test)
    started = time.process_time()
    guesses = this.ideal(X, z)(X_test)
    seconds = time.process_time() - started
    K = int(z.max()) + 1
    ideal = float(recalls(guesses, z_test, K).mean()) - 1 / K
    started = time.process_time()
    found = attack(X, z, X_test, z_test, budget=budget, attackers=attackers)
    strongest = max(found, key=lambda result: result.advantage)
    return {
        "ideal": ideal,
        "ideal_cpu_seconds": seconds,
        "advantage": strongest.advantage,
        "share": strongest.advantage / ideal if ideal > LEARNABLE else None,
        "strongest": strongest.name,
        "cpu_seconds": time.process_time() - started,
        "two_sample_p": two_sample_test(X_test, z_test).p_value,
        "attackers": {result.name: result.advantage for result in found},
    }


if __name__ == "__main__":
    print(run())
