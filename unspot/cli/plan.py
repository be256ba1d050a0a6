"""``unspot plan``: what the rows can reach and show, before any fit."""

from __future__ import annotations

from pathlib import Path

from unspot.cli import options
from unspot.cli.rows import Source, read


def plan(
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    groups: str | None = None,
    max_advantage: float | None = None,
    json: Path | None = None,
    settings: list[str] | None = None,
    *,
    quiet: bool,
) -> None:
    """Say what these rows can reach and show, before any fit.

    \b
    unspot plan data.parquet -f emb -c gender --max-advantage 0.02
    """
    options.check_files({"--json": json}, (data, labels))
    chosen, _ = options.parse_settings(settings, options.READING_KEYS)
    source = Source(data, labels, concept, features, groups=groups, **chosen)
    table, _ = read(source, quiet=quiet or json == options.STDOUT)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot.choice.plan import plan as planned

    bound = {} if max_advantage is None else {"max_advantage": max_advantage}
    result = planned(table.X, table.z, groups=table.groups, **bound)
    options.write_json(result, json)
    if not quiet and json != options.STDOUT:
        options.say(str(result))
