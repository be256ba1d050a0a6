"""Embeddings in and out of files: tables, sources of rows that stay on disk, atomic writing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
