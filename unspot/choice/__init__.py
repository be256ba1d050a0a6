"""Choosing: what rows can decide, a path of erasers by rank, and the choice of one of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
