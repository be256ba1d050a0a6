"""What commands share: options, how their text is read, and how results are shown and written.

An option that only one command has stays in that command. Only typer is imported here, so that
``unspot --help`` is quick.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TextIO, cast

import typer

__all__ = [
    "STDOUT",
    "at_work",
    "check_concept",
    "check_eraser_name",
    "check_files",
    "comma_list",
    "concept_facts",
    "echo_json",
    "end_if_lost",
    "facts",
    "file_size",
    "loading",
    "loss_name",
    "note",
    "parse_kinds",
    "parse_rank",
    "parse_ranks",
    "refuse_inputs",
    "safe_terminal",
    "saying_what_is_kept",
    "warn",
    "warnings_as_sentences",
    "what_is_kept",
    "without_controls",
    "write_json",
    "write_or_keep",
]

# -- What goes in ----------------------------------------------------------------------------------

EraserFile = Annotated[
    Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
]
Embeddings = Annotated[
    Path, typer.Argument(metavar="DATA", help="Embeddings: .npy, .npz, .csv, .tsv or .parquet.")
]
TestRows = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Rows that the eraser has not seen: .npy, .npz, .csv, .tsv or .parquet.",
    ),
]
Concept = Annotated[
    str | None,
    typer.Option("--concept", "-c", metavar="NAME", help="Column or array of the labels."),
]
ConceptOfFit = Annotated[
    str | None,
    typer.Option("--concept", "-c", metavar="NAME", help="Labels; by default as in unspot fit."),
]
Concepts = Annotated[
    str | None,
    typer.Option(
        "--concept", "-c", metavar="NAMES", help="Column or array of the labels; or a comma list."
    ),
]
ConceptsOfFit = Annotated[
    str | None,
    typer.Option(
        "--concept",
        "-c",
        metavar="NAMES",
        help="Labels, or a comma list of them; by default as in unspot fit.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="NAME=KIND",
        help="What a concept is, if values do not show it: continuous (a number) or categories.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        "--features",
        "-f",
        metavar="NAMES",
        help="Vectors: a column, an array, a pattern such as 'e_*', or a comma list.",
    ),
]
FeaturesOfFit = Annotated[
    str | None,
    typer.Option("--features", "-f", metavar="NAMES", help="Vectors; by default as in unspot fit."),
]
LabelsFile = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="A second file with the labels of DATA, in the same order or with --key.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="NAME", help="A column of both files, by which labels find their rows."
    ),
]
DropMissing = Annotated[
    bool,
    typer.Option("--drop-missing", metavar="", help="Leave out rows that lack a label."),
]
Task = Annotated[
    str | None, typer.Option("--task", "-t", metavar="NAME", help="Labels of the downstream task.")
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of groups, such as authors: rows are split, permuted and judged by group.",
    ),
]

# -- What is done ----------------------------------------------------------------------------------

Method = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="leopard, pca, … (see unspot inspect --methods), cascade:NAME.",
    ),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of the method."),
]
Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks", "-r", metavar="RANKS", help="Such as 90,50,10, or 10:90:10, or fractions."
    ),
]
MaxRows = Annotated[
    int | None, typer.Option(metavar="N", help="Fit on a sample of at most N rows.")
]
Normalise = Annotated[
    bool,
    typer.Option("--normalise", metavar="", help="Scale erased rows to unit norm, for cosines."),
]
Budget = Annotated[
    str,
    typer.Option(
        "--budget", "-b", metavar="NAME", help="How hard attackers try: quick, standard, thorough."
    ),
]
Seeds = Annotated[int, typer.Option(metavar="N", help="Number of seeds for each metric.")]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed gives the same results.")]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Threads to use; by default one for each core that this process may use."
    ),
]

# -- What comes out --------------------------------------------------------------------------------

JsonFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the results as JSON; - for stdout.")
]
HtmlFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML page.")]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Replace existing output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Show only errors.")]


# -- How the text of options is read ---------------------------------------------------------------


def check_concept(concept: str | None, labels: Path | None, option: str = "--labels") -> None:
    """Refuse rows without labels: neither a name of them nor a file of their own."""
    if concept is None and labels is None:
        raise ValueError(
            f"Got no concept. Name its column or array with --concept, or its file with {option}."
        )


def check_eraser_name(output: Path) -> None:
    """Refuse a name by which other programs would take the eraser for something else."""
    if output.suffix.lower() not in ("", ".safetensors"):
        raise ValueError(
            f"Got --output {str(output)!r}, but expected a name that ends in .safetensors: that is "
            "what is written. Other forms are made by unspot export."
        )


def comma_list(text: str | None) -> list[str] | None:
    """Names separated by commas; None where none were given.

    Examples
    --------
    >>> comma_list("linear, variance")
    ['linear', 'variance']
    """
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_kinds(texts: Iterable[str] | None, concept: str | None) -> dict[str, str]:
    """The kinds of concepts by their names, from NAME=KIND; of one concept, KIND is enough.

    Examples
    --------
    >>> parse_kinds(["age=continuous", "day=categories"], "age,day")
    {'age': 'continuous', 'day': 'categories'}
    >>> parse_kinds(["continuous"], "age")
    {'age': 'continuous'}
    """
    names = comma_list(concept) or []
    kinds = {}
    for text in texts or ():
        name, equals, kind = text.rpartition("=")
        name = name if equals else concept or ""
        if (names and name not in names) or not kind:
            listed = ", ".join(names)
            raise ValueError(
                f"Got --kind {text}, but expected NAME=KIND for one of the concepts ({listed}), "
                "such as age=continuous."
            )
        kinds[name] = kind
    return kinds


def parse_rank(text: str) -> int | float | str:
    """A rank: an integer, a fraction of the features, or "auto".

    Examples
    --------
    >>> parse_rank("125"), parse_rank("0.5"), parse_rank("auto")
    (125, 0.5, 'auto')
    """
    return "auto" if text.strip().lower() == "auto" else _number(text, "--rank", ", or auto")


def parse_ranks(text: str | None) -> list[int | float] | None:
    """Several ranks: a comma list, or FIRST:LAST:STEP, which includes both ends.

    Examples
    --------
    >>> parse_ranks("90,0.5,10"), parse_ranks("10:40:10")
    ([90, 0.5, 10], [10, 20, 30, 40])
    """
    if text is None:
        return None
    if ":" not in text:
        return [_number(part.strip(), "--ranks") for part in text.split(",")]
    try:
        first, last, step = (int(part) for part in text.split(":"))
        ranks = list(range(first, last + (1 if step > 0 else -1), step))
    except ValueError:
        ranks = []
    if not ranks:
        raise ValueError(
            f"Got --ranks {text}, but expected FIRST:LAST:STEP such as 10:90:10, or a comma list "
            "such as 90,50,10."
        )
    return list(ranks)


def _number(text: str, option: str, more: str = "") -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(
        f"Got {option} {text}, but expected an integer such as 125 or a fraction such as 0.5{more}."
    )


#: Exit codes and colours of the verdicts. 1 is a crash and 2 an error, so that neither is taken
#: for a verdict.
EXIT_CODES = {"HOLDS": 0, "LEAKS": 3, "INCONCLUSIVE": 4}
#: ``unspot certify --check`` found another result.
DIFFERENT = 5
COLOURS = {"HOLDS": "green", "LEAKS": "red", "INCONCLUSIVE": "yellow"}

#: The file name that stands for stdout.
STDOUT = Path("-")


# -- Files -----------------------------------------------------------------------------------------


def check_files(outputs: Mapping[str, Path | None], inputs: Iterable[Path | str | None]) -> None:
    """Refuse what would fail after the work, or after slow imports, before any of them.

    That is an input that is not there, an output that cannot be written, or one that is an input.

    Parameters
    ----------
    outputs : mapping of str to path or None
        By option; None where the option was not given.
    inputs : iterable of path or None
        Files or folders.
    """
    read = [Path(path) for path in inputs if path is not None]
    for path in read:
        if not path.exists():
            raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    for option, output in outputs.items():
        if output is not None and output != STDOUT:
            _refuse_unwritable(option, output)
    refuse_inputs(outputs, read)


def _refuse_unwritable(option: str, path: Path) -> None:
    """An error if no file can be made at this place: somebody would learn of it hours later."""
    import os

    if path.is_dir():
        raise ValueError(f"Got {option} {str(path)!r}, a folder, but expected the name of a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    probe = folder / f".{path.name}.{os.getpid()}.unspot-tmp"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        probe.unlink()
    except OSError as error:
        raise ValueError(
            f"Got {option} {str(path)!r}, but nothing can be written there ({error.strerror}). "
            "Choose another place."
        ) from None


def write_or_keep(path: Path | None, write: Callable[[Path], Any]) -> bool:
    """Write a result; if that fails, keep it in another folder and say where.

    Parameters
    ----------
    path : path or None
        Where to write; None where nobody asked for it.
    write : callable
        Writes the result to the path that it is given.

    Returns
    -------
    bool
        False if the result is not where it was asked for. Then a command ends with exit code 2,
        once it has printed what it has.
    """
    if path is None:
        return True
    try:
        write(path)
        _written.append(path)
        return True
    except OSError as error:
        reason = str(error.strerror or error).rstrip(".")
    from tempfile import mkdtemp

    for folder in (Path.cwd(), None):  # None: a folder of its own, of the system
        try:
            kept = Path(mkdtemp(prefix="unspot-") if folder is None else folder) / path.name
            if kept.exists():
                continue
            write(kept)
            warn(f"{path} could not be written ({reason}). The result is kept in {kept}.")
            return False
        except OSError:
            continue
    warn(f"{path} could not be written ({reason}), and there was no other place to keep it.")
    return False


def refuse_inputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | str | None]) -> None:
    """Refuse an output that is one of the files to read: it would be lost, even with --force.

    Parameters
    ----------
    outputs : mapping of str to path or None
        By option; None where the option was not given.
    inputs : iterable of path or None
        Files, or folders of Parquet files. Missing ones are left to the code that reads them.
    """
    existing = {option: path for option, path in outputs.items() if path and path.is_file()}
    if not existing:
        return
    read = [file for path in inputs if path is not None for file in _files(Path(path))]
    for option, path in existing.items():
        for file in read:
            if path.samefile(file):
                raise ValueError(
                    f"Got {option} {str(path)!r}, which this command reads ({str(file)!r}), but "
                    "expected another file: that one would be lost. Choose another name."
                )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.parquet"))
    return [path] if path.is_file() else []


def write_json(result: Any, path: Path | None) -> bool:
    """Write the ``to_json`` of a result to a file or to stdout, if there is a path.

    False if it could not be written there, as of ``write_or_keep``.
    """
    from unspot.io.files import write_atomically

    if path == STDOUT:
        echo_json(result.to_json())
        return True
    content = (result.to_json() + "\n").encode()
    return write_or_keep(path, lambda place: write_atomically(place, content))


def end_if_lost(*written: bool) -> None:
    """End with the exit code of an error if a result is not where it was asked for."""
    if not all(written):
        raise typer.Exit(2)


# -- The terminal ----------------------------------------------------------------------------------


def echo_json(text: str) -> None:
    """Print JSON; letters that the encoding of stdout lacks are escaped, so that none is lost."""
    import json

    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    typer.echo("\n".join(map(without_controls, text.split("\n"))))


def without_controls(text: str) -> str:
    """The text with control characters as JSON escapes them: a file must not command the terminal.

    Examples
    --------
    >>> print(without_controls("nurse\\x1b[2J"))
    nurse\\u001b[2J
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)


