"""What the report draws of the embeddings themselves: witness densities and maps.

Plain, frozen numbers: whoever has them can draw the pictures without the embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.dataset import Dataset, Split, stratified_parts
from unspot.labels import encode, encode_as
from unspot.report.columns import method_name
from unspot.report.witness import Witness, witness

__all__ = ["Panel", "Points", "Views", "make_views"]

FORMAT = "unspot-views/1"
MapKind = Literal["pca", "tsne"]


@dataclass(frozen=True)
class Points:
    """Coordinates of a map, one entry a row."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Panel:
    """The pictures of one representation."""

    name: str
    witness: Witness
    points: Points


@dataclass(frozen=True)
class Views:
    """Pictures before erasure and after each eraser, of the same held-out rows.

    Parameters
    ----------
    classes : tuple of str
        The concept's classes.
    codes : tuple of int
        The class of every point of the maps.
    names : tuple of str or None
        What every point is called.
    map_kind : {"pca", "tsne"}
    before : Panel
    after : tuple of Panel
        One for each eraser.
    """

    classes: tuple[str, ...]
    codes: tuple[int, ...]
    names: tuple[str, ...] | None
    map_kind: MapKind
    before: Panel
    after: tuple[Panel, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        return (self.before, *self.after)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Views:
        """The inverse of ``to_dict``."""
        return cls(
            tuple(map(str, values["classes"])),
            tuple(map(int, values["codes"])),
            None if values["names"] is None else tuple(map(str, values["names"])),
            values["map_kind"],
            _panel(values["before"]),
            tuple(_panel(panel) for panel in values["after"]),
        )


def make_views(
    erasers: Any,
    data: Dataset,
    *,
    map_kind: MapKind = "pca",
    max_points: int = 2000,
    random_state: Any = 0,
) -> Views:
    """Compute the pictures: directions are found on training rows and drawn on test rows.

    Parameters
    ----------
    erasers : eraser, or mapping of names to erasers
        Fitted estimators, ``Eraser`` objects, or functions of rows.
    data : Dataset
    map_kind : {"pca", "tsne"}
        The two directions of most variance, found on training rows; or t-SNE of the drawn rows,
        prettier and no evidence of anything.
    max_points : int
        The most rows that a map shows, sampled class by class.
    random_state : int, Generator or None
        Decides the sample and t-SNE.

    Notes
    -----
    O(nd² + Kd³) time a representation; t-SNE of 2,000 points takes some seconds more.

    Examples
    --------
    >>> from unspot import LEACE
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(600) % 2
    >>> X = rng.normal(size=(600, 5)) + 2.0 * z[:, None] * [1, 0, 0, 0, 0]
    >>> data = Dataset.from_arrays(X, z, random_state=0)
    >>> views = make_views(LEACE().fit(data.train.X, data.train.z), data)
    >>> views.before.witness.distance > 0.5 > views.after[0].witness.distance
    True
    """
    if map_kind not in ("pca", "tsne"):
        raise ValueError(f"Got map_kind={map_kind!r}, but expected 'pca' or 'tsne'.")
    if max_points < 2:
        raise ValueError(f"Got max_points={max_points}, but expected at least 2.")
    rng = np.random.default_rng(random_state)
    classes = encode(data.train.z, n_rows=len(data.train)).classes
    shown = _sample(data.test, classes, max_points, rng)
    codes = encode_as(data.test.z, classes)
    seed = int(rng.integers(2**31 - 1))

    def panel(name: str, erase: Any) -> Panel:
        train, test = erase(data.train.X), erase(data.test.X)
        found = witness(train, encode(data.train.z).codes, test, codes, n_classes=len(classes))
        return Panel(name, found, _points(train, test[shown], map_kind, seed))

    names = data.test.names
    return Views(
        classes=tuple(str(c) for c in classes),
        codes=tuple(codes[shown].tolist()),
        names=None if names is None else tuple(str(n) for n in names[shown]),
        map_kind=map_kind,
        before=panel("original", _identity),
        after=tuple(panel(name, erase) for name, erase in _functions(erasers).items()),
    )


def _functions(erasers: Any) -> dict[str, Any]:
    """Every eraser as a function of rows, by its name."""
    if not isinstance(erasers, Mapping):
        erasers = {_name(erasers): erasers}
    return {str(name): getattr(e, "transform", e) for name, e in erasers.items()}


def _name(eraser: Any) -> str:
    metadata = getattr(getattr(eraser, "eraser_", eraser), "metadata", {})
    return method_name(metadata) or "erased"


def _identity(X: Any) -> Any:
    return X


def _sample(
    split: Split, classes: NDArray[Any], max_points: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows to draw, every class in its share."""
    if len(split) <= max_points:
        return np.arange(len(split))
    share = max_points / len(split)
    return stratified_parts(encode_as(split.z, classes), (share, 1 - share), rng)[0]


def _points(train: NDArray[Any], shown: NDArray[Any], kind: MapKind, seed: int) -> Points:
    xy = _tsne(shown, seed) if kind == "tsne" else _pca(train, shown)
    # Three digits after a spread of about one are finer than a pixel, and keep the file small.
    scale = np.where((spread := xy.std(axis=0)) > 0, spread, 1.0)
    xy = np.round((xy - xy.mean(axis=0)) / scale, 3)
    return Points(tuple(xy[:, 0].tolist()), tuple(xy[:, 1].tolist()))


def _pca(train: NDArray[Any], shown: NDArray[Any]) -> NDArray[np.float64]:
    centred = train.astype(np.float64) - train.mean(axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :2]
    # eigh leaves the sign open: the largest entry of each axis is positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    xy: NDArray[np.float64] = shown.astype(np.float64) @ axes
    return xy if xy.shape[1] == 2 else np.column_stack([xy, np.zeros(len(xy))])


def _tsne(shown: NDArray[Any], seed: int) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(1.0, (len(shown) - 1) / 3))
    model = TSNE(perplexity=perplexity, init="pca", random_state=seed)
    result: NDArray[np.float64] = model.fit_transform(shown.astype(np.float32)).astype(float)
    return result


def _panel(values: Mapping[str, Any]) -> Panel:
    points = values["points"]
    return Panel(
        str(values["name"]),
        Witness.from_dict(values["witness"]),
        Points(tuple(points["x"]), tuple(points["y"])),
    )
