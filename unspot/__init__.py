"""unspot takes a concept out of embeddings, and measures what is left of it.

The public names are imported on first use, so that ``unspot --help`` and ``unspot.load`` never
load torch.
"""

import lazy_loader

from unspot._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
