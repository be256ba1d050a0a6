"""Erase more rows than memory holds, in many files, on one machine or a cluster.

Files are erased in batches by functions that are public, so that any engine can run them on its own
pieces. ``unspot.scale.dask`` and ``unspot.scale.ray`` do so for two engines.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
