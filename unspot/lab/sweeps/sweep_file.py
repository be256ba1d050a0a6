"""A sweep as a TOML file of methods, data, ranks, seeds and metrics."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

from unspot.checks import check_choice, check_count, check_seeds, did_you_mean
from unspot.data.dataset import Dataset
from unspot.erasers.registry import make
from unspot.evaluation.attackers import BUDGETS
from unspot.io.records import as_type, parse
from unspot.lab.sweeps.data import DATA_NAMES, open_data
from unspot.lab.sweeps.grid import named_methods

__all__ = ["SweepFile", "read_sweep_file"]

_OPTIONS = ("seeds", "metrics", "budget")
_TOP = ("methods", "data", "ranks", *_OPTIONS)
#: Keys of a data set that are arguments of ``open_data``.
_OPEN = ("concept", "task", "features", "max_rows", "random_state")
_DATA = ("path", "source", *_OPEN, "ranks")


@dataclass(frozen=True)
class SweepFile:
    """The arguments of ``sweep``, with the data sets not loaded yet.

    Parameters
    ----------
    methods : list of names, or dict of str to estimator, Eraser, function of rows or None
    data : dict of str to dict
        For every data set its path, concept, task, features…
    ranks : dict of str to sequence of int or fractions, or None
        For every data set its ranks; None for the default ranks.
    options : dict
        ``seeds``, ``metrics`` and ``budget``, as far as the file has them.
    folder : path
        The folder of the file, to which its paths are relative.
    """

    methods: list[Any] | dict[str, Any]
    data: dict[str, dict[str, Any]]
    ranks: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files and folders that the data are read from."""
        paths = [facts.get("path", name) for name, facts in self.data.items()]
        sources = [facts["source"] for facts in self.data.values() if "source" in facts]
        return tuple(self.folder / str(p) for p in [*paths, *sources] if p not in DATA_NAMES)

    def datasets(self) -> dict[str, Dataset]:
        """Load the data sets."""
        return {name: self._load(name, facts) for name, facts in self.data.items()}

    def _load(self, name: str, facts: Mapping[str, Any]) -> Dataset:
        path = str(facts.get("path", name))
        if path not in DATA_NAMES:
            path = str(self.folder / path)
        arguments = {"task": None, **{key: facts[key] for key in _OPEN if key in facts}}
        if "source" in facts:
            arguments["source"] = self.folder / str(facts["source"])
        return replace(open_data(path, **arguments), name=name)


def read_sweep_file(path: str | os.PathLike[str], *, allow_code: bool = False) -> SweepFile:
    """Read and check a sweep.

    Parameters
    ----------
    path : path
        A TOML file. ``methods`` is a list of names, or a table: for each label a name, or a table
        of a ``method`` and its parameters. ``data`` has a table for each data set, with ``path``,
        ``concept``, ``task``, ``features``, and ``ranks`` of this data set. ``ranks``, ``seeds``,
        ``metrics`` and ``budget`` are as in ``sweep``.
    allow_code : bool
        Whether a method may be ``module:Class`` or ``module:function`` of somebody's own, in the
        folder of the file or installed. It is imported, which runs its code.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "sweep.toml"
    >>> _ = file.write_text('''
    ... methods = ["original", "cascade"]
    ... ranks = [75, 50, 25]
    ... [data.words]
    ... path = "glove"
    ... ''')
    >>> plan = read_sweep_file(file)
    >>> list(plan.methods), plan.ranks, list(plan.data)
    (['original', 'cascade'], {'words': [75, 50, 25]}, ['words'])
    """
    path = Path(path)
    content = _parsed(path)
    _check_keys(content, _TOP, f"in {path}")
    for key in ("methods", "data"):
        if not content.get(key):
            raise ValueError(
                f"Got {str(path)!r} without {key}, but expected methods and data, such as "
                'methods = ["original", "cascade"] and [data.name] with a path and a concept.'
            )
    data = content["data"]
    if not isinstance(data, dict) or not all(isinstance(facts, dict) for facts in data.values()):
        raise ValueError(f"Got data = {data!r}, but expected tables, such as [data.words].")
    for name, facts in data.items():
        _check_keys(facts, _DATA, f"in [data.{name}]")
        _check_data(facts, f"[data.{name}] of {path}")
    options = {key: content[key] for key in _OPTIONS if key in content}
    _check_options(**options)
    folder = path.resolve().parent
    methods = _methods(content["methods"], folder if allow_code else None)
    return SweepFile(methods, data, _ranks(content, data), options, folder)


