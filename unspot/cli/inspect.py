"""``unspot inspect``."""

from __future__ import annotations


def inspect() -> None:
    """To come."""
    raise NotImplementedError
