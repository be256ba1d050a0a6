"""``unspot compare``: two or more erasers and labelled rows in, one table and one page out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.evaluation.comparison import Comparison


def compare(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="ERASER… DATA",
            help="Two or more .safetensors files (NAME=FILE names an eraser), and rows that none "
            "of them has seen.",
        ),
    ],
    concept: options.ConceptOfFit = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    task: options.Task = None,
    features: options.FeaturesOfFit = None,
    groups: options.Groups = None,
    budget: options.Budget = "quick",
    seed: options.Seed = 0,
    json: options.JsonFile = None,
    html: options.HtmlFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Measure erasers on the same rows with the same attackers, side by side.

    unspot compare leace.safetensors leopard.safetensors test.parquet -c gender --html both.html

    The others are compared with the first one.
    """
    *entries, last = files
    data, paths = Path(last), _named(entries)
    options.check_files({"--json": json, "--html": html}, (*paths.values(), data, labels))
    from dataclasses import replace

    from unspot.cli.evaluate import read_rows
    from unspot.eraser import load

    erasers = {name: load(path) for name, path in paths.items()}
    first = next(iter(erasers.values()))
    test, _ = read_rows(
        first,
        (data, labels),
        (None, None),
        flags=("", ""),
        quiet=quiet,
        key=key,
        drop_missing=drop_missing,
        concept=concept,
        features=features,
        task=task,
        groups=groups,
    )
    from unspot.data.dataset import Dataset, was_fitted_on

    seen = [name for name, eraser in erasers.items() if was_fitted_on(eraser, test)]
    if seen:
        raise ValueError(
            f"Got {data.name} with rows that {seen[0]} was fitted on, but expected rows that no "
            "eraser has seen: on its own rows every eraser looks good. Keep some rows away from "
            "unspot fit, and compare on those."
        )
    learn, judge = test.halves(seed)
    called = concept or first.metadata.get("concept_name", "")
    rows = replace(Dataset(learn, learn, judge, name=data.name), concept=called)
    # After all that can be wrong with the files: it imports torch.
    with options.loading():
        from unspot.evaluation.comparison import compare as measure

    shows = not quiet and json != options.STDOUT
    with options.warnings_as_sentences(quiet=quiet):
        found = measure(
            erasers,
            rows,
            budget=budget,
            random_state=seed,
        )
    written = options.write_json(found, json), _write_page(found, erasers, rows, html)
    if shows:
        _show(found, rows)
    options.end_if_lost(*written)


def _named(entries: list[str]) -> dict[str, Path]:
    """The files of the erasers by name: that of the file, or as the user gave it."""
    from unspot.io.files import split_name

    if len(entries) < 2:
        raise ValueError(
            f"Got {len(entries) + 1} {'files' if entries else 'file'}, of which the last one is "
            "taken for the rows, but expected two erasers or more, and the rows last: "
            "unspot compare a.safetensors b.safetensors test.parquet. One eraser is measured by "
            "unspot evaluate."
        )
    named: dict[str, Path] = {}
    for entry in entries:
        given, path = split_name(entry)
        name = given or path.stem
        if name in named:
            raise ValueError(
                f"Got two erasers of the name {name}, but expected names that differ. Give NAME="
                f"{path}."
            )
        named[name] = path
    return named


def _write_page(
    found: Comparison, erasers: dict[str, Any], rows: Dataset, html: Path | None
) -> bool:
    if html is None:
        return True
    from dataclasses import replace

    from unspot.report import make_views
    from unspot.report.html import write_page
    from unspot.report.reading import read_contents

    contents = read_contents(dict(found.evaluations), chosen=found.best)
    said = tuple(map(str, found.differences))
    verdicts = (replace(v, details=(*said, *v.details)) for v in contents.verdicts)
    contents = replace(contents, verdicts=tuple(verdicts))
    views = make_views(erasers, rows)
    return options.write_or_keep(html, lambda place: write_page(contents, place, views))


def _show(found: Comparison, rows: Dataset) -> None:
    from unspot.report.reading import read_contents
    from unspot.report.tables import measure_groups
    from unspot.tables import plain

    contents = read_contents(dict(found.evaluations), chosen=found.best)
    typer.secho(contents.title, bold=True)
    typer.echo(
        f"  Attackers learned from {len(rows.validation):,} rows, all is judged on "
        f"{len(rows.test):,}; {rows.name} was {options.split_words(rows)}.\n"
    )
    table = [("", "before", *found.evaluations)]
    for _, measures in measure_groups(contents, spreads=False):
        table += [(f"{m.title} {m.arrow}".strip(), m.before, *m.after) for m in measures]
    typer.echo(plain(table))
    chance = f"; guessing gets {100 * contents.chance:.1f} %" if contents.chance else ""
    typer.secho(f"↓ lower is better, ↑ higher is better{chance}\n", dim=True)
    for difference in found.differences:
        typer.echo(str(difference))
    typer.echo(f"The strongest attacker recovers least after {found.best}.")
