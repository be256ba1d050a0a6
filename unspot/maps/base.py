"""What a map is: frozen, numpy-only, with arrays and a small config.

A map acts on the last axis of numpy arrays and torch tensors alike. It is written with the
operators that both share, and its own arrays are brought to the input's kind by ``like``, so that
no map ever imports torch. A map with a new shape of arithmetic is a new frozen dataclass with the
decorator ``@register_map``; saving and loading then work without further code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAPS", "Map", "like", "register_map"]

Array = NDArray[Any]


def like(array: Array, x: Any) -> Any:
    """``array`` as the kind of ``x``: numpy of its dtype, or torch of its dtype and device."""
    if isinstance(x, np.ndarray):
        return array.astype(x.dtype, copy=False)
    return x.new_tensor(np.asarray(array))


@dataclass(frozen=True, eq=False)
class Map:
    """One step of an eraser. Arrays are fields; anything else is a JSON-able field."""

    kind: ClassVar[str] = ""
    linear: ClassVar[bool] = False

    @property
    def n_in(self) -> int:
        raise NotImplementedError

    @property
    def n_out(self) -> int:
        raise NotImplementedError

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError

    def arrays(self) -> dict[str, Array]:
        """The arrays to be saved, by field name."""
        return {
            f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), np.ndarray)
        }

    def config(self) -> dict[str, Any]:
        """The other fields, as JSON-able values."""
        return {
            f.name: v
            for f in fields(self)
            if not isinstance(v := getattr(self, f.name), np.ndarray) and v is not None
        }


MAPS: dict[str, type[Map]] = {}
M = TypeVar("M", bound=type[Map])


def register_map(cls: M) -> M:
    """Make a map loadable by its ``kind``."""
    MAPS[cls.kind] = cls
    return cls
