"""Erasure layer by layer: each layer's eraser is fitted behind the erased layers before it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from torch import nn

from unspot.checks import check_choice, check_count
from unspot.data.rows import as_seed
from unspot.eraser import Eraser, load, method_name
from unspot.erasers.leace import LEACE
from unspot.io.files import as_type, file_hash, write_atomically
from unspot.models.hooks import POSITIONS, Hooks
from unspot.models.states import call_order, check_inputs, rows_of_states, sampled_states

logger = logging.getLogger(__name__)

FORMAT = "unspot-layers/1"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class LayerFacts:
    """Facts about the fit of one layer, and the place of its eraser."""

    name: str
    file: str
    rows_seen: int
    rows_used: int
    sha256: str = ""


@dataclass(frozen=True)
class Manifest:
    """Contents of a folder of erasers."""

    format: str
    positions: str
    settings: dict[str, Any]
    layers: list[LayerFacts]


@dataclass(frozen=True, eq=False)
class LayerErasers:
    """Erasers of the layers of a model, by the names of its modules.

    Attributes
    ----------
    erasers : mapping of str to Eraser
        In the order in which the model calls the layers.
    positions : {"all", "cls", "last"}
    facts : tuple
        For each layer its name, how many rows its fit saw and how many it used.
    """

    erasers: Mapping[str, Eraser]
    positions: str
    facts: tuple[LayerFacts, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

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
        """Write a folder: one safetensors file for each layer, and ``manifest.json``."""
        saved = _Folder(Path(folder), self.positions, dict(self.settings))
        for facts in self.facts:
            saved.add(facts, self.erasers[facts.name])


def fit_layers(
    model: nn.Module,
    inputs: Any,
    z: Any,
    *,
    layers: str | Sequence[str],
    eraser: Any = None,
    positions: str = "all",
    max_rows: int = 20_000,
    folder: str | os.PathLike[str] | None = None,
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
        What the model is called with: mappings by keyword, tuples by position. Every layer reads
        them again, in the same order.
    z : array-like of shape (n,)
        The concept's label of each text; all its tokens have it.
    layers : str or sequence of str
        Names of modules or patterns, as in ``unspot.hooks``.
    eraser : estimator, optional
        What is fitted at each layer; by default ``LEACE()``, and for nonlinear attackers
        ``Cascade(LEOPARD(…))``.
    positions : {"all", "cls", "last"}
        Which tokens are erased; padding never counts.
    max_rows : int
        States that an estimator without ``partial_fit`` is fitted on.
    folder : path, optional
        Where each eraser is saved as soon as it is fitted. If the folder holds some of these
        layers, with the same settings, the fit continues after them.
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
            "here, such as LEACE() or Cascade(LEOPARD(rank=0.5))."
        )
    names, seed = call_order(model, layers, inputs), as_seed(random_state)
    settings = {
        "layers": names,
        "eraser": repr(estimator),
        "max_rows": int(max_rows),
        "random_state": seed,
        "z": hashlib.sha256(repr(labels.tolist()).encode()).hexdigest(),
        "model": _fingerprint(model),
    }
    saved = None if folder is None else _Folder(Path(folder), positions, settings)
    erasers, facts = ({}, []) if saved is None else saved.done()
    for name in names[len(erasers) :]:
        with Hooks(model, erasers, positions):
            fitted, seen, used = _fit_layer(
                clone(estimator), model, inputs, labels, name, positions, max_rows, seed
            )
        logger.info("%s: fitted on %d of %d states.", name, used, seen)
        facts.append(LayerFacts(name, f"{len(facts):03d}.safetensors", seen, used))
        erasers[name] = fitted.with_metadata(layer=name, positions=positions)
        if saved is not None:
            saved.add(facts[-1], erasers[name])
    return LayerErasers(erasers, positions, tuple(facts), settings)


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
    batches = rows_of_states(model, inputs, [name], positions)
    if not hasattr(estimator, "partial_fit"):
        sample, seen = sampled_states(batches, max_rows, seed)
        rows = sample[name]
        eraser: Eraser = estimator.fit(rows.X, z[rows.texts]).eraser_
        return eraser, seen, len(rows.X)
    seen = 0
    for batch in batches:
        rows = batch[name]
        estimator.partial_fit(rows.X, z[rows.texts])
        seen += len(rows.X)
    return estimator.eraser_, seen, seen


def load_layers(folder: str | os.PathLike[str]) -> LayerErasers:
    """Load the erasers in a folder that ``fit_layers`` or ``LayerErasers.save`` wrote.

    Needs torch only when they are attached. A folder of an unfinished fit is refused.
    """
    saved = _Folder(Path(folder))
    if not saved.manifest.layers:
        raise ValueError(f"Got {os.fspath(folder)!r}, a folder without erasers of layers.")
    erasers, facts = saved.done()
    names = saved.manifest.settings.get("layers", list(erasers))
    if len(erasers) < len(names):
        raise ValueError(
            f"Got {os.fspath(folder)!r}, whose fit is not finished: {len(erasers)} of {len(names)} "
            "layers are there. Continue it: call fit_layers again with the same arguments."
        )
    return LayerErasers(erasers, saved.manifest.positions, tuple(facts), saved.manifest.settings)


class _Folder:
    """A folder of erasers and its manifest, which is written anew after each layer."""

    def __init__(
        self, path: Path, positions: str = "", settings: dict[str, Any] | None = None
    ) -> None:
        self.path = path
        if settings is None or (path / MANIFEST).exists():
            self.manifest = self._read()
        else:
            self.manifest = Manifest(FORMAT, positions, settings, [])
            path.mkdir(parents=True, exist_ok=True)
        if settings is not None:
            self._check_same({"positions": positions, **settings})

    def _read(self) -> Manifest:
        path = self.path / MANIFEST
        if not path.is_file():
            raise FileNotFoundError(
                f"Got {str(self.path)!r}, but there is no {MANIFEST} in it. Expected a folder that "
                "fit_layers wrote."
            )
        try:
            manifest: Manifest = as_type(Manifest, json.loads(path.read_bytes()))
            if manifest.format != FORMAT:
                raise ValueError(f"format is {manifest.format!r} and not {FORMAT!r}")
        except ValueError as error:
            raise ValueError(
                f"Got {str(path)!r}, which is no manifest of erasers ({error}). Copy the folder "
                "again, or fit anew."
            ) from None
        return manifest

    def _check_same(self, settings: dict[str, Any]) -> None:
        before = {"positions": self.manifest.positions, **self.manifest.settings}
        for name, value in json.loads(json.dumps(settings)).items():
            if before.get(name) != value:
                raise ValueError(
                    f"Got {str(self.path)!r}, which holds erasers of another fit ({name} was "
                    f"{str(before.get(name))[:60]} and is {str(value)[:60]}). Use another folder, "
                    "or the same arguments."
                )

    def done(self) -> tuple[dict[str, Eraser], list[LayerFacts]]:
        """Load the erasers that are complete."""
        erasers = {}
        for facts in self.manifest.layers:
            path = self.path / Path(facts.file).name  # a file in this folder, whatever it says
            if not path.is_file() or file_hash(path) != facts.sha256:
                raise ValueError(
                    f"Got {str(path)!r}, which is not the file that the manifest names for the "
                    f"layer {facts.name!r}. Copy the folder again, or fit anew."
                )
            erasers[facts.name] = load(path)
        return erasers, list(self.manifest.layers)

    def add(self, facts: LayerFacts, eraser: Eraser) -> None:
        """Save one more eraser."""
        path = self.path / facts.file
        eraser.save(path)
        known = [f for f in self.manifest.layers if f.name != facts.name]
        entry = LayerFacts(**{**asdict(facts), "sha256": file_hash(path)})
        self.manifest = Manifest(
            FORMAT, self.manifest.positions, self.manifest.settings, [*known, entry]
        )
        text = json.dumps(asdict(self.manifest), indent=1, ensure_ascii=False)
        write_atomically(self.path / MANIFEST, text.encode())


def _fingerprint(model: nn.Module) -> str:
    """Hash the names, shapes and sums of all weights: another training gives another one."""
    digest = hashlib.sha256()
    for name, weight in model.state_dict().items():
        total = float(weight.double().sum()) if weight.numel() else 0.0
        digest.update(f"{name} {tuple(weight.shape)} {total!r}".encode())
    return digest.hexdigest()
