"""Results sorted for a report: one column for each eraser, and the paths of ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["BEFORE", "Column", "Results", "sort_results"]

#: The name under which a certificate of the original rows may stand.
BEFORE = "before"

#: What tells erasers apart, where both of two results say it.
_IDENTITY = ("method", "inner", "rank", "parameters", "fingerprint")


@dataclass(frozen=True)
class Column:
    """One eraser: its evaluation, its certificate, or both."""

    name: str
    method: str
    rank: int | None = None
    evaluation: Any = None
    certificate: Any = None

    def row(self, key: str) -> Any:
        """A row of the evaluation, or None."""
        evaluation = self.evaluation
        return evaluation[key] if evaluation is not None and key in evaluation else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What was measured on which data, by which settings."""
        result = self.certificate if self.evaluation is None else self.evaluation
        found: Mapping[str, Any] = {} if result is None else result.metadata
        return found

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The eraser's own metadata."""
        found: Mapping[str, Any] = self.metadata.get("eraser", {})
        return found


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        That of the original rows.
    paths : mapping of str to sequence of mappings
        Points of a path of ranks by the name of the method: plain numbers by their names.
    """

    columns: tuple[Column, ...] = ()
    before: Any = None
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        Under one name there may be an evaluation and a certificate, as a pair; a certificate
        under "before" is of the original rows. Without names, evaluations stand in columns by
        method and rank, and a certificate belongs to the evaluation of its eraser; one that does
        not say whose it is, to the evaluation before it.
    """
    columns: dict[str, Column] = {}
    before, paths = None, {}
    for name, result in _named(results):
        kind = _kind(result)
        if kind == "path":
            paths[name or result.method] = json.loads(result.to_json())["points"]
        elif kind == "certificate" and name == BEFORE:
            before = result
        else:
            column = _column(name, kind, result)
            key = name or _place(column, columns)
            columns[key] = _merged(columns[key], column) if key in columns else column
    if not columns and not paths:
        raise ValueError(
            "Got no results, but a report needs at least one: an Evaluation, a Certificate or a "
            "RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


def method_name(metadata: Mapping[str, Any]) -> str:
    """What people call an eraser.

    Examples
    --------
    >>> method_name({"method": "Cascade", "inner": {"method": "LEOPARD"}})
    'Cascade(LEOPARD)'
    """
    method, inner = str(metadata.get("method", "")), metadata.get("inner")
    return f"{method}({inner['method']})" if isinstance(inner, Mapping) and method else method


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(results, Mapping):
        results = {"": results}
    for name, value in results.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _kind(result: Any) -> str:
    marks = {"evaluation": "rows", "certificate": "attackers", "path": "points"}
    for kind, attribute in marks.items():
        if hasattr(result, attribute) and hasattr(result, "to_json"):
            return kind
    raise ValueError(
        f"Got a result of type {type(result).__name__}, but expected an Evaluation, a Certificate "
        "or a RankPath."
    )


def _column(name: str, kind: str, result: Any) -> Column:
    column = Column(name, "", **{kind: result})
    method = method_name(column.eraser) or name or "erased"
    return replace(column, method=method, rank=column.eraser.get("rank"))


def _place(column: Column, columns: Mapping[str, Column]) -> str:
    """Where a result without a name belongs."""
    if column.certificate is not None:
        for at, (key, other) in enumerate(reversed(list(columns.items()))):
            told = bool(column.eraser and other.eraser)
            if other.certificate is None and (told or at == 0) and _may_be_one(column, other):
                return key
    own = f"{column.method} {column.rank}"
    found = columns.get(own)
    # Two evaluations of one method and rank are refused later: only names would tell them apart.
    twice = found is not None and column.certificate is None and found.evaluation is not None
    if found is None or twice or _may_be_one(column, found):
        return own
    return f"{own}, {len(columns)}"


def _may_be_one(first: Column, second: Column) -> bool:
    """Whether nothing that both say about their eraser differs."""
    pairs = [(first.eraser.get(key), second.eraser.get(key)) for key in _IDENTITY]
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _merged(first: Column, second: Column) -> Column:
    for part in ("evaluation", "certificate"):
        if getattr(first, part) is not None and getattr(second, part) is not None:
            raise ValueError(
                f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
                "eraser a name of its own."
            )
    later = second if second.evaluation is not None else first
    return replace(
        later,
        name=first.name,
        evaluation=later.evaluation,
        certificate=first.certificate or second.certificate,
    )


def _with_names(columns: list[Column]) -> Iterator[Column]:
    """Columns without a name get that of the method, with the rank where it comes more often."""
    often = Counter(column.method for column in columns)
    seen: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if often[column.method] == 1 else ranked)
        seen[name] += 1
        yield replace(column, name=name if seen[name] == 1 else f"{name} ({seen[name]})")
