"""Erasure layer by layer: each layer's eraser is fitted behind the erased layers before it.

Hidden states are read as rows, batch after batch, and are never all in memory.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor, nn

from unspot.checks import check_choice, check_count
from unspot.data.rows import as_seed
from unspot.eraser import Eraser, load, method_name
from unspot.erasers.leace import LEACE
from unspot.models.hooks import POSITIONS, CallMask, Hooks, chosen, kept_tokens, matching, state_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LayerErasers:
    """Erasers of the layers of a model, by the names of its modules.

    Attributes
    ----------
    erasers : mapping of str to Eraser
        In the order in which the model calls the layers. Their metadata say how many states the
        fit of a layer saw (``rows_seen``) and used (``n_rows``).
    positions : {"all", "cls", "last"}
    """

    erasers: Mapping[str, Eraser]
    positions: str

    def __repr__(self) -> str:
        methods = sorted({method_name(e.metadata) or "unknown" for e in self.erasers.values()})
        names = list(self.erasers)
        return (
            f"<LayerErasers by {', '.join(methods)}: {len(names)} layers, {names[0]} … {names[-1]},"
            f" positions={self.positions!r}>"
        )

    def attach(self, model: nn.Module) -> Hooks:
        """Put all erasers on a model: until ``remove``, or the end of a ``with`` block."""
        return self.hooks(model).attach()

    def hooks(self, model: nn.Module) -> Hooks:
        """Make the hooks, not yet on the model."""
        return Hooks(model, self.erasers, self.positions)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with one safetensors file for each layer, numbered in their order."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for number, eraser in enumerate(self.erasers.values()):
            eraser.save(Path(folder) / f"{number:03d}.safetensors")


def fit_layers(
    model: nn.Module,
    inputs: Any,
    z: Any,
    *,
    layers: str | Sequence[str],
    eraser: Any = None,
    positions: str = "all",
    max_rows: int = 20_000,
    random_state: Any = 0,
) -> LayerErasers:
    """Fit an eraser for each layer, on the states that come through the erased layers before it.

    One pass through the model for each layer, up to that layer. An estimator with ``partial_fit``,
    such as LEACE, is fitted on all states, batch by batch. Others get a random sample of
    ``max_rows`` states, and the log and the result say of how many. No more states than these and
    one batch are in memory.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : list of batches, or DataLoader
        Inputs of the model's calls: mappings by keyword, tuples by position. Every layer reads
        them again, in the same order.
    z : array-like of shape (n,)
        The concept's label of each text; all its tokens have it.
    layers : str or sequence of str
        Names of modules or patterns, as in ``unspot.hooks``.
    eraser : estimator, optional
        Estimator for each layer; by default ``LEACE()``, and for nonlinear attackers
        ``Cascade(rank=…)``.
    positions : {"all", "cls", "last"}
        Which tokens are erased; padding never counts.
    max_rows : int
        States that an estimator without ``partial_fit`` is fitted on.
    random_state : int, Generator or None
        Decides the sample of states.

    Examples
    --------
    >>> import torch
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    >>> x, z = torch.randn(200, 4, generator=generator), np.arange(200) % 2
    >>> erasers = fit_layers(model, x.split(50), z, layers=["0", "2"])
    >>> erasers
    <LayerErasers by LEACE: 2 layers, 0 … 2, positions='all'>
    >>> with erasers.attach(model):
    ...     erased = model(x).detach().numpy()
    >>> bool(abs(erased[z == 1].mean(0) - erased[z == 0].mean(0)).max() < 1e-6)
    True
    """
    check_choice("positions", positions, POSITIONS)
    check_count("max_rows", max_rows, least=2)
    labels = np.asarray(z)
    check_inputs(inputs, labels)
    estimator = LEACE() if eraser is None else eraser
    if not hasattr(estimator, "fit"):
        raise TypeError(
            f"Got a {type(estimator).__name__} as eraser, but expected an estimator that is fitted "
            "here, such as LEACE() or Cascade(rank=0.5)."
        )
    names, seed = call_order(model, layers, inputs), as_seed(random_state)
    erasers: dict[str, Eraser] = {}
    for name in names:
        with Hooks(model, erasers, positions):
            fitted, seen, used = _fit_layer(
                clone(estimator), model, inputs, labels, name, positions, max_rows, seed
            )
        logger.info("%s: fitted on %d of %d states.", name, used, seen)
        facts = {"layer": name, "layers": names, "positions": positions, "rows_seen": seen}
        erasers[name] = fitted.with_metadata(**facts)
    return LayerErasers(erasers, positions)


def _fit_layer(
    estimator: Any,
    model: nn.Module,
    inputs: Any,
    z: Any,
    name: str,
    positions: str,
    max_rows: int,
    seed: int,
) -> tuple[Eraser, int, int]:
    """Fit one layer, and count the states and those that were used."""
    batches = rows_of_states(model, inputs, name, positions)
    if not hasattr(estimator, "partial_fit"):
        rows, seen = sampled_states(batches, max_rows, seed)
        eraser: Eraser = estimator.fit(rows.X, z[rows.texts]).eraser_
        return eraser, seen, len(rows.X)
    seen = 0
    for rows in batches:
        estimator.partial_fit(rows.X, z[rows.texts])
        seen += len(rows.X)
    return estimator.eraser_, seen, seen


def load_layers(folder: str | os.PathLike[str]) -> LayerErasers:
    """Load the erasers in a folder that ``LayerErasers.save`` wrote.

    Needs torch only when they are attached.
    """
    erasers = [load(path) for path in sorted(Path(folder).glob("*.safetensors"))]
    if not erasers:
        raise FileNotFoundError(
            f"Got {os.fspath(folder)!r}, but there is no eraser in it. Expected a folder that "
            "LayerErasers.save wrote."
        )
    names = [str(eraser.metadata.get("layer")) for eraser in erasers]
    if names != list(erasers[0].metadata.get("layers", ())):
        raise ValueError(
            f"Got {os.fspath(folder)!r} with the layers {', '.join(names)}, which are not those of "
            "one fit in its order: files are missing or were renamed. Copy the folder again."
        )
    positions = erasers[0].metadata["positions"]
    return LayerErasers(dict(zip(names, erasers, strict=True)), positions)


# -- States as rows --------------------------------------------------------------------------------


class StateRows(NamedTuple):
    """Rows of some texts: states (n, d), and the number of the text that each one comes from."""

    X: NDArray[np.float32]
    texts: NDArray[np.int64]


class _Stop(Exception):
    """Ends a pass through a model when the states that are wanted are there."""


def rows_of_states(
    model: nn.Module, inputs: Any, layer: str, positions: str
) -> Iterator[StateRows]:
    """Yield the states that a module returns, batch after batch.

    Hooks that are on the model act before. A pass ends at the module. Padding is left out if the
    inputs have an ``attention_mask``.
    """
    start = 0
    for batch in inputs:
        states, mask = _states(model, batch, layer)
        yield _rows(states, mask, positions, layer, start)
        start += _n_texts(batch)


def sampled_states(batches: Iterator[StateRows], max_rows: int, seed: int) -> tuple[StateRows, int]:
    """Sample at most ``max_rows`` rows, and count how many there were.

    Every call with the same seed and numbers of rows gives the same rows.
    """
    sample: list[StateRows] = []
    keys, n_rows, rng = np.empty(0), 0, np.random.default_rng(seed)
    for batch in batches:
        n_rows += len(batch.texts)
        keys = np.concatenate([keys, rng.random(len(batch.texts))])
        # Those with the smallest keys: a sample of all rows so far, whatever is still to come.
        best = np.sort(np.argsort(keys, kind="stable")[:max_rows])
        keys = keys[best]
        X, texts = (np.concatenate(column) for column in zip(*sample, batch, strict=True))
        sample = [StateRows(X[best], texts[best])]
    return sample[0], n_rows


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


def _states(model: nn.Module, batch: Any, layer: str) -> tuple[Tensor, Tensor | None]:
    states: list[Tensor] = []

    def keep(name: str, output: Any) -> None:
        states.append(state_of(output, name))
        raise _Stop

    call_mask = CallMask(model, [layer])
    try:
        with suppress(_Stop), _evaluating(model), _hooked(model, [layer], keep):
            _run(model, batch)
    finally:
        call_mask.remove()
    return states[0], call_mask.value


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
    """Switch dropout off, and back to what it was afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
