"""An audit record as parts of a page: its purpose, its threat model, its hashes."""

from __future__ import annotations

from typing import Any

from unspot.evaluation.audit import AuditRecord
from unspot.report.contents import AuditPart, Facts

__all__ = ["audit_parts"]

#: What the eraser has to do with the rows that attackers learned from.
_LEARNED = {
    "unseen": "new to the eraser",
    "seen": "of the eraser's fit",
    "cross-fit": "new to the eraser of their fold",
}

#: The limits of a budget in words.
_EFFORT = {
    "max_rows": "rows to learn from, at most",
    "products": "products of two columns",
    "landmarks": "landmarks of kernels",
    "networks": "networks, averaged",
    "epochs": "epochs of networks",
    "trees": "boosted trees",
}

_HOW_TO_VERIFY = (
    "SHA-256 of the files and of the certificate itself. unspot verify computes them again, and "
    "with --rerun the numbers too."
)


def audit_parts(record: AuditRecord | None) -> tuple[AuditPart, ...]:
    """What a page says about a record, in the order in which an auditor asks."""
    if record is None:
        return ()
    threats, certificate = record.threat_model, record.certificate
    about = {
        "purpose": record.purpose,
        "concept": record.concept,
        "population": record.population,
        "period": record.period,
        "certified by": record.operator,
        "certified on": f"{record.created[:16].replace('T', ' ')} UTC",
    }
    detectable = certificate.detectable
    power = {
        "rows learned from": f"{certificate.n_attack_rows:,}, {_LEARNED[certificate.attack_rows]}",
        "rows judged on": f"{certificate.n_test_rows:,}",
        **{f"of class {name}": f"{n:,}" for name, n in certificate.rows_of_class.items()},
        **{
            f"of class {name}, by task": ", ".join(f"{label} {n:,}" for label, n in cells.items())
            for name, cells in record.rows_of_cell.items()
        },
        "detectable advantage": "none" if detectable is None else f"{100 * detectable:.1f} points",
        "margin": f"{100 * certificate.margin:.1f} points",
        "probability of a false alarm": certificate.alpha,
        "seed": certificate.metadata.get("random_state"),
    }
    effort = {
        _EFFORT.get(name, name.replace("_", " ")): f"{limit:,}" if isinstance(limit, int) else limit
        for name, limit in record.effort.items()
    }
    effort["machine"] = record.environment
    parts = (
        AuditPart("Purpose", facts=_facts(about)),
        AuditPart("Rows and power", facts=_facts(power)),
        AuditPart("Cost of the erasure", facts=_facts(record.costs())),
        AuditPart("Effort of the attackers", facts=_facts(effort)),
        AuditPart("The adversary has", threats.adversary_has),
        AuditPart("The adversary may", threats.adversary_may),
        AuditPart("Not covered", threats.not_covered),
        AuditPart("Certify again when", record.certify_again_when),
        AuditPart("Hashes", (_HOW_TO_VERIFY,), _facts(record.hashes())),
    )
    return tuple(part for part in parts if part.sentences or part.facts)


def _facts(values: Any) -> Facts:
    return tuple((name, str(value)) for name, value in values.items() if value not in (None, ""))
