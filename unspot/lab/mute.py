"""MUtE: every class made Gaussian, so that none differs; counterfactuals by going back."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from unspot.checks import check_choice, check_count
from unspot.data.columns import encode_as
from unspot.data.concept import Classes
from unspot.data.rows import generator
from unspot.eraser import Eraser
from unspot.erasers.base import BaseEraser
from unspot.lab.classifiers import fit_classifier
from unspot.lab.maps import Gaussianised
from unspot.lab.scaling import rows_within_support
from unspot.maps import Compress, Expand, Map

__all__ = ["MUtE", "knots_of"]

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Knots of the monotone map of a column, and the largest normal score among them.
_KNOTS, _REACH = 33, 3.0
#: Layers of the paper, by data set.
_PRESETS = {"glove": 100, "bios": 70, "dial": 150, "jigsaw": 150}
#: The least slope of a monotone map, in units of the column's deviation within classes.
_LEAST_SLOPE = 1e-2


class MUtE(BaseEraser):
    """Turn every class into the same Gaussian, by class-conditional iterative Gaussianisation.

    A layer rotates all rows to the principal axes of one class (the classes take turns), and then
    maps every column to normal scores, by a monotone map for each class. After some layers every
    class is nearly N(0, I). The map of a row's class is chosen by a classifier, the router, because
    labels of new rows are not known; the monotone maps are those of the true classes.

    The published result is the Gaussian row. It lies in a new space. ``output="mean"`` goes on:
    from the Gaussian row it goes back as each of the classes, and takes the mean of these
    counterfactuals, Σₖ pₖ fₖ⁻¹(f(x)). As a function of the Gaussian row it tells nothing more, and
    it is in the space of the embeddings.

    Cost: the router, and O(T(nd² + nd·log n)) to fit, without gradients. To apply: O(Td²) per row,
    and K + 1 times that with ``output="mean"``. It stores T(d² + 33·Kd) numbers in single
    precision.

    Parameters
    ----------
    n_layers : int
        T. More make the classes more Gaussian and move the rows more. The paper has 70 to 150; see
        ``preset``.
    output : {"mean", "gaussian"}
        The mean of the counterfactuals, or the Gaussian rows as published.
    router : {"logistic", "network"}
        What predicts the class of a row. The paper has a network.
    n_epochs : int
        The most epochs of the network.
    random_state : int, RandomState or None

    Attributes
    ----------
    eraser_ : Eraser
    classes_ : ndarray

    References
    ----------
    A. Saillenfest, MUtE, 2026.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 3)) * np.where(z == "a", 1, 3)[:, None]
    >>> X[z == "b"] += 20
    >>> eraser = MUtE(random_state=0).fit(X, z)
    >>> moved = eraser.transform(X)
    >>> [float(moved[z == k].std().round(0)) for k in ("a", "b")]
    [2.0, 2.0]
    >>> as_b = eraser.counterfactual(X[z == "a"], target="b")
    >>> float(as_b.mean().round(0)), float(as_b.std().round(0))
    (20.0, 3.0)
    """

    min_rows_per_class: ClassVar[int] = 2

    def __init__(
        self,
        *,
        n_layers: int = 12,
        output: Literal["mean", "gaussian"] = "mean",
        router: Literal["logistic", "network"] = "logistic",
        n_epochs: int = 50,
        random_state: Any = None,
    ) -> None:
        self.n_layers = n_layers
        self.output = output
        self.router = router
        self.n_epochs = n_epochs
        self.random_state = random_state

    @classmethod
    def preset(cls, name: str, **settings: Any) -> MUtE:
        """Use the published settings for "glove", "bios", "dial" or "jigsaw", some changed."""
        n_layers = _PRESETS[check_choice("preset", name, _PRESETS)]
        published: dict[str, Any] = {"output": "gaussian", "router": "network"}
        return cls(**{"n_layers": n_layers, **published, **settings})

    def counterfactual(self, X: Any, target: Any, *, z: Any = None) -> NDArray[Any]:
        """Rows as they would be in another class: f_target⁻¹(f(x)), of shape (n, d).

        A row that goes to its own class stays as it is.

        Parameters
        ----------
        X : array-like of shape (n, d)
        target : label, or array-like of shape (n,)
            The class to go to, one for all rows or one for each.
        z : array-like of shape (n,), optional
            The rows' own labels; by default the router predicts them.
        """
        check_is_fitted(self)
        rows = self._validated(X, reset=False)
        down, move, up = _parts(self.eraser_.maps)
        x = down(rows.astype(np.float64))
        codes = move.scores(x).argmax(-1) if z is None else self._codes(z, len(rows), "z")
        moved = move.backward(move.forward(x, codes), self._codes(target, len(rows), "target"))
        return np.asarray(up(moved)).astype(rows.dtype, copy=False)

    def _codes(self, labels: Any, n_rows: int, name: str) -> Codes:
        several = np.asarray(labels)
        if several.ndim == 0:
            several = np.full(n_rows, several)
        if len(several) != n_rows:
            raise ValueError(
                f"Got {len(several)} labels in {name} for {n_rows} rows of X, but expected one "
                "label for each row."
            )
        return encode_as(several, self.classes_)

    def _fit_eraser(self, X: NDArray[Any], target: Classes) -> Eraser:
        n_layers = check_count("n_layers", self.n_layers)
        check_choice("output", self.output, ("mean", "gaussian"))
        check_choice("router", self.router, ("logistic", "network"))
        rng = generator(self.random_state)
        S, inside = rows_within_support(X)
        router = fit_classifier(self.router, inside, target.codes, rng, n_epochs=self.n_epochs)
        routed = router.scores(inside).argmax(-1)
        layers = gaussianising_layers(inside, target.codes, routed, n_layers)
        shares = target.counts / len(X) if self.output == "mean" else None
        arrays: dict[str, Any] = router.arrays()
        move = Gaussianised(**arrays, **layers, shares=shares)
        maps: tuple[Map, ...] = (move,) if S is None else (Compress(S), move, Expand(S))
        return Eraser(maps)


def gaussianising_layers(rows: Array, codes: Codes, routed: Codes, n_layers: int) -> dict[str, Any]:
    """Fit the layers of ``Gaussianised``, one after the other.

    Knots are those of the true classes (``codes``); rows go on by their predicted ones.
    """
    n_classes = int(codes.max()) + 1
    reach = min(_REACH, float(ndtri(1 - 0.5 / np.bincount(codes).min())))
    centres, rotations, all_knots = [], [], []
    for t in range(n_layers):
        members = rows[codes == t % n_classes]
        centre = members.mean(axis=0)
        _, rotation = np.linalg.eigh((members - centre).T @ (members - centre))
        # Rounded now, so that the rows of the fit see the layers that are stored.
        rotation = rotation.astype(np.float32)
        turned = (rows - centre) @ rotation
        groups = [turned[codes == k] for k in range(n_classes)]
        variances = [len(group) / len(rows) * group.var(axis=0) for group in groups]
        deviations = np.sqrt(np.sum(variances, axis=0))
        knots = np.stack([knots_of(group, deviations, reach) for group in groups])
        knots = knots.astype(np.float32)
        layer = {"centres": centre[None], "rotations": rotation[None], "knots": knots[None]}
        rows = _layer(layer, reach).forward(rows, routed)
        centres.append(centre)
        rotations.append(rotation)
        all_knots.append(knots)
    stacked = {"centres": centres, "rotations": rotations, "knots": all_knots}
    return {**{name: np.stack(parts) for name, parts in stacked.items()}, "reach": reach}


def knots_of(values: Array, deviations: Array, reach: float) -> Array:
    """Values (d, b) of the columns at evenly spaced normal scores from −reach to reach.

    They are the quantiles, and a step of the class's own deviation at both ends, so that rows
    beyond all others go on by a straight line of that slope. A class with few rows borrows from
    the line through its medians with the ``deviations`` of all classes, since between and beyond
    few rows a quantile may be far off. The least slope is a hundredth of that line's, so that a
    class that hardly varies in a column is not blown up to noise.
    """
    scores = np.linspace(-reach, reach, _KNOTS)
    line = (scores[1] - scores[0]) * np.where(deviations > 0, deviations, 1.0)[:, None]
    quantiles = np.quantile(values, ndtr(scores[1:-1]), axis=0).T
    end = (scores[1] - scores[0]) * values.std(axis=0)[:, None]
    borrowed = _KNOTS / (_KNOTS + len(values))
    steps = np.hstack([end, np.diff(quantiles, axis=1), end])
    steps = np.maximum((1 - borrowed) * steps + borrowed * line, _LEAST_SLOPE * line)
    increasing = np.cumsum(np.hstack([np.zeros_like(line), steps]), axis=1)
    middle = _KNOTS // 2  # from which the others are counted, so that the median stays
    return np.asarray(increasing + quantiles[:, [middle - 1]] - increasing[:, [middle]])


def _layer(layer: dict[str, Any], reach: float) -> Gaussianised:
    d, n_classes = layer["centres"].shape[1], layer["knots"].shape[1]
    blind = {"coef": np.zeros((d, n_classes)), "intercept": np.zeros(n_classes)}
    return Gaussianised(**blind, **layer, reach=reach)


def _parts(maps: tuple[Map, ...]) -> tuple[Any, Gaussianised, Any]:
    """Split a chain into the maps before the Gaussianisation, itself, and those after it.

    A last step to unit norm is no part of it: counterfactuals are raw rows.
    """
    at = next(i for i, step in enumerate(maps) if isinstance(step, Gaussianised))
    move: Any = maps[at]
    return (maps[0], move, maps[at + 1]) if at else (_same, move, _same)


def _same(x: Any) -> Any:
    return x
