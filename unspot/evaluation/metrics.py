"""The metrics of an evaluation.

A new metric is a function of a problem, which sees the same rows before and after erasure, and an
entry in ``REGISTRY``. ``unspot.report.wording`` says how a page presents it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unspot.data.dataset import Dataset, is_number
from unspot.data.labels import Labels
from unspot.evaluation.group_fairness import Fairness
from unspot.evaluation.problem import Coded, Finding, MetricFunction, Problem
from unspot.evaluation.results import Direction, Row, Value
from unspot.evaluation.wording import score_name

__all__ = [
    "DEFAULT",
    "METRICS",
    "OF_CONCEPT",
    "PAPER",
    "REGISTRY",
    "TASK_METRICS",
    "Metric",
    "lacking",
    "one_row",
]

#: Pairs of rows compared for A_k, and rows coded for the description length: more are sampled.
MAX_PAIRS = 400_000_000
MAX_CODED = 30_000
#: Row orders that the description length is averaged over, if there are as many seeds.
MAX_ORDERS = 3

#: What a metric may need besides rows and the concept.
_TASK, _LEXICON, _FIT_ROWS = "task labels", "lexicon of words", "rows of the fit"
_CLASSES = "classes of a concept, but numbers"


@dataclass(frozen=True)
class Metric:
    """One row of an evaluation.

    Attributes
    ----------
    key : str
        What the row is called in code and in files.
    label, unit, better : str
        The row itself: see ``Row``.
    measure : function of a Problem, or None
        May find several rows. None for a row that is measured elsewhere.
    name : str
        What ``evaluate`` calls the function, where that is not the key.
    needs : str
        What the data must have.
    of_numbers : bool
        Whether it is defined where the concept is a number, and so has no classes.
    of_concept : bool
        Whether it is about the concept, so that each of several concepts has it.
    """

    key: str
    label: str
    unit: str = ""
    better: Direction = "none"
    measure: MetricFunction | None = None
    name: str = ""
    needs: str = ""
    of_numbers: bool = True
    of_concept: bool = False


def lacking(data: Dataset) -> dict[str, str]:
    """Names of the metrics that the data do not allow, and what the data have not."""
    missing = set()
    if data.train.y is None or data.test.y is None:
        missing.add(_TASK)
    if data.lexicon is None:
        missing.add(_LEXICON)
    if data.train is data.validation:
        missing.add(_FIT_ROWS)
    without = {m.name or m.key: m.needs for m in REGISTRY if m.needs in missing}
    if data.concepts:  # what needs classes is measured for the concepts that have some
        numbers = all(not isinstance(data.train.z[name], Labels) for name in data.concepts)
        without |= {"task": "single concept, by whose classes its network is judged too"}
    else:
        numbers = is_number(data.train.z, data.train.kind)
    classless = {m.name or m.key: _CLASSES for m in REGISTRY if not m.of_numbers and numbers}
    lacks = {**classless, **without}
    if "fairness" in lacks:
        lacks["fairness_paper"] = lacks["fairness"]
    return lacks


def one_row(key: str, before: Value | None, after: Value | None, note: str = "") -> Finding:
    """The finding of a metric that has one row."""
    return Finding((_row(key, before, after, note),))


def _row(
    key: str, before: Value | None, after: Value | None, note: str = "", label: str = ""
) -> Row:
    metric = _BY_KEY[key]
    return Row(key, label or metric.label, metric.unit, before, after, metric.better, note)


def mean_value(values: Iterable[float | None]) -> Value | None:
    """Mean and spread of the defined values, or None if none is."""
    defined = [value for value in values if value is not None]
    return Value(float(np.mean(defined)), float(np.std(defined))) if defined else None


def learned_nothing(before: Value | None, labels: Coded, who: str = "It") -> str:
    """A caveat for a classifier that is no better than a guess before erasure, else nothing."""
    guess = labels.test_share
    if before is None or before.mean > guess:
        return ""
    return (
        f" {who} learned nothing: before erasure it is no better than a guess, {100 * guess:.1f} %."
    )


# -- what is left of the concept -------------------------------------------------------------------


def chance(problem: Problem) -> Finding:
    share = Value(problem.concept.test_share)
    note = "share of the largest class among the test rows: a guess without looking."
    return one_row("chance", share, share, note)


def probe(problem: Problem) -> Finding:
    from unspot.evaluation.probes import ProbeScores, predict_codes

    def accuracy(data: Dataset) -> Value:
        predicted = predict_codes(
            data.train.X,
            problem.concept.train,
            data.test.X,
            seeds=problem.seeds,
            random_state=problem.random_state,
        )
        scores = ProbeScores.of(predicted, problem.concept.test)
        return Value(scores.mean, scores.spread)

    both = problem.on_both(accuracy)
    note = "the paper's MLP (a_z). A weak probe: see the strongest attacker."
    note += learned_nothing(both[0], problem.concept)
    return one_row("probe", *both, note)


def linear(problem: Problem) -> Finding:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    from unspot.evaluation.description_length import standardisation

    if problem.of_number:
        return _ridge(problem)

    def accuracy(data: Dataset) -> Value:
        X, X_test = (split.X.astype(np.float64) for split in (data.train, data.test))
        mean, scale = standardisation(X)
        model = LogisticRegression(max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit((X - mean) / scale, problem.concept.train.codes)
        guesses = model.predict((X_test - mean) / scale)
        return Value(float(np.mean(guesses == problem.concept.test)))

    note = "a logistic regression that learned from the train rows, as the paper's probe does."
    return one_row("linear", *problem.on_both(accuracy), note)


def _ridge(problem: Problem) -> Finding:
    """The linear probe of a number."""
    from unspot.evaluation.regression import regress_values

    learned, sought = problem.train.target, problem.test.target

    def share(data: Dataset) -> Value:
        rows: Any = data.train.X, learned, data.test.X, sought
        (result,) = regress_values(
            *rows, attackers=["ridge"], budget=problem.budget, random_state=problem.random_state
        )
        return Value(result.r2)

    note = "a ridge regression that learned from the train rows: the share of the variance."
    return Finding((_row("linear", *problem.on_both(share), note, "Linear probe R²"),))


def strongest_attack(problem: Problem) -> Finding:
    """The strongest attacker of those that learned from rows which the eraser has not seen."""
    from unspot.evaluation.unseen import can_cross_fit, checked_labels

    try:
        labels = checked_labels(problem.eraser, problem.before, "unseen")
    except ValueError as error:
        if can_cross_fit(problem.eraser, problem.before):
            return _strongest("attack", problem, "cross-fit")
        return one_row("attack", None, None, f"undefined: {str(error)[:1].lower()}{str(error)[1:]}")
    return _strongest("attack", problem, "unseen", labels)


def strongest_attack_seen(problem: Problem) -> Finding:
    """The same of attackers that learned from the rows of the fit, as in the papers."""
    from unspot.evaluation.unseen import checked_labels

    labels = checked_labels(None, problem.before, "seen")  # any eraser may have seen them
    return _strongest("attack_seen", problem, "seen", labels)


#: Where the attackers learned, for the notes.
_LEARNED = {
    "unseen": "from {n:,} rows that the eraser has not seen",
    "seen": "from {n:,} rows of the fit, which look cleaner than new ones",
    "cross-fit": "fold by fold from {n:,} rows that the eraser of the fold has not seen",
}


def _strongest(key: str, problem: Problem, attack_rows: Any, labels: Any = None) -> Finding:
    from sklearn.preprocessing import FunctionTransformer

    from unspot.evaluation.attacked import Attacked
    from unspot.evaluation.unseen import attack_eraser

    if not problem.of_number:
        problem.concept.refuse_missing_class()

    def attacked(data: Dataset) -> Attacked:
        eraser: Any = data  # the rows are erased already, but for those of other fits
        if attack_rows == "cross-fit":
            eraser = FunctionTransformer() if data is problem.before else problem.eraser
        return attack_eraser(
            eraser,
            problem.before,
            attack_rows=attack_rows,
            budget=problem.budget,
            random_state=problem.random_state,
            labels=labels,
        )

    both = problem.on_both(attacked)
    before, after = (side.strongest for side in both)
    low, high = both[1].interval(after)
    learned = _LEARNED[attack_rows].format(n=after.n_rows)
    guessing = "R², the share of the variance of the number: zero or less is nothing."
    if not problem.of_number:
        share = 100 / len(problem.concept.train.classes)
        guessing = f"Every class counts alike, so that guessing gets {share:.1f} %."
    note = (
        f"{before.name} before, {after.name} after: the strongest of {len(both[1].results)} on the "
        f"test rows; {100 * low:.1f} to {100 * high:.1f} % after, with 95 % confidence for all of "
        f"them at once. They learned {learned}. {guessing}"
    )
    problem.attacked[attack_rows] = both[1]
    if attack_rows == "seen" and "unseen" in problem.attacked:
        note += _seen_against_unseen(both[1], problem.attacked["unseen"])
    attackers: dict[str, Any] = {
        side: [_facts_of(result, one) for result in one.results]
        for side, one in zip(("before", "after"), both, strict=True)
    }
    attackers |= {"chance": both[1].chance, "score": score_name(problem.of_number)}
    details = {"attackers" if key == "attack" else key: attackers}
    values = Value(before.score), Value(after.score)
    label = f"{_BY_KEY[key].label}, R²" if problem.of_number else ""
    return Finding((_row(key, *values, note, label),), details)


def _seen_against_unseen(seen: Any, unseen: Any) -> str:
    """Why the two differ, if they do by more than luck with the test rows explains."""
    from unspot.evaluation.inference import paired_covariance

    first, second = unseen.strongest, seen.strongest
    guesses, codes = [first.guesses, second.guesses], seen.labels.codes
    joint = paired_covariance(guesses, codes, seen.groups, len(seen.labels.classes))
    error = float(joint[0, 0] + joint[1, 1] - 2 * joint[0, 1]) ** 0.5
    gap = first.balanced_accuracy - second.balanced_accuracy
    if abs(gap) <= 1.96 * error:
        return ""
    if gap > 0:
        return (
            f" Seen rows show {100 * gap:.1f} points less than unseen ones: the eraser has adapted "
            "to its rows; more rows of the fit would help."
        )
    return (
        f" Seen rows show {-100 * gap:.1f} points more than unseen ones: attackers learned from "
        f"{second.n_rows:,} of them, and from {first.n_rows:,} unseen ones."
    )


def _facts_of(result: Any, attacked: Any) -> dict[str, Any]:
    """An attacker as the details of an evaluation have it."""
    facts: dict[str, Any] = result.to_dict()
    del facts["seconds"]  # the same numbers in every run
    return {**facts, "score": result.score, "interval": list(attacked.interval(result))}


def description_length(problem: Problem) -> Finding:
    from unspot.evaluation.description_length import MDL, code_labels

    def codes(data: Dataset) -> list[MDL]:
        return [
            code_labels(
                data.test.X,
                problem.concept.test_labels,
                max_rows=MAX_CODED,
                control=order == 0,
                random_state=problem.random_state + order,
                groups=data.test.group_codes,
            )
            for order in range(min(problem.seeds, MAX_ORDERS))
        ]

    before, after = problem.on_both(codes)
    lengths_before, lengths_after = (
        mean_value(code.kilobits for code in side) for side in (before, after)
    )
    prior = Value(after[0].prior_bits / 1000)
    note = (
        f"online code of {after[0].n_rows:,} test labels, over row orders; permuted labels cost "
        f"{after[0].control_bits / 1000:.2f} kbit after erasure."
    )
    nothing_left = (
        "what the labels cost if only the class shares are known; a code that has to learn those "
        "and finds nothing else costs a little more."
    )
    mdl = _row("mdl", lengths_before, lengths_after, note)
    return Finding((mdl, _row("mdl_prior", prior, prior, nothing_left)))


def papers_description_length(problem: Problem) -> Finding:
    from unspot.evaluation.description_length import code_labels

    def length(data: Dataset) -> Value:
        code = code_labels(
            data.train.X,
            problem.concept.train,
            scheme="paper",
            control=False,
            random_state=problem.random_state,
        )
        return Value(code.kilobits)

    note = "not a code: training rows, each prefix scored whole; for the paper's tables only."
    return one_row("mdl_paper", *problem.on_both(length), note)


def two_sample(problem: Problem) -> Finding:
    from unspot.evaluation.two_sample import compare_laws, compare_with_number

    if problem.of_number:
        compare: Any = compare_with_number
        concept: Any = problem.test.target
    else:
        compare, concept = compare_laws, problem.concept.test_labels

    def p_value(data: Dataset) -> Value:
        seed, groups = problem.random_state, data.test.group_codes
        return Value(compare(data.test.X, concept, random_state=seed, groups=groups).p_value)

    if problem.of_number:
        note = "of the hypothesis that rows and number are independent; a small one refutes it."
        both = problem.on_both(p_value)
        return Finding((_row("two_sample", *both, note, "Independence p-value"),))
    note = "of the hypothesis that the classes have one distribution; a small value refutes it."
    return one_row("two_sample", *problem.on_both(p_value), note)


# -- what is left of the rest ----------------------------------------------------------------------


def neighbours(problem: Problem) -> Finding:
    queries = max(1000, MAX_PAIRS // len(problem.test))
    note = f"over {queries:,} test rows drawn at random." if queries < len(problem.test) else ""
    return _overlap("neighbours", problem, "test", "held-out", note)


def papers_neighbours(problem: Problem) -> Finding:
    note = "training rows, each its own neighbour."
    return _overlap("neighbours_paper", problem, "train", "paper", note)


def _overlap(key: str, problem: Problem, which: str, convention: Any, note: str) -> Finding:
    from unspot.evaluation.geometry import neighbour_overlap

    before, after = (getattr(data, which).X for data in (problem.before, problem.after))
    overlap = neighbour_overlap(
        before, after, convention=convention, max_queries=max(1000, MAX_PAIRS // len(before))
    )
    return one_row(key, Value(1.0), Value(overlap), note)


def variance(problem: Problem) -> Finding:
    from unspot.evaluation.geometry import variance_kept

    share = variance_kept(problem.test.X, problem.after.test.X)
    return one_row("variance", Value(1.0), Value(share), _lost_norm(problem))


def _lost_norm(problem: Problem) -> str:
    """A note if rows had unit norm before erasure and have it no longer."""
    norms = [np.linalg.norm(data.test.X, axis=1) for data in (problem.before, problem.after)]
    had, has = (bool(np.abs(of_rows - 1).max() < 1e-2) for of_rows in norms)
    if not had or has or not norms[1].any():
        return ""
    low, high = np.quantile(norms[1], [0.05, 0.95])
    return (
        f"the rows had unit norm, and most now have norms from {low:.2g} to {high:.2g}. If you "
        "store unit vectors, fit with normalise=True: to scale the rows later changes what was "
        "judged here."
    )


def words(problem: Problem) -> Finding:
    from unspot.datasets.glove import load_wordsim353
    from unspot.evaluation.geometry import word_similarity

    pairs = load_wordsim353()

    def similarity(data: Dataset) -> Any:
        assert data.lexicon is not None  # ``needs`` of the entry says so
        return word_similarity(data.lexicon.words, data.lexicon.X, pairs)

    before, after = problem.on_both(similarity)
    note = (
        f"Spearman over {after.n_pairs} pairs of the similarity subset; {after.n_missing} have a "
        "word without a vector."
    )
    return one_row("words", Value(before.correlation), Value(after.correlation), note)


# -- the task, and its fairness --------------------------------------------------------------------


def task_linear(problem: Problem) -> Finding:
    """The task by logistic regression that is fitted to the end: what a user would train.

    The paper's network stops after 20 passes, which few rows leave unfinished.
    """
    if lack := _too_few_to_learn(problem):
        return one_row("task_linear", None, None, lack)
    before, after = (Value(float(np.mean(p == problem.task.test))) for p in problem.linear_task)
    note = "what erasure costs the task: a logistic regression, fitted to the end."
    return one_row("task_linear", before, after, note)


def _too_few_to_learn(problem: Problem) -> str:
    """Why a logistic regression cannot learn the task; empty if it can."""
    from unspot.evaluation.attackers import MIN_OF_A_CLASS, rows_needed

    labels = problem.task.train
    needed = rows_needed(len(labels.classes))
    if labels.counts.min() < MIN_OF_A_CLASS:
        return "undefined: a label has too few rows to learn from. Merge it with another."
    if len(labels) < needed:
        n_labels = len(labels.classes)
        return f"undefined: {len(labels)} train rows, where {n_labels} labels need {needed}."
    return ""


def task(problem: Problem) -> Finding:
    before, after = (_accuracy(side) for side in problem.task_fairness)
    note = "a_y. The network stops after 20 passes: with few rows, see the logistic regression."
    note += learned_nothing(before, problem.task)
    return one_row("task", before, after, note)


def fairness(problem: Problem) -> Finding:
    """Gaps of the predictions that were given, or of a logistic regression for the task."""
    if problem.test.predictions is not None:
        return _fairness(problem, problem.given_fairness, problem.predictions)
    if lack := _too_few_to_learn(problem):
        return Finding(tuple(_row(key, None, None, lack) for key in _GAPS))
    return _fairness(problem, problem.linear_fairness, "the logistic regression")


def fairness_paper(problem: Problem) -> Finding:
    """Gaps of the paper's network for the task."""
    return _fairness(problem, problem.task_fairness, "the paper's MLP")


