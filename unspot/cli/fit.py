"""``unspot fit``: embeddings and labels in, an eraser out."""

from __future__ import annotations

import json
import time
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unspot.eraser import Eraser
    from unspot.io import Table


def fit(
    data: options.Embeddings,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The eraser: a .safetensors file."),
    ],
    concept: options.Concept = None,
    kind: options.Kinds = None,
    given: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A task: erase only what it does not explain."),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A task that erased rows must still tell."),
    ] = None,
    features: options.Features = None,
    labels: options.LabelsFile = None,
    key: options.Key = None,
    drop_missing: options.DropMissing = False,
    method: options.Method = "cascade",
    rank: Annotated[
        str | None,
        typer.Option(
            "--rank",
            "-r",
            metavar="R",
            help="Dimensions to keep, a fraction (by default 0.5), or auto.",
        ),
    ] = None,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            help="With --rank auto: what attackers may gain over guessing (default 0.05, "
            "or what the rows can decide).",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --rank auto: column of groups, such as authors, so that other groups "
            "choose the rank.",
        ),
    ] = None,
    solver: Annotated[str | None, typer.Option(metavar="NAME", help="manifold or paper.")] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="euclidean or whitened.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(metavar="NAME", help="paper or reference.")] = None,
    preserve: Annotated[
        float | None,
        typer.Option(metavar="λ", help="Weight of the variance to keep; 0: as in the paper."),
    ] = None,
    init: Annotated[
        str | None, typer.Option(metavar="NAME", help="moments, identity or pca.")
    ] = None,
    max_rows: options.MaxRows = None,
    normalise: options.Normalise = False,
    parameters: options.Parameters = None,
    seed: options.Seed = 0,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn to take a concept out of embeddings.

    unspot fit data.parquet --features emb --concept gender --rank 125 -o gender.safetensors

    Several concepts: --concept gender,age. Numbers are recognised by their values, or by
    --kind age=continuous.

    Large files stay on disk.
    """
    from unspot.io.files import refuse_existing

    refuse_existing(output, force=force)
    options.check_files({"--output": output}, (data, labels))
    options.check_eraser_name(output)
    options.check_concept(concept, labels)
    kinds = options.parse_kinds(kind, concept)
    settings = {
        "rank": None if rank is None else options.parse_rank(rank),
        "max_advantage": max_advantage,
        "solver": solver,
        "metric": metric,
        "kernel": kernel,
        "preserve": preserve,
        "init": init,
        "max_rows": max_rows,
        "normalise": normalise or None,
    }
    for option, value in (("--max-advantage", max_advantage), ("--groups", groups)):
        if value is not None and settings["rank"] != "auto":
            raise ValueError(f"Got {option} without --rank auto, the only rank that it is for.")
    chosen = {key: value for key, value in settings.items() if value is not None}
    chosen |= parse_parameters(parameters or [])
    beside = {name: column for name, column in (("given", given), ("keep", keep)) if column}
    if method.strip().lower().endswith("splince") and not keep:
        raise ValueError(
            "Got --method splince without --keep, but expected the column of a task to keep. "
            "Without one it is --method leace."
        )
    from unspot.io import open_table

    with options.warnings_as_sentences(quiet=quiet):
        table = open_table(
            data,
            features=features,
            concept=columns_to_read(concept, beside),
            groups=groups,
            labels_file=labels,
            key=key,
            drop_missing=drop_missing,
        )
        options.note(table.dropped, quiet=quiet)
        z, tasks = apart(table.z, concept, beside)
        chosen = {**kind_parameter(z, kinds, method), **chosen}
        # After all that can be wrong with the files: it imports torch.
        with options.loading():
            estimator = make_estimator(method, chosen, seed=seed)
        if groups and "groups" not in signature(estimator.fit).parameters:
            raise ValueError(f"Got --groups and method {method}, which cannot choose its rank.")
        started = time.perf_counter()
        more: dict[str, Any] = {"groups": table.groups} if groups else {}
        estimator.fit(table.X, z, **tasks, **more)
        seconds = time.perf_counter() - started
        named = {f"{name}_name": column for name, column in beside.items()}
        whose = concept or (labels or data).stem
        eraser = with_source(estimator.eraser_, table, data, whose, **named)
        saved = options.write_or_keep(output, eraser.save)
    if not quiet:
        _summary(estimator, eraser, output if saved else None, seconds)
    options.end_if_lost(saved)


def columns_to_read(concept: str | None, beside: dict[str, str]) -> str | None:
    """The concepts, and what is given or kept, as a comma list.

    Examples
    --------
    >>> columns_to_read("gender,age", {"given": "job"})
    'gender,age,job'
    """
    if beside and concept is None:
        raise ValueError(
            f"Got --{next(iter(beside))} without --concept, but expected the name of the concept "
            "too: both are columns of one file."
        )
    for option, column in beside.items():
        if column in (options.comma_list(concept) or ()):
            raise ValueError(
                f"Got {column!r} as the concept and as --{option}, but expected two columns: what "
                "is erased cannot be kept, and nothing of it is left given itself."
            )
    return concept if concept is None else ",".join([concept, *dict.fromkeys(beside.values())])


def apart(
    columns: Any, concept: str | None, beside: dict[str, str]
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What was read as one list: the concept or a dict of several, and what is given or kept."""
    if not beside:
        return columns, {}
    tasks = {option: columns[column] for option, column in beside.items()}
    concepts = {name: column for name, column in columns.items() if name not in beside.values()}
    return concepts if len(concepts) > 1 else concepts[str(concept)], tasks


