"""Choose the columns that hold the vectors, and convert columns of Arrow to arrays.

Vectors are columns of list, large_list or fixed_size_list, or many columns of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import did_you_mean
from unspot.io.files import listed, missing

if TYPE_CHECKING:
    import pyarrow as pa

#: Kinds of a column: one vector per row, one number, one whole number, or anything else.
VECTOR, FLOAT, INTEGER, OTHER = "vector", "float", "integer", "other"


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
    others = set(taken)  # neither a kind nor a pattern means these
    free = {name: kind for name, kind in kinds.items() if name not in others}
    if features is None:
        chosen = _by_kind(free, where, first_text, kinds)
    else:
        chosen = _by_name(_parts(features, kinds), kinds, free, where, first_text)
    vectors = [name for name in chosen if kinds[name] == VECTOR]
    if vectors and len(chosen) > 1:
        raise ValueError(
            f"Got {len(chosen)} feature columns of {where}, of which {listed(vectors)} hold whole "
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
    >>> choose_features_of_fit("*", ["e_0", "e_1"], kinds)
    ['e_0', 'e_1']
    """
    if features is None and fitted:
        if any(name not in kinds for name in fitted):
            raise missing_of_fit(fitted, kinds, where)
        features = fitted
    others = set(kinds) - set(fitted) if set() < set(fitted) <= set(kinds) else set[str]()
    chosen = choose_features(features, kinds, taken=others, where=where)
    return in_order_of_fit(chosen, fitted, where)


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
        f"Got {where} without {what} {listed(lost)}, but this eraser was fitted on "
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
    return listed(shown) + count if names else ""


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
    wanted: Sequence[str],
    kinds: Mapping[str, str],
    free: Mapping[str, str],
    where: str,
    first_text: Callable[[str], str],
) -> list[str]:
    if not wanted:
        raise ValueError("Got no features, but expected a column's name or a pattern.")
    chosen: dict[str, None] = {}  # a dict keeps the order and drops what is named twice
    for name in wanted:
        matches = [name] if name in kinds else [n for n in free if fnmatchcase(n, name)]
        if not matches:
            raise missing(name, kinds, where)
        chosen.update(dict.fromkeys(matches))
    if bad := [name for name in chosen if kinds[name] == OTHER]:
        raise ValueError(
            f"Got feature column {listed(bad)} of {where}, which does not hold only numbers"
            f"{first_text(bad[0])}, but expected numbers or vectors of numbers."
        )
    return list(chosen)


def _by_kind(
    kinds: Mapping[str, str], where: str, first_text: Callable[[str], str], known: Iterable[str]
) -> list[str]:
    vectors = [name for name, kind in kinds.items() if kind == VECTOR]
    if vectors:
        return vectors
    floats = [name for name, kind in kinds.items() if kind == FLOAT]
    integers = [name for name, kind in kinds.items() if kind == INTEGER]
    if floats and integers:
        # A row number among the features would be a silent mistake: let the user say.
        example = _example(floats, known)
        raise ValueError(
            f"Got {where} with {len(floats)} columns of fractional numbers and also whole numbers "
            f"in {listed(integers)}, which may be features or not. {_way_out(example)}"
        )
    if not floats:
        raise ValueError(
            f"Got {where} with no column of vectors or fractional numbers. It has: "
            f"{listed(list(kinds))}. {_way_out('emb')}"
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
            f"Got column {listed(gaps)} of {where}, which does not hold only numbers"
            f"{first_text(gaps[0])}, among columns of numbers with similar names: it would be "
            "left out, and never erased. Correct it, or name all columns that are features, with "
            "--features or in Python features=[…] (for a file, of unspot.io.as_source)."
        )


def _example(names: Sequence[str], known: Iterable[str]) -> str:
    """Suggest features that catch no other column: a pattern, or the names if these are few.

    Examples
    --------
    >>> _example(["e_0", "e_1"], ["id", "e_0", "e_1"])
    'e_*'
    >>> _example(["s1", "bmi"], ["sex", "s1", "bmi"])
    's1,bmi'
    """
    pattern = next((pattern for pattern, _ in _patterns(names).most_common(1)), "*")
    if not any(fnmatchcase(name, pattern) for name in known if name not in names):
        return pattern
    return ",".join(names) if len(names) <= 12 else pattern.replace("*", "[0-9]*")


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


