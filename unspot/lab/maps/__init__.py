"""Maps that only the rivals use; ``unspot.load`` imports them by their kind."""

from unspot.lab.maps.boundary import Boundary
from unspot.lab.maps.gaussian import Gaussianised
from unspot.lab.maps.routed import FreeForm

__all__ = ["Boundary", "FreeForm", "Gaussianised"]
