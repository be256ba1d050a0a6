"""``unspot evaluate``: an eraser and labelled rows in, a table of evidence out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unspot.data.dataset import Dataset, Split
    from unspot.eraser import Eraser
    from unspot.evaluation.results import Evaluation
    from unspot.io import Table


def evaluate(
    eraser: options.EraserFile,
    data: options.TestRows,
    concept: options.ConceptsOfFit = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    task: options.Task = None,
    predictions: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The task as your own classifier predicts it from erased rows: fairness is that "
            "of these labels.",
        ),
    ] = None,
    features: options.FeaturesOfFit = None,
    groups: options.Groups = None,
    kind: options.Kinds = None,
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows that probes learn from; by default some of DATA."),
    ] = None,
    train_labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A second file with the labels of --train.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", "-m", metavar="NAMES", help="A comma list, 'paper' or 'all'."),
    ] = None,
    seeds: options.Seeds = 5,
    budget: options.Budget = "quick",
    seed: options.Seed = 0,
    json: options.JsonFile = None,
    html: options.HtmlFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Measure what an eraser leaves of the concept, and of everything else.

    unspot evaluate gender.safetensors test.parquet --concept gender --task job --html out.html

    Attackers are quick by default, since there are many other numbers, before and after. Claims
    are for unspot certify, whose attackers try harder.
    """
    inputs = (eraser, data, labels, train, train_labels)
    options.check_files({"--json": json, "--html": html}, inputs)
    if predictions is not None and task is None:
        raise ValueError(
            f"Got --predictions {predictions} without --task, the labels that they are to be."
        )
    from unspot.eraser import load

    loaded = load(eraser)
    test, learn = read_rows(
        loaded,
        (data, labels),
        (train, train_labels),
        flags=("--train", "--train-labels"),
        quiet=quiet,
        key=key,
        drop_missing=drop_missing,
        concept=concept,
        features=features,
        task=task,
        groups=groups,
        kinds=kind,
        predictions=predictions,
    )
    rows = replace(unseen_rows(loaded, test, learn, data, seed), concept=concept or "")
    # After all that can be wrong with the files: it imports more than numpy.
    with options.loading():
        from unspot.evaluation.run import evaluate as measure

    shows = not quiet and json != options.STDOUT
    if not quiet:
        _warn_if_fitted_on(loaded, rows.test)
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
    written = options.write_json(evaluation, json), write_page(evaluation, loaded, rows, html)
    if shows:
        _show(evaluation, rows, data, train)
    options.end_if_lost(*written)


# -- Steps that unspot certify shares --------------------------------------------------------------


def read_rows(
    eraser: Eraser,
    test: tuple[Path, Path | None],
    learn: tuple[Path | None, Path | None],
    *,
    flags: tuple[str, str],
    quiet: bool = False,
    **names: Any,
) -> tuple[Split, Split | None]:
    """Read rows to test on, and other rows to learn from if they have a file of their own.

    Parameters
    ----------
    test, learn : pairs of paths
        The file of the rows, and a second file with their labels, or None.
    flags : pair of str
        The options that give ``learn``, for messages.
    quiet : bool
        Whether to be silent about rows that are left out.
    **names
        ``concept``, ``features``, ``task``, ``groups`` and ``key``: columns or arrays. By default
        the concept and the features are those that ``unspot fit`` wrote into the eraser. Also
        ``drop_missing``, whether to leave out rows without a label, and ``kinds``: what concepts
        are, as ``--kind`` has it.
    """
    data, labels = test
    others, labels_of_others = learn
    if others is None and labels_of_others is not None:
        raise ValueError(f"Got {flags[1]} without {flags[0]}, the rows that they belong to.")
    if names.get("key") and not (labels or labels_of_others):
        raise ValueError("Got --key without --labels, the file with the labels it belongs to.")
    tested = _read_split(eraser, data, labels, "--labels", quiet, **names)
    _note_other_concept(eraser, names.get("concept"), quiet)
    if others is None:
        return tested, None
    names["predictions"] = None  # of the rows that are judged on, and of no others
    learned = _read_split(eraser, others, labels_of_others, flags[1], quiet, **names)
    # After all that can be wrong with the files: it imports more than numpy.
    from unspot.data.dataset import MAX_SHARED, share_among

    share = share_among(tested, learned)
    if share > MAX_SHARED:
        raise ValueError(
            f"Got {flags[0]} with {100 * share:.0f} % of the rows of {data.name}, but "
            "expected other rows to learn from: what was learned by heart is no evidence. Leave "
            f"out {flags[0]} to split {data.name} at random."
        )
    return tested, learned


