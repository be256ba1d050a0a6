"""Hidden states of a model as rows: batch after batch, never all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspot.models.hooks import CallMask, chosen, kept_tokens, matching, state_of


@dataclass(frozen=True, eq=False)
class StateRows:
    """Rows of some texts: states (n, d), and the number of the text that each one comes from."""

    X: NDArray[np.float32]
    texts: NDArray[np.int64]


class _Stop(Exception):
    """Ends a pass through a model when the last state that is wanted is there."""


def rows_of_states(
    model: nn.Module, inputs: Any, layers: Sequence[str], positions: str
) -> Iterator[dict[str, StateRows]]:
    """Yield the states that modules return, by their names, batch after batch.

    Hooks that are on the model act before. A pass ends at the last of the modules. Padding is left
    out if the inputs have an ``attention_mask``.
    """
    start = 0
    for batch in inputs:
        states, mask = _states(model, batch, layers)
        yield {name: _rows(state, mask, positions, name, start) for name, state in states.items()}
        start += _n_texts(batch)


def sampled_states(
    batches: Iterator[dict[str, StateRows]], max_rows: int, seed: int
) -> tuple[dict[str, StateRows], int]:
    """Sample at most ``max_rows`` rows of every module, and count how many there were.

    All modules, and every call with the same seed and numbers of rows, give the same rows.
    """
    kept: dict[str, StateRows] = {}
    keys, n_rows, rng = np.empty(0), 0, np.random.default_rng(seed)
    for batch in batches:
        n_new = len(next(iter(batch.values())).texts)
        n_rows += n_new
        keys = np.concatenate([keys, rng.random(n_new)])
        # Those with the smallest keys: a sample of all rows so far, whatever is still to come.
        best = np.sort(np.argsort(keys, kind="stable")[:max_rows])
        keys = keys[best]
        for name, new in batch.items():
            kept[name] = _joined(kept.get(name), new, best)
    return kept, n_rows


def _joined(old: StateRows | None, new: StateRows, best: NDArray[np.int64]) -> StateRows:
    parts = [new] if old is None else [old, new]
    X = np.concatenate([part.X for part in parts])[best]
    return StateRows(X, np.concatenate([part.texts for part in parts])[best])


def check_inputs(inputs: Any, z: NDArray[Any]) -> None:
    """Refuse what cannot be read twice in the same order, or has not one label for each text."""
    if iter(inputs) is inputs:
        raise ValueError(
            f"Got inputs of type {type(inputs).__name__}, which can be read only once, but every "
            "layer reads them again. Pass a list of batches, or a DataLoader."
        )
    if isinstance(getattr(inputs, "sampler", None), torch.utils.data.RandomSampler):
        raise ValueError(
            "Got a DataLoader that shuffles, but expected the order of z in every pass. Use "
            "shuffle=False."
        )
    n_texts = sum(map(_n_texts, inputs))
    if z.shape != (n_texts,):
        raise ValueError(
            f"Got z of shape {z.shape} for inputs of {n_texts} texts, but expected one label for "
            "each text."
        )


def _n_texts(batch: Any) -> int:
    values = batch.values() if isinstance(batch, Mapping) else batch
    parts = [batch] if isinstance(batch, Tensor) else [v for v in values if isinstance(v, Tensor)]
    if not parts:
        raise ValueError(
            f"Got a batch of type {type(batch).__name__} without a tensor, but expected what the "
            "model is called with. For texts, call the tokenizer with return_tensors='pt'."
        )
    return len(parts[0])


def call_order(model: nn.Module, patterns: str | Sequence[str], inputs: Any) -> list[str]:
    """List the modules that patterns match, in the order in which a pass calls them."""
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    names = list(dict.fromkeys(chain.from_iterable(matching(model, p) for p in patterns)))
    if not names:
        raise ValueError("Got no layers, but expected a pattern such as 'model.layers.*'.")
    order: list[str] = []
    with _evaluating(model), _hooked(model, names, lambda name, output: order.append(name)):
        _run(model, next(iter(inputs)))
    if silent := [name for name in names if name not in order]:
        raise ValueError(
            f"Got the module {silent[0]!r}, which a pass through the model does not call, but "
            "expected modules that compute states. Name those inside of it."
        )
    name, times = Counter(order).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"Got the module {name!r}, which one pass calls {times} times, but expected one call: "
            "an eraser fits one place. Name a module that is called once."
        )
    return order


def _states(
    model: nn.Module, batch: Any, layers: Sequence[str]
) -> tuple[dict[str, Tensor], Tensor | None]:
    states: dict[str, Tensor] = {}

    def keep(name: str, output: Any) -> None:
        states[name] = state_of(output, name)
        if len(states) == len(layers):
            raise _Stop

    call_mask = CallMask(model, layers)
    try:
        with _evaluating(model), _hooked(model, layers, keep):
            _run(model, batch)
    except _Stop:
        pass
    finally:
        call_mask.remove()
    return states, call_mask.value


def _rows(states: Tensor, mask: Tensor | None, positions: str, name: str, start: int) -> StateRows:
    if states.ndim not in (2, 3):
        raise ValueError(
            f"Got states of shape {tuple(states.shape)} from the module {name!r}, but expected "
            "(batch, d) or (batch, length, d). Choose another module."
        )
    where = chosen(positions, states, mask, name)
    if where is None and states.ndim == 3:
        where = kept_tokens(mask, *states.shape[:2]).to(states.device)
    if where is None:
        rows, texts = states, torch.arange(len(states))
    else:
        rows, texts = states[where], where.nonzero()[:, 0]
    return StateRows(rows.float().cpu().numpy(), texts.cpu().numpy().astype(np.int64) + start)


def _run(model: nn.Module, batch: Any) -> None:
    device = next(chain(model.parameters(), model.buffers()), torch.empty(0)).device
    with torch.no_grad():
        if isinstance(batch, Mapping):
            model(**{name: _on(device, value) for name, value in batch.items()})
        elif isinstance(batch, (tuple, list)):
            model(*(_on(device, value) for value in batch))
        else:
            model(_on(device, batch))


def _on(device: torch.device, value: Any) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


@contextmanager
def _hooked(model: nn.Module, names: Sequence[str], see: Any) -> Iterator[None]:
    """Call ``see(name, output)`` after each of the modules, behind all hooks they have."""
    handles = []
    try:
        for name in names:

            def hook(module: nn.Module, inputs: Any, output: Any, name: str = name) -> None:
                see(name, output)

            handles.append(model.get_submodule(name).register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout, and afterwards as it was before."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
