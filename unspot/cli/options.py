"""Labelled rows for an eraser: columns as asked for, else as ``unspot fit`` wrote them down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from unspot.data.dataset import Split
    from unspot.eraser import Eraser
    from unspot.io import Table

__all__ = [
    "OnceCommand",
    "parse_rank",
    "parse_ranks",
    "read_labelled",
    "refuse_inputs",
    "refuse_orphans",
    "refuse_the_same",
]


def read_labelled(
    eraser: Eraser,
    path: Path,
    labels: Path | None,
    *,
    concept: str | None,
    features: str | None,
    task: str | None = None,
    option: str = "--labels",
) -> Table:
    """Rows with the concept's labels, which may be in a file of their own.

    Parameters
    ----------
    option : str
        What gives ``labels`` on the command line, for messages.
    """
    from unspot.data.dataset import refuse_continuous
    from unspot.io import read_table
    from unspot.io.tables import has_column

    own = concept or eraser.metadata.get("concept_name")
    if labels is not None and concept is None and not (own and has_column(labels, own)):
        own = None  # a fit names the concept after its file of labels, where it has one column
    elif labels is None and path.suffix.lower() == ".npy":
        raise ValueError(
            f"Got {str(path)!r}, one array without labels. Give them in a second file, with "
            f"{option}."
        )
    elif labels is None and own is None:
        raise ValueError(
            f"Got no concept. Name its column or array with --concept, or its file with {option}."
        )
    vectors = features or _remembered(eraser, path)
    table = read_table(path, features=vectors, concept=own, task=task, labels_file=labels)
    refuse_continuous(table.z)
    return table


def _remembered(eraser: Eraser, path: Path) -> str | list[str] | None:
    """What the vectors were called in the file of the fit, where that means something in this."""
    names = list(eraser.metadata.get("features", ()))
    kind = path.suffix.lower()
    # A .npy has no names at all, and many columns of a table are one array of a .npz.
    if not names or kind == ".npy" or (kind == ".npz" and len(names) > 1):
        return None
    return names[0] if len(names) == 1 else names


def refuse_orphans(labels: Path | None, rows: Path | None, names: tuple[str, str]) -> None:
    """Labels of a file that was not given are an error."""
    if labels is not None and rows is None:
        raise ValueError(f"Got {names[0]} without {names[1]}, the rows that they belong to.")


def refuse_the_same(learn: Split, test: Split, said: str, data: Path) -> None:
    """An error if rows to judge on are among those to learn from; some rows just occur twice."""
    from unspot.evaluation.held_out import share_among

    if (share := share_among(test, learn)) > 0.5:
        raise ValueError(
            f"Got {said} with {100 * share:.0f} % of the rows of {data.name}, but expected other "
            "rows to learn from: what was learned by heart is no evidence. Leave the option out to "
            "have the rows split at random."
        )


# -- Where results go: never over a file that the same command reads -------------------------------


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


# -- Ranks as people type them ---------------------------------------------------------------------


def parse_rank(text: str) -> int | float | str:
    """A rank as typed: an integer, a fraction of the features, or "auto".

    Examples
    --------
    >>> parse_rank("125"), parse_rank("0.5"), parse_rank("auto")
    (125, 0.5, 'auto')
    """
    return "auto" if text.strip().lower() == "auto" else _number(text, "--rank")


def parse_ranks(text: str | None, option: str = "--ranks") -> list[int | float] | None:
    """Ranks as typed: a comma list, or FIRST:LAST:STEP with both ends in it.

    Examples
    --------
    >>> parse_ranks("90,0.5,10"), parse_ranks("10:40:10")
    ([90, 0.5, 10], [10, 20, 30, 40])
    """
    if text is None:
        return None
    if ":" not in text:
        return [_number(part.strip(), option) for part in text.split(",")]
    try:
        first, last, step = (int(part) for part in text.split(":"))
        ranks = list(range(first, last + (1 if step > 0 else -1), step))
    except ValueError:
        ranks = []
    if not ranks:
        raise ValueError(
            f"Got {option} {text}, but expected FIRST:LAST:STEP such as 10:90:10, or a comma list "
            "such as 90,50,10."
        )
    return list(ranks)


def _number(text: str, option: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    or_auto = ", or auto" if option == "--rank" else ""
    raise ValueError(
        f"Got {option} {text}, but expected an integer such as 125 or a fraction such as 0.5"
        f"{or_auto}."
    )


# -- A command that takes one concept, one task, one list of features: never the last in silence ---


#: Options that people repeat because they want both. Of others, as --seed, a script may give
#: another value behind its own: there the last is meant.
_ONCE = ("concept", "features", "task")


class OnceCommand(TyperCommand):
    """Refuses a second value of an option that looks like a list and is none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for param in order:
            if param.name in _ONCE and order.count(param) > 1:
                raise ValueError(_twice(param))
        return super().parse_args(ctx, args)


def _twice(param: Any) -> str:
    from unspot.data.labels import TWO_CONCEPTS

    ways_out = {"concept": f" {TWO_CONCEPTS}", "features": " Give a comma list, such as e_0,e_1."}
    message = f"Got {param.opts[0]} more than once, but expected one value."
    return message + ways_out.get(param.name, "")
