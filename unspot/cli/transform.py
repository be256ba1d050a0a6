"""``unspot transform``."""

from __future__ import annotations


def transform() -> None:
    """To come."""
    raise NotImplementedError
