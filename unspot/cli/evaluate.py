"""``unspot evaluate``: erasers and labelled rows in, a table of evidence out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.cli import options
from unspot.cli.rows import Source, how_split, unseen_rows, write_page

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.eraser import Eraser
    from unspot.evaluation.evaluations import Evaluation, Evaluations

KEYS = {"seeds": int, "budget": str, **options.READING_KEYS}


def evaluate(
    files: list[str],
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    task: str | None = None,
    groups: str | None = None,
    pairs: str | None = None,
    metrics: str | None = None,
    json: Path | None = None,
    html: Path | None = None,
    settings: list[str] | None = None,
    *,
    seed: int,
) -> None:
    """Measure what an eraser leaves of concept and task.

    \b
    unspot evaluate gender.safetensors test.parquet --task job --html out.html

    Attackers are quick by default, since there are many other numbers. Claims are for unspot
    certify, whose attackers try harder. Several erasers share one table.
    """
    chosen, _ = options.parse_settings(settings, KEYS)
    seeds, budget = chosen.pop("seeds", 5), chosen.pop("budget", "quick")
    paths, data = _named_files(files)
    columns: dict[str, Any] = {"task": task, "groups": groups, "kinds": kind, "pairs": pairs}
    source = Source(data, labels, concept, features, **columns, **chosen)
    options.check_files({"--json": json, "--html": html}, (*paths.values(), *source.files))
    from unspot.eraser import load

    erasers = {name: load(path) for name, path in paths.items()}
    rows = unseen_rows(list(erasers.values()), source, seed)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot import evaluate as measure

    for loaded in erasers.values():
        _warn_if_fitted_on(loaded, rows)
    several = len(erasers) > 1
    evaluation = measure(
        erasers if several else next(iter(erasers.values())),
        rows,
        metrics=options.comma_list(metrics),
        seeds=seeds,
        budget=budget,
        random_state=seed,
    )
    options.write_json(evaluation, json)
    write_page(dict(evaluation) if several else evaluation, erasers, rows, html)
    statement = "" if several else evaluation.statement
    options.say(" and ".join(evaluation) if several else statement or evaluation.name, bold=True)
    _show_rows(rows, data)
    (_show_several if several else _show)(evaluation)


def _warn_if_fitted_on(eraser: Eraser, rows: Dataset) -> None:
    from unspot.data.dataset import MAX_SEEN, share_fitted_on

    share = share_fitted_on(eraser, rows.test)
    if share > MAX_SEEN:
        which = "these very rows" if share == 1 else f"about {100 * share:.0f} % of these rows"
        options.warn(
            f"The eraser was fitted on {which}, where it does better than on new ones. Keep some "
            "rows away from unspot fit, and evaluate on those."
        )


def _named_files(files: list[str]) -> tuple[dict[str, Path], Path]:
    """Name the erasers' files by their stems, or as NAME=FILE says; the rows come last."""
    *entries, last = files
    if not entries:
        raise ValueError(
            f"Got {last!r} alone, but expected an eraser and rows: unspot evaluate e.safetensors "
            "test.parquet."
        )
    named: dict[str, Path] = {}
    for entry in entries:
        given, _, rest = entry.partition("=")
        path = Path(rest) if rest and not Path(entry).exists() else Path(entry)
        name = given if path == Path(rest) else path.stem
        if name in named:
            raise ValueError(
                f"Got two erasers of the name {name}, but expected names that differ. Give NAME="
                f"{path}."
            )
        named[name] = path
    return named, Path(last)


def _show_rows(rows: Dataset, data: Path) -> None:
    from unspot.evaluation.measure import unseen

    n_train, n_test = len(rows.probe_rows), len(rows.test)
    options.say(
        f"  {data}: attackers learn from one half of {len(unseen(rows)):,} rows and are judged "
        f"on the other, both ways; probes learn from {n_train:,} rows and are tested on {n_test:,} "
        f"({how_split(rows)}).\n"
    )


def _show_several(evaluations: Evaluations) -> None:
    from unspot.tables import plain

    options.say(plain(evaluations.cells()))
    options.say("↓ lower is better, ↑ higher is better\n", dim=True)
    for difference in evaluations.differences:
        options.say(str(difference))


def _show(evaluation: Evaluation) -> None:
    from unspot.evaluation.evaluations import format_value
    from unspot.tables import plain

    better = {"lower": "lower is better", "higher": "higher is better", "none": ""}
    table = [["", "before", "after", ""]]
    for row in evaluation:
        before, after = (format_value(value, row.unit) for value in (row.before, row.after))
        table.append([f"  {row.label}", before, after, better[row.direction]])
    options.say(plain(table) + "\n")
    labels: dict[str, list[str]] = {}  # labels of rows by their note
    for row in evaluation:
        labels.setdefault(row.note, []).append(row.label)
    for note, those in labels.items():
        if note:
            options.say(f"  {'; '.join(those)}: {note}", dim=True)
