"""Options that several commands share, how their text is read, and how commands print.

Only typer is imported here, so that ``unspot --help`` is quick.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

#: Keys of ``--set`` that say how a file is read.
READING_KEYS: dict[str, type] = {"key": str, "drop_missing": bool}

#: How a file is read, for the help of ``--set``.
READING = "key (a column of both files, to join --labels), drop_missing=true; --set again for more"

#: Help of every option, by "parameter -flag METAVAR", and of arguments, by "parameter <METAVAR>".
#: A key that begins with the name of a command is for that command alone.
HELP = {
    # What is read
    "data <DATA>": "Embeddings and labels: .npy, .npz, .csv, .tsv or .parquet.",
    "evaluate.files <ERASER…_DATA>": "One or more .safetensors files (NAME=FILE names one), and "
    "rows that no fit has seen.",
    "eraser <ERASER>": "A .safetensors file.",
    "transform.inputs <IN>": "Files or folders of .npy, .npz, .csv, .tsv, .parquet.",
    "concept -c NAMES": "Columns, a comma list; by default those of ERASER.",
    "features -f NAMES": "Vectors: a column, a pattern ('e_*') or a list; by default those of "
    "ERASER, or else all columns of numbers.",
    "labels FILE": "Second file with the labels of DATA.",
    "kind NAME=KIND": "continuous or categories, where the values of a column do not show it.",
    "groups -g NAME": "Column of groups, such as authors: no group is divided.",
    "task -t NAME": "Labels or numbers of a downstream task.",
    "evaluate.pairs NAME": "Column of ids: rows of one id are the same thing, to be found by a "
    "search.",
    "fit.given NAMES": "Columns that count as known: erase what rows tell beyond them.",
    "fit.keep NAME": "Columns of tasks that erased rows must still tell.",
    "certify.given NAMES": "Columns that attackers know; only what rows add counts.",
    "certify.check FILE": "Compare with the JSON of an earlier certificate.",
    # What is done
    "split.test SHARE": "Share of the rows to test on.",
    "method -m NAME": "See unspot inspect --methods; or cascade:NAME.",
    "fit.rank -r R": "Dimensions to keep: a number, a fraction (by default 0.5), or auto.",
    "path.ranks -r RANKS": "A comma list of numbers or fractions, such as 90,50,0.1.",
    "max_advantage A": "Most that attackers may gain over guessing, or share of a number's "
    "variance; by default 0.05, or the least that the rows can decide.",
    "erase.given NAMES": "Erase, and count as leak, only what rows add to these columns.",
    "erase.max_advantage A": "Keep the most utility with an advantage of attackers over guessing, "
    "or share of a number's variance, of this at most.",
    "erase.min_utility U": "Leak the least with a utility of this at least: the task's score, or "
    "else the share of neighbours.",
    "certify.margin A": "Largest advantage over guessing, or share of a number's variance, that "
    "counts as erased; without it there is no verdict.",
    "budget -b NAME": "How hard attackers try: quick, standard or thorough.",
    "evaluate.metrics -m NAMES": "A comma list, such as attack,mdl.",
    "transform.reduce": "Write r coordinates per row instead of d.",
    "transform.workers N": "Files at a time; by default all cores.",
    "transform.skip_bad": "Skip unreadable files, and name them at the end.",
    "export.to -t NAME": "onnx, torch, faiss or sentence-transformers.",
    "export.model -m MODEL": "For sentence-transformers: a folder, or a name.",
    "inspect.methods": "List the methods of unspot fit.",
    "plan.settings --set KEY=VALUE": f"{READING}.",
    "erase.settings --set KEY=VALUE": f"{READING}.",
    "fit.settings --set KEY=VALUE": "A parameter of the method, such as normalise=true, or of its "
    f"solver, such as solver.max_rows=3000; {READING}.",
    "path.settings --set KEY=VALUE": "A parameter of the method; metrics (a comma list, of every "
    f"rank), seeds (of a metric), attackers (quick, standard, thorough), {READING}.",
    "evaluate.settings --set KEY=VALUE": "budget (quick, standard, thorough), seeds (of a metric, "
    f"5), {READING}.",
    "certify.settings --set KEY=VALUE": f"attackers (a comma list), alpha (0.05), {READING}.",
    # What is written
    "output -o FILE": "The eraser: a .safetensors file.",
    "split.output -o TRAIN_TEST": "Two files, of the format of DATA.",
    "erase.output -o FOLDER": "Where the files go.",
    "erase.no_data": "Do not write the erased file.",
    "demo.output -o FOLDER": "Where the files go.",
    "export.output -o OUT": "By default ERASER with another ending; else a folder.",
    "transform.output -o OUT": "A file for one file; a folder for many.",
    "json FILE": "Write JSON; - is stdout.",
    "inspect.as_json --json": "Print JSON.",
    "html FILE": "Write a page.",
    "force": "Replace existing output.",
}


def described(command: str, parameter: str, annotation: Any) -> Any:
    """Add flags, metavar and help of ``HELP`` to the type of a command's parameter."""
    entries = {key.split()[0]: (key.split()[1:], text) for key, text in HELP.items()}
    words, text = entries.get(f"{command}.{parameter}") or entries[parameter]
    flags = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if not word.startswith("-")), None)
    if metavar is not None and metavar.startswith("<"):
        return Annotated[annotation, typer.Argument(metavar=metavar.strip("<>"), help=text)]
    if not any(flag.startswith("--") for flag in flags):
        flags = [f"--{parameter.replace('_', '-')}", *flags]
    return Annotated[annotation, typer.Option(*flags, metavar=metavar, help=text)]


