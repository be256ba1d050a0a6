"""FLEACE: free-form LEACE, by a calibrated classifier (Belrose 2023)."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.data.concept import Classes
from unspot.data.rows import generator
from unspot.data.statistics import CrossStatistics
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.lab.classifiers import cooled, fit_classifier, out_of_fold_scores, temperature
from unspot.lab.maps import FreeForm, softmax

__all__ = ["FLEACE", "regression"]

Array = NDArray[np.float64]


class FLEACE(BaseEraser):
    """The least change of all functions of x after which no linear probe finds the concept.

    Each row moves by r(x) = x − Σxf Σff⁺ (f(x) − E f), where f(x) = P(z|x). If f is right, then
    Cov(r(x), z) = 0, and no other function of x that has this changes x less in mean square. LEACE
    is the best of the *affine* functions; it drops directions, FLEACE moves rows and drops none.

    The posterior is that of a classifier, calibrated by one temperature. The covariances are
    computed from rows that the classifier has not seen (``n_folds``), since on its own rows it
    knows too much.

    A nonlinear classifier may still find the concept: the rows move by their class as f sees it.

    Cost: ``n_folds`` + 1 fits of the classifier, and O(n(d + K)²). To apply: O(dK) per row, or
    O(d·128) with the network.

    Parameters
    ----------
    classifier : {"logistic", "network"}
        What f is: logistic regression, or a network of one hidden layer with 128 units.
    n_folds : int
        At least 2; fewer if a class has fewer rows.
    n_epochs : int
        The most epochs of the network.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        Its metadata have the ``temperature``.
    classes_ : ndarray

    References
    ----------
    N. Belrose, "Free Form Least-Squares Concept Erasure Without Oracle Concept Labels", EleutherAI
    blog, 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 3)) + [2, 0, 0] * z[:, None]
    >>> moved = FLEACE(random_state=0).fit_transform(X, z)
    >>> gap = moved[z == 0].mean(axis=0) - moved[z == 1].mean(axis=0)
    >>> bool(abs(gap).max() < 0.1)
    True
    """

    min_rows_per_class: ClassVar[int] = 2

    def __init__(
        self,
        *,
        classifier: Literal["logistic", "network"] = "logistic",
        n_folds: int = 5,
        n_epochs: int = 50,
        random_state: Any = None,
    ) -> None:
        self.classifier = classifier
        self.n_folds = n_folds
        self.n_epochs = n_epochs
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        rng = generator(self.random_state)
        fit = partial(fit_classifier, self.classifier, rng=rng, n_epochs=self.n_epochs)
        rows = X.astype(np.float64, copy=False)
        scores = out_of_fold_scores(fit, rows, target.codes, rng, self.n_folds)
        T = temperature(scores, target.codes)
        left, centre = regression(rows, softmax(scores / T))
        frozen = cooled(fit(rows, target.codes), T)
        return Eraser((FreeForm(**frozen, left=left, centre=centre),), {"temperature": T})


def regression(X: Array, F: Array) -> tuple[Array, Array]:
    """Σxf Σff⁺ of shape (d, K) and E f of shape (K,), from rows and the posteriors of each."""
    joint = CrossStatistics.from_rows(X, F)
    d = X.shape[1]
    scatter = joint.joint_scatter
    # The K posteriors add up to one, so that one direction has no variance.
    left = scatter[:d, d:] @ np.linalg.pinv(scatter[d:, d:], rcond=1e-10, hermitian=True)
    return left, np.array(joint.joint_mean[d:])
