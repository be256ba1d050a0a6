"""Content of JSON and TOML files as the types that dataclasses declare.

Anybody can edit such a file. A value of another type is refused here, by the name of its field,
and not deep inside the code that uses it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

__all__ = ["as_type", "parse"]

#: Types of plain values, and how messages call them.
_WORDS = {
    str: "text",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    NoneType: "null",
    list: "a list",
    dict: "an object with names",
}


def parse(text: str | bytes, what: str = "JSON") -> Any:
    """Parse JSON or TOML text; a ValueError if it is neither, or nested too deeply.

    A name that occurs twice is an error too: readers differ in which of the two they take.
    """
    read: Callable[..., Any] = _read_json if what == "JSON" else tomllib.loads
    try:
        return read(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _read_json(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} is given twice")
    return content


def as_type(kind: Any, value: Any, where: str = "") -> Any:
    """Convert a plain value to some type, or raise a ValueError that names the field.

    Parameters
    ----------
    kind : type
        A dataclass, a TypedDict, a plain type, ``Any``, ``Literal``, or a union, a list, a tuple
        or a mapping of such types. Of a union, the first type that fits counts.
    value : object
        As a reader of JSON or TOML gives it. Names that a dataclass lacks are left out: they are
        of a later version.
    where : str
        The name of the field, for the message.

    Examples
    --------
    >>> as_type(tuple[int | None, ...], [3, None])
    (3, None)
    >>> as_type(dict[str, float], {"loss": "low"}, "point")
    Traceback (most recent call last):
    ValueError: point.loss is 'low', but expected a number
    """
    for option in _options(kind):
        if _fits(option, value):
            return _built(option, value, where)
    expected = " or ".join(dict.fromkeys(map(_word, _options(kind))))
    raise ValueError(f"{where or 'the content'} is {_short(value)}, but expected {expected}")


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(kind: Any, value: Any) -> bool:
    """Check the type of a value, apart from what is inside it."""
    if kind is Any:
        return True
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    plain = _plain_type(kind)
    if plain in (int, float):
        # Larger integers cannot be computed with as numbers of 64 bits.
        small = not isinstance(value, int) or abs(value) < 2**63
        return type(value) in {int, plain} and small
    return isinstance(value, plain)


def _plain_type(kind: Any) -> type:
    """Find the type that a reader of JSON gives for a value of this type."""
    origin = get_origin(kind) or kind
    if is_dataclass(origin) or is_typeddict(origin) or origin is Mapping:
        return dict
    plain: type = list if origin is tuple else origin
    return plain


def _built(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return kind(**_members(kind, value, where, _required(kind)))  # type: ignore[operator]
    if is_typeddict(kind):
        _members(kind, value, where, kind.__required_keys__)
        return value
    if origin in (dict, Mapping):
        return {key: as_type(arguments[1], v, _join(where, key)) for key, v in value.items()}
    if origin in (list, tuple):
        if origin is tuple and arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ValueError(f"{where} has {len(value)} entries, but expected {len(arguments)}")
        return origin(as_type(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    return value


def _members(kind: Any, value: Mapping[str, Any], where: str, required: Any) -> dict[str, Any]:
    for name in required:
        if name not in value:
            raise ValueError(f"{_join(where, name)} is missing")
    return {
        name: as_type(hint, value[name], _join(where, name))
        for name, hint in _hints(kind).items()
        if name in value
    }


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _required(kind: Any) -> list[str]:
    with_default = (f for f in fields(kind) if f.default is MISSING)
    return [f.name for f in with_default if f.default_factory is MISSING]


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return _WORDS[_plain_type(kind)]


def _short(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"{_WORDS[type(value)]}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
