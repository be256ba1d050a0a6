"""Rows that commands work on: one place that reads files and splits their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unspot.data.dataset import Dataset, Split
    from unspot.eraser import Eraser
    from unspot.io import Table


@dataclass(frozen=True)
class Source:
    """A file of rows, and the names of its columns as options give them.

    Attributes
    ----------
    data, labels : path
        The file of the vectors, and a second one with their labels.
    train, train_labels : path
        Other rows, for attackers to learn from.
    concept, features, task, groups, predictions : str or None
        Columns or arrays. With an eraser, concept and features are by default those of its fit.
    kinds : sequence of str
        Kinds of concepts, as NAME=KIND.
    beside : tuple of str
        Further columns to read with the concept, for what is given or kept.
    key, drop_missing
        As ``read_table`` takes them.
    """

    data: Path
    labels: Path | None = None
    concept: str | None = None
    features: str | None = None
    task: str | None = None
    groups: str | None = None
    predictions: str | None = None
    kinds: Sequence[str] | None = None
    beside: tuple[str, ...] = ()
    key: str | None = None
    drop_missing: bool = False
    train: Path | None = None
    train_labels: Path | None = None

    @property
    def files(self) -> tuple[Path | None, ...]:
        """Return all files that are read."""
        return self.data, self.labels, self.train, self.train_labels

    @property
    def name(self) -> str:
        """Return what the concept is called: its column, or else the file of its labels."""
        return self.concept or (self.labels or self.data).stem


def read(source: Source, *, on_disk: bool = False) -> tuple[Table, dict[str, str]]:
    """Read vectors and labels, and the kinds of concepts as far as they were said.

    With ``on_disk``, large Parquet files stay there.
    """
    from unspot.io import read_table

    if source.concept is None and source.labels is None:
        raise ValueError(
            "Got no concept. Name its column or array with --concept, or its file with --labels."
        )
    kinds = options.parse_kinds(source.kinds, source.concept)
    names = ",".join(filter(None, [source.concept, *source.beside])) or None
    table = read_table(
        source.data,
        features=source.features,
        concept=names,
        task=source.task,
        names=source.predictions,
        groups=source.groups,
        labels_file=source.labels,
        key=source.key,
        drop_missing=source.drop_missing,
        on_disk=on_disk,
    )
    options.note(table.dropped)
    return table, kinds


def read_concept(z: Any, kinds: dict[str, str], *, n_rows: int) -> Any:
    """Read a concept, or a table of them, with the kinds that are known."""
    from unspot.data.concept import read

    kind = kinds if isinstance(z, dict) else next(iter(kinds.values()), None)
    return read(z, n_rows=n_rows, kind=kind)


def dataset(source: Source, seed: int) -> tuple[Dataset, Table]:
    """Read a file and split it into rows to fit on, to choose on and to test on."""
    table, kinds = read(source)
    import numpy as np

    from unspot.data.dataset import Dataset  # after what can be wrong with the file

    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    rows = Dataset.from_arrays(
        X,
        table.z,
        table.y,
        kind=kinds.get(source.concept or "") or kinds or None,
        groups=table.groups,
        random_state=seed,
        name=source.data.name,
        concept=source.name,
    )
    return rows, table


# -- Rows for fitted erasers -----------------------------------------------------------------------


def unseen_rows(erasers: Sequence[Eraser], source: Source, seed: int) -> Dataset:
    """Read rows to judge erasers on and rows to learn from, which no fit has seen if possible.

    Rows to learn from are those of ``train``, or half of the file. Of rows that chose a rank in
    ``unspot path``, only its test rows are used. Where there are no rows of the fit, there
    is no train split.
    """
    if source.train is None and source.train_labels is not None:
        raise ValueError("Got train_labels without --train, the rows that they belong to.")
    whole = _split_of(erasers[0], source)
    _note_other_concept(erasers[0], source.concept)
    learn = None
    if source.train is not None:
        # Predictions belong to the rows that are judged on.
        other = replace(source, data=source.train, labels=source.train_labels, predictions=None)
        learn = _split_of(erasers[0], other, "--set train_labels=FILE")
        _refuse_shared(whole, learn, source.data)
    rows = _divided(erasers, whole, learn, source.data.name, seed)
    return replace(rows, concept=source.concept or "")  # else the name of the eraser's fit


def _divided(
    erasers: Sequence[Eraser], whole: Split, learn: Split | None, name: str, seed: int
) -> Dataset:
    from unspot.data.dataset import Dataset, was_fitted_on

    def known(split: Split) -> bool:
        return any(was_fitted_on(eraser, split) for eraser in erasers)

    if learn is not None and not known(learn):
        return Dataset(None, learn, whole, name=name)
    if learn is None and known(whole):
        split = Dataset.from_split(whole, random_state=seed, name=name)
        if not known(split.validation) or known(split.test):
            return split
        from unspot.evaluation.evaluations import after_refit

        return after_refit(split, seed)
    first, second = whole.halves(seed)
    return Dataset(learn, first, second, name=name)


def how_split(rows: Dataset) -> str:
    """Say how a file was split in two."""
    return "split at random" + ("" if rows.test.groups is None else ", by group")


def _split_of(eraser: Eraser, source: Source, option: str = "--labels") -> Split:
    """Read a file by the columns of the eraser's fit, where options name no others."""
    from unspot.data.dataset import Split
    from unspot.io.tables import has_column

    name = source.concept or eraser.metadata.get("concept_name")
    if source.labels is None and source.data.suffix.lower() == ".npy":
        raise ValueError(
            f"Got {str(source.data)!r}, one array without labels. Give them in a second file, with "
            f"{option}."
        )
    if source.labels is not None and source.concept is None and name:
        # fit names the concept after its file of labels if that has one column
        name = name if has_column(source.labels, name) else None
    features: Any = source.features or _features_of_fit(eraser, source.data)
    table, kinds = read(replace(source, concept=name, features=features))
    kinds = {**_kinds_of_fit(eraser, name), **kinds}
    X = _in_order_of_fit(eraser, table, source.data)
    concept = read_concept(table.z, kinds, n_rows=len(X))
    return Split(X, concept, table.y, groups=table.groups, predictions=table.names)


