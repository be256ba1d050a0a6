"""Which files a job has, and where each goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from unspot.io.formats import FORMATS, file_format, is_hidden

__all__ = ["Part", "plan"]


class Part(NamedTuple):
    """One file of a job, and its name in the output folder."""

    source: Path
    output: str


def plan(inputs: Iterable[Path], folder: Path) -> list[Part]:
    """The parts of a job: files as they are, folders with all that is in them.

    Files keep their names and, inside a folder, their place in it. What lies in the output folder
    is no input.
    """
    parts: dict[str, Part] = {}
    for path in inputs:
        for part in _parts_of(path, folder):
            if part.output in parts:
                raise ValueError(
                    f"Got two inputs for {str(folder / part.output)!r}: "
                    f"{str(parts[part.output].source)!r} and {str(part.source)!r}. Rename one, or "
                    "give the folder that holds both."
                )
            parts[part.output] = part
    if not parts:
        raise ValueError("Got no input, but expected files or folders.")
    for part in parts.values():
        if (folder / part.output).exists() and part.source.samefile(folder / part.output):
            raise ValueError(
                f"Got {str(part.source)!r} as input and output, but expected another folder."
            )
    return list(parts.values())


def _parts_of(path: Path, folder: Path) -> list[Part]:
    if not path.is_dir():
        file_format(path)  # a missing file or a foreign format is an error now, not in an hour
        return [Part(path, path.name)]
    avoid = folder.resolve()
    if path.resolve().is_relative_to(avoid):
        raise ValueError(
            f"Got {str(path)!r} as input and {str(folder)!r} as output, but expected another "
            "folder for the output, one that does not hold the input."
        )
    found = [
        Part(file, file.relative_to(path).as_posix())
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in FORMATS
        and file.is_file()
        and not is_hidden(file, path)
        and not file.resolve().is_relative_to(avoid)
    ]
    if not found:
        raise ValueError(
            f"Got the folder {str(path)!r}, but there is no file of format {', '.join(FORMATS)} "
            "in it."
        )
    return found
