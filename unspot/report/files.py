"""Result files: JSON that ``unspot evaluate``, ``certify`` and ``path`` write."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.evaluation.results import Evaluation
from unspot.report.contents import Contents, Measure
from unspot.report.tables import attack_table, measure_groups
from unspot.report.views import FORMAT as VIEWS_FORMAT
from unspot.report.views import Views
from unspot.tables import Number

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate

__all__ = [
    "TABLES",
    "PathNumbers",
    "read_result",
    "read_results",
    "save_tables",
    "to_csv",
    "to_latex",
]

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


# -- Tables for a paper: CSV with plain numbers, LaTeX with booktabs rules -------------------------


#: What ``save_tables`` writes.
TABLES = ("tables.csv", "tables.tex")

_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "σ": r"$\sigma$",
    "≤": r"$\leq$",
    "–": "--",
    "…": r"\ldots{}",
}


def save_tables(folder: str | os.PathLike[str], contents: Contents) -> list[Path]:
    """Write ``tables.csv`` and ``tables.tex``, and return the files."""
    from unspot.io.files import write_atomically

    made = dict(zip(TABLES, (to_csv(contents), to_latex(contents)), strict=True))
    for name, text in made.items():
        write_atomically(Path(folder) / name, text.encode("utf-8"))
    return [Path(folder) / name for name in made]


def to_csv(contents: Contents) -> str:
    """Every measure and attacker, one number a line, before and after each method.

    Examples
    --------
    >>> from unspot.report.contents import Measure
    >>> row = Measure("probe", "Probe", Number(0.9, 0.01), (Number(0.4, 0.02),), "share")
    >>> print(to_csv(Contents("t", columns=("LEACE",), measures=(row,))))
    measure,unit,representation,value,spread,low,high
    Probe,share,before,0.9,0.01,,
    Probe,share,LEACE,0.4,0.02,,
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["measure", "unit", "representation", "value", "spread", "low", "high"])
    names = ("before", *contents.columns)
    for measure in contents.measures:
        for name, number in zip(names, _numbers(measure), strict=False):
            if number is not None:
                writer.writerow([measure.title, measure.unit, name, *_cells(number)])
    for attack in contents.attacks:
        what = f"attacker: {attack.attacker}"
        writer.writerow([what, "share", names[attack.column], *_cells(attack.accuracy)])
    return text.getvalue()


def to_latex(contents: Contents) -> str:
    r"""The tables of measures and attackers, for ``\input`` in a paper; needs ``booktabs``."""
    head = ("Measure", "Before", *contents.columns)
    tables = []
    if contents.measures:
        rows = [
            [f"{line.title} {line.arrow}".strip(), line.before, *line.after]
            for _, lines in measure_groups(contents)
            for line in lines
        ]
        tables.append(_tabular(head, rows))
    if contents.attacks:
        rows = [[name, *cells] for name, cells in attack_table(contents)]
        tables.append(_tabular(("Attacker", *head[1:]), rows))
    return "\n\n".join(tables) + "\n"


def latex_text(text: str) -> str:
    r"""Text with everything escaped that LaTeX would take as a command.

    Examples
    --------
    >>> latex_text("50 % & more_or_less")
    '50 \\% \\& more\\_or\\_less'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _numbers(measure: Measure) -> Iterator[Number | None]:
    yield measure.before
    yield from measure.after


def _cells(number: Number) -> list[str]:
    values = (number.value, number.spread, number.low, number.high)
    return ["" if value is None else f"{value:.6g}" for value in values]


def _tabular(head: tuple[str, ...], rows: list[list[str]]) -> str:
    def line(cells: tuple[str, ...] | list[str]) -> str:
        return " & ".join(latex_text(cell) for cell in cells) + r" \\"

    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            line(head),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
