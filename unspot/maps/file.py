"""The file of an eraser: arrays and a header of JSON texts, checked when it is read.

A file that was cut, changed or written by another program is refused, with its name and the
reason. Without these checks most such files would load and erase something else: a mean of one
number, for example, would be broadcast to all features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot._version import __version__
from unspot.maps.base import MAPS, Map, chain_fault, shown

__all__ = ["packed", "read"]

FORMAT = "unspot/1"

Arrays = dict[str, NDArray[Any]]


class _Fault(Exception):
    """What is wrong with a file: the rest of a sentence that begins with "Got 'name', which"."""


def packed(maps: Sequence[Map], metadata: Mapping[str, Any]) -> bytes:
    """The content of a file. No pickle, so that reading runs no code."""
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in _named(maps).items()}
    header = {
        "format": FORMAT,
        "maps": json.dumps([{"kind": m.kind, **m.config()} for m in maps]),
        "arrays": json.dumps({name: _dtype_and_shape(array) for name, array in arrays.items()}),
        "metadata": json.dumps(dict(metadata), default=_plain),
    }
    return save(arrays, header)


def read(path: Path) -> tuple[tuple[Map, ...], dict[str, Any]]:
    """The maps and the metadata in a file, checked. Cost: one pass over its arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    try:
        header, arrays = _content(path)
        metadata = _entry(header, "metadata", dict)
        maps = _maps(header, arrays)
        n_features = metadata.get("n_features", maps[0].n_in)
        if n_features != maps[0].n_in:
            raise _Fault(
                f"has metadata with n_features={shown(n_features)}, but maps of "
                f"{maps[0].n_in} features"
            )
    except _Fault as fault:
        raise ValueError(
            f"Got {str(path)!r}, which {fault}. Copy the file again, or fit anew; update unspot "
            f"(this is {__version__}) if a newer version wrote it."
        ) from None
    return maps, metadata


def _content(path: Path) -> tuple[dict[str, str], Arrays]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            # Before the arrays are read: another program's file may have gigabytes of them.
            if header.get("format") != FORMAT:
                raise ValueError(
                    f"Got {str(path)!r}, a safetensors file that unspot did not write (its format "
                    f"is {header.get('format')!r}), but expected format {FORMAT!r}. Was it made "
                    "by another program or a newer version?"
                )
            return header, {name: _array(file, name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"Got {str(path)!r}, which is not a readable safetensors file ({error}). Expected a "
            "file written by Eraser.save or `unspot fit`."
        ) from None


def _array(file: Any, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = file.get_tensor(name)
    except (TypeError, AttributeError):  # what safetensors raises for dtypes that numpy lacks
        dtype = file.get_slice(name).get_dtype()
        raise _Fault(f"has an array {name!r} of type {dtype}, which numpy lacks") from None
    return array


def _entry(header: Mapping[str, str], name: str, expected: type) -> Any:
    if name not in header:
        raise _Fault(f"has no entry {name!r} in its header")
    try:
        value = json.loads(header[name])
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, expected):
        what = "list" if expected is list else "object"
        raise _Fault(f"has an entry {name!r} in its header that is not a JSON {what}")
    return value


def _maps(header: Mapping[str, str], arrays: Arrays) -> tuple[Map, ...]:
    configs = _entry(header, "maps", list)
    if "arrays" in header:  # the first files do not list their arrays
        _compare(arrays, _entry(header, "arrays", dict))
    maps = tuple(_map(i, config, arrays) for i, config in enumerate(configs))
    if unused := sorted(arrays.keys() - _named(maps).keys()):
        raise _Fault(f"has an array {unused[0]!r} that belongs to none of its maps")
    if fault := chain_fault(maps):
        raise _Fault(f"has {fault}")
    return maps


def _compare(arrays: Arrays, listed: Mapping[str, Any]) -> None:
    """Refuse arrays other than those that were saved: they may make an eraser, but another one."""
    if missing := sorted(listed.keys() - arrays.keys()):
        raise _Fault(f"has no array {missing[0]!r}, but names it in its header")
    if added := sorted(arrays.keys() - listed.keys()):
        raise _Fault(f"has an array {added[0]!r}, but does not name it in its header")
    for name, array in arrays.items():
        if _dtype_and_shape(array) != listed[name]:
            raise _Fault(
                f"has an array {name!r} of {_dtype_and_shape(array)!r}, but says "
                f"{shown(listed[name])} in its header"
            )


def _map(i: int, config: Any, arrays: Arrays) -> Map:
    kind = config.get("kind") if isinstance(config, dict) else None
    if not isinstance(kind, str):
        raise _Fault(f"has a map {i} without a kind")
    if kind not in MAPS:
        raise _Fault(
            f"has a map of kind {kind!r}, but this version knows {', '.join(sorted(MAPS))}"
        )
    cls = MAPS[kind]
    values = {name: value for name, value in config.items() if name != "kind"}
    plain = {f.name for f in fields(cls)} - cls.shapes.keys()
    if unknown := sorted(values.keys() - plain):
        raise _Fault(f"has an unknown entry {unknown[0]!r} in its map {i}, {kind}")
    values |= {name: arrays[f"{i}.{name}"] for name in cls.shapes if f"{i}.{name}" in arrays}
    # All values are saved, also those that have a default: without one, the file is damaged.
    missing = [f.name for f in fields(cls) if f.name not in values and f.default is not None]
    if missing:
        raise _Fault(f"has no {missing[0]} in its map {i}, {kind}")
    loaded = cls(**values)
    if fault := loaded.fault():
        raise _Fault(f"has in its map {i}, {kind}, {fault}")
    return loaded


def _named(maps: Sequence[Map]) -> Arrays:
    """All arrays, by their names in a file."""
    return {f"{i}.{name}": array for i, m in enumerate(maps) for name, array in m.arrays().items()}


def _dtype_and_shape(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as JSON values."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return str(value)
