"""Erasure inside of a torch model: hooks on the outputs of its modules, chosen by name."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from inspect import signature
from types import TracebackType
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from unspot.checks import check_choice, did_you_mean
from unspot.eraser import Eraser

POSITIONS = ("all", "cls", "last")

#: Modules that have a hook of this kind now.
_ATTACHED: WeakSet[nn.Module] = WeakSet()


def hooks(
    model: nn.Module, erasers: Mapping[str, Any], *, positions: str | Tensor = "all"
) -> Hooks:
    """Erase the outputs of modules while a block runs.

    Nothing in the model changes: its weights and ``state_dict`` stay, and all hooks are gone after
    the block, also if an error ends it. With gradient checkpointing, call ``backward`` inside the
    block, since it runs the layers again.

    Parameters
    ----------
    model : torch.nn.Module
        Any model, on any device, in any floating dtype; it may be moved inside the block.
    erasers : mapping of str to Eraser
        For patterns of module names, such as "model.layers.*", an eraser or a fitted estimator. A
        star stands for one part of a name, between dots. A module may return a tensor of shape
        (…, d), a tuple or a model output; its first tensor is erased.
    positions : {"all", "cls", "last"} or tensor of shape (batch, length)
        Which tokens: all of them, the first or the last of each text, or those where a mask is
        true. Padding is left out of account if the model is called with an ``attention_mask``.

    Returns
    -------
    Hooks
        To be used in a ``with`` statement.

    Examples
    --------
    >>> import numpy as np
    >>> model = nn.Sequential(nn.Identity(), nn.Identity())
    >>> with hooks(model, {"0": Eraser.projection(np.eye(3)[:, :2])}):
    ...     model(torch.ones(1, 3))
    tensor([[1., 1., 0.]])
    >>> model(torch.ones(1, 3))
    tensor([[1., 1., 1.]])
    """
    return Hooks(model, erasers, positions)


class Hooks:
    """Hooks on a model; see ``hooks``. ``attach`` and ``remove`` do what a ``with`` block does."""

    def __init__(
        self, model: nn.Module, erasers: Mapping[str, Any], positions: str | Tensor = "all"
    ) -> None:
        self.model = model
        self.positions = check_positions(positions)
        #: The erasers by the full names of the modules that they are attached to.
        self.erasers: dict[str, Eraser] = {}
        for pattern, eraser in erasers.items():
            for name in matching(model, pattern):
                if name in self.erasers:
                    raise ValueError(
                        f"Got two erasers for the module {name!r}, the second by the pattern "
                        f"{pattern!r}, but expected one. Use patterns that do not overlap."
                    )
                self.erasers[name] = as_eraser(eraser, pattern)
        self._handles: list[Any] = []
        self._modules: list[nn.Module] = []

    def __enter__(self) -> Hooks:
        return self if self._handles else self.attach()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def attach(self) -> Hooks:
        """Put the hooks on the model, until ``remove``. An error in one of them removes all."""
        call_mask = CallMask(self.model, self.erasers)
        self._handles.append(call_mask)
        try:
            for name, eraser in self.erasers.items():
                self._attach(name, eraser, call_mask)
        except BaseException:
            self.remove()
            raise
        return self

    def _attach(self, name: str, eraser: Eraser, call_mask: CallMask) -> None:
        module = self.model.get_submodule(name)
        if module in _ATTACHED:
            raise ValueError(
                f"Got the module {name!r}, which an eraser is attached to already, but expected "
                "one that has none: a second eraser would see erased states. End the other block, "
                "or call remove()."
            )
        erasure = eraser.to_torch()

        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            try:
                states = state_of(output, name)
                check_width(states, eraser, name)
                where = chosen(self.positions, states, call_mask.value, name)
            except ValueError:
                self.remove()
                raise
            if where is None:
                return erased_output(output, erasure.followed(states))
            erased = states.clone()
            erased[where] = erasure.followed(states[where])
            return erased_output(output, erased)

        # Before other hooks, such as those by which transformers records hidden states.
        self._handles.append(module.register_forward_hook(hook, prepend=True))
        self._modules.append(module)
        _ATTACHED.add(module)

    def remove(self) -> None:
        """Take the hooks off the model. It does no harm if they are gone already."""
        for handle in self._handles:
            handle.remove()
        for module in self._modules:
            _ATTACHED.discard(module)
        self._handles, self._modules = [], []


class CallMask:
    """The ``attention_mask`` of the call that is running or was the last, or None.

    The call may be of the model or of a part of it that holds the named modules.
    """

    def __init__(self, model: nn.Module, names: Iterable[str]) -> None:
        self.value: Tensor | None = None
        self._depth = 0
        self._handles = []
        for outer in {part for name in names for part in _outer_names(name)}:
            module = model.get_submodule(outer)
            enter = module.register_forward_pre_hook(self._enter, with_kwargs=True, prepend=True)
            leave = module.register_forward_hook(self._leave, always_call=True)
            self._handles += [enter, leave]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: nn.Module, inputs: Any, named: dict[str, Any]) -> None:
        mask = named.get("attention_mask")
        if mask is None and inputs:
            order = list(signature(module.forward).parameters)
            mask = dict(zip(order, inputs, strict=False)).get("attention_mask")
        if isinstance(mask, Tensor) and mask.ndim == 2:
            self.value = mask
        elif not self._depth:  # inner modules may get another form of the mask, or none
            self.value = None
        self._depth += 1

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._depth -= 1


def _outer_names(name: str) -> list[str]:
    """List the names of the model, which is empty, and of all modules around the named one."""
    parts = name.split(".")[:-1]
    return ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]


def check_positions(positions: Any) -> str | Tensor:
    """Check for a word, or a mask of truth values."""
    if not isinstance(positions, Tensor):
        return check_choice("positions", positions, POSITIONS)
    if positions.ndim != 2 or positions.is_floating_point():
        raise ValueError(
            f"Got positions of shape {tuple(positions.shape)} and {positions.dtype}, but expected "
            "a mask of shape (batch, length) with true where tokens are meant."
        )
    return positions.bool()


def chosen(
    positions: str | Tensor, states: Tensor, mask: Tensor | None, name: str
) -> Tensor | None:
    """Select positions of states (batch, length, d), as a mask; None for all of them."""
    if isinstance(positions, str) and positions == "all":
        return None
    if states.ndim != 3:
        raise ValueError(
            f"Got states of shape {tuple(states.shape)} from the module {name!r}, which has no "
            "positions, but expected (batch, length, d). Use positions='all'."
        )
    batch, length = states.shape[:2]
    if isinstance(positions, Tensor):
        if positions.shape != (batch, length):
            raise ValueError(
                f"Got a mask of shape {tuple(positions.shape)} as positions, but the module "
                f"{name!r} returned {batch} texts of {length} tokens. Pass a mask for each call, "
                "or positions='all'."
            )
        return positions.to(states.device)
    tokens = kept_tokens(mask, batch, length).to(states.device)
    # In a step of generation, only the newest tokens have states: the first is among the earlier.
    earlier = 0 if mask is None else mask[:, : max(mask.shape[1] - length, 0)].sum(1, keepdim=True)
    order = tokens.cumsum(1) + torch.as_tensor(earlier, device=states.device)
    wanted = 1 if positions == "cls" else order[:, -1:]
    return tokens & (order == wanted)


def kept_tokens(mask: Tensor | None, batch: int, length: int) -> Tensor:
    """Mark tokens that are no padding."""
    if mask is None or len(mask) != batch or mask.shape[1] < length:
        return torch.ones(batch, length, dtype=torch.bool)
    return mask[:, mask.shape[1] - length :].bool()


def matching(model: nn.Module, pattern: str) -> list[str]:
    """List the names of the modules that a pattern matches, in the order of the model."""
    names = [name for name, _ in model.named_modules()]
    parts = pattern.split(".")
    matches = [name for name in names if _matches(name.split("."), parts)]
    if not matches:
        general = [re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) for name in names]
        raise ValueError(
            f"Got the pattern {pattern!r}, which matches no module of {type(model).__name__}, but "
            "expected names as in model.named_modules(), with * for one part between dots."
            f"{did_you_mean(pattern, dict.fromkeys(filter(None, [*general, *names])))}"
        )
    return matches


def _matches(name: list[str], pattern: list[str]) -> bool:
    # Part by part, so that "layers.*" does not mean everything inside of the layers as well.
    # The model itself has the empty name, which a star does not match.
    return len(name) == len(pattern) and all(
        fnmatchcase(part, wanted) and bool(part) == bool(wanted)
        for part, wanted in zip(name, pattern, strict=True)
    )


def as_eraser(eraser: Any, pattern: str) -> Eraser:
    """Take an eraser, or that of a fitted estimator."""
    frozen = getattr(eraser, "eraser_", eraser)
    if not isinstance(frozen, Eraser):
        raise TypeError(
            f"Got a {type(eraser).__name__} for {pattern!r}, but expected an unspot.Eraser or a "
            "fitted estimator. Fit one, or load it with unspot.load."
        )
    if frozen.maps[-1].n_out != frozen.n_features:
        raise ValueError(
            f"Got an eraser from {frozen.n_features} to {frozen.maps[-1].n_out} features for "
            f"{pattern!r}, but expected as many after as before: the next module needs them."
        )
    return frozen


def check_width(states: Tensor, eraser: Eraser, name: str) -> None:
    """Refuse states of another width than the eraser was fitted on."""
    if states.ndim == 0 or states.shape[-1] != eraser.n_features:
        raise ValueError(
            f"Got states of shape {tuple(states.shape)} from the module {name!r}, but its eraser "
            f"was fitted on {eraser.n_features} features. Fit it on this module's output, or "
            "choose another module."
        )


def state_of(output: Any, name: str) -> Tensor:
    """Take the states from the output of a module: the tensor, or the first of several."""
    key = _state_key(output)
    state = output if key is None else output[key]
    if not isinstance(state, Tensor) or not state.is_floating_point():
        raise ValueError(
            f"Got {_described(state)} from the module {name!r}, but expected a tensor of numbers, "
            "or a tuple or model output that begins with one. Choose a module that returns states."
        )
    return state


def erased_output(output: Any, erased: Tensor) -> Any:
    """Replace the states in the output of a module."""
    key = _state_key(output)
    if key is None:
        return erased
    if isinstance(output, Mapping):  # such as a ModelOutput of transformers
        changed = copy.copy(output)
        changed[key] = erased  # type: ignore[index]
        return changed
    if hasattr(output, "_replace"):  # a named tuple
        return output._replace(**{output._fields[0]: erased})
    return type(output)([erased, *output[1:]])


def _state_key(output: Any) -> Any:
    """Find the states in an output: a key, 0 for the first of a tuple, None for a tensor."""
    if isinstance(output, Mapping) and output:
        return next(iter(output))
    return 0 if isinstance(output, (tuple, list)) and output else None


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype}"
    return f"a {type(value).__name__}"