def _read_split(
    eraser: Eraser,
    path: Path,
    labels: Path | None,
    option: str,
    quiet: bool,
    *,
    concept: str | None,
    features: str | None,
    key: str | None = None,
    kinds: list[str] | None = None,
    predictions: str | None = None,
    **columns: Any,
) -> Split:
    from unspot.io import read_table
    from unspot.io.tables import has_column

    name = concept or eraser.metadata.get("concept_name")
    if labels is None:
        if path.suffix.lower() == ".npy":
            raise ValueError(
                f"Got {str(path)!r}, one array without labels. Give them in a second file, with "
                f"{option}."
            )
        options.check_concept(name, labels, option)
    elif concept is None and name and not has_column(labels, name):
        name = None  # fit names the concept after its file of labels if that has one column
    vectors = features or _features_of_fit(eraser, path)
    kind = {**_kinds_of_fit(eraser, name), **options.parse_kinds(kinds, name)}
    by_key: dict[str, Any] = {} if labels is None else {"labels_file": labels, "key": key}
    # Names of rows are read like any label, and nothing here shows them.
    table = read_table(path, features=vectors, concept=name, names=predictions, **columns, **by_key)
    options.note(table.dropped, quiet=quiet)
    return _labelled(_vectors(eraser, table, path), table, kind, name)


def _note_other_concept(eraser: Eraser, concept: str | None, quiet: bool) -> None:
    """What an eraser leaves of something else is worth a look, but easily taken for its failure."""
    erased = str(eraser.metadata.get("concept_name") or "")
    others = {*(concept or "").split(",")} - {*erased.split(",")}
    if concept and erased and others:
        options.note(
            f"This eraser was fitted to erase {erased}; what is measured is {concept}.", quiet=quiet
        )


def _kinds_of_fit(eraser: Eraser, name: str | None) -> dict[str, str]:
    """What the eraser was fitted on, if that are the same concepts: numbers among whole ones."""
    facts = eraser.metadata
    if name is None or name != facts.get("concept_name"):
        return {}
    listed = facts.get("concepts") or [{"name": name, "kind": facts.get("concept")}]
    kinds = {str(one["name"]): str(one["kind"]) for one in listed}
    return {name: kind for name, kind in kinds.items() if kind in ("categories", "continuous")}


def _labelled(X: NDArray[Any], table: Table, kinds: dict[str, str], name: str | None) -> Split:
    """Rows with their concept, or with a table of several."""
    from unspot.data.concept import read
    from unspot.data.dataset import Split

    several = isinstance(table.z, dict)
    concept = read(table.z, n_rows=len(X), kind=kinds if several else kinds.get(name or ""))
    return Split(X, concept, table.y, groups=table.groups, predictions=table.names)


def _vectors(eraser: Eraser, table: Table, path: Path) -> NDArray[Any]:
    import numpy as np

    from unspot.io.columns import in_order_of_fit

    # A pattern gives the columns in the order of the file.
    columns = in_order_of_fit(table.features, eraser.metadata.get("features", ()), str(path))
    X = np.asarray(table.X)
    if columns != list(table.features):
        X = X[:, [table.features.index(name) for name in columns]]
    return X


