"""What commands show: aligned facts on stdout, a progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

__all__ = [
    "echo_json",
    "facts",
    "file_size",
    "number",
    "progress_bar",
    "warn",
    "warnings_as_sentences",
]


def echo_json(text: str) -> None:
    """JSON on stdout: letters that its encoding lacks are escaped, and none is lost."""
    import json

    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=2)
    typer.echo(text)


def facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A title and lines of name and value, the values one under the other."""
    listed = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in listed), default=0)
    typer.secho(title, bold=True)
    for name, value in listed:
        label = typer.style(f"  {name.ljust(width)}", dim=True)
        typer.echo(f"{label}  {value}")


def warn(message: str) -> None:
    """A sentence in yellow on stderr."""
    typer.secho(f"Warning: {message}", fg=typer.colors.YELLOW, err=True)


@contextmanager
def warnings_as_sentences(*, quiet: bool = False) -> Iterator[None]:
    """Warnings of the library as sentences for people, once the work is done; none if quiet."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in () if quiet else caught:
        warn(str(warning.message))


def progress_bar(total: int | None, what: str, *, quiet: bool) -> Any:
    """A tqdm bar of rows on stderr; none if quiet or if no one is watching."""
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=what,
        unit=" rows",
        unit_scale=True,
        dynamic_ncols=True,
        leave=False,
        file=sys.stderr,
        disable=True if quiet else None,
    )


def file_size(n_bytes: float) -> str:
    """Bytes as people read them.

    Examples
    --------
    >>> file_size(301_234)
    '301 kB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return (
                f"{n_bytes:.0f} {unit}"
                if n_bytes >= 100 or unit == "bytes"
                else (f"{n_bytes:.1f} {unit}")
            )
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def number(value: float) -> str:
    """A number in three digits.

    Examples
    --------
    >>> number(0.000123456), number(12.34), number(3.0)
    ('0.000123', '12.3', '3')
    """
    return f"{value:.3g}"
