"""What a map is: frozen, numpy-only, with arrays and a small config.

A map acts on the last axis of numpy arrays and torch tensors alike. It is written with the
operators that both share, and its own arrays are brought to the input's kind by ``like``, so that
no map ever imports torch. A map with a new shape of arithmetic is a new frozen dataclass with the
decorator ``@register_map`` and the ``shapes`` of its arrays; saving, loading and the check of what
is loaded then work without further code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAPS", "Map", "chain_fault", "like", "register_map"]

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
    #: The axes of every array, a letter each; those of one letter are equally long.
    shapes: ClassVar[Mapping[str, str]] = {}

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

    def read_only(self) -> Self:
        """The map with arrays that cannot be written to, in memory that nobody else writes to.

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

    def fault(self) -> str:
        """What makes these values no such map, as in a damaged file; nothing if they are one."""
        sizes: dict[str, int] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value is None and f.default is None:
                continue
            if f.name in self.shapes:
                found = _array_fault(f.name, value, self.shapes[f.name], sizes)
            else:
                found = _value_fault(f, value)
            if found:
                return found
        return ""


def _can_change(array: Any) -> bool:
    """Whether an array can be written to, itself or through an array that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _array_fault(name: str, array: Array, axes: str, sizes: dict[str, int]) -> str:
    """What is wrong with one array, by the lengths of axes that were seen, which it adds to."""
    if array.dtype.kind not in "fiub":
        return f"{name} of dtype {array.dtype}, but expected numbers"
    for axis, size in zip(axes, array.shape, strict=False):
        sizes.setdefault(axis, size)
    expected = tuple(sizes.get(axis, axis) for axis in axes)
    if array.shape != expected:
        lengths = ", ".join(map(str, expected))
        return f"{name} of shape {array.shape}, but expected ({lengths})"
    return "" if np.isfinite(array).all() else f"NaN or infinity in {name}"


def _value_fault(f: Field[Any], value: Any) -> str:
    """What is wrong with a plain value, by the type that its field is annotated with."""
    annotation = str(getattr(f.type, "__name__", f.type))
    if annotation not in _PLAIN:
        return ""
    types, expected = _PLAIN[annotation]
    fits = isinstance(value, types) and isinstance(value, bool) == (annotation == "bool")
    # Compared, since math.isfinite fails on integers that are larger than all floats.
    if fits and annotation == "float":
        fits = bool(abs(value) <= sys.float_info.max)
    return "" if fits else f"{f.name}={shown(value)}, but expected {expected}"


def shown(value: Any) -> str:
    """A value out of a file for a message, however long or deep it is."""
    return f"a {type(value).__name__}" if isinstance(value, (list, dict)) else repr(value)[:40]


#: By annotation: the types that values may have in a file, and how they are called.
_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "an integer"),
    "float": ((int, float), "a finite number"),
}


def chain_fault(maps: Sequence[Map]) -> str:
    """Why maps make no chain, if they do not."""
    if not maps:
        return "no maps, but an eraser is made of at least one"
    for left, right in pairwise(maps):
        if left.n_out != right.n_in:
            return f"a map of {left.n_out} outputs followed by one of {right.n_in} inputs"
    return ""


MAPS: dict[str, type[Map]] = {}
M = TypeVar("M", bound=type[Map])


def register_map(cls: M) -> M:
    """Make a map loadable by its ``kind``."""
    # Here, where the author sees it, and not when a user's file does not load.
    arrays = {f.name for f in fields(cls) if "array" in str(f.type).lower()}
    if undeclared := arrays - cls.shapes.keys():
        raise TypeError(
            f"Got the map {cls.__name__} with arrays {sorted(undeclared)}, but expected their axes "
            "in its shapes, such as {'U': 'dr'}."
        )
    MAPS[cls.kind] = cls
    return cls
