"""What has to be installed: asked before hours of work, not after."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["require"]


def require(who: str, *modules: str) -> None:
    """Refuse if one of the modules is not there, with the command that installs it.

    Examples
    --------
    >>> require("unspot bench", "json")
    """
    lacking = [module for module in modules if find_spec(module) is None]
    if lacking:
        raise ImportError(
            f"{who} needs {' and '.join(lacking)}, which is not installed: "
            'pip install "unspot[report]".'
        )
