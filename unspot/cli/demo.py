"""``unspot demo``: erase, measure, attack and report on bundled vectors, in about a minute."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset
    from unspot.report.contents import Contents, NeighbourList
    from unspot.report.views import Views

#: Files that the demo writes.
FILES = {
    "report.html": "the report: open it in a browser",
    "eraser.safetensors": "the eraser: load it with unspot.load",
}
#: Rows that L̄EOPARD is fitted on: enough to generalise, and few enough for about a minute.
MAX_ROWS = 6000
MEASURES = ("chance", "linear", "mdl", "neighbours")

Step = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Story:
    """A concept to take out of one of the bundled data sets."""

    loader: str  # in unspot.datasets
    title: str
    about: str
    rank: int  # dimensions that hold little of the concept, and much of the rest
    show: tuple[str, ...]  # rows whose neighbours are shown


STORIES = {
    "words": Story(
        "load_glove_gender",
        "Gender, taken out of word vectors",
        "words that lean female, lean male or are neutral",
        rank=40,
        show=("doctor", "nurse", "engineer", "professor", "midwife", "carpenter"),
    ),
    "translations": Story(
        "load_translations",
        "The translation, taken out of verses",
        "vectors of Bible verses in three translations",
        rank=192,
        show=("Genesis 6:6 WEB", "Numbers 35:1 WEB", "Job 8:8 KJV", "Psalms 80:18 KJV"),
    ),
}

NEXT = (
    "  unspot plan data.parquet --features emb --concept gender",
    "  unspot fit data.parquet --features emb --concept gender -o gender.safetensors",
    "  unspot evaluate gender.safetensors test.parquet --html report.html",
    "  unspot transform gender.safetensors new/*.parquet -o clean/",
)


def demo(output: Path = Path("unspot-demo"), data: str = "words", *, quiet: bool) -> None:
    """Take gender out of 21,996 word vectors, and see what is left.

    Fits LEACE, LEOPARD and its cascade on vectors that come with the package, attacks the
    results, and writes a report. Needs no network; takes about a minute. With --data
    translations, the source is taken out of verses, so that a search finds their meaning.
    """
    import unspot.datasets
    from unspot.checks import check_choice

    story = STORIES[check_choice("--data", data, STORIES)]
    rows = getattr(unspot.datasets, story.loader)()
    if output.exists() and not output.is_dir():
        raise ValueError(f"Got --output {output}, which is a file, but expected a folder.")
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere if quiet else sys.stdout):
        _begin(story, rows)
        result = run_demo(output, rows, story, step=_step)
        _show(result, output)


# -- The work --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Demo:
    """Results of the demo."""

    contents: Contents
    views: Views
    neighbours: tuple[NeighbourList, ...]


def run_demo(
    folder: Path,
    data: Dataset,
    story: Story,
    *,
    max_rows: int = MAX_ROWS,
    seeds: int = 2,
    step: Step = lambda name: nullcontext(),
) -> Demo:
    """Erase, measure, attack, draw and write.

    Parameters
    ----------
    folder : path
        Where ``FILES`` go. Existing files of these names are replaced.
    data : Dataset
        With names, as ``load_glove_gender`` gives it.
    story : Story
    max_rows : int
        Rows that L̄EOPARD is fitted on.
    seeds : int
        Number of networks per probe.
    step : function
        Called with the name of each step; returns a context around it, to show progress.
    """
    from unspot.report import make_views, to_html
    from unspot.report.contents import read_contents

    erasers = _fitted(data, story.rank, max_rows, step)
    results = _measured(erasers, data, seeds, step)
    with step("Drawing maps"):
        views = make_views(erasers, data, max_points=1200)
    neighbours = nearest_names(erasers["Cascade"], data, story.show)
    with step("Writing the report"):
        erasers["Cascade"].eraser_.save(folder / "eraser.safetensors")
        page = folder / "report.html"
        to_html(results, page, views=views, neighbours=neighbours, title=story.title)
    return Demo(read_contents(results, title=story.title), views, neighbours)


def _fitted(data: Dataset, rank: int, max_rows: int, step: Step) -> dict[str, Any]:
    with step("Loading packages"):
        from unspot import LEACE, LEOPARD, Cascade
        from unspot.leopard import ManifoldSolver

        solver = ManifoldSolver(max_rows=max_rows)
        leopard = LEOPARD(rank=rank, solver=solver, random_state=0)
        erasers = {"LEACE": LEACE(), "LEOPARD": leopard, "Cascade": Cascade(leopard)}
    for name, eraser in erasers.items():
        with step(f"Fitting {name}"):
            eraser.fit(data.train.X, data.train.z)
    return erasers


def _measured(erasers: dict[str, Any], data: Dataset, seeds: int, step: Step) -> dict[str, Any]:
    """Evaluate and certify each eraser; certify the original rows under "before"."""
    from unspot import certify, evaluate

    with step("Attacking the original"):
        results: dict[str, Any] = {"before": certify(None, data, budget="quick")}
    for name, eraser in erasers.items():
        with step(f"Measuring {name}"):
            evaluation = evaluate(eraser, data, metrics=MEASURES, seeds=seeds)
        with step(f"Attacking {name}"):
            results[name] = (evaluation, certify(eraser, data, budget="quick"))
    return results


def nearest_names(
    eraser: Any, data: Dataset, wanted: Sequence[str], *, k: int = 5
) -> tuple[NeighbourList, ...]:
    """Find the k nearest rows by cosine, before and after erasure; unknown names are left out."""
    import numpy as np

    from unspot.report.contents import NeighbourList

    names = np.concatenate([split.names for split in data]).astype(str)
    X = np.concatenate([split.X for split in data])
    places = {name: i for i, name in enumerate(names)}
    known = [name for name in wanted if name in places]
    rows = np.array([places[name] for name in known], dtype=int)
    nearest = []
    for vectors in (X, eraser.transform(X)):
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        cosines = unit[rows] @ unit.T
        cosines[np.arange(len(rows)), rows] = -np.inf  # a row is not its own neighbour
        nearest.append(names[np.argsort(-cosines, axis=1, kind="stable")[:, :k]])
    pairs = zip(known, *nearest, strict=True)
    return tuple(NeighbourList(name, tuple(b), tuple(a)) for name, b, a in pairs)


# -- The terminal ----------------------------------------------------------------------------------


def _begin(story: Story, rows: Dataset) -> None:
    train, _, test = (f"{len(split):,}" for split in rows)
    options.say(f"\n{story.title}\n", bold=True)
    options.say(
        f"  {sum(map(len, rows)):,} {story.about}.\n"
        f"  {rows.n_features} dimensions, of which {story.rank} are kept.\n"
        f"  Erasers learn from {train} of them, attackers from others, and all is\n"
        f"  tested on {test} that none of them has seen.\n"
    )


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Show progress while a step runs, then a line with its time."""
    from unspot.io.progress import phase

    started = time.perf_counter()
    with phase(name):
        yield
    options.say(f"  ✓ {name:<28}{time.perf_counter() - started:6.1f} s")


