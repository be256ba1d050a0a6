"""Result files: the JSON that ``unspot evaluate``, ``certify`` and ``path`` write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unspot.evaluation.results import Evaluation
from unspot.report.contents import VIEWS_FORMAT, Views

__all__ = ["PathNumbers", "read_result", "read_results", "split_name"]

PATH_FORMAT = "unspot-path/1"
_EXPECTED = "Expected a file written by the option --json of unspot evaluate, certify or path."


@dataclass(frozen=True)
class PathNumbers:
    """A path of ranks as its JSON file has it: numbers without erasers."""

    method: str
    points: tuple[dict[str, Any], ...]

    def to_json(self) -> str:
        """JSON text with the method and the points, as ``RankPath.to_json`` has them."""
        return json.dumps({"method": self.method, "points": self.points})


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


def split_name(entry: str) -> tuple[str, Path]:
    """``NAME=path`` as a name and a path; a file that exists is a path, even with "=" in it.

    Examples
    --------
    >>> split_name("LEACE=out/leace.json")
    ('LEACE', PosixPath('out/leace.json'))
    """
    name, sign, path = entry.partition("=")
    if not sign or Path(entry).exists():
        return "", Path(entry)
    return name, Path(path)


def read_result(path: Path) -> Any:
    """An Evaluation, a Certificate, PathNumbers or Views, depending on what the file holds."""
    text = path.read_text(encoding="utf-8")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"Got {path}, which is not JSON ({error}). {_EXPECTED}") from None
    try:
        result = _result(content, text)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Got {path}, which is incomplete ({error!s}). {_EXPECTED}") from None
    if result is None:
        raise ValueError(f"Got {path}, which holds no result of unspot. {_EXPECTED}")
    return result


def _result(content: Any, text: str) -> Any:
    """The result that a JSON file holds; None if it holds something else."""
    if not isinstance(content, dict):
        return None
    if content.get("format") == VIEWS_FORMAT:
        return Views.from_dict(content)
    if content.get("format") == PATH_FORMAT:
        return PathNumbers(str(content["method"]), tuple(content["points"]))
    if "rows" in content:
        return Evaluation.from_json(text)
    if "attackers" in content and "leaks" in content:
        return _certificate(content)
    return None


def _certificate(content: dict[str, Any]) -> Any:
    from unspot.evaluation.certificate import AttackerReport, Certificate

    attackers = tuple(_from_fields(AttackerReport, entry) for entry in content["attackers"])
    return _from_fields(Certificate, {"metadata": {}, **content, "attackers": attackers})


def _from_fields(kind: Any, values: dict[str, Any]) -> Any:
    """A dataclass from its fields among the values; others are of a later version."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})
