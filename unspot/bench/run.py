"""Run the benchmark: the studies as sweeps into one result file, then tables, figures, a page."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.bench.data import BenchData, open_data
from unspot.bench.metrics import bench_metrics
from unspot.bench.studies import EFFORTS, Effort, Study, studies
from unspot.sweeps.run import sweep

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BenchResult", "bench"]


@dataclass(frozen=True, eq=False)
class BenchResult:
    """All cells as a frame, what they were run on, and the files that were written."""

    frame: pd.DataFrame
    source: BenchData
    seconds: float
    files: tuple[Path, ...] = ()


def bench(
    name: str,
    *,
    source: str | os.PathLike[str] | None = None,
    concept: str = "z",
    task: str | None = "y",
    features: str | None = None,
    effort: str | Effort = "standard",
    ranks: Sequence[int | float] | None = None,
    seeds: int | Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    max_train_rows: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    retry: bool = False,
    n_jobs: int | None = None,
    figures: bool = True,
    verbose: bool = False,
) -> BenchResult:
    """Regenerate the paper's tables and figures on a data set.

    Parameters
    ----------
    name, source, concept, task, features
        The data: see ``unspot.bench.data.open_data``.
    effort : {"quick", "standard", "paper"} or Effort
        How much is run: minutes, tens of minutes, or the paper's own schedule.
    ranks : sequence of int or fractions, optional
        Instead of the paper's.
    seeds : int or sequence of int, optional
        Of every cell.
    only : sequence of str, optional
        Studies to run: main, field, metric, preserve, kernels, batch, solver.
    methods : sequence of str, optional
        Labels of methods to run, of those that the studies have.
    max_train_rows : int, optional
        Fit on a sample of the training rows.
    out : path, optional
        A folder for ``results.jsonl``, to which every finished cell is added, and for tables,
        figures and the page.
    resume : bool
        Go on with what is in ``out``.
    retry : bool
        With ``resume``, run cells again that failed.
    n_jobs : int, optional
        Cells at once; as in ``sweep``.
    figures : bool
        Whether to draw, which needs matplotlib.
    verbose : bool
        Show progress.
    """
    started = time.perf_counter()
    chosen = _effort(effort)
    found = open_data(
        name, source=source, concept=concept, task=task, features=features, max_rows=max_train_rows
    )
    listed = studies(only or chosen.studies, found.data, found.paper, chosen, ranks)
    listed = [_limited(study, methods, listed) for study in listed]
    folder = None if out is None else Path(out)
    options = {"retry": retry, "n_jobs": n_jobs, "verbose": verbose}
    frame = _run(listed, found, chosen, seeds, folder, resume, **options)
    result = BenchResult(frame, found, time.perf_counter() - started)
    if folder is None:
        return result
    from unspot.bench.output import write_all

    return replace(result, files=tuple(write_all(result, folder, figures=figures)))


def _run(
    listed: Sequence[Study],
    found: BenchData,
    effort: Effort,
    seeds: Any,
    folder: Path | None,
    resume: bool,
    **options: Any,
) -> pd.DataFrame:
    import pandas as pd

    frames: list[pd.DataFrame] = []
    for study in listed:
        if not study.methods:
            continue
        frame = sweep(
            study.methods,
            {found.data.name: found.data},
            study.ranks,
            effort.seeds if seeds is None else seeds,
            bench_metrics(found.data),
            budget=effort.budget,
            path=None if folder is None else folder / "results.jsonl",
            resume=folder is not None and (resume or bool(frames)),
            **options,
        )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _effort(effort: str | Effort) -> Effort:
    if isinstance(effort, Effort):
        return effort
    if effort not in EFFORTS:
        raise ValueError(f"Got effort={effort!r}, but expected one of {', '.join(EFFORTS)}.")
    return EFFORTS[effort]


def _limited(study: Study, methods: Sequence[str] | None, listed: Sequence[Study]) -> Study:
    if methods is None:
        return study
    from difflib import get_close_matches

    known = [label for other in listed for label in other.methods]
    for method in methods:
        if method not in known:
            near = get_close_matches(str(method), known, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(
                f"Got method {method!r}, but expected some of {', '.join(known)}.{hint}"
            )
    return replace(study, methods={k: v for k, v in study.methods.items() if k in methods})
