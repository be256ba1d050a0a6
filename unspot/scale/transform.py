"""Erase files: one into another of the same format, or many into a folder.

A file has a temporary name until it is complete. So a part of a folder that exists is finished, and
a job that was interrupted continues with the parts that are missing. One small file in the folder
names the job; the folder of another job is refused.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_count
from unspot.io.columns import check_matrix, column_kinds
from unspot.io.files import (
    FORMATS,
    TEMPORARY,
    check_columns,
    csv_delimiter,
    csv_options,
    file_format,
    file_schema,
    finished_file,
    is_hidden,
    open_parquet,
    prefetched,
    read_npy,
    read_npz,
    reading,
    reading_arrow,
    refuse_existing,
    release_pages,
    write_atomically,
)
from unspot.io.progress import phase
from unspot.machine import cores
from unspot.scale.batches import ArrowEraser, Erasure, erase_batch, width_out

#: How much of an array is read at a time. Small pieces stay in the cache and cost no page faults,
#: but a product needs enough rows to be worth the conversion of its matrix.
CHUNK_BYTES, CHUNK_ROWS = 4 << 20, 1024
#: How much of a table is in memory at a time, and the most of it in one row group of the output:
#: large enough to compress well and to be read fast.
BATCH_BYTES = 16 << 20
#: The file in an output folder that names the job.
JOB = ".unspot-job.json"

Advance = Callable[[int], None]


def transform_file(erasure: Erasure, source: Path, target: Path, *, force: bool = False) -> int:
    """Erase one file into another of the same format, and return its number of rows.

    Parameters
    ----------
    erasure : Erasure
        The eraser, the columns and whether to reduce.
    source, target : Path
        ``.npy``, ``.npz``, ``.csv``, ``.tsv`` or ``.parquet``, the same ending for both.
    force : bool
        Replace ``target`` if it exists.

    Notes
    -----
    Memory: a few chunks of some megabytes, but all of a ``.npz``. ``target`` has a temporary name
    until it is complete.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from unspot import Eraser
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> np.save(folder / "x.npy", np.ones((4, 2), dtype="f4"))
    >>> erasure = Erasure(Eraser.projection(np.eye(2)[:, :1]))
    >>> transform_file(erasure, folder / "x.npy", folder / "clean.npy")
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
    with phase("Erasing", unit="rows", note=source.name) as here:
        here.total = _count_rows(source) if here.screen else None
        return _erase_file(erasure, source, target, here.advance)


def _erase_file(erasure: Erasure, source: Path, target: Path, advance: Advance) -> int:
    before = _state(source)
    with finished_file(target) as unfinished:
        rows = _ERASE[file_format(source)](source, unfinished, erasure, advance)
        if _state(source) != before:
            raise ValueError(
                f"Got {str(source)!r}, which changed while it was read. Nothing was written to "
                f"{str(target)!r}; run the command again."
            )
    return rows


