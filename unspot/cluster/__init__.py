"""Thin adapters to engines that people already operate: Dask and Ray.

They hand the batches and files of ``unspot.bulk`` to the engine's workers; what is done to a batch
or a file is the same code as on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

__all__ = ["ENGINES", "executor"]

ENGINES = ("dask", "ray")


@contextmanager
def executor(
    engine: str, address: str | None = None, *, workers: int | None = None
) -> Iterator[Executor]:
    """An executor whose tasks run on a cluster, for ``unspot.bulk.transform_files``.

    Parameters
    ----------
    engine : {"dask", "ray"}
    address : str, optional
        Of the Dask scheduler (``tcp://host:8786``) or of the Ray head (``auto``,
        ``ray://host:10001``). By default a cluster is started on this machine.
    workers : int, optional
        Processes of a cluster on this machine; by default one for every core.
    """
    if engine not in ENGINES:
        raise ValueError(f"Got engine {engine!r}, but expected one of: {', '.join(ENGINES)}.")
    if workers is not None and workers < 1:
        raise ValueError(f"Got workers={workers}, but expected 1 or more.")
    if engine == "dask":
        from unspot.cluster import dask as module
    else:
        from unspot.cluster import ray as module  # type: ignore[no-redef]
    with module.executor(address, workers=workers) as pool:
        yield pool
