"""One thread for work in small pieces.

Small models call thousands of small matrix products and kernels. Spread over threads, each waits
for the others at every one of them: on a busy machine that made a logistic regression seventy
times slower, and on an idle one it gains nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread; also a decorator, ``@one_thread()``."""
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(limits=1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)
