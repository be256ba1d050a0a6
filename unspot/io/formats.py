"""Which formats there are, told by a file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["FORMATS", "file_format", "is_hidden"]

FORMATS = (".npy", ".npz", ".csv", ".parquet")


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """The ending of a file, or ``.parquet`` for a folder of Parquet files; else an error."""
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
    """Whether a file of a folder is no data: a name on the way to it begins with . or _.

    So do the unfinished files of Spark and others, in folders such as ``_temporary``.

    Examples
    --------
    >>> is_hidden(Path("a/_temporary/x.npy"), Path("a")), is_hidden(Path("_a/x.npy"), Path("_a"))
    (True, False)
    """
    return any(name.startswith((".", "_")) for name in file.relative_to(folder).parts)
