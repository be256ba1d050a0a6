"""The paper's method on torch tensors: kernels, the loss and its gradient, two solvers.

To read it: ``kernels`` (§4.2), ``discrepancy`` (Eqs. 4–6), ``subspaces`` (Eqs. 1–3), ``objective``,
``low_order``, ``solvers`` (Eq. 7, Algorithm 1), and ``fit``, which puts them together.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
