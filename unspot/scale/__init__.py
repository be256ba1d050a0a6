"""More rows than memory, more files than one, more than one process or machine.

Files are erased in batches by functions that are public, so that any engine can run them on its own
pieces. ``unspot.scale.dask`` and ``unspot.scale.ray`` do so for two engines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.scale.batches import Erasure as Erasure
    from unspot.scale.batches import erase_arrow_batch as erase_arrow_batch
    from unspot.scale.batches import erase_batch as erase_batch
    from unspot.scale.batches import erased_schema as erased_schema
    from unspot.scale.batches import width_out as width_out
    from unspot.scale.clusters import ENGINES as ENGINES
    from unspot.scale.clusters import executor as executor
    from unspot.scale.files import transform_file as transform_file
    from unspot.scale.folders import Result as Result
    from unspot.scale.folders import transform_files as transform_files
    from unspot.scale.processes import context as context

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "batches": "Erasure erase_arrow_batch erase_batch erased_schema width_out",
        "clusters": "ENGINES executor",
        "files": "transform_file",
        "folders": "Result transform_files",
        "processes": "context",
    },
)