_GAPS: dict[str, Callable[[Fairness], float | None]] = {
    "tpr_gap": lambda f: f.rms_gap,
    "tpr_gap_correlation": lambda f: f.correlation,
    "demographic_parity": lambda f: f.demographic_parity,
    "equalised_odds": lambda f: f.equalised_odds,
}


def _fairness(problem: Problem, sides: tuple[list[Any], list[Any]], who: str) -> Finding:
    right = _accuracy(sides[1])
    whose = f"of {who}" + ("" if right is None else f", right on {100 * right.mean:.1f} % after")
    caveat = learned_nothing(_accuracy(sides[0]), problem.task, who[:1].upper() + who[1:])
    note = f"{whose}. {sides[1][0].note}{caveat}".strip()

    def row(key: str, of: Callable[[Fairness], float | None]) -> Row:
        before, after = (mean_value([of(f) for f in side]) for side in sides)
        missing = "undefined: too few labels, or no variation." if after is None else ""
        return _row(key, before, after, missing or note)

    rows = tuple(row(key, of) for key, of in _GAPS.items())
    return Finding(rows, {"gaps": _gaps(*sides), "gaps_of": who})


def _accuracy(side: Sequence[Fairness]) -> Value | None:
    return mean_value(of_seed.accuracy for of_seed in side)


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


