"""How a page presents each metric: heading, title, hint under a tile, axis and glossary entry."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["GROUPS", "Presentation", "presented"]

#: Headings of the main table.
GROUPS = ("What can still be recovered", "What is kept", "Fairness of the task", "Other")
_RECOVERED, _KEPT, _FAIR, _OTHER = GROUPS


@dataclass(frozen=True)
class Presentation:
    """Words of a page about one metric.

    Parameters
    ----------
    group : str
        The heading it stands under.
    title : str
        Its title, if not the label of the evaluation's row.
    unit : str
        "share" for per cent, else a unit or nothing.
    hint : str
        What a tile says under its number.
    axis : str
        The name of an axis of a chart.
    term, meaning : str
        Its entry in the glossary.
    explained_by : str
        The metric whose glossary entry explains this one too.
    """

    group: str = _OTHER
    title: str = ""
    unit: str = ""
    hint: str = ""
    axis: str = ""
    term: str = ""
    meaning: str = ""
    explained_by: str = ""


def presented(key: str) -> Presentation:
    """Return the presentation of a metric; unknown ones stand at the end of the table.

    Rows of several concepts have keys such as "attack:gender". They stand where "attack" does, and
    keep the label of their row as a title.
    """
    known, _, concept = key.partition(":")
    entry = METRICS.get(known, Presentation())
    return replace(entry, title="") if concept else entry


# fmt: off
METRICS = {
    "chance": Presentation(_RECOVERED, "Chance", "share", term="Chance", meaning=
        "What a guess without looking at the vectors gets right. Attackers are judged with every "
        "class counted equally, so chance is one divided by the number of classes. Probes are "
        "judged with every row counted equally, so it is the share of the largest class. An "
        "attacker at chance recovers nothing."),
    "probe": Presentation(_RECOVERED, "Probe of the paper", "share", "a small, untuned network",
        "accuracy of the paper’s probe", "Probe of the paper",
        "The small network by which papers on erasure are compared: 20 passes over the rows, "
        "no tuning. Good for comparison, too weak as evidence."),
    "probe_reference": Presentation(_RECOVERED, "Probe of the paper’s tables", "share",
        explained_by="probe"),
    "probe_binary": Presentation(_RECOVERED, "Probe of the paper, two classes", "share",
        explained_by="probe"),
    "linear": Presentation(_RECOVERED, "Linear probe", "share", axis="accuracy of a linear probe"),
    "attack": Presentation(_RECOVERED, "Strongest attacker", "share", "best of all attackers",
        "accuracy of the strongest attacker", "Attacker",
        "A classifier trained to read the concept from vectors that the eraser has not seen. "
        "The strongest of several kinds is what counts: a weak one flatters the eraser."),
    "attack_seen": Presentation(_RECOVERED,
        "Strongest attacker that learned from the rows of the fit", "share",
        explained_by="attack"),
    "mdl": Presentation(_RECOVERED, "Description length (MDL)", "kbit",
        term="MDL (minimum description length)", meaning=
        "How many bits it takes to send the concept’s labels to someone who has the vectors. "
        "The more the vectors say about the concept, the fewer. With nothing left it is as "
        "long as the labels’ own entropy."),
    "mdl_prior": Presentation(_RECOVERED, "MDL with nothing left", "kbit", explained_by="mdl"),
    "mdl_paper": Presentation(_RECOVERED, "MDL as in the paper", "kbit", explained_by="mdl"),
    "two_sample": Presentation(_RECOVERED, "Two-sample p-value", "p", term="Two-sample p", meaning=
        "How often classes with the same distribution would look as different as these do. A "
        "value of 0.025 or less says that the classes still differ (the attackers have the "
        "other half of the 5 % of false alarms). A large value does not prove that they are "
        "equal."),
    "neighbours": Presentation(_KEPT, "Neighbours kept (A_50 %)", "",
        "1 is unchanged, 0.5 is random", "neighbours kept (A_50 %)", "A_50 % (neighbours kept)",
        "Of the nearest half of all rows around a row, the share that is still in the nearest "
        "half after erasure. Random vectors have 0.5, unchanged ones 1."),
    "neighbours_paper": Presentation(_KEPT, "A_50 % as in the paper", explained_by="neighbours"),
    "variance": Presentation(_KEPT, "Variance kept", "share", "of the total variance",
        "share of variance kept"),
    "words": Presentation(_KEPT, "WordSim-353", "", "rank correlation with people",
        "word similarity (WordSim-353)", "WordSim-353",
        "How well similarities of word vectors follow those that people gave to pairs of "
        "words: rank correlation (Spearman), 1 is perfect, 0 is none."),
    "task_linear": Presentation(_KEPT, "Task accuracy, logistic", "share",
        "of a logistic regression", "accuracy of the task, logistic"),
    "task": Presentation(_KEPT, "Task accuracy, the paper’s MLP (a_y)", "share",
        "a small, untuned network", "accuracy of the task, the paper’s MLP"),
    "tpr_gap": Presentation(_FAIR, "TPR gap, root mean square", "", "0 treats all classes alike",
        term="TPR gap", meaning=
        "True positive rate of a task classifier, a logistic regression, for one class of the "
        "concept minus that for the others: 0 if both are treated alike."),
    "tpr_gap_correlation": Presentation(_FAIR, "Correlation of gap and share",
        explained_by="tpr_gap"),
    "demographic_parity": Presentation(_FAIR, "Demographic parity gap"),
    "equalised_odds": Presentation(_FAIR, "Equalised odds gap"),
}
# fmt: on
