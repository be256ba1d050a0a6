"""The words of a page: titles of the metrics, verdicts, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from unspot.io.files import listed
from unspot.tables import value_text

if TYPE_CHECKING:
    from unspot.report.contents import Column, Contents, Results

Facts = tuple[tuple[str, str], ...]
Tone = Literal["good", "bad", "unsure", "plain"]

# -- Metrics ---------------------------------------------------------------------------------------

#: Headings of the main table.
GROUPS = ("What can still be recovered", "What is kept", "Fairness of the task", "Other")
_RECOVERED, _KEPT, _FAIR, _OTHER = GROUPS


@dataclass(frozen=True)
class Presentation:
    """Words of a page about one metric.

    Parameters
    ----------
    group : str
        The heading it stands under.
    title : str
        Its title, if not the label of the evaluation's row.
    unit : str
        "share" for per cent, else a unit or nothing.
    hint : str
        Text of a tile under its number.
    axis : str
        The name of an axis of a chart.
    """

    group: str = _OTHER
    title: str = ""
    unit: str = ""
    hint: str = ""
    axis: str = ""


def presented(key: str) -> Presentation:
    """Return the presentation of a metric; unknown ones stand at the end of the table.

    Rows of several concepts have keys such as "attack:gender". They stand where "attack" does, and
    keep the label of their row as a title.
    """
    known, _, concept = key.partition(":")
    entry = METRICS.get(known, Presentation())
    return replace(entry, title="") if concept else entry


METRICS = {
    "chance": Presentation(_RECOVERED, "Chance"),
    "linear": Presentation(_RECOVERED, "Linear probe", "share", axis="accuracy of a linear probe"),
    "attack": Presentation(
        *(_RECOVERED, "Strongest attacker", "share", "best of all attackers"),
        axis="accuracy of the strongest attacker",
    ),
    "mdl": Presentation(_RECOVERED, "Description length (MDL)"),
    "mdl_prior": Presentation(_RECOVERED, "MDL with nothing left"),
    "two_sample": Presentation(_RECOVERED, "Two-sample p-value"),
    "neighbours": Presentation(
        *(_KEPT, "Neighbours kept (A_50 %)", "", "1 is unchanged, 0.5 is random"),
        axis="neighbours kept (A_50 %)",
    ),
    "variance": Presentation(
        _KEPT, "Variance kept", "share", "of the total variance", "share of variance kept"
    ),
    "task_linear": Presentation(
        _KEPT, "Task, linear model", "share", "of a linear model", "score of the task, linear model"
    ),
    "tpr_gap": Presentation(_FAIR, "TPR gap, root mean square", hint="0 treats all classes alike"),
    "tpr_gap_correlation": Presentation(_FAIR, "Correlation of gap and share"),
    "demographic_parity": Presentation(_FAIR, "Demographic parity gap"),
    "equalised_odds": Presentation(_FAIR, "Equalised odds gap"),
    "recall_at_1": Presentation(_KEPT, "R@1 among all sources", "share", "the same thing is first"),
    "ndcg": Presentation(_KEPT),
    "same_source": Presentation(_RECOVERED),
    "ilisi": Presentation(_RECOVERED),
    "robustness": Presentation(_KEPT),
    "utility": Presentation(_KEPT, "Your utility", axis="your utility"),
    "rank": Presentation(axis="rank: dimensions kept"),
    "held_out": Presentation(axis="held-out distance between the classes (MMD²)"),
}


def explained(contents: Contents) -> set[str]:
    """Return the keys of the metrics, and other terms, that the glossary has to explain."""
    plane = contents.tradeoff
    axes = {plane.utility, plane.erasure} if plane else set()
    ranked = any("rank" in name for name in contents.columns) or (
        plane is not None and any(point.rank is not None for point in plane.points)
    )
    occurs = {
        "interval": any(attack.accuracy.low is not None for attack in contents.attacks),
        "chance": contents.chance is not None,
        "attack": bool(contents.attacks),
        "tpr_gap": bool(contents.gaps),
        "rank": ranked,
    }
    keys = {key for key, there in occurs.items() if there}
    keys |= {measure.key.partition(":")[0] for measure in contents.measures}
    return keys | {key for key, metric in METRICS.items() if metric.axis and metric.axis in axes}


_ATTACKERS = {
    "logistic": "logistic regression",
    "ridge": "ridge regression",
    "whitened-ridge": "ridge regression, whitened",
    "whitened-logistic": "logistic regr., whitened",
    "residue": "rounding errors, last bits",
    "interactions": "signs of pairs of columns",
    "waves": "waves of any direction",
    "quadratic": "quadratic features",
    "neighbours": "nearest neighbours",
    "rbf": "radial basis functions",
    "whitened-rbf": "radial basis, whitened",
    "trees": "boosted trees",
    "rotated-trees": "boosted trees, rotated",
}


def attacker_name(name: str) -> str:
    """Spell out the name of an attacker.

    Examples
    --------
    >>> attacker_name("mlp-128-128"), attacker_name("whitened-mlp-256"), attacker_name("trees")
    ('network, 128-128 wide', 'network, 256 wide, whitened', 'boosted trees')
    """
    if name in _ATTACKERS:
        return _ATTACKERS[name]
    before, mark, widths = name.rpartition("mlp-")
    if not mark:
        return name
    return f"network, {widths} wide" + (f", {before.rstrip('-')}" if before else "")


# -- Verdicts: the statement, and what follows from it ---------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The outcome in plain words, for one method."""

    column: int
    tone: Tone
    headline: str
    lines: tuple[str, ...] = ()  # the rest of the statement
    details: tuple[str, ...] = ()
    short: str = ""  # for a list of verdicts


