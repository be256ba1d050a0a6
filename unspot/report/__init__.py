"""Reports: results as one self-contained HTML file, as figures, and as tables for a paper."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
