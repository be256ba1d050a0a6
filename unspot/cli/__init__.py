"""The command line: one module per command, and one place where errors become sentences.

A command is a function in the module of the same name, and is registered by its name in
``COMMANDS``. Command modules import what they need inside the function, so that ``unspot --help``
loads neither numpy nor torch.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from unspot._version import __version__
from unspot.cli.options import Threads, at_work, safe_terminal, without_controls

__all__ = ["COMMANDS", "app", "main"]

#: The commands, in the order of ``unspot --help``: each is ``unspot.cli.<name>.<name>``.
COMMANDS: tuple[str, ...] = (
    "demo",
    "plan",
    "fit",
    "transform",
    "evaluate",
    "certify",
    "path",
    "inspect",
    "export",
)

#: Those that compute, and have an option for the number of threads.
COMPUTING = (
    "demo", "plan", "fit", "transform", "evaluate", "certify", "path",
)  # fmt: skip

#: The commands of ``unspot lab``, in ``unspot.lab.cli``.
LAB_COMMANDS = ("bench", "sweep")

#: Options that people repeat because they want both values. For others, such as --seed, a script
#: may add a value behind its own: there the last one counts.
_ONCE = ("concept", "features", "task")

#: Errors that a user can put right: shown as one sentence. Others are bugs, with their traceback.
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


class OnceCommand(TyperCommand):
    """A command that refuses a second value of an option that takes one and looks like a list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            if param.name in _ONCE and order.count(param) > 1:
                raise ValueError(_given_twice(param))
        return super().parse_args(ctx, args)


def _given_twice(param: Any) -> str:
    ways_out = {
        "concept": " Several concepts are a comma list, such as gender,age.",
        "features": " Give a comma list, such as e_0,e_1.",
    }
    message = f"Got {param.opts[0]} more than once, but expected one value."
    return message + ways_out.get(param.name, "")


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
            help="Show the version and exit.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", metavar="", help="Show the traceback of an error (or set UNSPOT_DEBUG=1)."
        ),
    ] = False,
) -> None:
    if debug:
        os.environ["UNSPOT_DEBUG"] = "1"


def _working(command: Callable[..., None], *, computes: bool) -> Callable[..., None]:
    """The command at work: it shows what it does, and has ``--threads`` if it computes."""

    @wraps(command)
    def working(threads: int | None = None, **arguments: Any) -> None:
        with at_work(quiet=arguments.get("quiet", False), threads=threads):
            command(**arguments)

    if computes:
        own = signature(command, eval_str=True)
        more = Parameter("threads", Parameter.KEYWORD_ONLY, default=None, annotation=Threads)
        working.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*own.parameters.values(), more]
        )
    return working


def _register(to: typer.Typer, module: str, name: str, *, computes: bool) -> None:
    command = getattr(import_module(module), name)
    to.command(name, cls=OnceCommand)(_working(command, computes=computes))


for _name in COMMANDS:
    _register(app, f"unspot.cli.{_name}", _name, computes=_name in COMPUTING)

lab = typer.Typer(no_args_is_help=True, help="Research: the paper's benchmark, and sweeps.")
for _name in LAB_COMMANDS:
    _register(lab, "unspot.lab.cli", _name, computes=True)
app.add_typer(lab, name="lab")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program; it always ends in ``SystemExit``.

    The exit code is 0; 1 for a bug, or if every cell of a sweep failed; 2 for a user's error; 3
    for a leak that ``unspot certify`` finds, 5 if ``unspot certify --check`` finds another
    result than before; 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A "±" that the terminal's encoding lacks becomes "?" and does not end an hour of work.
            stream.reconfigure(errors="replace")
    with safe_terminal():
        _run(_debug_first(sys.argv[1:] if argv is None else argv))


def _run(arguments: Sequence[str]) -> None:
    try:
        app(args=arguments, prog_name="unspot")
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, KeyboardInterrupt):  # before a command began
            typer.echo("Stopped. Nothing was written.", err=True)
            raise SystemExit(130) from None
        raise
    except _EXPECTED as error:
        if os.environ.get("UNSPOT_DEBUG", "0") not in ("", "0"):
            raise
        typer.secho(f"Error: {sentence(error)}", fg=typer.colors.RED, err=True)
        raise SystemExit(2) from None


def sentence(error: BaseException) -> str:
    """An error as one line, without its type."""
    if isinstance(error, MemoryError):
        return "The memory of this machine is not enough. " + str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!s}: " if error.filename else ""
        return f"{where}{error.strerror}."
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return without_controls(" ".join(text.split())) or type(error).__name__


def _debug_first(argv: Sequence[str]) -> list[str]:
    # People add --debug to the end of the line that failed, where a command would refuse it.
    rest = [argument for argument in argv if argument != "--debug"]
    return ["--debug", *rest] if len(rest) < len(argv) else rest
