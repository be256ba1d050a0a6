"""The maps that erasers are made of: frozen, numpy-only, saved and loaded by their ``kind``."""

from unspot.maps.base import MAPS, Map, chain_fault, like, register_map
from unspot.maps.elementary import (
    Compress,
    Dense,
    Expand,
    Mixture,
    Normalise,
    Oblique,
    Projection,
    Scale,
)
from unspot.maps.program import Program, Step, trace

__all__ = [
    "MAPS",
    "Compress",
    "Dense",
    "Expand",
    "Map",
    "Mixture",
    "Normalise",
    "Oblique",
    "Program",
    "Projection",
    "Scale",
    "Step",
    "chain_fault",
    "like",
    "register_map",
    "trace",
]
