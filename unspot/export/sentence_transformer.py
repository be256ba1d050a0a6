"""An eraser behind a sentence-transformers model: ``encode`` gives erased vectors.

A model with the module ``Erase`` is saved by ``save_pretrained``. Loading it requires unspot and
``SentenceTransformer(folder, trust_remote_code=True)``, since the library trusts only its own
modules.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Module, Normalize
from torch import Tensor

from unspot.export.layers import Layer, layers
from unspot.export.torch_module import ErasureModule
from unspot.io.files import write_atomically
from unspot.maps import Map, trace
from unspot.maps.file import packed, read

FILE = "eraser.safetensors"


class Erase(Module):
    """Erase by maps that the library's own layers cannot express."""

    config_keys: list[str] = []  # noqa: RUF012  as in the base class

    def __init__(self, maps: Sequence[Map], metadata: Mapping[str, Any]) -> None:
        super().__init__()
        self._content = packed(maps, metadata)
        self._erase = ErasureModule(trace(maps))

    def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
        features["sentence_embedding"] = self._erase(features["sentence_embedding"])
        return features

    def get_embedding_dimension(self) -> int:
        return self._erase.n_out

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        write_atomically(Path(output_path) / FILE, self._content)

    @classmethod
    def load(cls, model_name_or_path: str, *args: Any, **kwargs: Any) -> Self:
        where = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        asked = {name: kwargs[name] for name in where if name in kwargs}
        path = cls.load_file_path(model_name_or_path, FILE, *args, **asked)
        return cls(*read(Path(path or FILE)))  # a missing file is an error there


def erasing_model(maps: Sequence[Map], metadata: Mapping[str, Any], model: Any) -> Any:
    """Append modules that erase to those of ``model``, which stays as it is."""
    if not isinstance(model, SentenceTransformer):
        raise ValueError(
            f"Got a model of type {type(model).__name__}, but expected a SentenceTransformer: "
            "SentenceTransformer(name_or_folder)."
        )
    _check_width(model, maps[0].n_in)
    before = list(model)
    chain = layers(maps)
    if chain is None:
        after: list[Any] = [Erase(maps, metadata)]
    else:
        after = [_dense(layer) for layer in chain.layers]
        if chain.normalise:
            if chain.keeps_directions and isinstance(before[-1], Normalize):
                before.pop()  # once, at the end
            after.append(Normalize())
    return _of_modules(model, before, [module.to(model.device) for module in after])


def _check_width(model: Any, n_features: int) -> None:
    width = model.get_embedding_dimension()
    if model.truncate_dim is not None:
        raise ValueError(
            f"Got a model with truncate_dim={model.truncate_dim}, which cuts vectors after all "
            "modules, but expected whole ones. Set truncate_dim=None, fit on whole vectors, and "
            "set it on the result."
        )
    if width is not None and width != n_features:
        raise ValueError(
            f"Got a model of {width} dimensions, but expected {n_features}: this eraser was fitted "
            f"on {n_features} features."
        )


def _dense(layer: Layer) -> Any:
    n_out, n_in = layer.weight.shape

    def tensor(array: Any) -> Any:
        return torch.from_numpy(np.array(array, dtype=np.float32, order="C"))

    return Dense(
        n_in,
        n_out,
        bias=layer.bias is not None,
        activation_function=torch.nn.ReLU() if layer.relu else None,
        init_weight=tensor(layer.weight),
        init_bias=None if layer.bias is None else tensor(layer.bias),
    ).requires_grad_(False)


def _of_modules(model: Any, before: list[Any], after: list[Any]) -> Any:
    """Copy a model with other modules, but its own prompts, similarity and so on."""
    result = copy.copy(model)
    names = list(model._modules)[: len(before)]
    taken = {*names}
    result._modules = dict(zip(names, before, strict=True))
    number = len(before)
    for module in after:
        while str(number) in taken:
            number += 1
        taken.add(str(number))
        result._modules[str(number)] = module
    return result.eval()