class SafeTerminal:
    """A stream that lets through text, colours, and what progress bars need.

    Names in files may hold other control sequences, which move the cursor or change the title of
    the window. Whatever a command prints, they come out as their code.
    """

    _CONTROL = re.compile(r"\x1b\[[0-9;]*m|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

    def __init__(self, stream: Any, *, also: str = "") -> None:
        self._stream, self._also = stream, also

    def write(self, text: str) -> int:
        written: int = self._stream.write(self._CONTROL.sub(self._shown, text))
        return written

    def _shown(self, found: re.Match[str]) -> str:
        is_fine = len(found[0]) > 1 or found[0] in self._also
        return found[0] if is_fine else without_controls(found[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def safe_terminal() -> Iterator[None]:
    """What is printed cannot command the terminal, but progress bars on stderr may go back."""
    out, err = SafeTerminal(sys.stdout), SafeTerminal(sys.stderr, also="\r")
    with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
        yield


#: Seconds after which a command shows what it is doing.
SHOW_AFTER = 2.0

#: What this run has written so far.
_written: list[Path] = []


@contextmanager
def at_work(*, quiet: bool, threads: int | None) -> Iterator[None]:
    """Around every command: its threads, its progress on stderr, and the end by Ctrl-C."""
    from unspot.io.progress import shown
    from unspot.machine import threads as at_most

    _written.clear()
    progress = nullcontext() if quiet else shown(delay=SHOW_AFTER)
    if threads is not None and threads < 1:
        raise ValueError(f"Got --threads {threads}, but expected a number of at least 1.")
    try:
        with at_most(threads), progress, _stop_after_imports():
            yield
    except KeyboardInterrupt as stop:
        typer.echo(f"Stopped. {stop if stop.args else what_is_kept(_written)}", err=True)
        # Python remembers an interrupt inside of exec, as imports use it, until the next exec, and
        # would end by the signal instead of with this code.
        exec("")
        raise typer.Exit(130) from None


@contextmanager
def _stop_after_imports() -> Iterator[None]:
    """Let Ctrl-C wait for the end of an import; the second time it does not wait.

    Packages that are interrupted in it swallow the signal, or are broken for the rest of the run:
    both happened with pyarrow and pandas.
    """
    import os
    import signal
    from threading import Timer, current_thread, main_thread

    presses, again = 0, False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal presses, again
        presses, again = presses + (not again), False
        if not any(name.startswith("<frozen importlib") for name in _files_of(frame)):
            raise KeyboardInterrupt
        if presses > 1:
            os.write(2, b"\nStopped.\n")
            os._exit(130)
        Timer(0.01, later, (number,)).start()

    def later(number: int) -> None:
        nonlocal again
        again = True
        os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGINT)
    ours = current_thread() is main_thread() and before is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _files_of(frame: FrameType | None) -> Iterator[str]:
    """The files of the code that runs, innermost first."""
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def loading() -> AbstractContextManager[Any]:
    """A phase around imports that take seconds."""
    from unspot.io.progress import phase

    return phase("Loading packages")


def what_is_kept(written: Sequence[Path]) -> str:
    """What to know after Ctrl-C, of work that writes its files at the end."""
    if not written:
        return "Nothing was written; the same command begins again."
    return f"Written before that: {', '.join(map(str, written))}. The rest is lost."


@contextmanager
def saying_what_is_kept(sentence: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C, say what is on the disk, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(sentence()) from None


def facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title, and one line per name and value; empty values are left out."""
    shown = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in shown), default=0)
    typer.secho(without_controls(title), bold=True)
    for name, value in shown:
        label = typer.style(f"  {name.ljust(width)}", dim=True)
        typer.echo(f"{label}  {without_controls(value)}")


def split_words(rows: Any) -> str:
    """How a file was split in two."""
    from unspot.data.labels import Labels

    if rows.test.groups is not None:
        return "split at random, by group"
    has_classes = not rows.concepts and isinstance(rows.test.target, Labels)
    return f"split at random{', stratified by class' if has_classes else ''}"


def note(message: str, *, quiet: bool) -> None:
    """Print a sentence about the work on stderr, unless it is empty or nobody wants it."""
    if message and not quiet:
        typer.secho(without_controls(message), dim=True, err=True)


def warn(message: str) -> None:
    """Print a warning in yellow on stderr."""
    typer.secho(f"Warning: {without_controls(message)}", fg=typer.colors.YELLOW, err=True)


@contextmanager
def warnings_as_sentences(*, quiet: bool) -> Iterator[None]:
    """Print the library's warnings as sentences once the work is done; none if quiet."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in () if quiet else caught:
        warn(str(warning.message))


def file_size(n_bytes: float) -> str:
    """A number of bytes in a unit that people read.

    Examples
    --------
    >>> file_size(301_234), file_size(35_200)
    ('301 kB', '35.2 kB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            digits = 0 if n_bytes >= 100 or unit == "bytes" else 1
            return f"{n_bytes:.{digits}f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def class_list(metadata: Mapping[str, Any], most: int = 8) -> str:
    """The classes, each with its number of rows.

    Examples
    --------
    >>> class_list({"classes": ["f", "m"], "class_counts": [1200, 800]})
    'f (1,200), m (800)'
    """
    classes = metadata.get("classes") or []
    counts = metadata.get("class_counts") or [None] * len(classes)
    shown = [
        str(name) if count is None else f"{name} ({count:,})"
        for name, count in zip(classes, counts, strict=True)
    ]
    rest = [f"… {len(shown) - most} more"] if len(shown) > most else []
    return ", ".join(shown[:most] + rest)


def concept_facts(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was erased, given what, and what was kept, as names and values.

    Examples
    --------
    >>> age = {"name": "age", "kind": "continuous", "missing": 3}
    >>> concept_facts({"concepts": [age], "given": {"kind": "categories"}, "given_name": "job"})
    [('age', 'continuous, 3 rows without a value'), ('given', 'job (categories)')]
    """
    rows = [("classes", class_list(metadata))]
    if metadata.get("concept") == "continuous":
        rows = [("kind", metadata["concept"])]
    elif "concepts" in metadata:
        rows = [(str(concept["name"]), _concept(concept)) for concept in metadata["concepts"]]
    for name in ("given", "keep"):
        if name in metadata:
            column = f"{metadata.get(f'{name}_name', '')} ({metadata[name]['kind']})"
            rows.append(("kept" if name == "keep" else name, column.strip()))
    return rows


def _concept(concept: Mapping[str, Any]) -> str:
    """One of several concepts in a line."""
    classes = class_list(concept, most=4)
    lacking = f"{concept['missing']:,} rows without a value" if concept.get("missing") else ""
    kind = f"{concept['kind']}: {classes}" if classes else str(concept["kind"])
    return ", ".join(filter(None, (kind, lacking)))


def loss_name(metadata: Mapping[str, Any]) -> str:
    """What density matching makes small: HSIC where a concept has features instead of classes."""
    plain = metadata.get("concept", "categories") == "categories"
    return "MMD²" if plain and "given" not in metadata and "keep" not in metadata else "HSIC"
