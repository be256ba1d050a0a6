"""Features of concepts: the vectors ψ(z) whose products say how alike two values are.

If all covariances of ψ(z) with functions of x are zero, then x is independent of z. Classes have
exact features. Numbers have those of a Gaussian kernel at the median distance, by Nyström's method
and principal components: a number needs about ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.rows import generator

Array = NDArray[np.float64]
#: Values whose kernels span the features of numbers.
LANDMARKS = 128
#: Share of kernel variance that may be lost; maximum number of features.
LOST, MOST_FEATURES = 1e-3, 32
#: The most columns of products of features; of more, random directions are taken.
MOST_PRODUCTS = 128
#: Classes of few rows count less, as if each had this many rows more.
FEW_ROWS = 10
#: Folds of a regression that predicts features of a concept.
FOLDS = 5


def unit_variance(psi: Array, groups: NDArray[Any] | None = None) -> Array:
    """Centre features, within groups if there are any, and scale their variances to add to one."""
    psi = centred(psi, groups)
    total = float(np.square(psi).sum() / max(len(psi), 1))
    return psi / np.sqrt(total) if total > 0 else psi


def centred(values: Array, groups: NDArray[Any] | None = None) -> Array:
    """Subtract the mean, or the mean of each group."""
    if groups is None:
        return values - values.mean(axis=0)
    _, codes = np.unique(groups, return_inverse=True)
    counts = np.bincount(codes)
    sums = np.zeros((len(counts), values.shape[1]))
    np.add.at(sums, codes, values)
    return np.asarray(values - (sums / counts[:, None])[codes])


def class_features(codes: NDArray[np.int64]) -> Array:
    """Compute class features in which every pair of classes weighs the same, as in the paper.

    ψ·ψ′ = (1[k = l] − 1/K)/(pₖpₗ), so that HSIC is the sum of MMD² over all pairs of classes, but
    for a factor. Classes of few rows weigh less: pₖ is that of a class with ten rows more.
    """
    _, codes = np.unique(codes, return_inverse=True)
    counts = np.bincount(codes)
    K = len(counts)
    # Orthonormal columns, orthogonal to the vector of ones.
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, : K - 1]]))[0][:, 1:]
    return np.asarray((basis / (counts + FEW_ROWS)[:, None])[codes] * len(codes))


def number_features(values: NDArray[Any], random_state: Any = None) -> Array:
    """Compute features (n, m ≤ 32) of a Gaussian kernel of numbers at their median distance.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
        Numbers, in any units.
    random_state : int, RandomState, Generator or None
        Decides which vectors are landmarks; those of single numbers are their quantiles.

    Notes
    -----
    O(n·128·(c + 128)) time. Products of features differ from the kernel, centred, by a thousandth
    of its mean square.

    Examples
    --------
    >>> number_features(np.linspace(0, 1, 50)).shape[0]
    50
    """
    values = np.asarray(values, dtype=np.float64).reshape(len(values), -1)
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    landmarks = _landmarks(values, random_state)
    squares = _squared_distances(landmarks, landmarks)
    distances = np.sqrt(squares[np.triu_indices(len(landmarks), 1)])
    sigma = float(np.median(distances)) or float(distances.mean()) or 1.0
    eigenvalues, vectors = np.linalg.eigh(np.exp(squares / (-2 * sigma**2)))
    mask = eigenvalues > 1e-8 * eigenvalues[-1]
    root = vectors[:, mask] / np.sqrt(eigenvalues[mask])
    psi = np.exp(_squared_distances(values, landmarks) / (-2 * sigma**2)) @ root
    return _principal(psi - psi.mean(axis=0))


def _landmarks(values: Array, random_state: Any) -> Array:
    different = np.unique(values, axis=0)
    if len(different) <= LANDMARKS:
        return different
    if values.shape[1] == 1:
        return np.unique(np.quantile(values, np.linspace(0, 1, LANDMARKS)))[:, None]
    chosen = generator(random_state).choice(len(different), LANDMARKS, replace=False)
    return np.asarray(different[np.sort(chosen)])


def _squared_distances(A: Array, B: Array) -> Array:
    squares = np.square(A).sum(axis=1)[:, None] + np.square(B).sum(axis=1) - 2 * A @ B.T
    return np.maximum(squares, 0.0)


def _principal(psi: Array) -> Array:
    """Project onto the principal components that hold nearly all variance."""
    variances, vectors = np.linalg.eigh(psi.T @ psi / len(psi))
    variances, vectors = variances[::-1], vectors[:, ::-1]
    lost = 1 - np.cumsum(variances) / max(variances.sum(), np.finfo(float).tiny)
    n = min(int(np.argmax(lost <= LOST)) + 1, MOST_FEATURES)
    return np.asarray(psi @ vectors[:, :n])


def products(parts: list[Array], random_state: Any = None) -> Array:
    """Multiply one column of each part in all combinations: (n, Πm), or (n, 128) at random.

    More columns than that are replaced by random combinations, which keep ψ·ψ′ on average.
    """
    psi = parts[0]
    for part in parts[1:]:
        psi = (psi[:, :, None] * part[:, None, :]).reshape(len(psi), -1)
        if psi.shape[1] > MOST_PRODUCTS:
            signs = generator(random_state).normal(size=(psi.shape[1], MOST_PRODUCTS))
            psi = psi @ signs / np.sqrt(MOST_PRODUCTS)
    return psi


def predicted(psi: Array, phi: Array, rng: np.random.Generator) -> Array:
    """Predict ψ from φ by cross-validated ridge regression, each row from the other folds."""
    from sklearn.linear_model import RidgeCV

    fold = rng.permutation(len(psi)) % FOLDS
    out = np.empty_like(psi)
    for k in range(FOLDS):
        model = RidgeCV(np.logspace(-6, 2, 9)).fit(phi[fold != k], psi[fold != k])
        out[fold == k] = model.predict(phi[fold == k]).reshape(-1, psi.shape[1])
    return out
