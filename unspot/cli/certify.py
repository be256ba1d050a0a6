"""``unspot certify``: an eraser and labelled rows that it has not seen in, a verdict out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unspot.cli import options
from unspot.cli.rows import Source, how_split, unseen_rows, write_page

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.evaluation.certificate import Certificate

KEYS = {"attackers": str, "alpha": float, "train_labels": Path, **options.READING_KEYS}


def certify(
    eraser: Path,
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    groups: str | None = None,
    given: str | None = None,
    train: Path | None = None,
    margin: float = 0.05,
    budget: str = "standard",
    json: Path | None = None,
    html: Path | None = None,
    check: Path | None = None,
    settings: list[str] | None = None,
    *,
    seed: int,
) -> None:
    """Attack an eraser on unseen rows, and give a verdict.

    \b
    unspot certify gender.safetensors test.parquet --budget quick

    Exit codes: 0 HOLDS, 3 LEAKS, 4 INCONCLUSIVE (these rows cannot tell), 2 an error, 5 another
    result than that of --check.
    """
    chosen, _ = options.parse_settings(settings, KEYS)
    attack: dict[str, Any] = {"attackers": options.comma_list(chosen.pop("attackers", None))}
    attack |= {"alpha": chosen.pop("alpha", 0.05), "margin": margin, "budget": budget}
    columns: dict[str, Any] = {"task": given, "groups": groups, "kinds": kind}
    source = Source(data, labels, concept, features, **columns, train=train, **chosen)
    options.check_files({"--json": json, "--html": html}, (eraser, *source.files, check))
    from unspot.checks import check_share
    from unspot.eraser import load

    earlier = None if check is None else _read_certificate(check)
    check_share("--margin", margin)
    loaded = load(eraser)
    rows = unseen_rows([loaded], source, seed)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot import certify as certified

    attack["given"] = None if given is None else "y"
    certificate = certified(loaded, rows, random_state=seed, **attack)
    certificate = certificate.called(given=given or "")
    options.write_json(certificate, json)
    write_page(certificate, loaded, rows, html)
    _show(certificate, rows, data if train is None else None)
    if earlier is not None:
        _end_if_different(certificate, earlier, check)
    if certificate.verdict != "HOLDS":
        raise typer.Exit(options.EXIT_CODES[certificate.verdict])


def _show(certificate: Certificate, rows: Dataset, split: Path | None) -> None:
    verdict, _, rest = str(certificate).partition("\n")
    options.say(verdict, bold=True, fg=options.COLOURS[certificate.verdict])
    options.say(rest)
    if split is not None:
        options.say(
            f"{split.name} was {how_split(rows)}: {len(rows.validation):,} rows to learn from, "
            f"{len(rows.test):,} to judge on."
        )


def _read_certificate(path: Path) -> Certificate:
    import json

    from unspot.evaluation.certificate import Certificate

    try:
        return Certificate.from_dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise ValueError(
            f"Got --check {str(path)!r}, which is no certificate ({error}), but expected a file "
            "written by unspot certify --json."
        ) from None


def _end_if_different(certificate: Certificate, earlier: Certificate, path: Path | None) -> None:
    """End with an exit code if the earlier certificate says something else."""
    differences = certificate.differences_from(earlier)
    for sentence in differences:
        options.complain(f"Differs from {path}: {sentence}")
    if differences:
        raise typer.Exit(options.DIFFERENT)
    options.note(f"The same eraser, rows and numbers as in {path}.")
