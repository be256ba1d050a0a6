"""``unspot plan``: what these rows can reach and show, before any fit."""

from __future__ import annotations

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
    json: options.JsonFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Say what these rows can reach and show, before any fit.

    unspot plan data.parquet -f emb -c gender --max-advantage 0.02
    """
    options.check_files({"--json": json}, (data, labels))
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

    found = planned(table.X, table.z, groups=table.groups, max_advantage=max_advantage)
    written = options.write_json(found, json)
    if not quiet and json != options.STDOUT:
        typer.echo(str(found))
    options.end_if_lost(written)
