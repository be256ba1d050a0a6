"""An eraser in front of a faiss index: what is added and what is searched for is erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unspot.checks import require
from unspot.export.layers import layers
from unspot.maps import Map


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
