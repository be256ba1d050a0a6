"""``unspot certify``: an eraser and labelled rows that it has not seen in, a verdict out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset, Split
    from unspot.eraser import Eraser
    from unspot.evaluation.certificate import Certificate


def certify(
    eraser: Annotated[
        Path, typer.Argument(metavar="ERASER", help="A .safetensors file of unspot fit.")
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="Rows that the eraser has not seen: .npy, .npz, .csv or .parquet."
        ),
    ],
    concept: Annotated[
        str | None,
        typer.Option(
            "--concept", "-c", metavar="NAME", help="Labels; by default as in unspot fit."
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features", "-f", metavar="NAMES", help="Vectors; by default as in unspot fit."
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="A second file with the labels of DATA."),
    ] = None,
    attack_rows: Annotated[
        Path | None,
        typer.Option(
            "--attack-rows",
            metavar="FILE",
            help="Rows that attackers learn from; by default half of DATA.",
        ),
    ] = None,
    attack_labels: Annotated[
        Path | None,
        typer.Option("--attack-labels", metavar="FILE", help="A second file with their labels."),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", "-b", metavar="NAME", help="quick, standard or thorough.")
    ] = "standard",
    attackers: Annotated[
        str | None,
        typer.Option("--attackers", metavar="NAMES", help="A comma list, such as logistic,trees."),
    ] = None,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="A", help="Probability of a false alarm.")
    ] = 0.05,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same numbers.")] = 0,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page.")
    ] = None,
    fail: Annotated[
        bool,
        typer.Option("--fail", metavar="", help="End with exit code 3 if the concept leaks."),
    ] = False,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            "--max-advantage",
            metavar="A",
            help="End with exit code 3 if attackers may have more, by their upper bound.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
) -> None:
    """Attack an eraser on rows it has not seen, and say what could be recovered.

    unspot certify gender.safetensors test.parquet --concept gender --budget quick
    """
    from unspot.cli.options import refuse_inputs, refuse_orphans
    from unspot.eraser import load
    from unspot.evaluation.held_out import certify as attack_and_conclude
    from unspot.ranks.selection import check_share

    refuse_orphans(attack_labels, attack_rows, ("--attack-labels", "--attack-rows"))
    inputs = (eraser, data, labels, attack_rows, attack_labels)
    refuse_inputs({"--json": json, "--html": html}, inputs)
    if max_advantage is not None:
        check_share(max_advantage, f"--max-advantage {max_advantage}")
    loaded = load(eraser)
    columns = {"concept": concept, "features": features}
    rows, seen = _dataset(
        loaded, data, labels, attack_rows, attack_labels, columns=columns, seed=seed
    )
    quiet = quiet or json == Path("-")
    found = attack_and_conclude(
        loaded,
        rows,
        attackers=None if attackers is None else [name.strip() for name in attackers.split(",")],
        budget=budget,
        alpha=alpha,
        attack_rows="seen" if seen else "unseen",
        random_state=seed,
        verbose=not quiet and sys.stderr.isatty(),
    )
    _write(found, json)
    if html is not None:
        _write_page(found, loaded, rows, html)
    if not quiet:
        _show(found, rows, data, attack_rows)
    if (fail and found.leaks) or _exceeds(found, max_advantage, quiet=quiet):
        raise typer.Exit(3)


def _dataset(
    eraser: Eraser,
    data: Path,
    labels: Path | None,
    attack_rows: Path | None,
    attack_labels: Path | None,
    *,
    columns: dict[str, Any],
    seed: int,
) -> tuple[Dataset, bool]:
    """Rows to learn from and rows to judge on, and whether the eraser was fitted on the first."""
    import numpy as np

    from unspot.cli.options import refuse_the_same
    from unspot.data.dataset import Dataset, stratified_parts
    from unspot.data.labels import encode
    from unspot.evaluation.held_out import was_fitted_on

    whole = _read(eraser, data, labels, **columns)
    if attack_rows is not None:
        columns |= {"option": "--attack-labels"}
        learn, test = _read(eraser, attack_rows, attack_labels, **columns), whole
        refuse_the_same(learn, test, f"--attack-rows {attack_rows}", data)
    elif was_fitted_on(eraser, whole):
        # As of unspot path, which splits like this: rows that chose the rank are not judged on.
        rows = Dataset.from_arrays(whole.X, whole.z, random_state=seed)
        learn, test = rows.validation, rows.test
    else:
        codes = encode(whole.z, n_rows=len(whole)).codes
        parts = stratified_parts(codes, (0.5, 0.5), np.random.default_rng(seed))
        learn, test = (whole.take(part) for part in parts)
    _refuse_seen(eraser, data, whole, test)
    return Dataset(learn, learn, test, name=data.name), was_fitted_on(eraser, learn)


def _refuse_seen(eraser: Eraser, data: Path, whole: Split, test: Split) -> None:
    from unspot.evaluation.held_out import share_fitted_on, was_fitted_on

    if not was_fitted_on(eraser, test):
        return
    share = share_fitted_on(eraser, whole)
    part = "which the eraser was fitted on" if share == 1 else "which has rows of its fit"
    raise ValueError(
        f"Got {str(data)!r}, {part}, but expected rows to judge on that the eraser has not seen: "
        "on its own rows every eraser looks good. Keep some rows away from unspot fit; after "
        "unspot path without a task, give the same file and the same --seed."
    )


def _read(eraser: Eraser, path: Path, labels: Path | None, **columns: Any) -> Split:
    import numpy as np

    from unspot.cli.options import read_labelled
    from unspot.data.dataset import Split

    table = read_labelled(eraser, path, labels, **columns)
    return Split(np.asarray(table.X), np.asarray(table.z))


def _write(found: Certificate, json: Path | None) -> None:
    from unspot.cli.console import echo_json
    from unspot.io.files import write_atomically

    if json == Path("-"):
        echo_json(found.to_json())
    elif json is not None:
        write_atomically(json, (found.to_json() + "\n").encode())


def _write_page(found: Certificate, eraser: Eraser, rows: Dataset, html: Path) -> None:
    from unspot.report import make_views, to_html
    from unspot.report.columns import method_name

    name = method_name(eraser.metadata) or "erased"
    to_html({name: found}, html, views=make_views({name: eraser}, rows))


def _exceeds(found: Certificate, max_advantage: float | None, *, quiet: bool) -> bool:
    """Whether the bound is above what is allowed, said to those who listen."""
    if max_advantage is None:
        return False
    exceeds = found.upper_bound > max_advantage
    if not quiet:
        verdict = "more than" if exceeds else "within"
        typer.echo(
            f"Bound: an advantage of at most {100 * found.upper_bound:.1f} points, {verdict} the "
            f"{100 * max_advantage:.1f} that are allowed."
        )
    return exceeds


def _show(found: Certificate, rows: Dataset, data: Path, attack_rows: Path | None) -> None:
    typer.echo(str(found))
    if attack_rows is None:
        typer.echo(
            f"{data.name} was split at random, classes in their shares: {len(rows.train):,} rows "
            f"to learn from, {len(rows.test):,} to judge on."
        )
