"""Which formats there are, told by a file's ending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["FORMATS", "file_format"]

FORMATS = (".npy", ".npz", ".csv", ".parquet")


def file_format(path: Path, formats: Sequence[str] = FORMATS) -> str:
    """The ending of a file, or ``.parquet`` for a folder of Parquet files; else an error."""
    if not path.exists():
        raise FileNotFoundError(f"Got {str(path)!r}, but there is no such file or folder.")
    if path.is_dir():
        if any(path.rglob("*.parquet")):
            return ".parquet"
        raise ValueError(f"Got the folder {str(path)!r}, but there is no .parquet file in it.")
    suffix = path.suffix.lower()
    if suffix not in formats:
        raise ValueError(
            f"Got {str(path)!r}, but expected a file of format {', '.join(formats)}. Convert it, "
            "or give it the right ending."
        )
    return suffix