#: How the page shows a verdict; without a margin there is none.
_TONES: dict[str | None, Tone] = {"HOLDS": "good", "LEAKS": "bad", "INCONCLUSIVE": "unsure"}


def verdict(i: int, contents: Contents, column: Column) -> Verdict | None:
    """State the outcome of one eraser, if it was attacked."""
    result, attack = column.certificate or column.evaluation, contents.strongest(i + 1)
    if result is None or attack is None or not result.statement:
        return None
    headline, *lines = result.statement.split("\n")
    tone: Tone = "plain"
    details = [f"Attackers of budget {column.metadata.get('budget')}; unspot certify tries harder."]
    if column.certificate is not None:
        tone = _TONES.get(column.certificate.verdict, "plain")
        parts = column.certificate.parts.items()
        details = [*column.certificate.sentences, *(f"{n}: {_of_part(one)}" for n, one in parts)]
    short = f"{value_text(attack.accuracy.value, 'share')}, by {attack.attacker}"
    return Verdict(i, tone, headline, tuple(lines), tuple(details), short)


def _of_part(part: Any) -> str:
    """Sum up one of several concepts in a line."""
    said = "" if part.verdict is None else f"{part.verdict}. "
    return (
        f"{said}{part.strongest.name} has {100 * part.after:.1f} {part.unit}, and no attacker more "
        f"than {100 * part.upper_bound:.1f}."
    )


def no_verdict() -> Verdict:
    """Say why a path of ranks without a certificate has no verdict."""
    return Verdict(
        column=0,
        tone="plain",
        headline="No rank was chosen and certified",
        details=(
            "The numbers of each rank are measured on validation rows, to choose a rank by. "
            "They promise nothing about the rank that looks best.",
            "Next: unspot path with --max-advantage chooses a rank, and certifies it on rows that "
            "had no part in the choice.",
        ),
    )


# -- Title, notes, and facts as pairs of name and text ---------------------------------------------


def title_of(results: Results) -> str:
    """Make a title for results without one."""
    columns, concept = results.columns, results.concept
    data = results.metadata.get("data")
    of_concept = f" of {concept}" if concept else ""
    on_data = f" on {data}" if data else ""
    if not columns:
        by = f"Ranks of {', '.join(results.paths)}"
        return f"{by}: erasure of {concept}{on_data}" if concept else f"{by}{on_data}"
    if len(columns) > 1:
        return f"{len(columns)} erasers{of_concept} compared{on_data}"
    name = columns[0].name
    return f"Erasure{of_concept}{on_data}: {name}" if concept else f"{name}{on_data}"


