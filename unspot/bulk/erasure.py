"""What is done to every file of a job: one eraser, one choice of columns, reduced or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unspot.bulk.batches import Features
from unspot.eraser import Eraser
from unspot.io.columns import choose_features, missing

__all__ = ["Erasure", "rows_per_chunk"]

#: How much of an array is read at a time. Small pieces stay in the cache and cost no page faults,
#: but a product needs rows enough to be worth the conversion of its matrix.
CHUNK_BYTES, CHUNK_ROWS = 4 << 20, 1024


@dataclass(frozen=True, eq=False)
class Erasure:
    """A job: the eraser, the columns with the vectors, and whether to write r numbers a row."""

    eraser: Eraser
    features: Features = None
    reduce: bool = False

    @property
    def remembered(self) -> list[str]:
        """The columns that the eraser was fitted on, as ``unspot fit`` wrote them down."""
        return list(self.eraser.metadata.get("features", ()))

    def columns(self, kinds: Mapping[str, str], where: str) -> list[str]:
        """The columns of a table that hold the vectors: as asked for, remembered, or obvious."""
        features = self.features
        if features is None and self.remembered and all(n in kinds for n in self.remembered):
            features = self.remembered
        return choose_features(features, kinds, where=where)

    def array(self, names: Sequence[str], where: str) -> str:
        """The array of a ``.npz`` file that holds the vectors."""
        if self.features is None:
            name = next((n for n in self.remembered if n in names), "X")
        else:
            name = self.features if isinstance(self.features, str) else self.features[0]
        if name not in names:
            raise missing(name, names, where, "array")
        return name

    def identity(self) -> dict[str, Any]:
        """Facts that decide the output: a job with other facts is another job."""
        asked = self.features if self.features is not None else self.remembered
        return {
            "eraser": eraser_digest(self.eraser),
            "features": asked if isinstance(asked, str) else ",".join(asked),
            "reduce": self.reduce,
        }


def eraser_digest(eraser: Eraser) -> str:
    """A hash of what an eraser does, whatever file it came from and whatever its metadata."""
    digest = hashlib.sha256()
    for m in eraser.maps:
        digest.update(json.dumps([m.kind, m.config()], sort_keys=True, default=str).encode())
        for name, array in sorted(m.arrays().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def rows_per_chunk(bytes_per_row: int) -> int:
    """How many rows of an array make a chunk."""
    return max(CHUNK_ROWS, CHUNK_BYTES // max(1, bytes_per_row))
