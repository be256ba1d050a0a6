"""Erasers of other packages, through these packages, as contestants of the benchmark.

They are not part of ``unspot.methods()``: their results cannot be saved, and one of them needs
labels of the rows that it erases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unspot.data.concept import Classes
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.lab.classifiers import fit_classifier
from unspot.maps import Map

__all__ = ["ConceptErasureLEACE", "CorrelationRemoval", "foreign_contestants"]


def foreign_contestants() -> dict[str, BaseEraser]:
    """List the contestants whose packages are installed, by label."""
    contestants: dict[str, BaseEraser] = {}
    if find_spec("concept_erasure"):
        contestants["concept-erasure"] = ConceptErasureLEACE()
    if find_spec("fairlearn"):
        contestants["fairlearn"] = CorrelationRemoval()
        contestants |= {f"fairlearn/alpha={a}": CorrelationRemoval(alpha=a) for a in (0.5, 0.9)}
    return contestants


@dataclass(frozen=True, eq=False)
class Called(Map):
    """A function of rows (n, d) → (n, d) that another package has fitted."""

    kind: ClassVar[str] = "foreign"

    width: int
    function: Callable[[NDArray[Any]], NDArray[Any]]

    @property
    def n_in(self) -> int:
        return self.width

    @property
    def n_out(self) -> int:
        return self.width

    def __call__(self, x: Any) -> Any:
        return self.function(x)


class ConceptErasureLEACE(BaseEraser):
    """LEACE as the package ``concept-erasure`` has it, in double precision."""

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        import torch
        from concept_erasure import LeaceEraser

        rows = torch.from_numpy(X.astype(np.float64))
        one_hot = torch.nn.functional.one_hot(torch.from_numpy(target.codes))
        fitted = LeaceEraser.fit(rows, one_hot.double())
        function = lambda x: fitted(torch.from_numpy(x)).numpy()  # noqa: E731
        return Eraser((Called(X.shape[1], function),))


class CorrelationRemoval(BaseEraser):
    """fairlearn's ``CorrelationRemover``, with predicted labels.

    It subtracts from every column its regression on the labels, and needs the labels of all rows
    that it erases. Those of new rows are not known, so logistic regression predicts them.

    Parameters
    ----------
    alpha : float
        1 removes all correlation with the labels, 0 none.
    random_state : int, RandomState or None
    """

    def __init__(self, *, alpha: float = 1.0, random_state: Any = None) -> None:
        self.alpha = alpha
        self.random_state = random_state

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        from fairlearn.preprocessing import CorrelationRemover

        rows, codes = X.astype(np.float64), target.codes
        rng = generator(self.random_state)
        classifier = fit_classifier("logistic", rows, codes, rng, n_epochs=1)
        one_hot = np.eye(len(target.classes))[:, 1:]  # the first class follows from the others
        columns = list(range(one_hot.shape[1]))
        remover = CorrelationRemover(sensitive_feature_ids=columns, alpha=self.alpha)
        remover.fit(np.hstack([one_hot[codes], rows]))

        def erased(x: NDArray[Any]) -> NDArray[Any]:
            labels = one_hot[classifier.scores(x).argmax(-1)]
            return np.asarray(remover.transform(np.hstack([labels, x])))

        return Eraser((Called(X.shape[1], erased),), {"labels_at_transform": "predicted"})
