"""Research: rival methods, sweeps, and the paper's tables and figures.

No other room imports this one: the registry of methods, the file of an eraser and the command line
look names up here when they are asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
