"""The command line: commands by name, and one place where errors become sentences.

A command is a function of a module of this package, registered in ``COMMANDS``. It reads files,
calls the library and writes results. Commands import the library inside their function, so that
``unspot --help`` loads neither numpy nor torch.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from unspot._version import __version__
from unspot.cli.options import STDOUT, at_work, complain, described

__all__ = ["COMMANDS", "app", "main"]

#: Modules of the commands, in the order of ``unspot --help``.
COMMANDS = {
    "demo": "unspot.cli.demo",
    "erase": "unspot.cli.erase",
    "plan": "unspot.cli.choice",
    "split": "unspot.cli.rows",
    "fit": "unspot.cli.fit",
    "path": "unspot.cli.choice",
    "evaluate": "unspot.cli.evaluate",
    "certify": "unspot.cli.certify",
    "transform": "unspot.cli.transform",
    "export": "unspot.cli.export",
    "inspect": "unspot.cli.inspect",
}
LAB_COMMANDS = {"bench": "unspot.lab.cli", "sweep": "unspot.lab.cli"}

#: Options of the program that may stand behind the command too, with their number of values.
PROGRAM_OPTIONS = {"--quiet": 0, "-q": 0, "--debug": 0, "--seed": 1, "--threads": 1}

#: Options that people repeat because they want both values. Of others the last value counts.
_ONCE = ("concept", "features", "task")

#: Errors that a user can correct: shown as one sentence. Others are bugs, with their traceback.
_EXPECTED = (ValueError, LookupError, OSError, ImportError, MemoryError)


class Program(TyperGroup):
    """The program, whose options may stand anywhere on the line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, program_options_first(args))


class Command(TyperCommand):
    """A command that refuses a second value of an option that takes one and looks like a list."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            if param.name in _ONCE and order.count(param) > 1:
                raise ValueError(
                    f"Got {param.opts[0]} more than once, but expected one value. Several names "
                    "are a comma list, such as gender,age."
                )
        return super().parse_args(ctx, args)


def program_options_first(arguments: Sequence[str]) -> list[str]:
    """Move the program's options to the front, where its parser expects them.

    Examples
    --------
    >>> program_options_first(["fit", "a.npz", "--seed", "3", "-q"])
    ['--seed', '3', '-q', 'fit', 'a.npz']
    """
    first: list[str] = []
    rest: list[str] = []
    values = 0
    for i, argument in enumerate(arguments):
        if argument == "--":
            return [*first, *rest, *arguments[i:]]
        name, equals, _ = argument.partition("=")
        if values:
            values -= 1
            first.append(argument)
        elif name in PROGRAM_OPTIONS:
            values = 0 if equals else PROGRAM_OPTIONS[name]
            first.append(argument)
        else:
            rest.append(argument)
    return [*first, *rest]


app = typer.Typer(
    name="unspot",
    cls=Program,
    help="Take a concept out of embeddings, and measure what is left of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes squeeze the texts, and rich takes longer to load than to help
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"unspot {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    ctx: typer.Context,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of everything random: same seed, same result.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads to use; by default one per core.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors only (and JSON, if asked for).")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (or UNSPOT_DEBUG=1).")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take a concept out of embeddings, and measure what is left of it.

    The options below may stand before or after the name of a command.
    """
    if debug:
        os.environ["UNSPOT_DEBUG"] = "1"
    ctx.obj = {"seed": seed, "quiet": quiet, "threads": threads}


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Describe the parameters of a command, and pass it the ``seed`` of the program."""
    wanted = signature(command, eval_str=True).parameters

    @wraps(command)
    def run(ctx: typer.Context, **arguments: Any) -> None:
        settings = dict(ctx.obj)
        seed = settings.pop("seed")
        with at_work(json_only=arguments.get("json") == STDOUT, **settings):
            command(**arguments, **({"seed": seed} if "seed" in wanted else {}))

    shown = [Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for name, param in wanted.items():
        if name != "seed":
            kind = param.annotation
            plain = get_origin(kind) is not Annotated  # commands of the lab say all of it
            annotation = described(command.__name__, name, kind) if plain else kind
            shown.append(param.replace(annotation=annotation, kind=Parameter.KEYWORD_ONLY))
    run.__signature__ = Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {param.name: param.annotation for param in shown}
    return run


lab = typer.Typer(no_args_is_help=True, help="Research: the paper's benchmark, and sweeps.")
for _group, _commands in ((app, COMMANDS), (lab, LAB_COMMANDS)):
    for _name, _module in _commands.items():
        _command = getattr(import_module(_module), _name)
        _group.command(_name, cls=Command)(_with_settings(_command))
app.add_typer(lab, name="lab")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program; it always ends in ``SystemExit``.

    Exit codes: 0; 1 for a bug, or if every cell of a sweep failed; 2 for a user's error; 3 and 4
    for the verdicts LEAKS and INCONCLUSIVE; 5 if ``certify --check`` finds another result; 130
    after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A "±" that the terminal's encoding lacks becomes "?" and does not end an hour of work.
            stream.reconfigure(errors="replace")
    try:
        app(args=list(sys.argv[1:] if argv is None else argv), prog_name="unspot")
    except _EXPECTED as error:
        if os.environ.get("UNSPOT_DEBUG", "0") not in ("", "0"):
            raise
        complain(f"Error: {sentence(error)}")
        raise SystemExit(2) from None


def sentence(error: BaseException) -> str:
    """Format an error as one line, without its type."""
    if isinstance(error, MemoryError):
        return "The memory of this machine is not enough. " + str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename!s}: " if error.filename else ""
        return f"{where}{error.strerror}."
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__
