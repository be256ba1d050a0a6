"""Erasing one file into another of the same format, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from unspot.bulk.arrays import count_npy, count_npz, erase_npy, erase_npz
from unspot.bulk.erasure import Erasure
from unspot.bulk.tables import count_csv, count_parquet, erase_csv, erase_parquet
from unspot.io.tables import file_format
from unspot.io.writing import Sink, finished_file, refuse_existing, temporary_name

__all__ = ["Written", "count_rows", "erase_file", "transform_file"]

Advance = Callable[[int], None]

_ERASE: dict[str, Callable[[Path, Sink, Erasure, Advance], int]] = {
    ".npy": erase_npy,
    ".npz": erase_npz,
    ".csv": erase_csv,
    ".parquet": erase_parquet,
}


class Written(NamedTuple):
    """What came of one file."""

    rows: int
    size: int
    sha256: str


def transform_file(
    erasure: Erasure,
    source: Path,
    target: Path,
    *,
    force: bool = False,
    advance: Advance = lambda rows: None,
) -> Written:
    """Erase one file into another of the same format.

    Parameters
    ----------
    erasure : Erasure
        The eraser, the columns and whether to reduce.
    source, target : Path
        ``.npy``, ``.npz``, ``.csv`` or ``.parquet``, the same ending for both.
    force : bool
        Replace ``target`` if it exists.
    advance : callable
        Called with the number of rows after every chunk.

    Notes
    -----
    Memory: a few chunks of some megabytes. ``target`` appears when it is complete, and has a
    temporary name until then.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from unspot import Eraser
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.ones((4, 2), dtype="f4"))
    >>> erasure = Erasure(Eraser.projection(np.eye(2)[:, :1]))
    >>> transform_file(erasure, folder / "x.npy", folder / "clean.npy").rows
    4
    """
    format_ = file_format(source)
    if source.is_dir():
        raise ValueError(f"Got the folder {str(source)!r}, but expected one file.")
    if target.suffix.lower() != format_:
        raise ValueError(
            f"Got output {str(target)!r} for input {str(source)!r}, but expected the same format: "
            f"a name that ends in {format_}, or a folder's name that ends in /."
        )
    if target.exists() and target.samefile(source):
        raise ValueError(f"Got {str(source)!r} as input and output, but expected another name.")
    refuse_existing(target, force=force)
    return erase_file(erasure, source, target, advance=advance)


def erase_file(
    erasure: Erasure,
    source: Path,
    target: Path,
    *,
    hashed: bool = False,
    advance: Advance = lambda rows: None,
) -> Written:
    """Erase one file, check that no row was lost, and only then give it its name."""
    erase = _ERASE[file_format(source)]
    with finished_file(target, hashed=hashed) as sink:
        rows = erase(source, sink, erasure, advance)
        sink.flush()
        _check_rows(erasure, source, target, rows)
        written = Written(rows, sink.tell(), sink.sha256)
    return written


def count_rows(erasure: Erasure, path: Path, format_: str) -> int:
    """The number of rows that a file says it has (for CSV: that it has)."""
    if format_ == ".npz":
        return count_npz(path, erasure)
    return {".npy": count_npy, ".csv": count_csv, ".parquet": count_parquet}[format_](path)


def _check_rows(erasure: Erasure, source: Path, target: Path, rows: int) -> None:
    format_ = file_format(source)
    before = count_rows(erasure, source, format_)
    after = count_rows(erasure, temporary_name(target), format_)
    if not before == rows == after:
        raise ValueError(
            f"Got {before} rows in {str(source)!r}, but wrote {after} of them to {str(target)!r}. "
            "Did the input change meanwhile? Nothing was kept; run the command again."
        )
