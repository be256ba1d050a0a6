"""Write and read the file of an eraser: safetensors with a header of JSON texts and a digest.

The digest covers everything else in the file, so a file that was cut, changed or written by
another program is refused. It detects corruption, not tampering.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from unspot._version import __version__
from unspot.io.files import as_type
from unspot.maps.base import MAPS, Map, chain_fault, map_class

FORMAT = "unspot/1"

Arrays = dict[str, NDArray[Any]]


def packed(maps: Sequence[Map], metadata: Mapping[str, Any]) -> bytes:
    """Serialise an eraser: the same bytes for the same eraser, without pickle."""
    for m in maps:
        if fault := m.fault():
            raise ValueError(f"Got a map of kind {m.kind!r} with {fault}.")
    arrays = {name: np.ascontiguousarray(array) for name, array in _named(maps).items()}
    header = {
        "format": FORMAT,
        "maps": json.dumps([{"kind": m.kind, **m.config()} for m in maps]),
        "metadata": json.dumps(dict(metadata), default=_plain),
    }
    if fault := metadata_fault(json.loads(header["metadata"])):
        raise ValueError(
            f"Got metadata in which {fault}: commands read this fact. Give your own fact another "
            "name."
        )
    return _serialised(arrays, {**header, "digest": _digest(header, arrays)})


def _serialised(arrays: Arrays, header: dict[str, str]) -> bytes:
    """Serialise as safetensors does, but with a sorted header: its order is random there."""
    from safetensors.numpy import save

    content = save(arrays)
    end = 8 + int.from_bytes(content[:8], "little")
    entries = {"__metadata__": header, **json.loads(content[8:end])}
    text = json.dumps(entries, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at multiples of eight bytes
    return len(text).to_bytes(8, "little") + text + content[end:]


def _digest(header: Mapping[str, str], arrays: Arrays) -> str:
    """Hash all that is in a file but the digest itself. Cost: one pass over the arrays."""
    texts = {name: text for name, text in header.items() if name != "digest"}
    kinds = {name: f"{array.dtype} {list(array.shape)}" for name, array in arrays.items()}
    digest = hashlib.sha256(json.dumps([texts, kinds], sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def read(path: Path) -> tuple[tuple[Map, ...], dict[str, Any]]:
    """Read maps and metadata from a file. Cost: one pass over its arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    header, arrays = _content(path)
    if header.get("digest") != _digest(header, arrays):
        raise ValueError(
            f"Got {str(path)!r}, which was changed after it was written: its content does not "
            "match its digest. Copy the file again, or fit anew."
        )
    maps = tuple(
        _map(path, i, config, arrays) for i, config in enumerate(json.loads(header["maps"]))
    )
    if fault := chain_fault(maps):
        raise ValueError(f"Got {str(path)!r}, which has {fault}. Fit anew.")
    return maps, json.loads(header["metadata"])


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
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # TypeError and AttributeError: what safetensors raises for dtypes that numpy lacks.
    except (SafetensorError, OSError, TypeError, AttributeError) as error:
        raise ValueError(
            f"Got {str(path)!r}, which is not a readable safetensors file ({error}). Expected a "
            "file written by Eraser.save or `unspot fit`."
        ) from None


def _map(path: Path, i: int, config: dict[str, Any], arrays: Arrays) -> Map:
    kind = config.pop("kind")
    cls = map_class(kind)
    if cls is None:
        raise ValueError(
            f"Got {str(path)!r}, which has a map of kind {kind!r}, but this version of unspot "
            f"({__version__}) knows {', '.join(sorted(MAPS))}. Update unspot."
        )
    prefix = f"{i}."
    fields = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    try:
        return cls(**config, **fields)
    except TypeError as error:
        raise ValueError(
            f"Got {str(path)!r}, whose map {i}, {kind}, has other fields than in this version of "
            f"unspot ({__version__}): {error}. Fit anew."
        ) from None


def _named(maps: Sequence[Map]) -> Arrays:
    """Collect all arrays, by their names in a file."""
    return {f"{i}.{name}": array for i, m in enumerate(maps) for name, array in m.arrays().items()}


def _plain(value: Any) -> Any:
    """Convert numpy scalars and arrays to JSON values, and all else to text."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


# -- Facts in the metadata that commands read ------------------------------------------------------


class _Choice(TypedDict):
    criterion: str
    rank: int
    tried: dict[str, float]


class Selection(_Choice, total=False):
    """The choice of a rank."""

    error: float
    max_advantage: float | None


class Facts(TypedDict, total=False):
    """Facts that commands read. Others may be anything."""

    method: str
    concept_name: str
    data: str
    fingerprint: str
    features: list[str]
    known_rows: list[str]
    known_below: str
    known_step: float
    norms: list[float]
    parameters: dict[str, Any]
    versions: dict[str, Any]
    inner: Facts
    selection: Selection
    n_rows: int
    classes: list[Any] | None
    class_counts: list[int] | None


def metadata_fault(metadata: Mapping[str, Any]) -> str:
    """Describe the first fact that is not as commands expect it, or return an empty string.

    Examples
    --------
    >>> metadata_fault({"features": None})
    'features is None, but expected list'
    """
    try:
        as_type(Facts, metadata)
    except ValueError as fault:
        return str(fault)
    classes, counts = metadata.get("classes") or (), metadata.get("class_counts") or ()
    if counts and len(counts) != len(classes):
        n = len(classes)
        return f"class_counts has {len(counts)} entries for {n} classes, but expected {n}"
    selection = metadata.get("selection")
    if selection and str(selection["rank"]) not in selection["tried"]:
        return f"selection.rank is {selection['rank']}, but expected one of those tried"
    return metadata_fault(metadata["inner"]) if "inner" in metadata else ""
