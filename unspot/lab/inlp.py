"""INLP: the null space of one linear classifier after another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score

from unspot.checks import check_count, check_positive, check_share
from unspot.data.concept import Classes
from unspot.data.rows import generator, sample_and_held_out
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.evaluation.attack_models import quiet_logistic
from unspot.lab.scaling import Scaling, in_own_order
from unspot.leopard.subspaces import complement

__all__ = ["INLP", "balanced_accuracy", "chance_bar", "row_space"]


class INLP(BaseEraser):
    """Iterative null-space projection: an orthogonal eraser of what linear classifiers find.

    In each round a logistic regression is fitted in the subspace that is left, and the span of
    its weights is taken out. The result is the orthogonal projector on the exact intersection of
    the null spaces of all classifiers: each round works in coordinates of the subspace that the
    previous rounds left, so no projection is applied on top of another.

    Each round removes K − 1 dimensions, so many rounds remove much more than LEACE does.
    Cost: O(n_rounds·n·d·K) times the iterations of a logistic regression.

    Parameters
    ----------
    n_rounds : int
        The most rounds; 35 for GloVe in the paper.
    C : float
        Inverse strength of the classifiers' penalty, on embeddings of unit variance.
    tolerance : float
        Rounds end when the held-out balanced accuracy is below chance plus this number of standard
        errors of a classifier that guesses. With a negative number all rounds are run.
    validation_fraction : float
        The stratified part that is held out to say when to stop.
    random_state : int, RandomState or None
        Decides the held-out part.

    Attributes
    ----------
    eraser_ : Eraser
        An orthogonal projection.
    directions_ : ndarray of shape (d, q)
        Orthonormal basis of what was removed.
    accuracies_ : list of float
        Held-out balanced accuracy of the classifier of each round, before its removal.
    n_rounds_ : int
        Rounds whose classifier was removed.

    References
    ----------
    S. Ravfogel et al., "Null It Out: Guarding Protected Attributes by Iterative Nullspace
    Projection", ACL 2020.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 5)) + 3 * (z == "b")[:, None] * np.eye(5)[0]
    >>> eraser = INLP(n_rounds=2, random_state=0).fit(X, z)
    >>> eraser.eraser_.rank < 5
    True
    """

    def __init__(
        self,
        *,
        n_rounds: int = 35,
        C: float = 1.0,
        tolerance: float = 1.0,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.C = C
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        n_rounds = check_count("n_rounds", self.n_rounds)
        order, codes = in_own_order(X, target.codes)
        fit_rows, held_out = sample_and_held_out(
            codes,
            len(X),
            generator(self.random_state),
            held_out_share=check_share("validation_fraction", self.validation_fraction),
        )
        if not len(held_out):
            held_out = fit_rows
        rows = X[order]
        rows = Scaling.of(rows)(rows)
        train, test = rows[fit_rows], rows[held_out]
        bar = chance_bar(codes[held_out], self.tolerance)
        U = np.eye(X.shape[1])  # what is left
        self.accuracies_: list[float] = []
        self.n_rounds_ = 0
        while self.n_rounds_ < n_rounds and U.shape[1]:
            classifier = self._classifier(train @ U, codes[fit_rows])
            predicted = classifier.predict(test @ U)
            self.accuracies_.append(balanced_accuracy(codes[held_out], predicted))
            removed = row_space(classifier.coef_)
            if self.accuracies_[-1] <= bar or not removed.shape[1]:
                break
            U = U @ complement(removed)
            self.n_rounds_ += 1
        self.directions_ = complement(U)
        return Eraser.projection(U, rounds=self.n_rounds_)

    def _classifier(self, X: NDArray[Any], codes: NDArray[np.int64]) -> LogisticRegression:
        classifier = LogisticRegression(
            C=check_positive("C", self.C), class_weight="balanced", max_iter=100, tol=1e-3
        )
        with quiet_logistic():  # it need not be optimal: that of the next round finds the rest
            return classifier.fit(X, codes)


def row_space(coef: NDArray[Any], *, rtol: float = 1e-6) -> NDArray[np.float64]:
    """Orthonormal basis (d, q) of the span of a classifier's weights, with its numerical rank."""
    _, values, right = np.linalg.svd(coef, full_matrices=False)
    significant = values > rtol * max(values[0], 1e-12)
    return np.ascontiguousarray(right[significant].T)


def balanced_accuracy(true: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Average the accuracies of the classes that occur."""
    # balanced_accuracy_score warns of predicted classes that are not in the held-out rows.
    return float(recall_score(true, predicted, average="macro", labels=np.unique(true)))


def chance_bar(codes: NDArray[np.int64], n_errors: float) -> float:
    """Balanced accuracy of a guess, plus a number of its standard errors."""
    counts = np.unique(codes, return_counts=True)[1]
    p = 1 / len(counts)
    error = np.sqrt(np.sum(p * (1 - p) / counts)) / len(counts)
    return float(p + n_errors * error) if n_errors >= 0 else -1.0
