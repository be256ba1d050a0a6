"""A sweep as a TOML file of methods, data, ranks, seeds and metrics."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from unspot.checks import did_you_mean
from unspot.data.dataset import Dataset
from unspot.erasers.registry import make
from unspot.lab.data import DATA_NAMES, open_data
from unspot.lab.sweep import named_methods

_DATA = ("path", "source", "concept", "task", "features", "max_rows", "random_state")


def read_sweep_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the arguments of ``sweep`` from a TOML file, and load its data sets.

    Parameters
    ----------
    path : path
        A TOML file. ``methods`` is a list of names, or a table: for each label a name, or a table
        of a ``method`` and its parameters. ``data`` has a table for each data set: the arguments of
        ``open_data``, with ``path`` for its name. ``ranks``, ``seeds``, ``metrics`` and ``budget``
        are as in ``sweep``.

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
    >>> list(plan["methods"]), plan["ranks"], list(plan["datasets"])
    (['original', 'cascade'], [75, 50, 25], ['words'])
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of TOML, or of UTF-8
        raise ValueError(f"Got {str(path)!r}, which is not TOML: {error}.") from None
    _check_keys(content, ("methods", "data", "ranks", "seeds", "metrics", "budget"), f"in {path}")
    data = content.pop("data", None)
    tables = data.values() if isinstance(data, dict) else ()
    if not content.get("methods") or not tables or not all(isinstance(t, dict) for t in tables):
        raise ValueError(
            f"Got {str(path)!r} without methods or tables of data, but expected both, such as "
            'methods = ["original", "cascade"] and [data.name] with a path and a concept.'
        )
    methods = content.pop("methods")
    if isinstance(methods, dict):
        methods = {label: _method(label, value) for label, value in methods.items()}
    return {
        **{"methods": named_methods(methods), **content},
        "datasets": {name: _dataset(name, dict(data[name]), path.parent) for name in data},
    }


def _method(label: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    parameters = dict(value)
    return make(parameters.pop("method", label), **parameters)


def _dataset(name: str, settings: dict[str, Any], folder: Path) -> Dataset:
    _check_keys(settings, _DATA, f"in [data.{name}]")
    where = settings.pop("path", name)
    if where not in DATA_NAMES:
        where = str(folder / where)
    if "source" in settings:
        settings["source"] = folder / settings["source"]
    return replace(open_data(where, **{"task": None, **settings}), name=name)


def _check_keys(table: Iterable[str], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise ValueError(
                f"Got the key {key!r} {where}, but expected some of {', '.join(allowed)}."
                f"{did_you_mean(key, allowed)}"
            )