def _features_of_fit(eraser: Eraser, path: Path) -> str | list[str] | None:
    """Return the vectors' names in the file of the fit, if they mean something in this file."""
    names = list(eraser.metadata.get("features", ()))
    suffix = path.suffix.lower()
    # A .npy file has no names, and many columns of a table are one array of a .npz file.
    if not names or suffix == ".npy" or (suffix == ".npz" and len(names) > 1):
        return None
    return names[0] if len(names) == 1 else names


def _kinds_of_fit(eraser: Eraser, name: str | None) -> dict[str, str]:
    """Return the kinds of concepts that are stored in the eraser, if these are its concepts."""
    facts = eraser.metadata
    if name is None or name != facts.get("concept_name"):
        return {}
    listed = facts.get("concepts") or [{"name": name, "kind": facts.get("concept")}]
    kinds = {str(one["name"]): str(one["kind"]) for one in listed}
    return {name: kind for name, kind in kinds.items() if kind in ("categories", "continuous")}


def _in_order_of_fit(eraser: Eraser, table: Table, path: Path) -> NDArray[Any]:
    import numpy as np

    from unspot.io.columns import in_order_of_fit

    # A pattern gives the columns in the order of the file.
    columns = in_order_of_fit(table.features, eraser.metadata.get("features", ()), str(path))
    X = np.asarray(table.X)
    if columns != list(table.features):
        X = X[:, [table.features.index(name) for name in columns]]
    return X


def _note_other_concept(eraser: Eraser, concept: str | None) -> None:
    erased = str(eraser.metadata.get("concept_name") or "")
    others = {*(concept or "").split(",")} - {*erased.split(",")}
    if concept and erased and others:
        options.note(f"This eraser was fitted to erase {erased}; what is measured is {concept}.")


def _refuse_shared(whole: Split, learn: Split, data: Path) -> None:
    from unspot.data.dataset import MAX_SHARED, share_among

    share = share_among(whole, learn)
    if share > MAX_SHARED:
        raise ValueError(
            f"Got --train with {100 * share:.0f} % of the rows of {data.name}, but expected other "
            "rows to learn from: what was learned by heart is no evidence. Leave out --train to "
            f"split {data.name} at random."
        )


def write_page(results: Any, erasers: Any, rows: Dataset, html: Path | None) -> None:
    """Write an HTML page with pictures of the rows, if there is a path."""
    if html is None:
        return
    from unspot.report import make_views, to_html

    to_html(results, html, views=make_views(erasers, rows))
