"""``unspot path``: erasers of many ranks, what each leaves, and one of them by a rule."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.io import Table
    from unspot.ranks.path import RankPath

#: Which options each rule has.
_OPTIONS = {
    "largest": ("max_advantage", "attackers"),
    "mdl": ("threshold",),
    "knee": ("utility",),
    "utility": ("floor", "utility"),
}


def path(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Embeddings: .npy, .npz, .csv or .parquet.")
    ],
    concept: Annotated[
        str | None,
        typer.Option("--concept", "-c", metavar="NAME", help="Column or array of the labels."),
    ] = None,
    features: Annotated[
        str | None, typer.Option("--features", "-f", metavar="NAMES", help="Vectors, as in fit.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="A second file with the labels."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--task", "-t", metavar="NAME", help="Labels of the downstream task."),
    ] = None,
    method: Annotated[
        str,
        typer.Option("--method", "-m", metavar="NAME", help="leopard, pca, …, or cascade:NAME."),
    ] = "cascade",
    ranks: Annotated[
        str | None,
        typer.Option(
            "--ranks", "-r", metavar="RANKS", help="As 90,50,10 or 10:90:10, or fractions."
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other parameter of the method."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help="Measured at every rank: by default attack,neighbours, and task_linear if there "
            "is a task; or none.",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="How often each metric is measured.")
    ] = 1,
    select: Annotated[
        str | None,
        typer.Option("--select", "-s", metavar="RULE", help="largest, mdl, knee or utility."),
    ] = None,
    max_advantage: Annotated[
        float | None,
        typer.Option(
            "--max-advantage", metavar="A", help="largest: what attackers may gain; 0.02."
        ),
    ] = None,
    attackers: Annotated[
        str | None,
        typer.Option("--attackers", metavar="NAME", help="largest: quick, standard or thorough."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="T", help="mdl: the least share of the prior code."),
    ] = None,
    floor: Annotated[
        float | None, typer.Option("--floor", metavar="U", help="utility: the least of it.")
    ] = None,
    utility: Annotated[
        str | None,
        typer.Option("--utility", metavar="NAME", help="knee, utility: task_linear, neighbours, …"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The chosen eraser: .safetensors."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write JSON; - for stdout.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one HTML page.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same bits.")] = 0,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Replace the output.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", metavar="", help="Show errors alone.")
    ] = False,
) -> None:
    """Fit many ranks at about the cost of one, and choose among them.

    unspot path data.parquet -f emb -c gender --max-advantage 0.02 -o gender.safetensors

    Half of the rows fit, a fifth choose, and the rest, which had no part in the choice, certify it.
    """
    from unspot.cli.console import warnings_as_sentences
    from unspot.cli.fit import make_estimator, parse_parameters
    from unspot.cli.options import parse_ranks, refuse_inputs
    from unspot.io.files import refuse_existing
    from unspot.ranks.path import rank_path

    given = {"max_advantage": max_advantage, "attackers": attackers, "threshold": threshold}
    given |= {"floor": floor, "utility": utility}
    rule, options = _rule(select, given, wanted=output is not None)
    refuse_inputs({"--output": output, "--json": json, "--html": html}, (data, labels))
    if output is not None:
        refuse_existing(output, force=force)
    if concept is None and labels is None:
        raise ValueError(
            "Got no concept. Name its column or array with --concept, or its file with --labels."
        )
    hushed, quiet = quiet, quiet or json == Path("-")  # JSON on stdout hides no warning
    verbose = not quiet and sys.stderr.isatty()
    estimator = make_estimator(method, parse_parameters(parameters or []), seed=seed, verbose=False)
    listed = parse_ranks(ranks)
    table, rows = _read(data, features, concept, task, labels, seed)
    names = _metrics(metrics, rows)
    with warnings_as_sentences(quiet=hushed):
        found = rank_path(estimator, rows, listed, metrics=names, seeds=seeds, verbose=verbose)
    _write_json(found, json)
    if not quiet:
        typer.echo(found.to_markdown().rstrip())
    shown = _Shown(data.name, method, found, rows, html, quiet, seed)
    if rule is None:
        shown.page()
        return
    chosen = shown.chosen(rule, options)
    if output is not None:
        _save(chosen, table, data, concept or (labels or data).stem, output)
    shown.certified(chosen, output)


class _Shown:
    """What follows the table: the page, the choice and its certificate."""

    def __init__(
        self,
        name: str,
        method: str,
        path: RankPath,
        rows: Dataset,
        html: Path | None,
        quiet: bool,
        seed: int,
    ) -> None:
        self.name, self.method, self.path, self.rows = name, method, path, rows
        self.html, self.quiet, self.seed = html, quiet, seed

    def page(self, *results: Any, rank: int | None = None) -> None:
        if self.html is None:
            return
        from unspot.report import to_html

        title = f"Ranks of {self.method} on {self.name}"
        to_html({self.method: [self.path, *results]}, self.html, title=title, chosen_rank=rank)

    def chosen(self, rule: str, options: dict[str, Any]) -> Any:
        """The chosen estimator; where no rank will do, the page is written all the same."""
        try:
            return self.path.select(rule, **options)
        except ValueError:
            self.page()
            raise

    def certified(self, chosen: Any, output: Path | None) -> None:
        certificate, verdict = self._certificate(chosen)
        self.page(*certificate, rank=chosen.rank_)
        if self.quiet:
            return
        typer.echo("")
        typer.echo(f"Chosen: {chosen.selection_}.")
        typer.echo(verdict)
        if output is not None:
            typer.echo(f"Written: {output}")

    def _certificate(self, chosen: Any) -> tuple[list[Any], str]:
        """The certificate and what it says; rows that are too few for one spoil nothing else."""
        from unspot.evaluation.held_out import certify

        try:
            found = certify(chosen, self.rows, budget="quick", random_state=self.seed)
        except ValueError as error:
            # What follows the first sentence is advice for Python.
            reason = str(error).split(". ")[0].rstrip(".")
            return [], f"No certificate: {reason}. Give more rows, or other rows to unspot certify."
        verdict = "LEAKS" if found.leaks else "no leak found"
        return [found], f"Certificate on other rows: {verdict}. {found.sentence}"


def _rule(
    select: str | None, given: dict[str, Any], *, wanted: bool
) -> tuple[str | None, dict[str, Any]]:
    """The rule and its options, refused now rather than after the fits."""
    from difflib import get_close_matches

    options = {key: value for key, value in given.items() if value is not None}
    rule = select
    if rule is None and (wanted or "max_advantage" in options):
        rule = "largest"
    if rule is not None and rule not in _OPTIONS:
        near = get_close_matches(rule, _OPTIONS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ValueError(f"Got --select {rule}, but expected one of {', '.join(_OPTIONS)}.{hint}")
    known = _OPTIONS.get(rule or "", ())
    for key in options:
        if key not in known:
            option = key.replace("_", "-")
            owners = " or ".join(name for name, own in _OPTIONS.items() if key in own)
            raise ValueError(f"Got --{option} without --select {owners}, which it belongs to.")
    if rule == "utility" and "floor" not in options:
        raise ValueError("Got --select utility without --floor, the least utility, such as 0.8.")
    return rule, options


def _read(
    data: Path,
    features: str | None,
    concept: str | None,
    task: str | None,
    labels: Path | None,
    seed: int,
) -> tuple[Table, Dataset]:
    import numpy as np

    from unspot.data.dataset import Dataset
    from unspot.io import read_table

    table = read_table(data, features=features, concept=concept, task=task, labels_file=labels)
    X = np.asarray(table.X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    rows = Dataset.from_arrays(X, table.z, table.y, random_state=seed, name=data.name)
    return table, rows


def _metrics(metrics: str | None, rows: Dataset) -> list[str]:
    """The metrics of the table, refused now rather than after the fits."""
    from unspot.evaluation.run import check_metrics

    if metrics is None:
        return ["attack", "neighbours", *(["task_linear"] if rows.train.y is not None else [])]
    names = [] if metrics.strip() in ("", "none") else [n.strip() for n in metrics.split(",")]
    check_metrics(names, rows)
    return names


def _write_json(found: RankPath, json: Path | None) -> None:
    from unspot.cli.console import echo_json
    from unspot.io.files import write_atomically

    if json == Path("-"):
        echo_json(found.to_json())
    elif json is not None:
        write_atomically(json, (found.to_json() + "\n").encode())


def _save(chosen: Any, table: Table, data: Path, concept: str, output: Path) -> None:
    from unspot.cli.fit import with_source
    from unspot.eraser import Eraser
    from unspot.io.files import naming_full_disk

    eraser = with_source(chosen.eraser_, table, data, concept)
    metadata = {**eraser.metadata, "selection": chosen.selection_.describe()}
    with naming_full_disk(output):
        Eraser(eraser.maps, metadata).save(output)
