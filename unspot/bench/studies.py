"""The studies of the benchmark: which methods run, at which ranks, with how much effort.

A study's methods are labelled ``method`` or ``method/setting=value``, by the names that
``unspot.bench.paper`` has for the paper's rows, so that both find each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from unspot.bench.paper import paper_data, paper_rows
from unspot.data.dataset import Dataset
from unspot.erasers.cascade import Cascade
from unspot.erasers.leopard import LEOPARD
from unspot.erasers.registry import make
from unspot.projections import PaperSolver

__all__ = ["EFFORTS", "STUDIES", "Effort", "Study", "studies"]

#: Ranks of the paper, those of its first tables among them.
SHARES: dict[str, tuple[int, ...]] = {
    "glove": (250, 200, 150, 125, 100, 75, 50),
    "bios": (500, 350, 250, 150, 50, 10),
    "dial": (200, 125, 75, 50, 25, 15),
}
#: For other data.
OTHER_SHARES = (0.8, 0.6, 0.4, 0.2, 0.1, 0.05)

#: Studies that run at all ranks; the others at a few.
BY_RANK = ("main", "field", "metric")


@dataclass(frozen=True)
class Effort:
    """How much of the benchmark is run.

    Parameters
    ----------
    seeds : int
        Of every cell, if not said otherwise.
    n_ranks : int
        Ranks of the main study: the most.
    max_rows : int
        Rows that the manifold solver works on.
    network_epochs : int or None
        Of FaRM and KRaM, which otherwise keep their defaults; None: the paper's settings.
    paper_epochs : int or None
        Of Algorithm 1 in the studies of batch size and solver; None: the paper's.
    study_ranks : int
        Ranks of the smaller studies.
    budget : {"quick", "standard", "thorough"}
        How hard attackers try.
    studies : tuple of str
        What is run by default.
    """

    seeds: int
    n_ranks: int
    max_rows: int
    network_epochs: int | None
    paper_epochs: int | None
    study_ranks: int
    budget: str
    studies: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """Methods by label, and the ranks that they run at."""

    name: str
    methods: dict[str, Any]
    ranks: tuple[int, ...]


def studies(
    names: Sequence[str],
    data: Dataset,
    paper: str | None,
    effort: Effort,
    ranks: Sequence[int | float] | None = None,
) -> list[Study]:
    """The studies of these names, for a data set."""
    from unspot.ranks.path import check_ranks

    for name in names:
        if name not in STUDIES:
            near = get_close_matches(str(name), STUDIES, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"Got study {name!r}, but expected some of {', '.join(STUDIES)}.{hint}"
            )
    d = data.n_features
    chosen = _ranks(paper, d, effort.n_ranks) if ranks is None else check_ranks(ranks, d)
    few = _middle(chosen, effort.study_ranks)
    return [
        Study(name, STUDIES[name](paper, effort), chosen if name in BY_RANK else few)
        for name in names
    ]


def _main(paper: str | None, effort: Effort) -> dict[str, Any]:
    """Every method of the paper, and the linear ones it is positioned against."""
    networks = _network_preset(paper, effort)
    leopard = LEOPARD(max_rows=effort.max_rows)
    return {
        "original": None,
        "leace": make("leace"),
        "inlp": make("inlp"),
        "rlace": make("rlace"),
        "farm": make("farm", **networks),
        "cascade:farm": make("cascade:farm", **networks),
        "kram": make("kram", **networks),
        "cascade:kram": make("cascade:kram", **networks),
        "leopard": leopard,
        "cascade": Cascade(leopard),
    }


def _field(paper: str | None, effort: Effort) -> dict[str, Any]:
    """The methods that the paper does not have, and baselines that keep comparisons honest."""
    names = ("kernel", "adversarial", "matching", "mean", "random", "pca", "cascade:pca")
    return {name: make(name) for name in names}


def _metric(paper: str | None, effort: Effort) -> dict[str, Any]:
    """Other settings of our own: the metric that densities are matched in."""
    return {"cascade/metric=whitened": Cascade(_ours(effort, metric="whitened"))}


def _preserve(paper: str | None, effort: Effort) -> dict[str, Any]:
    """How much variance is asked for."""
    return {
        f"cascade/preserve={weight:g}": Cascade(_ours(effort, preserve=weight))
        for weight in (0.1, 0.3, 1.0)
    }


def _kernels(paper: str | None, effort: Effort) -> dict[str, Any]:
    """The number M of kernels in the mixture behind the paper's tables."""
    from unspot.density import GaussianMixture

    return {
        f"cascade/kernels={m}": Cascade(_ours(effort, kernel=GaussianMixture.reference(m)))
        for m in (1, 2, 5, 10)
    }


