"""A chain of maps as a program: a list of elementary steps that other systems can run.

Maps use only operators that numpy and torch share. Here they are called on a third kind of array,
which computes nothing and records each operator. The program that comes out is the one description
from which a torch module or an ONNX file is made, so a new map needs no code for any
of these. Programs take the same path as the maps: a linear map goes through the coordinates of what
it keeps.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from unspot.maps.base import Array, Map

#: The name of the rows that a program is called on.
INPUT = "x"


@dataclass(frozen=True)
class Step:
    """One elementary operation on values that have names.

    ``inputs`` are names of the rows, of constants or of results of earlier steps, or numbers.
    """

    operation: str
    inputs: tuple[str | int | float, ...]
    output: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def _softmax(a: Array) -> Array:
    weights = np.exp(a - a.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


#: Each operation on arrays of shape (…, d). All act on the last axis. Those that torch
#: writes otherwise are replaced in ``unspot.export.torch_module``.
OPERATIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "power": operator.pow,
        "matmul": operator.matmul,  # (…, d) @ (d, r)
        "equal": operator.eq,  # whole numbers and a number → true or false
        "exp": np.exp,
        "cos": np.cos,
        "softmax": _softmax,
        "clip": lambda a, *, least: a.clip(min=least),
        "mean": lambda a: a.mean(-1),  # (…, d) → (…)
        "sum": lambda a: a.sum(-1),  # (…, d) → (…)
        "argmax": lambda a: a.argmax(-1),  # (…, d) → whole numbers (…)
        "column": lambda a: a[..., None],  # (…) → (…, 1)
        "slice": lambda a, *, start, stop: a[..., start:stop],
        "join": lambda a, b: np.concatenate([a, b], -1),
        "transpose": lambda a: a.T,  # of a constant (d, r)
        "take": lambda rows, numbers: rows[numbers],  # of a constant (m, d), whole numbers (…)
        "double": lambda a: a.astype(np.float64),
        "like": lambda a, other: a.astype(other.dtype),  # to the precision of another value
    }
)


@dataclass(frozen=True, eq=False)
class Program:
    """Steps that compute what a chain of maps computes.

    Constants in ``double`` meet only values in double precision, whatever the rows have. All others
    belong in the precision of the computation, for which single is enough.

    Examples
    --------
    >>> from unspot.maps import Dense
    >>> steps = trace([Dense(np.array([[1.0, -1.0]]), np.array([0.5, 0.5]), relu=True)])
    >>> [(step.operation, step.inputs, step.output) for step in steps.steps]
    [('matmul', ('x', 'c0'), 'v0'), ('add', ('v0', 'c1'), 'v1'), ('clip', ('v1',), 'v2')]
    """

    steps: tuple[Step, ...]
    constants: Mapping[str, Array]
    double: frozenset[str]
    result: str
    n_in: int
    n_out: int


class _Tape:
    """Recorded steps, and the constants that they use."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.constants: dict[str, Array] = {}
        self.double: set[str] = set()
        self._names: dict[tuple[Any, ...], str] = {}

    def name(self, value: Any) -> str | int | float:
        """Name a value; a constant gets its name when a step uses it for the first time."""
        if not isinstance(value, Traced):
            return value.item() if isinstance(value, np.generic) else value
        if value.constant is None:
            return value.name
        array = np.ascontiguousarray(value.constant)
        digest = hashlib.sha256(array.tobytes()).digest()  # equal constants are stored once
        key = (digest, array.shape, value.is_double)
        if key not in self._names:
            self._names[key] = name = f"c{len(self.constants)}"
            self.constants[name] = array
            if value.is_double:
                self.double.add(name)
        return self._names[key]

    def record(self, operation: str, inputs: Sequence[Any], settings: Mapping[str, Any]) -> str:
        output = f"v{len(self.steps)}"
        names = tuple(self.name(value) for value in inputs)
        self.steps.append(Step(operation, names, output, dict(settings)))
        return output


def _operator(operation: str) -> Any:
    return lambda self, other: self._step(operation, self, other)


def _reflected(operation: str) -> Any:
    return lambda self, other: self._step(operation, other, self)


