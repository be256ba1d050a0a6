"""``unspot fit``: embeddings and labels in, an eraser out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unspot.cli import options
from unspot.cli.inspect import eraser_facts
from unspot.cli.rows import Source, read, read_concept

if TYPE_CHECKING:
    from unspot.eraser import Eraser
    from unspot.io import Table


def fit(
    data: Path,
    output: Path,
    concept: str | None = None,
    features: str | None = None,
    labels: Path | None = None,
    kind: list[str] | None = None,
    given: str | None = None,
    keep: str | None = None,
    method: str = "cascade",
    rank: str | None = None,
    max_advantage: float | None = None,
    groups: str | None = None,
    settings: list[str] | None = None,
    force: bool = False,
    *,
    seed: int,
) -> None:
    """Learn to take a concept out of embeddings.

    \b
    unspot fit data.parquet -f emb -c gender,age -r 125 -o both.safetensors

    Large Parquet files stay on disk. Exit code 3: with --rank auto, no rank reaches the bound, and
    the nearest was fitted.
    """
    options.check_eraser(output, (data, labels), force=force)
    reading, params = options.parse_settings(settings, options.READING_KEYS, others=True)
    params = {**_rank_parameters(rank, max_advantage, groups), **params}
    tasks = {name: column for name, column in (("given", given), ("keep", keep)) if column}
    _refuse_confused(concept, tasks, method)
    beside = tuple(dict.fromkeys(options.comma_list(",".join(tasks.values())) or ()))
    source = Source(
        data, labels, concept, features, groups=groups, kinds=kind, beside=beside, **reading
    )
    table, kinds = read(source, on_disk=True)
    z, columns = separate_tasks(table.z, concept, tasks)
    z = read_concept(z, kinds, n_rows=len(table.X), name=source.name)
    with options.loading():  # after all that can be wrong with the files: it imports torch
        estimator = make_estimator(method, params, seed=seed)
    if params.get("rank") == "auto" and not tasks:  # a rank with tasks is refused
        _say_plan(table, z, max_advantage)
    started = time.perf_counter()
    more: dict[str, Any] = {"groups": table.groups} if groups else {}
    estimator.fit(table.X, z, **columns, **more)
    seconds = time.perf_counter() - started
    named = {f"{name}_name": column for name, column in tasks.items()}
    eraser = with_source(estimator.eraser_, table, source, **named)
    eraser.save(output)
    written = f"{output} ({options.file_size(output)}), fitted in {seconds:,.1f} s"
    facts = [*eraser_facts(eraser), ("written", written)]
    options.facts(f"Erased {source.name!r} with {type(estimator).__name__}", facts)
    selection = getattr(estimator, "selection_", None)
    if selection is not None and not selection.met:  # the nearest was fitted, and said as such
        raise typer.Exit(3)


def _say_plan(table: Table, z: Any, max_advantage: float | None) -> None:
    """Say what the rows can decide, before the work begins."""
    import numpy as np

    if isinstance(table.X, np.ndarray):
        from unspot import plan

        bound = {} if max_advantage is None else {"max_advantage": max_advantage}
        options.note(plan(table.X, z, groups=table.groups, **bound).sentence)


def _rank_parameters(
    rank: str | None, max_advantage: float | None, groups: str | None
) -> dict[str, Any]:
    chosen = None if rank is None else options.parse_rank(rank)
    for option, value in (("--max-advantage", max_advantage), ("--groups", groups)):
        if value is not None and chosen != "auto":
            raise ValueError(f"Got {option} without --rank auto, the only rank that it is for.")
    params = {"rank": chosen, "max_advantage": max_advantage}
    return {name: value for name, value in params.items() if value is not None}


def _refuse_confused(concept: str | None, tasks: dict[str, str], method: str) -> None:
    """Raise an error for options that contradict each other."""
    if method.strip().lower().endswith("splince") and "keep" not in tasks:
        raise ValueError(
            "Got --method splince without --keep, but expected the column of a task to keep. "
            "Without one it is --method leace."
        )
    for option, column in tasks.items():
        if concept is None:
            raise ValueError(
                f"Got --{option} without --concept, but expected the name of the concept too: both "
                "are columns of one file."
            )
        for name in set(options.comma_list(concept) or ()) & set(options.comma_list(column) or ()):
            raise ValueError(
                f"Got {name!r} as the concept and as --{option}, but expected two columns: a "
                "column cannot be both erased and kept."
            )


def separate_tasks(
    columns: Any, concept: str | None, tasks: dict[str, str]
) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Separate the concept columns from the columns that are given or kept."""
    if not tasks:
        return columns, {}
    names = {option: options.comma_list(listed) or () for option, listed in tasks.items()}
    beside = {name for listed in names.values() for name in listed}
    concepts = {name: column for name, column in columns.items() if name not in beside}
    z = concepts if len(concepts) > 1 else concepts[str(concept)]
    tables = {option: {name: columns[name] for name in listed} for option, listed in names.items()}
    return z, tables  # a table of one column is that column


def make_estimator(name: str, params: dict[str, Any], *, seed: int) -> Any:
    """Make the estimator of a method, with the seed if it takes one."""
    from unspot.erasers.registry import make, method

    inner = name.strip().lower().removeprefix("cascade:").removeprefix("transport:")
    accepted = method(inner).parameters if ":" not in inner else ()
    seeded = {"random_state": seed} if "random_state" in accepted else {}
    return make(name, **{**seeded, **params})


def with_source(eraser: Eraser, table: Table, source: Source, **more: Any) -> Eraser:
    """Add to the eraser what it was fitted on, by which other commands find the columns."""
    facts = {"data": source.data.name, "features": list(table.features)}
    return eraser.with_metadata(**facts, concept_name=source.name, **more)
