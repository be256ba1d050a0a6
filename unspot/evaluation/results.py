"""What an evaluation found: plain frozen data, and its tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from unspot.checks import require
from unspot.data.dataset import Dataset
from unspot.data.rows import KNOWN
from unspot.eraser import Eraser, method_name
from unspot.io.records import as_type, parse
from unspot.tables import latex, markdown

__all__ = [
    "AttackerFacts",
    "Evaluation",
    "Metadata",
    "Row",
    "Value",
    "concept_name",
    "eraser_facts",
    "eraser_name",
]

Direction = Literal["lower", "higher", "none"]
_ARROWS = {"lower": "↓", "higher": "↑", "none": ""}
#: What to read first.
_HEADLINES = ("attack", "task_linear", "neighbours")


@dataclass(frozen=True)
class Value:
    """A mean over seeds, and the standard deviation over them where there are several."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class Row:
    """One metric, before and after erasure.

    Attributes
    ----------
    key, label : str
        What the metric is called in code, and in tables.
    unit : str
        "share" for a number from 0 to 1 that tables show in per cent, else a unit or nothing.
    before, after : Value or None
        None where the metric is undefined; the note says why.
    direction : {"lower", "higher", "none"}
        Which way is better.
    note : str
        How to read it, what was left out.
    """

    key: str
    label: str
    unit: str
    before: Value | None
    after: Value | None
    direction: Direction = "none"
    note: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of an erasure, before and after, with what they were measured on.

    Attributes
    ----------
    name : str
        The eraser and the data.
    rows : tuple of Row
        One for each metric; ``evaluation["mdl"]`` finds one by its key.
    metadata : mapping
        JSON-able: the eraser's own metadata, numbers of rows, seeds, versions, seconds.
    details : mapping
        JSON-able: what lies behind the rows. ``attackers``: every attacker before and after;
        ``gaps``: TPR gaps by class and label before and after, with the class's share.

    Examples
    --------
    >>> row = Row("probe", "Probe", "share", Value(0.99, 0.001), Value(0.34, 0.01), "lower")
    >>> print(Evaluation("LEOPARD on words", (row,)).to_markdown())
    | Metric | Before | After |
    |:--|--:|--:|
    | Probe ↓ | 99.0 ± 0.1 % | 34.0 ± 1.0 % |
    >>> Evaluation("LEOPARD on words", (row,))["probe"].after.mean
    0.34
    """

    name: str
    rows: tuple[Row, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: object) -> bool:
        return any(row.key == key for row in self.rows)

    def __getitem__(self, key: str) -> Row:
        for row in self.rows:
            if row.key == key:
                return row
        known = ", ".join(row.key for row in self.rows)
        raise KeyError(f"Got metric {key!r}, but this evaluation has: {known}.")

    def __str__(self) -> str:
        return f"{self.name}\n\n{self.to_markdown()}"

    def __repr__(self) -> str:
        first = [row for row in self.rows if row.key in _HEADLINES] or list(self.rows[:3])
        headlines = [
            f"{row.label} {format_value(row.before, row.unit)} → "
            f"{format_value(row.after, row.unit)}"
            for row in first
        ]
        return f"<Evaluation of {self.name}, {len(self)} rows: {'; '.join(headlines)}>"

    def _repr_markdown_(self) -> str:
        """The table, where a notebook shows it."""
        return str(self)

    # -- plain data ------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries and lists, as in the JSON."""
        return {
            "name": self.name,
            "rows": [asdict(row) for row in self.rows],
            "metadata": dict(self.metadata),
            "details": dict(self.details),
        }

    def to_json(self) -> str:
        """JSON text, without NaN; ``from_json`` reads it back."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """The evaluation that ``to_json`` wrote."""
        try:
            return cls.from_dict(parse(text))
        except ValueError as error:
            raise ValueError(
                f"Got text that is no evaluation ({error}), but expected what Evaluation.to_json "
                "or `unspot evaluate --json` wrote."
            ) from None

    @classmethod
    def from_dict(cls, content: Any) -> Evaluation:
        """The evaluation that ``to_dict`` gave; the error names the first wrong field."""
        result: Evaluation = as_type(cls, content)
        as_type(Metadata, result.metadata, "metadata")
        as_type(_Details, result.details, "details")
        return result

    # -- tables ----------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas data frame with a line for each metric; undefined numbers are NaN there."""
        require("to_frame", "report", "pandas")
        import pandas as pd

        lines = [
            {
                "metric": row.key,
                "label": row.label,
                "unit": row.unit,
                "before": row.before.mean if row.before else None,
                "before_spread": row.before.spread if row.before else None,
                "after": row.after.mean if row.after else None,
                "after_spread": row.after.spread if row.after else None,
                "direction": row.direction,
                "note": row.note,
            }
            for row in self.rows
        ]
        numbers = ["before", "before_spread", "after", "after_spread"]
        return pd.DataFrame(lines).astype(dict.fromkeys(numbers, float)).set_index("metric")

    def to_markdown(self) -> str:
        """A Markdown table, the notes under it."""
        notes = [f"- {row.label}: {row.note}" for row in self.rows if row.note]
        return "\n".join([markdown(self._cells()), *([""] if notes else []), *notes])

    def to_latex(self) -> str:
        r"""A ``booktabs`` table, ready for ``\input``."""
        return latex(self._cells())

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one self-contained HTML page; options are those of ``unspot.report.to_html``."""
        from unspot.report import to_html

        return to_html(self, path, **options)

    def _cells(self) -> list[list[str]]:
        return [
            ["Metric", "Before", "After"],
            *(
                [
                    f"{row.label} {_ARROWS[row.direction]}".strip(),
                    format_value(row.before, row.unit),
                    format_value(row.after, row.unit),
                ]
                for row in self.rows
            ),
        ]


def format_value(value: Value | None, unit: str) -> str:
    """A number as tables show it, with its spread.

    Examples
    --------
    >>> format_value(Value(0.3448, 0.0052), "share"), format_value(Value(10.8), "kbit")
    ('34.5 ± 0.5 %', '10.80 kbit')
    >>> format_value(None, "share")
    '–'
    """
    if value is None:
        return "–"
    scale, digits, sign = (100, 1, " %") if unit == "share" else (1, 2, f" {unit}" if unit else "")
    if unit == "p":
        digits, sign = 3, ""
    text = f"{scale * value.mean:.{digits}f}"
    if value.spread is not None:
        text += f" ± {scale * value.spread:.{digits}f}"
    return text + sign


# -- what a reader of metadata and details may rely on, wherever they are from ---------------------


class _EraserFacts(TypedDict, total=False):
    method: str
    rank: int | None
    parameters: Mapping[str, Any]
    inner: _EraserFacts | None
    fingerprint: str | None
    digest: str
    classes: list[Any] | None
    class_counts: list[int] | None


class Metadata(TypedDict, total=False):
    """The metadata of an evaluation or a certificate, as far as reports read them."""

    eraser: _EraserFacts
    concept: str
    n_rows: int | Mapping[str, int]
    classes: list[Any] | None
    versions: Mapping[str, Any]
    digests: Mapping[str, str]
    seconds: float | Mapping[str, float] | None


class _AttackerName(TypedDict):
    name: str


class AttackerFacts(_AttackerName, total=False):
    """An attacker in the details of an evaluation, as far as reports read it."""

    score: float
    interval: tuple[float, float] | None


class _Attackers(TypedDict, total=False):
    before: list[AttackerFacts]
    after: list[AttackerFacts]
    chance: float
    score: str


_Gap = TypedDict(
    "_Gap",
    {"class": str, "label": str, "share": float, "before": float | None, "after": float | None},
)


class _Details(TypedDict, total=False):
    attackers: _Attackers
    gaps: list[_Gap]


# -- which eraser a result is about ----------------------------------------------------------------


def eraser_facts(eraser: Any) -> dict[str, Any]:
    """The metadata of an eraser as JSON has them; for anything without metadata, its name."""
    frozen = getattr(eraser, "eraser_", eraser)
    if not isinstance(frozen, Eraser):
        return {"method": eraser_name(eraser)}
    # Through JSON, so that what is kept is plain: tuples, arrays and numbers of numpy are not.
    facts = {key: value for key, value in frozen.metadata.items() if key not in KNOWN}
    plain: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return {**plain, "rank": frozen.rank, "digest": frozen.digest}


def concept_name(eraser: Any, data: Dataset) -> str:
    """What the concept is called: by the data, else by the file of the eraser's fit; or nothing."""
    return data.concept or str(eraser_facts(eraser).get("concept_name", ""))


def eraser_name(eraser: Any) -> str:
    """What people call an eraser of any kind."""
    if eraser is None:
        return "no erasure"
    if isinstance(eraser, Dataset):
        return eraser.name if eraser.name != "data" else "erased rows"
    frozen = getattr(eraser, "eraser_", eraser)
    method = method_name(frozen.metadata) if isinstance(frozen, Eraser) else ""
    name = method or getattr(eraser, "__name__", type(eraser).__name__)
    return "erased" if name == "<lambda>" else name
