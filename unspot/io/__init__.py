"""Embeddings in and out of files: tables in memory, sources of rows, atomic writing."""

from unspot.io.sources import RowSource, as_source
from unspot.io.tables import Table, read_table

__all__ = ["RowSource", "Table", "as_source", "read_table"]
