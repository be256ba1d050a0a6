"""Erasing one file into another of the same format, as a stream: whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrays import (
    DAMAGED,
    MORE_BYTES,
    Header,
    check_size,
    parsed,
    read_header,
    read_npy,
    reading,
    unreadable_array,
)
from unspot.io.arrow import (
    column_kinds,
    csv_dialect,
    csv_options,
    open_parquet,
    reading_arrow,
    refuse_twice,
    require_pyarrow,
)
from unspot.io.columns import check_matrix
from unspot.io.files import (
    Sink,
    file_format,
    finished_file,
    prefetched,
    refuse_existing,
    temporary_name,
)
from unspot.scale.batches import ArrowEraser, Erasure, erase_batch, width_out

__all__ = ["Written", "count_rows", "erase_file", "transform_file"]

#: How much of an array is read at a time. Small pieces stay in the cache and cost no page faults,
#: but a product needs enough rows to be worth the conversion of its matrix.
CHUNK_BYTES, CHUNK_ROWS = 4 << 20, 1024

#: How much of a table is in memory at a time, and the most of it in one row group of the output:
#: large enough to compress well and to be read fast.
BATCH_BYTES = 16 << 20

Advance = Callable[[int], None]


class Written(NamedTuple):
    """What was written for one file."""

    rows: int
    size: int
    sha256: str


class _Count(NamedTuple):
    expected: int  # what the input says of itself
    erased: int


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
    Memory: a few chunks of some megabytes. ``target`` has a temporary name until it is complete.

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
    format_, before = file_format(source), _state(source)
    with finished_file(target, hashed=hashed) as sink:
        expected, erased = _ERASE[format_](source, sink, erasure, advance)
        sink.flush()
        if _state(source) != before:
            expected = count_rows(erasure, source, format_)
        written = count_rows(erasure, temporary_name(target), format_)
        if not expected == erased == written:
            raise ValueError(
                f"Got {expected} rows in {str(source)!r}, but wrote {written} of them to "
                f"{str(target)!r}. Did the input change meanwhile? Nothing was kept; run the "
                "command again."
            )
        return Written(erased, sink.tell(), sink.sha256)


def _state(path: Path) -> tuple[int, int, int]:
    """What differs after a file was changed or replaced."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def count_rows(erasure: Erasure, path: Path, format_: str) -> int:
    """The number of rows that a file says it has; those of a CSV file are counted."""
    if format_ == ".npz":
        return _count_npz(path, erasure)
    if format_ in (".csv", ".tsv"):
        return _count_csv(path)
    return count_npy(path) if format_ == ".npy" else _count_parquet(path)


# -- Arrays: .npy and .npz -------------------------------------------------------------------------


