"""The maps that erasers are made of: frozen, numpy-only, saved and loaded by their ``kind``."""

from unspot.maps.base import MAPS, Map, chain_fault, like, register_map
from unspot.maps.linear import Compress, Expand, Oblique, Projection
from unspot.maps.nonlinear import (
    Dense,
    Fourier,
    LayerNorm,
    Mixture,
    Normalise,
    Nystrom,
    Transport,
)
from unspot.maps.program import Program, Step, trace

__all__ = [
    "MAPS",
    "Compress",
    "Dense",
    "Expand",
    "Fourier",
    "LayerNorm",
    "Map",
    "Mixture",
    "Normalise",
    "Nystrom",
    "Oblique",
    "Program",
    "Projection",
    "Step",
    "Transport",
    "chain_fault",
    "like",
    "register_map",
    "trace",
]
