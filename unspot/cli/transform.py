"""``unspot transform``: files in, the same files without the concept out."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.scale import Erasure, Result
    from unspot.scale.folders import Part


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
        typer.Option(
            "--skip-bad", metavar="", help="Skip unreadable files; the manifest lists them."
        ),
    ] = False,
    force: options.Force = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", metavar="", help="Read finished files again, and redo damaged ones."
        ),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Take the concept out of files, of any size and number.

    One file is written to one file, many go to a folder with a manifest. Other columns, schema
    and row order stay. An interrupted run goes on where it stopped.

    unspot transform gender.safetensors big/*.parquet -o clean/
    """
    options.check_files({}, [eraser, *inputs])
    from unspot.eraser import load
    from unspot.scale import Erasure

    to_folder = _to_folder(inputs, output)
    erasure = Erasure(load(eraser), features, reduce)
    settings: dict[str, Any] = {"workers": workers, "skip_bad": skip_bad, "force": force}
    settings["verify"] = verify
    if not to_folder:
        _one(erasure, inputs[0], Path(output), force, quiet)
    else:
        _many(erasure, inputs, Path(output), quiet, **settings)


def _to_folder(inputs: list[Path], output: str) -> bool:
    """Whether the output is a folder: there are several inputs, or it is written like one."""
    many = len(inputs) > 1 or inputs[0].is_dir()
    return many or output.endswith((os.sep, "/")) or Path(output).is_dir()


def _one(erasure: Erasure, source: Path, target: Path, force: bool, quiet: bool) -> None:
    from unspot.io.progress import phase
    from unspot.scale import transform_file

    started = time.perf_counter()
    nothing = options.saying_what_is_kept(lambda: f"Nothing was written to {target}.")
    with nothing, phase("Erasing", unit="rows", note=source.name) as here:
        here.total = _rows(erasure, [source]) if here.shown else None
        written = transform_file(erasure, source, target, force=force, advance=here.advance)
    if not quiet:
        typer.echo(f"Erased {_rate(written.rows, started)} into {target}.")


def _many(erasure: Erasure, inputs: list[Path], folder: Path, quiet: bool, **settings: Any) -> None:
    from unspot.io.progress import phase
    from unspot.scale import transform_files

    started = time.perf_counter()
    finished: list[Part] = []
    kept = options.saying_what_is_kept(
        lambda: f"{_files(len(finished))} finished in {folder}. The same command goes on."
    )
    with kept, phase("Erasing", unit="rows") as here:

        def begin(parts: list[Part]) -> None:
            here.note = _files(len(parts))
            here.total = _rows(erasure, [part.source for part in parts]) if here.shown else None

        result = transform_files(
            erasure,
            inputs,
            folder,
            begin=begin,
            advance=here.advance,
            finished=finished.append,
            **settings,
        )
    if not quiet:
        _report(result, folder, started)


def _report(result: Result, folder: Path, started: float) -> None:
    parts = {part["output"]: part for part in result.manifest["parts"]}
    rows = sum(parts[name]["rows"] for name in result.done)
    if result.done:
        typer.echo(f"Erased {_rate(rows, started)} in {_files(len(result.done))} into {folder}.")
    if result.kept:
        typer.echo(f"Kept {_files(len(result.kept))} that an earlier run had finished.")
    typer.echo(f"Row counts and checksums are in {folder / 'manifest.json'}.")
    if lost := result.manifest.get("without_input"):
        options.warn(
            f"Did not count {_files(len(lost))} whose input is gone, such as {lost[0]['output']}. "
            "Remove them if nobody needs them; the manifest lists them."
        )
    for entry in result.manifest["skipped"]:
        options.warn(f"Skipped {entry['input']}. {entry['error']}")


def _rows(erasure: Erasure, sources: list[Path], most: int = 1000) -> int | None:
    """The number of rows, for the progress bar; None if counting them would take long."""
    from unspot.io.arrow import is_text
    from unspot.scale.files import count_rows

    if len(sources) > most or any(is_text(path) for path in sources):
        return None
    total = 0
    for path in sources:
        try:
            total += count_rows(erasure, path, path.suffix.lower())
        except (ValueError, OSError, KeyError):
            continue  # its error comes when it is read
    return total


def _rate(rows: int, started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{rows:,} rows ({seconds:.1f} s, {rows / max(seconds, 1e-9):,.0f} rows/s)"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