def _parsed(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    try:
        content: dict[str, Any] = parse(path.read_text(encoding="utf-8"), "TOML")
        return content
    except ValueError as error:  # of TOML, or of UTF-8
        raise ValueError(f"Got {str(path)!r}, which is not TOML: {error}.") from None


def _methods(given: Any, code: Path | None) -> list[Any] | dict[str, Any]:
    """What ``sweep`` takes, from a list of names or a table; own code only from a folder."""
    listed = given if isinstance(given, list) else [given]
    if all(isinstance(name, str) for name in listed):
        methods = [_own(name, code) if _is_code(name) else name for name in listed]
        named_methods(methods)  # unknown names are refused now
        return methods
    if not isinstance(given, dict):
        raise ValueError(
            f"Got methods = {given!r}, but expected a list of names, or a table of labels."
        )
    return named_methods({label: _method(label, value, code) for label, value in given.items()})


def _method(label: str, value: Any, code: Path | None) -> Any:
    if isinstance(value, str):
        return _own(value, code) if _is_code(value) else value
    if not isinstance(value, dict):
        raise ValueError(
            f"Got {value!r} for the method {label!r}, but expected a name or a table such as "
            '{method = "cascade:leopard", metric = "whitened"}.'
        )
    parameters = dict(value)
    name = parameters.pop("method", label)
    return _own(name, code, **parameters) if _is_code(name) else make(name, **parameters)


def _is_code(name: Any) -> bool:
    """Whether it is ``module:Class``, and not one of our own methods inside another."""
    outer, sign, _ = str(name).partition(":")
    return bool(sign) and outer.strip().lower() not in ("cascade", "transport")


def _own(name: str, folder: Path | None, **parameters: Any) -> Any:
    """Somebody's own method: an object of a class, or a function as it is."""
    if folder is None:
        raise ValueError(
            f"Got method {name!r}, which is code of its own (module:Class), but this runs only if "
            "it is allowed. Look at the code, and add --allow-code if you trust it."
        )
    module_name, _, attribute = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # it stays, for the processes of --jobs too
    try:
        code = getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"Got method {name!r}, which cannot be imported ({error}). Expected module:Class of a "
            f"file {module_name}.py in {str(folder)!r}, or of an installed package."
        ) from None
    if not isinstance(code, type):
        return partial(code, **parameters) if parameters else code
    try:
        return code(**parameters)
    except TypeError as error:
        raise ValueError(f"Got method {name!r}, which cannot be made: {error}.") from None


def _ranks(content: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The ranks of each data set: its own, or those of the file."""
    common = content.get("ranks")
    if isinstance(common, dict):
        _check_keys(common, tuple(data), "in [ranks]")
    else:
        common = dict.fromkeys(data, common)
    return {name: facts.get("ranks", common.get(name)) for name, facts in data.items()}


def _check_options(budget: Any = "quick", metrics: Any = "attack", seeds: Any = 1) -> None:
    check_choice("budget", budget, BUDGETS)
    check_seeds(seeds)
    listed = metrics if isinstance(metrics, list) else [metrics]
    if not all(isinstance(name, str) for name in listed):
        raise ValueError(
            f"Got metrics = {metrics!r}, but expected a list of names, such as "
            '["attack", "neighbours"].'
        )


class _Data(TypedDict, total=False):
    path: str
    source: str
    concept: str
    task: str
    features: str | list[str]
    max_rows: int
    random_state: int


def _check_data(facts: dict[str, Any], where: str) -> None:
    try:
        as_type(_Data, facts)
        for key, least in (("max_rows", 1), ("random_state", 0)):
            check_count(key, facts.get(key, least), least=least)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"Got {where} with a wrong value: {reason}.") from None


def _check_keys(table: Iterable[str], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise ValueError(
                f"Got the key {key!r} {where}, but expected some of {', '.join(allowed)}."
                f"{did_you_mean(key, allowed)}"
            )
