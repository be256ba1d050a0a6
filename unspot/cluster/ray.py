"""Ray: erase a Ray Data dataset by actors that hold the eraser, and files by tasks.

For a sweep on a Ray cluster nothing is needed but joblib's own backend:
``ray.util.joblib.register_ray()`` and ``with joblib.parallel_config("ray"): …``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from unspot.bulk.batches import erase_arrow_batch, erase_batch
from unspot.cluster.tasks import answer, attempt
from unspot.eraser import Eraser

__all__ = ["erase", "executor"]

Features = str | Sequence[str] | None


def erase(
    dataset: Any,
    eraser: Eraser,
    *,
    features: Features = None,
    reduce: bool = False,
    batch_size: int = 8192,
    actors: int | tuple[int, int] | None = None,
    **options: Any,
) -> Any:
    """Erase the vectors of a Ray Data dataset; lazily.

    Parameters
    ----------
    dataset : ray.data.Dataset
        With a vector column (list, or a tensor column of Ray's) or number columns.
    eraser : Eraser
        Sent once to every actor.
    features : str, list of str or None
        The vector column, or the number columns; None for the obvious ones.
    reduce : bool
        Give the r coordinates of the kept subspace.
    batch_size : int
        Rows of one call.
    actors : int or (int, int), optional
        How many processes hold the eraser, or the fewest and the most of them. By default up to
        one less than the cluster has CPUs: what reads the rows needs one too, else all would wait.
    **options
        For ``Dataset.map_batches``, such as ``num_cpus`` of an actor.
    """
    ray = _require()
    column = _tensor_column(dataset, features)
    if actors is None:
        actors = (1, max(1, int(ray.cluster_resources().get("CPU", 2)) - 1))
    low, high = (actors, actors) if isinstance(actors, int) else actors
    return dataset.map_batches(
        _TensorEraser if column else _ArrowEraser,
        fn_constructor_args=(eraser, column or features, reduce),
        batch_size=batch_size,
        batch_format="numpy" if column else "pyarrow",
        compute=ray.data.ActorPoolStrategy(min_size=low, max_size=high),
        **options,
    )


class _ArrowEraser:
    """What an actor does: the eraser arrives once, batches many times."""

    def __init__(self, eraser: Eraser, features: Features, reduce: bool) -> None:
        self._eraser, self._features, self._reduce = eraser, features, reduce

    def __call__(self, batch: Any) -> Any:
        return erase_arrow_batch(self._eraser, batch, self._features, reduce=self._reduce)


class _TensorEraser(_ArrowEraser):
    """The same for a tensor column, which Ray gives as one array."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        name = str(self._features)
        return {**batch, name: erase_batch(self._eraser, batch[name], reduce=self._reduce)}


def _tensor_column(dataset: Any, features: Features) -> str | None:
    """The tensor column to erase, if that is where the vectors are."""
    schema = dataset.schema()
    tensors = [
        name
        for name, type_ in zip(schema.names, schema.types, strict=True)
        if "tensor" in type(type_).__name__.lower()
    ]
    if features is None:
        return tensors[0] if len(tensors) == 1 else None
    return features if isinstance(features, str) and features in tensors else None


@contextmanager
def executor(address: str | None = None, *, workers: int | None = None) -> Iterator[Executor]:
    """An executor on the workers of a Ray cluster; by default a cluster on this machine."""
    ray = _require()
    mine = not ray.is_initialized()
    if mine:
        options = {"num_cpus": workers} if address is None and workers else {}
        _refuse_silence(address)
        ray.init(address, include_dashboard=False, log_to_driver=False, **options)
    try:
        yield _RayExecutor(ray)
    finally:
        if mine:
            ray.shutdown()


def _refuse_silence(address: str | None) -> None:
    """Ray itself would try for minutes to reach an address where nobody is."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return  # "auto", or a cluster that is still to be started
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(
            f"Got the address {address!r}, but no Ray cluster answered there ({error})."
        ) from None


class _RayExecutor(Executor):
    """Ray tasks as futures. The first argument, the same for all tasks, is sent once."""

    def __init__(self, ray: Any) -> None:
        self._put = ray.put
        self._run = ray.remote(max_retries=2)(attempt)
        self._sent: tuple[Any, Any] = (None, None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        first, *rest = args
        if self._sent[0] is not first:
            self._sent = (first, self._put(first))
        return answer(self._run.remote(fn, self._sent[1], *rest, **kwargs).future(), "Ray")


def _require() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise ImportError(
            'Ray datasets and clusters need Ray. Run: pip install "unspot[ray]"'
        ) from None
    return ray
