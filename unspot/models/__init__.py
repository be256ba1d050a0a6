"""Models that make embeddings: texts in, vectors out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.models.embedding import embed_texts as embed_texts

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "embedding": "embed_texts",
    },
)
