"""Help of the commands for the page of the command line, made from their options."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

from typer.main import get_command

from unspot.cli import app


def commands() -> str:
    """Write the help of the program and of every command: what it does, examples, options."""
    program = get_command(app)
    listed: dict[str, Any] = {}
    for name, command in program.commands.items():  # type: ignore[attr-defined]
        more = getattr(command, "commands", None)
        listed |= {f"{name} {sub}": c for sub, c in more.items()} if more else {name: command}
    parts = ["## Options of every command", "They may stand before or after the command's name."]
    parts.append(_options(program))
    for name, command in listed.items():
        parts += [f"## {name}", _described(command.help or ""), _options(command)]
    return "\n\n".join(parts)


def _described(text: str) -> str:
    """Set paragraphs that begin with a backspace, which click does not wrap, as examples."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(
        f"```sh\n{part.partition(chr(10))[2]}\n```" if part.startswith("\b") else part
        for part in paragraphs
    )


def _options(command: Any) -> str:
    rows = ["| option | what it does |", "|---|---|"]
    for param in command.params:
        if param.name in ("help", "ctx"):
            continue
        is_option = param.param_type_name == "option"
        metavar = "" if getattr(param, "is_flag", False) else f" {param.metavar or ''}".rstrip()
        names = ", ".join((*param.opts, *param.secondary_opts)) if is_option else ""
        default = param.default if param.default not in (None, False, ()) else None
        shown = f" By default {default}." if default is not None and is_option else ""
        rows.append(f"| `{(names + metavar).strip()}` | {param.help}{shown} |".replace("||", "|"))
    return "\n".join(rows)
