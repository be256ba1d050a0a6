"""Where results go: never over a file that the same command reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["refuse_inputs"]


def refuse_inputs(
    outputs: Mapping[str, Path | str | None], inputs: Iterable[Path | str | None]
) -> None:
    """An error if an output is one of the files to read: it would be lost, with --force too.

    Parameters
    ----------
    outputs : mapping of str to path or None
        By their options; ``-`` is stdout, and None was not given.
    inputs : iterable of path or None
        Files, or folders of Parquet files; what is not there is left to those who read it.
    """
    given = {option: Path(path) for option, path in outputs.items() if path is not None}
    existing = {option: path for option, path in given.items() if path.is_file()}
    if not existing:
        return
    read = [file for path in inputs if path is not None for file in _files(Path(path))]
    for option, path in existing.items():
        for file in read:
            if path.samefile(file):
                raise ValueError(
                    f"Got {option} {str(path)!r}, which this command reads ({str(file)!r}), but "
                    "expected another file: that one would be lost. Choose another name."
                )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(path.rglob("*.parquet"))
    return [path] if path.is_file() else []
