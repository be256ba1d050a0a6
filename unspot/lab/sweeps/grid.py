"""The cells of a sweep: each method at each rank and seed on each data set, with its key."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from unspot.checks import check_rank, default_ranks
from unspot.data.concepts import Concepts
from unspot.data.dataset import Dataset, is_number
from unspot.data.labels import encode
from unspot.eraser import Eraser
from unspot.erasers.registry import make

__all__ = ["Cell", "attack_chance", "cells", "data_facts", "data_fingerprint", "named_methods"]

#: The name of the embeddings without erasure.
ORIGINAL = "original"


@dataclass(frozen=True)
class Cell:
    """One fit and its metrics.

    Parameters
    ----------
    method : str
        The label of the method.
    estimator : estimator, Eraser, function of rows or None
        An unfitted estimator with rank and seed; None for no erasure.
    dataset : str
    facts : mapping
        Facts about the data set for tables: see ``data_facts``.
    rank : int or None
        None for methods without a rank.
    seed : int
    key : str
        A hash of everything that decides the cell's numbers.
    label : str
        The name in tables, where somebody gave one.
    """

    method: str
    estimator: Any
    dataset: str
    facts: Mapping[str, Any]
    rank: int | None
    seed: int
    key: str
    label: str = ""


def cells(
    methods: Mapping[str, Any],
    datasets: Mapping[str, Dataset],
    ranks: Any,
    seeds: Sequence[int],
    settings: Mapping[str, Any],
    labelled: bool = False,
) -> list[Cell]:
    """All cells, data set by data set. Methods without a rank have one cell per seed."""
    grid = []
    for name, data in datasets.items():
        facts = data_facts(data)  # once: it reads every row
        ranks_of_data = _ranks_of(ranks, name, data.n_features)
        for label, estimator in methods.items():
            for rank in ranks_of_data if rank_parameter(estimator) else [None]:
                for seed in seeds:
                    ready = prepared(estimator, rank, seed)
                    key = _key(label, ready, name, facts["fingerprint"], rank, seed, settings)
                    given = label if labelled else ""
                    grid.append(Cell(label, ready, name, facts, rank, seed, key, given))
    return grid


def named_methods(methods: Any) -> dict[str, Any]:
    """Estimators by label.

    Parameters
    ----------
    methods : str, estimator, sequence of them, or mapping of labels to them
        A name is one of ``unspot.methods()``, "cascade:NAME", or "original" for no erasure. Your
        own method is anything with ``fit`` and ``transform``, such as a transformer of
        scikit-learn; a frozen ``Eraser``; or a function of rows. Without a label it is called by
        the name of its class or function.

    Examples
    --------
    >>> list(named_methods(["original", "leace", "cascade:pca"]))
    ['original', 'leace', 'cascade:pca']
    """
    if isinstance(methods, Mapping):
        listed = [(str(label), _estimator(method)) for label, method in methods.items()]
    else:
        several = [methods] if isinstance(methods, str) or _erases(methods) else list(methods)
        listed = [(_label(method), _estimator(method)) for method in several]
    if not listed:
        raise ValueError("Got no methods, but expected at least one, such as 'leopard'.")
    labels = [label for label, _ in listed]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise ValueError(
            f"Got two methods called {twice!r}, but expected different names. Pass a mapping of "
            "names to methods."
        )
    return dict(listed)


def rank_parameter(estimator: Any) -> str | None:
    """The name of an estimator's parameter that is its rank, if it has one."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return next((name for name in ("rank", "eraser__rank") if name in parameters), None)


def prepared(estimator: Any, rank: int | None, seed: int) -> Any:
    """A clone with rank and seed; what has no parameters as it is."""
    if not hasattr(estimator, "get_params"):
        return deepcopy(estimator)
    ready = clone(estimator)
    changed = {name: seed for name in ready.get_params() if name.endswith("random_state")}
    if rank is not None:
        changed[str(rank_parameter(ready))] = rank
    return ready.set_params(**changed)


