"""Embeddings in and out of files: tables in memory, sources of rows, atomic writing."""

from unspot.io.tables import Table, read_table

__all__ = ["Table", "read_table"]
