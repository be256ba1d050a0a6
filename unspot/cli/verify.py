"""``unspot verify``: an audit record and its files in, a line for each check out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.eraser import Eraser
    from unspot.evaluation.audit import AuditRecord
    from unspot.evaluation.certificate import Certificate
    from unspot.evaluation.verification import Check

#: What a record of ``unspot certify`` is made from, in the order of that command's inputs.
ROLES = ("eraser", "data", "labels", "attack_rows", "attack_labels")

#: Exit code if something does not match; 2 is an error.
MISMATCH = 3

_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}


def verify(
    record: Annotated[
        Path, typer.Argument(metavar="CERT", help="A .json file of unspot certify --audit.")
    ],
    eraser: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The eraser that was certified.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rows that it was certified on.")
    ] = None,
    labels: options.LabelsFile = None,
    attack_rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="As unspot certify was given it.")
    ] = None,
    attack_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="As unspot certify was given it.")
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", metavar="", help="Certify again, and compare the numbers.")
    ] = False,
) -> None:
    """Check that a certificate was not changed, and that it is about these files.

    unspot verify audit.json --eraser gender.safetensors --data test.parquet --rerun

    Exit codes: 0 if all that was checked matches, 3 if something does not, 2 an error.
    """
    options.check_files({}, [record, eraser, data, labels, attack_rows, attack_labels])
    from unspot.evaluation.audit import AuditRecord
    from unspot.evaluation.verification import check_content, check_source, read_record
    from unspot.io.records import as_type

    content = read_record(record)
    stated: AuditRecord = as_type(AuditRecord, content)
    files = dict(zip(ROLES, (eraser, data, labels, attack_rows, attack_labels), strict=True))
    _refuse_unknown(files, stated)
    if rerun:
        _refuse_rerun(files, stated)
    checks = check_content(content)
    for role, source in stated.sources.items():
        option = f"--{role.replace('_', '-')}"
        checks.append(check_source(role, source, files.get(role), option))
    if rerun:
        checks.append(_rerun(stated, files, checks))
    who = f" by {stated.operator}" if stated.operator else ""
    title = f"{record.name}: {stated.certificate.verdict}, certified on {stated.created}{who}"
    typer.secho(options.without_controls(title), bold=True)
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark, colour = _MARKS[check.ok]
        line = f"{mark} {check.name.ljust(width)}  {check.reason}"
        typer.secho(options.without_controls(line), fg=colour)
    if any(check.ok is False for check in checks):
        raise typer.Exit(MISMATCH)


def _refuse_unknown(files: Mapping[str, Path | None], record: AuditRecord) -> None:
    """An error for a file that the record says nothing about."""
    for role, path in files.items():
        if path is not None and role not in record.sources:
            known = ", ".join(record.sources)
            raise ValueError(
                f"Got --{role.replace('_', '-')} {str(path)!r}, but the certificate was made "
                f"without it. It has: {known}. Leave the option out."
            )


def _refuse_rerun(files: Mapping[str, Path | None], record: AuditRecord) -> None:
    """An error where numbers cannot be computed again: exit code 0 would mislead."""
    if record.settings is None:
        raise ValueError(
            "Got --rerun, but the certificate was made in Python, and has no options of unspot "
            "certify to repeat. Run the program that made it, or leave --rerun out."
        )
    missing = [f"--{role.replace('_', '-')}" for role in record.sources if not files.get(role)]
    if missing:
        raise ValueError(
            f"Got --rerun without {' and '.join(missing)}, but expected every file that the "
            "certificate was made from. Give them, or leave --rerun out."
        )


def _rerun(record: AuditRecord, files: Mapping[str, Path | None], checks: list[Check]) -> Check:
    """Certify again with the settings of the record, where all files are those of the record."""
    from unspot.evaluation.verification import Check, check_numbers

    wrong = [check.name for check in checks if not check.ok]
    if wrong:
        return Check("numbers", None, f"not run again: first the {', '.join(wrong)} must match")
    return check_numbers(record.certificate, _certified_again(record, files))


def _certified_again(record: AuditRecord, files: Mapping[str, Path | None]) -> Certificate:
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from unspot.cli.certify import certify
    from unspot.evaluation.certificate import Certificate
    from unspot.io.records import parse

    every: dict[str, Any] = asdict(record.settings)  # type: ignore[arg-type]
    settings = {name: value for name, value in every.items() if value is not None}
    if "kind" in settings:
        settings["kind"] = settings["kind"].split(",")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        certify(**files, **settings, audit=out, fail=False, quiet=True)  # type: ignore[arg-type]
        return Certificate.from_dict(parse(out.read_bytes())["certificate"])


# -- What unspot certify --audit writes ------------------------------------------------------------


def audit_record(
    certificate: Certificate,
    eraser: Eraser,
    rows: Dataset,
    inputs: Sequence[Path | None],
    settings: Mapping[str, Any],
    words: Mapping[str, str],
) -> AuditRecord:
    """The record of a certificate, with what the erasure cost on the same rows."""
    from unspot.evaluation.audit import AuditRecord, Settings
    from unspot.evaluation.run import evaluate

    metrics = ["neighbours", "variance", *(["task_linear"] if settings["task"] else [])]
    with options.warnings_as_sentences(quiet=True):
        utility = evaluate(eraser, rows, metrics=metrics, random_state=settings["seed"])
    return AuditRecord.of(
        certificate,
        eraser,
        rows,
        files=dict(zip(ROLES, inputs, strict=True)),
        utility=utility,
        settings=Settings(**settings),
        **words,
    )