def _state(path: Path) -> tuple[int, int, int]:
    """Collect what differs after a file was changed or replaced."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _count_rows(path: Path) -> int | None:
    """Count the rows of a file, or return None if that takes long or its error comes later."""
    with suppress(ValueError, OSError):
        if path.suffix.lower() == ".npy":
            return len(read_npy(path))
        if path.suffix.lower() == ".parquet":
            return int(open_parquet(path).metadata.num_rows)
    return None


# -- Arrays: .npy and .npz -------------------------------------------------------------------------


def _erase_npy(source: Path, target: Path, erasure: Erasure, advance: Advance) -> int:
    X = read_npy(source)
    with target.open("wb") as file:
        _write_erased(X, file, erasure, str(source), advance)
    return len(X)


def _erase_npz(source: Path, target: Path, erasure: Erasure, advance: Advance) -> int:
    """Erase one array of an archive, and copy the bytes of the others."""
    with reading(source):
        archive = zipfile.ZipFile(source)
    with archive, zipfile.ZipFile(target, "w") as out:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        name = erasure.array(names, str(source))
        X = read_npz(source, [name])[name]
        for info in archive.infolist():
            # A fresh entry: the old one has sizes and checksums of the old content.
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            entry.compress_type, entry.external_attr = info.compress_type, info.external_attr
            if info.filename.removesuffix(".npy") == name:
                with out.open(entry, "w", force_zip64=True) as file:
                    _write_erased(X, file, erasure, str(source), advance)
            else:
                with reading(source):
                    content = archive.read(info)
                out.writestr(entry, content)
    return len(X)


def _write_erased(
    X: NDArray[Any], file: Any, erasure: Erasure, where: str, advance: Advance
) -> None:
    """Write a ``.npy`` array chunk by chunk; a file is not mapped, so a full disk is an error."""
    check_matrix(X, where, min_rows=0)  # a part without rows is not a mistake
    eraser, reduce, d = erasure.eraser, erasure.reduce, X.shape[1]
    native = X.dtype.newbyteorder("=")
    sample = erase_batch(eraser, np.zeros((1, d), native), reduce=reduce, where=where)
    facts = {
        "descr": np.lib.format.dtype_to_descr(sample.dtype),
        "fortran_order": False,
        "shape": (len(X), width_out(eraser, reduce)),
    }
    np.lib.format.write_array_header_1_0(file, facts)
    size = max(CHUNK_ROWS, CHUNK_BYTES // max(1, d * X.dtype.itemsize))
    starts = range(0, len(X), size)
    chunks = (np.array(X[i : i + size], dtype=native, order="C") for i in starts)
    with closing(prefetched(chunks)) as coming:
        for start, chunk in zip(starts, coming, strict=True):
            erased = erase_batch(eraser, chunk, reduce=reduce, where=where, first_row=start)
            release_pages(X)
            file.write(np.ascontiguousarray(erased).data)
            advance(len(chunk))


# -- Parquet: other columns are written as they are ------------------------------------------------


def _erase_parquet(source: Path, target: Path, erasure: Erasure, advance: Advance) -> int:
    """Erase the vectors of a Parquet file; schema, compression and most row groups stay."""
    file, where = open_parquet(source), str(source)
    from pyarrow import parquet

    schema = file.schema_arrow
    check_columns(schema.names, schema.names, source)
    columns = erasure.columns(column_kinds(schema), where)
    erase = ArrowEraser(erasure.eraser, schema, columns, reduce=erasure.reduce, where=where)
    others = [name for name in erase.schema.names if name in schema.names and name not in columns]
    writer = parquet.ParquetWriter(
        target,
        erase.schema,
        compression=_codec(file.metadata),
        use_dictionary=others or False,  # numbers hardly repeat: a dictionary of them is waste
    )
    with writer:
        for batch in _parquet_batches(file, source, erasure.eraser.n_features):
            writer.write_batch(erase(batch))
            advance(batch.num_rows)
    return erase.n_rows


def _parquet_batches(file: Any, path: Path, n_features: int) -> Iterator[Any]:
    with reading_arrow(path):
        for i in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(i)
            # Other columns may be wider than the vectors.
            stored = group.total_byte_size // max(1, group.num_rows)  # before compression
            size = max(1, int(BATCH_BYTES // max(stored, 4 * n_features)))
            yield from file.iter_batches(size, row_groups=[i])


def _codec(metadata: Any) -> str:
    """Find the compression of a file, by its first column."""
    if metadata.num_row_groups == 0:
        return "snappy"
    name = str(metadata.row_group(0).column(0).compression).lower()
    return "none" if name == "uncompressed" else name


# -- CSV: other columns pass through as text -------------------------------------------------------


def _erase_csv(source: Path, target: Path, erasure: Erasure, advance: Advance) -> int:
    """Erase the number columns of a CSV file.

    Other columns are text: no "007" becomes 7, and no date changes its format.
    """
    import pyarrow as pa

    before, where = file_schema(source), str(source)
    check_columns(before.names, before.names, source)
    columns = erasure.columns(column_kinds(before), where)
    text, numbers = dict.fromkeys(before.names, pa.string()), dict.fromkeys(columns, pa.float64())
    schema = pa.schema(text | numbers)
    erase = ArrowEraser(erasure.eraser, schema, columns, reduce=erasure.reduce, where=where)
    with target.open("wb") as file:
        delimiter = csv_delimiter(source)
        file.write(_csv_lines([erase.schema.names], delimiter))
        for batch in _csv_batches(source, schema):
            file.write(_csv_bytes(erase(batch), delimiter))
            advance(batch.num_rows)
    return erase.n_rows


def _csv_batches(path: Path, schema: Any) -> Iterator[Any]:
    from pyarrow import csv as arrow_csv

    how = csv_options(path, column_types=schema, strings_can_be_null=False)
    read = arrow_csv.ReadOptions(block_size=BATCH_BYTES)
    with reading_arrow(path), arrow_csv.open_csv(path, read, *how) as reader:
        yield from reader


def _csv_bytes(batch: Any, delimiter: str) -> bytes:
    """Format rows as CSV with as few quotes as possible: numbers stay numbers for every reader."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    buffer = io.BytesIO()
    how = arrow_csv.WriteOptions(include_header=False, quoting_style="none", delimiter=delimiter)
    try:
        arrow_csv.write_csv(batch, buffer, how)
        return buffer.getvalue()
    except pa.ArrowInvalid:  # some text needs quotes
        texts = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        return _csv_lines(zip(*texts, strict=True), delimiter)


