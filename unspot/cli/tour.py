"""The first minute: gender out of real word vectors, measured, pictured, and written to files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset
from unspot.evaluation.metrics import METRICS
from unspot.evaluation.problem import Problem, erased
from unspot.report.contents import Contents, NeighbourList

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate
    from unspot.evaluation.results import Evaluation
    from unspot.report.views import Views

__all__ = ["Demo", "fit_all", "measure_all", "nearest_words", "run_demo", "vocabulary"]

#: Dimensions kept of 100: little is left of the concept, and much of what the words mean.
RANK = 40
#: Rows that L̄EOPARD works on: enough to generalise, and few enough for the first minute.
MAX_ROWS = 6000
CHOSEN = "Cascade"
MEASURES = ("chance", "probe", "mdl", "neighbours", "words")
WORDS = ("doctor", "nurse", "engineer", "professor", "midwife", "carpenter")

Step = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Demo:
    """What the demo found, and the files it wrote."""

    data: Dataset
    contents: Contents
    views: Views
    neighbours: tuple[NeighbourList, ...]
    files: tuple[Path, ...]


def run_demo(
    folder: Path,
    data: Dataset,
    *,
    rank: int = RANK,
    max_rows: int = MAX_ROWS,
    seeds: int = 2,
    map_kind: Any = "pca",
    step: Step = lambda name: nullcontext(),
) -> Demo:
    """Erase, measure, attack, draw and write.

    Parameters
    ----------
    folder : path
        Where ``report.html``, ``eraser.safetensors`` and ``erased.npz`` go. Files of these names
        are replaced, others are left alone.
    data : Dataset
        With names, as ``load_glove_gender`` gives it.
    rank, max_rows
        Of L̄EOPARD.
    seeds : int
        Networks of each probe.
    map_kind : {"pca", "tsne"}
    step : function
        Called with what is about to be done; gives a context around it, to show progress.
    """
    from unspot.report import make_views, to_html
    from unspot.report.reading import read_contents

    erasers = fit_all(data, rank=rank, max_rows=max_rows, step=step)
    evaluations = measure_all(erasers, data, seeds=seeds, step=step)
    certificates = attack_all(erasers, data, step=step)
    with step("Drawing maps"):
        views = make_views(erasers, data, map_kind=map_kind, max_points=1200)
    neighbours = nearest_words(erasers[CHOSEN], data, WORDS)
    results: dict[str, Any] = {"before": certificates["before"]}
    results |= {name: (evaluations[name], certificates[name]) for name in erasers}
    title = "Gender, taken out of word vectors"
    with step("Writing the report"):
        eraser_file, vectors_file = folder / "eraser.safetensors", folder / "erased.npz"
        erasers[CHOSEN].eraser_.save(eraser_file)
        write_vectors(vectors_file, erasers[CHOSEN], data)
        page = folder / "report.html"
        to_html(results, page, views=views, neighbours=neighbours, title=title)
    contents = read_contents(results, title=title, neighbours=neighbours)
    return Demo(data, contents, views, neighbours, (page, eraser_file, vectors_file))


def fit_all(
    data: Dataset, *, rank: int, max_rows: int, step: Step = lambda name: nullcontext()
) -> dict[str, Any]:
    """LEACE, L̄EOPARD and its cascade, fitted on the training rows."""
    from unspot import LEACE, LEOPARD, Cascade

    leopard = LEOPARD(rank=rank, max_rows=max_rows, random_state=0)
    erasers = {"LEACE": LEACE(), "LEOPARD": leopard, CHOSEN: Cascade(leopard)}
    for name, eraser in erasers.items():
        with step(f"Fitting {name}"):
            eraser.fit(data.train.X, data.train.z)
    return erasers


def measure_all(
    erasers: Mapping[str, Any],
    data: Dataset,
    *,
    seeds: int,
    step: Step = lambda name: nullcontext(),
) -> dict[str, Evaluation]:
    """One evaluation for each eraser; the original rows are measured once for all of them."""
    from unspot.evaluation.run import evaluate

    names = [name for name in MEASURES if name != "words" or data.lexicon is not None]
    memory: dict[str, Any] = {}
    found = {}
    for name, eraser in erasers.items():
        with step(f"Measuring {name}"):
            problem = _Remembering(data, erased(eraser, data), seeds, memory=memory)
            findings = [METRICS[metric](problem) for metric in names]
            facts = evaluate(eraser, data, metrics=(), seeds=seeds)
            rows = tuple(row for finding in findings for row in finding.rows)
            found[name] = replace(facts, rows=rows)
    return found


def attack_all(
    erasers: Mapping[str, Any], data: Dataset, *, step: Step = lambda name: nullcontext()
) -> dict[str, Certificate]:
    """Certificates of the original rows, under "before", and of each eraser."""
    from unspot.evaluation.held_out import certify

    found = {}
    for name, eraser in {"before": None, **erasers}.items():
        with step("Attacking the original" if eraser is None else f"Attacking {name}"):
            found[name] = certify(eraser, data, budget="quick")
    return found


@dataclass(frozen=True, eq=False)
class _Remembering(Problem):
    """A problem whose original rows are measured once, for all problems that share the memory."""

    memory: dict[str, Any] = field(default_factory=dict)

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        key = measure.__qualname__
        if key not in self.memory:
            self.memory[key] = measure(self.before)
        return self.memory[key], measure(self.after)


def vocabulary(data: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    """All words of a data set, each once, and their vectors."""
    words = [split.names for split in data if split.names is not None]
    rows = [split.X for split in data if split.names is not None]
    if data.lexicon is not None:
        words.append(data.lexicon.words)
        rows.append(data.lexicon.X)
    every, X = np.concatenate(words), np.concatenate(rows)
    _, first = np.unique(every, return_index=True)
    first.sort()
    return every[first], X[first]


def nearest_words(
    eraser: Any, data: Dataset, words: Sequence[str], *, k: int = 5
) -> tuple[NeighbourList, ...]:
    """The k words nearest by cosine, before and after erasure, of those words that are there."""
    known, X = vocabulary(data)
    places = {str(word): i for i, word in enumerate(known)}
    wanted = [word for word in words if word in places]
    rows = np.array([places[word] for word in wanted], dtype=int)
    before, after = (_nearest(vectors, rows, k) for vectors in (X, eraser.transform(X)))
    return tuple(
        NeighbourList(word, tuple(map(str, known[b])), tuple(map(str, known[a])))
        for word, b, a in zip(wanted, before, after, strict=True)
    )


def _nearest(X: NDArray[Any], rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = X / np.where(norms > 0, norms, 1)
    likeness = unit[rows] @ unit.T
    likeness[np.arange(len(rows)), rows] = -np.inf
    return np.argsort(-likeness, axis=1, kind="stable")[:, :k]


def write_vectors(path: Path, eraser: Any, data: Dataset) -> None:
    """Words and erased vectors as an .npz file of plain arrays."""
    from unspot.io.files import write_atomically

    words, X = vocabulary(data)
    buffer = io.BytesIO()
    np.savez(buffer, words=words, X=eraser.transform(X).astype(np.float32))
    write_atomically(path, buffer.getvalue())
