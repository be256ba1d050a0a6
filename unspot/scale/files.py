"""Erasing ``.npy`` and ``.npz`` files as a stream, a chunk of rows at a time."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspot.io.arrays import (
    DAMAGED,
    check_matrix,
    parsed,
    read_npy,
    reading,
    unreadable_array,
)
from unspot.io.arrow import (
    column_kinds,
    open_parquet,
    parse_options,
    require_pyarrow,
    unreadable,
    unreadable_csv,
)
from unspot.io.files import Sink, finished_file, refuse_existing, temporary_name
from unspot.io.sources import prefetched
from unspot.io.tables import file_format
from unspot.scale.batches import (
    Erasure,
    erase_arrow_batch,
    erase_batch,
    erased_schema,
    rows_per_chunk,
    width_out,
)

__all__ = [
    "Written",
    "count_csv",
    "count_npy",
    "count_npz",
    "count_parquet",
    "count_rows",
    "erase_csv",
    "erase_file",
    "erase_npy",
    "erase_npz",
    "erase_parquet",
    "transform_file",
]

Advance = Callable[[int], None]


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def erase_npy(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase the array of a ``.npy`` file; gives the number of rows.

    Memory: a few chunks of rows. Reads and writes sequentially, as a disk likes it; nothing is
    mapped, so that a full disk is an error and not a crash.
    """
    with source.open("rb") as file:
        return _erase_stream(file, sink, erasure, advance, source)


