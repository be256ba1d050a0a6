"""Which columns hold the vectors, by name, pattern or kind, and what a matrix of them must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from numpy.typing import NDArray

from unspot.checks import did_you_mean

#: What a column can hold: one vector per row, one number, one whole number, or anything else.
VECTOR, FLOAT, INTEGER, OTHER = "vector", "float", "integer", "other"


def missing(name: str, known: Iterable[str], where: str, what: str = "column") -> ValueError:
    """Make the error for a name that is not there, with the near matches.

    Examples
    --------
    >>> print(missing("gendre", ["gender", "emb"], "a.csv"))
    Got column 'gendre', but a.csv has no such column. Did you mean 'gender'? It has: emb, gender.
    """
    names = sorted(known)
    hints = (did_you_mean(typed, names) for typed in (name, name.lower(), name.upper()))
    guess = next(filter(None, hints), "")
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(names):
        joined = " + '/' + ".join(parts)
        guess = f" One concept is erased at a time: make one column of labels: {joined}."
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
    """Choose the columns that hold the vectors.

    Parameters
    ----------
    features : str, list of str or None
        A name, a pattern (``"e_*"``), a comma list of both, or None: then the only vector column,
        or else all columns of fractional numbers. The exact name of a column always means it.
    kinds : mapping
        The kind of every column: "vector", "float", "integer" or "other".
    taken : iterable of str or None
        Columns with the concept, the task or names, which are not features unless they are named.
    where : str
        The name of the table in messages.
    first_text : callable
        Describes the first value of a column that is not a number, where it is known.

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


def choose_features_of_fit(
    features: str | Sequence[str] | None,
    fitted: Sequence[str],
    kinds: Mapping[str, str],
    *,
    where: str = "the table",
) -> list[str]:
    """Choose the columns for an eraser: those that are asked for, or else those of its fit.

    Examples
    --------
    >>> kinds = {"e_1": "float", "e_0": "float", "price": "float"}
    >>> choose_features_of_fit(None, ["e_0", "e_1"], kinds)
    ['e_0', 'e_1']
    >>> choose_features_of_fit("e_*", ["e_0", "e_1"], kinds)
    ['e_0', 'e_1']
    """
    if features is None and fitted:
        if any(name not in kinds for name in fitted):
            raise missing_of_fit(fitted, kinds, where)
        features = fitted
    return in_order_of_fit(choose_features(features, kinds, where=where), fitted, where)


def in_order_of_fit(chosen: Sequence[str], fitted: Sequence[str], where: str) -> list[str]:
    """Sort the chosen columns as in the fit, if it had the same; leave others as they are.

    Other names may be meant. But with a part of the fit's names at other places, a column was
    lost, and the eraser would take each of these for its neighbour.
    """
    known = set(fitted)
    if set(chosen) == known:
        return list(fitted)
    moved = any(a != b and a in known for a, b in zip(chosen, fitted, strict=False))
    if moved and not known <= set(chosen):
        raise missing_of_fit(fitted, chosen, f"a choice of columns of {where}")
    return list(chosen)


def missing_of_fit(
    fitted: Sequence[str], there: Iterable[str], where: str, what: str = "column"
) -> ValueError:
    """Make the error for vectors of the fit that are not there, with the near matches."""
    known = list(there)
    lost = [name for name in fitted if name not in known]
    return ValueError(
        f"Got {where} without {what} {_listed(lost)}, but this eraser was fitted on "
        f"{in_short(fitted)}.{did_you_mean(lost[0], known)} Add what is missing. If the vectors "
        "have other names here, give them in the order of the fit, with --features or in Python "
        "features=[…]."
    )


def in_short(names: Sequence[str]) -> str:
    """List names in one line; of names that differ only in a number, the first and last.

    Examples
    --------
    >>> in_short(["income", *(f"e_{i}" for i in range(32))])
    'e_0 … e_31, income (33 columns)'
    """
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(next(iter(_patterns([name])), name), []).append(name)
    # The largest group first: a column that is a feature by mistake is then at the end.
    groups = sorted(alike.values(), key=len, reverse=True)
    shown = [f"{g[0]} … {g[-1]}" if len(g) > 2 else ", ".join(g) for g in groups]
    count = f" ({len(names)} columns)" if len(names) > 1 else ""
    return _listed(shown) + count if names else ""


def _parts(features: str | Sequence[str], kinds: Mapping[str, str]) -> list[str]:
    if not isinstance(features, str):
        # Names in a list are those that a fit recorded: in a CSV they may begin with a space.
        names = [name if name in kinds else name.strip() for name in features]
        return [name for name in names if name or name in kinds]
    if features in kinds:
        return [features]
    # People type a space after a comma; a name with a space is meant only if there is no other.
    parts = [part for part in features.split(",") if part.strip()]
    return [p if p in kinds and p.strip() not in kinds else p.strip() for p in parts]


def _by_name(
    wanted: Sequence[str], kinds: Mapping[str, str], where: str, first_text: Callable[[str], str]
) -> list[str]:
    if not wanted:
        raise ValueError("Got no features, but expected a column's name or a pattern.")
    chosen: dict[str, None] = {}  # a dict keeps the order and drops what is named twice
    for name in wanted:
        matches = [name] if name in kinds else [n for n in kinds if fnmatchcase(n, name)]
        if not matches:
            raise missing(name, kinds, where)
        chosen.update(dict.fromkeys(matches))
    if bad := [name for name in chosen if kinds[name] == OTHER]:
        raise ValueError(
            f"Got feature column {_listed(bad)} of {where}, which does not hold only numbers"
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
    chosen: Sequence[str], kinds: Mapping[str, str], where: str, first_text: Callable[[str], str]
) -> None:
    """Refuse a column that one bad cell made text: left out of e_0 … e_31, it would stay."""
    alike = _patterns(chosen)
    other = [name for name, kind in kinds.items() if kind == OTHER]
    if gaps := [name for name in other if _patterns([name]).keys() & alike.keys()]:
        raise ValueError(
            f"Got column {_listed(gaps)} of {where}, which does not hold only numbers"
            f"{first_text(gaps[0])}, among columns of numbers with similar names: it would be "
            "left out, and never erased. Correct it, or name all columns that are features, with "
            "--features or in Python features=[…] (for a file, of unspot.io.as_source)."
        )


def _patterns(names: Iterable[str]) -> Counter[str]:
    """Count names that differ only in the number at their end, by their pattern."""
    stems = [(name, name.rstrip("0123456789")) for name in names]
    return Counter(f"{stem or '[0-9]'}*" for name, stem in stems if stem != name)


def _way_out(example: str) -> str:
    """Say what to do, on the command line and in Python."""
    return (
        f"Say which columns hold the vectors, for example --features '{example}', or in Python "
        f"features='{example}' (for a file, of unspot.io.as_source)."
    )


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(name or "a column without a name" for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "nothing"


def check_matrix(X: NDArray[Any], where: str) -> NDArray[Any]:
    """Return X if it is a table of numbers with rows; else raise an error."""
    if X.ndim != 2:
        raise ValueError(f"Got X of shape {X.shape} in {where}, but expected (rows, features).")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Got an empty table: X of shape {X.shape} in {where}, but expected at least one row "
            "and one feature."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"Got X of dtype {X.dtype} in {where}, but expected numbers.")
    return X
