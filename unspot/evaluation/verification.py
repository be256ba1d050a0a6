"""Checks of an audit record that somebody hands over: hashes, the verdict, the numbers again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unspot._version import __version__
from unspot.evaluation.audit import FORMAT, AuditRecord, Source, canonical_sha256, file_sha256
from unspot.evaluation.certificate import Certificate
from unspot.io.records import as_type, parse

__all__ = ["TOLERANCE", "Check", "check_content", "check_numbers", "check_source", "read_record"]

#: The largest difference of an advantage that another machine or version may make.
TOLERANCE = 0.01

#: What follows from the numbers of a certificate, and stands in its file beside them.
_DERIVED = ("verdict", "leaks", "chance", "advantage", "upper_bound")

#: Words that follow from them too, as this version puts them.
_WORDS = ("sentence", "next_step")

#: What a second run on the same files has exactly.
_COUNTS = ("n_test_rows", "n_attack_rows", "rows_of_class", "n_classes", "majority")


@dataclass(frozen=True)
class Check:
    """One line of ``unspot verify``: ``ok`` is None for what was left out."""

    name: str
    ok: bool | None
    reason: str


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a record's file, of the right types but perhaps changed."""
    expected = "Expected a file written by unspot certify --audit."
    try:
        content = parse(Path(path).read_bytes())
        if isinstance(content, dict) and content.get("format") != FORMAT:
            has = "a certificate without hashes" if "attackers" in content else "no audit record"
            raise ValueError(f"it is {has}")
        as_type(AuditRecord, content)
        Certificate.from_dict(content["certificate"])
        canonical_sha256(content)  # refuses NaN
    except ValueError as error:
        raise ValueError(
            f"Got {str(path)!r}, which cannot be verified ({error}). {expected}"
        ) from None
    return dict(content)


def check_content(content: Mapping[str, Any]) -> list[Check]:
    """Whether the content of a record matches its hash, and its verdict its numbers."""
    return [_check_hash(content), _check_verdict(content)]


def _check_hash(content: Mapping[str, Any]) -> Check:
    stated, computed = str(content.get("sha256")), canonical_sha256(content)
    if stated == computed:
        return Check("certificate", True, f"unchanged since it was written: sha256 {computed}")
    reason = f"changed after it was written: its content has sha256 {computed}, but it states "
    return Check("certificate", False, reason + stated)


def _check_verdict(content: Mapping[str, Any]) -> Check:
    stated = content["certificate"]
    same_version = stated["metadata"].get("versions", {}).get("unspot") == __version__
    names = (*_DERIVED, *_WORDS) if same_version else _DERIVED
    parts = {f"{name}: ": part for name, part in stated.get("parts", {}).items()}
    for where, part in {"": stated, **parts}.items():
        if fault := _not_derived(part, names):
            return Check("verdict", False, where + fault)
    verdict = Certificate.from_dict(stated).verdict
    return Check("verdict", True, f"{verdict} follows from the numbers")


def _not_derived(stated: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first fact of a certificate that does not follow from its numbers, or nothing."""
    certificate = Certificate.from_dict(stated)
    derived = {name: getattr(certificate, name) for name in names}
    derived["strongest"] = certificate.strongest.name
    derived["attack_p_value"] = min(report.p_value for report in certificate.attackers)
    for name, value in derived.items():
        if stated.get(name) != value:
            return f"{name} is {stated.get(name)!r}, but {value!r} follows from the rest"
    return ""


def check_source(role: str, stated: Source, path: Path | None, option: str) -> Check:
    """Whether a file is the one that a record was made from."""
    name = role.replace("_", " ")
    if not stated.sha256:
        return Check(name, None, "not checked: the rows were in memory, and have no file")
    if path is None:
        return Check(name, None, f"not checked: give {option} {stated.name}")
    computed = file_sha256(path)
    if computed == stated.sha256:
        return Check(name, True, f"{path.name} is the file that was certified: sha256 {computed}")
    reason = f"{path.name} is another file: sha256 {computed}, but expected {stated.sha256}"
    return Check(name, False, reason)


def check_numbers(stated: Certificate, again: Certificate) -> Check:
    """Whether a second run gave the same numbers, or nearly so; which versions differ."""
    versions = _other_versions(stated.metadata, again.metadata)
    if again == stated:  # metadata do not count
        return Check("numbers", True, f"the same again, to the last digit{versions}")
    if fault := _other_facts(stated, again):
        return Check("numbers", False, f"{fault}{versions}")
    gaps = _gaps(stated, again)
    name = max(gaps, key=lambda what: gaps[what])
    reason = (
        f"the verdict is {again.verdict} again; advantages and their bounds differ by at most "
        f"{100 * gaps[name]:.1f} points ({name}), where {100 * TOLERANCE:.1f} are tolerated"
        f"{versions}"
    )
    return Check("numbers", gaps[name] <= TOLERANCE, reason)


def _other_facts(stated: Certificate, again: Certificate) -> str:
    """The first thing in which a second run may not differ, and does; or nothing."""
    for name in _COUNTS:
        was, now = getattr(stated, name), getattr(again, name)
        if was != now:
            return f"{name} is {now}, but {was} was certified"
    attackers = ({report.name for report in one.attackers} for one in (stated, again))
    parts = (set(one.parts) for one in (stated, again))
    for what, (before, after) in (("attackers", attackers), ("concepts", parts)):
        if before != after:
            others = ", ".join(sorted(before ^ after))
            return f"other {what} than in the certificate: {others}"
    if again.verdict != stated.verdict:
        return f"the verdict is {again.verdict}, but {stated.verdict} was certified"
    for name, part in stated.parts.items():
        if fault := _other_facts(part, again.parts[name]):
            return f"{name}: {fault}"
    return ""


def _gaps(stated: Certificate, again: Certificate, of: str = "") -> dict[str, float]:
    """By how much each attacker's advantage and bounds differ; of several concepts, in each."""
    before, after = (
        {r.name: (r.advantage, *r.interval) for r in c.attackers} for c in (stated, again)
    )
    gaps = {
        of + name: max(abs(x - y) for x, y in zip(before[name], after[name], strict=True))
        for name in before
    }
    gaps[f"{of}what could be detected"] = abs((stated.detectable or 0) - (again.detectable or 0))
    for name, part in stated.parts.items():
        gaps |= _gaps(part, again.parts[name], f"{name}: ")
    return gaps


def _other_versions(stated: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    before, after = (dict(facts.get("versions", {})) for facts in (stated, again))
    others = [
        f"{name} {before.get(name, 'missing')} then, {after.get(name, 'missing')} now"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]
    return f" (versions differ: {'; '.join(others)})" if others else ""
