"""``unspot evaluate``: erasers and labelled rows in, a table of evidence out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspot.cli import options
from unspot.cli.rows import Source, how_split, unseen_rows, write_page

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.eraser import Eraser
    from unspot.evaluation.results import Evaluation

KEYS = {"seeds": int, "predictions": str, "train_labels": Path, **options.READING_KEYS}


def evaluate(
    eraser: Path,
    data: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    task: str | None = None,
    groups: str | None = None,
    train: Path | None = None,
    metrics: str | None = None,
    budget: str = "quick",
    json: Path | None = None,
    html: Path | None = None,
    settings: list[str] | None = None,
    *,
    seed: int,
    quiet: bool,
) -> None:
    """Measure what an eraser leaves of concept and task.

    \b
    unspot evaluate gender.safetensors test.parquet --task job --html out.html

    Attackers are quick by default, since there are many other numbers. Claims are for unspot
    certify, whose attackers try harder.
    """
    chosen, _ = options.parse_settings(settings, KEYS)
    train_labels = chosen.pop("train_labels", None)
    inputs = (eraser, data, labels, train, train_labels)
    options.check_files({"--json": json, "--html": html}, inputs)
    seeds, predictions = chosen.pop("seeds", 5), chosen.get("predictions")
    if predictions is not None and task is None:
        raise ValueError("Got --set predictions=… without --task, the true labels.")
    from unspot.eraser import load

    loaded = load(eraser)
    source = Source(data, labels, concept, features, task=task, groups=groups, kinds=kind, **chosen)
    rows = unseen_rows([loaded], source, train, train_labels, seed, quiet=quiet)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        from unspot import evaluate as measure

    if not quiet:
        _warn_if_fitted_on(loaded, rows)
    with options.warnings_as_sentences(quiet=quiet):
        evaluation = measure(
            loaded,
            rows,
            metrics=metrics if metrics in ("paper", "all") else options.comma_list(metrics),
            seeds=seeds,
            budget=budget,
            random_state=seed,
            predictions=None if predictions is None else {predictions: rows.test.predictions},
        )
    options.write_json(evaluation, json)
    write_page(evaluation, loaded, rows, html)
    if not quiet and json != options.STDOUT:
        _show(evaluation, rows, data, train)


def _warn_if_fitted_on(eraser: Eraser, rows: Dataset) -> None:
    from unspot.data.dataset import MAX_SEEN, share_fitted_on

    share = share_fitted_on(eraser, rows.test)
    if share > MAX_SEEN:
        which = "these very rows" if share == 1 else f"about {100 * share:.0f} % of these rows"
        options.warn(
            f"The eraser was fitted on {which}, where it does better than on new ones. Keep some "
            "rows away from unspot fit, and evaluate on those."
        )


def _show(evaluation: Evaluation, rows: Dataset, data: Path, train: Path | None) -> None:
    from unspot.evaluation.results import format_value
    from unspot.tables import plain

    n_train, n_validation, n_test = (f"{len(split):,}" for split in rows)
    who = f"attackers learn from {n_validation} rows, probes"
    if rows.train is rows.validation:
        who = "attackers and probes learn"
    how = how_split(rows) if train is None else f"the first {train}"
    options.say(evaluation.name, bold=True)
    options.say(f"  {data}: {who} from {n_train} rows, all are tested on {n_test} ({how}).\n")
    better = {"lower": "lower is better", "higher": "higher is better", "none": ""}
    table = [["", "before", "after", ""]]
    for row in evaluation:
        before, after = (format_value(value, row.unit) for value in (row.before, row.after))
        table.append([f"  {row.label}", before, after, better[row.direction]])
    options.say(plain(table) + "\n")
    labels: dict[str, list[str]] = {}  # of rows with the same note
    for row in evaluation:
        labels.setdefault(row.note, []).append(row.label)
    for note, those in labels.items():
        if note:
            options.say(f"  {'; '.join(those)}: {note}", dim=True)
