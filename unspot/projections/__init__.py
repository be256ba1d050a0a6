"""Which subspace: projectors and starts in numpy, the objective and two solvers in torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
