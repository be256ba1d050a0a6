"""Pure numerics of projectors: nearest projector, starts, objective, and two solvers."""

from unspot.data.sampling import stratified_batches
from unspot.projections.objective import LazyObjective, Objective, Preservation
from unspot.projections.solvers import ManifoldSolver, PaperSolver
from unspot.projections.subspaces import (
    complement,
    narrow,
    nearest_projector,
    projection_loss,
    start,
)

__all__ = [
    "LazyObjective",
    "ManifoldSolver",
    "Objective",
    "PaperSolver",
    "Preservation",
    "complement",
    "narrow",
    "nearest_projector",
    "projection_loss",
    "start",
    "stratified_batches",
]
