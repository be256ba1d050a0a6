"""``unspot certify``: an eraser and labelled rows that it has not seen in, a verdict out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset, Split
    from unspot.eraser import Eraser


def certify(
    eraser: options.EraserFile,
    data: options.TestRows,
    concept: options.ConceptOfFit = None,
    features: options.FeaturesOfFit = None,
    labels: options.LabelsFile = None,
    groups: options.Groups = None,
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
    fail: Annotated[
        bool,
        typer.Option("--fail", metavar="", help="End with exit code 3 if the concept leaks."),
    ] = False,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            metavar="A", help="End with exit code 3 if the upper bound on the advantage is above A."
        ),
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Attack an eraser on rows it has not seen, and say what could be recovered.

    unspot certify gender.safetensors test.parquet --concept gender --budget quick
    """
    from unspot.checks import check_share
    from unspot.cli.evaluate import read_rows, write_page
    from unspot.eraser import load

    inputs = (eraser, data, labels, attack_rows, attack_labels)
    options.refuse_inputs({"--json": json, "--html": html}, inputs)
    if max_advantage is not None:
        check_share("--max-advantage", max_advantage)
    loaded = load(eraser)
    test, learn = read_rows(
        loaded,
        (data, labels),
        (attack_rows, attack_labels),
        flags=("--attack-rows", "--attack-labels"),
        concept=concept,
        features=features,
        groups=groups,
    )
    rows, seen = _dataset(loaded, test, learn, data, seed)
    # After all that can be wrong with the files: it imports torch.
    from unspot.evaluation.held_out import certify as attack

    shows = not quiet and json != options.STDOUT
    with options.warnings_as_sentences(quiet=quiet):
        certificate = attack(
            loaded,
            rows,
            attackers=options.comma_list(attackers),
            budget=budget,
            alpha=alpha,
            attack_rows="seen" if seen else "unseen",
            random_state=seed,
            verbose=shows and sys.stderr.isatty(),
        )
    options.write_json(certificate, json)
    write_page(certificate, loaded, rows, html)
    exceeds = max_advantage is not None and certificate.upper_bound > max_advantage
    if shows:
        typer.echo(str(certificate))
        if attack_rows is None:
            typer.echo(
                f"{data.name} was split at random, stratified by class: {len(rows.train):,} rows "
                f"to learn from, {len(rows.test):,} to judge on."
            )
        if max_advantage is not None:
            typer.echo(
                f"Bound: an advantage of at most {100 * certificate.upper_bound:.1f} points, "
                f"{'more than' if exceeds else 'within'} the {100 * max_advantage:.1f} that are "
                "allowed."
            )
    if exceeds or (fail and certificate.leaks):
        raise typer.Exit(3)


def _dataset(
    eraser: Eraser, whole: Split, learn: Split | None, data: Path, seed: int
) -> tuple[Dataset, bool]:
    """Rows to learn from and rows to judge on, and whether the eraser was fitted on the first."""
    import numpy as np

    from unspot.data.dataset import Dataset, share_fitted_on, stratified_parts, was_fitted_on
    from unspot.data.labels import encode

    test = whole
    if learn is None and was_fitted_on(eraser, whole):
        # The split of unspot path: rows that had a say in the choice of the rank are not judged on.
        rows = Dataset.from_arrays(whole.X, whole.z, groups=whole.groups, random_state=seed)
        learn, test = rows.validation, rows.test
    elif learn is None:
        codes = encode(whole.z, n_rows=len(whole)).codes
        rng = np.random.default_rng(seed)
        parts = stratified_parts(codes, (0.5, 0.5), rng, whole.groups)
        learn, test = (whole.take(part) for part in parts)
    if was_fitted_on(eraser, test):
        all_seen = share_fitted_on(eraser, whole) == 1
        part = "which the eraser was fitted on" if all_seen else "which has rows of its fit"
        raise ValueError(
            f"Got {str(data)!r}, {part}, but expected rows to judge on that the eraser has not "
            "seen: on its own rows every eraser looks good. Keep some rows away from unspot fit; "
            "after unspot path without a task, give the same file and the same --seed."
        )
    return Dataset(learn, learn, test, name=data.name), was_fitted_on(eraser, learn)
