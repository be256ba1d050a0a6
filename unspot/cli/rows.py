"""Rows that commands work on: one place that reads files and splits their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    concept, features, task, groups : str or None
        Columns or arrays. With an eraser, concept and features are by default those of its fit.
    kinds : sequence of str
        Kinds of concepts, as NAME=KIND.
    beside : tuple of str
        Further columns to read with the concept, for what is given or kept.
    given : str or None
        Columns that attackers know, as a comma list.
    pairs : str or None
        Column of ids: rows of one id are the same thing from several sources.
    key, drop_missing
        See ``read_table``.
    """

    data: Path
    labels: Path | None = None
    concept: str | None = None
    features: str | None = None
    task: str | None = None
    groups: str | None = None
    kinds: Sequence[str] | None = None
    beside: tuple[str, ...] = ()
    key: str | None = None
    drop_missing: bool = False
    given: str | None = None
    pairs: str | None = None

    @property
    def files(self) -> tuple[Path | None, ...]:
        """Return all files that are read."""
        return self.data, self.labels

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
    kinds = options.parse_kinds(source.kinds, source.concept or source.name, source.task)
    table = read_table(
        source.data,
        features=source.features,
        concept=source.concept,
        beside=source.beside,
        task=source.task,
        groups=source.groups,
        labels_file=source.labels,
        key=source.key,
        drop_missing=source.drop_missing,
        on_disk=on_disk,
    )
    options.note(table.dropped)
    return table, kinds


def read_concept(
    z: Any, kinds: Mapping[str, str], *, n_rows: int, name: str = "z", **how: Any
) -> Any:
    """Read a concept, a table of them or a task, with the kinds that are known."""
    from unspot.data.concept import read, refuse_doubtful, warn_about_labels

    if isinstance(z, dict):
        concept = read(z, n_rows=n_rows, kind={k: kinds[k] for k in z if k in kinds}, **how)
    else:
        if name not in kinds:
            refuse_doubtful(z, name)
        concept = read(z, n_rows=n_rows, kind=kinds.get(name), name=name, **how)
    warn_about_labels(concept, name)
    return concept


def _read_task(source: Source, table: Table, kinds: Mapping[str, str]) -> Any:
    if table.y is None:
        return None
    return read_concept(table.y, kinds, n_rows=len(table.X), name=str(source.task))


def dataset(source: Source, seed: int) -> tuple[Dataset, Table]:
    """Read a file and split it into rows to fit on, to choose on and to test on."""
    table, kinds = read(source)
    import numpy as np

    from unspot.data.dataset import Dataset  # after what can be wrong with the file

    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    rows = Dataset.from_arrays(
        X,
        read_concept(table.z, kinds, n_rows=len(X), name=source.name),
        _read_task(source, table, kinds),
        groups=table.groups,
        random_state=seed,
        name=source.data.name,
        concept=source.name,
    )
    return rows, table


# -- One file in two -------------------------------------------------------------------------------


def split(
    data: Path,
    output: tuple[Path, Path],
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    groups: str | None = None,
    test: float = 0.3,
    force: bool = False,
    *,
    seed: int,
) -> None:
    """Split a file into rows to fit on and rows to test on.

    \b
    unspot split data.parquet -c gender -g author -o train.parquet test.parquet

    Both files have all columns, and their share of every class. Groups, and rows that repeat
    another, stay on one side. A .npy file with --labels becomes two .npz files.
    """
    import numpy as np

    from unspot.checks import check_share
    from unspot.io.files import copy_rows

    check_share("--test", test or None)
    ending = {"": ".parquet", ".npy": ".npz"}.get(data.suffix.lower(), data.suffix.lower())
    for path in output:
        options.check_files({"--output": path}, (data, labels), force=force)
        if path.suffix.lower() != ending or output[0] == output[1]:
            raise ValueError(f"Got --output {path}, but expected two names that end in {ending}.")
    if (labels is None) == (data.suffix.lower() == ".npy"):
        raise ValueError("Got --labels with a table, or none with .npy: a table has its own.")
    # An array of labels has no place for a missing one.
    drop = labels is not None
    source = Source(data, labels, concept, features, groups=groups, kinds=kind, drop_missing=drop)
    table, kinds = read(source)
    columns = table.z if isinstance(table.z, dict) else {source.name: table.z}
    parts = _two_parts(table, columns, kinds, (1 - test, test), seed)
    arrays = {"X": np.asarray(table.X)}
    for name, column in {**columns, str(groups): table.groups}.items():
        arrays |= {} if column is None else {name: np.array(list(column))}
    copy_rows(data, dict(zip(output, parts, strict=True)), arrays if labels is not None else None)
    for path, rows in zip(output, parts, strict=True):
        options.say(f"Written: {path}, {len(rows):,} rows ({100 * len(rows) / len(table):.1f} %).")


