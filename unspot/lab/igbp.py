"""IGBP: rows projected onto the decision boundary of one neural probe after another."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count, check_share
from unspot.data.concept import Classes
from unspot.data.rows import generator, sample_and_held_out
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.lab.classifiers import fit_classifier
from unspot.lab.inlp import balanced_accuracy, chance_bar
from unspot.lab.maps import Boundary
from unspot.lab.scaling import rows_within_support
from unspot.maps import Compress, Expand, Map

#: The damping of a step, as a share of the median squared gradient.
_DAMPING = 1e-2


class IGBP(BaseEraser):
    """Iterative gradient-based projection: every row moves to where a neural probe cannot decide.

    Round after round a fresh network learns the concept from the rows as they are by then, and
    every row moves along its gradient onto its decision boundary, x − f(x)∇f(x)/‖∇f(x)‖². With
    more than two classes it moves to the nearest point, to first order, where all scores are
    equal. It ends when a probe guesses on rows that were held out.

    The rows stay in their space. There is no guarantee for other attackers than these probes.

    Cost: every round trains a network, and costs O(nKd·128). To apply: O(Kd·128) per row and round.

    Parameters
    ----------
    n_rounds : int
        The most probes. The paper has up to 100.
    n_epochs : int
        The most epochs of a probe.
    tolerance : float
        It ends when the held-out balanced accuracy is at most this many standard errors above that
        of a guess; below 0 it runs all rounds.
    validation_fraction : float
        The stratified part that is held out to say when to stop; 0 for none.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
        Its metadata have the number of ``rounds``.
    accuracies_ : list of float
        The held-out balanced accuracy of each probe.
    classes_ : ndarray

    References
    ----------
    S. Iskander, K. Radinsky, Y. Belinkov, "Shielded Representations: Protecting Sensitive
    Attributes Through Iterative Gradient-Based Projection", Findings of ACL 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 3)) + [4, 0, 0] * z[:, None]
    >>> moved = IGBP(n_rounds=3, random_state=0).fit_transform(X, z)
    >>> gap = moved[z == 0].mean(axis=0) - moved[z == 1].mean(axis=0)
    >>> bool(abs(gap).max() < 1)
    True
    """

    min_rows_per_class: ClassVar[int] = 2

    def __init__(
        self,
        *,
        n_rounds: int = 10,
        n_epochs: int = 20,
        tolerance: float = 1.0,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.n_epochs = n_epochs
        self.tolerance = tolerance
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        n_rounds = check_count("n_rounds", self.n_rounds)
        share = check_share("validation_fraction", self.validation_fraction)
        rng, codes = generator(self.random_state), target.codes
        train, held_out = sample_and_held_out(codes, len(X), rng, held_out_share=share)
        if not len(held_out):
            held_out = train
        S, rows = rows_within_support(X)
        bar = chance_bar(codes[held_out], self.tolerance)
        steps: list[Boundary] = []
        self.accuracies_: list[float] = []
        for _ in range(n_rounds):
            probe = fit_classifier(
                "network", rows[train], codes[train], rng, n_epochs=self.n_epochs
            )
            guesses = probe.scores(rows[held_out]).argmax(-1)
            self.accuracies_.append(balanced_accuracy(codes[held_out], guesses))
            if steps and self.accuracies_[-1] <= bar:
                break
            steps.append(step_of(probe.arrays(), rows[train]))
            rows = steps[-1](rows)
        maps: tuple[Map, ...] = tuple(steps)
        if S is not None:
            maps = (Compress(S), *maps, Expand(S))
        return Eraser(maps, {"rounds": len(steps)})


def step_of(arrays: dict[str, Any], rows: NDArray[Any]) -> Boundary:
    """Make the step of a probe, damped by a share of its median squared gradient."""
    exact = Boundary(**arrays, damping=0.0)
    J = exact.gradients(rows[:: -(-len(rows) // 1000)])
    return Boundary(**arrays, damping=_DAMPING * float(np.median(np.square(J).sum(axis=(1, 2)))))
