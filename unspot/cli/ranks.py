"""Ranks as people type them."""

from __future__ import annotations

__all__ = ["parse_rank", "parse_ranks"]


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
