"""Evidence: what is left of a concept after erasure, and what is left of everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.evaluation.attackers import ATTACKERS as ATTACKERS
    from unspot.evaluation.attackers import AttackResult as AttackResult
    from unspot.evaluation.attackers import attack as attack
    from unspot.evaluation.certificate import Certificate as Certificate
    from unspot.evaluation.description_length import MDL as MDL
    from unspot.evaluation.description_length import mdl as mdl
    from unspot.evaluation.geometry import WordPairs as WordPairs
    from unspot.evaluation.geometry import WordSimilarity as WordSimilarity
    from unspot.evaluation.geometry import load_pairs as load_pairs
    from unspot.evaluation.geometry import neighbour_overlap as neighbour_overlap
    from unspot.evaluation.geometry import variance_kept as variance_kept
    from unspot.evaluation.geometry import word_similarity as word_similarity
    from unspot.evaluation.group_fairness import Fairness as Fairness
    from unspot.evaluation.group_fairness import fairness as fairness
    from unspot.evaluation.held_out import certify as certify
    from unspot.evaluation.probes import ProbeScores as ProbeScores
    from unspot.evaluation.probes import probe_accuracy as probe_accuracy
    from unspot.evaluation.probes import probe_predictions as probe_predictions
    from unspot.evaluation.results import Evaluation as Evaluation
    from unspot.evaluation.results import Row as Row
    from unspot.evaluation.results import Value as Value
    from unspot.evaluation.run import evaluate as evaluate
    from unspot.evaluation.two_sample import TwoSampleTest as TwoSampleTest
    from unspot.evaluation.two_sample import two_sample_test as two_sample_test

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "attackers": "ATTACKERS AttackResult attack",
        "certificate": "Certificate",
        "description_length": "MDL mdl",
        "geometry": "WordPairs WordSimilarity load_pairs neighbour_overlap variance_kept "
        "word_similarity",
        "group_fairness": "Fairness fairness",
        "held_out": "certify",
        "probes": "ProbeScores probe_accuracy probe_predictions",
        "results": "Evaluation Row Value",
        "run": "evaluate",
        "two_sample": "TwoSampleTest two_sample_test",
    },
)
