"""The studies of the benchmark: which methods run, at which ranks, on which schedule.

The methods of a study have labels, ``method`` or ``method/setting=value``. They use the names that
the paper's rows have in ``unspot.lab.bench.paper``, so that our cells find the paper's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from unspot.checks import check_choice
from unspot.choice.path import check_ranks
from unspot.data.dataset import Dataset
from unspot.erasers.cascade import Cascade
from unspot.erasers.leopard import LEOPARD
from unspot.erasers.registry import make
from unspot.lab.bench.foreign import foreign_contestants
from unspot.lab.bench.paper import paper_data, paper_rows
from unspot.lab.sweep import KEEPS_TASK
from unspot.leopard import GaussianMixture, ManifoldSolver, PaperSolver

__all__ = ["SCHEDULES", "STUDIES", "Schedule", "Study", "studies"]

#: Ranks of the paper, with those of its first tables.
PAPER_RANKS: dict[str, tuple[int, ...]] = {
    "glove": (250, 200, 150, 125, 100, 75, 50),
    "bios": (500, 350, 250, 150, 50, 10),
    "dial": (200, 125, 75, 50, 25, 15),
}
#: Shares of the dimensions that are kept, for other data.
OTHER_SHARES = (0.8, 0.6, 0.4, 0.2, 0.1, 0.05)

#: Studies that run at all ranks. The others run at a few ranks.
BY_RANK = ("main", "field", "metric")
#: A subspace that is asked to keep one task can be small.
LOW_RANKS = (50, 25, 12, 6, 3)


@dataclass(frozen=True)
class Schedule:
    """Extent of a run of the benchmark.

    Parameters
    ----------
    seeds : int
        The number of seeds of every cell, by default.
    n_ranks : int
        The largest number of ranks of the main study.
    max_rows : int
        The number of rows that the manifold solver works on.
    network_epochs : int or None
        Epochs of FaRM and KRaM, whose other parameters keep their defaults; None for the paper's
        settings.
    paper_epochs : int or None
        Epochs of Algorithm 1 in the studies of batch size and solver; None for the paper's.
    study_ranks : int
        The number of ranks of the smaller studies.
    budget : {"quick", "standard", "thorough"}
        The effort of the attackers.
    studies : tuple of str
        The studies that are run by default.
    """

    seeds: int
    n_ranks: int
    max_rows: int
    network_epochs: int | None
    paper_epochs: int | None
    study_ranks: int
    budget: str
    studies: tuple[str, ...]

    def leopard(self, **settings: Any) -> LEOPARD:
        """L̄EOPARD with our solver."""
        return LEOPARD(**{"solver": ManifoldSolver(max_rows=self.max_rows), **settings})


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
    schedule: Schedule,
    ranks: Sequence[int | float] | None = None,
) -> list[Study]:
    """Build the studies of these names for a data set."""
    for name in names:
        check_choice("study", name, STUDIES)
    if ranks is None:
        all_ranks = _ranks(paper, data.n_features, schedule.n_ranks)
    else:
        all_ranks = check_ranks(ranks, data.n_features)
    few_ranks = _middle(all_ranks, schedule.study_ranks)
    own_ranks = dict.fromkeys(BY_RANK, all_ranks)
    if ranks is None:
        low = [rank for rank in LOW_RANKS if rank < data.n_features]
        own_ranks["task"] = _middle(low, schedule.n_ranks)
    chosen = [
        Study(name, _possible(STUDIES[name](paper, schedule), data), own_ranks.get(name, few_ranks))
        for name in names
    ]
    if names and not any(study.methods for study in chosen):
        raise ValueError(
            f"Got the study {' and '.join(names)!r} of methods that keep a task, but these data "
            "have none. Name the column of the task, or run another study."
        )
    return [study for study in chosen if study.methods]


def _possible(methods: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """Leave out methods that keep a task, if there is none."""
    has_task = data.train.y is not None
    return {k: v for k, v in methods.items() if has_task or not k.endswith(KEEPS_TASK)}


def _main(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """List every method of the paper, and the linear methods that it compares with."""
    networks = _network_preset(paper, schedule)
    return {
        "original": None,
        **{name: make(name) for name in ("leace", "inlp", "rlace")},
        **{name: make(name, **networks) for name in ("farm", "cascade:farm")},
        **{name: make(name, **networks) for name in ("kram", "cascade:kram")},
        "leopard": schedule.leopard(),
        "cascade": Cascade(second=schedule.leopard()),
    }


def _field(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Methods that are not in the paper, and baselines for a fair comparison."""
    names = ("kernel", "adversarial", "matching", "mean", "random", "pca", "cascade:pca")
    return {
        **{name: make(name) for name in names},
        "transport": make("transport"),
        "transport:leopard": make(
            "transport:leopard", solver=ManifoldSolver(max_rows=schedule.max_rows)
        ),
    }


