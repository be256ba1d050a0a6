"""A certificate for auditors: what it was for, what it rests on, and hashes that find a change.

An ``AuditRecord`` holds a ``Certificate`` and everything that a person who was not there needs to
judge it, to check it and to run it again. Its hash is over a canonical form of its JSON.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unspot.data.concepts import Concepts
from unspot.data.dataset import SPLITS, Dataset, hashed
from unspot.data.rows import fingerprint
from unspot.eraser import Eraser
from unspot.evaluation.certificate import Certificate
from unspot.evaluation.results import Evaluation, Row, format_value
from unspot.io.files import is_hidden
from unspot.io.records import as_type
from unspot.maps.file import packed

__all__ = [
    "FORMAT",
    "AuditRecord",
    "Settings",
    "Source",
    "ThreatModel",
    "canonical_sha256",
    "file_sha256",
]

FORMAT = "unspot-certificate/1"

#: Rows of an evaluation that tell what erasure cost.
_UTILITY = ("neighbours", "variance", "words", "task_linear", "task")


@dataclass(frozen=True)
class Source:
    """Something that the numbers come from, known again by a hash.

    ``sha256`` is that of the file; of a folder, that of the lines ``<sha256>  <name>`` of its
    files, sorted by name. Rows in memory have a ``fingerprint`` instead: a hash of the shape, the
    labels and a sample of a thousand rows.
    """

    name: str
    sha256: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Settings:
    """The options of ``unspot certify`` that gave these numbers, by their names there."""

    concept: str | None = None
    features: str | None = None
    task: str | None = None
    groups: str | None = None
    key: str | None = None
    drop_missing: bool = False
    budget: str = "standard"
    attackers: str | None = None
    alpha: float = 0.05
    margin: float = 0.05
    seed: int = 0
    kind: str | None = None
    given: str | None = None


@dataclass(frozen=True)
class ThreatModel:
    """What the adversary has and may do, and what the certificate is silent about, in sentences."""

    adversary_has: tuple[str, ...]
    adversary_may: tuple[str, ...]
    not_covered: tuple[str, ...]

    @classmethod
    def of(cls, certificate: Certificate) -> ThreatModel:
        """The threat model that a certificate tests."""
        names = ", ".join(report.name for report in certificate.attackers)
        learned = {
            "unseen": "which the eraser was not fitted on",
            "seen": "which the eraser was fitted on, so that they look cleaner than new ones",
            "cross-fit": "fold by fold, which the eraser of the fold was not fitted on",
        }[certificate.attack_rows]
        return cls(
            adversary_has=(
                "The erased vectors, with every digit that is written.",
                f"Other erased rows of the same source with the concept's labels: "
                f"{certificate.n_attack_rows:,} of them, {learned}.",
            ),
            adversary_may=(
                f"Train these {'regressors' if certificate.of_number else 'classifiers'}, with "
                f"the effort of the budget {certificate.budget!r}: {names}.",
                "Use the best of them: the bound holds for all of them at once.",
                "Look at any number of erased rows; each guess is about one row alone.",
            ),
            not_covered=(
                "Rows of another source, period or model than the test rows.",
                "Other attackers, more effort or more labelled rows. The two-sample test looks for "
                "any difference between the classes, but misses one that is too small.",
                *_not_covered(certificate),
                "An adversary who has the eraser and rows from before erasure.",
                _dependence(certificate),
                "Whatever else is known about a row: other columns, its text, its origin.",
                "Whether decisions of a model that is trained on the vectors are fair.",
                "A choice among several erasers by their certificates on the same test rows.",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """A certificate, and what an auditor needs beside it.

    Attributes
    ----------
    created : str
        When, in UTC.
    operator, purpose, population, period : str
        Who ran the test, what the erasure is for, whose rows these are, and from when, in the
        words of the user; empty if not given.
    certificate : Certificate
        Verdict, numbers, attackers, rows of each class, versions.
    threat_model : ThreatModel
    certify_again_when : tuple of str
        What ends the validity of this certificate.
    effort : mapping
        The limits of the attackers' budget.
    rows_of_cell : mapping
        Of each class, how many test rows each label of the task has; empty without a task.
    utility : tuple of Row
        What erasure cost: neighbours, variance, the task where there is one.
    settings : Settings or None
        What ``unspot verify --rerun`` repeats; None if the certificate was made in Python.
    environment : str
        The kind of machine and the version of Python.
    sources : mapping of str to Source
        Hashes of the eraser and of the rows.
    sha256 : str
        Of the canonical JSON of all the rest; see ``canonical_sha256``.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot import Dataset, Eraser, certify
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=800, d=3)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> eraser = Eraser.projection(np.linalg.svd(rows.concept_basis)[0][:, 1:])
    >>> found = certify(eraser, data, attackers=["logistic"], budget="quick")
    >>> record = AuditRecord.of(found, eraser, data, purpose="Rank letters blind to gender.")
    >>> record.sources["test"].name, len(record.sha256)
    ('data', 64)
    >>> AuditRecord.from_dict(record.to_dict()) == record
    True
    """

    created: str = ""
    operator: str = ""
    purpose: str = ""
    population: str = ""
    period: str = ""
    certificate: Certificate
    threat_model: ThreatModel
    certify_again_when: tuple[str, ...]
    effort: Mapping[str, Any] = field(default_factory=dict)
    rows_of_cell: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    utility: tuple[Row, ...] = ()
    settings: Settings | None = None
    environment: str = ""
    sources: Mapping[str, Source]
    sha256: str = ""

    @classmethod
    def of(
        cls,
        certificate: Certificate,
        eraser: Any,
        data: Dataset,
        *,
        files: Mapping[str, Path | None] | None = None,
        utility: Evaluation | None = None,
        settings: Settings | None = None,
        **words: str,
    ) -> AuditRecord:
        """The record of a certificate that was just made.

        Parameters
        ----------
        certificate : Certificate
        eraser, data
            As they were given to ``certify``.
        files : mapping of str to path, optional
            Files that hold them, by what they are: ``eraser``, ``data`` and others. What has no
            file is known again by a hash of what is in memory.
        utility : Evaluation, optional
            Of the same eraser: what it says about neighbours, variance and task is kept.
        settings : Settings, optional
        **words
            ``purpose``, ``population``, ``period`` and ``operator``.
        """
        given = {role: path for role, path in (files or {}).items() if path is not None}
        sources = {role: Source(path.name, file_sha256(path)) for role, path in given.items()}
        record = cls(
            certificate=certificate,
            threat_model=ThreatModel.of(certificate),
            certify_again_when=_certify_again_when(certificate),
            sources=sources or _in_memory(eraser, data, certificate),
            effort=_effort(certificate.budget),
            rows_of_cell=_rows_of_cell(certificate, data),
            utility=tuple(row for row in utility or () if row.key in _UTILITY),
            settings=settings,
            environment=f"{platform.system()} {platform.machine()}, "
            f"Python {platform.python_version()}",
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            **{name: " ".join(text.split()) for name, text in words.items()},
        )
        return replace(record, sha256=canonical_sha256(record.to_dict()))

    @property
    def concept(self) -> str:
        """What was erased, by the name of its column; empty if it has none."""
        return (self.settings and self.settings.concept) or self.certificate.concept

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the JSON."""
        content = {"format": FORMAT, **asdict(self), "certificate": self.certificate.to_dict()}
        # Through JSON, so that what is kept is plain: tuples become lists.
        plain: dict[str, Any] = json.loads(json.dumps(content, allow_nan=False))
        return plain

    def to_json(self) -> str:
        """JSON text; ``unspot verify`` and ``unspot report`` read it."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, content: Any) -> AuditRecord:
        """The record that ``to_dict`` gave; an error if anything in it was changed since."""
        result: AuditRecord = as_type(cls, content)
        Certificate.from_dict(content["certificate"])
        if result.sha256 != canonical_sha256(content):
            raise ValueError("its content does not match its sha256")
        return result

    def to_model_card(self) -> str:
        """A section in Markdown for the card of a model that uses the erased vectors."""
        found, best = self.certificate, self.certificate.strongest
        classes = ", ".join(f"{name} {n:,}" for name, n in found.rows_of_class.items())
        facts = {
            "Concept": self.concept,
            "Purpose": self.purpose,
            "Population": self.population,
            "Period": self.period,
            "Test rows": f"{found.n_test_rows:,} ({classes})"
            if classes
            else f"{found.n_test_rows:,}",
            "Strongest attacker": f"{best.name}, right on {100 * best.score:.1f} % "
            f"(guessing: {100 * found.chance:.1f} %)",
            "Advantage over guessing": f"at most {_points(max(found.upper_bound, 0.0))}, with "
            f"{100 * (1 - found.alpha):g} % confidence; {_points(found.margin)} count as erased",
            **_of_number(found),
            **{f"Concept {name}": _in_short(part) for name, part in found.parts.items()},
            "Attackers": ", ".join(report.name for report in found.attackers),
            **self.costs(),
            "Certified": " by ".join(filter(None, (self.created[:10], self.operator))),
            **{f"Hash of the {name}": f"`{text}`" for name, text in self.hashes().items()},
        }
        lists = {
            "Not covered": self.threat_model.not_covered,
            "Certify again when": self.certify_again_when,
        }
        return "\n".join(
            [
                f"## Concept erasure: {found.verdict}\n",
                f"{found.sentence}\n",
                *(f"- **{name}:** {text}" for name, text in facts.items() if text),
                *(f"\n{title}:\n\n- " + "\n- ".join(part) for title, part in lists.items()),
                "",
            ]
        )

    def costs(self) -> dict[str, str]:
        """What erasure cost, by the name of the measure: before → after."""
        return {
            row.label: f"{format_value(row.before, row.unit)} → {format_value(row.after, row.unit)}"
            for row in self.utility
        }

    def hashes(self) -> dict[str, str]:
        """Every hash in the record, by what it is of."""
        sources = {
            role.replace("_", " "): source.sha256 or source.fingerprint
            for role, source in self.sources.items()
        }
        return {**sources, "certificate": self.sha256}


# -- Hashes ----------------------------------------------------------------------------------------


def canonical_sha256(content: Mapping[str, Any]) -> str:
    """The hash of a record's JSON without its own hash, in one canonical form.

    Keys are sorted, there are no spaces, letters are UTF-8 and numbers are as Python writes them,
    so that neither the order of lines nor the layout of a file matters.

    Examples
    --------
    >>> canonical_sha256({"b": 0.1, "a": ["é"]}) == canonical_sha256({"a": ["é"], "b": 0.1})
    True
    >>> canonical_sha256({"a": 0.1}) == canonical_sha256({"a": 0.1000001})
    False
    """
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(
        rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """Of a file; of a folder, that of the lines ``<sha256>  <name>`` of its Parquet files."""
    if path.is_dir():
        names = sorted(
            file.relative_to(path).as_posix()
            for file in path.rglob("*.parquet")
            if not is_hidden(file, path)
        )
        lines = "".join(f"{file_sha256(path / name)}  {name}\n" for name in names)
        return hashlib.sha256(lines.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_memory(eraser: Any, data: Dataset, certificate: Certificate) -> dict[str, Source]:
    """Hashes of what has no file: of the eraser those of the file that it would be saved as."""
    frozen = getattr(eraser, "eraser_", eraser)
    sources = {}
    if isinstance(frozen, Eraser):
        content = packed(frozen.maps, frozen.metadata)
        name = str(certificate.metadata["eraser"].get("method", "eraser"))
        sources["eraser"] = Source(name, hashlib.sha256(content).hexdigest())
    for role, split in zip(SPLITS, data, strict=True):
        concept = split.z if isinstance(split.z, Concepts) else split.target
        sources[role] = Source(data.name, fingerprint=fingerprint(split.X, hashed(concept)))
    return sources


# -- What else a record holds ----------------------------------------------------------------------


def _effort(budget: str) -> dict[str, Any]:
    from unspot.evaluation.attackers import BUDGETS  # loads scikit-learn

    limits = BUDGETS[budget]
    return {"max_rows": limits.max_rows, **asdict(limits.effort)}


def _rows_of_cell(certificate: Certificate, data: Dataset) -> dict[str, dict[str, int]]:
    if data.concepts or certificate.of_number:
        return {}  # no classes, or those of several concepts
    judged = tuple(data) if certificate.attack_rows == "cross-fit" else (data.test,)
    cells = Counter(
        (str(concept), str(label))
        for split in judged
        if split.y is not None
        for concept, label in zip(split.z, split.y, strict=True)
    )
    concepts, labels = (sorted({cell[i] for cell in cells}) for i in (0, 1))
    return {concept: {label: cells[concept, label] for label in labels} for concept in concepts}


def _dependence(certificate: Certificate) -> str:
    groups = certificate.metadata.get("n_test_groups")
    if groups:
        return f"Dependence between groups: the numbers count {groups:,} of them as independent."
    return (
        "Rows that belong together, such as several of one person: the numbers count test rows as "
        "independent."
    )


def _certify_again_when(certificate: Certificate) -> tuple[str, ...]:
    return (
        "the eraser changes, which shows in its hash;",
        "the model that makes the vectors changes, or the way they are computed, scaled or stored;",
        "rows come from another source or period, or the shares of the classes shift;",
        f"an adversary may have more than {certificate.n_attack_rows:,} labelled rows;",
        "stronger attackers are known, or a new version of unspot has them;",
        f"a smaller advantage than {_points(certificate.margin)} is asked for.",
    )


def _of_number(found: Certificate) -> dict[str, str]:
    """What the card of a number says in place of accuracies."""
    if not found.of_number:
        return {}
    most = f"{100 * max(found.upper_bound, 0.0):.1f} %"
    return {
        "Strongest attacker": f"{found.strongest.name}, explains {100 * found.advantage:.1f} %",
        "Advantage over guessing": f"at most {most} of the variance, with "
        f"{100 * (1 - found.alpha):g} % confidence; {100 * found.margin:.1f} % count as erased",
    }


def _in_short(part: Certificate) -> str:
    return f"{part.verdict}, at most {100 * part.upper_bound:.1f} {part.unit}"


def _not_covered(certificate: Certificate) -> tuple[str, ...]:
    """What numbers, several concepts and what is given leave open."""
    said = []
    if certificate.of_number:
        said.append("What the rows tell of the number beside its mean, such as its spread.")
    if certificate.given:
        said.append(f"What {certificate.given} alone tells of the concept: it counts as known.")
    if certificate.parts:
        said.append("Functions of several concepts other than each one and the cells of all.")
    return tuple(said)


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"
