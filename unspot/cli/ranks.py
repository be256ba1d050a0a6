"""Ranks as people type them."""

from __future__ import annotations

__all__ = ["parse_rank", "parse_ranks"]


def parse_rank(text: str, option: str = "--rank") -> int | float:
    """A rank as typed: an integer, or a fraction of the features.

    Examples
    --------
    >>> parse_rank("125"), parse_rank("0.5")
    (125, 0.5)
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise ValueError(
        f"Got {option} {text}, but expected an integer such as 125 or a fraction such as 0.5."
    )


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
        return [parse_rank(part.strip(), option) for part in text.split(",")]
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
