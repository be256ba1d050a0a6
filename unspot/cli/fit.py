"""``unspot fit``: embeddings and labels in, an eraser out."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.eraser import Eraser
    from unspot.io import Table


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Embeddings: .npy, .npz, .csv or .parquet.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The eraser: a .safetensors file."),
    ],
    concept: Annotated[
        str | None,
        typer.Option("--concept", "-c", metavar="NAME", help="Column or array of the labels."),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            "-f",
            metavar="NAMES",
            help="Vectors: a column, an array, a pattern as 'e_*', or a comma list.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="A second file with the labels."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method", "-m", metavar="NAME", help="leopard, leace, inlp, …, or cascade:NAME."
        ),
    ] = "cascade",
    rank: Annotated[
        str | None,
        typer.Option(
            "--rank", "-r", metavar="R", help="Dimensions to keep, a fraction as 0.5, or auto."
        ),
    ] = None,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            "--max-advantage",
            metavar="A",
            help="With --rank auto: what attackers may gain over guessing; 0.02 unless given.",
        ),
    ] = None,
    solver: Annotated[
        str | None, typer.Option("--solver", metavar="NAME", help="manifold or paper.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", metavar="NAME", help="euclidean or whitened.")
    ] = None,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="NAME", help="paper or reference.")
    ] = None,
    preserve: Annotated[
        float | None,
        typer.Option("--preserve", metavar="λ", help="How much to favour variance; 0: the paper."),
    ] = None,
    init: Annotated[
        str | None, typer.Option("--init", metavar="NAME", help="moments, identity or pca.")
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option("--max-rows", metavar="N", help="The most rows to work on.")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of the method."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same bits.")] = 0,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace the output.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="S", help="With torchrun: seconds to wait for others."),
    ] = 600.0,
) -> None:
    """Learn to take a concept out of embeddings.

    unspot fit data.parquet --features emb --concept gender --rank 125 -o gender.safetensors

    Large files stay on disk. Several processes: torchrun --nproc-per-node 4 -m unspot fit …
    """
    from unspot.cli.console import warnings_as_sentences
    from unspot.cli.options import parse_rank, refuse_inputs
    from unspot.io import open_table
    from unspot.io.files import naming_full_disk, refuse_existing
    from unspot.scale.processes import context

    refuse_inputs({"--output": output}, (data, labels))
    refuse_existing(output, force=force)
    if concept is None and labels is None:
        raise ValueError(
            "Got no concept. Name its column or array with --concept, or its file with --labels."
        )
    parsed = None if rank is None else parse_rank(rank)
    if max_advantage is not None and parsed != "auto":
        raise ValueError("Got --max-advantage without --rank auto, which alone makes use of it.")
    given = {
        "rank": parsed,
        "max_advantage": max_advantage,
        "solver": solver,
        "metric": metric,
        "kernel": kernel,
        "preserve": preserve,
        "init": init,
        "max_rows": max_rows,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    estimator = make_estimator(
        method,
        {**chosen, **parse_parameters(parameters or [])},
        seed=seed,
        verbose=not quiet and sys.stderr.isatty(),
    )
    with context(timeout=timeout) as team, warnings_as_sentences(quiet=quiet):
        table = open_table(data, features=features, concept=concept, labels_file=labels)
        started = time.perf_counter()
        estimator.fit(table.X, table.z)
        seconds = time.perf_counter() - started
        eraser = with_source(estimator.eraser_, table, data, concept or (labels or data).stem)
        if not team.leads:
            return
        with naming_full_disk(output):
            eraser.save(output)
    if not quiet:
        _summary(estimator, eraser, output, seconds)


def make_estimator(name: str, params: dict[str, Any], *, seed: int, verbose: bool) -> Any:
    """The estimator of a method's name; the seed and progress only where it has them."""
    from unspot.erasers.registry import make, method

    inner = name.strip().lower().removeprefix("cascade:")
    accepted = method(inner).parameters if ":" not in inner else ()
    general = {"random_state": seed, "verbose": verbose}
    fitting = {key: value for key, value in general.items() if key in accepted}
    return make(name, **{**fitting, **params})


def parse_parameters(texts: list[str]) -> dict[str, Any]:
    """Parameters as typed: values are JSON where they can be, else text.

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


def with_source(eraser: Eraser, table: Table, data: Path, concept: str) -> Eraser:
    """The eraser, with what it was fitted on written down: transform finds the columns by it."""
    from unspot.eraser import Eraser

    source = {"data": data.name, "features": list(table.features), "concept_name": concept}
    return Eraser(eraser.maps, {**eraser.metadata, **source})


def _summary(estimator: Any, eraser: Eraser, output: Path, seconds: float) -> None:
    from unspot.cli.console import facts, file_size, number
    from unspot.cli.inspect import class_list, method_name
    from unspot.io.columns import in_short

    metadata = eraser.metadata
    history = getattr(estimator, "history_", None)
    # Only density matching keeps its losses by name; networks have one list of their own loss.
    losses = history.get("held_out", ()) if isinstance(history, dict) else ()
    held_out = [value for value in losses if value == value]
    facts(
        f"Erased {metadata['concept_name']!r} with {method_name(metadata)}",
        [
            ("rank", f"{eraser.rank} of {eraser.n_features}"),
            ("chosen", _chosen(estimator)),
            ("features", in_short(metadata["features"])),
            ("rows", f"{metadata.get('n_rows', 0):,}"),
            ("classes", class_list(metadata)),
            ("held-out MMD²", f"{number(held_out[-1])}" if held_out else ""),
            ("seconds", number(seconds)),
            ("written", f"{output} ({file_size(output.stat().st_size)})"),
        ],
    )


def _chosen(estimator: Any) -> str:
    """How the rank was chosen, if it was."""
    selection = getattr(estimator, "selection_", None)
    if selection is None:
        return ""
    seen = 100 * selection.tried[selection.rank]
    return (
        f"the strongest attacker gains {seen:+.1f} ± {100 * selection.error:.1f} points on rows "
        "set aside; "
        f"{len(selection.tried)} ranks were attacked"
    )
