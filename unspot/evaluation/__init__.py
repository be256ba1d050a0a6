"""Evidence: what is left of a concept after erasure, and what is left of everything else."""

from unspot.density.two_sample import TwoSampleTest, two_sample_test
from unspot.evaluation.attackers import ATTACKERS, AttackResult, attack
from unspot.evaluation.certificate import Certificate, certify
from unspot.evaluation.evaluate import evaluate
from unspot.evaluation.fairness import Fairness, fairness
from unspot.evaluation.mdl import MDL, mdl
from unspot.evaluation.neighbours import neighbour_overlap, variance_kept
from unspot.evaluation.probes import ProbeScores, probe_accuracy, probe_predictions
from unspot.evaluation.results import Evaluation, Row, Value
from unspot.evaluation.words import WordPairs, WordSimilarity, load_pairs, word_similarity

__all__ = [
    "ATTACKERS",
    "MDL",
    "AttackResult",
    "Certificate",
    "Evaluation",
    "Fairness",
    "ProbeScores",
    "Row",
    "TwoSampleTest",
    "Value",
    "WordPairs",
    "WordSimilarity",
    "attack",
    "certify",
    "evaluate",
    "fairness",
    "load_pairs",
    "mdl",
    "neighbour_overlap",
    "probe_accuracy",
    "probe_predictions",
    "two_sample_test",
    "variance_kept",
    "word_similarity",
]
