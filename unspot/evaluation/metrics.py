"""The rows of an evaluation: each metric is a function of one problem, before and after erasure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.data.dataset import Dataset, Lexicon
from unspot.data.labels import encode, encode_as
from unspot.evaluation.group_fairness import Fairness
from unspot.evaluation.problem import (
    Finding,
    Metric,
    Problem,
    learned_nothing,
    mean_value,
    one_row,
)
from unspot.evaluation.results import Row, Value

__all__ = [
    "DEFAULT",
    "LESS_IS_BETTER",
    "METRICS",
    "PAPER",
    "TASK_METRICS",
    "task",
    "task_fairness",
    "task_linear",
]

#: Pairs of rows compared for A_k, and rows coded for the description length: more are sampled.
MAX_PAIRS = 400_000_000
MAX_CODED = 30_000
#: Row orders that the description length is averaged over, if there are as many seeds.
MAX_ORDERS = 3


# -- what is left of the concept -------------------------------------------------------------------


def chance(problem: Problem) -> Finding:
    share = float(encode(problem.test.z).counts.max() / len(problem.test))
    same = Value(share)
    note = "share of the largest class among the test rows: a guess without looking."
    return one_row("chance", "Chance", "share", same, same, "none", note)


def probe(problem: Problem) -> Finding:
    from unspot.evaluation.probes import probe_accuracy

    def accuracy(data: Dataset) -> Value:
        scores = probe_accuracy(
            data.train.X,
            problem.train.z,
            data.test.X,
            problem.test.z,
            seeds=problem.seeds,
            random_state=problem.random_state,
        )
        return Value(scores.mean, scores.spread)

    both = problem.on_both(accuracy)
    note = "the paper's MLP (a_z). A weak probe: see the strongest attacker."
    note += learned_nothing(both[0], problem.test.z)
    return one_row("probe", "Probe accuracy", "share", *both, "lower", note)


def linear(problem: Problem) -> Finding:
    def accuracy(data: Dataset) -> Value:
        return Value(_logistic_accuracy(data, problem.train.z, problem.test.z))

    both = problem.on_both(accuracy)
    return one_row("linear", "Linear probe accuracy", "share", *both, "lower")


def strongest_attack(problem: Problem) -> Finding:
    """The attacker that is strongest on the validation rows, as it does on the test rows."""
    from unspot.evaluation.attackers import AttackResult, attack
    from unspot.evaluation.inference import recalls

    choosing = len(problem.before.validation)
    labels = encode(problem.train.z)
    z = np.concatenate([problem.before.validation.z, problem.test.z])
    codes = encode_as(z, labels.classes)

    def results(data: Dataset) -> tuple[AttackResult, ...]:
        return attack(
            data.train.X,
            problem.train.z,
            np.concatenate([data.validation.X, data.test.X]) if choosing else data.test.X,
            z,
            budget=problem.budget,
            random_state=problem.random_state,
        )

    def shares(result: AttackResult, start: int, end: int | None) -> NDArray[Any]:
        return recalls(result.guesses[start:end], codes[start:end], len(labels.classes))

    def on_choosing_rows(result: AttackResult) -> float:
        # A rare class may have no validation rows: the others still tell which attacker is best.
        return float(np.nanmean(shares(result, 0, choosing or None)))

    both = problem.on_both(results)
    best = [max(side, key=on_choosing_rows) for side in both]
    before, after = (Value(float(shares(result, choosing, None).mean())) for result in best)
    where = "validation rows" if choosing else "test rows themselves, which errs against the eraser"
    note = (
        f"{best[0].name} before, {best[1].name} after: the best of {len(both[1])} on the {where}. "
        f"Every class counts alike, so that guessing gets {100 / len(labels.classes):.1f} %."
    )
    sides = zip(("before", "after"), both, strict=True)
    listed = {
        side: [_on_test(r, codes[choosing:], shares(r, choosing, None), len(found)) for r in found]
        for side, found in sides
    }
    row = Row("attack", "Strongest attacker", "share", before, after, "lower", note)
    return Finding((row,), {"attackers": listed})


def description_length(problem: Problem) -> Finding:
    from unspot.evaluation.description_length import MDL, mdl

    def lengths(data: Dataset) -> list[MDL]:
        return [
            mdl(
                data.test.X,
                problem.test.z,
                max_rows=MAX_CODED,
                control=order == 0,
                random_state=problem.random_state + order,
            )
            for order in range(min(problem.seeds, MAX_ORDERS))
        ]

    before, after = problem.on_both(lengths)
    values = [mean_value(found.kilobits for found in side) for side in (before, after)]
    prior = Value(after[0].prior_bits / 1000)
    note = (
        f"online code of {after[0].n_rows:,} test labels, over row orders; permuted labels cost "
        f"{after[0].control_bits / 1000:.2f} kbit after erasure."
    )
    nothing_left = (
        "what the labels cost if only the class shares are known; a code that has to learn those "
        "and finds nothing else costs a little more."
    )
    rows = (
        Row("mdl", "MDL", "kbit", values[0], values[1], "higher", note),
        Row("mdl_prior", "MDL, prior code", "kbit", prior, prior, "none", nothing_left),
    )
    return Finding(rows)


def papers_description_length(problem: Problem) -> Finding:
    from unspot.evaluation.description_length import mdl

    def length(data: Dataset) -> Value:
        found = mdl(
            data.train.X,
            problem.train.z,
            scheme="paper",
            control=False,
            random_state=problem.random_state,
        )
        return Value(found.kilobits)

    note = "not a code: training rows, each prefix scored whole; for the paper's tables only."
    both = problem.on_both(length)
    return one_row("mdl_paper", "MDL, paper's scheme", "kbit", *both, "higher", note)


def two_sample(problem: Problem) -> Finding:
    from unspot.evaluation.two_sample import two_sample_test

    def p_value(data: Dataset) -> Value:
        found = two_sample_test(data.test.X, problem.test.z, random_state=problem.random_state)
        return Value(found.p_value)

    note = "of the hypothesis that the classes have one law; a small one refutes it."
    return one_row("two_sample", "Two-sample p-value", "p", *problem.on_both(p_value), "none", note)


# -- what is left of the rest ----------------------------------------------------------------------


def neighbours(problem: Problem) -> Finding:
    from unspot.evaluation.geometry import neighbour_overlap

    n = len(problem.test)
    queries = max(1000, MAX_PAIRS // n)
    kept = neighbour_overlap(problem.test.X, problem.after.test.X, max_queries=queries)
    note = f"over {queries:,} test rows drawn at random." if queries < n else ""
    return one_row("neighbours", "A_50%", "", Value(1.0), Value(kept), "higher", note)


def papers_neighbours(problem: Problem) -> Finding:
    from unspot.evaluation.geometry import neighbour_overlap

    n = len(problem.train)
    queries = max(1000, MAX_PAIRS // n)
    kept = neighbour_overlap(
        problem.train.X, problem.after.train.X, convention="paper", max_queries=queries
    )
    note = "training rows, each its own neighbour."
    return one_row(
        "neighbours_paper", "A_50%, paper's", "", Value(1.0), Value(kept), "higher", note
    )


def variance(problem: Problem) -> Finding:
    from unspot.evaluation.geometry import variance_kept

    kept = Value(variance_kept(problem.test.X, problem.after.test.X))
    return one_row("variance", "Variance kept", "share", Value(1.0), kept, "higher")


def words(problem: Problem) -> Finding:
    from importlib.resources import as_file, files

    from unspot.evaluation.geometry import load_pairs, word_similarity

    bundled = files("unspot.datasets") / "data" / "wordsim353_similarity.tsv"
    with as_file(bundled) as path:
        pairs = load_pairs(path)

    def similarity(data: Dataset) -> Any:
        lexicon: Lexicon = data.lexicon  # type: ignore[assignment]
        return word_similarity(lexicon.words, lexicon.X, pairs)

    before, after = problem.on_both(similarity)
    note = (
        f"Spearman over {after.n_pairs} pairs of the similarity subset; {after.n_missing} have a "
        "word without a vector."
    )
    both = Value(before.correlation), Value(after.correlation)
    return one_row("words", "WS-353", "", *both, "higher", note)


def _logistic_accuracy(data: Dataset, z_train: Any, z_test: Any) -> float:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    from unspot.evaluation.description_length import standardisation

    X = data.train.X.astype(np.float64)
    mean, scale = standardisation(X)
    labels = encode(z_train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(max_iter=200).fit((X - mean) / scale, labels.codes)
    found = model.predict((data.test.X.astype(np.float64) - mean) / scale)
    return float(np.mean(found == encode_as(z_test, labels.classes)))


def _on_test(
    result: Any, codes: NDArray[np.int64], shares: NDArray[Any], n_attackers: int
) -> dict[str, Any]:
    """An attacker's scores on the test rows, which are the last that it judged."""
    from unspot.evaluation.attack_models import log_loss
    from unspot.evaluation.inference import balanced_interval

    probabilities = result.probabilities[-len(codes) :]
    return {
        "name": result.name,
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == codes)),
        "balanced_accuracy": float(shares.mean()),
        "interval": list(balanced_interval(shares, np.bincount(codes), 0.05 / n_attackers)),
        "advantage": float(shares.mean() - 1 / len(shares)),
        "log_loss_bits": float(log_loss(probabilities, codes)),
    }


