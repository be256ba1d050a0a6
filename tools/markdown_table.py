"""A Markdown table, for the tools that write pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["markdown"]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is aligned to the left, the others to the right."""
    listed = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in listed)
