"""One writer at a time: locks that end with the process, so that none is ever left behind."""

from __future__ import annotations

from typing import Any

__all__ = ["try_lock"]


def try_lock(handle: Any) -> bool:
    """Lock an open file or folder for this process until it is closed; False if another has it.

    Where the system has no such locks, nothing is locked, and the answer is True.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