def _show(result: Demo, folder: Path) -> None:
    from unspot.report.page import measure_groups
    from unspot.tables import plain

    contents = result.contents
    rows = [["", "before", *contents.columns]]
    for group, lines in measure_groups(contents, spreads=False):
        rows.append([group, *[""] * (len(rows[0]) - 1)])
        rows += [[f"  {line.title} {line.arrow}", line.before, *line.after] for line in lines]
    chance = f", chance is {100 * contents.chance:.1f} %" if contents.chance else ""
    options.say(f"\n{plain(rows)}\n\n  ↓ lower is better, ↑ higher is better{chance}")
    if (verdict := contents.headline) is not None:
        headline = f"{contents.columns[contents.chosen]}: {verdict.headline}."
        options.say("\n" + fill(headline, 80), bold=True)
        options.say(fill(verdict.sentence, 80))
    options.say("\nNearest rows before, and after erasure", bold=True)
    for entry in result.neighbours:
        for start, names in ((f"  {entry.word}: ", entry.before), ("    → ", entry.after)):
            options.say(fill(start + ", ".join(names), 80, subsequent_indent=" " * 6))
    options.say(f"\nWritten to {folder}/", bold=True)
    for name, meaning in FILES.items():
        options.say(f"  {name:<20} {meaning}")
    options.say("\nNext, with a file of your own", bold=True)
    options.say("\n".join(NEXT))
