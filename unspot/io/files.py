"""Write files whole or not at all, and open files of every format with errors that name them."""

from __future__ import annotations

import csv
import errno
import math
import mmap
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from threading import get_ident
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

if TYPE_CHECKING:  # a wrong file is named before numpy is loaded
    import numpy as np
    from numpy.typing import NDArray

Read = TypeVar("Read")
Chunk = TypeVar("Chunk")

#: How the name of an unfinished file ends.
TEMPORARY = ".unspot-tmp"

#: Errors of the system that say nothing of the file, and what they mean.
_NO_ROOM = {
    errno.ENOSPC: "No space left on the disk",
    errno.EDQUOT: "No space left on the disk",
    errno.EFBIG: "A file this large is not allowed (by ulimit, or by the disk)",
}


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file: at any moment there is the old one or the new one, never a part of it.

    If two writers overlap, the last one wins.
    """
    with finished_file(path) as unfinished:
        unfinished.write_bytes(content)


@contextmanager
def finished_file(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; the file is renamed at the end, or removed after an error.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "out.bin"
    >>> with finished_file(path) as unfinished:
    ...     _ = unfinished.write_bytes(b"abc")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Hidden, in the same folder, and another one for every writer.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}{TEMPORARY}")
    with naming_full_disk(path):
        try:
            yield unfinished
            _sync(unfinished, os.O_RDWR)  # so that the rename cannot overtake the content
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        if hasattr(os, "O_DIRECTORY"):
            with suppress(OSError):  # the file is complete; some systems cannot sync a folder
                _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turn the system's error for a disk without space into one that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise OSError(
            error.errno,
            f"{_NO_ROOM[error.errno]} while writing {str(path)!r}. No part of a file was left. "
            "Free some space, or write to another disk, and run the same command again",
        ) from error


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse a path where something is that must not be replaced."""
    if path.is_dir():
        raise ValueError(
            f"Got output {str(path)!r}, which is a folder, but expected a file's name."
        )
    if path.exists() and not force:
        raise ValueError(
            f"Got output {str(path)!r}, which exists already. Choose another name, or replace it "
            "with --force."
        )


# -- Formats, by the ending of the name ------------------------------------------------------------


FORMATS = (".npy", ".npz", ".csv", ".tsv", ".parquet")


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """Find the ending of a file, or ``.parquet`` for a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    if path.is_dir():
        if any(not is_hidden(file, path) for file in path.rglob("*.parquet")):
            return ".parquet"
        raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(formats)}. Convert it, "
            "or give it the right ending."
        )
    return suffix


def is_hidden(file: Path, folder: Path) -> bool:
    """Check for a file that is not data: a name in its path begins with . or _.

    Spark and others name unfinished files so, in folders such as ``_temporary``.

    Examples
    --------
    >>> is_hidden(Path("a/_temporary/x.npy"), Path("a")), is_hidden(Path("_a/x.npy"), Path("_a"))
    (True, False)
    """
    return any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)


def prefetched(chunks: Iterator[Chunk]) -> Generator[Chunk]:
    """Read the next chunk in a thread while this one is used. Memory: two chunks.

    Examples
    --------
    >>> list(prefetched(iter([2, 1])))
    [2, 1]
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk


# -- Arrays: .npy and .npz -------------------------------------------------------------------------

#: Errors for an archive that is damaged, encrypted, or of an unknown kind, and for a damaged
#: header, which numpy reads as Python.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    tokenize.TokenError,
    SyntaxError,
    OverflowError,
)

#: How often a header is read before an error of the parser is raised.
PARSER_TRIES = 10


