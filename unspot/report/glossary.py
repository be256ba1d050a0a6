"""The reading guide of the report: what its words and its measures mean."""

from __future__ import annotations

from unspot.evaluation.metrics import REGISTRY

__all__ = ["GLOSSARY"]

#: Terms and what they mean: those of all results, those of the metrics, those of paths.
GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "Concept",
        "What was to be erased from the vectors: gender, dialect, source… Its classes are the "
        "values that a row can have.",
    ),
    (
        "Held-out rows",
        "Rows that neither the eraser nor the classifier under test was fitted on. The numbers of "
        "this report are measured on such rows, unless a note says otherwise.",
    ),
    (
        "Interval",
        "Where the accuracy on all rows of this kind is likely to lie. Attackers are compared at "
        "once, so intervals are widened for their number.",
    ),
    *((metric.term, metric.meaning) for metric in REGISTRY if metric.term),
    (
        "Rank",
        "How many dimensions are kept. Fewer erase more and keep less.",
    ),
)
