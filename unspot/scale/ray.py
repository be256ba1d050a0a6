"""Ray: erase a Ray Data dataset by actors that hold the eraser.

A sweep on a Ray cluster needs only joblib's own backend:
``ray.util.joblib.register_ray()`` and ``with joblib.parallel_config("ray"): …``.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from unspot.checks import require
from unspot.eraser import Eraser
from unspot.io.columns import column_kinds, is_list, matrix
from unspot.scale.batches import Erasure, Features, erase_arrow_batch, erase_batch


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
        The vector column, or the number columns; None for those of the fit, or the obvious ones if
        it recorded none.
    reduce : bool
        Give the r coordinates in the kept subspace.
    batch_size : int
        Rows per call.
    actors : int or (int, int), optional
        How many processes hold the eraser, or the fewest and the most of them. By default at most
        one less than the CPUs of the cluster: reading the rows needs one too, or all would wait.
    **options
        For ``Dataset.map_batches``, such as ``num_cpus`` of an actor.

    Notes
    -----
    Batches are Arrow tables: other columns stay as they are, with their types and missing values.
    """
    ray = _require()
    if actors is None:
        actors = (1, max(1, int(ray.cluster_resources().get("CPU", 2)) - 1))
    low, high = (actors, actors) if isinstance(actors, int) else actors
    return dataset.map_batches(
        _BatchEraser,
        fn_constructor_args=(eraser, features, reduce),
        batch_size=batch_size,
        batch_format="pyarrow",  # numpy has no dates, categories or missing whole numbers
        compute=ray.data.ActorPoolStrategy(min_size=low, max_size=high),
        **options,
    )


class _BatchEraser:
    """Actor that gets the eraser once, and batches many times."""

    def __init__(self, eraser: Eraser, features: Features, reduce: bool) -> None:
        self._eraser, self._features, self._reduce = eraser, features, reduce

    def __call__(self, batch: Any) -> Any:
        lists = _tensors_as_lists(batch)
        erasure = Erasure(self._eraser, self._features)
        columns = erasure.columns(column_kinds(lists.schema), "the batch")
        if not _is_tensor_of_vectors(batch.field(columns[0]).type):
            return erase_arrow_batch(self._eraser, batch, columns, reduce=self._reduce)
        X = matrix(lists, columns, where="the batch")
        # Without rows, only the type knows the length of the vectors.
        X = X.reshape(len(batch), *batch.field(columns[0]).type.shape)
        erased = erase_batch(self._eraser, X, reduce=self._reduce)
        return _with_tensors(batch, columns[0], erased)


def _with_tensors(batch: Any, name: str, X: NDArray[Any]) -> Any:
    """Replace the vectors of a tensor column; every other column stays as it is."""
    from ray.data.extensions import ArrowTensorArray

    tensors = ArrowTensorArray.from_numpy(X)
    field = batch.field(name).with_type(tensors.type)
    return batch.set_column(batch.schema.get_field_index(name), field, tensors)


def _tensors_as_lists(batch: Any) -> Any:
    """Convert tensor columns of vectors to the lists in which they are stored."""
    import pyarrow as pa

    for place, field in enumerate(batch.schema):
        if _is_tensor_of_vectors(field.type):
            stored = field.type.storage_type
            lists = [chunk.storage for chunk in batch.column(place).chunks]
            batch = batch.set_column(
                place, field.with_type(stored), pa.chunked_array(lists, stored)
            )
    return batch


def _is_tensor_of_vectors(type_: Any) -> bool:
    """Check for a tensor type, Ray's or Arrow's own, with one vector per row."""
    return len(getattr(type_, "shape", ())) == 1 and is_list(type_.storage_type)


def _require() -> Any:
    require("Work on a Ray cluster", "ray", "ray")
    import ray
    import ray.data

    return ray
