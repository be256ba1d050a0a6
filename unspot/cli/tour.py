"""The work of ``unspot demo``: gender is erased from word vectors, measured, drawn and written.

It is apart from the command, so that ``unspot --help`` does not import what it needs.
"""

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
from unspot.io.progress import steps
from unspot.report.contents import Contents, NeighbourList

if TYPE_CHECKING:
    from unspot.evaluation.certificate import Certificate
    from unspot.evaluation.results import Evaluation
    from unspot.report.views import Views

__all__ = ["Demo", "nearest_words", "run_demo", "vocabulary"]

#: Dimensions to keep of 100: they hold little of the concept, and much of what the words mean.
RANK = 40
#: Rows that L̄EOPARD is fitted on: enough to generalise, and few enough for about a minute.
MAX_ROWS = 6000
CHOSEN = "Cascade"
MEASURES = ("chance", "probe", "mdl", "neighbours", "words")

Step = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Demo:
    """The results of the demo, and the files that it wrote."""

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
    title: str = "",
    show: Sequence[str] = (),
    seeds: int = 2,
    map_kind: Any = "pca",
    step: Step = lambda name: nullcontext(),
) -> Demo:
    """Erase, measure, attack, draw and write.

    Parameters
    ----------
    folder : path
        Where ``report.html``, ``eraser.safetensors`` and ``erased.npz`` go. Existing files of
        these names are replaced.
    data : Dataset
        With names, as ``load_glove_gender`` gives it.
    rank, max_rows
        Of L̄EOPARD.
    title : str
        Of the report.
    show : sequence of str
        Names of rows whose neighbours are shown.
    seeds : int
        Number of networks per probe.
    map_kind : {"pca", "tsne"}
    step : function
        Called with the name of each step; returns a context around it, to show progress.
    """
    from unspot.report import make_views, to_html
    from unspot.report.contents import read_contents

    erasers = _fit_all(data, rank, max_rows, step)
    evaluations = _measure_all(erasers, data, seeds, step)
    certificates = _attack_all(erasers, data, step)
    with step("Drawing maps"):
        views = make_views(erasers, data, map_kind=map_kind, max_points=1200)
    neighbours = nearest_words(erasers[CHOSEN], data, show)
    results: dict[str, Any] = {"before": certificates["before"]}
    results |= {name: (evaluations[name], certificates[name]) for name in erasers}
    files = tuple(folder / name for name in ("report.html", "eraser.safetensors", "erased.npz"))
    page, eraser_file, vectors_file = files
    with step("Writing the report"):
        erasers[CHOSEN].eraser_.save(eraser_file)
        _write_vectors(vectors_file, erasers[CHOSEN], data)
        to_html(results, page, views=views, neighbours=neighbours, title=title)
    contents = read_contents(results, title=title, neighbours=neighbours)
    return Demo(data, contents, views, neighbours, files)


def _fit_all(data: Dataset, rank: int, max_rows: int, step: Step) -> dict[str, Any]:
    """LEACE, L̄EOPARD and its cascade, fitted on the training rows."""
    from unspot import LEACE, LEOPARD, Cascade

    leopard = LEOPARD(rank=rank, max_rows=max_rows, random_state=0)
    erasers = {"LEACE": LEACE(), "LEOPARD": leopard, CHOSEN: Cascade(leopard)}
    for name, eraser in erasers.items():
        with step(f"Fitting {name}"):
            eraser.fit(data.train.X, data.train.z)
    return erasers


def _measure_all(
    erasers: Mapping[str, Any], data: Dataset, seeds: int, step: Step
) -> dict[str, Evaluation]:
    """One evaluation per eraser; the original rows are measured once for all of them."""
    from unspot.evaluation.run import evaluate

    metrics = [name for name in MEASURES if name != "words" or data.lexicon is not None]
    memory: dict[str, Any] = {}
    evaluations = {}
    for name, eraser in erasers.items():
        with step(f"Measuring {name}"):
            problem = _Remembering(data, erased(eraser.transform, data), seeds, memory=memory)
            rows = tuple(
                row for metric in steps(metrics, "Metric") for row in METRICS[metric](problem).rows
            )
            facts = evaluate(eraser, data, metrics=(), seeds=seeds)
            evaluations[name] = replace(facts, rows=rows)
    return evaluations


def _attack_all(erasers: Mapping[str, Any], data: Dataset, step: Step) -> dict[str, Certificate]:
    """A certificate per eraser, and one of the original rows under "before"."""
    from unspot.evaluation.held_out import certify

    certificates = {}
    for name, eraser in {"before": None, **erasers}.items():
        with step("Attacking the original" if eraser is None else f"Attacking {name}"):
            certificates[name] = certify(eraser, data, budget="quick")
    return certificates


@dataclass(frozen=True, eq=False)
class _Remembering(Problem):
    """A problem that measures its original rows only if no other with this memory has."""

    memory: dict[str, Any] = field(default_factory=dict)

    def on_both(self, measure: Callable[[Dataset], Any]) -> tuple[Any, Any]:
        key = measure.__qualname__
        if key not in self.memory:
            self.memory[key] = measure(self.before)
        return self.memory[key], measure(self.after)


def vocabulary(data: Dataset) -> tuple[NDArray[Any], NDArray[Any]]:
    """All words of a data set, each once, and their vectors."""
    pairs = [(split.names, split.X) for split in data if split.names is not None]
    if data.lexicon is not None:
        pairs.append((data.lexicon.words, data.lexicon.X))
    words, X = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    first = np.sort(np.unique(words, return_index=True)[1])
    return words[first], X[first]


def nearest_words(
    eraser: Any, data: Dataset, words: Sequence[str], *, k: int = 5
) -> tuple[NeighbourList, ...]:
    """The k nearest words by cosine, before and after erasure; unknown words are left out."""
    names, X = vocabulary(data)
    places = {str(name): i for i, name in enumerate(names)}
    wanted = [word for word in words if word in places]
    rows = np.array([places[word] for word in wanted], dtype=int)
    before, after = (_nearest(vectors, rows, k) for vectors in (X, eraser.transform(X)))
    return tuple(
        NeighbourList(word, tuple(map(str, names[b])), tuple(map(str, names[a])))
        for word, b, a in zip(wanted, before, after, strict=True)
    )


def _nearest(X: NDArray[Any], rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit = X / np.where(norms > 0, norms, 1)
    cosines = unit[rows] @ unit.T
    cosines[np.arange(len(rows)), rows] = -np.inf  # a word is not its own neighbour
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k]


def _write_vectors(path: Path, eraser: Any, data: Dataset) -> None:
    """Write words and erased vectors as an .npz file of plain arrays."""
    from unspot.io.files import write_atomically

    words, X = vocabulary(data)
    buffer = io.BytesIO()
    np.savez(buffer, words=words, X=eraser.transform(X).astype(np.float32))
    write_atomically(path, buffer.getvalue())
