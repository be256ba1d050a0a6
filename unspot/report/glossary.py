"""What the measures are, in plain words: titles, units, directions, and the reading guide."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GLOSSARY", "GROUPS", "About", "about"]

GROUPS = ("What can still be recovered", "What is kept", "Fairness of the task", "Other")


@dataclass(frozen=True)
class About:
    """A measure in the report: its place, its title, and what a tile says under its number."""

    group: str
    title: str = ""
    tile: str = ""


#: The reading guide of the report.
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
        "Chance",
        "What a guess without looking at the vectors gets right. Of attackers every class counts "
        "alike, so that it is one in the number of classes; of probes every row, so that it is the "
        "share of the largest class. An attacker at chance recovers nothing.",
    ),
    (
        "Attacker",
        "A classifier trained to read the concept from the vectors. The strongest of several "
        "kinds is what counts: a weak one flatters the eraser.",
    ),
    (
        "Interval",
        "Where the accuracy on all rows of this kind is likely to lie. Attackers are compared at "
        "once, so intervals are widened for their number.",
    ),
    (
        "Probe of the paper",
        "The small network by which papers on erasure are compared: 20 passes over the rows, "
        "no tuning. Good for comparison, too weak as evidence.",
    ),
    (
        "MDL (minimum description length)",
        "How many bits it takes to send the concept’s labels to someone who has the vectors. The "
        "more the vectors say about the concept, the fewer. With nothing left it is as long as "
        "the labels’ own entropy.",
    ),
    (
        "Two-sample p",
        "How often classes of one law would look as different as these do. Small values (of 0.025 "
        "or less, as attackers have the other half of the 5 % of false alarms) say that the "
        "classes still differ; a large value is no proof that they do not.",
    ),
    (
        "A_50 % (neighbours kept)",
        "Of the nearest half of all rows around a row, the share that is still in the nearest "
        "half after erasure. Random vectors have 0.5, unchanged ones 1.",
    ),
    (
        "WordSim-353",
        "How well similarities of word vectors follow those that people gave to pairs of words: "
        "rank correlation (Spearman), 1 is perfect, 0 is none.",
    ),
    (
        "TPR gap",
        "True positive rate of a task classifier for one class of the concept minus that for the "
        "others: 0 where both are treated alike.",
    ),
    (
        "Rank",
        "How many dimensions are kept. Fewer erase more and keep less.",
    ),
)


_RECOVERED, _KEPT, _FAIR, _OTHER = GROUPS
_KNOWN: dict[str, About] = {
    "chance": About(_RECOVERED),
    "attack": About(_RECOVERED, "Strongest attacker", "best of all attackers"),
    "probe": About(_RECOVERED, "Probe of the paper", "a small, untuned network"),
    "probe_reference": About(_RECOVERED, "Probe of the paper’s tables"),
    "probe_binary": About(_RECOVERED, "The same, of two classes"),
    "linear": About(_RECOVERED, "Linear probe"),
    "mdl": About(_RECOVERED, "Description length (MDL)"),
    "mdl_prior": About(_RECOVERED, "MDL with nothing left"),
    "mdl_paper": About(_RECOVERED, "MDL as in the paper"),
    "two_sample": About(_RECOVERED, "Two-sample p-value"),
    "neighbours": About(_KEPT, "Neighbours kept (A_50 %)", "1 is unchanged, 0.5 is random"),
    "neighbours_paper": About(_KEPT, "A_50 % as in the paper"),
    "variance": About(_KEPT, "Variance kept", "of the total variance"),
    "words": About(_KEPT, "WordSim-353", "rank correlation with people"),
    "task_linear": About(_KEPT, "Task accuracy, logistic", "of a logistic regression"),
    "task": About(_KEPT, "Task accuracy, the paper’s MLP (a_y)", "a small, untuned network"),
    "tpr_gap": About(_FAIR, "TPR gap, root mean square", "0 treats all classes alike"),
    "tpr_gap_correlation": About(_FAIR, "Correlation of gap and share"),
    "demographic_parity": About(_FAIR, "Demographic parity gap"),
    "equalised_odds": About(_FAIR, "Equalised odds gap"),
}


def about(key: str) -> About:
    """Where a measure stands; one that is not known here stands at the end."""
    return _KNOWN.get(key, About(_OTHER))
