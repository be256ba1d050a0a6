"""The base class of maps: frozen, with numpy arrays and a few plain values as fields.

A map acts on the last axis of numpy arrays and of torch tensors. It uses the operators that both
have, and brings its own arrays to the type of the input by ``like``, so that no map imports torch.

To add a map, write a frozen dataclass with the decorator ``@register_map``, a ``kind``, the
``shapes`` of its arrays, its ``ends`` and ``__call__``. Saving and loading then work without more
code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def like(array: Array, x: Any) -> Any:
    """Convert ``array`` to the type of ``x``: a numpy array or tensor of its dtype and device."""
    if isinstance(x, np.ndarray):
        return array.astype(x.dtype, copy=False)
    return x.new_tensor(np.asarray(array))


@dataclass(frozen=True, eq=False)
class Map:
    """One step of an eraser. Its fields are arrays, or values that JSON can hold."""

    kind: ClassVar[str] = ""
    linear: ClassVar[bool] = False
    #: Whether rows stay in the space that they come from, though the map is not linear.
    same_space: ClassVar[bool] = False
    #: One letter for each axis of every array. Axes of the same letter have the same length.
    shapes: ClassVar[Mapping[str, str]] = {}
    #: The letters of the axes whose lengths are the number of inputs and of outputs.
    ends: ClassVar[str] = "dd"

    @property
    def n_in(self) -> int:
        return self._length(self.ends[0])

    @property
    def n_out(self) -> int:
        return self._length(self.ends[1])

    def _length(self, axis: str) -> int:
        name = next(name for name, axes in self.shapes.items() if axis in axes)
        return int(getattr(self, name).shape[self.shapes[name].index(axis)])

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError

    def arrays(self) -> dict[str, Array]:
        """Collect the arrays, by field name."""
        return {k: v for k, v in self._values().items() if isinstance(v, np.ndarray)}

    def config(self) -> dict[str, Any]:
        """Collect the other fields that are set."""
        arrays = self.arrays()
        return {k: v for k, v in self._values().items() if k not in arrays and v is not None}

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def read_only(self) -> Self:
        """Copy arrays that can be written to, into memory that nobody else writes to.

        Arrays that are already read-only are shared, so that an eraser made from the maps of
        another one needs no memory of its own.
        """
        copies = {
            name: array.copy(order="K")  # the same layout, since it decides the bits of products
            for name, array in self.arrays().items()
            if _can_change(array)
        }
        for copy in copies.values():
            copy.setflags(write=False)
        return replace(self, **copies) if copies else self

    def rounded(self, dtype: Any) -> Self:
        """Copy with arrays of another dtype; what is computed from them is rounded, too."""
        return replace(self, **{name: a.astype(dtype) for name, a in self.arrays().items()})

    def fault(self) -> str:
        """Describe an array of a wrong shape, or without finite numbers; or an empty string."""
        lengths: dict[str, int] = {}
        faults = (_array_fault(k, v, self.shapes[k], lengths) for k, v in self.arrays().items())
        return next(filter(None, faults), "")


def _can_change(array: Any) -> bool:
    """Check for an array that can be written to, itself or through one that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _array_fault(name: str, array: Array, axes: str, lengths: dict[str, int]) -> str:
    """Describe a fault of one array. ``lengths`` holds those of the axes so far."""
    if array.dtype.kind not in "fiub":
        return f"{name} of dtype {array.dtype}, but expected numbers"
    for axis, size in zip(axes, array.shape, strict=False):
        lengths.setdefault(axis, size)
    expected = tuple(lengths.get(axis, axis) for axis in axes)
    if array.shape != expected:
        return f"{name} of shape {array.shape}, but expected ({', '.join(map(str, expected))})"
    return "" if np.isfinite(array).all() else f"NaN or infinity in {name}"


def chain_fault(maps: Sequence[Map]) -> str:
    """Say why maps cannot be applied one after the other, or return an empty string."""
    if not maps:
        return "no maps, but an eraser has at least one"
    for left, right in pairwise(maps):
        if left.n_out != right.n_in:
            return f"a map of {left.n_out} outputs followed by one of {right.n_in} inputs"
    return ""


MAPS: dict[str, type[Map]] = {}
M = TypeVar("M", bound=type[Map])


def register_map(cls: M) -> M:
    """Make a map loadable by its ``kind``."""
    # An error now, which the author sees, instead of one later when a user's file does not load.
    arrays = {f.name for f in fields(cls) if "array" in str(f.type).lower()}
    if undeclared := arrays - cls.shapes.keys():
        raise TypeError(
            f"Got the map {cls.__name__} with arrays {sorted(undeclared)}, but expected their axes "
            "in its shapes, such as {'U': 'dr'}."
        )
    MAPS[cls.kind] = cls
    return cls


def map_class(kind: str) -> type[Map] | None:
    """Find a map by its kind; those of ``unspot.lab`` are imported when a file names one."""
    if kind not in MAPS:
        import_module("unspot.lab.maps")
    return MAPS.get(kind)