#: Exit codes and colours of the verdicts. 1 is a crash and 2 an error, neither is a verdict.
EXIT_CODES = {None: 0, "HOLDS": 0, "LEAKS": 3, "INCONCLUSIVE": 4}
COLOURS = {"HOLDS": "green", "LEAKS": "red", "INCONCLUSIVE": "yellow"}

#: Exit code of ``certify --check`` for another result than before.
DIFFERENT = 5

#: File name that stands for stdout.
STDOUT = Path("-")

#: Seconds after which a command shows what it is doing.
SHOW_AFTER = 2.0


# -- Text to values --------------------------------------------------------------------------------


def comma_list(text: str | None) -> list[str] | None:
    """Split names at commas; None stays None.

    Examples
    --------
    >>> comma_list("linear, variance")
    ['linear', 'variance']
    """
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_settings(
    texts: Iterable[str] | None, known: Mapping[str, type], *, others: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read KEY=VALUE: known keys by their type, and other keys if these are allowed.

    Values of other keys are JSON where they can be, else text.

    Examples
    --------
    >>> parse_settings(["key=1", "lr=0.1", "init=pca"], {"key": str}, others=True)
    ({'key': '1'}, {'lr': 0.1, 'init': 'pca'})
    """
    values: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ValueError(f"Got --set {text}, but expected KEY=VALUE, such as --set lr=0.1.")
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = value
        kind = known.get(key)
        if kind is None and not others:
            from unspot.checks import did_you_mean

            hint = did_you_mean(key, known)
            raise ValueError(f"Got --set {text}, but expected one of: {', '.join(known)}.{hint}")
        if kind is None:
            rest[key] = parsed
        elif kind in (str, Path):
            values[key] = kind(value)
        elif isinstance(parsed, (kind, int) if kind is float else kind):
            values[key] = parsed
        else:
            raise ValueError(f"Got --set {text}, but expected a value of type {kind.__name__}.")
    return values, rest


def parse_kinds(
    texts: Iterable[str] | None, concept: str | None, task: str | None = None
) -> dict[str, str]:
    """Read the kinds of concepts and task from NAME=KIND; for one concept, KIND is enough.

    Examples
    --------
    >>> parse_kinds(["age=continuous", "day=categories"], "age,day")
    {'age': 'continuous', 'day': 'categories'}
    >>> parse_kinds(["continuous"], "age")
    {'age': 'continuous'}
    """
    names = [*(comma_list(concept) or []), *([] if task is None else [task])]
    kinds = {}
    for text in texts or ():
        name, equals, kind = text.rpartition("=")
        name = name if equals else concept or ""
        if (names and name not in names) or not kind:
            raise ValueError(
                f"Got --kind {text}, but expected NAME=KIND for one of the concepts "
                f"({', '.join(names)}), such as age=continuous."
            )
        kinds[name] = kind
    return kinds


def parse_rank(text: str, option: str = "--rank") -> int | float | str:
    """Read a rank: an integer, a fraction of the features, or "auto".

    Examples
    --------
    >>> parse_rank("125"), parse_rank("0.5"), parse_rank("auto")
    (125, 0.5, 'auto')
    """
    if text == "auto" and option == "--rank":
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    auto = ", or auto" if option == "--rank" else ""
    raise ValueError(
        f"Got {option} {text}, but expected an integer such as 125 or a fraction such as 0.5{auto}."
    )


def parse_ranks(text: str | None) -> list[Any] | None:
    """Read several ranks from a comma list.

    Examples
    --------
    >>> parse_ranks("90, 0.5,10")
    [90, 0.5, 10]
    """
    names = comma_list(text)
    return None if names is None else [parse_rank(name, "--ranks") for name in names]


# -- Files -----------------------------------------------------------------------------------------


def check_files(
    outputs: Mapping[str, Path | None], inputs: Iterable[Path | str | None], *, force: bool = True
) -> None:
    """Raise errors about files before any slow import or work.

    Parameters
    ----------
    outputs : mapping of str to path or None
        Paths by option; None where the option was not given. Each must be a place to write to, and
        none of the inputs, which would be lost.
    inputs : iterable of path or None
        Files or folders, which must exist.
    force : bool
        Whether outputs may exist.
    """
    from unspot.io.files import refuse_existing

    read = [Path(path) for path in inputs if path is not None]
    for path in read:
        if not path.exists():
            raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    for option, output in outputs.items():
        if output is None or output == STDOUT:
            continue
        _refuse_unwritable(option, output)
        refuse_inputs(option, output, read)
        refuse_existing(output, force=force)


def _refuse_unwritable(option: str, path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"Got {option} {str(path)!r}, a folder, but expected the name of a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(
            f"Got {option} {str(path)!r}, but nothing can be written to {str(folder)!r}. Choose "
            "another place."
        )


def refuse_inputs(option: str, output: Path, inputs: Iterable[Path | str | None]) -> None:
    """Raise an error if an output is one of the files to read, or in a folder of them."""
    if not output.is_file():
        return
    for path in (Path(path) for path in inputs if path is not None):
        for file in path.rglob("*.parquet") if path.is_dir() else [path]:
            if file.is_file() and output.samefile(file):
                raise ValueError(
                    f"Got {option} {str(output)!r}, which this command reads ({str(file)!r}), but "
                    "expected another file: that one would be lost. Choose another name."
                )


def check_eraser(output: Path | None, inputs: Iterable[Path | None], *, force: bool) -> None:
    """Raise errors about the file of a new eraser, and about a name that is not its own."""
    check_files({"--output": output}, inputs, force=force)
    if output is not None and output.suffix.lower() not in ("", ".safetensors"):
        raise ValueError(
            f"Got --output {str(output)!r}, but expected a name that ends in .safetensors: that is "
            "what is written. Other forms are made by unspot export."
        )


def write_json(result: Any, path: Path | None) -> None:
    """Write the ``to_json`` of a result to a file or to stdout, if there is a path."""
    from unspot.io.files import write_atomically

    if path == STDOUT:
        echo_json(result.to_json())
    elif path is not None:
        write_atomically(path, (result.to_json() + "\n").encode())


# -- The terminal ----------------------------------------------------------------------------------


#: Streams on which a command says nothing: both if it is quiet, stdout if JSON goes there.
_silent: ContextVar[tuple[str, ...]] = ContextVar("silent", default=())


@contextmanager
def at_work(*, quiet: bool, json_only: bool, threads: int | None) -> Iterator[None]:
    """Limit threads, show progress on stderr, and end with a line after Ctrl-C."""
    from unspot.io.progress import shown
    from unspot.machine import threads as at_most

    if threads is not None and threads < 1:
        raise ValueError(f"Got --threads {threads}, but expected a number of at least 1.")
    before = _silent.set(("out", "err") if quiet else ("out",) if json_only else ())
    try:
        progress = nullcontext() if quiet else shown(delay=SHOW_AFTER)
        with _warnings_as_sentences(), at_most(threads), progress:
            yield
    except KeyboardInterrupt as stop:
        typer.echo(f"Stopped. {stop}".rstrip(), err=True)
        raise typer.Exit(130) from None
    finally:
        _silent.reset(before)


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Print the library's warnings as sentences once the work is done."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                warn(message)


@contextmanager
def after_interrupt(sentence: str) -> Iterator[None]:
    """Say after Ctrl-C what is on the disk, or how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(sentence) from None


def loading() -> AbstractContextManager[Any]:
    """Show progress around imports that take seconds."""
    from unspot.io.progress import phase

    return phase("Loading packages")


def without_controls(text: str) -> str:
    """Escape control characters as JSON does: names in a file must not command the terminal.

    Examples
    --------
    >>> print(without_controls("nurse\\x1b[2J"))
    nurse\\u001b[2J
    """
    return re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", text)


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """Print lines of text, unless nobody wants them."""
    if ("err" if err else "out") not in _silent.get():
        typer.secho(without_controls(text), err=err, **style)


def note(message: str) -> None:
    """Print a sentence about the work on stderr, unless it is empty."""
    if message:
        say(message, dim=True, err=True)


def warn(message: str) -> None:
    """Print a warning in yellow on stderr."""
    say(f"Warning: {message}", fg=typer.colors.YELLOW, err=True)


def complain(message: str) -> None:
    """Print what went wrong on stderr, also if quiet."""
    typer.secho(without_controls(message), fg=typer.colors.RED, err=True)


def echo_json(text: str) -> None:
    """Print JSON; letters that the encoding of stdout lacks are escaped, so that none is lost."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    typer.echo(without_controls(text))


def facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title, and one line per name and value; empty values are left out."""
    shown = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in shown), default=0)
    say(title, bold=True)
    for name, value in shown:
        say(f"  {name.ljust(width)}  {' '.join(value.split(chr(10)))}")


def file_size(path: Path) -> str:
    """Format the size of a file."""
    return f"{path.stat().st_size / 1000:,.1f} kB"