def glance(results: Results, chosen: int) -> Facts:
    """List what everybody asks first: which concept, which rows, which eraser."""
    column = results.columns[chosen] if results.columns else None
    metadata = column.metadata if column else results.metadata
    certificate = column.certificate if column else None
    classes = [str(name) for name in metadata.get("classes") or ()]
    if certificate is not None:
        classes = list(certificate.rows_of_class) or classes
    shown = listed(classes, 6) if classes else ""
    rows, eraser = _rows_text(metadata), ""
    if certificate is not None:
        rows = f"{certificate.n_rows:,} test rows that no fit has seen"
    if column is not None:
        says_rank = column.rank is None or "rank" in column.name
        eraser = column.name if says_rank else f"{column.name}, rank {column.rank}"
    features = metadata.get("n_features")
    parts = (metadata.get("data"), f"{features} dimensions" if features else None)
    return _as_facts(
        {
            "Concept": f"{results.concept} ({shown})" if results.concept and shown else shown,
            "Data": ", ".join(str(part) for part in parts if part),
            "Rows": rows,
            "Eraser": eraser,
        }
    )


def notes(columns: Sequence[Column]) -> tuple[str, ...]:
    """Warn a reader who compares columns."""
    fingerprints = {column.eraser.get("fingerprint") for column in columns} - {None}
    sizes = {_rows_text(column.metadata) for column in columns} - {""}
    warnings: dict[str, set[Any]] = {
        "The erasers were not fitted on the same rows: their fingerprints differ.": fingerprints,
        "The results were not measured on the same number of rows.": sizes,
    }
    return tuple(warning for warning, values in warnings.items() if len(values) > 1)


#: Parameters that are shown elsewhere, or that do not change a number.
_NO_SETTINGS = {"eraser", "rank", "verbose", "device"}


def facts(columns: Sequence[Column]) -> tuple[tuple[str, Facts], ...]:
    """List settings, versions and fingerprints in groups."""
    groups = [(column.name, _as_facts(_settings(column))) for column in columns]
    if columns:
        metadata = columns[0].metadata
        groups.append(("Measured with", _as_facts(_measurement(columns))))
        groups.append(("Versions", _as_facts(metadata.get("versions", {}))))
    for column in columns:
        if column.certificate is not None:
            digests = column.certificate.metadata.get("digests", {})
            groups.append((f"Digests, {column.name}", _as_facts(digests)))
    return tuple((name, group) for name, group in groups if group)


def _settings(column: Column) -> dict[str, Any]:
    eraser, inner = column.eraser, column.eraser.get("inner") or {}
    parameters = {**eraser.get("parameters", {}), **inner.get("parameters", {})}
    counts = zip(eraser.get("classes") or (), eraser.get("class_counts") or (), strict=False)
    classes = [f"{name} {n:,}" for name, n in counts]
    return {
        "eraser": column.method,
        "dimensions kept": eraser.get("rank"),
        "rows fitted on": eraser.get("n_rows"),
        "of each class": listed(classes, 6) if classes else None,
        "fingerprint of the fitted rows": eraser.get("fingerprint"),
        **{key: value for key, value in parameters.items() if key not in _NO_SETTINGS},
    }


def _measurement(columns: Sequence[Column]) -> dict[str, Any]:
    metadata = columns[0].metadata
    certificate = next((c.certificate for c in columns if c.certificate is not None), None)
    return {
        "data": metadata.get("data"),
        "rows": _rows_text(metadata),
        "seeds of each probe": metadata.get("seeds"),
        "budget of the attackers": certificate.budget if certificate else metadata.get("budget"),
        "rows that attackers are judged on": certificate and certificate.n_rows,
        "probability of error": certificate and certificate.alpha,
        "margin of the advantage": certificate and certificate.margin,
    }


def _rows_text(metadata: Mapping[str, Any]) -> str:
    rows = metadata.get("n_rows")
    if isinstance(rows, Mapping):
        return ", ".join(f"{count:,} {name}" for name, count in rows.items()) + " rows"
    return f"{rows:,} rows" if isinstance(rows, int) else ""


def _as_facts(values: Mapping[str, Any]) -> Facts:
    """Write values as text, without those that are missing."""
    counts = {n for n, v in values.items() if type(v) is int and (v > 9999 or "rows" in n)}
    return tuple(
        (name, f"{value:,}" if name in counts else str(value))
        for name, value in values.items()
        if value not in (None, "")
    )
