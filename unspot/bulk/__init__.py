"""Erasing files of any size, one or thousands: streamed, resumable, atomic.

The functions of a batch are public, so that any engine can run them on its own pieces.
"""

from unspot.bulk.batches import erase_arrow_batch, erase_batch, erased_schema, width_out
from unspot.bulk.engine import Result, transform_files
from unspot.bulk.erasure import Erasure
from unspot.bulk.files import transform_file

__all__ = [
    "Erasure",
    "Result",
    "erase_arrow_batch",
    "erase_batch",
    "erased_schema",
    "transform_file",
    "transform_files",
    "width_out",
]
