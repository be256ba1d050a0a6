"""The maps that erasers are made of: frozen, numpy-only, saved and loaded by their ``kind``."""

from unspot.maps.base import MAPS, Map, like, register_map
from unspot.maps.linear import Compress, Expand, Oblique, Projection

__all__ = ["MAPS", "Compress", "Expand", "Map", "Oblique", "Projection", "like", "register_map"]