def _two_parts(
    table: Table, columns: Any, kinds: Any, sizes: tuple[float, ...], seed: int
) -> list[NDArray[Any]]:
    """Choose the rows of both files, and say which rows are special."""
    import numpy as np

    from unspot.data.dataset import stratified_parts
    from unspot.data.groups import group_codes, joined_groups
    from unspot.data.rows import row_hashes

    concepts = read_concept(columns, kinds, n_rows=len(table))
    for name in concepts:
        if n := int(concepts.missing(name).sum()):
            options.note(f"{n:,} rows have no label in {name!r}.")
    hashes = row_hashes(np.asarray(table.X))
    if repeats := len(hashes) - len(set(hashes)):
        options.note(f"{repeats:,} rows repeat the vector of another, and are on its side.")
    groups = None if table.groups is None else group_codes(table.groups, len(table))
    together = joined_groups(hashes, groups) if repeats or groups is not None else None
    return stratified_parts(concepts.strata, sizes, np.random.default_rng(seed), together)


# -- Rows for fitted erasers -----------------------------------------------------------------------


def unseen_rows(erasers: Sequence[Eraser], source: Source, seed: int) -> Dataset:
    """Read rows to judge erasers on, which no fit has seen if possible.

    After a choice of rank by ``unspot path``, only its test rows are used.
    """
    from unspot.data.dataset import Dataset, was_fitted_on

    whole, name = _split_of(erasers[0], source), source.data.name
    _note_other_concept(erasers[0], source.concept)

    def known(split: Split) -> bool:
        return any(was_fitted_on(eraser, split) for eraser in erasers)

    rows = Dataset(None, *whole.halves(seed), name=name)
    if known(whole):
        rows = Dataset.from_split(whole, random_state=seed, name=name)
        if known(rows.validation) and not known(rows.test):
            from unspot.evaluation.evaluations import after_refit

            rows = after_refit(rows, seed)
    return replace(rows, concept=source.concept or "")  # else the name of the eraser's fit


def how_split(rows: Dataset) -> str:
    """Say how a file was split in two."""
    return "split at random" + ("" if rows.test.groups is None else ", by group")


def _split_of(eraser: Eraser, source: Source) -> Split:
    """Read a file by the columns of the eraser's fit, where options name no others."""
    from unspot.data.concept import read_covariate
    from unspot.data.dataset import Split
    from unspot.data.rows import warn_of_other_norms
    from unspot.io.tables import has_column

    name = source.concept or eraser.metadata.get("concept_name")
    if source.labels is None and source.data.suffix.lower() == ".npy":
        raise ValueError(
            f"Got {str(source.data)!r}, one array without labels. Give them in a second file, with "
            "--labels."
        )
    if source.labels is not None and source.concept is None and name:
        # fit names the concept after its file of labels if that has one column
        name = name if has_column(source.labels, name) else None
    features: Any = source.features or _features_of_fit(eraser, source.data)
    given = options.comma_list(source.given) or []
    beside = tuple(dict.fromkeys([*given, *([source.pairs] if source.pairs else [])]))
    table, kinds = read(replace(source, concept=name, features=features, beside=beside))
    kinds = {**_kinds_of_fit(eraser, name), **kinds}
    X = _in_order_of_fit(eraser, table, source.data)
    z, columns = table.z, {}
    if beside:
        columns = {column: z[column] for column in beside}
        z = {column: values for column, values in z.items() if column not in beside}
        z = z if len(z) > 1 else next(iter(z.values()))
    concept = read_concept(z, kinds, n_rows=len(X), name=name or source.name)
    known = {column: columns[column] for column in given}
    more: Any = {"groups": table.groups}
    more |= {"pairs": columns[source.pairs]} if source.pairs else {}
    more |= {"given": read_covariate(known, "given", len(X))} if known else {}
    warn_of_other_norms(eraser, X)
    return Split(X, concept, _read_task(source, table, kinds), **more)


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


def write_page(results: Any, erasers: Any, rows: Dataset, html: Path | None) -> None:
    """Write an HTML page with pictures of the rows, if there is a path."""
    if html is None:
        return
    from unspot.report import make_views, to_html

    to_html(results, html, views=make_views(erasers, rows))
