"""``unspot methods``: every erasure method, and what it can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.erasers.registry import MethodInfo, Methods


def methods(as_json: options.AsJson = False) -> None:
    """List the erasure methods, and what each can do.

    unspot methods

    A name goes to unspot fit --method NAME, and cascade:NAME puts linear erasure before it.
    """
    import json

    from unspot.erasers.registry import methods as registered

    if as_json:
        described = [description(info) for info in registered()]
        options.echo_json(json.dumps(described, indent=2, ensure_ascii=False))
    else:
        _show(registered())


def description(info: MethodInfo) -> dict[str, Any]:
    """All facts about a method as plain data.

    Examples
    --------
    >>> from unspot.erasers.registry import method
    >>> description(method("leace"))["concepts"]
    ['categories', 'continuous', 'table']
    """
    return {
        "name": info.name,
        "class": info.path.replace(":", "."),
        "summary": info.summary,
        "linear": info.linear,
        "closed_form": info.closed_form,
        "streaming": info.streaming,
        "needs_labels_at_transform": info.needs_labels_at_transform,
        "concepts": list(info.concepts),
    }


def _show(infos: Methods) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column("name", no_wrap=True)
    grid.add_column("what it does", ratio=1)
    for name in ("linear", "closed form", "streaming", "numbers"):
        grid.add_column(name, justify="center", vertical="top")
    for info in infos:
        facts = (info.linear, info.closed_form, info.streaming, "continuous" in info.concepts)
        cells = ["✓" if fact else "" for fact in facts]
        grid.add_row(f"[bold]{info.name}[/bold]", escape(info.summary), *cells)
    console = Console(highlight=False)
    console.print(grid)
    console.print(
        "\n[dim]linear: an affine map. closed form: fitted by a formula. streaming: fitted in "
        "pieces. numbers: erases ages and prices as well as categories (--set concept=continuous). "
        "All of them erase new rows without labels.[/dim]"
    )
