"""R-LACE: a projection that wins a game against a linear adversary."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.erasers.leace import warn_if_all
from unspot.erasers.linear_game import ADVERSARIES, Game, fantope
from unspot.erasers.parameters import (
    check_choice,
    check_count,
    check_positive,
    check_share,
)
from unspot.erasers.scaling import Scaling
from unspot.labels import Labels
from unspot.projections import complement
from unspot.sampling import generator, sample_and_held_out

__all__ = ["RLACE"]

#: Steps between two looks at the held-out part.
_CHECK_EVERY = 10


class RLACE(BaseEraser):
    """Relaxed linear adversarial concept erasure: an orthogonal eraser of few directions.

    The game max_A min_θ L(X(I − A), z; θ), where θ is a linear adversary and A is relaxed from
    projectors of rank k to the Fantope {0 ⪯ A ⪯ I, tr A = k}. The adversary answers each A with
    its optimum, so that the loss is a concave function of A with a known gradient; A takes a
    step along it and is projected back on the Fantope (eigenvalues clipped). The result is
    I − QQᵀ, with Q the top k eigenvectors of the A whose projector serves best on a held-out
    part.

    Cost: an iteration takes O(ndK) for each of some ten steps of the adversary, and O(d³) for
    the projection; some 30 iterations are enough.

    Parameters
    ----------
    n_directions : int, optional
        k, the dimensions to remove; by default K − 1, or all d where there are no more.
    loss : {"logistic", "squared"}
        The adversary's loss: cross-entropy, or squares of one-hot labels. With "squared" the
        optimum is known: the span of the differences of class means.
    penalty : float
        The adversary's penalty in the game, on embeddings of unit variance. Against a weakly
        penalised adversary only a complete projection helps, since it undoes any other by larger
        weights; the game is then flat, and slow. The held-out adversary is hardly penalised.
    n_iterations : int
        The most steps of A.
    tolerance : float
        Training ends when the adversary's held-out loss is within this share of that of the
        class shares alone.
    validation_fraction : float
        The stratified part that is held out to choose and stop by.
    max_rows : int
        The most rows that the adversary is fitted on, drawn at random.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        An orthogonal projection of rank d − k.
    directions_ : ndarray of shape (d, k)
        Orthonormal basis of what was removed.
    n_iter_ : int
        Steps taken; 0 where all dimensions are removed, and there is nothing to play for.

    References
    ----------
    S. Ravfogel et al., "Linear Adversarial Concept Erasure", ICML 2022.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 100)
    >>> X = rng.normal(size=(200, 4)) + 3 * (z == "b")[:, None] * np.eye(4)[0]
    >>> RLACE(random_state=0).fit(X, z).eraser_.rank
    3
    """

    def __init__(
        self,
        *,
        n_directions: int | None = None,
        loss: Literal["logistic", "squared"] = "logistic",
        penalty: float = 1.0,
        n_iterations: int = 200,
        tolerance: float = 1e-3,
        validation_fraction: float = 0.1,
        max_rows: int = 20_000,
        random_state: Any = None,
    ) -> None:
        self.n_directions = n_directions
        self.loss = loss
        self.penalty = penalty
        self.n_iterations = n_iterations
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.max_rows = max_rows
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Labels) -> Eraser:
        d, n_classes = X.shape[1], len(target.classes)
        k = min(n_classes - 1, d) if self.n_directions is None else self.n_directions
        k = check_count("n_directions", k, most=d)
        adversary = ADVERSARIES[check_choice("loss", self.loss, tuple(ADVERSARIES))]
        kept, held = sample_and_held_out(
            target.codes,
            min(check_count("max_rows", self.max_rows, least=2), len(X)),
            generator(self.random_state),
            held_out_share=check_share("validation_fraction", self.validation_fraction),
        )
        held = held if len(held) else kept
        one_hot = np.eye(n_classes)[target.codes]
        scaled = Scaling.of(X[kept])
        self.directions_ = self._play(
            Game(
                adversary,
                scaled(X[kept]),
                one_hot[kept],
                scaled(X[held]),
                one_hot[held],
                check_positive("penalty", self.penalty),
            ),
            k,
        )
        warn_if_all(self.directions_, stacklevel=4)
        return Eraser.projection(complement(self.directions_), iterations=self.n_iter_)

    def _play(self, game: Game, k: int) -> NDArray[np.float64]:
        d = game.X.shape[1]
        n_iterations = check_count("n_iterations", self.n_iterations)
        self.n_iter_ = 0
        if k == d:
            return np.eye(d)
        A, theta = np.eye(d) * (k / d), None
        best, best_loss, squares = np.eye(d)[:, :k], -np.inf, 0.0
        least = k * np.finfo(float).tiny  # a gradient of nothing but zeros is a step of length 0
        for step in range(1, n_iterations + 1):
            self.n_iter_ = step
            theta = game.answer(np.eye(d) - A, theta)
            gradient = game.gradient(np.eye(d) - A, theta)
            squares += float(np.sum(gradient**2))
            # Steps of AdaGrad's size, which have no unit: the first is as long as A can move.
            A = fantope(A + gradient * np.sqrt(k / max(squares, least)), k)
            if step % _CHECK_EVERY and step < n_iterations:
                continue
            Q = np.linalg.eigh(A)[1][:, -k:]
            loss = game.held_out_loss(Q)
            if loss > best_loss:
                best, best_loss = Q, loss
            if loss >= (1 - self.tolerance) * game.prior_loss:
                break
        return np.ascontiguousarray(best)
