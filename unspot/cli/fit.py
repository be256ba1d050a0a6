"""``unspot fit``."""

from __future__ import annotations


def fit() -> None:
    """To come."""
    raise NotImplementedError