# -- the entries -----------------------------------------------------------------------------------

#: In the order of an evaluation's rows. The benchmark measures the two entries without a function.
# fmt: off
REGISTRY = (
    Metric("chance", "Chance", "share", "none", chance, of_numbers=False, of_concept=True),
    Metric("probe", "Probe of the paper", "share", "lower", probe, of_numbers=False,
           of_concept=True),
    Metric("probe_reference", "Probe of the paper's tables", "share", "lower", of_concept=True),
    Metric("probe_binary", "Probe, binary", "share", "lower", of_concept=True),
    Metric("linear", "Linear probe accuracy", "share", "lower", linear, of_concept=True),
    Metric("attack", "Strongest attacker", "share", "lower", strongest_attack, of_concept=True),
    Metric("attack_seen", "Strongest attacker, rows of the fit", "share", "lower",
           strongest_attack_seen, needs=_FIT_ROWS, of_concept=True),
    Metric("mdl", "MDL", "kbit", "higher", description_length, of_numbers=False, of_concept=True),
    Metric("mdl_prior", "MDL, prior code", "kbit", "none", description_length, name="mdl",
           of_concept=True),
    Metric("mdl_paper", "MDL, paper's scheme", "kbit", "higher", papers_description_length,
           of_numbers=False, of_concept=True),
    Metric("two_sample", "Two-sample p-value", "p", "none", two_sample, of_concept=True),
    Metric("neighbours", "A_50%", "", "higher", neighbours),
    Metric("neighbours_paper", "A_50%, paper's", "", "higher", papers_neighbours),
    Metric("variance", "Variance kept", "share", "higher", variance),
    Metric("words", "WS-353", "", "higher", words, needs=_LEXICON),
    Metric("task_linear", "Task accuracy, logistic", "share", "higher", task_linear, needs=_TASK),
    Metric("task", "Task accuracy, paper's MLP", "share", "higher", task, needs=_TASK,
           of_numbers=False),
    Metric("tpr_gap", "TPR gap, RMS", "", "lower", fairness, name="fairness", needs=_TASK,
           of_numbers=False, of_concept=True),
    Metric("tpr_gap_correlation", "σ of TPR gap and share", "", "lower", fairness, name="fairness",
           needs=_TASK, of_concept=True),
    Metric("demographic_parity", "Demographic parity", "", "lower", fairness, name="fairness",
           needs=_TASK, of_concept=True),
    Metric("equalised_odds", "Equalised odds gap", "", "lower", fairness, name="fairness",
           needs=_TASK, of_concept=True),
)
# fmt: on
_BY_KEY = {metric.key: metric for metric in REGISTRY}

#: The functions, by the names that ``evaluate`` takes.
METRICS: dict[str, MetricFunction] = {
    metric.name or metric.key: metric.measure for metric in REGISTRY if metric.measure is not None
}

#: The same rows as those of "fairness", of another classifier: not of both at once.
METRICS["fairness_paper"] = fairness_paper
#: Names of those that need labels of a task.
TASK_METRICS = (
    *dict.fromkeys(m.name or m.key for m in REGISTRY if m.needs == _TASK),
    "fairness_paper",
)

#: What the paper reports, by its own conventions.
PAPER = ("chance", "probe", "mdl_paper", "neighbours_paper", "words", "task", "fairness_paper")
DEFAULT = tuple(name for name in METRICS if not name.endswith("_paper"))

#: Names of those about the concept: of several concepts, each has them.
OF_CONCEPT = frozenset(["fairness_paper", *(m.name or m.key for m in REGISTRY if m.of_concept)])