def _csv_lines(rows: Any, delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", delimiter=delimiter).writerows(rows)
    return text.getvalue().encode()


_ERASE: dict[str, Callable[[Path, Path, Erasure, Advance], int]] = {
    ".npy": _erase_npy,
    ".npz": _erase_npz,
    ".csv": _erase_csv,
    ".tsv": _erase_csv,
    ".parquet": _erase_parquet,
}


# -- Many files into a folder ----------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """Outcome of a job: outputs by name, and the files that could not be erased."""

    rows: int
    done: tuple[str, ...]  # written by this run
    kept: tuple[str, ...]  # finished by an earlier run
    skipped: dict[str, str]  # input to error


def transform_files(
    erasure: Erasure,
    inputs: Iterable[Path],
    folder: Path,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
    force: bool = False,
) -> Result:
    """Erase many files into a folder.

    Parameters
    ----------
    erasure : Erasure
        The eraser, the columns and whether to reduce.
    inputs : iterable of Path
        Files, and folders of them: ``.npy``, ``.npz``, ``.csv``, ``.tsv``, ``.parquet``.
    folder : Path
        Where the parts go. A part that is there and not older than its input is kept.
    workers : int, optional
        The number of files in work at the same time; by default the number of cores.
    skip_bad : bool
        Continue after a file that cannot be read or erased.
    force : bool
        Erase again what an earlier run of the same job has finished.

    Notes
    -----
    Workers are threads: decoding, matrix products and writing all release Python's lock. Memory per
    worker: about ten megabytes with arrays, about a hundred with Parquet.
    """
    inputs = list(inputs)
    parts = _plan(inputs, folder)
    n_workers = cores() if workers is None else check_count("workers", workers)
    _open_folder(folder, erasure, inputs)
    todo = {n: path for n, path in parts.items() if force or not _is_done(path, folder / n)}
    done: dict[str, int] = {}
    skipped: dict[str, str] = {}
    with phase("Erasing", len(todo), unit="files") as here:
        for name, outcome in _outcomes(erasure, todo, folder, n_workers):
            here.advance()
            if isinstance(outcome, int):
                done[name] = outcome
            # A ValueError is about the file that was read; an OSError may be about the disk.
            elif skip_bad and isinstance(outcome, (ValueError, FileNotFoundError)):
                skipped[str(parts[name])] = str(outcome)
                (folder / name).unlink(missing_ok=True)  # an older part of an earlier run
            else:
                raise outcome
    if skipped and len(skipped) == len(parts):
        raise ValueError(
            f"Got no file that could be erased. The first: {next(iter(skipped.values()))}"
        )
    kept = tuple(name for name in parts if name not in todo)
    return Result(sum(done.values()), tuple(sorted(done)), kept, dict(sorted(skipped.items())))


def _plan(inputs: Iterable[Path], folder: Path) -> dict[str, Path]:
    """Find the parts of a job: the source of each output, by its name in the folder.

    Files keep their names and, inside a folder, their place in it. Files in the output folder are
    not inputs.
    """
    parts: dict[str, Path] = {}
    for path in inputs:
        for name, source in _sources(path, folder):
            if name in parts:
                raise ValueError(
                    f"Got two inputs for {str(folder / name)!r}: {str(parts[name])!r} and "
                    f"{str(source)!r}. Rename one, or give the folder that holds both."
                )
            if (folder / name).exists() and source.samefile(folder / name):
                raise ValueError(
                    f"Got {str(source)!r} as input and output, but expected another folder."
                )
            parts[name] = source
    if not parts:
        raise ValueError("Got no input, but expected files or folders.")
    return parts


def _sources(path: Path, folder: Path) -> list[tuple[str, Path]]:
    if not path.is_dir():
        file_format(path)  # a missing file or an unknown format is an error now, not in an hour
        return [(path.name, path)]
    output = folder.resolve()
    sources = [
        (file.relative_to(path).as_posix(), file)
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in FORMATS
        and file.is_file()
        and not is_hidden(file, path)
        and not file.resolve().is_relative_to(output)
    ]
    if not sources:
        raise ValueError(
            f"Got the folder {str(path)!r}, but there is no file of format {', '.join(FORMATS)} in "
            f"it, apart from the output folder {str(folder)!r}."
        )
    return sources


def _open_folder(folder: Path, erasure: Erasure, inputs: Sequence[Path]) -> None:
    """Make the folder of a job, or refuse one that holds anything else."""
    if folder.is_file():
        raise ValueError(
            f"Got output {str(folder)!r}, which is a file, but expected a folder: several files, "
            "or a folder of them, are written to a folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.rglob(f".*{TEMPORARY}"):  # left by a run that was killed
        unfinished.unlink()
    # Parts are known by their names, so the same names from elsewhere are another job.
    roots = {os.path.abspath(path if path.is_dir() else path.parent) for path in inputs}
    job = json.dumps({**erasure.identity(), "inputs": sorted(roots)}, indent=1).encode()
    record = folder / JOB
    if record.is_file() and record.read_bytes() == job:
        return
    if any(folder.iterdir()):
        raise ValueError(
            f"Got output folder {str(folder)!r}, which is not empty and does not belong to this "
            "job: it was written from other inputs, with another eraser, other columns or another "
            "--reduce, or not by `unspot transform`. Choose another folder, or delete this one."
        )
    write_atomically(record, job)


def _is_done(source: Path, target: Path) -> bool:
    return target.is_file() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns


def _outcomes(
    erasure: Erasure, todo: dict[str, Path], folder: Path, workers: int
) -> Iterator[tuple[str, Any]]:
    """Yield each part with its number of rows or its error, as they become ready."""
    stop = Event()

    def step(rows: int) -> None:
        if stop.is_set():  # another part failed: this one need not go on
            raise CancelledError

    n_workers = max(1, min(workers, len(todo)))
    with _blas_shared_by(n_workers), ThreadPoolExecutor(n_workers) as pool:
        futures = {
            pool.submit(_erase_file, erasure, source, folder / name, step): name
            for name, source in todo.items()
        }
        try:
            for future in as_completed(futures):
                yield futures[future], future.exception() or future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _blas_shared_by(workers: int) -> AbstractContextManager[Any]:
    """Share the cores among workers: more threads than cores make all of them slower."""
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(max(1, cores() // workers), "blas")
