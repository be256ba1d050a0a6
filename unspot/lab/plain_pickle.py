"""Reading pickles of plain data without running what is in them.

A pickle is a program: it may call any function that it names. This reader lets it name none but
the few that rebuild containers and numpy arrays, and those are our own: numpy's would take raw
memory addresses from the file, which is as good as running it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

#: Containers by their id, each with what it became. They are kept, so that no id is used again.
Seen = dict[int, tuple[Any, Any]]

_BUILTINS = {t.__name__: t for t in (set, frozenset, bytes, bytearray, complex)}


def read_plain_pickle(path: str | os.PathLike[str]) -> Any:
    """Read a pickle of lists, dicts, strings, numbers and numpy arrays; refuse any other.

    Nothing that the file names is imported or called. Arrays may hold numbers, strings or plain
    objects; structured arrays, dates and classes of any kind are refused.

    Examples
    --------
    >>> import pickle, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.pickle"
    >>> _ = path.write_bytes(pickle.dumps([{"g": "f", "p": "nurse"}]))
    >>> read_plain_pickle(path)
    [{'g': 'f', 'p': 'nurse'}]
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _PlainUnpickler(file).read()
    except _Refused as refused:
        raise ValueError(
            f"Got {str(path)!r}, a pickle that asks for {refused}, but expected plain lists, "
            "dicts, strings, numbers and numpy arrays. It was refused before anything in it was "
            "run. If you trust whoever made it, load it yourself and save its arrays with "
            "numpy.save."
        ) from None
    except (FileNotFoundError, IsADirectoryError, PermissionError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle fails in any way: EOFError, IndexError, …
        raise ValueError(
            f"Got {str(path)!r}, which cannot be read as a pickle ({type(error).__name__}: "
            f"{error}). Is the download complete?"
        ) from None


class _Refused(Exception):
    """The pickle names something that is not plain data."""


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._arrays = False

    def read(self) -> Any:
        value = self.load()
        return _with_arrays(value, {}) if self._arrays else value

    def find_class(self, module: str, name: str) -> Any:
        if module in ("builtins", "__builtin__") and name in _BUILTINS:
            return _BUILTINS[name]
        # numpy 2 renamed numpy.core, and each version reads the other's pickles.
        rebuild = _REBUILD.get((module.replace("numpy._core", "numpy.core"), name))
        if rebuild is None:
            raise _Refused(f"{module}.{name}")
        self._arrays = True
        # A new function each time, because a pickle may set attributes on what it is given.
        return lambda *arguments: rebuild(*arguments)


class _Dtype:
    """A dtype as pickles write it: a code, then a state with the byte order."""

    def __init__(self, code: Any) -> None:
        self.dtype = np.dtype(str(code))
        if self.dtype.kind not in "biufcSUO":
            raise _Refused(f"an array of dtype {self.dtype}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array as pickles write it: empty first, then a state with shape, dtype and content."""

    def __init__(self) -> None:
        self._state: tuple[Any, ...] = ()
        self._built: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._state = state

    def build(self, seen: Seen) -> NDArray[Any]:
        if self._built is None:
            _, shape, kind, fortran, content = self._state
            if isinstance(content, list):
                flat = np.empty(len(content), dtype=object)
                for i, item in enumerate(content):
                    flat[i] = _with_arrays(item, seen)
            else:
                flat = _from_bytes(content, kind)
            self._built = flat.reshape(shape, order="F" if fortran else "C")
        return self._built


def _from_bytes(content: bytes, kind: _Dtype) -> NDArray[Any]:
    if kind.dtype == object:
        raise _Refused("objects at addresses in memory")
    return np.frombuffer(content, dtype=kind.dtype).copy()  # the pickle's own bytes are read-only


def _scalar(kind: _Dtype, content: bytes) -> Any:
    return _from_bytes(content, kind)[0]


def _frombuffer(content: bytes, kind: _Dtype, shape: Any, order: Any) -> NDArray[Any]:
    return _from_bytes(content, kind).reshape(shape, order=order)


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise _Refused(f"the codec {encoding!r}")
    return text.encode("latin1")


_REBUILD: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): lambda *_: _Array(),
    ("numpy", "dtype"): lambda code, *_: _Dtype(code),
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("_codecs", "encode"): _latin1,  # how the older protocols write the bytes of an array
}


def _with_arrays(value: Any, seen: Seen) -> Any:
    """Build every ``_Array`` in a value, each container once; lists and dicts in place."""
    if isinstance(value, _Array):
        return value.build(seen)
    if isinstance(value, _Dtype):
        return value.dtype
    if id(value) in seen:
        return seen[id(value)][1]
    if isinstance(value, tuple):
        built = tuple(_with_arrays(item, seen) for item in value)
        seen[id(value)] = value, built
        return built
    if isinstance(value, (list, dict)):
        seen[id(value)] = value, value
        for key in value if isinstance(value, dict) else range(len(value)):
            value[key] = _with_arrays(value[key], seen)
    return value
