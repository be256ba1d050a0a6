"""What commands show and write: facts and warnings in the terminal, results in files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

__all__ = [
    "STDOUT",
    "echo_json",
    "facts",
    "file_size",
    "refuse_inputs",
    "warn",
    "warnings_as_sentences",
    "write_json",
]

#: The file name that stands for stdout.
STDOUT = Path("-")


# -- Files -----------------------------------------------------------------------------------------


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


def write_json(result: Any, path: Path | None) -> None:
    """Write the ``to_json`` of a result to a file or to stdout, if there is a path."""
    from unspot.io.files import write_atomically

    if path == STDOUT:
        echo_json(result.to_json())
    elif path is not None:
        write_atomically(path, (result.to_json() + "\n").encode())


# -- The terminal ----------------------------------------------------------------------------------


def echo_json(text: str) -> None:
    """Print JSON; letters that the encoding of stdout lacks are escaped, so that none is lost."""
    import json

    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    typer.echo(text)


def facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title, and one line per name and value; empty values are left out."""
    shown = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in shown), default=0)
    typer.secho(title, bold=True)
    for name, value in shown:
        label = typer.style(f"  {name.ljust(width)}", dim=True)
        typer.echo(f"{label}  {value}")


def warn(message: str) -> None:
    """Print a warning in yellow on stderr."""
    typer.secho(f"Warning: {message}", fg=typer.colors.YELLOW, err=True)


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
