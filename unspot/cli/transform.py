"""``unspot transform``: files in, the same files without the concept out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unspot.scale import Erasure, Result
    from unspot.scale.folders import Part


def transform(
    eraser: Annotated[
        Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="IN", help="Files or folders of .npy, .npz, .csv, .parquet."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A file for one file; a folder for many."
        ),
    ],
    features: Annotated[
        str | None,
        typer.Option(
            "--features", "-f", metavar="NAMES", help="Vectors; by default as in unspot fit."
        ),
    ] = None,
    reduce: Annotated[
        bool, typer.Option("--reduce", metavar="", help="Write r coordinates a row instead of d.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Files at a time; by default all cores."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="NAME", help="Who works: local, dask or ray."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address", metavar="URL", help="Of a Dask or Ray cluster; by default one is started."
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", metavar="", help="Go on past unreadable files; the manifest lists them."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", metavar="", help="Replace what is there.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
) -> None:
    """Take the concept out of files, of any size and number.

    One file is written to one file, many go to a folder with a manifest. Other columns, schema
    and row order stay. A run that was broken off goes on where it was.

    unspot transform gender.safetensors big/*.parquet -o clean/
    """
    from unspot.eraser import load
    from unspot.scale import Erasure

    _check_engine(engine, address)
    erasure = Erasure(load(eraser), features, reduce)
    if _to_folder(inputs, output):
        with _executor(engine, address, workers) as pool:
            _many(erasure, inputs, Path(output), workers, skip_bad, force, quiet, pool)
    elif engine != "local":
        raise ValueError(
            f"Got --engine {engine} for one file, but a cluster shares out the files of a folder. "
            "Give an output folder, with a name that ends in /."
        )
    else:
        _one(erasure, inputs[0], Path(output), force, quiet)


def _check_engine(engine: str, address: str | None) -> None:
    from unspot.scale import ENGINES

    if engine not in ("local", *ENGINES):
        raise ValueError(f"Got --engine {engine}, but expected local, {' or '.join(ENGINES)}.")
    if engine == "local" and address is not None:
        raise ValueError(f"Got --address {address} without a cluster. Add --engine dask or ray.")


@contextmanager
def _executor(engine: str, address: str | None, workers: int | None) -> Iterator[Executor | None]:
    from unspot.scale import executor

    if engine == "local":
        yield None
        return
    with executor(engine, address, workers=workers) as pool:
        yield pool


def _to_folder(inputs: list[Path], output: str) -> bool:
    ends = (os.sep, "/")
    return len(inputs) > 1 or inputs[0].is_dir() or output.endswith(ends) or Path(output).is_dir()


def _one(erasure: Erasure, source: Path, target: Path, force: bool, quiet: bool) -> None:
    from unspot.cli.console import progress_bar
    from unspot.scale import transform_file

    started = time.perf_counter()
    with progress_bar(_rows(erasure, [source]), "Erasing", quiet=quiet) as bar:
        written = transform_file(erasure, source, target, force=force, advance=bar.update)
    if not quiet:
        typer.echo(f"Erased {_rate(written.rows, started)} into {target}.")


def _many(
    erasure: Erasure,
    inputs: list[Path],
    folder: Path,
    workers: int | None,
    skip_bad: bool,
    force: bool,
    quiet: bool,
    executor: Executor | None,
) -> None:
    from unspot.cli.console import progress_bar
    from unspot.scale import transform_files

    started = time.perf_counter()
    with progress_bar(None, "Erasing", quiet=quiet) as bar:

        def begin(parts: list[Part]) -> None:
            bar.total = None if bar.disable else _rows(erasure, [part.source for part in parts])

        result = transform_files(
            erasure,
            inputs,
            folder,
            workers=workers,
            skip_bad=skip_bad,
            force=force,
            begin=begin,
            advance=bar.update,
            executor=executor,
        )
    if not quiet:
        _report(result, folder, started)


def _report(result: Result, folder: Path, started: float) -> None:
    from unspot.cli.console import warn

    parts = {part["output"]: part for part in result.manifest["parts"]}
    rows = sum(parts[name]["rows"] for name in result.done)
    if result.done:
        typer.echo(f"Erased {_rate(rows, started)} in {_files(len(result.done))} into {folder}.")
    if result.kept:
        typer.echo(f"Kept {_files(len(result.kept))} that an earlier run had finished.")
    typer.echo(f"Row counts and checksums are in {folder / 'manifest.json'}.")
    for entry in result.manifest["skipped"]:
        warn(f"Skipped {entry['input']}. {entry['error']}")


def _rows(erasure: Erasure, sources: list[Path], most: int = 1000) -> int | None:
    """The rows to come, for the progress bar; None where counting would take long."""
    from unspot.scale.files import count_rows

    if len(sources) > most or any(path.suffix.lower() == ".csv" for path in sources):
        return None
    total = 0
    for path in sources:
        try:
            total += count_rows(erasure, path, path.suffix.lower())
        except (ValueError, OSError, KeyError):
            continue  # its own error comes when it is read
    return total


def _rate(rows: int, started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{rows:,} rows ({seconds:.1f} s, {rows / max(seconds, 1e-9):,.0f} rows/s)"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