def check_matrix(X: NDArray[Any], where: str, *, min_rows: int = 1) -> NDArray[Any]:
    """Return X if it is a table of numbers with enough rows; else raise an error."""
    if X.ndim != 2:
        raise ValueError(f"Got X of shape {X.shape} in {where}, but expected (rows, features).")
    if X.shape[0] < min_rows or X.shape[1] == 0:
        raise ValueError(
            f"Got an empty table: X of shape {X.shape} in {where}, but expected at least one row "
            "and one feature."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"Got X of dtype {X.dtype} in {where}, but expected numbers.")
    return X


# -- Columns as matrices ---------------------------------------------------------------------------


def column_kinds(schema: pa.Schema) -> dict[str, str]:
    """Find the kind of every column: "vector", "float", "integer" or "other"."""
    return {field.name: _kind(field.type) for field in schema}


def _kind(type_: pa.DataType) -> str:
    from pyarrow import types

    if is_list(type_):
        return VECTOR if _kind(type_.value_type) in (FLOAT, INTEGER) else OTHER
    if types.is_floating(type_) or types.is_decimal(type_):
        return FLOAT
    return INTEGER if types.is_integer(type_) else OTHER


def is_list(type_: pa.DataType) -> bool:
    """Check for a list, large_list or fixed_size_list."""
    from pyarrow import types

    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


def matrix(batch: Any, features: Sequence[str], *, where: str, first_row: int = 0) -> NDArray[Any]:
    """Convert the feature columns of an Arrow table or batch to one (n, d) array.

    Without a copy for a vector column in one piece. Missing values and rows of another length are
    errors that name the row, counted from ``first_row``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> matrix(pa.table({"emb": [[1.0, 2.0], [3.0, 4.0]]}), ["emb"], where="t")
    array([[1., 2.],
           [3., 4.]])
    """
    columns = [_one_piece(batch.column(name)) for name in features]
    for name, column in zip(features, columns, strict=True):
        _refuse_nulls(column, name, where, first_row)
    if len(columns) == 1 and is_list(columns[0].type):
        return _vectors(columns[0], features[0], where, first_row)
    parts = [_numbers(column) for column in columns]
    dtype = np.result_type(*parts) if parts else np.dtype(float)
    out = np.empty((len(parts[0]), len(parts)), dtype)
    for j, part in enumerate(parts):
        out[:, j] = part
    return out


def matrix_dtype(schema: pa.Schema, features: Sequence[str]) -> np.dtype[Any]:
    """Find the dtype that ``matrix`` has for a table of this schema.

    Examples
    --------
    >>> import pyarrow as pa
    >>> matrix_dtype(pa.schema({"a": pa.float32(), "b": pa.int64()}), ["a", "b"])
    dtype('float64')
    """
    return matrix(schema.empty_table(), features, where="a table without rows").dtype


def _one_piece(column: Any) -> Any:
    """Combine a chunked column into one array; a single chunk is not copied."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def _refuse_nulls(column: Any, name: str, where: str, first_row: int, width: int = 1) -> None:
    """Refuse missing values of a column, or missing numbers in its vectors of ``width`` numbers."""
    if column.null_count:
        place = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"Got {column.null_count} missing values in column {name!r} of {where} (the first in "
            f"row {first_row + place // width}), but expected numbers in every row. Drop or impute "
            "those rows."
        )


def _vectors(column: Any, name: str, where: str, first_row: int) -> NDArray[Any]:
    flat = column.flatten()  # obeys the offset of a slice
    width = _width(column, name, where, first_row)
    _refuse_nulls(flat, name, where, first_row, width)
    return _numbers(flat).reshape(len(column), width)


def _width(column: Any, name: str, where: str, first_row: int) -> int:
    if hasattr(column.type, "list_size"):
        return int(column.type.list_size)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    if not len(lengths):
        return 0
    other = lengths != lengths[0]
    if other.any():
        row = int(np.argmax(other))
        raise ValueError(
            f"Got a vector of length {lengths[row]} in row {first_row + row} of column {name!r} of "
            f"{where}, but the first has length {lengths[0]}: expected vectors of one length."
        )
    return int(lengths[0])


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def values(column: Any) -> NDArray[Any]:
    """Convert a column of labels to a numpy array; a dictionary column to its values."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) and column.null_count:  # 7 must not become 7.0
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()


def first_text(column: Any) -> str:
    """Describe the first value of a column that is not a number, as a part of a sentence.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first_text(pa.array(["1.5", None, "oops"]))
    " (row 2: 'oops')"
    """
    for row, value in enumerate(column.to_pylist()):
        if value not in (None, "") and not _is_number(value):
            text = repr(value)
            return f" (row {row}: {text if len(text) < 40 else text[:39] + '…'})"
    return ""


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
