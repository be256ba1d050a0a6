"""Metrics by the conventions of the paper: its probe, MDL scheme, A_50% and word similarity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import did_you_mean
from unspot.data.dataset import Dataset
from unspot.evaluation.measure import erased_rows
from unspot.evaluation.metrics import (
    MAX_PAIRS,
    METRICS,
    TASK,
    Direction,
    Finding,
    Metric,
    Row,
    Side,
    Value,
    describe_fairness,
    lacking,
    learned_nothing,
    mean_value,
)
from unspot.evaluation.utility import Fairness, neighbour_overlap
from unspot.lab.description_length import paper_bits
from unspot.lab.probes import ProbeScores, predict_codes, probe_accuracy
from unspot.lab.words import load_wordsim353, word_similarity

__all__ = ["LAB_METRICS", "PAPER", "check_lab_metrics", "lab_metrics", "lacking_in_lab"]

#: The class that the paper leaves out where it treats gender as binary.
NEUTRAL = "neutral"

_LEXICON = "lexicon of words"

#: Label, unit and direction of the rows.
_ROWS: dict[str, tuple[str, str, Direction]] = {
    "probe": ("Probe of the paper", "share", "lower"),
    "probe_reference": ("Probe of the paper's tables", "share", "lower"),
    "probe_binary": ("Probe, binary", "share", "lower"),
    "mdl_paper": ("MDL, paper's scheme", "kbit", "higher"),
    "neighbours_paper": ("A_50%, paper's", "", "higher"),
    "words": ("WS-353", "", "higher"),
    "task": ("Task accuracy, paper's MLP", "share", "higher"),
}


def _one_row(key: str, before: Value | None, after: Value | None, note: str = "") -> Finding:
    label, unit, better = _ROWS[key]
    return Finding((Row(key, label, unit, before, after, better, note),))


def _probe(side: Side) -> Value:
    learn = side.data.probe_rows
    how: Any = {"seeds": side.seeds, "random_state": side.random_state}
    predicted = predict_codes(learn.X, learn.target, side.data.test.X, **how)
    scores = ProbeScores.of(predicted, side.concept.codes)
    return Value(scores.mean, scores.spread)


def _describe_probe(before: Value | None, after: Value, side: Side) -> Finding:
    note = "the paper's MLP (a_z). A weak probe: see the strongest attacker."
    return _one_row("probe", before, after, note + learned_nothing(before, side.concept))


def _reference(side: Side, keep: Callable[[Any], NDArray[np.bool_]]) -> Value:
    learn, test = side.data.probe_rows, side.data.test
    rows, judged = keep(learn.z), keep(test.z)
    how: Any = {"preset": "reference", "seeds": side.seeds, "random_state": side.random_state}
    train = learn.X[rows], learn.z[rows]
    scores = probe_accuracy(*train, test.X[judged], test.z[judged], **how)
    return Value(scores.mean, scores.spread)


def _papers_code(side: Side) -> Value:
    learn = side.data.probe_rows
    return Value(paper_bits(learn.X, learn.target, random_state=side.random_state) / 1024)


def _papers_overlap(side: Side) -> Value:
    if side.is_original:
        return Value(1.0)
    X, X_erased = side.original.probe_rows.X, side.data.probe_rows.X
    queries = max(1000, MAX_PAIRS // len(X))
    return Value(neighbour_overlap(X, X_erased, convention="paper", max_queries=queries))


def _words(side: Side) -> Any:
    data: Any = side.original  # a WordDataset, or ``lacking_in_lab`` says that it has no lexicon
    words, X = data.lexicon
    vectors = X if side.is_original else erased_rows(side.eraser, X)
    return word_similarity(words, vectors, load_wordsim353())


def _describe_words(before: Any, after: Any, side: Side) -> Finding:
    note = (
        f"Spearman over {after.n_pairs} pairs of the similarity subset; {after.n_missing} have a "
        "word without a vector."
    )
    was = None if before is None else Value(before.correlation)
    return _one_row("words", was, Value(after.correlation), note)


def _network_fairness(side: Side) -> list[Fairness]:
    """Fairness of the paper's network for the task, one for each seed."""
    learn = side.data.probe_rows
    how: Any = {"seeds": side.seeds, "random_state": side.random_state}
    predictions = predict_codes(learn.X, learn.task, side.data.test.X, **how)
    return [side.fairness(codes) for codes in predictions]


def _describe_task(before: list[Fairness] | None, after: list[Fairness], side: Side) -> Finding:
    was, now = (mean_value(one.accuracy for one in part or ()) for part in (before, after))
    note = "a_y. The network stops after 20 passes: with few rows, see the logistic regression."
    return _one_row("task", was, now, note + learned_nothing(was, side.original.test.task))


def _describe_fairness(before: Any, after: Any, side: Side) -> Finding:
    return describe_fairness(before or [], after, side, "the paper's MLP")


def _described(key: str, note: str = "") -> Callable[[Any, Any, Side], Finding]:
    return lambda before, after, side: _one_row(key, before, after, note)


_NOT_A_CODE = "not a code: training rows, each prefix scored whole; for the paper's tables only."
_OWN_NEIGHBOUR = "training rows, each its own neighbour."

#: All metrics, the paper's included, by name.
LAB_METRICS: dict[str, Metric] = METRICS | {
    metric.name: metric
    for metric in (
        Metric("probe", _probe, _describe_probe, classes_only=True),
        Metric(
            "probe_reference",
            lambda side: _reference(side, lambda z: np.ones(len(z), dtype=bool)),
            _described("probe_reference"),
            classes_only=True,
        ),
        Metric(
            "probe_binary",
            lambda side: _reference(side, lambda z: z != NEUTRAL),
            _described("probe_binary"),
            classes_only=True,
        ),
        Metric("mdl_paper", _papers_code, _described("mdl_paper", _NOT_A_CODE), classes_only=True),
        Metric(
            "neighbours_paper",
            _papers_overlap,
            _described("neighbours_paper", _OWN_NEIGHBOUR),
            shared=True,
        ),
        Metric("words", _words, _describe_words, needs=_LEXICON, shared=True),
        Metric(
            "task", _network_fairness, _describe_task, needs=TASK, classes_only=True, shared=True
        ),
        Metric(
            "fairness_paper", _network_fairness, _describe_fairness, needs=TASK, classes_only=True
        ),
    )
}

#: What the paper reports, by its own conventions.
PAPER = ("chance", "probe", "mdl_paper", "neighbours_paper", "words", "task", "fairness_paper")


def lacking_in_lab(data: Dataset) -> dict[str, str]:
    """Return names of the metrics that the data do not allow, and what the data lack."""
    lacks = lacking(data, LAB_METRICS)
    return lacks | ({"words": _LEXICON} if getattr(data, "lexicon", None) is None else {})


def lab_metrics(metrics: Sequence[str | Metric]) -> list[Metric]:
    """Look metrics up by name, those of the paper too."""
    return [LAB_METRICS[one] if isinstance(one, str) else one for one in metrics]


def check_lab_metrics(metrics: Sequence[str | Metric], data: Dataset) -> None:
    """Raise an error for unknown names, and for metrics that the data do not allow."""
    missing = lacking_in_lab(data)
    for name in (one for one in metrics if isinstance(one, str)):
        if name not in LAB_METRICS:
            raise ValueError(
                f"Got metric {name!r}, but expected some of {', '.join(LAB_METRICS)}."
                f"{did_you_mean(name, LAB_METRICS)}"
            )
        if name in missing:
            raise ValueError(
                f"Got metric {name!r}, but the data {data.name!r} have no {missing[name]}."
            )
