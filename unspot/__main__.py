"""The program ``unspot``, which says what to install where only numpy is."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say that its package is missing."""
    try:
        from unspot.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.stderr.write(
            "Error: The command line needs typer, which is not installed: pip install typer. In "
            "Python, unspot.load works without it.\n"
        )
        raise SystemExit(2) from None
    run()


if __name__ == "__main__":
    main()
