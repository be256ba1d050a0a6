"""Sweeps: methods, ranks and seeds on several data sets, in one result file, with tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
