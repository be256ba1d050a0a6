"""``unspot transform``: files in, the same files without the concept out."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.scale import Erasure


def transform(
    eraser: options.EraserFile,
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="IN", help="Files or folders of .npy, .npz, .csv, .tsv, .parquet."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="OUT", help="A file for one file; a folder for many."
        ),
    ],
    features: options.FeaturesOfFit = None,
    reduce: Annotated[
        bool, typer.Option("--reduce", metavar="", help="Write r coordinates per row instead of d.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Files at a time; by default all cores.")
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", metavar="", help="Skip unreadable files, and list them."),
    ] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Take the concept out of files, of any size and number.

    One file is written to one file, many go to a folder. Other columns, schema and row order
    stay. An interrupted run goes on where it stopped.

    unspot transform gender.safetensors big/*.parquet -o clean/
    """
    options.check_files({}, [eraser, *inputs])
    from unspot.eraser import load
    from unspot.scale import Erasure

    to_folder = _to_folder(inputs, output)
    erasure = Erasure(load(eraser), features, reduce)
    if to_folder:
        settings = {"workers": workers, "skip_bad": skip_bad, "force": force}
        _many(erasure, inputs, Path(output), quiet, **settings)
    else:
        _one(erasure, inputs[0], Path(output), force, quiet)


def _to_folder(inputs: list[Path], output: str) -> bool:
    """Whether the output is a folder: there are several inputs, or it is written like one."""
    many = len(inputs) > 1 or inputs[0].is_dir()
    return many or output.endswith((os.sep, "/")) or Path(output).is_dir()


def _one(erasure: Erasure, source: Path, target: Path, force: bool, quiet: bool) -> None:
    from unspot.scale import transform_file

    started = time.perf_counter()
    with options.saying_what_is_kept(lambda: f"Nothing was written to {target}."):
        rows = transform_file(erasure, source, target, force=force)
    if not quiet:
        typer.echo(f"Erased {_rate(rows, started)} into {target}.")


def _many(erasure: Erasure, inputs: list[Path], folder: Path, quiet: bool, **settings: Any) -> None:
    from unspot.scale import transform_files

    started = time.perf_counter()
    with options.saying_what_is_kept(lambda: "What is finished is kept. The same command goes on."):
        result = transform_files(erasure, inputs, folder, **settings)
    for source, error in result.skipped.items():
        options.warn(f"Skipped {source}. {error}")
    if quiet:
        return
    if result.done:
        files = _files(len(result.done))
        typer.echo(f"Erased {_rate(result.rows, started)} in {files} into {folder}.")
    if result.kept:
        typer.echo(f"Kept {_files(len(result.kept))} that an earlier run had finished.")


def _rate(rows: int, started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{rows:,} rows ({seconds:.1f} s, {rows / max(seconds, 1e-9):,.0f} rows/s)"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
