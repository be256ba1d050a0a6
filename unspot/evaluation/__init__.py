"""Evidence: what is left of a concept after erasure, and what is left of everything else."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
