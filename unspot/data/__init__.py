"""What everything rests on: rows, concepts, groups, splits, samples, statistics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
