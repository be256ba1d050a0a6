"""An eraser as one Python file that needs only numpy: a function, and a command for ``.npy``."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping

import numpy as np

from unspot.maps.program import INPUT, OPERATIONS, Program, Step

__all__ = ["python_source"]

_EXPRESSIONS: Mapping[str, str] = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "{0} * {1}",
    "divide": "{0} / {1}",
    "power": "{0} ** {1}",
    "matmul": "{0} @ {1}",
    "equal": "{0} == {1}",
    "exp": "np.exp({0})",
    "cos": "np.cos({0})",
    "softmax": "softmax({0})",
    "clip": "np.maximum({0}, {least})",
    "mean": "{0}.mean(-1)",
    "sum": "{0}.sum(-1)",
    "argmax": "{0}.argmax(-1)",
    "column": "{0}[..., None]",
    "slice": "{0}[..., {start}:{stop}]",
    "join": "np.concatenate([{0}, {1}], -1)",
    "transpose": "{0}.T",
    "take": "{0}[{1}]",
    "double": "{0}",  # since everything is
    "like": "{0}.astype({1}.dtype)",
}
assert _EXPRESSIONS.keys() == OPERATIONS.keys()

_SOFTMAX = """
def softmax(a):
    weights = np.exp(a - a.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

"""

_FILE = '''"""{title}

Made by unspot. It needs numpy only:

    from {module} import erase
    X_clean = erase(X)

    python {module}.py rows.npy clean.npy
"""

import base64
import io
import sys

import numpy as np


def constant(text):
    return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)

{softmax}
def erase(X):
    """Rows (…, {n_in}) without the concept, in their own dtype; integers become float64."""
    X = np.asarray(X)
    if X.ndim == 0 or X.shape[-1] != {n_in}:
        raise ValueError(f"Got rows of shape {{X.shape}}, but expected (…, {n_in}).")
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    {input} = X.astype(np.float64)
{steps}
    return {result}.astype(dtype)


{constants}

if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("Usage: python {module}.py rows.npy clean.npy")
    np.save(sys.argv[2], erase(np.load(sys.argv[1], allow_pickle=False)))
'''


def python_source(program: Program, title: str, module: str) -> str:
    """The source of a Python file with a function ``erase``, which computes in double precision.

    Parameters
    ----------
    program : Program
        From ``unspot.maps.trace``.
    title : str
        The first line of its docstring.
    module : str
        The name of the file without ``.py``, for its docstring.
    """
    constants = [f"{name} = {_literal(array)}" for name, array in program.constants.items()]
    uses_softmax = any(step.operation == "softmax" for step in program.steps)
    return _FILE.format(
        title=title.replace("\\", "/").replace('"', "'"),
        module=module,
        softmax=_SOFTMAX if uses_softmax else "",
        n_in=program.n_in,
        input=INPUT,
        steps="\n".join(f"    {_line(step)}" for step in program.steps),
        result=program.result,
        constants="\n\n".join(constants),
    )


def _line(step: Step) -> str:
    settings = {key: "" if value is None else value for key, value in step.settings.items()}
    return f"{step.output} = {_EXPRESSIONS[step.operation].format(*step.inputs, **settings)}"


def _literal(array: np.ndarray) -> str:
    """An array as text that ``constant`` reads."""
    file = io.BytesIO()
    np.save(file, np.asarray(array, dtype=np.float64))
    lines = textwrap.wrap(base64.b64encode(file.getvalue()).decode(), 96)
    return 'constant("""\n' + "\n".join(lines) + '\n""")'
