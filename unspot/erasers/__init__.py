"""The methods, one module each, all with the same contract: see ``unspot.erasers.base``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
