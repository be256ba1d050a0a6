"""An eraser as a torch module: constants are buffers, and gradients flow through.

The module runs the same steps as the maps, in single precision at least. A rounded basis is another
subspace, one that holds a little of what was removed, so a module that followed a model's half
precision would leave as much of the concept as that rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from unspot.maps import program
from unspot.maps.program import INPUT, Program

#: Each operation of ``unspot.maps.program`` in torch.
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **program.OPERATIONS,
    "exp": torch.exp,
    "cos": torch.cos,
    "softmax": lambda a: torch.softmax(a, -1),
    "join": lambda a, b: torch.cat([a, b], -1),
    "double": lambda a: a if a.device.type == "mps" else a.double(),  # MPS has no doubles
    "like": lambda a, other: a.to(other.dtype),
}


class ErasureModule(nn.Module):
    """A program as a module on tensors (…, n_in) of any floating dtype, which the result keeps.

    Buffers are in double precision, and move with the module. Rows of double precision are computed
    in it, all others in single precision, also under autocast.

    Parameters
    ----------
    program : Program
        From ``unspot.maps.trace``; ``Eraser.to_torch`` makes the module at once.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from unspot import Eraser
    >>> module = Eraser.projection(np.eye(3)[:, :2]).to_torch()
    >>> module(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 2., 0.]])
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.steps, self.result, self.double_buffers = program.steps, program.result, program.double
        self.n_in, self.n_out = program.n_in, program.n_out
        for name, array in program.constants.items():
            self.register_buffer(name, torch.tensor(array, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != self.n_in:
            raise ValueError(
                f"Got a tensor of shape {tuple(x.shape)}, but expected (…, {self.n_in}): "
                f"this eraser was fitted on {self.n_in} features."
            )
        dtype = x.dtype if x.is_floating_point() else torch.float64
        with _exactly(x.device.type):
            return self._run(x.to(torch.promote_types(dtype, torch.float32))).to(dtype)

    def _run(self, x: Tensor) -> Tensor:
        values: dict[Any, Any] = {INPUT: x}
        for name, buffer in self.named_buffers():
            values[name] = buffer if name in self.double_buffers else buffer.to(x.dtype)
        for step in self.steps:
            inputs = [values[i] if isinstance(i, str) else i for i in step.inputs]
            values[step.output] = OPERATIONS[step.operation](*inputs, **step.settings)
        return values[self.result]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ErasureModule:
        """Follow the device, as ``to``, ``half``, ``cuda``… ask, but no other dtype."""
        device = fn(torch.empty(0)).device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no doubles
        for name, buffer in self.named_buffers():
            self._buffers[name] = buffer.to(device, dtype)
        return self

    def extra_repr(self) -> str:
        return f"{self.n_in} → {self.n_out} features, {len(self.steps)} steps"

    def followed(self, x: Tensor) -> Tensor:
        """Erase a tensor on any device, to which the buffers are moved first."""
        if any(buffer.device != x.device for buffer in self.buffers()):
            self.to(x.device)
        return self(x)


def _exactly(device: str) -> AbstractContextManager[Any]:
    """Disable autocast on devices that have it."""
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def as_hook(program: Program) -> Callable[..., Tensor]:
    """Make a function of a tensor, and of a second argument that is not used."""
    module = ErasureModule(program)

    def erase(tensor: Tensor, hook: Any = None) -> Tensor:
        return module.followed(tensor)

    return erase