class Traced:
    """An array that computes nothing: its operators record steps on a tape.

    Operators between constants are computed at once, so that programs hold their results.
    """

    __array_ufunc__ = None  # numpy arrays leave operators with it to this class
    __hash__ = object.__hash__
    device: ClassVar[Any] = SimpleNamespace(type="none")

    def __init__(
        self, tape: _Tape, name: str = "", constant: Array | None = None, is_double: bool = False
    ) -> None:
        self.tape, self.name, self.constant, self.is_double = tape, name, constant, is_double

    def _step(
        self, operation: str, *inputs: Any, double: bool | None = None, **settings: Any
    ) -> Any:
        traced = [value for value in inputs if isinstance(value, Traced)]
        is_double = any(t.is_double for t in traced) if double is None else double
        if all(t.constant is not None for t in traced):
            values = [v.constant if isinstance(v, Traced) else v for v in inputs]
            return self._constant(OPERATIONS[operation](*values, **settings), is_double)
        name = self.tape.record(operation, inputs, settings)
        return Traced(self.tape, name, is_double=is_double)

    def _constant(self, array: Any, is_double: bool | None = None) -> Traced:
        is_double = self.is_double if is_double is None else is_double
        return Traced(self.tape, constant=np.asarray(array, np.float64), is_double=is_double)

    def new_tensor(self, array: Array) -> Traced:
        """Make a constant that meets values of this precision, for ``unspot.maps.like``."""
        return self._constant(array)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _operator("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _operator("divide"), _reflected("divide")
    __pow__, __matmul__, __eq__ = _operator("power"), _operator("matmul"), _operator("equal")

    def __neg__(self) -> Any:
        return self._step("multiply", self, -1.0)

    def exp(self) -> Any:
        return self._step("exp", self)

    def cos(self) -> Any:
        return self._step("cos", self)

    def softmax(self, axis: int) -> Any:
        return self._last("softmax", axis)

    def argmax(self, axis: int) -> Any:
        return self._last("argmax", axis)

    def mean(self, axis: int) -> Any:
        return self._last("mean", axis)

    def sum(self, axis: int) -> Any:
        return self._last("sum", axis)

    def _last(self, operation: str, axis: int) -> Any:
        if axis != -1:
            if self.constant is None:
                raise NotImplementedError(f"{operation} over axis {axis}")
            return self._constant(getattr(self.constant, operation)(axis))
        return self._step(operation, self)

    def clip(self, *, min: float) -> Any:
        return self._step("clip", self, least=min)

    def double(self) -> Any:
        return self if self.is_double else self._step("double", self, double=True)

    def to(self, other: Traced) -> Any:
        """Convert to the precision of another value, as in torch; truth values become 0 and 1."""
        return self._step("like", self, other, double=other.is_double)

    @property
    def T(self) -> Any:
        # A step and no second constant: what a basis and its transpose share is stored once.
        return Traced(self.tape, self.tape.record("transpose", [self], {}), None, self.is_double)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, Traced):
            return self._step("take", self, key, double=self.is_double)
        if self.constant is not None:
            return self._constant(self.constant[key])
        if key == (Ellipsis, None):
            return self._step("column", self)
        start, stop = self._columns(key)
        return self._step("slice", self, start=start, stop=stop)

    def __setitem__(self, key: Any, value: Any) -> None:
        start, stop = self._columns(key)
        if stop is not None or not start:
            raise NotImplementedError(f"assignment to {key}")
        joined = self._step("join", self[..., :start], value)
        self.name = joined.name

    def _columns(self, key: Any) -> tuple[int | None, int | None]:
        """Find the bounds of a slice of the last axis."""
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], slice)):
            raise NotImplementedError(f"the index {key}")
        return key[1].start, key[1].stop


def trace(maps: Sequence[Map]) -> Program:
    """Record the steps of a chain of maps.

    Cost: that of the maps' own preparations; nothing is computed on rows.
    """
    tape = _Tape()
    x = Traced(tape, INPUT)
    for m in maps:
        try:
            x = m(x)
        except (NotImplementedError, AttributeError, TypeError) as error:
            raise NotImplementedError(
                f"Got a map of kind {m.kind!r}, which cannot be written as elementary steps "
                f"({error}), but expected the operations {', '.join(OPERATIONS)}. Call the eraser "
                "on arrays instead."
            ) from error
    return Program(
        steps=tuple(tape.steps),
        constants=tape.constants,
        double=frozenset(tape.double),
        result=x.name,
        n_in=maps[0].n_in,
        n_out=maps[-1].n_out,
    )
