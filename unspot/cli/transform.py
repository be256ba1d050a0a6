"""``unspot transform``: files in, the same files without the concept out."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.scale import Erasure


def transform(
    eraser: Path,
    inputs: list[Path],
    output: str,
    features: str | None = None,
    reduce: bool = False,
    workers: int | None = None,
    skip_bad: bool = False,
    force: bool = False,
) -> None:
    """Take the concept out of files, of any size and number.

    \b
    unspot transform gender.safetensors big/*.parquet -o clean/

    One file is written to one file, many go to a folder. Other columns, schema and row order
    stay. An interrupted run goes on where it stopped.
    """
    to_folder = _to_folder(inputs, output)
    options.check_files({} if to_folder else {"--output": Path(output)}, [eraser, *inputs])
    from unspot.eraser import load
    from unspot.scale import Erasure

    erasure = Erasure(load(eraser), features, reduce)
    if to_folder:
        settings = {"workers": workers, "skip_bad": skip_bad, "force": force}
        _many(erasure, inputs, Path(output), **settings)
    else:
        _one(erasure, inputs[0], Path(output), force)


def _to_folder(inputs: list[Path], output: str) -> bool:
    """Tell whether the output is a folder: of several inputs, or written like one."""
    many = len(inputs) > 1 or inputs[0].is_dir()
    return many or output.endswith((os.sep, "/")) or Path(output).is_dir()


def _one(erasure: Erasure, source: Path, target: Path, force: bool) -> None:
    from unspot.scale import transform_file

    started = time.perf_counter()
    with options.after_interrupt(f"Nothing was written to {target}."):
        rows = transform_file(erasure, source, target, force=force)
    options.say(f"Erased {_rate(rows, started)} into {target}.")


def _many(erasure: Erasure, inputs: list[Path], folder: Path, **settings: Any) -> None:
    from unspot.scale import transform_files

    started = time.perf_counter()
    with options.after_interrupt("What is finished is kept. The same command goes on."):
        result = transform_files(erasure, inputs, folder, **settings)
    for source, error in result.skipped.items():
        options.complain(f"Warning: Skipped {source}. {error}")
    if result.done:
        files = _files(len(result.done))
        options.say(f"Erased {_rate(result.rows, started)} in {files} into {folder}.")
    if result.kept:
        options.say(f"Kept {_files(len(result.kept))} that an earlier run had finished.")


def _rate(rows: int, started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{rows:,} rows ({seconds:.1f} s, {rows / max(seconds, 1e-9):,.0f} rows/s)"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
