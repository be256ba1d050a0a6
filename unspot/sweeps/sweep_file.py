"""A sweep written down: a TOML file that names methods, data, ranks, seeds and metrics."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from unspot.data.dataset import Dataset

__all__ = ["SweepFile", "read_sweep_file"]

_TOP = ("methods", "data", "ranks", "seeds", "metrics", "budget")
_DATA = ("path", "source", "concept", "task", "features", "ranks", "max_rows", "random_state")
_BUDGETS = ("quick", "standard", "thorough")


@dataclass(frozen=True)
class SweepFile:
    """Arguments of ``sweep``, the data still as they are written.

    Parameters
    ----------
    methods : dict of str to estimator or None
    data : dict of str to dict
        Of every data set: path, concept, task, features…
    options : dict
        ``seeds``, ``metrics`` and ``budget``, those that are given.
    ranks : Any
        For all data sets, or a mapping of names to them.
    folder : path
        What paths in the file are relative to.
    """

    methods: dict[str, Any]
    data: dict[str, dict[str, Any]]
    ranks: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    @property
    def files(self) -> tuple[Path, ...]:
        """The files and folders that the data are read from."""
        from unspot.bench.data import NAMES

        named = [str(facts.get("path", name)) for name, facts in self.data.items()]
        sources = [str(facts["source"]) for facts in self.data.values() if "source" in facts]
        return tuple(self.folder / path for path in [*named, *sources] if path not in NAMES)

    def datasets(self) -> dict[str, Dataset]:
        """The data sets, loaded now."""
        return {name: self._load(name, facts) for name, facts in self.data.items()}

    def _load(self, name: str, facts: Mapping[str, Any]) -> Dataset:
        from dataclasses import replace

        from unspot.bench.data import NAMES, open_data

        where = str(facts.get("path", name))
        if where not in NAMES:
            where = str(self.folder / where)
        known = {key: facts[key] for key in _DATA[2:] if key in facts and key != "ranks"}
        if "source" in facts:
            known["source"] = self.folder / str(facts["source"])
        return replace(open_data(where, **{"task": None, **known}).data, name=name)


def read_sweep_file(path: str | os.PathLike[str]) -> SweepFile:
    """Read and check a sweep.

    Parameters
    ----------
    path : path
        A TOML file. ``methods`` is a list of names, or a table of labels to names or to tables of a
        ``method`` and its parameters; ``data`` a table of names to tables of ``path``,
        ``concept``, ``task``, ``features``, and their own ``ranks``; ``ranks``, ``seeds``,
        ``metrics`` and ``budget`` are as in ``sweep``.

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
    >>> found = read_sweep_file(file)
    >>> list(found.methods), found.ranks, list(found.data)
    (['original', 'cascade'], [75, 50, 25], ['words'])
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
    options: dict[str, Any] = {
        k: content[k] for k in ("seeds", "metrics", "budget") if k in content
    }
    _check_budget(options.get("budget", "quick"))
    _check_metrics(options.get("metrics", []))
    _check_seeds(options.get("seeds", 1))
    return SweepFile(
        _methods(content["methods"]), data, _ranks(content, data), options, path.resolve().parent
    )


def _parsed(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"Got {str(path)!r}, which is not TOML: {error}.") from None


def _methods(given: Any) -> dict[str, Any]:
    """Estimators by label, from a list of names or a table."""
    from unspot.sweeps.grid import named_methods

    if isinstance(given, str):
        given = [given]
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return named_methods(given)
    if not isinstance(given, dict):
        raise ValueError(
            f"Got methods = {given!r}, but expected a list of names, or a table of labels."
        )
    return named_methods({label: _method(label, value) for label, value in given.items()})


def _method(label: str, value: Any) -> Any:
    from unspot.erasers.registry import make

    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        raise ValueError(
            f"Got {value!r} for the method {label!r}, but expected a name or a table such as "
            '{method = "cascade:leopard", metric = "whitened"}.'
        )
    parameters = dict(value)
    return make(parameters.pop("method", label), **parameters)


def _ranks(content: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """The ranks of all, or of each data set where one has its own."""
    common = content.get("ranks")
    if isinstance(common, dict):
        _check_keys(common, tuple(data), "in [ranks]")
        return {name: facts.get("ranks", common.get(name)) for name, facts in data.items()}
    if not any("ranks" in facts for facts in data.values()):
        return common
    return {name: facts.get("ranks", common) for name, facts in data.items()}


def _check_budget(budget: Any) -> None:
    if budget not in _BUDGETS:
        raise ValueError(
            f"Got budget = {budget!r}, but expected one of {', '.join(_BUDGETS)}."
            f"{_near(str(budget), _BUDGETS)}"
        )


def _check_metrics(metrics: Any) -> None:
    named = isinstance(metrics, list) and all(isinstance(name, str) for name in metrics)
    if not named and not isinstance(metrics, str):
        raise ValueError(
            f"Got metrics = {metrics!r}, but expected a list of names, such as "
            '["attack", "neighbours"].'
        )


def _check_seeds(seeds: Any) -> None:
    listed = seeds if isinstance(seeds, list) else [seeds]
    if not all(type(seed) is int for seed in listed):
        raise ValueError(
            f"Got seeds = {seeds!r}, but expected a number of seeds, or a list of whole numbers, "
            "such as [0, 1, 2]."
        )


def _check_keys(table: Iterable[str], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise ValueError(
                f"Got the key {key!r} {where}, but expected some of {', '.join(known)}."
                f"{_near(key, known)}"
            )


def _near(name: str, known: Iterable[str]) -> str:
    found = get_close_matches(name, list(known), n=1)
    return f" Did you mean {found[0]}?" if found else ""
