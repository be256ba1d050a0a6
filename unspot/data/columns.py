"""Columns of labels and numbers in any form, read into plain arrays.

Labels are categories: strings, integers, booleans, pandas or polars categoricals. The integer 7 is
the name of a class, not a number to compute with. All messages about single columns are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.rows import in_memory, refuse_masked_or_sparse


def numbers_of(z: Any, *, n_rows: int | None, name: str, min_values: int) -> NDArray[np.float64]:
    """Check a continuous concept and return it as a matrix, (n, m)."""
    _refuse_none_or_masked(z, name)
    values = _to_numpy(z)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"Got {name} of shape {values.shape} and dtype {values.dtype}, but a continuous "
            "concept is a number or a vector of numbers for each row. Labels are "
            "read by Classes.read(z)."
        )
    if n_rows is not None:
        check_length(values, n_rows, name)
    values = values.astype(np.float64)
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Got {int(bad.sum())} missing or infinite values in {name} (the first in row "
            f"{int(np.argmax(bad))}), but expected a number for every row."
        )
    if min_values > 1 and np.all(values == values[0]):
        raise ValueError(
            f"Got the same value in every row of {name}, but expected at least two values: there "
            "is nothing to erase."
        )
    return values


def classes_of(z: Any, *, n_rows: int | None, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Encode labels of any type: the code of each row, and the sorted classes."""
    values = _as_vector(z, name)
    if n_rows is not None:
        check_length(values, n_rows, name, "labels")
    _refuse_missing(values, name)
    _refuse_measurements(values, name)
    classes, codes = _sorted_classes(values)
    return codes.reshape(-1).astype(np.int64), classes


#: From this many rows on, labels of which most rows have their own are refused as ids.
_ROWS_OF_IDS = 50
#: Characters that an array of text may take, however unequal its entries.
_WIDE_TEXT = 1_000_000
#: Numbers of more different values may be measurements.
_FEW_NUMBERS = 20
#: Classes of fewer rows get a warning.
_FEW_ROWS = 20
#: Names of classes that are compared with all others, the rarest.
_FEW_NAMES = 50


def refuse_ids(n: int, K: int, name: str) -> None:
    """Raise an error if K labels of n rows identify rows instead of grouping them."""
    if _ROWS_OF_IDS <= n < 2 * K:
        raise ValueError(
            f"Got {K:,} classes in {name} for {n:,} rows, but expected a label that many rows "
            "share: this looks like an id, or like a number. Name another column. A number is "
            "erased as unspot.data.Number.read(z), on the command line --kind; or cut it into bins."
        )


def doubt(classes: NDArray[Any]) -> str:
    """Return a warning if numbers taken for classes may be measurements, else "".

    Examples
    --------
    >>> doubt(np.arange(2)), doubt(np.arange(18, 80))[:43]
    ('', 'Got numbers of 62 different values in z, wh')
    """
    K = len(classes)
    if classes.dtype.kind not in "iuf" or K <= _FEW_NUMBERS:
        return ""
    return (
        f"Got numbers of {K} different values in z, which are taken for {K} classes without "
        "an order. If they are measurements, such as ages, erase them as numbers: "
        "unspot.data.Number.read(z), on the command line --kind; or cut them into bins."
    )


def shown(label: Any) -> str:
    """Show a label in a message, in quotes if it begins or ends with a blank."""
    text = str(label)
    return repr(text) if text != text.strip() or not text else text


def label_warnings(classes: NDArray[Any], counts: NDArray[Any], name: str) -> Iterator[str]:
    """Warn of classes that may be misspelt, and of classes with far fewer rows than others.

    Few are less than 20 rows that are less than a tenth of an even share.

    Examples
    --------
    >>> next(label_warnings(np.array(["femal", "female"]), np.array([1, 600]), "z"))[:61]
    "Got the classes 'femal' (1 row) and 'female' (600 rows) in z,"
    >>> next(label_warnings(np.array([0, 1]), np.array([6, 609]), "z"))[:34]
    'Got 6 of 615 rows of class 0 in z,'
    """
    number = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    alike = _alike(number)
    for pair in alike[:3]:
        both = " and ".join(f"{a!r} ({number[a]:,} row{'s' * (number[a] != 1)})" for a in pair)
        yield (
            f"Got the classes {both} in {name}, whose names differ by case, blanks or one letter, "
            "and which are taken for two classes. Correct the labels if they mean the same."
        )
    few = [a for a in number if number[a] < min(_FEW_ROWS, counts.sum() / (10 * len(counts)))]
    for a in few[:3]:
        if not any(a in pair for pair in alike):
            yield (
                f"Got {number[a]:,} of {counts.sum():,} rows of class {a!r} in {name}, but "
                f"expected at least {_FEW_ROWS}: what is learned from fewer is mostly chance. Add "
                "rows, or merge the class with another."
            )


