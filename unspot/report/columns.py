"""Results by eraser: an evaluation and a certificate of one eraser share a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Column", "columns_of"]


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
        result = self.evaluation if self.evaluation is not None else self.certificate
        found: Mapping[str, Any] = result.metadata
        return found

    @property
    def eraser(self) -> Mapping[str, Any]:
        """The eraser's own metadata."""
        found: Mapping[str, Any] = self.metadata.get("eraser", {})
        return found


def columns_of(results: Any) -> list[Column]:
    """The columns of a report.

    Parameters
    ----------
    results : Evaluation, Certificate, sequence of them, or mapping of names to them
        Under one name there may be an evaluation and a certificate, as a pair. Without names,
        results of the same method and rank share a column.
    """
    found: dict[str, Column] = {}
    for name, result in _named(results):
        column = _column(name, result)
        key = name or f"{column.method} {column.rank}"
        found[key] = _merged(found[key], column) if key in found else column
    if not found:
        raise ValueError(
            "Got no results, but a report needs at least one: an Evaluation or a Certificate."
        )
    return _with_names(list(found.values()))


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
        several = isinstance(value, Sequence) and not isinstance(value, str)
        for result in value if several else (value,):
            yield str(name), result


def _column(name: str, result: Any) -> Column:
    part = "evaluation" if hasattr(result, "rows") else "certificate"
    if not hasattr(result, "metadata") or not hasattr(
        result, "rows" if part == "evaluation" else "attackers"
    ):
        raise ValueError(
            f"Got a result of type {type(result).__name__}, but expected an Evaluation or a "
            "Certificate."
        )
    column = Column(name, "", **{part: result})
    method = method_name(column.eraser) or name or "erased"
    return replace(column, method=method, rank=column.eraser.get("rank"))


def _merged(first: Column, second: Column) -> Column:
    for part in ("evaluation", "certificate"):
        if getattr(first, part) is not None and getattr(second, part) is not None:
            raise ValueError(
                f"Got two {part}s of {first.name or first.method!r}, but expected one. Give each "
                "eraser a name of its own."
            )
    return replace(
        first,
        evaluation=first.evaluation if first.evaluation is not None else second.evaluation,
        certificate=first.certificate if first.certificate is not None else second.certificate,
    )


def _with_names(columns: list[Column]) -> list[Column]:
    """Columns without a name get that of the method, with the rank where it comes more often."""
    often = Counter(column.method for column in columns)

    def name(column: Column) -> str:
        if column.name:
            return column.name
        return (
            column.method if often[column.method] == 1 else f"{column.method}, rank {column.rank}"
        )

    return [replace(column, name=name(column)) for column in columns]
