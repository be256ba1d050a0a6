"""Every erasure method by name: what it is, and how to make one.

Classes are imported on first use, so listing the methods does not load torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from unspot.checks import did_you_mean
from unspot.tables import plain

if TYPE_CHECKING:
    from unspot.erasers.base import BaseEraser


@dataclass(frozen=True)
class MethodInfo:
    """Facts about a method, for tables and for ``make``.

    Parameters
    ----------
    name : str
        The name that ``make`` and ``unspot fit --method`` take.
    path : str
        Where its class is, as ``module:Class``.
    summary : str
        Summary in one line.
    linear : bool
        Whether the eraser is an affine map, so that it has a matrix ``P``.
    closed_form : bool
        Whether the fit is a formula rather than an optimisation.
    streaming : bool
        Whether it can be fitted in pieces, by ``partial_fit``.
    concepts : tuple of str
        The kinds of concept it erases: "categories", "continuous", and "table" if it takes
        several concepts, and what is given or kept.
    """

    name: str
    path: str
    summary: str
    linear: bool = False
    closed_form: bool = False
    streaming: bool = False
    concepts: tuple[str, ...] = ("categories",)

    @property
    def cls(self) -> type[BaseEraser]:
        """The estimator's class, imported now."""
        module, name = self.path.split(":")
        return getattr(import_module(module), name)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters that ``make`` takes for this method."""
        parameterised = _BY_NAME["leopard"] if self.name == "cascade" else self
        return tuple(parameterised.cls._get_param_names())


#: All kinds of concept.
KINDS = ("categories", "continuous", "table")

_METHODS = (
    MethodInfo(
        "leopard",
        "unspot.erasers.leopard:LEOPARD",
        "projection that matches the classes' densities (MMD)",
        linear=True,
        concepts=KINDS,
    ),
    MethodInfo(
        "cascade",
        "unspot.erasers.cascade:Cascade",
        "LEACE, then LEOPARD; cascade:NAME for another method",
        linear=True,
        concepts=KINDS,
    ),
    MethodInfo(
        "leace",
        "unspot.erasers.leace:LEACE",
        "least change after which no linear probe finds the concept",
        linear=True,
        closed_form=True,
        streaming=True,
        concepts=KINDS,
    ),
    MethodInfo(
        "splince",
        "unspot.erasers.leace:LEACE",
        "LEACE that keeps the covariance with a task (keep=)",
        linear=True,
        closed_form=True,
        streaming=True,
        concepts=KINDS,
    ),
    MethodInfo(
        "transport",
        "unspot.erasers.transport:Transport",
        "maps classes to one covariance; transport:NAME goes on",
        closed_form=True,
        concepts=("categories", "continuous"),
    ),
    MethodInfo(
        "mean",
        "unspot.erasers.baselines:MeanProjection",
        "baseline: projects off the differences of class means",
        linear=True,
        closed_form=True,
    ),
    MethodInfo(
        "random",
        "unspot.erasers.baselines:RandomProjection",
        "baseline: a random subspace, blind to the concept",
        linear=True,
        closed_form=True,
    ),
    MethodInfo(
        "pca",
        "unspot.erasers.baselines:PCAProjection",
        "baseline: the principal subspace, blind to the concept",
        linear=True,
        closed_form=True,
    ),
)
_BY_NAME = {info.name: info for info in _METHODS}

#: Where the methods of ``unspot.lab`` are listed; imported for a name that is none of the above.
_RIVALS = "unspot.lab.registry"


class Methods(list[MethodInfo]):
    """A list of methods that prints as a table."""

    def __repr__(self) -> str:
        rows = [[info.name, ", ".join(info.concepts), info.summary] for info in self]
        return plain([["name", "concepts", "what it does"], *rows])


def methods() -> Methods:
    """List the erasure methods, without the rivals of ``unspot.lab``; prints as a table.

    Examples
    --------
    >>> import unspot
    >>> [m.name for m in unspot.methods() if "continuous" in m.concepts]
    ['leopard', 'cascade', 'leace', 'splince', 'transport']
    """
    return Methods(_METHODS)


def method(name: str) -> MethodInfo:
    """Look up a method; an unknown name is an error that shows the nearest ones."""
    key = str(name).strip().lower()
    if key in _BY_NAME:
        return _BY_NAME[key]
    rivals = {info.name: info for info in import_module(_RIVALS).METHODS}
    if key not in rivals:
        raise ValueError(
            f"Got method {name!r}, but expected one of: {', '.join(_BY_NAME)}, cascade:NAME or "
            f"transport:NAME; or one of unspot.lab: {', '.join(rivals)}."
            f"{did_you_mean(key, _BY_NAME | rivals)}"
        )
    return rivals[key]


def make(name: str, **params: Any) -> BaseEraser:
    """Make an estimator by the name of its method.

    Parameters
    ----------
    name : str
        A name of ``methods()``; "cascade:NAME" is ``Cascade(second=…)`` with any other (LEACE
        first), and "transport:NAME" puts transport and LEACE first.
    **params
        The estimator's parameters; for a cascade, those of its second stage. A field of the solver
        has its name: ``**{"solver.max_rows": 3000}``.

    Examples
    --------
    >>> from unspot.erasers.registry import make
    >>> make("pca", rank=10)
    PCAProjection(rank=10)
    """
    outer, _, inner = str(name).strip().lower().partition(":")
    if outer != "cascade" and not inner:
        return _instance(outer, params)
    if outer not in ("cascade", "transport"):
        raise ValueError(
            f"Got method {name!r}, but only cascade:NAME and transport:NAME hold another method."
        )
    if inner == "cascade":
        raise ValueError(f"Got method {name!r}, but a cascade cannot hold another cascade.")
    cascade: Any = method("cascade").cls
    first = None
    if outer == "transport":
        first = cascade(_instance("transport", {}), _instance("leace", {"method": "orthogonal"}))
    normalise = params.pop("normalise", False)  # the last step of the whole
    return cascade(first, _instance(inner or "leopard", params), normalise=normalise)


def _instance(name: str, params: dict[str, Any]) -> BaseEraser:
    info = method(name)
    _refuse_unknown([key.partition(".")[0] for key in params], info.parameters, f"method {name!r}")
    fields = {key.partition(".")[2]: params[key] for key in params if "." in key}
    if fields:
        from unspot.leopard.solvers import as_solver

        solver = as_solver(params.get("solver", "manifold"))
        _refuse_unknown(fields, list(vars(solver)), f"the solver of {name!r}")
        params = {key: value for key, value in params.items() if "." not in key}
        params["solver"] = replace(solver, **fields)
    return info.cls(**params)


def _refuse_unknown(params: Iterable[str], known: Sequence[str], what: str) -> None:
    for key in params:
        if key not in known:
            raise ValueError(
                f"Got parameter {key!r} for {what}, but expected one of: {', '.join(known)}."
                f"{did_you_mean(key, known)}"
            )
