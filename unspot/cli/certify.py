"""``unspot certify``: an eraser and rows that it has not seen in, a statement out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unspot.cli import options
from unspot.cli.rows import Source, unseen_rows, write_page

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate

KEYS = {"attackers": str, "alpha": float, **options.READING_KEYS}


def certify(
    eraser: Path,
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    task: str | None = None,
    groups: str | None = None,
    given: str | None = None,
    margin: float | None = None,
    budget: str = "standard",
    json: Path | None = None,
    html: Path | None = None,
    check: Path | None = None,
    settings: list[str] | None = None,
    *,
    seed: int,
) -> None:
    """Attack an eraser on unseen rows, and bound what is left.

    \b
    unspot certify gender.safetensors test.parquet --margin 0.1

    Exit codes: 0 HOLDS or no margin, 3 LEAKS, 4 INCONCLUSIVE (these rows cannot tell), 2 an error,
    5 another result than that of --check.
    """
    chosen, _ = options.parse_settings(settings, KEYS)
    attack: dict[str, Any] = {"attackers": options.comma_list(chosen.pop("attackers", None))}
    attack |= {"alpha": chosen.pop("alpha", 0.05), "margin": margin, "budget": budget}
    columns: dict[str, Any] = {"task": task, "groups": groups, "kinds": kind, "given": given}
    source = Source(data, labels, concept, features, **columns, **chosen)
    options.check_files({"--json": json, "--html": html}, (eraser, *source.files, check))
    from unspot.checks import check_share
    from unspot.eraser import load

    earlier = None if check is None else _read_certificate(check)
    if margin is not None:
        check_share("--margin", margin)
    loaded = load(eraser)
    rows = unseen_rows([loaded], source, seed)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot import certify as certified

    certificate = certified(loaded, rows, random_state=seed, **attack)
    known = ", ".join(options.comma_list(given) or ())
    certificate = certificate.naming(task=task, given=known)
    options.write_json(certificate, json)
    write_page(certificate, loaded, rows, html)
    show(certificate)
    if earlier is not None:
        _end_if_different(certificate, earlier, check)
    raise typer.Exit(options.EXIT_CODES[certificate.verdict])


def show(certificate: Certificate) -> None:
    """Print a certificate: the statement first, and the decision in the colour of its verdict."""
    options.say(certificate.statement, bold=True)
    options.say(certificate.decision, fg=options.COLOURS.get(certificate.verdict or ""))
    _, _, rest = str(certificate).partition(f"{certificate.decision}\n")
    options.say(rest)


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
