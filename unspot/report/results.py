"""Results sorted by eraser: a column for each, with its evaluation and its certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unspot.eraser import method_name
from unspot.evaluation.certificate import Certificate
from unspot.evaluation.evaluations import Evaluation

#: The name of the original rows among the representations.
BEFORE = "before"


@dataclass(frozen=True)
class Column:
    """One eraser: its evaluation, its certificate, or both."""

    name: str
    evaluation: Evaluation | None = None
    certificate: Certificate | None = None

    def row(self, key: str) -> Any:
        """Return a row of the evaluation, or None."""
        evaluation = self.evaluation
        return evaluation[key] if evaluation is not None and key in evaluation else None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the evaluation, or of the certificate if there is none."""
        result = self.evaluation or self.certificate
        return {} if result is None else result.metadata

    @property
    def eraser(self) -> Mapping[str, Any]:
        """Return the metadata of the eraser."""
        facts: Mapping[str, Any] = self.metadata.get("eraser", {})
        return facts

    @property
    def owner(self) -> str:
        """Return the digest of the eraser; a function has none, and is known by its name."""
        return str(self.eraser.get("digest") or f"{self.method}, rank {self.rank}")

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return method_name(self.eraser) or self.name or "erased"

    @property
    def rank(self) -> int | None:
        """Return the rank of the eraser, if it has one."""
        rank: int | None = self.eraser.get("rank")
        return rank

    @property
    def attackers(self) -> Mapping[str, Any]:
        """Return what attackers of the evaluation scored: by side, with chance and score."""
        details = self.evaluation.details if self.evaluation else {}
        attackers: Mapping[str, Any] = details.get("attackers", {})
        return attackers


@dataclass(frozen=True)
class Results:
    """Everything that a report is made from.

    Parameters
    ----------
    columns : tuple of Column
    before : Certificate or None
        The certificate of the original rows.
    paths : mapping of str to RankPath
        By the name of the method.
    """

    columns: tuple[Column, ...] = ()
    before: Certificate | None = None
    paths: Mapping[str, Any] = field(default_factory=dict)

    @property
    def certificates(self) -> list[Certificate | None]:
        """Return the certificate of the original rows, then that of each column."""
        return [self.before, *(column.certificate for column in self.columns)]

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the first result."""
        first = next(iter(self.paths.values()), None)
        return self.columns[0].metadata if self.columns else first.facts() if first else {}

    @property
    def concept(self) -> str:
        """Return the name of the concept; empty if no result has one."""
        every = [*(column.metadata for column in self.columns), self.metadata]
        return next((str(facts["concept"]) for facts in every if facts.get("concept")), "")


def sort_results(results: Any) -> Results:
    """Sort results by eraser.

    Parameters
    ----------
    results : Evaluation, Certificate or RankPath, sequence of them, or mapping of names to them
        A name may have both an evaluation and a certificate, as a pair. A certificate under the
        name "before" is that of the original rows. Results without names share a column if their
        erasers have the same digest.
    """
    columns: dict[str, Column] = {}
    before: Certificate | None = None
    paths: dict[str, Any] = {}
    for name, result in _named(results):
        if isinstance(result, Certificate) and name == BEFORE:
            before = result
        elif isinstance(result, Evaluation | Certificate):
            part = "evaluation" if isinstance(result, Evaluation) else "certificate"
            parts: dict[str, Any] = {part: result}
            column = Column(name, **parts)
            key = name or _key(column, columns)
            columns[key] = _merged(columns[key], column, part) if key in columns else column
        elif hasattr(result, "points"):
            paths[name or result.method] = result
        else:
            raise ValueError(
                f"Got a result of type {type(result).__name__}, but expected an Evaluation, a "
                "Certificate or a RankPath. Read files with Evaluation.from_json and "
                "Certificate.from_dict."
            )
    if not columns and not paths:
        raise ValueError(
            "Got no results, but expected at least one: an Evaluation, a Certificate or a RankPath."
        )
    return Results(tuple(_with_names(list(columns.values()))), before, paths)


def _named(results: Any) -> Iterator[tuple[str, Any]]:
    by_name = results if isinstance(results, Mapping) else {"": results}
    for name, value in by_name.items():
        for result in value if isinstance(value, (list, tuple)) else (value,):
            yield str(name), result


def _key(column: Column, columns: Mapping[str, Column]) -> str:
    """Find the column of the same eraser."""
    same = (key for key, other in columns.items() if other.owner == column.owner)
    return next(same, column.owner)


def _merged(first: Column, second: Column, part: str) -> Column:
    if getattr(first, part) is not None:
        raise ValueError(
            f"Got two {part}s of {first.name or first.method}, but expected one. Give each "
            "eraser a name of its own."
        )
    return replace(first, **{part: getattr(second, part)})


def _with_names(columns: Sequence[Column]) -> Iterator[Column]:
    """Name columns by their method, and by the rank if a method has several columns."""
    methods = Counter(column.method for column in columns)
    used: Counter[str] = Counter()
    for column in columns:
        ranked = f"{column.method}, rank {column.rank}"
        name = column.name or (column.method if methods[column.method] == 1 else ranked)
        used[name] += 1
        yield replace(column, name=name if used[name] == 1 else f"{name} ({used[name]})")
