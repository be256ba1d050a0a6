"""Pure numerics of projectors: nearest projector, starts, objective, and two solvers."""

from unspot.projections.manifold import ManifoldSolver
from unspot.projections.narrowing import narrow
from unspot.projections.objective import LazyObjective, Objective, Preservation
from unspot.projections.paper import PaperSolver, stratified_batches
from unspot.projections.projector import complement, nearest_projector, projection_loss
from unspot.projections.starts import start

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
