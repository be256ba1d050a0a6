"""Where a result comes from: which eraser, in plain words and values."""

from __future__ import annotations

import json
from typing import Any

from unspot.dataset import Dataset
from unspot.eraser import Eraser

__all__ = ["eraser_facts", "eraser_name"]


def eraser_facts(eraser: Any) -> dict[str, Any]:
    """What an eraser says about itself, as JSON has it; of a function its name."""
    frozen = getattr(eraser, "eraser_", eraser)
    if not isinstance(frozen, Eraser):
        return {"method": eraser_name(eraser)}
    # Through JSON, so that what is kept is plain: tuples, arrays and numbers of numpy are not.
    plain: dict[str, Any] = json.loads(json.dumps(dict(frozen.metadata), default=str))
    plain.pop("known_rows", None)  # for recognising them, and nothing to read
    return {**plain, "rank": frozen.rank}


def eraser_name(eraser: Any) -> str:
    """What people call it."""
    if isinstance(eraser, Dataset):
        return eraser.name if eraser.name != "data" else "erased rows"
    frozen = getattr(eraser, "eraser_", eraser)
    if isinstance(frozen, Eraser) and "method" in frozen.metadata:
        return str(frozen.metadata["method"])
    return getattr(eraser, "__name__", type(eraser).__name__)
