"""Result files: JSON that ``unspot evaluate``, ``certify`` and ``path`` write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.evaluation.results import Evaluation
from unspot.report.views import FORMAT as VIEWS_FORMAT
from unspot.report.views import Views

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate

__all__ = ["PathNumbers", "read_result", "read_results"]

PATH_FORMAT = "unspot-path/1"


@dataclass(frozen=True)
class PathNumbers:
    """A path of ranks as its JSON has it: numbers without erasers."""

    method: str
    points: tuple[dict[str, Any], ...]

    def to_json(self) -> str:
        return json.dumps({"method": self.method, "points": self.points})


def read_results(files: Sequence[str]) -> tuple[dict[str, list[Any]], Views | None]:
    """Results by name, and the views if one of the files holds them.

    Parameters
    ----------
    files : sequence of str
        Paths, or ``NAME=path`` to name the eraser; results of one name share a column.
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
    """``NAME=path`` as both; a path that exists is a path, whatever signs it has.

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
    """An Evaluation, a Certificate, a path's numbers, or Views, by what the file holds."""
    text = path.read_text(encoding="utf-8")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"Got {path}, which is not JSON ({error}). {_EXPECTED}") from None
    try:
        return _result(content, text)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"Got {path}, which is incomplete ({error!s}). {_EXPECTED}") from None
    except _UnknownKindError:
        raise ValueError(f"Got {path}, which holds no result of unspot. {_EXPECTED}") from None


_EXPECTED = "Expected a file written by the option --json of unspot evaluate, certify or path."


class _UnknownKindError(Exception):
    pass


def _result(content: Any, text: str) -> Any:
    if not isinstance(content, dict):
        raise _UnknownKindError
    if content.get("format") == VIEWS_FORMAT:
        return Views.from_dict(content)
    if content.get("format") == PATH_FORMAT:
        return PathNumbers(str(content["method"]), tuple(content["points"]))
    if "rows" in content:
        return Evaluation.from_json(text)
    if "attackers" in content and "leaks" in content:
        return _certificate(content)
    raise _UnknownKindError


def _certificate(content: dict[str, Any]) -> Certificate:
    from unspot.evaluation.certificate import AttackerReport, Certificate

    reports = tuple(
        AttackerReport(**{f.name: entry[f.name] for f in fields(AttackerReport)})
        for entry in content["attackers"]
    )
    own = {f.name: content[f.name] for f in fields(Certificate) if f.name != "metadata"}
    own["metadata"] = content.get("metadata", {})
    return Certificate(**{**own, "attackers": reports})