def kind_parameter(z: Any, kinds: dict[str, str], name: str) -> dict[str, Any]:
    """The parameter ``concept`` of the method, if it has one and this is not one of labels."""
    from unspot.data.labels import is_continuous

    if isinstance(z, dict):
        return {"concept": kinds} if kinds else {}
    if kinds:
        return {"concept": next(iter(kinds.values()))}
    numbers = z is not None and z.dtype.kind == "f" and is_continuous(z)
    return {"concept": "continuous"} if numbers and "concept" in accepted(name) else {}


def make_estimator(name: str, params: dict[str, Any], *, seed: int) -> Any:
    """The estimator of a method, with the seed if it has such a parameter."""
    from unspot.erasers.registry import make

    seeded = {"random_state": seed} if "random_state" in accepted(name) else {}
    return make(name, **{**seeded, **params})


def accepted(name: str) -> tuple[str, ...]:
    """Names of the parameters of a method, or of the one inside ``cascade:`` or ``transport:``.

    Examples
    --------
    >>> "concept" in accepted("transport:leopard"), "concept" in accepted("cascade:pca")
    (True, False)
    """
    from unspot.erasers.registry import method

    inner = name.strip().lower().removeprefix("cascade:").removeprefix("transport:")
    return method(inner).parameters if ":" not in inner else ()


def parse_parameters(texts: list[str]) -> dict[str, Any]:
    """Parameters from KEY=VALUE: values are JSON where they can be, else text.

    Examples
    --------
    >>> parse_parameters(["lr=0.1", "concept=continuous", "centre=true"])
    {'lr': 0.1, 'concept': 'continuous', 'centre': True}
    """
    parsed: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ValueError(f"Got --set {text}, but expected KEY=VALUE, such as --set lr=0.1.")
        try:
            parsed[key] = json.loads(value)
        except ValueError:
            parsed[key] = value
    return parsed


def with_source(eraser: Eraser, table: Table, data: Path, concept: str, **more: Any) -> Eraser:
    """The eraser with what it was fitted on, by which other commands find the columns."""
    from unspot.eraser import Eraser

    source = {"data": data.name, "features": list(table.features), "concept_name": concept}
    return Eraser(eraser.maps, {**eraser.metadata, **source, **more})


def _summary(estimator: Any, eraser: Eraser, output: Path | None, seconds: float) -> None:
    from unspot.eraser import method_name
    from unspot.io.columns import in_short

    metadata = eraser.metadata
    history = getattr(estimator, "history_", None)
    # Only density matching keeps its losses by name; networks have one list of their own loss.
    losses = history.get("held_out", ()) if isinstance(history, dict) else ()
    held_out = [loss for loss in losses if loss == loss]
    options.facts(
        f"Erased {metadata['concept_name']!r} with {method_name(metadata)}",
        [
            ("rank", f"{eraser.rank} of {eraser.n_features}"),
            ("chosen", _rank_choice(estimator)),
            ("features", in_short(metadata["features"])),
            ("rows", f"{metadata.get('n_rows', 0):,}"),
            *options.concept_facts(metadata),
            (f"held-out {options.loss_name(metadata)}", _loss(held_out)),
            ("seconds", f"{seconds:,.1f}"),
            ("written", _written(output)),
        ],
    )


def _loss(held_out: list[float]) -> str:
    """The last one. It tells when the search ended; what is left, only unseen rows tell."""
    return f"{held_out[-1]:.2g} (certify says what is left)" if held_out else ""


def _written(output: Path | None) -> str:
    return f"{output} ({options.file_size(output.stat().st_size)})" if output else ""


def _rank_choice(estimator: Any) -> str:
    """How the rank was chosen, if it was."""
    selection = getattr(estimator, "selection_", None)
    if selection is None:
        return ""
    advantage = 100 * selection.tried[selection.rank]
    return (
        f"the strongest attacker gains at most {advantage:.1f} points (95 %) on rows set aside"
        f"{'' if selection.met else ', more than allowed'}; {len(selection.tried)} ranks were "
        "attacked"
    )