def _rivals(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Methods that came after the paper, each with some settings, and those of other packages."""
    methods: dict[str, Any] = {
        "fleace": make("fleace"),
        "fleace/classifier=network": make("fleace", classifier="network"),
        "alf": make("alf"),
        **{f"alf/target={t}": make("alf", target=t) for t in (0.5, 0.75)},
        "fairpca": make("fairpca"),
        "fairpca/drop=0.5": make("fairpca", drop=0.5),
        "mute": make("mute"),
        **{f"mute/layers={n}": make("mute", n_layers=n) for n in (6, 24)},
        "mute/output=gaussian": make("mute", output="gaussian"),
        **{
            f"mute/pca={share}": Cascade(make("pca", rank=share), make("mute", n_layers=6))
            for share in (0.8, 0.5)
        },
        "igbp": make("igbp"),
        **{f"igbp/rounds={n}": make("igbp", n_rounds=n) for n in (3, 30)},
        "obliviator": make("obliviator"),
        **{f"obliviator/rounds={n}": make("obliviator", n_rounds=n, tolerance=-1) for n in (1, 3)},
    }
    return methods | foreign_contestants()


def _task(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Methods that are given the task, which they keep."""
    return {
        f"obliviator{KEEPS_TASK}": make("obliviator"),
        f"splince{KEEPS_TASK}": make("splince"),
        f"leopard{KEEPS_TASK}": schedule.leopard(),
        f"cascade{KEEPS_TASK}": Cascade(second=schedule.leopard()),
    }


def _metric(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Our own settings: the metric in which densities are matched."""
    return {"cascade/metric=whitened": Cascade(second=schedule.leopard(metric="whitened"))}


def _preserve(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Weights of the variance to preserve."""
    return {
        f"cascade/preserve={weight:g}": Cascade(second=schedule.leopard(preserve=weight))
        for weight in (0.1, 0.3, 1.0)
    }


def _kernels(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Vary the number M of kernels in the mixture behind the paper's tables."""
    return {
        f"cascade/kernels={m}": Cascade(
            second=schedule.leopard(kernel=GaussianMixture.reference(m))
        )
        for m in (1, 2, 5, 10)
    }


def _batch(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Batch sizes of Algorithm 1. An epoch has all rows: smaller batches, more steps."""
    methods: dict[str, Any] = {}
    for label, size in (("full", None), ("2048", 2048), ("512", 512)):
        methods[f"leopard/batch={label}"] = LEOPARD(solver=_algorithm_1(paper, schedule, size))
    for label, eraser in list(methods.items()):
        methods[label.replace("leopard", "cascade")] = Cascade(second=eraser)
    return methods


def _solver(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Algorithm 1 and our solver, each with more and with less time."""
    first = _algorithm_1(paper, schedule, None)
    short = replace(first, epochs=max(1, first.epochs // 5))
    brief = ManifoldSolver(max_evaluations=10)
    return {
        "cascade/solver=paper-short": Cascade(second=LEOPARD(solver=short)),
        "cascade/solver=paper": Cascade(second=LEOPARD(solver=first)),
        "cascade/solver=manifold-10": Cascade(second=schedule.leopard(solver=brief)),
        "cascade/solver=manifold": Cascade(second=schedule.leopard()),
    }


STUDIES: dict[str, Any] = {
    "main": _main,
    "field": _field,
    "rivals": _rivals,
    "task": _task,
    "metric": _metric,
    "preserve": _preserve,
    "kernels": _kernels,
    "batch": _batch,
    "solver": _solver,
}

#: ``quick``: minutes. ``standard``: the committed run. ``paper``: the paper's own schedule, hours.
SCHEDULES = {
    "quick": Schedule(1, 3, 3000, 40, 20, 1, "quick", ("main", "kernels", "batch")),
    "standard": Schedule(3, 7, 10_000, 500, 150, 2, "quick", tuple(STUDIES)),
    "paper": Schedule(5, 99, 10_000, None, None, 99, "standard", tuple(STUDIES)),
}


def _algorithm_1(paper: str | None, schedule: Schedule, batch_size: int | None) -> PaperSolver:
    """Make the paper's solver with another batch size, and the epochs of the schedule."""
    preset = PaperSolver.preset(paper or "glove")
    epochs = min(preset.epochs, schedule.paper_epochs or preset.epochs)
    return replace(preset, batch_size=batch_size, epochs=epochs)


def _network_preset(paper: str | None, schedule: Schedule) -> dict[str, Any]:
    """Look up the paper's parameters of FaRM and KRaM for its data sets."""
    if schedule.network_epochs is not None:
        return {"training": {"epochs": schedule.network_epochs}}
    presets: dict[str | None, dict[str, Any]] = {
        "bios": {"training": {"epochs": 50, "batch_size": 512}},
        "dial": {"training": {"epochs": 50, "batch_size": 2048}, "n_layers": 7},
    }
    return presets.get(paper, {})


def _ranks(paper: str | None, n_features: int, at_most: int) -> tuple[int, ...]:
    shares: Sequence[float] = OTHER_SHARES
    if paper is not None:
        ranks = PAPER_RANKS[paper]
        if at_most > len(ranks):  # all ranks of the paper's tables
            ranks = tuple({row.rank for row in paper_rows() if row.dataset == paper and row.rank})
        shares = [rank / paper_data(paper)["features"] for rank in ranks]
    ours = sorted({max(1, round(share * n_features)) for share in shares}, reverse=True)
    return _middle(ours, at_most)


def _middle(ranks: Sequence[int], at_most: int) -> tuple[int, ...]:
    """Choose at most this many ranks, evenly spread; the ends are left out first."""
    if len(ranks) <= at_most:
        return tuple(ranks)
    step = len(ranks) / at_most
    return tuple(ranks[int(step * (i + 0.5))] for i in range(at_most))
