"""An embedding function that erases: for vector stores that take such a function.

It has the methods that LangChain, Chroma and others call, so that what is stored and what is
searched for is erased in the same way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.eraser import Eraser, load

__all__ = ["ErasedEmbeddings"]


class ErasedEmbeddings:
    """The vectors of another embedding function, erased.

    Parameters
    ----------
    function : callable or object
        What makes vectors of texts: a function of a list of texts (as in Chroma), an object with
        ``embed_documents`` and ``embed_query`` (as in LangChain), or a model with ``encode`` (as in
        sentence-transformers).
    eraser : Eraser or path
        Fitted on vectors of the same function.

    Examples
    --------
    >>> def lengths(texts):
    ...     return [[len(text), 1.0] for text in texts]
    >>> embeddings = ErasedEmbeddings(lengths, Eraser.projection(np.eye(2)[:, :1]))
    >>> embeddings.embed_documents(["a", "bcd"])
    [[1.0, 0.0], [3.0, 0.0]]
    >>> embeddings.embed_query("ab")
    [2.0, 0.0]
    """

    def __init__(self, function: Any, eraser: Eraser | str | os.PathLike[str]) -> None:
        self.eraser = eraser if isinstance(eraser, Eraser) else load(eraser)
        self.function = function
        names = ("embed_documents", "encode")
        makes_vectors = callable(function) or any(hasattr(function, name) for name in names)
        if isinstance(function, str) or not makes_vectors:
            raise ValueError(
                f"Got an embedding function of type {type(function).__name__}, but expected a "
                "function of texts, or an object with embed_documents or encode."
            )

    def __call__(self, input: str | Sequence[str]) -> Any:
        """One array for each text, as Chroma expects; for one string, its array."""
        if isinstance(input, str):
            return self._documents([input])[0]
        return list(self._documents(input))

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """One list of numbers for each text, as LangChain expects."""
        vectors: list[list[float]] = self._documents(texts).tolist()
        return vectors

    def embed_query(self, input: str | Sequence[str]) -> Any:
        """The vector of one query as a list; for several, as in Chroma, a list of arrays."""
        if isinstance(input, str):
            return self._queries([input])[0].tolist()
        return list(self._queries(input))

    async def aembed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """As ``embed_documents``."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """As ``embed_query``."""
        vector: list[float] = self.embed_query(text)
        return vector

    def _documents(self, texts: Sequence[str]) -> NDArray[Any]:
        of = self.function
        if hasattr(of, "embed_documents"):
            return self._erased(of.embed_documents(list(texts)))
        return self._erased((of.encode if hasattr(of, "encode") else of)(list(texts)))

    def _queries(self, texts: Sequence[str]) -> NDArray[Any]:
        """Models may have another way for queries, such as a prompt before them."""
        of = self.function
        if hasattr(of, "embed_documents"):
            return self._erased([of.embed_query(text) for text in texts])
        for name in ("encode_query", "embed_query"):
            if hasattr(of, name):
                return self._erased(getattr(of, name)(list(texts)))
        return self._documents(texts)

    def _erased(self, vectors: Any) -> NDArray[Any]:
        rows = np.asarray(vectors, dtype=np.float32)
        erased: NDArray[Any] = self.eraser(rows) if len(rows) else rows
        return erased
