"""``unspot demo``: the whole story on real vectors that are bundled, in about a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unspot.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from unspot.cli.tour import Demo
    from unspot.data.dataset import Dataset

#: The files that the demo writes.
FILES = {
    "report.html": "the report: open it in a browser",
    "eraser.safetensors": "the eraser: load it with unspot.load",
    "erased.npz": "the names of all rows, and their erased vectors",
}


@dataclass(frozen=True)
class Story:
    """What the demo takes out of which bundled data."""

    loader: str  # in unspot.datasets
    title: str
    about: str
    rank: int
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
    "  data.parquet has a column of vectors, emb, and one of labels, gender:",
    "",
    "  unspot fit data.parquet --features emb --concept gender -o gender.safetensors",
    "  unspot evaluate gender.safetensors test.parquet --html report.html",
    "  unspot transform gender.safetensors new/*.parquet -o clean/",
    "",
    "  unspot --help lists the rest.",
)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.")
    ] = Path("unspot-demo"),
    data_name: Annotated[
        str,
        typer.Option("--data", metavar="NAME", help="words (gender) or translations (the source)."),
    ] = "words",
    rank: Annotated[
        int | None,
        typer.Option("--rank", "-r", metavar="R", help="Dimensions to keep: by default 40 of 100."),
    ] = None,
    tsne: Annotated[
        bool, typer.Option("--tsne", metavar="", help="Draw maps by t-SNE, not PCA (slower).")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Take gender out of 21,996 word vectors, and see what is left.

    Fits LEACE, LEOPARD and its cascade on vectors that come with the package, attacks the
    results, and writes a report. Needs no network; takes about a minute. With --data
    translations, the source is taken out of verses, so that a search finds their meaning.
    """
    import unspot.datasets
    from unspot.checks import check_choice

    story = STORIES[check_choice("--data", data_name, STORIES)]
    data = getattr(unspot.datasets, story.loader)()
    rank = story.rank if rank is None else rank
    replaced = _check(output, rank, data.n_features)
    show = _Show(quiet=quiet)
    show.begin(story, data, rank)
    started = time.perf_counter()
    with options.loading():  # it takes a second or more: the beginning is shown first
        from unspot.cli.tour import run_demo

    began = time.time()
    with options.saying_what_is_kept(lambda: options.what_is_kept(_new_files(output, began))):
        result = run_demo(
            output,
            data,
            rank=rank,
            title=story.title,
            show=story.show,
            map_kind="tsne" if tsne else "pca",
            step=show.step,
        )
    show.table(result)
    show.neighbours(result)
    show.files(output, replaced, time.perf_counter() - started)


def _new_files(output: Path, began: float) -> list[Path]:
    """Those of the demo's files that were written since."""
    files = [output / name for name in FILES]
    return [file for file in files if file.exists() and file.stat().st_mtime >= began]


def _check(output: Path, rank: int, n_features: int) -> bool:
    """Refuse what cannot work before anything is computed; whether files will be replaced."""
    if not 1 <= rank <= n_features - 2:
        raise ValueError(
            f"Got --rank {rank}, but expected an integer from 1 to {n_features - 2}: the vectors "
            f"have {n_features} dimensions, of which linear erasure takes two."
        )
    if output.exists() and not output.is_dir():
        raise ValueError(f"Got --output {output}, which is a file, but expected a folder.")
    return any((output / name).exists() for name in FILES)


class _Show:
    """Output for a terminal of 80 columns."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, quiet=quiet)

    def begin(self, story: Story, data: Dataset, rank: int) -> None:
        train, _, test = (f"{len(split):,}" for split in data)
        self.console.print(f"\n[bold]{story.title}[/bold]\n")
        self.console.print(
            f"  {sum(map(len, data)):,} {story.about}.\n"
            f"  {data.n_features} dimensions, of which {rank} are kept.\n"
            f"  Erasers learn from {train} of them, attackers from others, and all is\n"
            f"  tested on {test} that none of them has seen.\n"
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Progress while it runs, then a line with the time."""
        from unspot.io.progress import phase

        started = time.perf_counter()
        with phase(name):
            yield
        seconds = time.perf_counter() - started
        self.console.print(f"  [green]✓[/green] {name:<28}[dim]{seconds:6.1f} s[/dim]")

    def table(self, result: Demo) -> None:
        from unspot.report.page import measure_groups

        contents = result.contents
        grid = self._grid()
        grid.add_column("", no_wrap=True)
        for name in ("before", *contents.columns):
            grid.add_column(name, justify="right", no_wrap=True)
        for group, lines in measure_groups(contents, spreads=False):
            grid.add_row(f"[bold]{group}[/bold]")
            for line in lines:
                grid.add_row(f"  {line.title} {line.arrow}", line.before, *line.after)
        self.console.print()
        self.console.print(grid)
        chance = f", chance is {100 * contents.chance:.1f} %" if contents.chance else ""
        self.console.print(f"\n  [dim]↓ lower is better, ↑ higher is better{chance}[/dim]")
        verdict = contents.headline
        if verdict is not None:
            name = contents.columns[contents.chosen]
            self.console.print(f"\n[bold]{name}: {verdict.headline}.[/bold]")
            self.console.print(f"{verdict.sentence}\n")

    def neighbours(self, result: Demo) -> None:
        grid = self._grid("Nearest rows", "before", f"after {result.contents.columns[-1]}")
        for entry in result.neighbours:
            after = [w if w in entry.before else f"[bold]{w}[/bold]" for w in entry.after]
            grid.add_row(entry.word, ", ".join(entry.before), ", ".join(after))
        self.console.print(grid)

    def files(self, folder: Path, replaced: bool, seconds: float) -> None:
        self.console.print(f"\nWritten to {folder}/", style="bold", markup=False, soft_wrap=True)
        if replaced:
            self.console.print("  [dim]Files of an earlier demo were replaced.[/dim]")
        for name, meaning in FILES.items():
            self.console.print(f"  {name:<20} {meaning}")
        self.console.print("\n[bold]Next, with a file of your own[/bold]")
        self.console.print("\n".join(NEXT), markup=False)
        self.console.print(f"\n[dim]{seconds:.0f} s in all.[/dim]")

    def _grid(self, *names: str) -> Table:
        from rich.table import Table

        return Table(*names, box=None, pad_edge=False, padding=(0, 2, 0, 0))
