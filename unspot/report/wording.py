"""The words of a page: titles of the metrics, verdicts, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from unspot.evaluation.certificate import MARGIN, verdict_of
from unspot.tables import value_text

if TYPE_CHECKING:
    from unspot.report.contents import Attack, Column, Contents, Results

Facts = tuple[tuple[str, str], ...]
Tone = Literal["good", "bad", "unsure"]

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
        What a tile says under its number.
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
    "attack_seen": Presentation(
        _RECOVERED, "Strongest attacker that learned from the rows of the fit"
    ),
    "mdl": Presentation(_RECOVERED, "Description length (MDL)"),
    "mdl_prior": Presentation(_RECOVERED, "MDL with nothing left"),
    "two_sample": Presentation(_RECOVERED, "Two-sample p-value"),
    "neighbours": Presentation(
        *(_KEPT, "Neighbours kept (A_50 %)", "", "1 is unchanged, 0.5 is random"),
        axis="neighbours kept (A_50 %)",
    ),
    "variance": Presentation(
        *(_KEPT, "Variance kept", "share", "of the total variance"), axis="share of variance kept"
    ),
    "task_linear": Presentation(
        *(_KEPT, "Task accuracy, logistic", "share", "of a logistic regression"),
        axis="accuracy of the task, logistic",
    ),
    "tpr_gap": Presentation(_FAIR, "TPR gap, root mean square", hint="0 treats all classes alike"),
    "tpr_gap_correlation": Presentation(_FAIR, "Correlation of gap and share"),
    "demographic_parity": Presentation(_FAIR, "Demographic parity gap"),
    "equalised_odds": Presentation(_FAIR, "Equalised odds gap"),
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


# -- Verdicts: the score of the strongest attacker against chance ----------------------------------

#: From this share on, most of the attackers' lead is gone, and the headline says so.
MOST = 0.8
#: The level of the two-sample test, as in a certificate: half of 0.05, as attackers have the rest.
CLASSES_DIFFER = 0.025


@dataclass(frozen=True)
class Verdict:
    """The outcome in plain words, for one method."""

    column: int
    tone: Tone
    headline: str
    sentence: str
    short: str = ""  # for a list of verdicts
    details: tuple[str, ...] = ()


#: How the page shows a verdict.
_TONES: dict[str, Tone] = {"HOLDS": "good", "LEAKS": "bad", "INCONCLUSIVE": "unsure"}


def verdict(i: int, contents: Contents, column: Column) -> Verdict | None:
    """State the verdict on one eraser, if it was attacked."""
    attack, chance = contents.strongest(i + 1), contents.chance
    if attack is None or chance is None:
        return None
    attacks, before = contents.attacks_on(i + 1), contents.strongest(0)
    concept = str(column.metadata.get("concept") or "the concept")
    word = _word(column, attacks, chance)
    certificate = column.certificate
    return Verdict(
        column=i,
        tone=_TONES[word],
        headline=_headline(word, concept, _share_gone(before, attack, chance), attack, chance),
        sentence=_sentence(before, attack, len(attacks), contents),
        short=f"{_per_cent(attack)}, by {attack.attacker}",
        details=(
            (_limits(attacks),)
            if certificate is None
            else (
                f"Certificate: {certificate.sentence}",
                *(f"{name}: {_of_part(part)}" for name, part in certificate.parts.items()),
                f"Next: {certificate.next_step}",
            )
        ),
    )


def _word(column: Column, attacks: Sequence[Attack], chance: float) -> str:
    """Return the certificate's verdict; without one, that of the attackers' intervals."""
    if column.certificate is not None:
        return str(column.certificate.verdict)
    test = column.row("two_sample")
    scores = [attack.accuracy for attack in attacks]
    return verdict_of(
        found=max(a.value if a.low is None else a.low for a in scores) > chance,
        differ=bool(test and test.after and test.after.mean <= CLASSES_DIFFER),
        upper_bound=max(a.value if a.high is None else a.high for a in scores) - chance,
        margin=MARGIN,
    )


def _share_gone(before: Attack | None, after: Attack, chance: float) -> str:
    """Say how much of the strongest attacker's lead erasure removed; "" if not most of it."""
    if before is None or before.accuracy.value <= chance:
        return ""
    leads = [max(attack.accuracy.value - chance, 0.0) for attack in (before, after)]
    gone = 1 - leads[1] / leads[0]
    if gone < MOST:
        return ""
    was, left = (f"{100 * lead:.1f}" for lead in leads)
    return f"{100 * gone:.0f} % of an attacker’s lead over guessing is gone ({was} → {left} points)"