def _features_of_fit(eraser: Eraser, path: Path) -> str | list[str] | None:
    """The names of the vectors in the file of the fit, if they mean something in this file."""
    names = list(eraser.metadata.get("features", ()))
    kind = path.suffix.lower()
    # A .npy file has no names, and many columns of a table are one array of a .npz file.
    if not names or kind == ".npy" or (kind == ".npz" and len(names) > 1):
        return None
    return names[0] if len(names) == 1 else names


def write_page(result: Any, eraser: Eraser, rows: Dataset, html: Path | None) -> bool:
    """Write an HTML page with pictures of the rows, if there is a path; False if it failed."""
    if html is None:
        return True
    from unspot.report import make_views, to_html

    views = make_views(eraser, rows)
    return options.write_or_keep(html, lambda place: to_html(result, place, views=views))


def unseen_rows(
    eraser: Eraser, whole: Split, learn: Split | None, data: Path, seed: int
) -> Dataset:
    """Rows to learn from and rows to judge on, other than those of the fit where that is possible.

    The same for ``evaluate`` and ``certify``, so that they give the same number. Where there are no
    rows of the fit, train and validation are the same rows to learn from.
    """
    from unspot.data.dataset import Dataset, was_fitted_on

    if learn is not None and not was_fitted_on(eraser, learn):
        return Dataset(learn, learn, whole, name=data.name)
    if learn is None and was_fitted_on(eraser, whole):
        # The split of unspot path: rows that had a say in the choice of the rank are not judged on.
        split = Dataset.from_arrays(
            whole.X,
            whole.concept,
            whole.task,
            names=whole.predictions,
            groups=whole.groups,
            random_state=seed,
            name=data.name,
        ).mapped(lambda split: replace(split, names=None, predictions=split.names))
        refitted = was_fitted_on(eraser, split.validation) and not was_fitted_on(eraser, split.test)
        if not refitted:
            return split
        from unspot.evaluation.run import after_refit

        return after_refit(split, seed)
    first, second = whole.halves(seed)
    return Dataset(first if learn is None else learn, first, second, name=data.name)


# -- What only unspot evaluate does ----------------------------------------------------------------


def _warn_if_fitted_on(eraser: Eraser, rows: Split) -> None:
    from unspot.data.dataset import MAX_SEEN, share_fitted_on

    share = share_fitted_on(eraser, rows)
    if share > MAX_SEEN:
        which = "these very rows" if share == 1 else f"about {100 * share:.0f} % of these rows"
        options.warn(
            f"The eraser was fitted on {which}, where it does better than on new ones. Keep some "
            "rows away from unspot fit, and evaluate on those."
        )


def _show(evaluation: Evaluation, rows: Dataset, data: Path, train: Path | None) -> None:
    from unspot.evaluation.results import format_value

    n_train, n_validation, n_test = (f"{len(split):,}" for split in rows)
    who = f"attackers learn from {n_validation} rows, probes"
    if rows.train is rows.validation:
        who = "attackers and probes learn"
    source = options.split_words(rows) if train is None else f"the first {train}"
    typer.secho(evaluation.name, bold=True)
    typer.echo(f"  {data}: {who} from {n_train} rows, all are tested on {n_test} ({source}).\n")
    better = {"lower": "  lower is better", "higher": "  higher is better", "none": ""}
    cells = [("", "before", "after", "")]
    for row in evaluation:
        before, after = (format_value(value, row.unit) for value in (row.before, row.after))
        cells.append((row.label, before, after, better[row.direction]))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for label, before, after, direction in cells:
        numbers = f"{before.rjust(widths[1])}  {after.rjust(widths[2])}"
        typer.echo(f"  {label.ljust(widths[0])}  {numbers}{typer.style(direction, dim=True)}")
    typer.echo("")
    labels: dict[str, list[str]] = {}  # of rows with the same note
    for row in evaluation:
        labels.setdefault(row.note, []).append(row.label)
    for note, those in labels.items():
        if note:
            typer.secho(f"  {'; '.join(those)}: {note}", dim=True)
