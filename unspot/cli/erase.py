"""``unspot erase``: a file and a column in; an eraser, a report and the erased file out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from unspot.cli import options
from unspot.cli.fit import separate_tasks, with_source
from unspot.cli.rows import Source, read, read_concept
from unspot.io.files import listed


def erase(
    data: Path,
    output: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    task: str | None = None,
    groups: str | None = None,
    given: str | None = None,
    max_advantage: float | None = None,
    min_utility: float | None = None,
    no_data: bool = False,
    settings: list[str] | None = None,
    force: bool = False,
    *,
    seed: int,
) -> None:
    """Choose an eraser for a file, certify it, and erase the file.

    \b
    unspot erase tweets.parquet -f emb -c dialect -t sentiment -g user_id -o out/

    Writes eraser.safetensors, report.html, certificate.json and the erased file. Seven tenths of
    the rows choose and fit, the others certify. Exit code 3: the bound is not met, and the nearest
    was taken; 4: the rows cannot tell.
    """
    files = {name: output / name for name in ("eraser.safetensors", "report.html")}
    files["certificate.json"] = output / "certificate.json"
    if not no_data:
        files["erased"] = output / data.name
    options.check_files(files, (data, labels), force=force)
    chosen, _ = options.parse_settings(settings, options.READING_KEYS)
    tasks = {"given": given} if given else {}
    columns: dict[str, Any] = {"task": task, "groups": groups, "kinds": kind}
    beside = tuple(options.comma_list(given) or ())
    source = Source(data, labels, concept, features, **columns, beside=beside, **chosen)
    table, kinds = read(source)
    z, conditions = separate_tasks(table.z, concept, tasks)
    z = read_concept(z, kinds, n_rows=len(table.X), name=source.name, min_rows=3)
    with options.loading():  # after all that can be wrong with the file: it imports torch
        from unspot.choice.erase import erase as erased
        from unspot.choice.plan import plan

    asked = {} if max_advantage is None else {"max_advantage": max_advantage}
    planned = plan(table.X, z, groups=table.groups, **asked)
    options.note(f"{planned.sentence} {planned.aim}".rstrip() if asked else planned.least)
    if features is None:
        options.note(f"Vectors: {listed(table.features, 8)}.")
    bounds: dict[str, Any] = {"max_advantage": max_advantage, "min_utility": min_utility}
    beside_z: dict[str, Any] = {"task": table.y, "groups": table.groups, **conditions}
    result = erased(table.X, z, **beside_z, **bounds, random_state=seed)
    result = result.called(source.name, task or "", data.name, given or "")
    output.mkdir(parents=True, exist_ok=True)
    named = {"given_name": given} if given else {}
    eraser = with_source(result.eraser, table, source, **named)
    eraser.save(files["eraser.safetensors"])
    options.write_json(result.certificate, files["certificate.json"])
    result.to_html(files["report.html"])
    if not no_data:
        from unspot.scale import Erasure, transform_file

        transform_file(Erasure(eraser, features), data, files["erased"], force=True)
    options.say(str(result))
    options.say(f"Written: {', '.join(map(str, files.values()))}")
    raise typer.Exit(options.EXIT_CODES[result.certificate.verdict] if result.reached else 3)
