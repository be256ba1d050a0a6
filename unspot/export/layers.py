"""A chain of maps as layers x ↦ Wx + b, for systems that have nothing else, such as faiss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import require
from unspot.maps import Dense, Map, Normalise
from unspot.maps.elementary import range_basis


@dataclass(frozen=True, eq=False)
class Layer:
    """x ↦ Wx + b, followed by max(·, 0) if ``relu``."""

    weight: NDArray[Any]  # (outputs, inputs)
    bias: NDArray[Any] | None = None  # (outputs,)
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers from left to right, and whether the results are scaled to unit norm."""

    layers: tuple[Layer, ...]
    normalise: bool

    @property
    def is_affine(self) -> bool:
        return not any(layer.relu for layer in self.layers)

    @property
    def keeps_directions(self) -> bool:
        """Tell whether rows of one direction give results of one direction."""
        return self.is_affine and all(layer.bias is None for layer in self.layers)


def layers(maps: Sequence[Map]) -> Layers | None:
    """Convert a chain of maps to layers, or return None if it has other steps.

    Linear maps go down to the coordinates of what they keep, and up again: results in single
    precision are then a function of these coordinates, rounding included.

    Examples
    --------
    >>> from unspot.maps import Projection
    >>> [layer.weight.shape for layer in layers([Projection(np.eye(5)[:, :2])]).layers]
    [(2, 5), (5, 2)]
    """
    normalise = isinstance(maps[-1], Normalise)
    result: list[Layer] = []
    for is_linear, group in groupby(maps[:-1] if normalise else maps, lambda m: m.linear):
        if is_linear:
            result += _down_and_up(list(group))
            continue
        for m in group:
            if not isinstance(m, Dense):
                return None
            result.append(Layer(m.weight.T, m.bias, m.relu))
    return Layers(tuple(result), normalise)


def _down_and_up(maps: Sequence[Map]) -> list[Layer]:
    """Convert linear maps to one layer, or to two with fewer coordinates between."""
    image = np.vstack([np.eye(maps[0].n_in), np.zeros(maps[0].n_in)])
    for m in maps:
        image = m(image)
    offset = image[-1]
    P = (image[:-1] - offset).T  # (outputs, inputs)
    bias = offset if offset.any() else None
    up = range_basis(P)
    if up.shape[1] in (0, min(P.shape)):
        return [Layer(P, bias)]
    return [Layer(up.T @ P), Layer(up, bias)]


def erasing_index(maps: Sequence[Map], index: Any) -> Any:
    """Put the maps in front of an index, as a ``faiss.IndexPreTransform``."""
    require("to_faiss", "models", "faiss")
    import faiss

    if not isinstance(index, faiss.Index):
        raise ValueError(
            f"Got an index of type {type(index).__name__}, but expected one of faiss, such as "
            f"faiss.IndexFlatIP({maps[-1].n_out})."
        )
    chain = layers(maps)
    if chain is None or not chain.is_affine:
        raise ValueError(
            f"Got an eraser of maps {' → '.join(m.kind for m in maps)}, but expected an affine "
            "one, since faiss has no other transforms. Erase vectors before you add them and "
            "queries before you search: index.add(eraser(X))."
        )
    if index.d != maps[-1].n_out:
        raise ValueError(
            f"Got an index of {index.d} dimensions, but expected {maps[-1].n_out}: this eraser "
            f"gives vectors of {maps[-1].n_out} numbers."
        )
    if index.ntotal:
        raise ValueError(
            f"Got an index that holds {index.ntotal:,} vectors, which nobody erased, but expected "
            "an empty one. Wrap an empty index, and add the vectors to the result."
        )
    result = faiss.IndexPreTransform(index)
    if chain.normalise:
        result.prepend_transform(faiss.NormalizationTransform(maps[-1].n_out, 2.0))
    for layer in reversed(chain.layers):
        n_out, n_in = layer.weight.shape
        transform = faiss.LinearTransform(n_in, n_out, layer.bias is not None)
        weight = np.ascontiguousarray(layer.weight, dtype=np.float32)
        faiss.copy_array_to_vector(weight.ravel(), transform.A)
        if layer.bias is not None:
            faiss.copy_array_to_vector(layer.bias.astype(np.float32), transform.b)
        transform.is_trained = True
        result.prepend_transform(transform)
    return result
