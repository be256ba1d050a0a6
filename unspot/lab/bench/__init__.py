"""The paper's benchmark: its tables and figures on its data or on other data, with one command.

Tables show the paper's numbers in brackets where the paper has the same cell, and they say where
the data differ.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