def data_fingerprint(data: Dataset) -> str:
    """A short hash of all rows of the three splits. Another row makes another data set."""
    digest = hashlib.sha256()
    for split in data:
        X = np.ascontiguousarray(split.X)
        digest.update(repr((X.shape, X.dtype.str)).encode())
        digest.update(X.data)
        if isinstance(split.z, Concepts):
            digest.update(split.z.numbers.tobytes())
        elif is_number(split.z, split.kind):
            digest.update(split.target.values.tobytes())
        else:
            digest.update(np.unique(split.z, return_inverse=True)[1].tobytes())
        if split.y is not None and len(split):
            digest.update(encode(split.y, name="y", min_classes=1).codes.tobytes())
    return digest.hexdigest()[:16]


def data_facts(data: Dataset) -> dict[str, Any]:
    """Facts about a data set for tables, and its fingerprint."""
    facts = {
        "fingerprint": data_fingerprint(data),
        "features": data.n_features,
        "rows": [len(split) for split in data],
    }
    if data.concepts or is_number(data.train.z, data.train.kind):
        return {**facts, "chance": 0.0, "classes": 0}
    counts = encode(data.test.z, min_classes=1).counts if len(data.test) else np.ones(1)
    return {**facts, "chance": float(counts.max() / counts.sum()), "classes": len(counts)}


def attack_chance(facts: Mapping[str, Any]) -> float:
    """The accuracy of an attacker who guesses.

    Attackers are judged by balanced accuracy. In files without the number of classes, from an older
    version, they were judged by accuracy. A number has no classes, and a guess explains nothing.
    """
    return 1 / facts["classes"] if facts.get("classes") else float(facts["chance"])


def _ranks_of(ranks: Any, dataset: str, n_features: int) -> Sequence[int | None]:
    """The ranks for one data set, from the highest, each once."""
    given = ranks.get(dataset) if isinstance(ranks, Mapping) else ranks
    if given is None:
        return default_ranks(n_features)
    listed = [given] if isinstance(given, (int, float)) else given
    what = f"the number of features of {dataset!r}"
    checked = {check_rank(rank, n_features, what) for rank in listed}
    if not checked:
        raise ValueError(f"Got no ranks for {dataset!r}, but expected at least one.")
    return sorted(checked, reverse=True)


def _estimator(method: Any) -> Any:
    if isinstance(method, str):
        return None if method == ORIGINAL else make(method)
    if isinstance(method, type):
        raise ValueError(
            f"Got the class {method.__name__}, but expected an object of it: {method.__name__}()."
        )
    if method is None or _erases(method):
        return method
    raise ValueError(
        f"Got a method of type {type(method).__name__}, but expected a name such as 'leopard', an "
        "object with fit and transform such as LEOPARD(), an Eraser, or a function of rows."
    )


def _erases(method: Any) -> bool:
    has_transform = hasattr(method, "fit") and hasattr(method, "transform")
    return has_transform or (callable(method) and not isinstance(method, type))


def _label(method: Any) -> str:
    if isinstance(method, str):
        return method
    if method is None:
        return ORIGINAL
    inner = getattr(method, "eraser", None)
    if inner is not None:
        return f"cascade:{type(inner).__name__}"
    return str(getattr(method, "__name__", type(method).__name__))


def _key(*content: Any) -> str:
    text = json.dumps(_canonical(content), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _canonical(value: Any) -> Any:
    """Parameters as JSON: equal JSON for equal parameters only."""
    if isinstance(value, Eraser):
        rows = np.eye(value.n_features + 1, value.n_features)  # the last one is zero
        return ["eraser", _canonical(np.asarray(value(rows)))]
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        named = [type(value).__name__, {k: _canonical(v) for k, v in sorted(parameters.items())}]
        return [*named, *_source(type(value))]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, _canonical(asdict(value))]
    if isinstance(value, Mapping):
        return {str(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    if isinstance(value, np.ndarray):
        return ["array", value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if callable(value):  # its repr has an address, which is another one in every run
        function = value if hasattr(value, "__qualname__") else type(value)
        return [function.__qualname__, *_source(function)]
    return repr(value)


def _source(code: Any) -> list[str]:
    """A hash of the source of somebody's own code: a method that was changed is another method."""
    if str(code.__module__).partition(".")[0] in ("unspot", "sklearn"):
        return []
    try:
        text = inspect.getsource(code)
    except (OSError, TypeError):  # typed at a prompt
        text = repr(getattr(getattr(code, "__code__", None), "co_code", None))
    return [hashlib.sha256(text.encode()).hexdigest()]
