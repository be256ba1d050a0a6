"""The file of an eraser: arrays and a header of JSON texts, checked when it is read.

A file that was cut, changed or made by another program is refused by its name and with the reason,
since most such files would still erase something: a mean of one number, say, is stretched over all
features.
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
from unspot.maps import MAPS, Map, chain_fault
from unspot.maps.base import shown

__all__ = ["packed", "read"]

FORMAT = "unspot/1"

Arrays = dict[str, NDArray[Any]]


class _Fault(Exception):
    """What is wrong with a file, in words that follow "which"."""


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
        return _eraser(*_content(path))
    except _Fault as fault:
        raise ValueError(
            f"Got {str(path)!r}, which {fault}. Copy the file again, or fit anew; update unspot "
            f"(this is {__version__}) if a newer version wrote it."
        ) from None


def _content(path: Path) -> tuple[dict[str, str], Arrays]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            header = file.metadata() or {}
            _refuse_other_formats(header, path)
            return header, {name: _array(file, name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"Got {str(path)!r}, which is not a readable safetensors file ({error}). Expected a "
            "file written by Eraser.save or `unspot fit`."
        ) from None


def _refuse_other_formats(header: Mapping[str, str], path: Path) -> None:
    if header.get("format") != FORMAT:
        found = header.get("format", "no format entry")
        raise ValueError(
            f"Got {str(path)!r}, a safetensors file that unspot did not write ({found}), but "
            f"expected format {FORMAT!r}. Was it made by another program or a newer version?"
        )


def _array(file: Any, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = file.get_tensor(name)
    except (TypeError, AttributeError):  # as safetensors says that numpy has no such dtype
        dtype = file.get_slice(name).get_dtype()
        raise _Fault(f"has an array {name!r} of type {dtype}, which numpy has not") from None
    return array


def _eraser(header: Mapping[str, str], arrays: Arrays) -> tuple[tuple[Map, ...], dict[str, Any]]:
    metadata = _entry(header, "metadata", dict)
    configs = _entry(header, "maps", list)
    _refuse_other_arrays(header, arrays)
    maps = tuple(_map(i, config, arrays) for i, config in enumerate(configs))
    if unused := sorted(arrays.keys() - _named(maps).keys()):
        raise _Fault(f"has an array {unused[0]!r} that belongs to none of its maps")
    if fault := chain_fault(maps):
        raise _Fault(f"has {fault}")
    said, taken = metadata.get("n_features", maps[0].n_in), maps[0].n_in
    if said != taken:
        raise _Fault(
            f"says in its metadata n_features={shown(said)}, but has maps of {taken} features"
        )
    return maps, metadata


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


def _refuse_other_arrays(header: Mapping[str, str], arrays: Arrays) -> None:
    """Arrays other than those that were saved, which may well make an eraser: another one."""
    if "arrays" not in header:  # as in the first files
        return
    saved = _entry(header, "arrays", dict)
    if lost := sorted(saved.keys() - arrays.keys()):
        raise _Fault(f"has no array {lost[0]!r}, but names it in its header")
    if added := sorted(arrays.keys() - saved.keys()):
        raise _Fault(f"has an array {added[0]!r}, but does not name it in its header")
    for name, array in arrays.items():
        if (found := _dtype_and_shape(array)) != saved[name]:
            said = shown(saved[name])
            raise _Fault(f"has an array {name!r} of {found!r}, but says {said} in its header")


def _dtype_and_shape(array: NDArray[Any]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def _map(i: int, config: Any, arrays: Arrays) -> Map:
    kind = config.get("kind") if isinstance(config, dict) else None
    if not isinstance(kind, str):
        raise _Fault(f"has a map {i} without a kind")
    if kind not in MAPS:
        known = ", ".join(sorted(MAPS))
        raise _Fault(f"has a map of kind {kind!r}, but this version knows {known}")
    cls = MAPS[kind]
    own = {name: arrays[f"{i}.{name}"] for name in cls.shapes if f"{i}.{name}" in arrays}
    values = {name: value for name, value in config.items() if name != "kind"}
    if fault := _field_fault(cls, own, values):
        raise _Fault(f"has {fault} in its map {i}, {kind}")
    made = cls(**own, **values)
    if fault := made.fault():
        raise _Fault(f"has in its map {i}, {kind}, {fault}")
    return made


def _field_fault(cls: type[Map], arrays: Arrays, values: Mapping[str, Any]) -> str:
    """Whether a map would lack fields, or fall back on defaults that were not saved."""
    known = {f.name for f in fields(cls)}
    if others := sorted(values.keys() - (known - cls.shapes.keys())):
        return f"an unknown entry {others[0]!r}"
    given = arrays.keys() | values.keys()
    missing = [f.name for f in fields(cls) if f.name not in given and f.default is not None]
    return f"no {missing[0]}" if missing else ""


def _named(maps: Sequence[Map]) -> Arrays:
    """All arrays by the names that they have in a file."""
    return {f"{i}.{name}": array for i, m in enumerate(maps) for name, array in m.arrays().items()}


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as JSON values."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)
