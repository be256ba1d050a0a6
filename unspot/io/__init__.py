"""Embeddings in and out of files: tables, sources of rows that stay on disk, atomic writing."""

from unspot.io.sources import RowSource, as_source, open_table
from unspot.io.tables import Table, read_table

__all__ = ["RowSource", "Table", "as_source", "open_table", "read_table"]
