"""Reports: results as one self-contained HTML file, as figures, and as tables for a paper."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unspot.report.contents import NeighbourList
    from unspot.report.views import Views

__all__ = ["make_views", "to_html"]


def to_html(
    results: Any,
    path: str | os.PathLike[str],
    *,
    views: Views | None = None,
    neighbours: Sequence[NeighbourList] = (),
    title: str | None = None,
    chosen: str | None = None,
    chosen_rank: int | None = None,
) -> Path:
    """Write a report: one HTML file that needs no network.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        Under one name there may be an evaluation and a certificate, as a pair; a certificate
        under "before" is of the original rows. Several erasers stand side by side, and they or
        the ranks of a path on the plane of erasure and utility.
    path : path
        The file; it appears under its name when it is complete.
    views : Views, optional
        Pictures of the embeddings, from ``make_views``.
    neighbours : sequence of NeighbourList
        Nearest rows before and after.
    title : str, optional
    chosen : str, optional
        Which of the erasers the headline is about, by name; by default the last.
    chosen_rank : int, optional
        Which rank of a path is marked.

    Examples
    --------
    >>> import tempfile
    >>> from unspot.evaluation.results import Evaluation, Row, Value
    >>> row = Row("probe", "Probe", "share", Value(0.99, 0.01), Value(0.34, 0.01), "lower")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = to_html(Evaluation("words", (row,)), f"{folder}/report.html")
    ...     "99.0 ± 1.0 %" in page.read_text(encoding="utf-8")
    True
    """
    from unspot.io.files import write_atomically
    from unspot.report.html import render
    from unspot.report.reading import read_contents

    contents = read_contents(
        results, title=title, chosen=chosen, chosen_rank=chosen_rank, neighbours=neighbours
    )
    page = render(contents, views, made=datetime.now())
    write_atomically(Path(path), page.encode("utf-8"))
    return Path(path)


def __getattr__(name: str) -> Any:
    if name == "make_views":
        from unspot.report.views import make_views

        return make_views
    raise AttributeError(f"module 'unspot.report' has no attribute {name!r}")
