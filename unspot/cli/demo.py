"""``unspot demo``: the one path on bundled words, from vectors to a statement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unspot.cli import options

if TYPE_CHECKING:
    from unspot.data.dataset import Dataset

TITLE = "Gender, taken out of word vectors"
#: Files that the demo writes.
FILES = {
    "report.html": "the report: open it in a browser",
    "eraser.safetensors": "the eraser: load it with unspot.load",
    "certificate.json": "the numbers behind the statement",
}
WORDS = ("doctor", "nurse", "engineer", "professor", "midwife", "carpenter")

NEXT = (
    "  unspot plan data.parquet --features emb --concept gender",
    "  unspot erase data.parquet --features emb --concept gender -o out/",
    "  unspot transform out/eraser.safetensors new/*.parquet -o clean/",
)


def demo(output: Path = Path("unspot-demo")) -> None:
    """Take gender out of 21,996 word vectors, and see what is left.

    Does what unspot erase does with a file: tries erasers, chooses one, and certifies it on words
    that had no part in it. Needs no network; takes about two minutes.
    """
    from unspot.datasets import load_glove_gender

    options.check_files({name: output / name for name in FILES}, ())
    data = load_glove_gender()
    options.say(f"\n{TITLE}\n", bold=True)
    options.say(
        f"  {sum(map(len, data)):,} words that lean female, lean male or are neutral, as vectors\n"
        f"  of {data.n_features} numbers. This takes about two minutes.\n"
    )
    result, eraser = run_demo(output, data)
    options.say(str(result), bold=True)
    options.say("\nNearest words before, and after erasure", bold=True)
    for word, before, after in nearest_names(eraser, data, WORDS):
        options.say(f"  {word}: {', '.join(before)}\n    → {', '.join(after)}")
    options.say(f"\nWritten to {output}/", bold=True)
    for name, meaning in FILES.items():
        options.say(f"  {name:<20} {meaning}")
    options.say("\nNext, with a file of your own", bold=True)
    options.say("\n".join(NEXT))


def run_demo(folder: Path, data: Dataset) -> tuple[Any, Any]:
    """Erase the concept of a data set, and write ``FILES`` to a folder; earlier ones go."""
    with options.loading():
        from unspot import erase
        from unspot.evaluation.measure import joined_splits

    rows = joined_splits(data)
    result = erase(rows.X, rows.z).called(data.concept)
    folder.mkdir(parents=True, exist_ok=True)
    eraser = result.eraser.with_metadata(concept_name=data.concept, data=data.name)
    eraser.save(folder / "eraser.safetensors")
    options.write_json(result.certificate, folder / "certificate.json")
    result.to_html(folder / "report.html", title=TITLE)
    return result, eraser


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
