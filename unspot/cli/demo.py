"""``unspot demo``: erase, measure, attack and report on bundled words, in about a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.evaluation.certificate import Certificate
    from unspot.evaluation.evaluations import Evaluations
    from unspot.report.views import Views

TITLE = "Gender, taken out of word vectors"
#: Files that the demo writes.
FILES = {
    "report.html": "the report: open it in a browser",
    "eraser.safetensors": "the eraser: load it with unspot.load",
}
#: Dimensions to keep: they hold little of gender, and much of the rest.
RANK = 40
#: Rows that L̄EOPARD is fitted on: enough to generalise, and few enough for about a minute.
MAX_ROWS = 6000
METRICS = ("attack", "linear", "mdl", "neighbours")
WORDS = ("doctor", "nurse", "engineer", "professor", "midwife", "carpenter")

NEXT = (
    "  unspot plan data.parquet --features emb --concept gender",
    "  unspot fit data.parquet --features emb --concept gender -o gender.safetensors",
    "  unspot evaluate gender.safetensors test.parquet --html report.html",
    "  unspot transform gender.safetensors new/*.parquet -o clean/",
)


def demo(output: Path = Path("unspot-demo")) -> None:
    """Take gender out of 21,996 word vectors, and see what is left.

    Fits LEACE and a cascade of LEACE and LEOPARD on vectors that come with the package, attacks
    the results, and writes a report. Needs no network; takes about a minute.
    """
    from unspot.datasets import load_glove_gender

    if output.exists() and not output.is_dir():
        raise ValueError(f"Got --output {output}, which is a file, but expected a folder.")
    rows = load_glove_gender()
    train, _, test = (f"{len(split):,}" for split in rows)
    options.say(f"\n{TITLE}\n", bold=True)
    options.say(
        f"  {sum(map(len, rows)):,} words that lean female, lean male or are neutral.\n"
        f"  {rows.n_features} dimensions, of which {RANK} are kept.\n"
        f"  Erasers learn from {train} words, attackers from others, and all is\n"
        f"  tested on {test} that none of them has seen.\n"
    )
    _show(run_demo(output, rows), output)


class Demo(NamedTuple):
    """Results of the demo."""

    evaluations: Evaluations
    certificate: Certificate
    views: Views
    neighbours: list[tuple[str, list[str], list[str]]]


def run_demo(
    folder: Path, data: Dataset, *, rank: int = RANK, max_rows: int = MAX_ROWS, seeds: int = 2
) -> Demo:
    """Erase, measure, attack, and write ``FILES`` to a folder; earlier ones are replaced."""
    with _step("Loading packages"):
        from unspot import LEACE, LEOPARD, Cascade, certify, evaluate
        from unspot.leopard import ManifoldSolver
        from unspot.report import make_views, to_html

    leopard = LEOPARD(rank=rank, solver=ManifoldSolver(max_rows=max_rows), random_state=0)
    erasers: dict[str, Any] = {"LEACE": LEACE(), "Cascade": Cascade(second=leopard)}
    for name, eraser in erasers.items():
        with _step(f"Fitting {name}"):
            eraser.fit(data.train.X, data.train.z)
    chosen = erasers["Cascade"]
    with _step("Measuring both"):
        evaluations = evaluate(erasers, data, metrics=METRICS, seeds=seeds)
    with _step("Certifying Cascade"):
        certificate = certify(chosen, data, budget="quick")
    with _step("Writing the report"):
        chosen.save(folder / "eraser.safetensors")
        results = {**evaluations, "Cascade": (evaluations["Cascade"], certificate)}
        views = make_views(erasers, data)
        to_html(results, folder / "report.html", views=views, title=TITLE)
    return Demo(evaluations, certificate, views, nearest_names(chosen, data, WORDS))


def nearest_names(
    eraser: Any, data: Dataset, wanted: Sequence[str], *, k: int = 5
) -> list[tuple[str, list[str], list[str]]]:
    """Find the k nearest rows by cosine, before and after erasure; unknown names are left out."""
    import numpy as np

    names = np.concatenate([split.names for split in data]).astype(str)
    X = np.concatenate([split.X for split in data])
    rows = np.array([i for name in wanted for i in np.flatnonzero(names == name)], dtype=int)
    nearest = []
    for vectors in (X, eraser.transform(X)):
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        cosines = unit[rows] @ unit.T
        cosines[np.arange(len(rows)), rows] = -np.inf  # a row is not its own neighbour
        nearest.append(names[np.argsort(-cosines, axis=1, kind="stable")[:, :k]].tolist())
    return list(zip(names[rows].tolist(), *nearest, strict=True))


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Show progress while a step runs, then a line with its time."""
    from unspot.io.progress import phase

    started = time.perf_counter()
    with phase(name):
        yield
    options.say(f"  ✓ {name:<28}{time.perf_counter() - started:6.1f} s")


def _show(result: Demo, folder: Path) -> None:
    from unspot.tables import plain

    options.say(f"\n{plain(result.evaluations.cells())}")
    options.say("↓ lower is better, ↑ higher is better", dim=True)
    options.say(f"\nCascade: {result.certificate.verdict}", bold=True)
    options.say(fill(result.certificate.sentence, 80))
    options.say("\nNearest words before, and after erasure", bold=True)
    for word, before, after in result.neighbours:
        options.say(f"  {word}: {', '.join(before)}\n    → {', '.join(after)}")
    options.say(f"\nWritten to {folder}/", bold=True)
    for name, meaning in FILES.items():
        options.say(f"  {name:<20} {meaning}")
    options.say("\nNext, with a file of your own", bold=True)
    options.say("\n".join(NEXT))
