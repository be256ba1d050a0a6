"""Settings, versions and fingerprints of results, as pairs of name and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unspot.report.columns import Column, Results

__all__ = ["facts", "notes", "subtitle", "title_of"]

#: Parameters that are shown elsewhere, or decide no number.
_NO_SETTINGS = {"rank", "verbose", "device"}

Facts = tuple[tuple[str, str], ...]


def facts(columns: Sequence[Column]) -> tuple[tuple[str, Facts], ...]:
    """Groups of facts: the data, every eraser, how it was measured, versions."""
    if not columns:
        return ()
    groups = [("Data", _data(columns[0]))]
    groups += [(column.name, _eraser(column)) for column in columns]
    groups += [("Measured with", _measurement(columns))]
    versions = columns[0].metadata.get("versions", {})
    groups += [("Versions", tuple((str(k), str(v)) for k, v in versions.items()))]
    return tuple((name, found) for name, found in groups if found)


def notes(results: Results) -> tuple[str, ...]:
    """What a reader must know before comparing columns."""
    prints = {column.eraser.get("fingerprint") for column in results.columns} - {None}
    sizes = {_rows_text(column.metadata) for column in results.columns} - {""}
    certified = [column.certificate is not None for column in results.columns]
    found = []
    if len(prints) > 1:
        found.append("The erasers were not fitted on the same rows: their fingerprints differ.")
    if len(sizes) > 1:
        found.append("The results were not measured on the same number of rows.")
    if any(certified) and (not all(certified) or results.before is None):
        found.append(
            "Attackers of certificates learn from other rows than those of evaluations, so that "
            "their accuracies differ a little where a report has both."
        )
    return tuple(found)


def subtitle(column: Column) -> str:
    """The data in one line."""
    metadata = column.metadata
    parts = []
    if rows := _rows_text(metadata):
        parts.append(rows)
    if features := metadata.get("n_features"):
        parts.append(f"{features} dimensions")
    if classes := metadata.get("classes"):
        shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
        parts.append(f"{len(classes)} classes: {shown}")
    name = metadata.get("data")
    return " · ".join([str(name), *parts] if name else parts)


def title_of(results: Results) -> str:
    """A title for results without one."""
    columns = results.columns
    if len(columns) > 1:
        return f"{len(columns)} erasers compared"
    if not columns:
        return f"Ranks of {', '.join(results.paths)}"
    data = columns[0].metadata.get("data")
    return f"{columns[0].name} on {data}" if data else columns[0].name


def _data(column: Column) -> Facts:
    metadata, eraser = column.metadata, column.eraser
    counts = eraser.get("class_counts") or ()
    classes = eraser.get("classes") or metadata.get("classes") or ()
    return _facts(
        {
            "name": metadata.get("data"),
            "rows": _rows_text(metadata),
            "dimensions": metadata.get("n_features"),
            "classes of the concept": ", ".join(map(str, classes)),
            "rows of each class, in the fit": ", ".join(f"{count:,}" for count in counts),
            "fingerprint of the fitted rows": eraser.get("fingerprint"),
        }
    )


def _eraser(column: Column) -> Facts:
    eraser = column.eraser
    inner = eraser.get("inner") if isinstance(eraser.get("inner"), Mapping) else {}
    parameters = {**eraser.get("parameters", {}), **inner.get("parameters", {})}  # type: ignore[union-attr]
    if inner:
        parameters.pop("eraser", None)
    return _facts(
        {
            "eraser": column.method,
            "dimensions kept": eraser.get("rank"),
            "rows fitted on": eraser.get("n_rows"),
            **{key: value for key, value in parameters.items() if key not in _NO_SETTINGS},
        }
    )


def _measurement(columns: Sequence[Column]) -> Facts:
    metadata = columns[0].metadata
    seconds = sum(_seconds(column.metadata.get("seconds")) for column in columns)
    certificate = next((c.certificate for c in columns if c.certificate is not None), None)
    budget = metadata.get("budget") if certificate is None else certificate.budget
    return _facts(
        {
            "seeds of each probe": metadata.get("seeds"),
            "budget of the attackers": budget,
            "rows that attackers learn from": certificate and certificate.n_attack_rows,
            "rows that they are judged on": certificate and certificate.n_test_rows,
            "probability of a false alarm": certificate and certificate.alpha,
            "time": f"{seconds:.0f} s" if seconds else None,
        }
    )


def _seconds(value: Any) -> float:
    if isinstance(value, Mapping):
        return float(sum(value.values()))
    return float(value or 0)


def _rows_text(metadata: Mapping[str, Any]) -> str:
    rows = metadata.get("n_rows")
    if isinstance(rows, Mapping):
        return ", ".join(f"{count:,} {name}" for name, count in rows.items()) + " rows"
    return f"{rows:,} rows" if isinstance(rows, int) else ""


def _facts(found: Mapping[str, Any]) -> Facts:
    shown = ((name, value) for name, value in found.items() if value not in (None, ""))
    return tuple(
        (name, f"{value:,}" if type(value) is int and value > 9999 else str(value))
        for name, value in shown
    )
