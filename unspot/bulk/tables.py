"""Erasing Parquet and CSV files as a stream; other columns pass through as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unspot.bulk.batches import erase_arrow_batch, erased_schema
from unspot.bulk.erasure import Erasure
from unspot.io.arrow import column_kinds, require_pyarrow
from unspot.io.arrow_files import parse_options, unreadable_csv
from unspot.io.parquet import open_parquet, unreadable
from unspot.io.writing import Sink

__all__ = ["count_csv", "count_parquet", "erase_csv", "erase_parquet"]

Advance = Callable[[int], None]

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
