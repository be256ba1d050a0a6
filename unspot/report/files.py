"""Result files: the JSON that ``unspot evaluate``, ``certify`` and ``path`` write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from unspot.evaluation.certificate import Certificate
from unspot.evaluation.results import Evaluation, Metadata
from unspot.io.files import split_name
from unspot.io.records import as_type, parse
from unspot.report.contents import VIEWS_FORMAT, Views

__all__ = ["PathNumbers", "read_result", "read_results"]

PATH_FORMAT = "unspot-path/1"
_EXPECTED = "Expected a file written by the option --json of unspot evaluate, certify or path."


@dataclass(frozen=True)
class PathNumbers:
    """A path of ranks as its JSON file has it: numbers without erasers."""

    method: str
    points: tuple[dict[str, int | float | None], ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    original: dict[str, int | float | None] | None = None

    def to_json(self) -> str:
        """JSON text with these fields, as ``RankPath.to_json`` has them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_dict(cls, content: Any) -> PathNumbers:
        """The numbers in what ``RankPath.to_json`` wrote; the error names the first wrong field."""
        as_type(_Path, content)
        result: PathNumbers = as_type(cls, content)
        return result


class _Point(TypedDict):
    rank: int


class _Points(TypedDict):
    points: list[_Point]


class _Path(_Points, total=False):
    metadata: Metadata
    original: _Point | None


def read_results(files: Sequence[str]) -> tuple[dict[str, list[Any]], Views | None]:
    """Results by name, and the views if one of the files holds them.

    Parameters
    ----------
    files : sequence of str
        Paths, or ``NAME=path`` to name the eraser. Results of the same name share a column.
    """
    results: dict[str, list[Any]] = {}
    views = None
    for entry in files:
        name, path = split_name(entry)
        result = read_result(path)
        if isinstance(result, Views):
            views = result
        else:
            results.setdefault(name, []).append(result)
    return results, views


def read_result(path: Path) -> Any:
    """An Evaluation, a Certificate, PathNumbers or Views: what the file holds."""
    try:
        content = parse(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"Got {path}, which is not JSON ({error}). {_EXPECTED}") from None
    try:
        result = _result(content)
    except ValueError as error:
        raise ValueError(
            f"Got {path}, which is incomplete or was changed ({error}). {_EXPECTED}"
        ) from None
    if result is None:
        raise ValueError(f"Got {path}, which holds no result of unspot. {_EXPECTED}")
    return result


def _result(content: Any) -> Any:
    """The result that a JSON file holds; None if it holds something else."""
    if not isinstance(content, dict):
        return None
    if content.get("format") == VIEWS_FORMAT:
        return Views.from_dict(content)
    if content.get("format") == PATH_FORMAT:
        return PathNumbers.from_dict(content)
    if "rows" in content:
        return Evaluation.from_dict(content)
    if "attackers" in content and "leaks" in content:
        return Certificate.from_dict(content)
    return None
