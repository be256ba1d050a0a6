"""Data sets: gendered words in the package, loaders of local benchmarks, synthetic laws."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
