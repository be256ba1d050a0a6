"""Reading ahead: the next piece is read while this one is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

__all__ = ["prefetched"]


def prefetched(chunks: Iterator[NDArray[Any]]) -> Generator[NDArray[Any]]:
    """The same chunks, with the next one read in a thread meanwhile. Memory: two chunks.

    Examples
    --------
    >>> import numpy as np
    >>> [len(chunk) for chunk in prefetched(iter([np.ones(2), np.ones(1)]))]
    [2, 1]
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk
