"""The command line: one typer command a module, and one place where errors become sentences.

A command is a function in the module of the same name, and is registered by its name in
``COMMANDS``. Command modules import what they need inside the function, so that ``unspot --help``
loads neither numpy nor torch.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from unspot._version import __version__
from unspot.cli.options import OnceCommand

__all__ = ["COMMANDS", "app", "main"]

#: The commands, in the order of ``unspot --help``: each is ``unspot.cli.<name>.<name>``.
COMMANDS: tuple[str, ...] = (
    "demo",
    "fit",
    "transform",
    "evaluate",
    "certify",
    "path",
    "sweep",
    "bench",
    "report",
    "inspect",
    "methods",
    "embed",
)

#: What a user can put right: shown as one sentence. Anything else is a bug, with its traceback.
_EXPECTED = (ValueError, LookupError, OSError, ImportError, MemoryError)

app = typer.Typer(
    name="unspot",
    help="Take a concept out of embeddings, and prove that it is gone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"unspot {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_show_version,
            is_eager=True,
            help="Show the version and stop.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", metavar="", help="Show the traceback of an error (or UNSPOT_DEBUG=1)."
        ),
    ] = False,
) -> None:
    if debug:
        os.environ["UNSPOT_DEBUG"] = "1"


for _name in COMMANDS:
    app.command(_name, cls=OnceCommand)(getattr(import_module(f"unspot.cli.{_name}"), _name))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program; always ends in ``SystemExit``.

    0; 1 for a bug, and where every cell of a sweep failed; 2 for a user's error; 3 for a leak, to
    those who asked.
    """
    _replace_unknown_letters()
    arguments = _debug_first(sys.argv[1:] if argv is None else argv)
    try:
        app(args=arguments, prog_name="unspot")
    except KeyboardInterrupt:
        typer.secho("Stopped.", err=True)
        raise SystemExit(130) from None
    except _EXPECTED as error:
        if os.environ.get("UNSPOT_DEBUG", "0") not in ("", "0"):
            raise
        typer.secho(f"{_who()}Error: {sentence(error)}", fg=typer.colors.RED, err=True)
        raise SystemExit(2) from None


def sentence(error: BaseException) -> str:
    """An error as one line without its type, which a user need not know."""
    if isinstance(error, MemoryError):
        return "The memory of this machine is not enough. " + str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!s}: " if error.filename else ""
        return f"{where}{error.strerror}."
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


def _who() -> str:
    """Which of the processes of torchrun speaks."""
    rank = os.environ.get("RANK", "0")
    return "" if rank == "0" else f"Process {rank}: "


def _replace_unknown_letters() -> None:
    """A "±" that a terminal's encoding lacks becomes "?": it must not end the work of an hour."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _debug_first(argv: Sequence[str]) -> list[str]:
    # People add --debug to the end of the line that failed, where a command would refuse it.
    rest = [a for a in argv if a != "--debug"]
    return ["--debug", *rest] if len(rest) < len(argv) else rest
