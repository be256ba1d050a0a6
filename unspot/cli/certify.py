"""``unspot certify``: an eraser and labelled rows that it has not seen in, a verdict out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.eraser import Eraser
    from unspot.evaluation.certificate import Certificate


def certify(
    eraser: options.EraserFile,
    data: options.TestRows,
    concept: options.ConceptsOfFit = None,
    features: options.FeaturesOfFit = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    groups: options.Groups = None,
    kind: options.Kinds = None,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Labels that attackers know, such as the task: only what rows add to it counts.",
        ),
    ] = None,
    attack_rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows that attackers learn from; else half of DATA."),
    ] = None,
    attack_labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A second file with the labels of --attack-rows."),
    ] = None,
    budget: options.Budget = "standard",
    attackers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="A comma list, such as logistic,trees.")
    ] = None,
    alpha: Annotated[float, typer.Option(metavar="A", help="Probability of a false alarm.")] = 0.05,
    seed: options.Seed = 0,
    json: options.JsonFile = None,
    html: options.HtmlFile = None,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            "--max-advantage",
            metavar="A",
            help="The largest advantage over guessing that counts as erased; of a number, the "
            "largest share of its variance.",
        ),
    ] = 0.05,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Compare with the JSON of an earlier certificate."),
    ] = None,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail/--no-fail",
            metavar="",
            help="End with an exit code that tells the verdict, or with 0.",
        ),
    ] = True,
    quiet: options.Quiet = False,
) -> None:
    """Attack an eraser on rows it has not seen, and say what could be recovered.

    unspot certify gender.safetensors test.parquet --concept gender --budget quick

    Exit codes: 0 HOLDS, 3 LEAKS, 4 INCONCLUSIVE (these rows cannot tell), 2 an error, 5 another
    result than that of --check.
    """
    inputs = (eraser, data, labels, attack_rows, attack_labels)
    options.check_files({"--json": json, "--html": html}, (*inputs, check))
    from unspot.checks import check_share
    from unspot.cli.evaluate import read_rows, unseen_rows, write_page
    from unspot.eraser import load

    earlier = None if check is None else _read_certificate(check)
    check_share("--margin", margin)
    loaded = load(eraser)
    test, learn = read_rows(
        loaded,
        (data, labels),
        (attack_rows, attack_labels),
        flags=("--attack-rows", "--attack-labels"),
        quiet=quiet,
        key=key,
        drop_missing=drop_missing,
        concept=concept,
        features=features,
        task=given,
        groups=groups,
        kinds=kind,
    )
    from unspot.data.dataset import Dataset

    if learn is None:
        rows = unseen_rows(loaded, test, learn, data, seed)
    else:  # these rows and no others, also where the eraser was fitted on them
        rows = Dataset(learn, learn, test, name=data.name)
    rows = replace(rows, concept=concept or "")  # else the name of the eraser's fit
    seen = _refuse_seen(loaded, rows, data)
    # After all that can be wrong with the files: it imports torch.
    with options.loading():
        from unspot.evaluation.held_out import certify as attack

    shows = not quiet and json != options.STDOUT
    with options.warnings_as_sentences(quiet=quiet):
        certificate = attack(
            loaded,
            rows,
            attackers=options.comma_list(attackers),
            budget=budget,
            alpha=alpha,
            margin=margin,
            attack_rows="seen" if seen else "unseen",
            given=None if given is None else "y",
            random_state=seed,
        )
    certificate = certificate.called(given=given or "")
    written = [options.write_json(certificate, json)]
    written.append(write_page(certificate, loaded, rows, html))
    if shows:
        verdict, _, rest = str(certificate).partition("\n")
        typer.secho(verdict, bold=True, fg=options.COLOURS[certificate.verdict])
        typer.echo(rest)
        if attack_rows is None:
            typer.echo(
                f"{data.name} was {options.split_words(rows)}: {len(rows.validation):,} "
                f"rows to learn from, {len(rows.test):,} to judge on."
            )
    options.end_if_lost(*written)
    if earlier is not None:
        _end_if_different(certificate, earlier, check, quiet=quiet)
    if fail and certificate.verdict != "HOLDS":
        raise typer.Exit(options.EXIT_CODES[certificate.verdict])


def _refuse_seen(eraser: Eraser, rows: Dataset, data: Path) -> bool:
    """Whether the eraser was fitted on the rows to learn from; on those to judge on, an error."""
    from unspot.data.dataset import MAX_SEEN, share_fitted_on, was_fitted_on

    share = share_fitted_on(eraser, rows.test)
    if share > MAX_SEEN:
        part = "which the eraser was fitted on" if share > 0.9 else "which has rows of its fit"
        raise ValueError(
            f"Got {str(data)!r}, {part}, but expected rows to judge on that the eraser has not "
            "seen: on its own rows every eraser looks good. Keep some rows away from unspot fit; "
            "after unspot path without a task, give the same file and the same --seed."
        )
    return was_fitted_on(eraser, rows.validation)


def _read_certificate(path: Path) -> Certificate:
    from unspot.evaluation.certificate import Certificate
    from unspot.io.records import parse

    try:
        return Certificate.from_dict(parse(path.read_bytes()))
    except ValueError as error:
        raise ValueError(
            f"Got --check {str(path)!r}, which is no certificate ({error}), but expected a file "
            "written by unspot certify --json."
        ) from None


def _end_if_different(
    certificate: Certificate, earlier: Certificate, path: Path | None, *, quiet: bool
) -> None:
    """End with an exit code if the earlier certificate says something else."""
    differences = certificate.differences_from(earlier)
    for sentence in differences:
        typer.secho(f"Differs from {path}: {sentence}", fg="red", err=True)
    if differences:
        raise typer.Exit(options.DIFFERENT)
    if not quiet:
        typer.echo(f"The same eraser, rows and numbers as in {path}.", err=True)
