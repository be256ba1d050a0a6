"""Which subspace: projectors and starts in numpy, the objective and two solvers in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.projections.objective import LazyObjective as LazyObjective
    from unspot.projections.objective import Objective as Objective
    from unspot.projections.objective import Preservation as Preservation
    from unspot.projections.objective import narrow as narrow
    from unspot.projections.solvers import ManifoldSolver as ManifoldSolver
    from unspot.projections.solvers import PaperSolver as PaperSolver
    from unspot.projections.subspaces import complement as complement
    from unspot.projections.subspaces import nearest_projector as nearest_projector
    from unspot.projections.subspaces import projection_loss as projection_loss
    from unspot.projections.subspaces import start as start

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "objective": "LazyObjective Objective Preservation narrow",
        "solvers": "ManifoldSolver PaperSolver",
        "subspaces": "complement nearest_projector projection_loss start",
    },
)