# -- The rows of an evaluation about the downstream task: accuracy and fairness --------------------


def task_linear(problem: Problem) -> Finding:
    """The task by logistic regression that is fitted to the end: what a user would train.

    The paper's network stops after 20 passes, which few rows leave unfinished.
    """
    from unspot.evaluation.attackers import attack

    def accuracy(data: Dataset) -> Value:
        rows = (data.train.X, problem.train.y, data.test.X, problem.test.y)
        (found,) = attack(
            *rows, attackers=["logistic"], random_state=problem.random_state, every_class=False
        )
        return Value(found.accuracy)

    too_few = _too_few_to_learn(problem.train.y)
    before, after = (None, None) if too_few else problem.on_both(accuracy)
    note = "what erasure costs the task: a logistic regression, fitted to the end."
    note = f"undefined: {too_few}" if too_few else note
    label = "Task accuracy, logistic"
    return one_row("task_linear", label, "share", before, after, "higher", note)


def task(problem: Problem) -> Finding:
    before, after = (_accuracy(side) for side in problem.task_fairness)
    note = "a_y. The network stops after 20 passes: with few rows, see the logistic regression."
    note += learned_nothing(before, problem.test.y)
    label = "Task accuracy, paper's MLP"
    return one_row("task", label, "share", before, after, "higher", note)


