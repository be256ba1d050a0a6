"""The numbers of the paper's tables, to stand beside ours."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["PaperRow", "paper_data", "paper_row", "paper_rows", "same_share"]


@dataclass(frozen=True)
class PaperRow:
    """One row of a table of the paper.

    Parameters
    ----------
    table : str
        "1a" to "2b" in the paper, "3" to "11" in its supplementary material.
    dataset : {"glove", "bios", "dial"}
    method : str
        "original", "random", "leace", "farm", "kram", "leopard", "cascade", "cascade:farm", …
    rank : int or None
    study : str
        "batch=full", "batch=2048", "kernels=2", …, or nothing.
    values : dict of str to (mean, spread)
        Shares from 0 to 1; MDL in units of 1024 bits, by the paper's scheme.
    cited : bool
        Whether the paper took the row from another paper.
    """

    table: str
    dataset: str
    method: str
    rank: int | None
    study: str = ""
    values: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    cited: bool = False


@cache
def _content() -> dict[str, Any]:
    text = files("unspot.bench").joinpath("paper_tables.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def paper_data(dataset: str) -> dict[str, Any]:
    """What the paper's data set was: vectors, features, rows of the splits."""
    found: dict[str, Any] = _content()["datasets"][dataset]
    return found


@cache
def paper_rows() -> tuple[PaperRow, ...]:
    """All rows of all tables.

    Examples
    --------
    >>> rows = paper_rows()
    >>> len(rows), rows[4].method, rows[4].rank, rows[4].values["neighbours_paper"]
    (338, 'leopard', 75, (0.75, None))
    """
    return tuple(_row(record) for record in _content()["records"])


def paper_row(
    dataset: str | None, method: str, rank: int | None, study: str = ""
) -> PaperRow | None:
    """The row of a cell: of all the tables that have it, the values together."""
    found = [
        row
        for row in paper_rows()
        if (row.dataset, row.method, row.rank, row.study) == (dataset, method, rank, study)
        and not row.cited
    ]
    if not found:
        return None
    # Later tables repeat earlier ones; the first to give a number is the one in the paper's text.
    values = {key: value for row in reversed(found) for key, value in row.values.items()}
    tables = ", ".join(dict.fromkeys(row.table for row in found))
    return PaperRow(tables, str(dataset), method, rank, study, values)


def same_share(dataset: str, rank: int, n_features: int) -> int | None:
    """The paper's rank that keeps the same share of the dimensions, if it has one nearby.

    Examples
    --------
    >>> same_share("glove", 50, 100), same_share("glove", 42, 100), same_share("glove", 49, 300)
    (150, 125, None)
    """
    total = int(paper_data(dataset)["features"])
    ranks = {row.rank for row in paper_rows() if row.dataset == dataset and row.rank}
    wanted = rank * total / n_features
    nearest = min(ranks, key=lambda known: abs(known - wanted))
    # Half of one of our dimensions, in dimensions of the paper; the same rank where they agree.
    tolerance = 0.5 * total / n_features if n_features != total else 0.0
    return nearest if abs(nearest - wanted) <= tolerance else None


def _row(record: dict[str, Any]) -> PaperRow:
    study = next((f"{key}={record[key]}" for key in ("batch", "kernels") if key in record), "")
    return PaperRow(
        record["table"],
        record["dataset"],
        record["method"],
        record["rank"],
        study,
        {key: (mean, spread) for key, (mean, spread) in record["values"].items()},
        record.get("cited", False),
    )
