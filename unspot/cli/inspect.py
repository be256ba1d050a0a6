"""``unspot inspect``: what an eraser is, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.eraser import Eraser


def inspect(
    eraser: Annotated[
        Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
    ],
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
) -> None:
    """Show what an eraser is, and check it.

    unspot inspect gender.safetensors
    """
    import json

    from unspot.cli.console import echo_json
    from unspot.eraser import load

    loaded = load(eraser)
    if as_json:
        echo_json(json.dumps(description(loaded, eraser), indent=2, ensure_ascii=False))
    else:
        _show(loaded, eraser)


def description(eraser: Eraser, path: Path) -> dict[str, Any]:
    """All facts about an eraser as plain data."""
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "method": method_name(eraser.metadata),
        "n_features": eraser.n_features,
        "rank": eraser.rank,
        "maps": [m.kind for m in eraser.maps],
        "checks": checks(eraser),
        "metadata": dict(eraser.metadata),
    }


def checks(eraser: Eraser) -> dict[str, Any]:
    """Numbers that are zero for a sound eraser, and whether they are.

    ``orthonormality`` is ‖UᵀU − I‖ and ``idempotence`` ‖P² − P‖/‖P‖, both in Frobenius norm.
    """
    import numpy as np

    found: dict[str, Any] = {
        "finite": all(
            bool(np.isfinite(array).all()) for m in eraser.maps for array in m.arrays().values()
        )
    }
    if eraser.is_projection and found["finite"]:
        U = eraser.U
        found["orthonormality"] = float(np.linalg.norm(U.T @ U - np.eye(U.shape[1])))
    if eraser.is_linear and found["finite"]:
        P = eraser.P
        size = max(float(np.linalg.norm(P)), np.finfo(float).tiny)  # a P of zeros is a projector
        found["idempotence"] = float(np.linalg.norm(P @ P - P)) / size
    limits = [found.get("orthonormality", 0.0), found.get("idempotence", 0.0)]
    found["sound"] = found["finite"] and max(limits) < 1e-6
    return found


def method_name(metadata: Mapping[str, Any]) -> str:
    """The method, with the one inside of a cascade.

    Examples
    --------
    >>> method_name({"method": "Cascade", "inner": {"method": "LEOPARD"}})
    'Cascade(LEOPARD)'
    """
    outer = str(metadata.get("method", "unknown method"))
    inner = metadata.get("inner")
    return f"{outer}({method_name(inner)})" if isinstance(inner, Mapping) else outer


def class_list(metadata: Mapping[str, Any], most: int = 8) -> str:
    """The classes and how many rows each had.

    Examples
    --------
    >>> class_list({"classes": ["f", "m"], "class_counts": [1200, 800]})
    'f (1,200), m (800)'
    """
    classes = metadata.get("classes") or []
    counts = metadata.get("class_counts") or [None] * len(classes)
    shown = [
        str(name) if count is None else f"{name} ({count:,})"
        for name, count in zip(classes, counts, strict=True)
    ]
    rest = [f"… {len(shown) - most} more"] if len(shown) > most else []
    return ", ".join(shown[:most] + rest)


def rank_choice(metadata: Mapping[str, Any]) -> str:
    """How the rank was chosen, if a rule chose it.

    Examples
    --------
    >>> tried = {"25": 0.031, "10": 0.012}
    >>> found = {"rule": "largest", "rank": 10, "criterion": "advantage", "tried": tried}
    >>> rank_choice({"selection": {**found, "error": 0.02}})
    "by the rule 'largest': advantage 0.012 ± 0.020 (2 ranks were looked at)"
    """
    inner = metadata.get("inner", {})
    found = metadata.get("selection") or inner.get("selection")
    if not found:
        return ""
    seen, bound = found["tried"][str(found["rank"])], found.get("max_advantage")
    error = f" ± {found['error']:.3f}" if "error" in found else ""
    allowed = "" if bound is None else f", {bound:g} allowed"
    return (
        f"by the rule {found['rule']!r}: {found['criterion']} {seen:.3f}{error}{allowed} "
        f"({len(found['tried'])} ranks were looked at)"
    )


def _show(eraser: Eraser, path: Path) -> None:
    from unspot.cli.console import facts, file_size, number
    from unspot.io.columns import in_short

    metadata, found = eraser.metadata, checks(eraser)
    inner = metadata.get("inner", metadata)
    sound = "sound" if found["sound"] else "NOT SOUND"
    numbers = [("‖UᵀU−I‖", "orthonormality"), ("‖P²−P‖/‖P‖", "idempotence")]
    measured = [f"{sign} = {number(found[key])}" for sign, key in numbers if key in found]
    facts(
        f"{path} ({file_size(path.stat().st_size)})",
        [
            ("method", method_name(metadata)),
            ("concept", str(metadata.get("concept_name", ""))),
            ("rank", f"{eraser.rank} of {eraser.n_features}"),
            ("chosen", rank_choice(metadata)),
            ("features", in_short(metadata.get("features", ()))),
            ("maps", " → ".join(m.kind for m in eraser.maps)),
            ("classes", class_list(metadata)),
            ("fitted on", _fitted_on(metadata)),
            ("parameters", _pairs(_that_matter(inner.get("parameters", {})))),
            ("versions", _pairs(metadata.get("versions", {}), " ")),
            ("checks", ", ".join([sound, *measured])),
        ],
    )


def _fitted_on(metadata: Mapping[str, Any]) -> str:
    rows = metadata.get("n_rows")
    parts = [
        str(metadata.get("data", "")),
        f"{rows:,} rows" if rows is not None else "",
        f"fingerprint {metadata['fingerprint']}" if "fingerprint" in metadata else "",
    ]
    return ", ".join(part for part in parts if part)


def _that_matter(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without what changes no result, and objects by their name: ``--json`` has them in full."""
    silent = ("verbose", "device")
    named = {k: _type_alone(v) for k, v in parameters.items()}
    return {k: v for k, v in named.items() if v is not None and k not in silent}


def _type_alone(value: Any) -> Any:
    is_object = isinstance(value, str) and value.endswith(")")  # "array of shape …", "Solver(…)"
    return value.partition("(")[0].split()[0] if is_object else value


def _pairs(values: Mapping[str, Any], sign: str = "=") -> str:
    return ", ".join(f"{key}{sign}{value}" for key, value in values.items())
