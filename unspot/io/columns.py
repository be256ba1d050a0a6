"""Which columns hold the vectors: names, patterns, and what to say when they are not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

__all__ = ["choose_features", "in_short", "missing"]

#: What a column can be: one vector a row, one number a row, a whole number a row, anything else.
VECTOR, FLOAT, INTEGER, OTHER = "vector", "float", "integer", "other"


def missing(name: str, known: Iterable[str], where: str, what: str = "column") -> ValueError:
    """The error for a name that is not there, with the near matches.

    Examples
    --------
    >>> print(missing("gendre", ["gender", "emb"], "a.csv"))
    Got column 'gendre', but a.csv has no such column. Did you mean 'gender'? It has: emb, gender.
    """
    names = sorted(known)
    folded = {n.casefold(): n for n in names}
    near = [folded[n] for n in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    guess = f" Did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(names):
        both = " + '/' + ".join(parts)
        alone = "One concept is erased at a time"
        guess = f" {alone}: to erase more, make one column of labels: {both}."
    return ValueError(
        f"Got {what} {name!r}, but {where} has no such {what}.{guess} It has: {_listed(names)}."
    )


def choose_features(
    features: str | Sequence[str] | None,
    kinds: Mapping[str, str],
    *,
    taken: Iterable[str | None] = (),
    where: str = "the table",
    first_text: Callable[[str], str] = lambda name: "",
) -> list[str]:
    """The columns that hold the vectors.

    Parameters
    ----------
    features : str, list of str or None
        A name, a pattern (``"e_*"``), a comma list of both, or None: then the only vector column,
        or else all columns of fractional numbers. A name that is there exactly is taken as it is.
    kinds : mapping
        Every column's name and kind: "vector", "float", "integer" or "other".
    taken : iterable of str or None
        Columns that are the concept, the task or names, never features by themselves.
    where : str
        What the table is called in messages.
    first_text : callable
        What to say of the first value of a column that is no number, where that is known.

    Examples
    --------
    >>> kinds = {"id": "integer", "e_0": "float", "e_1": "float", "gender": "other"}
    >>> choose_features("e_*", kinds)
    ['e_0', 'e_1']
    """
    if features is None:
        free = {name: kind for name, kind in kinds.items() if name not in set(taken)}
        chosen = _by_kind(free, where, first_text)
    else:
        chosen = _by_name(_parts(features, kinds), kinds, where, first_text)
    vectors = [name for name in chosen if kinds[name] == VECTOR]
    if vectors and len(chosen) > 1:
        raise ValueError(
            f"Got {len(chosen)} feature columns of {where}, of which {_listed(vectors)} hold whole "
            "vectors, but expected one vector column or many columns of numbers. "
            + _way_out(vectors[0])
        )
    return chosen


def in_short(names: Sequence[str]) -> str:
    """Names of columns for a line: of those alike but for a number, the first and the last.

    Examples
    --------
    >>> in_short(["income", *(f"e_{i}" for i in range(32))])
    'e_0 … e_31, income (33 columns)'
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(next(iter(_patterns([name])), name), []).append(name)
    # The largest first: what a user did not mean to be a feature is at the end.
    groups = sorted(alike.values(), key=len, reverse=True)
    shown = [f"{g[0]} … {g[-1]}" if len(g) > 2 else ", ".join(g) for g in groups]
    count = f" ({len(names)} columns)" if len(names) > 1 else ""
    return _listed(shown) + count if names else ""


def _parts(features: str | Sequence[str], kinds: Mapping[str, str]) -> list[str]:
    if not isinstance(features, str):
        return [
            name for name in (_listed_name(n, kinds) for n in features) if name or name in kinds
        ]
    if features in kinds:
        return [features]
    return [_typed_name(part, kinds) for part in features.split(",") if part.strip()]


def _listed_name(name: str, kinds: Mapping[str, str]) -> str:
    """Names of a list, as a fit remembers them, may begin with a space, as those of a CSV can."""
    return name if name in kinds else name.strip()


def _typed_name(part: str, kinds: Mapping[str, str]) -> str:
    """People type a space behind a comma; a name that has one is meant where no other is there."""
    bare = part.strip()
    return part if bare not in kinds and part in kinds else bare


def _by_name(
    wanted: Sequence[str],
    kinds: Mapping[str, str],
    where: str,
    first_text: Callable[[str], str],
) -> list[str]:
    if not wanted:
        raise ValueError("Got no features, but expected a column's name or a pattern.")
    chosen: dict[str, None] = {}  # a dict keeps the order and drops what is named twice
    for name in wanted:
        found = [name] if name in kinds else [n for n in kinds if fnmatchcase(n, name)]
        if not found:
            raise missing(name, kinds, where)
        chosen.update(dict.fromkeys(found))
    bad = [name for name in chosen if kinds[name] == OTHER]
    if bad:
        raise ValueError(
            f"Got feature column {_listed(bad)} of {where}, which does not hold numbers alone"
            f"{first_text(bad[0])}, but expected numbers or vectors of numbers."
        )
    return list(chosen)


def _by_kind(kinds: Mapping[str, str], where: str, first_text: Callable[[str], str]) -> list[str]:
    vectors = [name for name, kind in kinds.items() if kind == VECTOR]
    if vectors:
        return vectors
    floats = [name for name, kind in kinds.items() if kind == FLOAT]
    integers = [name for name, kind in kinds.items() if kind == INTEGER]
    if floats and integers:
        # A row number among the features would be a silent mistake: let the user say.
        example = next((name for name, _ in _patterns(floats).most_common(1)), "e_*")
        raise ValueError(
            f"Got {where} with {len(floats)} columns of fractional numbers and also whole numbers "
            f"in {_listed(integers)}, which may be features or not. {_way_out(example)}"
        )
    if not floats:
        raise ValueError(
            f"Got {where} with no column of vectors or fractional numbers. It has: "
            f"{_listed(list(kinds))}. {_way_out('emb')}"
        )
    _refuse_gaps(floats, kinds, where, first_text)
    return floats


def _refuse_gaps(
    chosen: Sequence[str],
    kinds: Mapping[str, str],
    where: str,
    first_text: Callable[[str], str],
) -> None:
    """One bad cell makes a column text: left out of e_0 … e_31, it would never be erased."""
    alike = _patterns(chosen)
    other = [name for name, kind in kinds.items() if kind == OTHER]
    gaps = [name for name in other if _patterns([name]).keys() & alike.keys()]
    if gaps:
        raise ValueError(
            f"Got column {_listed(gaps)} of {where}, which does not hold numbers alone"
            f"{first_text(gaps[0])}, among columns of numbers that are called alike: it would be "
            "left out, and never erased. Mend it, or name all columns that are features, with "
            "--features or in Python features=[…] (of a file, to unspot.io.as_source)."
        )


def _patterns(names: Iterable[str]) -> Counter[str]:
    """How many names are alike but for the number at their end, by what --features takes."""
    stems = [(name, name.rstrip("0123456789")) for name in names]
    return Counter(f"{stem or '[0-9]'}*" for name, stem in stems if stem != name)


def _way_out(example: str) -> str:
    """Messages reach the command line and Python; both need to know what to do."""
    return (
        f"Say which columns hold the vectors, for example --features '{example}', or in Python "
        f"features='{example}' (of a file, to unspot.io.as_source)."
    )


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(name or "a column without a name" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "nothing"