def erase_npz(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase one array of a ``.npz`` file and copy the others byte by byte."""
    n_rows = 0
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
                    n_rows = _erase_stream(old, new, erasure, advance, source)
                else:
                    _copy(old, new, source)
    return n_rows


def count_npy(path: Path) -> int:
    """The number of rows of a complete ``.npy`` file, from its header and size."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        there = path.stat().st_size - file.tell()
    expected = int(np.prod(header.shape)) * header.dtype.itemsize
    if there < expected:
        raise _cut(path, there, expected)
    return header.shape[0] if header.shape else 0


def count_npz(path: Path, erasure: Erasure) -> int:
    """The number of rows of the array that is erased."""
    with _open_zip(path) as archive:
        info = archive.getinfo(_member(archive, erasure, path))
        with _open_member(archive, info, path) as file:
            header = _read_header(file, path)
    return header.shape[0] if header.shape else 0


def _member(archive: zipfile.ZipFile, erasure: Erasure, path: Path) -> str:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    return f"{erasure.array(names, str(path))}.npy"


def _erase_stream(file: Any, sink: Any, erasure: Erasure, advance: Advance, path: Path) -> int:
    header = _read_header(file, path)
    where = str(path)
    if len(header.shape) != 2 or header.shape[0] > 0:  # a part without rows is no mistake
        check_matrix(np.broadcast_to(np.zeros((), header.dtype), header.shape), where)
    n_rows, d = header.shape
    sample = erase_batch(
        erasure.eraser, np.zeros((1, d), _native(header.dtype)), reduce=erasure.reduce, where=where
    )
    _write_header(sink, (n_rows, width_out(erasure.eraser, erasure.reduce)), sample.dtype)
    start = 0
    with closing(prefetched(_chunks(file, header, path))) as chunks:
        for X in chunks:
            erased = erase_batch(
                erasure.eraser, X, reduce=erasure.reduce, where=where, first_row=start
            )
            # The buffer of X is read into again; what is written must not be part of it.
            mine = erased.copy() if np.may_share_memory(erased, X) else np.ascontiguousarray(erased)
            sink.write(mine)
            start += len(X)
            advance(len(X))
    if isinstance(file, zipfile.ZipExtFile) and _read(file, 1, path):  # at its end, it is checked
        raise unreadable_array(path, ValueError("it has more bytes than its header says"))
    return start


def _chunks(file: Any, header: _Header, path: Path) -> Iterator[NDArray[Any]]:
    """Rows of an opened array, in two buffers by turns: one is read into while one is used."""
    n_rows, d = header.shape
    if header.fortran_order:
        yield from _columns_first(file, header, path)
        return
    size = rows_per_chunk(d * header.dtype.itemsize)
    buffers = cycle([np.empty((min(size, n_rows), d), header.dtype) for _ in range(2)])
    for start in range(0, n_rows, size):
        rows = next(buffers)[: min(size, n_rows - start)]
        _fill(file, rows, path)
        yield rows.astype(_native(rows.dtype), copy=False)


def _columns_first(file: Any, header: _Header, path: Path) -> Iterator[NDArray[Any]]:
    """Rows of an array stored column by column: by a map, or in memory inside an archive."""
    n_rows, d = header.shape
    if isinstance(file, zipfile.ZipExtFile):
        flat = np.empty(n_rows * d, header.dtype)
        _fill(file, flat, path)
        whole = flat.reshape((n_rows, d), order="F")
    else:
        whole = read_npy(path)
    size = rows_per_chunk(d * header.dtype.itemsize)
    for start in range(0, n_rows, size):
        yield np.array(whole[start : start + size], dtype=_native(header.dtype), order="C")


def _fill(file: Any, array: NDArray[Any], path: Path) -> None:
    view = array.data.cast("B")
    done = 0
    while done < len(view):
        with reading(path, errors=DAMAGED):  # the system's own may be gone next time
            got = file.readinto(view[done:])
        if not got:
            raise _cut(path, done, len(view))
        done += got


def _copy(old: Any, new: Any, path: Path) -> None:
    while piece := _read(old, 1 << 24, path):
        new.write(piece)


def _read(file: Any, size: int, path: Path) -> bytes:
    with reading(path, errors=DAMAGED):
        data: bytes = file.read(size)
    return data


def _read_header(file: Any, path: Path) -> _Header:
    with reading(path):
        header = parsed(lambda: _header_at_start(file))
    if header.dtype.hasobject:
        raise unreadable_array(path, ValueError("Python objects in dtype"))
    return header


def _header_at_start(file: Any) -> _Header:
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    return _Header(*read(file))


def _write_header(sink: BinaryIO, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        sink, {"descr": descr, "fortran_order": False, "shape": shape}
    )


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


# -- Erasing Parquet and CSV files as a stream; other columns pass through as they are -------------


#: How much of a table is in memory at a time, and the most of it in one row group of the output:
#: large enough to compress well and to be read fast.
BATCH_BYTES = 16 << 20


def count_parquet(path: Path) -> int:
    """The number of rows, from the footer."""
    return int(open_parquet(path).metadata.num_rows)


def erase_parquet(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase the vectors of a Parquet file; gives the number of rows.

    Schema, column types, order, compression and row groups (unless huge) are kept.
    """
    require_pyarrow("Parquet files")
    from pyarrow import parquet

    file = open_parquet(source)
    schema, where = file.schema_arrow, str(source)
    columns = erasure.columns(column_kinds(schema), where)
    out = erased_schema(schema, columns, erasure.eraser, reduce=erasure.reduce)
    others = [name for name in out.names if name in schema.names and name not in columns]
    writer = parquet.ParquetWriter(
        sink,
        out,
        compression=_codec(file.metadata, columns[0]),
        use_dictionary=others or False,  # numbers hardly repeat: a dictionary of them is waste
    )
    with writer:
        start = 0
        for batch in _parquet_batches(file, source, erasure.eraser.n_features):
            erased = erase_arrow_batch(
                erasure.eraser, batch, columns, reduce=erasure.reduce, where=where, first_row=start
            )
            writer.write_batch(erased)
            start += batch.num_rows
            advance(batch.num_rows)
    return start


def _parquet_batches(file: Any, path: Path, n_features: int) -> Iterator[Any]:
    pa = require_pyarrow()
    try:
        for group in range(file.metadata.num_row_groups):
            size = _rows_per_batch(file.metadata.row_group(group), n_features)
            yield from file.iter_batches(size, row_groups=[group])
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


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
    found = next((c for c in chunks if c.path_in_schema.split(".")[0] == column), chunks[0])
    name = str(found.compression).lower()
    return "none" if name == "uncompressed" else name


# -- CSV -----------------------------------------------------------------------------------------


def count_csv(path: Path) -> int:
    """The number of rows, by reading one column."""
    names, _ = _csv_head(path)
    return sum(batch.num_rows for batch in _csv_batches(path, [], names, names[:1]))


def erase_csv(source: Path, sink: Sink, erasure: Erasure, advance: Advance) -> int:
    """Erase the number columns of a CSV file; gives the number of rows.

    Other columns are text that passes through: no "007" becomes 7, no date changes its format.
    """
    names, kinds = _csv_head(source)
    columns = erasure.columns(kinds, str(source))
    start, head_is_written = 0, False
    for batch in _csv_batches(source, columns, names):
        erased = erase_arrow_batch(
            erasure.eraser,
            batch,
            columns,
            reduce=erasure.reduce,
            where=str(source),
            first_row=start,
        )
        if not head_is_written:
            sink.write(_csv_lines([erased.schema.names]))
            head_is_written = True
        sink.write(_csv_bytes(erased))
        start += batch.num_rows
        advance(batch.num_rows)
    return start


def _csv_head(path: Path) -> tuple[list[str], dict[str, str]]:
    """The columns of a CSV file, and their kinds as far as its first megabytes tell."""
    pa = require_pyarrow("CSV files")
    from pyarrow import csv as arrow_csv

    try:
        with arrow_csv.open_csv(path, parse_options=parse_options()) as reader:
            reader.read_next_batch()
            schema = reader.schema
    except StopIteration:
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.") from None
    except (pa.ArrowException, OSError) as error:
        raise unreadable_csv(path, error) from None
    if len(set(schema.names)) < len(schema.names):
        raise ValueError(f"Got {str(path)!r} with two columns of one name. Rename one of them.")
    return list(schema.names), column_kinds(schema)


def _csv_batches(
    path: Path,
    features: Sequence[str],
    names: Sequence[str],
    only: Sequence[str] | None = None,
) -> Iterator[Any]:
    pa = require_pyarrow("CSV files")
    from pyarrow import csv as arrow_csv

    types = {name: pa.float64() if name in set(features) else pa.string() for name in names}
    convert = arrow_csv.ConvertOptions(
        column_types=types, strings_can_be_null=False, include_columns=only
    )
    try:
        read = arrow_csv.ReadOptions(block_size=BATCH_BYTES)
        with arrow_csv.open_csv(path, read, parse_options(), convert) as reader:
            yield from reader
    except (pa.ArrowException, OSError) as error:
        raise unreadable_csv(path, error) from None


def _csv_bytes(batch: Any) -> bytes:
    """The rows as CSV with as few quotes as possible: numbers stay numbers for every reader."""
    pa = require_pyarrow()
    from pyarrow import csv as arrow_csv

    buffer = io.BytesIO()
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="none")
    try:
        arrow_csv.write_csv(batch, buffer, options)
        return buffer.getvalue()
    except pa.ArrowInvalid:  # some text needs quotes
        columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        return _csv_lines(zip(*columns, strict=True))


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


# -- Erasing one file into another of the same format, whole or not at all -------------------------


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
