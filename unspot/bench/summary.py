"""Cells of a benchmark summed up over seeds, each beside the paper's row of the same cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unspot.bench.paper import PaperRow, paper_row, same_share

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LARGEST_BATCH", "PAPERS_NAME", "Line", "display_name", "lines", "pick", "study_of"]

#: What the paper's columns are called here. Its probe is the one that its tables were made with.
PAPERS_NAME = {"probe_reference": "probe"}
#: The paper's largest batch, where it is not all rows. Ours is; the tables' heading says so.
LARGEST_BATCH = {"bios": 8192, "dial": 8192}
_NOT_METRICS = {"dataset", "method", "rank", "seed", "status", "error", "kept_rank", "key"}

_NAMES = {
    "original": "original",
    "leace": "LEACE",
    "inlp": "INLP",
    "rlace": "R-LACE",
    "farm": "FaRM",
    "cascade:farm": "FaRM, cascaded",
    "kernel": "kernel erasure",
    "adversarial": "adversarial",
    "matching": "moment matching",
    "mean": "mean projection",
    "random": "random projection",
    "pca": "PCA",
    "cascade:pca": "PCA, cascaded",
    "kram": "KRaM",
    "cascade:kram": "KRaM, cascaded",
    "leopard": "L̄EOPARD",
    "cascade": "L̄EOPARD, cascaded",
}


@dataclass(frozen=True)
class Line:
    """One method at one rank: mean and spread over seeds of every metric, and the paper's row."""

    study: str
    method: str
    rank: int | None
    n_seeds: int
    values: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    paper: PaperRow | None = None
    errors: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As tables show it."""
        return display_name(self.method)

    def mean(self, metric: str) -> float | None:
        found = self.values.get(metric)
        return None if found is None else found[0]

    def papers(self, metric: str) -> tuple[float, float | None] | None:
        """The paper's number for one of our metrics."""
        if self.paper is None or metric in PAPERS_NAME.values():  # that name means another here
            return None
        return self.paper.values.get(PAPERS_NAME.get(metric, metric))


def display_name(method: str) -> str:
    """The name of a label.

    Examples
    --------
    >>> display_name("cascade:farm"), display_name("cascade/kernels=2")
    ('FaRM, cascaded', 'L̄EOPARD, cascaded, kernels=2')
    """
    base, _, setting = method.partition("/")
    name = _NAMES.get(base, base)
    return f"{name}, {setting}" if setting else name


def study_of(method: str) -> str:
    """The study that a label belongs to: that of its setting.

    Examples
    --------
    >>> study_of("cascade:farm"), study_of("cascade/kernels=2")
    ('main', 'kernels')
    """
    return method.partition("/")[2].partition("=")[0] or "main"


def lines(frame: pd.DataFrame, paper: str | None, n_features: int) -> list[Line]:
    """One line a method and rank, in the order in which they come."""
    metrics = [c for c in frame.columns if c not in _NOT_METRICS]
    groups: dict[tuple[str, str, int | None], list[Any]] = {}
    for row in frame.to_dict("records"):
        rank = None if _missing(row["rank"]) else int(row["rank"])
        groups.setdefault((study_of(row["method"]), row["method"], rank), []).append(row)
    return [
        Line(
            study,
            method,
            rank,
            len(rows),
            _means(rows, metrics),
            _paper(paper, method, rank, n_features),
            tuple(dict.fromkeys(str(r["error"]) for r in rows if r["status"] == "failed")),
        )
        for (study, method, rank), rows in groups.items()
    ]


def pick(found: Iterable[Line], study: str, methods: Sequence[str] | None = None) -> list[Line]:
    """The lines of a study, of some methods."""
    return [
        line
        for line in found
        if line.study == study and (methods is None or line.method in methods)
    ]


def _means(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, Any]:
    values = {}
    for name in metrics:
        column = [float(row[name]) for row in rows if not _missing(row[name])]
        if column:
            values[name] = (float(np.mean(column)), float(np.std(column)))
    return values


def _paper(paper: str | None, method: str, rank: int | None, n_features: int) -> PaperRow | None:
    if paper is None:
        return None
    base, _, study = method.partition("/")
    theirs = None if rank is None else same_share(paper, rank, n_features)
    if rank is not None and theirs is None:
        return None
    if study == "batch=full" and paper in LARGEST_BATCH:
        study = f"batch={LARGEST_BATCH[paper]}"
    return paper_row(paper, base, theirs, study)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))