def _batch(paper: str | None, effort: Effort) -> dict[str, Any]:
    """Batch sizes of Algorithm 1, all rows of a step counted alike: fewer rows, more steps."""
    return {
        f"{name}/batch={label}": wrap(LEOPARD(solver=_algorithm_1(paper, effort, size)))
        for name, wrap in (("leopard", _plain), ("cascade", Cascade))
        for label, size in (("full", None), ("2048", 2048), ("512", 512))
    }


def _solver(paper: str | None, effort: Effort) -> dict[str, Any]:
    """Algorithm 1 and ours, each with more and less time."""
    from dataclasses import replace

    from unspot.projections import ManifoldSolver

    first = _algorithm_1(paper, effort, None)
    short = replace(first, epochs=max(1, first.epochs // 5))
    return {
        "cascade/solver=paper-short": Cascade(LEOPARD(solver=short)),
        "cascade/solver=paper": Cascade(LEOPARD(solver=first)),
        "cascade/solver=manifold-10": Cascade(
            _ours(effort, solver=ManifoldSolver(max_evaluations=10))
        ),
        "cascade/solver=manifold": Cascade(_ours(effort)),
    }


STUDIES: dict[str, Any] = {
    "main": _main,
    "field": _field,
    "metric": _metric,
    "preserve": _preserve,
    "kernels": _kernels,
    "batch": _batch,
    "solver": _solver,
}

#: ``quick``: minutes. ``standard``: the committed run. ``paper``: the paper's own schedule, hours.
EFFORTS = {
    "quick": Effort(1, 3, 3000, 40, 20, 1, "quick", ("main", "kernels", "batch")),
    "standard": Effort(3, 7, 10_000, 500, 150, 2, "quick", tuple(STUDIES)),
    "paper": Effort(5, 99, 10_000, None, None, 99, "standard", tuple(STUDIES)),
}


def _ours(effort: Effort, **settings: Any) -> LEOPARD:
    return LEOPARD(max_rows=effort.max_rows, **settings)


def _plain(eraser: Any) -> Any:
    return eraser


def _algorithm_1(paper: str | None, effort: Effort, batch_size: int | None) -> PaperSolver:
    """The paper's solver with another batch size, and fewer epochs if the effort says so."""
    from dataclasses import replace

    preset = PaperSolver.preset(paper or "glove")
    epochs = min(preset.epochs, effort.paper_epochs or preset.epochs)
    return replace(preset, batch_size=batch_size, epochs=epochs)


def _network_preset(paper: str | None, effort: Effort) -> dict[str, Any]:
    """What the paper says of FaRM and KRaM for its data sets, which are larger than most."""
    if effort.network_epochs is not None:
        return {"n_epochs": effort.network_epochs}
    presets: dict[str | None, dict[str, Any]] = {
        "bios": {"n_epochs": 50, "batch_size": 512},
        "dial": {"n_epochs": 50, "batch_size": 2048, "n_layers": 7},
    }
    return presets.get(paper, {})


def _ranks(paper: str | None, n_features: int, at_most: int) -> tuple[int, ...]:
    shares: Sequence[float] = OTHER_SHARES
    if paper is not None:
        total = int(paper_data(paper)["features"])
        known = SHARES[paper]
        if at_most > len(known):  # all that its tables have
            known = tuple({row.rank for row in paper_rows() if row.dataset == paper and row.rank})
        shares = [rank / total for rank in known]
    found = sorted({max(1, round(share * n_features)) for share in shares}, reverse=True)
    return _middle(tuple(found), at_most)


def _middle(ranks: Sequence[int], at_most: int) -> tuple[int, ...]:
    """At most so many of the ranks, evenly spread, the ends left out first."""
    if len(ranks) <= at_most:
        return tuple(ranks)
    step = len(ranks) / at_most
    return tuple(ranks[int(step * (i + 0.5))] for i in range(at_most))
