"""Results sorted for a report: one column per eraser, and the paths of ranks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unspot.evaluation.results import method_name
from unspot.report.contents import BEFORE

__all__ = ["Column", "Results", "sort_results"]

#: The metadata by which erasers differ, if both of two results have it.
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
        """What was measured, on which data, with which settings."""
        result = self.certificate if self.evaluation is None else self.evaluation
        return {} if result is None else dict(result.metadata)

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The metadata of the eraser."""
        return dict(self.metadata.get("eraser", {}))


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        The certificate of the original rows.
    paths : mapping of str to sequence of mappings
        The points of each path of ranks, by the name of the method. A point maps the names of
        metrics to plain numbers.
    """

    columns: tuple[Column, ...] = ()
    before: Any = None
    paths: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        A name may have both an evaluation and a certificate, as a pair. A certificate under the
        name "before" is that of the original rows. Without names, there is one column per method
        and rank, and a certificate belongs to the evaluation of its eraser. A certificate that
        does not name its eraser belongs to the evaluation before it.
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
            key = name or _key(column, columns)
            columns[key] = _merged(columns[key], column) if key in columns else column
    if not columns and not paths:
        raise ValueError(
            "Got no results, but expected at least one: an Evaluation, a Certificate or a RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


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
        "or a RankPath. Read result files with unspot.report.files.read_results."
    )


def _column(name: str, kind: str, result: Any) -> Column:
    column = Column(name, "", **{kind: result})
    method = method_name(column.eraser) or name or "erased"
    return replace(column, method=method, rank=column.eraser.get("rank"))


def _key(column: Column, columns: dict[str, Column]) -> str:
    """The key of the column to which a result without a name belongs."""
    if column.certificate is not None:
        latest = next(reversed(columns), None)
        for key, other in reversed(columns.items()):
            comparable = key == latest or (column.eraser and other.eraser)
            if other.certificate is None and comparable and _may_be_same(column, other):
                return key
    key = f"{column.method} {column.rank}"
    if key not in columns or _may_be_same(column, columns[key]):
        return key
    # Two evaluations of one method and rank are refused later: only names would tell them apart.
    two_evaluations = column.certificate is None and columns[key].evaluation is not None
    return key if two_evaluations else f"{key}, {len(columns)}"


def _may_be_same(first: Column, second: Column) -> bool:
    """Whether the erasers agree in all the metadata that both have."""
    pairs = [(first.eraser.get(key), second.eraser.get(key)) for key in _IDENTITY]
    return all(a == b for a, b in pairs if a is not None and b is not None)


def _merged(first: Column, second: Column) -> Column:
    for part in ("evaluation", "certificate"):
        if getattr(first, part) is not None and getattr(second, part) is not None:
            raise ValueError(
                f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
                "eraser a name of its own."
            )
    evaluated = second if second.evaluation is not None else first
    certificate = first.certificate or second.certificate
    return replace(evaluated, name=first.name, certificate=certificate)


def _with_names(columns: list[Column]) -> Iterator[Column]:
    """Columns named by their method, and by the rank if a method has several columns."""
    methods = Counter(column.method for column in columns)
    seen: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if methods[column.method] == 1 else ranked)
        seen[name] += 1
        yield replace(column, name=name if seen[name] == 1 else f"{name} ({seen[name]})")
