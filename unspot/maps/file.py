"""The file of an eraser: arrays and a header of JSON texts, checked when it is read.

A file that was cut, changed or written by another program is refused, with its name and the
reason. Without these checks most such files would load and erase something else: a mean of one
number, for example, would be broadcast to all features. A digest of all that is in the file finds
what no other check can see. It finds accidents; who changes a file on purpose can write a new one.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot._version import __version__
from unspot.maps.base import MAPS, Map, chain_fault, map_class, shown

__all__ = ["packed", "read"]

logger = logging.getLogger(__name__)

FORMAT = "unspot/1"

#: All that a header holds. The first files lack ``arrays``, and some lack ``digest``.
ENTRIES = ("format", "maps", "arrays", "metadata", "digest")

#: Cascades inside each other, in the metadata.
_MOST_INNER = 10

Arrays = dict[str, NDArray[Any]]


class _Fault(Exception):
    """What is wrong with a file: the rest of a sentence that begins with "Got 'name', which"."""


def packed(maps: Sequence[Map], metadata: Mapping[str, Any]) -> bytes:
    """The content of a file, the same bytes for the same eraser.

    No pickle, so that reading runs no code.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in _named(maps).items()}
    header = {
        "format": FORMAT,
        "maps": json.dumps([{"kind": m.kind, **m.config()} for m in maps]),
        "arrays": json.dumps({name: _dtype_and_shape(array) for name, array in arrays.items()}),
        "metadata": json.dumps(dict(metadata), default=_plain),
    }
    if fault := metadata_fault(json.loads(header["metadata"])):
        raise ValueError(
            f"Got metadata with {fault}: commands read this fact, and the file would be refused. "
            "Give your own fact another name."
        )
    return _serialised(arrays, {**header, "digest": _digest(header, arrays)})


def _serialised(arrays: Arrays, header: dict[str, str]) -> bytes:
    """As safetensors writes it, but for the order of the header, which is random there."""
    from safetensors.numpy import save

    content = save(arrays)
    end = 8 + int.from_bytes(content[:8], "little")
    entries = {"__metadata__": header, **json.loads(content[8:end])}
    text = json.dumps(entries, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at multiples of eight bytes
    return len(text).to_bytes(8, "little") + text + content[end:]


def _digest(header: Mapping[str, str], arrays: Arrays) -> str:
    """A hash of all that is in a file but itself. Cost: one pass over the arrays."""
    texts = {name: text for name, text in header.items() if name != "digest"}
    kinds = {name: _dtype_and_shape(array) for name, array in arrays.items()}
    digest = hashlib.sha256(json.dumps([texts, kinds], sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


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
        if fault := metadata_fault(metadata):
            raise _Fault(f"has metadata with {fault}")
        # Last, since all other faults say more.
        _check_digest(path, header, arrays)
    except _Fault as error:
        raise ValueError(
            f"Got {str(path)!r}, which {error}. Copy the file again, or fit anew; update unspot "
            f"(this is {__version__}) if a newer version wrote it."
        ) from None
    return maps, metadata


def _check_digest(path: Path, header: Mapping[str, str], arrays: Arrays) -> None:
    # A damaged name of an entry would pass for an entry that an earlier version did not write.
    if unknown := sorted(header.keys() - set(ENTRIES)):
        raise _Fault(f"has an unknown entry {unknown[0]!r} in its header")
    if "digest" not in header:
        logger.info(
            "%s has no digest: an earlier version wrote it, and damaged numbers would not be "
            "found. Load and save it to add one.",
            path,
        )
    elif header["digest"] != _digest(header, arrays):
        raise _Fault("was changed after it was written: its content does not match its digest")


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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_counts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_count, value)))


def _is_selection(value: Any) -> bool:
    tried = value.get("tried") if isinstance(value, dict) else None
    if not isinstance(tried, dict) or str(value.get("rank")) not in tried:
        return False
    numbers = [*tried.values(), value.get("error", 0), value.get("max_advantage") or 0]
    return all(map(_is_number, numbers)) and _are_texts([value.get("criterion")])


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


#: What commands read in the metadata: the test of each value, and the words for a message. Other
#: facts may be anything.
_FACTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "method": (_is_text, "a text"),
    "concept_name": (_is_text, "a text"),
    "data": (_is_text, "a text"),
    "fingerprint": (_is_text, "a text"),
    "known_below": (_is_text, "a text"),
    "features": (_are_texts, "a list of texts"),
    "known_rows": (_are_texts, "a list of texts"),
    "parameters": (_is_object, "an object"),
    "versions": (_is_object, "an object"),
    "inner": (_is_object, "an object"),
    "selection": (_is_selection, "an object with rule, criterion, rank and the ranks tried"),
    "n_rows": (_is_count, "a count"),
    "classes": (lambda value: value is None or isinstance(value, list), "a list or null"),
    "class_counts": (_are_counts, "a list of counts or null"),
}


def metadata_fault(metadata: Mapping[str, Any]) -> str:
    """What in the metadata is not as commands expect it, or an empty string.

    Examples
    --------
    >>> metadata_fault({"features": None})
    'features=None, but expected a list of texts'
    """
    for depth in range(_MOST_INNER):
        where = "inner." * depth
        for name, (is_one, expected) in _FACTS.items():
            if name in metadata and not is_one(metadata[name]):
                return f"{where}{name}={shown(metadata[name])}, but expected {expected}"
        classes, counts = metadata.get("classes") or (), metadata.get("class_counts") or ()
        if counts and len(counts) != len(classes):
            return f"{where}class_counts of {len(counts)} classes, but expected {len(classes)}"
        if "inner" not in metadata:
            return ""
        metadata = metadata["inner"]
    return f"more than {_MOST_INNER} erasers inside each other, but expected fewer"


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
    cls = map_class(kind)
    if cls is None:
        raise _Fault(
            f"has a map of kind {kind!r}, but this version knows {', '.join(sorted(MAPS))}"
        )
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
