"""An eraser as an ONNX model: rows in single precision in and out, double precision between.

In single precision a rounded basis is another subspace, one that holds a little of what was
removed. So the model computes as an ``Eraser`` does, and agrees with it to the last digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unspot._version import __version__
from unspot.checks import require
from unspot.maps.program import INPUT, Program, Step

#: Versions that onnxruntime and other programs have read for years.
OPSET, IR_VERSION = 18, 9

#: ONNX operator of each operation of ``unspot.maps.program`` that is one operator.
_OPERATORS = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
    "matmul": "MatMul",
    "equal": "Equal",
    "exp": "Exp",
    "cos": "Cos",
    "softmax": "Softmax",
    "mean": "ReduceMean",
    "sum": "ReduceSum",
    "argmax": "ArgMax",
    "column": "Unsqueeze",
    "slice": "Slice",
    "clip": "Max",
    "join": "Concat",
    "transpose": "Transpose",
    "take": "Gather",
    "double": "Identity",  # all values are double already
    "like": "CastLike",
}
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "softmax": {"axis": -1},
    "mean": {"keepdims": 0},
    "sum": {"keepdims": 0},
    "argmax": {"axis": -1, "keepdims": 0},
    "join": {"axis": -1},
    "take": {"axis": 0},
}
#: Numbers that an operator takes as further inputs, given the settings of a step.
_FURTHER: dict[str, Callable[[Mapping[str, Any]], list[Any]]] = {
    "mean": lambda _: [[-1]],
    "sum": lambda _: [[-1]],
    "column": lambda _: [[-1]],
    "clip": lambda settings: [float(settings["least"])],
    "slice": lambda settings: [
        [settings["start"] or 0],
        [np.iinfo(np.int64).max if settings["stop"] is None else settings["stop"]],
        [-1],
    ],
}


def onnx_bytes(program: Program, facts: Mapping[str, Any]) -> bytes:
    """Serialise an ``.onnx`` file with an input ``embeddings`` and an output ``erased``.

    Parameters
    ----------
    program : Program
        From ``unspot.maps.trace``.
    facts : mapping
        Stored as JSON in the metadata of the model, under ``unspot``.
    """
    require("to_onnx", "models", "onnx")
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(program)
    nodes = [
        helper.make_node("Cast", ["embeddings"], [INPUT], to=TensorProto.DOUBLE),
        *map(graph.node, program.steps),
        helper.make_node("Cast", [program.result], ["erased"], to=TensorProto.FLOAT),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in (("embeddings", program.n_in), ("erased", program.n_out))
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "unspot", ends[:1], ends[1:], graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="unspot",
        producer_version=__version__,
    )
    helper.set_model_props(model, {"unspot": json.dumps(dict(facts), default=str)})
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


class _Graph:
    """The nodes of a program, and the constants that they use."""

    def __init__(self, program: Program) -> None:
        from onnx import numpy_helper

        self._from_array = numpy_helper.from_array
        self._whole: set[str] = set()  # values that are whole numbers
        self.initializers: list[Any] = []
        for name, array in program.constants.items():
            self._add(name, np.asarray(array, dtype=np.float64))

    def node(self, step: Step) -> Any:
        """Convert one step to a node."""
        from onnx import helper

        operation, output = step.operation, step.output
        if operation == "argmax":
            self._whole.add(output)
        inputs = self._names(step.inputs, like=step.inputs)
        inputs += self._names(_FURTHER.get(operation, lambda _: [])(step.settings), like=())
        settings = _ATTRIBUTES.get(operation, {})
        return helper.make_node(_OPERATORS[operation], inputs, [output], **settings)

    def _names(self, values: Sequence[Any], like: Sequence[Any]) -> list[str]:
        """Name the values; numbers become constants of the type of what they meet."""
        is_whole = any(value in self._whole for value in like if isinstance(value, str))
        return [
            value if isinstance(value, str) else self._constant(value, is_whole) for value in values
        ]

    def _constant(self, value: Any, is_whole: bool) -> str:
        is_index = isinstance(value, list)
        dtype = np.int64 if is_index or is_whole else np.float64
        name = f"n{len(self.initializers)}"
        self._add(name, np.asarray(value, dtype=dtype))
        return name

    def _add(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self.initializers.append(self._from_array(np.array(array, order="C"), name))