def read_npy(path: Path) -> NDArray[Any]:
    """Map the array of a ``.npy`` file into memory, read-only. Cost: reads only the header."""
    import numpy as np

    def header() -> tuple[Any, ...]:
        file.seek(0)
        return _read_header(file, path.stat().st_size)

    with reading(path), path.open("rb") as file:
        shape, fortran, dtype = parsed(header)
        return np.memmap(path, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def release_pages(array: NDArray[Any]) -> None:
    """Give the pages of a mapped file back, so that reading it keeps the resident memory small."""
    import numpy as np

    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.mode == "c":
            return  # a private map would lose what was written to it
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def read_npz(path: Path, names: list[str]) -> dict[str, NDArray[Any]]:
    """Read some arrays of a ``.npz`` file, by name."""
    with _open_npz(path) as file:
        arrays = {}
        for name in names:
            if name not in file.files:
                raise missing(name, file.files, str(path), "array")
            with reading(path, f"array {name!r} of "):
                parsed(partial(_check_member, file.zip, name))
                arrays[name] = parsed(partial(file.__getitem__, name))
        return arrays


def _check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Refuse a header that claims more than there is, before memory is asked for."""
    member = name if name in archive.namelist() else f"{name}.npy"
    with archive.open(member) as file:
        _read_header(file, archive.getinfo(member).file_size)


def _read_header(file: Any, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an open ``.npy`` file, and refuse a file of another size than it says."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    how = "read_array_header_1_0" if version == (1, 0) else "read_array_header_2_0"
    shape, fortran_order, dtype = getattr(np.lib.format, how)(file)
    if dtype.hasobject:
        raise ValueError("Python objects in dtype")
    if any(length < 0 for length in shape):
        raise ValueError(f"its header says shape {shape}")
    # Without overflow, however large the numbers of a damaged header are.
    expected, there = math.prod(shape) * dtype.itemsize, n_bytes - file.tell()
    if there < expected:
        raise ValueError(
            f"it ends too early, after {there:,} of {expected:,} bytes. Was it copied or written "
            "to the end?"
        )
    if there > expected:  # two files in one, or a damaged header: rows would be lost
        raise ValueError("it has more bytes than its header says")
    return shape, fortran_order, dtype


def npz_names(path: Path) -> list[str]:
    """List the names of the arrays in a ``.npz`` file."""
    with _open_npz(path) as file:
        return list(file.files)


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    import numpy as np

    with reading(path):
        opened = path.open("rb")
    with opened:  # numpy would leave its own file open if the archive is damaged
        with reading(path):
            file = np.load(opened, allow_pickle=False)
            if not hasattr(file, "files"):
                raise ValueError("it holds one array, as a .npy file does")
        yield file


def parsed(read: Callable[[], Read]) -> Read:
    """Call ``read``, in which numpy parses a header, and again after a false error.

    numpy parses headers as Python. Up to 3.11.7, CPython's parser fails with a SystemError if
    another thread or a finaliser parses at the same time (python/cpython#106905). The finaliser of
    an Arrow writer does: it formats its errors, for which Python parses source lines.
    """
    for _ in range(PARSER_TRIES - 1):
        try:
            return read()
        except SystemError:
            continue
    return read()


@contextmanager
def reading(path: Path, part: str = "") -> Iterator[None]:
    """Turn the errors of reading a numpy file into one that names it."""
    try:
        yield
    except (*DAMAGED, KeyError, MemoryError, OSError, ValueError) as error:
        raise _unreadable_array(path, error, part) from None


def _unreadable_array(path: Path, error: Exception, part: str) -> Exception:
    """Make the error for a file that is absent, no numpy file, or holds Python objects."""
    if not path.exists():
        return FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    if isinstance(error, MemoryError):  # the array is large, or its header is wrong
        return MemoryError(f"Got {part}{str(path)!r}, whose header asks for more ({error}).")
    if any(word in str(error) for word in ("pickle", "Object arrays", "Python objects")):
        return ValueError(
            f"Got {part}{str(path)!r}, which holds Python objects or is not a numpy file; reading "
            "it would mean unpickling, which can run any code. Expected numbers or strings: save "
            "labels with numpy.array(labels, dtype=str)."
        )
    return ValueError(f"Got {part}{str(path)!r}, which cannot be read as a numpy file ({error}).")


# -- Tables: CSV and Parquet, by Arrow -------------------------------------------------------------


def require_pyarrow(what: str = "Reading a CSV or Parquet file") -> Any:
    """Import pyarrow, or raise an error with the command that installs it."""
    from unspot.checks import require

    require(what, "io", "pyarrow")
    import pyarrow

    return pyarrow


def file_schema(path: Path) -> Any:
    """Read the schema of a CSV file, by its first block, or of the first of some Parquet files."""
    if not is_text(path):
        return open_parquet(parquet_parts([path])[0]).schema_arrow
    require_pyarrow("Reading a CSV file")
    from pyarrow import csv as arrow_csv

    try:
        with reading_arrow(path), arrow_csv.open_csv(path, None, *csv_options(path)) as reader:
            reader.read_next_batch()
            _ = reader.schema.names  # decodes them
            return reader.schema
    except StopIteration:
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.") from None


def read_csv(path: Path, **convert: Any) -> Any:
    """Read a text table; ``convert`` is for Arrow's ``ConvertOptions``."""
    require_pyarrow("Reading a CSV file")
    from pyarrow import csv as arrow_csv

    with reading_arrow(path):
        parse, convert_options = csv_options(path, **convert)
        table = arrow_csv.read_csv(path, None, parse, convert_options)
        _ = table.schema.names  # decodes them
    if not len(table):
        raise ValueError(f"Got an empty table: {str(path)!r} has no rows.")
    return table


def csv_texts(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Read columns of a text table to the letter."""
    import pyarrow as pa

    check_columns(file_schema(path).names, names, path)
    types = dict.fromkeys(names, pa.string())
    table = read_csv(
        path, include_columns=list(types), column_types=types, strings_can_be_null=False
    )
    return {name: table[name].to_pylist() for name in types}


def csv_options(path: Path, **convert: Any) -> tuple[Any, Any]:
    """Make the options by which Arrow parses and converts a text table."""
    from pyarrow import csv as arrow_csv

    # Texts may contain line breaks, wherever a block of the file ends.
    parse = arrow_csv.ParseOptions(delimiter=csv_delimiter(path), newlines_in_values=True)
    return parse, arrow_csv.ConvertOptions(**convert)


def csv_delimiter(path: Path) -> str:
    """Find what separates the columns of a text table.

    A ``.tsv`` has tabs. In a ``.csv`` it is what divides the header into most names: some countries
    write ``e_0;e_1``.
    """
    if path.suffix.lower() == ".tsv":
        return "	"
    with reading_arrow(path), path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline()
    return max(",;	", key=lambda delimiter: len(_cells(header, delimiter)))


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # Arrow will say what is wrong with it
        return []


def is_text(path: Path) -> bool:
    """Check the ending for a table of text: ``.csv`` or ``.tsv``."""
    return path.suffix.lower() in (".csv", ".tsv")


def read_parquet(paths: Sequence[Path], names: Sequence[str]) -> Any:
    """Read columns of Parquet files into one Arrow table.

    ``pyarrow.dataset`` would fill a column that a file lacks with nulls, and not name the file that
    differs from the others.
    """
    import pyarrow as pa

    tables = []
    for path in paths:
        file = open_parquet(path)
        check_columns(file.schema_arrow.names, names, path)
        with reading_arrow(path):
            tables.append(file.read(list(dict.fromkeys(names))))
    try:  # integers become fractions, and singles doubles, where parts differ in them
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(
            f"Got {str(paths[0].parent)!r}, whose parts do not agree in the types of their columns "
            f"({str(error).splitlines()[0]}). Write them with one schema."
        ) from None


def copy_rows(
    path: Path, parts: Mapping[Path, NDArray[Any]], arrays: Mapping[str, Any] | None = None
) -> None:
    """Write some rows of a file to each of several files, with all columns.

    Arrays of a ``.npz`` of any other length are copied as they are.
    """
    n_rows = sum(map(len, parts.values()))
    if is_text(path):
        delimiter = csv_delimiter(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            head, *lines = (line for line in csv.reader(file, delimiter=delimiter) if line)
    elif path.suffix.lower() in (".npy", ".npz"):
        arrays = arrays or read_npz(path, npz_names(path))
    else:
        sources = parquet_parts([path])
        table = read_parquet(sources, open_parquet(sources[0]).schema_arrow.names)
    for target, rows in parts.items():
        with finished_file(target) as unfinished:
            if is_text(path):
                with unfinished.open("w", encoding="utf-8", newline="") as file:
                    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
                    writer.writerows([head, *(lines[row] for row in rows)])
            elif arrays is None:
                from pyarrow import parquet

                parquet.write_table(table.take(rows), unfinished)
            else:
                import numpy as np

                some: Any = {
                    k: a[rows] if a.shape[:1] == (n_rows,) else a for k, a in arrays.items()
                }
                with unfinished.open("wb") as binary:
                    np.savez(binary, **some)


def check_columns(names: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    """Refuse a file that lacks a wanted column, or has it twice: either may be meant.

    Examples
    --------
    >>> check_columns(["id", "id", "emb"], ["emb"], Path("a.parquet"))
    """
    for name in wanted:
        if name not in names:
            raise missing(name, names, str(path))
        if names.count(name) > 1:
            raise ValueError(
                f"Got {str(path)!r} with two columns of the name {name!r}, but expected one. "
                "Rename or drop one of them."
            )


def parquet_parts(paths: Iterable[Path]) -> list[Path]:
    """List the Parquet files among files and folders, sorted within each folder."""
    parts: list[Path] = []
    for path in paths:
        if not path.is_dir():
            parts.append(path)
            continue
        files = sorted(file for file in path.rglob("*.parquet") if not is_hidden(file, path))
        if not files:
            raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
        parts += files
    return parts


def open_parquet(path: Path) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``, or raise an error that names the file."""
    require_pyarrow("Reading a Parquet file")
    from pyarrow import parquet

    if not path.is_file():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file.")
    with reading_arrow(path):
        # Small buffers and no map: a row group of gigabytes is read as a stream, and not whole.
        file = parquet.ParquetFile(
            path,
            memory_map=False,
            pre_buffer=False,
            buffer_size=1 << 16,
            page_checksum_verification=True,
        )
        _ = file.schema_arrow.names  # decodes them
        return file


@contextmanager
def reading_arrow(path: Path) -> Iterator[None]:
    """Turn Arrow's errors of reading a CSV or Parquet file into one that names it."""
    import pyarrow as pa

    try:
        yield
    except UnicodeError as error:  # Arrow's texts are UTF-8, the path included
        what = "name is" if isinstance(error, UnicodeEncodeError) else "column names are"
        raise ValueError(
            f"Got {str(path)!r}, whose {what} not UTF-8, but expected it to be. Rename it, or save "
            "it as UTF-8."
        ) from None
    except (pa.ArrowException, OSError) as error:
        kind = "CSV" if is_text(path) else "Parquet"
        if kind == "CSV" and path.stat().st_size == 0:
            raise ValueError(
                f"Got an empty table: {str(path)!r} has no rows, not even a header."
            ) from None
        cause = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"Got {str(path)!r}, which cannot be read as {kind} ({cause}).") from None


def missing(name: str, known: Iterable[str], where: str, what: str = "column") -> ValueError:
    """Make the error for a name that is not there, with the near matches.

    Examples
    --------
    >>> print(missing("gendre", ["gender", "emb"], "a.csv"))
    Got column 'gendre', but a.csv has no such column. Did you mean 'gender'? It has: emb, gender.
    """
    from unspot.checks import did_you_mean

    names = sorted(known)
    hints = (did_you_mean(typed, names) for typed in (name, name.lower(), name.upper()))
    guess = next(filter(None, hints), "")
    return ValueError(
        f"Got {what} {name!r}, but {where} has no such {what}.{guess} It has: {listed(names)}."
    )


def listed(names: Sequence[str], most: int = 12) -> str:
    """List names in one line, and how many more there are."""
    shown = ", ".join(name or "a column without a name" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "nothing"


# -- Content of JSON files -------------------------------------------------------------------------


def as_type(kind: Any, value: Any, where: str = "") -> Any:
    """Convert content of a JSON file, which anybody can edit, to the type that is declared.

    Parameters
    ----------
    kind : type
        A dataclass, a TypedDict, a plain type, ``Any``, ``Literal``, or a union, a list, a tuple
        or a mapping of such types. Names that a dataclass lacks are left out.
    value : object
        Value as parsed from JSON.
    where : str
        The name of the field, for the message.

    Examples
    --------
    >>> as_type(tuple[int | None, ...], [3, None])
    (3, None)
    >>> as_type(dict[str, float], {"loss": "low"}, "point")
    Traceback (most recent call last):
    ValueError: point.loss is 'low', but expected float
    """
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        fits = [option for option in arguments if _fits(option, value)]
        return as_type(fits[0] if fits else arguments[0], value, where)
    if not _fits(kind, value):
        raise ValueError(
            f"{where or 'the content'} is {value!r:.60}, but expected {origin.__name__}"
        )
    if is_dataclass(origin) or is_typeddict(origin):
        hints = {name: hint for name, hint in get_type_hints(origin).items() if name in value}
        members = {
            n: as_type(hint, value[n], f"{where}.{n}".lstrip(".")) for n, hint in hints.items()
        }
        try:
            return value if is_typeddict(origin) else origin(**members)
        except TypeError as error:  # a field is missing
            raise ValueError(f"{where or 'the content'}: {error}") from None
    if origin in (dict, Mapping):
        return {
            key: as_type(arguments[1], v, f"{where}.{key}".lstrip(".")) for key, v in value.items()
        }
    if origin in (list, tuple):
        return origin(as_type(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    return value


def _fits(kind: Any, value: Any) -> bool:
    """Check the type of a value, apart from what is inside it."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in (Any, Literal):
        return kind is Any or value in arguments
    if is_dataclass(origin) or origin is Mapping:
        return isinstance(value, dict)
    if is_typeddict(origin):
        return isinstance(value, dict) and origin.__required_keys__ <= value.keys()
    if origin is tuple:
        return isinstance(value, list) and len(value) in {
            len(arguments),
            len(value) * (... in arguments),
        }
    return type(value) is origin or (origin is float and type(value) is int)