def task_fairness(problem: Problem) -> Finding:
    sides = problem.task_fairness
    who = "The paper's MLP, whose predictions these are,"
    note = sides[1][0].note + learned_nothing(_accuracy(sides[0]), problem.test.y, who)
    note = note.strip()

    def row(key: str, label: str, of: Callable[[Fairness], float | None]) -> Row:
        before, after = (mean_value([of(f) for f in side]) for side in sides)
        missing = "undefined: too few labels, or no variation." if after is None else ""
        return Row(key, label, "", before, after, "lower", missing or note)

    rows = (
        row("tpr_gap", "TPR gap, RMS", lambda f: f.rms_gap),
        row("tpr_gap_correlation", "σ of TPR gap and share", lambda f: f.correlation),
        row("demographic_parity", "Demographic parity", lambda f: f.demographic_parity),
        row("equalised_odds", "Equalised odds gap", lambda f: f.equalised_odds),
    )
    return Finding(rows, {"gaps": _gaps(*sides)})


#: By their names in ``evaluate``: those that need labels of a task.
TASK_METRICS: dict[str, Metric] = {
    "task_linear": task_linear,
    "task": task,
    "fairness": task_fairness,
}


def _too_few_to_learn(y: Any) -> str:
    """Why nothing can be learned from these labels of the task; empty if it can."""
    from unspot.evaluation.attackers import MIN_OF_A_CLASS, rows_needed

    labels = encode(y, name="y")
    if labels.counts.min() < MIN_OF_A_CLASS:
        return "a label has too few rows to learn from. Merge it with another."
    needed = rows_needed(len(labels.classes))
    if len(labels) < needed:
        return f"{len(labels)} train rows, where {len(labels.classes)} labels need {needed}."
    return ""


def _accuracy(side: Sequence[Fairness]) -> Value | None:
    return mean_value(found.accuracy for found in side)


def _gaps(before: Sequence[Fairness], after: Sequence[Fairness]) -> list[dict[str, Any]]:
    """Mean gaps over seeds, a record for each class and label."""

    def gap(side: Sequence[Fairness], c: Any, y: Any) -> float | None:
        value = mean_value(f.gaps[c][y] for f in side)
        return None if value is None else value.mean

    return [
        {
            "class": str(c),
            "label": str(y),
            "share": share,
            "before": gap(before, c, y),
            "after": gap(after, c, y),
        }
        for c, shares in after[0].shares.items()
        for y, share in shares.items()
    ]


METRICS: dict[str, Metric] = {
    "chance": chance,
    "probe": probe,
    "linear": linear,
    "attack": strongest_attack,
    "mdl": description_length,
    "mdl_paper": papers_description_length,
    "two_sample": two_sample,
    "neighbours": neighbours,
    "neighbours_paper": papers_neighbours,
    "variance": variance,
    "words": words,
    **TASK_METRICS,
}

#: What the paper reports, by its own conventions.
PAPER = ("chance", "probe", "mdl_paper", "neighbours_paper", "words", "task", "fairness")
DEFAULT = tuple(name for name in METRICS if not name.endswith("_paper"))

#: Keys of the rows whose direction is "lower", for those who have values and no rows.
LESS_IS_BETTER = frozenset(
    {
        "probe",
        "linear",
        "attack",
        "tpr_gap",
        "tpr_gap_correlation",
        "demographic_parity",
        "equalised_odds",
    }
)
