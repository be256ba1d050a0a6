"""A module of sentence-transformers for erasers that its own layers cannot express.

A model with this module is saved by ``save_pretrained``. Who loads it needs unspot, and says
``SentenceTransformer(folder, trust_remote_code=True)``, since the library trusts only its own
modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from sentence_transformers.sentence_transformer.modules import Module
from torch import Tensor

from unspot.export.torch_module import ErasureModule
from unspot.io.files import write_atomically
from unspot.maps import Map, trace
from unspot.maps.file import packed, read

FILE = "eraser.safetensors"


class Erase(Module):
    """Erase a concept from the sentence embedding."""

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
        return cls(*read(Path(path or FILE)))  # which says that there is no such file