def _alike(number: Mapping[Any, int]) -> list[tuple[str, str]]:
    """Find pairs of names that one writes by mistake, the less frequent first."""
    order = sorted((a for a in number if isinstance(a, str)), key=lambda a: number[a])
    plain = {a: " ".join(a.split()).casefold() for a in order}
    return [
        (a, b)
        for i, a in enumerate(order[:_FEW_NAMES])
        for b in order[i + 1 :]
        if (plain[a] == plain[b] and len(plain[a]) > 1)
        or (20 * number[a] < number[b] and _one_letter_apart(plain[a], plain[b]))
    ]


def _one_letter_apart(a: str, b: str) -> bool:
    """Compare two long names; names that differ by a digit are numbered."""
    i = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    one = a[i + 1 :] in (b[i:], b[i + 1 :]) or a[i:] == b[i + 1 :]
    return one and min(len(a), len(b)) > 3 and not (a[i : i + 1] + b[i : i + 1]).isdecimal()


def check_length(values: Any, n_rows: int, name: str, what: str = "values") -> None:
    """Raise an error unless there is one value for each row."""
    if len(values) != n_rows:
        raise ValueError(
            f"Got {len(values)} {what} in {name} for {n_rows} rows of X, but expected one for each "
            "row."
        )


def _sorted_classes(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sort the classes and code each value. O(n) for objects and integers in a small range."""
    if values.dtype.kind == "O":
        listed = values.tolist()
        classes = np.empty(len(set(listed)), dtype=object)  # labels may be tuples
        classes[:] = sorted(set(listed))
        codes = {label: code for code, label in enumerate(classes)}
        return classes, np.array([codes[label] for label in listed])
    if values.dtype.kind in "iu" and np.can_cast(values.dtype, np.int64) and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < len(values):
            offsets = values.astype(np.int64) - low
            present = np.bincount(offsets) > 0
            classes = (np.flatnonzero(present) + low).astype(values.dtype)
            return classes, (np.cumsum(present) - 1)[offsets]
    return np.unique(values, return_inverse=True)


def encode_as(z: Any, classes: NDArray[Any], *, name: str = "z") -> NDArray[np.int64]:
    """Encode labels by given classes; other labels are an error."""
    values, classes = _as_vector(z, name), np.asarray(classes)
    _refuse_missing(values, name)
    codes = {label: code for code, label in enumerate(classes.tolist())}
    present, numbers = _sorted_classes(values)
    known = np.array([codes.get(label, -1) for label in present.tolist()], dtype=np.int64)
    if len(unseen := present[known < 0]):
        raise ValueError(
            f"Got {np.count_nonzero(known[numbers] < 0)} labels in {name} that were not seen in "
            f"training ({', '.join(map(repr, unseen[:5].tolist()))}), but expected one of: "
            f"{', '.join(map(repr, classes[:10].tolist()))}."
        )
    return known[numbers.reshape(-1)]


def is_continuous(z: Any) -> bool:
    """Tell whether z holds fractional numbers, which only a continuous concept can have."""
    values = as_array(z)
    if values.dtype.kind != "f":
        return False
    finite = values[np.isfinite(values)]
    return bool(np.any(finite != np.round(finite)))


def _refuse_none_or_masked(z: Any, name: str) -> None:
    if z is None:
        raise ValueError(
            "Got no labels: this estimator requires y to be passed, but the target y is None. "
            f"Pass the concept's labels as the second argument, or as {name}=…"
        )
    refuse_masked_or_sparse(z, name)


def _as_vector(z: Any, name: str) -> NDArray[Any]:
    _refuse_none_or_masked(z, name)
    values = uncast(z)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"Got {name} of shape {values.shape}, but expected one label for each row: y should "
            "be a 1d array. Make one label of those of each row, such as 'f/nurse'."
        )
    if len(values) == 0:
        raise ValueError(f"Got an empty {name}, but expected one label for each row of X.")
    return plain_objects(values, name) if values.dtype.kind == "O" else values


def _to_numpy(z: Any) -> NDArray[Any]:
    # Works for pandas and polars series and for torch tensors, without importing these packages.
    if hasattr(z, "to_numpy"):
        return np.asarray(z.to_numpy())
    return np.asarray(in_memory(z))


def uncast(z: Any) -> NDArray[Any]:
    """Convert labels to an array that still shows missing labels and mixed types."""
    # numpy would turn a NaN among strings into the string 'nan', and a zero into '0'.
    if isinstance(z, Sequence):
        return np.asarray(z, dtype=object)
    values = _to_numpy(z)
    # numpy's strings of variable width hold a missing value that is not a string.
    return values.astype(object) if values.dtype.kind == "T" else values


def as_array(values: Any) -> NDArray[Any]:
    """Convert any column to an array, without making every entry as wide as a single long text."""
    values = in_memory(values)
    if isinstance(values, (list, tuple)) and all(isinstance(entry, str) for entry in values):
        return plain_objects(np.asarray(values, dtype=object), "values") if values else np.array([])
    return np.asarray(values)


def plain_objects(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Convert an array of objects to one of strings, integers or booleans, if all are of one type.

    Texts of which a few are far longer than the rest stay objects.
    """
    missing = missing_values(values)
    present = values[~missing].tolist()
    types = set(map(type, present))
    kinds = {_described(t) for t in types}
    if len(kinds) > 1:
        raise ValueError(
            f"Got {name} that mixes {' and '.join(sorted(kinds))}, but expected labels of one "
            "type. Convert them first, for example to strings."
        )
    if missing.any() or not present or tuple in types or _wastes_memory(present, types):
        return values
    plain = np.asarray(present)
    if plain.dtype.kind == "f" and all(issubclass(t, (int, np.integer)) for t in types):
        # No integer type holds both -1 and 2**63, and as floats different labels become equal.
        return np.array(list(map(int, present)), dtype=object)
    return plain if plain.ndim == 1 else values


def _wastes_memory(labels: list[Any], types: set[type]) -> bool:
    # An array of text is as wide as its longest entry, in every row.
    if not all(issubclass(t, (str, bytes)) for t in types):
        return False
    lengths = list(map(len, labels))
    return max(lengths) * len(lengths) > max(_WIDE_TEXT, 4 * sum(lengths))


def label_type(classes: NDArray[Any]) -> str:
    """Name the type of labels in messages: "a string", "a number" or "a boolean".

    Examples
    --------
    >>> label_type(np.array([2, 10])), label_type(np.array(["2", "10"]))
    ('a number', 'a string')
    """
    return _described(type(classes[0]))


def _described(cls: type) -> str:
    if issubclass(cls, (str, bytes)):
        return "a string"
    if issubclass(cls, (bool, np.bool_)):  # before numbers, since bool is a subclass of int
        return "a boolean"
    if issubclass(cls, (int, float, np.integer, np.floating)):
        return "a number"
    return cls.__name__


def missing_values(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Locate None, NaN, pandas.NA and NaT."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    listed = values.tolist()
    types = set(map(type, listed))
    always = {t for t in types if t.__name__ in ("NoneType", "NAType", "NaTType")}
    floats = {t for t in types if issubclass(t, (float, np.floating))}
    if not always | floats:  # no need to look at every value
        return np.zeros(len(values), dtype=bool)
    # NaN is the float that does not equal itself.
    return np.array([type(v) in always or (type(v) in floats and v != v) for v in listed])


def _refuse_missing(values: NDArray[Any], name: str) -> None:
    missing = missing_values(values)
    if missing.any():
        # One group of all rows without one would join strangers.
        instead = {"groups": "each a group of its own", "ids": "each an id of its own"}
        raise ValueError(
            f"Got {int(missing.sum())} missing labels in {name} (the first in row "
            f"{int(np.argmax(missing))}), but expected a label for every row. Drop those rows "
            "(commands do with --set drop_missing=true), or give them "
            f"{instead.get(name, 'a class of their own')}."
        )


def _refuse_measurements(values: NDArray[Any], name: str) -> None:
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        raise ValueError(f"Got infinity in {name}, but expected labels.")
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: got complex numbers in {name}.")
    if is_continuous(values):
        raise ValueError(
            f"Unknown label type: {name} holds fractional numbers, but labels were "
            "expected. Bin the values, or pass all of them as unspot.data.Number.read(z)."
        )