def _headline(word: str, concept: str, gone: str, attack: Attack, chance: float) -> str:
    if word == "HOLDS":
        return f"HOLDS: no attacker can read {concept}"
    if word == "INCONCLUSIVE":
        return f"INCONCLUSIVE: no leak of {concept} was found, but these rows cannot rule one out"
    low = attack.accuracy.low
    if low is not None and low <= chance:
        return f"LEAKS: attackers of {concept} are at chance, yet the rows still depend on it"
    return f"LEAKS: {concept} can still be read" + (f", but {gone}" if gone else "")


def _of_part(part: Any) -> str:
    """Sum up one of several concepts in a line."""
    return (
        f"{part.verdict}. {part.strongest.name} has {100 * part.advantage:.1f} {part.unit}, and "
        f"no attacker more than {100 * part.upper_bound:.1f}."
    )


def _sentence(before: Attack | None, after: Attack, number: int, contents: Contents) -> str:
    name = after.attacker[0].upper() + after.attacker[1:]
    subject = f"The strongest of {number} attackers ({after.attacker})" if number > 1 else name
    was = f" (before erasure: {_per_cent(before)})" if before else ""
    return (
        f"{subject} reaches a {contents.score} of {_per_cent(after)} on the held-out rows{was}. "
        f"Guessing reaches {value_text(contents.chance or 0.0, 'share')}."
    )


def _per_cent(attack: Attack) -> str:
    return value_text(attack.accuracy.value, "share")


def _limits(attacks: Sequence[Attack]) -> str:
    """Say what an evaluation cannot show."""
    highest = max(attack.accuracy.high or 0.0 for attack in attacks)
    reach = f"Confidence intervals reach up to {value_text(highest, 'share')}. " if highest else ""
    return (
        f"{reach}This is an evaluation and no certificate: run unspot certify to learn how small a "
        "leak these rows could have shown."
    )


def no_verdict() -> Verdict:
    """Say why a path of ranks without a certificate has no verdict."""
    return Verdict(
        column=0,
        tone="unsure",
        headline="NO VERDICT: no rank was chosen and certified",
        sentence="The numbers of each rank are measured on validation rows, to choose a rank by. "
        "They promise nothing about the rank that looks best.",
        details=(
            "Next: unspot path with --max-advantage 0.05 chooses a rank, and certifies it on rows "
            "that had no part in the choice.",
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
    listed = ", ".join(classes[:6]) + (f" and {len(classes) - 6} more" if len(classes) > 6 else "")
    rows, eraser = _rows_text(metadata), ""
    if certificate is not None:
        learned, judged = certificate.n_attack_rows, certificate.n_test_rows
        rows = f"{judged:,} test rows, {learned:,} to learn from"
    if column is not None:
        says_rank = column.rank is None or "rank" in column.name
        eraser = column.name if says_rank else f"{column.name}, rank {column.rank}"
    features = metadata.get("n_features")
    parts = (metadata.get("data"), f"{features} dimensions" if features else None)
    return _as_facts(
        {
            "Concept": f"{results.concept} ({listed})" if results.concept and listed else listed,
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
    classes = zip(eraser.get("classes") or (), eraser.get("class_counts") or (), strict=False)
    return {
        "eraser": column.method,
        "dimensions kept": eraser.get("rank"),
        "rows fitted on": eraser.get("n_rows"),
        "of each class": ", ".join(f"{name} {n:,}" for name, n in classes),
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
        "rows that attackers learn from": certificate and certificate.n_attack_rows,
        "rows that they are judged on": certificate and certificate.n_test_rows,
        "probability of a false alarm": certificate and certificate.alpha,
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
