"""``unspot monitor``: an eraser and batches of new rows in, one verdict at all times out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Split
    from unspot.eraser import Eraser


def monitor(
    eraser: options.EraserFile,
    batches: Annotated[
        list[Path],
        typer.Argument(metavar="BATCH…", help="New rows with labels: .npz, .csv or .parquet."),
    ],
    state: Annotated[
        Path, typer.Option(metavar="FILE", help="What was counted so far; made if there is none.")
    ],
    attack_rows: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE", help="Rows that attackers learn from; may be repeated, and may grow."
        ),
    ],
    concept: options.ConceptOfFit = None,
    features: options.FeaturesOfFit = None,
    budget: options.Budget = "quick",
    attackers: Annotated[
        str | None, typer.Option(metavar="NAMES", help="A comma list, such as logistic,trees.")
    ] = None,
    alpha: Annotated[float, typer.Option(metavar="A", help="Probability of a false alarm.")] = 0.05,
    margin: Annotated[
        float, typer.Option(metavar="A", help="The largest advantage that counts as erased.")
    ] = 0.05,
    seed: options.Seed = 0,
    json: options.JsonFile = None,
    quiet: options.Quiet = False,
) -> None:
    """Judge an eraser by batches of new rows, with a verdict that is valid at every look.

    unspot monitor gender.safetensors tuesday.parquet --attack-rows known.parquet --state gender.log
    """
    inputs = (eraser, *batches, *attack_rows)
    options.check_files({"--json": json, "--state": state}, inputs)
    from unspot.eraser import load

    loaded = load(eraser)
    learn = [_read(loaded, path, concept, features) for path in attack_rows]
    rows = [_read(loaded, path, concept, features) for path in batches]
    # After all that can be wrong with the files: it imports torch.
    import numpy as np

    from unspot.io.progress import steps

    with options.loading():
        from unspot.evaluation.monitor import Monitor

    watch = Monitor(
        loaded,
        np.concatenate([split.X for split in learn]),
        np.concatenate([split.z for split in learn]),
        budget=budget,
        attackers=options.comma_list(attackers),
        alpha=alpha,
        margin=margin,
        state=state,
        random_state=seed,
    )
    before = watch.report.n_batches
    stopped = options.saying_what_is_kept(
        lambda: _counted(batches[: watch.report.n_batches - before], state)
    )
    named = list(zip(batches, rows, strict=True))
    with watch, stopped:
        for path, split in steps(named, "Batch", name=lambda batch: batch[0].name):
            try:
                watch.update(split.X, split.z)
            except ValueError as error:
                raise ValueError(f"{path.name}: {error}") from None
    options.write_json(watch.report, json)
    if not quiet and json != options.STDOUT:
        typer.echo(str(watch.report))
    raise typer.Exit(options.EXIT_CODES[watch.report.verdict])


def _counted(batches: list[Path], state: Path) -> str:
    """What a monitor that was stopped has counted."""
    if not batches:
        return "No batch was counted; the same command begins again."
    names = ", ".join(path.name for path in batches)
    return f"Counted in {state}: {names}. The same command without them goes on."


def _read(eraser: Eraser, path: Path, concept: str | None, features: str | None) -> Split:
    from unspot.cli.evaluate import read_rows

    rows, _ = read_rows(
        eraser, (path, None), (None, None), flags=("", ""), concept=concept, features=features
    )
    return rows