def _erase_npy(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> _Count:
    """Erase the array of a ``.npy`` file.

    Memory: a few chunks of rows. Reads and writes sequentially, which is fast on a disk. Nothing is
    mapped, so that a full disk is an error and not a crash.
    """
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return _erase_stream(file, size, sink, erasure, advance, source)


def _erase_npz(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> _Count:
    """Erase one array of a ``.npz`` file and copy the others byte by byte."""
    count = _Count(0, 0)
    with _open_zip(source) as archive, zipfile.ZipFile(sink, "w") as out:
        member = _member(archive, erasure, source)
        for info in archive.infolist():
            # A fresh entry: the old one has sizes and checksums of the old content.
            entry = zipfile.ZipInfo(info.filename, info.date_time)
            entry.compress_type, entry.external_attr = info.compress_type, info.external_attr
            with (
                _open_member(archive, info, source) as old,
                out.open(entry, "w", force_zip64=True) as new,
            ):
                if info.filename == member:
                    count = _erase_stream(old, info.file_size, new, erasure, advance, source)
                else:
                    while piece := _read(old, 1 << 24, source):
                        new.write(piece)
    return count


def count_npy(path: Path) -> int:
    """The number of rows of a ``.npy`` file; one that is cut or too long is refused."""
    with path.open("rb") as file:
        return _read_header(file, path, path.stat().st_size).n_rows


def _count_npz(path: Path, erasure: Erasure) -> int:
    """The number of rows of the array that is erased."""
    with _open_zip(path) as archive:
        info = archive.getinfo(_member(archive, erasure, path))
        with _open_member(archive, info, path) as file:
            return _read_header(file, path, info.file_size).n_rows


def _member(archive: zipfile.ZipFile, erasure: Erasure, path: Path) -> str:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    return f"{erasure.array(names, str(path))}.npy"


def _erase_stream(
    file: Any, size: int, sink: Any, erasure: Erasure, advance: Advance, path: Path
) -> _Count:
    """Erase an open array of so many bytes, its header included."""
    eraser, reduce, where = erasure.eraser, erasure.reduce, str(path)
    header = _read_header(file, path, size)  # refuses one that is cut or too long, before the work
    if len(header.shape) != 2 or header.shape[0] > 0:  # a part without rows is not a mistake
        check_matrix(np.broadcast_to(np.zeros((), header.dtype), header.shape), where)
    n_rows, d = header.shape
    sample = np.zeros((1, d), _native(header.dtype))
    dtype = erase_batch(eraser, sample, reduce=reduce, where=where).dtype
    np.lib.format.write_array_header_1_0(
        sink,
        {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (n_rows, width_out(eraser, reduce)),
        },
    )
    start = 0
    with closing(prefetched(_chunks(file, header, path))) as chunks:
        for X in chunks:
            erased = erase_batch(eraser, X, reduce=reduce, where=where, first_row=start)
            # The buffer of X is read into again; what is written must not be part of it.
            shared = np.may_share_memory(erased, X)
            sink.write(erased.copy() if shared else np.ascontiguousarray(erased))
            start += len(X)
            advance(len(X))
    if isinstance(file, zipfile.ZipExtFile) and _read(file, 1, path):  # its end is checked there
        raise unreadable_array(path, ValueError(MORE_BYTES))
    return _Count(n_rows, start)


def _chunks(file: Any, header: Header, path: Path) -> Iterator[NDArray[Any]]:
    """Rows of an opened array, in two buffers by turns: one is read into while one is used."""
    n_rows, d = header.shape
    size = max(CHUNK_ROWS, CHUNK_BYTES // max(1, d * header.dtype.itemsize))
    native = _native(header.dtype)
    if header.fortran_order:
        whole = _columns_first(file, header, path)
        for start in range(0, n_rows, size):
            yield np.array(whole[start : start + size], dtype=native, order="C")
        return
    buffers = cycle([np.empty((min(size, n_rows), d), header.dtype) for _ in range(2)])
    for start in range(0, n_rows, size):
        rows = next(buffers)[: min(size, n_rows - start)]
        _fill(file, rows, path)
        yield rows.astype(native, copy=False)


def _columns_first(file: Any, header: Header, path: Path) -> NDArray[Any]:
    """An array that is stored column by column: a map, or in memory inside an archive."""
    if not isinstance(file, zipfile.ZipExtFile):
        return read_npy(path)
    flat = np.empty(int(np.prod(header.shape)), header.dtype)
    _fill(file, flat, path)
    return flat.reshape(header.shape, order="F")


def _fill(file: Any, array: NDArray[Any], path: Path) -> None:
    view = array.data.cast("B")
    done = 0
    while done < len(view):
        with reading(path, errors=DAMAGED):  # an error of the system may be gone next time
            got = file.readinto(view[done:])
        if not got:
            raise _cut(path, done, len(view))
        done += got


def _read(file: Any, size: int, path: Path) -> bytes:
    with reading(path, errors=DAMAGED):
        data: bytes = file.read(size)
    return data


def _read_header(file: Any, path: Path, size: int) -> Header:
    with reading(path):
        header = parsed(lambda: read_header(file))
        if header.dtype.hasobject:
            raise ValueError("Python objects in dtype")
        check_size(header, size - file.tell())
    return header


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=")


def _open_zip(path: Path) -> zipfile.ZipFile:
    with reading(path):
        return zipfile.ZipFile(path)


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Any:
    with reading(path):
        return archive.open(info)


def _cut(path: Path, got: int, expected: int) -> ValueError:
    return ValueError(
        f"Got {str(path)!r}, which ends too early ({got:,} of {expected:,} bytes). Was it copied "
        "or written to the end?"
    )


# -- Parquet: other columns are written as they are ------------------------------------------------


def _count_parquet(path: Path) -> int:
    """The number of rows, from the footer."""
    return int(open_parquet(path).metadata.num_rows)


def _erase_parquet(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> _Count:
    """Erase the vectors of a Parquet file.

    Schema, column types, order, compression and row groups (unless huge) are kept.
    """
    file, where = open_parquet(source), str(source)
    from pyarrow import parquet

    schema = file.schema_arrow
    refuse_twice(schema.names, schema.names, source)
    columns = erasure.columns(column_kinds(schema), where)
    erase = ArrowEraser(erasure.eraser, schema, columns, reduce=erasure.reduce, where=where)
    others = [name for name in erase.schema.names if name in schema.names and name not in columns]
    writer = parquet.ParquetWriter(
        sink,
        erase.schema,
        compression=_codec(file.metadata, columns[0]),
        use_dictionary=others or False,  # numbers hardly repeat: a dictionary of them is waste
    )
    start = 0
    with writer:
        for batch in _parquet_batches(file, source, erasure.eraser.n_features):
            writer.write_batch(erase(batch, start))
            start += batch.num_rows
            advance(batch.num_rows)
    return _Count(file.metadata.num_rows, start)


def _parquet_batches(file: Any, path: Path, n_features: int) -> Iterator[Any]:
    with reading_arrow(path):
        for group in range(file.metadata.num_row_groups):
            size = _rows_per_batch(file.metadata.row_group(group), n_features)
            yield from file.iter_batches(size, row_groups=[group])


def _rows_per_batch(group: Any, n_features: int) -> int:
    """How many rows of a row group make a batch: other columns may be wider than the vectors."""
    stored = group.total_byte_size // max(1, group.num_rows)  # before compression
    return max(1, int(BATCH_BYTES // max(stored, 4 * n_features)))


def _codec(metadata: Any, column: str) -> str:
    """The compression of the vectors, which are nearly all of a file."""
    if metadata.num_row_groups == 0:
        return "snappy"
    group = metadata.row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    vectors = next((c for c in chunks if c.path_in_schema.split(".")[0] == column), chunks[0])
    name = str(vectors.compression).lower()
    return "none" if name == "uncompressed" else name


# -- CSV: other columns pass through as text -------------------------------------------------------


def _count_csv(path: Path) -> int:
    """The number of rows, by reading one column."""
    names = list(_csv_kinds(path))
    return sum(batch.num_rows for batch in _csv_batches(path, _csv_schema(names, []), names[:1]))


def _erase_csv(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> _Count:
    """Erase the number columns of a CSV file.

    Other columns are text: no "007" becomes 7, and no date changes its format.
    """
    kinds, where = _csv_kinds(source), str(source)
    columns = erasure.columns(kinds, where)
    schema = _csv_schema(list(kinds), columns)
    erase = ArrowEraser(erasure.eraser, schema, columns, reduce=erasure.reduce, where=where)
    dialect = csv_dialect(source)
    sink.write(_csv_lines([erase.schema.names], dialect[0]))
    start = 0
    for batch in _csv_batches(source, schema):
        sink.write(_csv_bytes(erase(batch, start), *dialect))
        start += batch.num_rows
        advance(batch.num_rows)
    return _Count(_count_csv(source), start)


def _csv_kinds(path: Path) -> dict[str, str]:
    """The columns of a CSV file, and their kinds as far as its first megabytes tell."""
    require_pyarrow("CSV files")
    from pyarrow import csv as arrow_csv

    try:
        parse, convert = csv_options(path)
        with reading_arrow(path), arrow_csv.open_csv(path, None, parse, convert) as reader:
            reader.read_next_batch()
            schema = reader.schema
            refuse_twice(schema.names, schema.names, path)
    except StopIteration:
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.") from None
    return column_kinds(schema)


def _csv_schema(names: Sequence[str], features: Sequence[str]) -> Any:
    import pyarrow as pa

    vectors = set(features)
    return pa.schema({name: pa.float64() if name in vectors else pa.string() for name in names})


def _csv_batches(path: Path, schema: Any, only: Sequence[str] | None = None) -> Iterator[Any]:
    from pyarrow import csv as arrow_csv

    parse, convert = csv_options(
        path, column_types=schema, strings_can_be_null=False, include_columns=only
    )
    read = arrow_csv.ReadOptions(block_size=BATCH_BYTES)
    with reading_arrow(path), arrow_csv.open_csv(path, read, parse, convert) as reader:
        yield from reader


def _csv_bytes(batch: Any, delimiter: str, decimal: str) -> bytes:
    """The rows as CSV with as few quotes as possible: numbers stay numbers for every reader."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    buffer = io.BytesIO()
    options = arrow_csv.WriteOptions(
        include_header=False, quoting_style="none", delimiter=delimiter
    )
    columns = [_decimals(column, decimal) for column in batch.columns]
    batch = pa.record_batch(columns, names=batch.schema.names)
    try:
        arrow_csv.write_csv(batch, buffer, options)
        return buffer.getvalue()
    except pa.ArrowInvalid:  # some text needs quotes
        texts = [column.cast(pa.string()).to_pylist() for column in columns]
        return _csv_lines(zip(*texts, strict=True), delimiter)


def _decimals(column: Any, decimal: str) -> Any:
    """Numbers as text with another decimal point than Arrow's; other columns as they are."""
    import pyarrow as pa
    from pyarrow import compute

    if decimal == "." or not pa.types.is_floating(column.type):
        return column
    return compute.replace_substring(column.cast(pa.string()), ".", decimal)


def _csv_lines(rows: Any, delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", delimiter=delimiter).writerows(rows)
    return text.getvalue().encode()


_ERASE: dict[str, Callable[[Path, Sink, Erasure, Advance], _Count]] = {
    ".npy": _erase_npy,
    ".npz": _erase_npz,
    ".csv": _erase_csv,
    ".tsv": _erase_csv,
    ".parquet": _erase_parquet,
}
