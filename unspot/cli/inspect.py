"""``unspot inspect``: what an eraser is, and whether it is sound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.eraser import Eraser

_UNKNOWN = "unknown method"


def inspect(eraser: Path | None = None, as_json: bool = False, methods: bool = False) -> None:
    """Show what an eraser is, and check it.

    \b
    unspot inspect gender.safetensors
    unspot inspect --methods
    """
    if methods == (eraser is not None):
        raise ValueError(
            "Got both or neither of ERASER and --methods, but expected one of them: the file of "
            "an eraser, or --methods for the list of methods."
        )
    if eraser is None:
        from unspot.erasers.registry import methods as listed

        options.say(repr(listed()))
        return
    options.check_files({}, [eraser])
    from unspot.eraser import load

    loaded = load(eraser)
    if as_json:
        options.echo_json(json.dumps(description(loaded, eraser), indent=2, ensure_ascii=False))
    else:
        _show(loaded, eraser)


def description(eraser: Eraser, path: Path) -> dict[str, Any]:
    """Collect all facts about an eraser as plain data, but for the hashes of its rows."""
    from unspot.data.rows import KNOWN
    from unspot.eraser import method_name

    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "method": method_name(eraser.metadata) or _UNKNOWN,
        "n_features": eraser.n_features,
        "rank": eraser.rank,
        "maps": [m.kind for m in eraser.maps],
        "checks": checks(eraser),
        "metadata": {k: v for k, v in eraser.metadata.items() if k not in KNOWN},
    }


def checks(eraser: Eraser) -> dict[str, Any]:
    """Compute numbers that are zero for a sound eraser, and check them.

    ``orthonormality`` is ‖UᵀU − I‖ and ``idempotence`` ‖P² − P‖/‖P‖, both in Frobenius norm.
    """
    import numpy as np

    arrays = [array for m in eraser.maps for array in m.arrays().values()]
    finite = all(bool(np.isfinite(array).all()) for array in arrays)
    errors: dict[str, float] = {}
    before = eraser.before_norm
    if before.is_projection and finite:
        U = before.U
        errors["orthonormality"] = float(np.linalg.norm(U.T @ U - np.eye(U.shape[1])))
    if before.is_linear and finite:
        P = before.P
        size = max(float(np.linalg.norm(P)), np.finfo(float).tiny)  # a P of zeros is a projector
        errors["idempotence"] = float(np.linalg.norm(P @ P - P)) / size
    return {"finite": finite, **errors, "sound": finite and max(errors.values(), default=0) < 1e-6}


def rank_choice(metadata: Mapping[str, Any]) -> str:
    """Say how the rank was chosen, if it was.

    Examples
    --------
    >>> tried = {"25": 0.031, "10": 0.012}
    >>> selection = {"rank": 10, "criterion": "advantage", "tried": tried}
    >>> rank_choice({"selection": selection})
    'by advantage 0.012 (2 ranks were looked at)'
    """
    selection = metadata.get("selection") or metadata.get("inner", {}).get("selection")
    if not selection:
        return ""
    value, bound = selection["tried"][str(selection["rank"])], selection.get("max_advantage")
    allowed = "" if bound is None else f", {bound:.3g} allowed"
    allowed += "" if selection.get("met", True) else ", which its rows do not confirm"
    return (
        f"by {selection['criterion']} {value:.3f}{allowed} "
        f"({len(selection['tried'])} ranks were looked at)"
    )


def eraser_facts(eraser: Eraser) -> list[tuple[str, str]]:
    """Describe an eraser and its fit, as names and values."""
    from unspot.eraser import method_name
    from unspot.io.columns import in_short

    metadata = eraser.metadata
    return [
        ("method", method_name(metadata) or _UNKNOWN),
        ("concept", str(metadata.get("concept_name", ""))),
        ("rank", f"{eraser.rank} of {eraser.n_features}"),
        ("chosen", rank_choice(metadata)),
        ("features", in_short(metadata.get("features", ()))),
        *concept_facts(metadata),
        ("fitted on", _fitted_on(metadata)),
    ]


def _show(eraser: Eraser, path: Path) -> None:
    metadata, checked = eraser.metadata, checks(eraser)
    signs = {"orthonormality": "‖UᵀU−I‖", "idempotence": "‖P²−P‖/‖P‖"}
    errors = [f"{sign} = {checked[key]:.3g}" for key, sign in signs.items() if key in checked]
    parameters = metadata.get("inner", metadata).get("parameters", {})
    more = [
        ("maps", " → ".join(m.kind for m in eraser.maps)),
        ("parameters", ", ".join(f"{k}={v}" for k, v in parameters.items() if v is not None)),
        ("versions", ", ".join(f"{k} {v}" for k, v in metadata.get("versions", {}).items())),
        ("checks", ", ".join(["sound" if checked["sound"] else "NOT SOUND", *errors])),
    ]
    title = f"{path} ({options.file_size(path)})"
    options.facts(title, [*eraser_facts(eraser), *more])


def _fitted_on(metadata: Mapping[str, Any]) -> str:
    parts = [
        str(metadata.get("data", "")),
        f"{metadata['n_rows']:,} rows" if metadata.get("n_rows") is not None else "",
        f"fingerprint {metadata['fingerprint']}" if "fingerprint" in metadata else "",
    ]
    return ", ".join(part for part in parts if part)


def class_list(metadata: Mapping[str, Any], most: int = 8) -> str:
    """List the classes, each with its number of rows.

    Examples
    --------
    >>> class_list({"classes": ["f", "m"], "class_counts": [1200, 800]})
    'f (1,200), m (800)'
    """
    from unspot.data.columns import shown

    classes = metadata.get("classes") or []
    counts = metadata.get("class_counts") or [None] * len(classes)
    listed = [
        shown(name) if count is None else f"{shown(name)} ({count:,})"
        for name, count in zip(classes, counts, strict=True)
    ]
    rest = [f"… {len(listed) - most} more"] if len(listed) > most else []
    return ", ".join(listed[:most] + rest)


def concept_facts(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe what was erased, given and kept, as names and values.

    Examples
    --------
    >>> age = {"name": "age", "kind": "continuous", "missing": 3}
    >>> concept_facts({"concepts": [age], "given": {"kind": "categories"}, "given_name": "job"})
    [('age', 'continuous, 3 rows without a value'), ('given', 'job (categories)')]
    """
    rows = [("classes", class_list(metadata))]
    if metadata.get("concept") == "continuous":
        rows = [("kind", metadata["concept"])]
    elif "concepts" in metadata:
        rows = [(str(concept["name"]), _concept(concept)) for concept in metadata["concepts"]]
    for name in ("given", "keep"):
        if name in metadata:
            column = f"{metadata.get(f'{name}_name', '')} ({metadata[name]['kind']})"
            rows.append(("kept" if name == "keep" else name, column.strip()))
    return rows


def _concept(concept: Mapping[str, Any]) -> str:
    """Describe one of several concepts in a line."""
    classes = class_list(concept, most=4)
    lacking = f"{concept['missing']:,} rows without a value" if concept.get("missing") else ""
    kind = f"{concept['kind']}: {classes}" if classes else str(concept["kind"])
    return ", ".join(filter(None, (kind, lacking)))
