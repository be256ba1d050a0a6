"""``unspot plan``: what these rows can reach and show, before any fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unspot.cli import options


def plan(
    data: options.Embeddings,
    concept: options.Concept = None,
    features: options.Features = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    groups: options.Groups = None,
    max_advantage: Annotated[
        float, typer.Option(metavar="A", help="What attackers may gain at most.")
    ] = 0.05,
    quick_path: Annotated[
        bool,
        typer.Option("--quick-path", metavar="", help="Fit some ranks on a part, and attack them."),
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it too, as .png or .pdf.")
    ] = None,
    json: options.JsonFile = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say what these rows can reach and show, before any fit.

    unspot plan data.parquet -f emb -c gender --max-advantage 0.02
    """
    options.check_files({"--json": json, "--figure": figure}, (data, labels))
    if figure is not None:
        from unspot.checks import require

        require("unspot plan --figure", "report", "matplotlib")
        if figure.suffix not in (".png", ".pdf"):
            raise ValueError(
                f"Got --figure {figure}, but expected a name that ends in .png or .pdf."
            )
    options.check_concept(concept, labels)
    from unspot.io import read_table

    columns: dict[str, Any] = {"concept": concept, "groups": groups}
    table = read_table(
        data, features=features, **columns, labels_file=labels, key=key, drop_missing=drop_missing
    )
    options.note(table.dropped, quiet=quiet or json == options.STDOUT)
    # After all that can be wrong with the files: it imports torch.
    with options.loading():
        from unspot.choice.plan import plan as planned

    found = planned(
        table.X,
        table.z,
        groups=table.groups,
        max_advantage=max_advantage,
        quick_path=quick_path,
        random_state=seed,
    )
    written = [options.write_json(found, json)]
    if figure is not None:
        from unspot.report.figures import save

        written.append(options.write_or_keep(figure, lambda place: save(found.figure(), place)))
    if not quiet and json != options.STDOUT:
        typer.echo(str(found))
    options.end_if_lost(*written)
