"""Data sets: gendered words and verses in the package, synthetic laws with a known truth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
