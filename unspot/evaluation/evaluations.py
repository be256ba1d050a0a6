"""Measure an erasure: ``evaluate`` before and after, ``score`` only after.

``evaluate`` is a report about one eraser, or compares several. Paths and sweeps ask about many
erasers of the same data, where the values before erasure are known already: they call ``score``.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_count, did_you_mean, require
from unspot.data.concept import read
from unspot.data.dataset import (
    Dataset,
    Split,
    knows_its_rows,
    naming_concept,
    parts_of,
    refuse_shared_groups,
    warn_if_grouped,
)
from unspot.data.rows import as_matrix, as_seed, refuse_nonfinite
from unspot.evaluation import certificate
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import UtilityKept, rows_in_words, statement
from unspot.evaluation.inference import scores_of
from unspot.evaluation.measure import (
    Attacked,
    check_dataset,
    erased,
    eraser_name,
    facts_of,
    refuse_other_columns,
    unseen,
)
from unspot.evaluation.metrics import (
    METRICS,
    ON_REQUEST,
    TASK,
    Finding,
    Metric,
    Row,
    Side,
    Value,
    lacking,
)
from unspot.io.files import as_type
from unspot.io.progress import steps
from unspot.machine import pieces_in_threads
from unspot.tables import Number, markdown, number_text

_ARROWS = {"lower": "↓", "higher": "↑", "none": ""}
#: The rows of a summary.
_HEADLINES = ("attack", "task_linear", "neighbours")


@dataclass(frozen=True)
class Evaluation:
    """Metrics of an erasure, before and after, with what they were measured on.

    Attributes
    ----------
    name : str
        The eraser and the data.
    rows : tuple of Row
        One for each metric; ``evaluation["mdl"]`` finds one by its key.
    metadata : mapping
        JSON-able: the eraser's own metadata, numbers of rows, seeds, versions, seconds.
    details : mapping
        JSON-able: what lies behind the rows. ``attackers``: every attacker before and after;
        ``gaps``: TPR gaps by class and label before and after, with the class's share.

    Examples
    --------
    >>> from unspot.evaluation.metrics import Row, Value
    >>> row = Row("probe", "Probe", "share", Value(0.99, 0.001), Value(0.34, 0.01), "lower")
    >>> print(Evaluation("LEOPARD on words", (row,)).to_markdown())
    | Metric | Before | After |
    |:--|--:|--:|
    | Probe ↓ | 99.0 ± 0.1 % | 34.0 ± 1.0 % |
    >>> Evaluation("LEOPARD on words", (row,))["probe"].after.mean
    0.34
    """

    name: str
    rows: tuple[Row, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: object) -> bool:
        return any(row.key == key for row in self.rows)

    def __getitem__(self, key: str) -> Row:
        for row in self.rows:
            if row.key == key:
                return row
        known = ", ".join(row.key for row in self.rows)
        raise KeyError(f"Got metric {key!r}, but this evaluation has: {known}.")

    @property
    def statement(self) -> str:
        """The result in three sentences, as a certificate states it; empty without attackers."""
        return str(self.metadata.get("statement", ""))

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (self.name, self.statement, self.to_markdown())))

    def __repr__(self) -> str:
        first = [row for row in self.rows if row.key in _HEADLINES] or list(self.rows[:3])
        headlines = [
            f"{row.label} {format_value(row.before, row.unit)} → "
            f"{format_value(row.after, row.unit)}"
            for row in first
        ]
        return f"<Evaluation of {self.name}, {len(self)} rows: {'; '.join(headlines)}>"

    @property
    def after(self) -> dict[str, float | None]:
        """Values after erasure by the keys of the rows, None where undefined."""
        return {row.key: None if row.after is None else row.after.mean for row in self.rows}

    def _repr_markdown_(self) -> str:
        """Return the table, where a notebook shows it."""
        return str(self)

    # -- plain data ------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return nested dictionaries and lists, as in the JSON."""
        return {
            "name": self.name,
            "rows": [asdict(row) for row in self.rows],
            "metadata": dict(self.metadata),
            "details": dict(self.details),
        }

    def to_json(self) -> str:
        """Return JSON text, without NaN; ``from_json`` reads it back."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Read what ``to_json`` wrote."""
        try:
            return cls.from_dict(json.loads(text))
        except ValueError as error:
            raise ValueError(
                f"Got text that is no evaluation ({error}), but expected what Evaluation.to_json "
                "or `unspot evaluate --json` wrote."
            ) from None

    @classmethod
    def from_dict(cls, content: Any) -> Evaluation:
        """Read what ``to_dict`` gave; the error names the first wrong field."""
        return as_type(cls, content)

    # -- tables ----------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """Return a pandas data frame with a line for each metric; undefined numbers are NaN."""
        require("to_frame", "report", "pandas")
        import pandas as pd

        frame = pd.DataFrame({"metric": row.key, **asdict(row)} for row in self.rows)
        for side in ("before", "after"):
            values = [getattr(row, side) or Value(np.nan) for row in self.rows]
            frame[side] = [value.mean for value in values]
            frame[f"{side}_spread"] = pd.Series([v.spread for v in values], dtype=float)
        return frame.drop(columns="key").set_index("metric")

    def to_markdown(self) -> str:
        """Return a Markdown table with notes under it."""
        notes = [f"- {row.label}: {row.note}" for row in self.rows if row.note]
        return "\n".join([markdown(self._cells()), *([""] if notes else []), *notes])

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write one self-contained HTML page; options are those of ``unspot.report.to_html``."""
        from unspot.report import to_html

        return to_html(self, path, **options)

    def _cells(self) -> list[list[str]]:
        return Evaluations({"After": self}).cells()


@dataclass(frozen=True)
class Difference:
    """A score after one eraser minus that after another, on the same rows.

    Attributes
    ----------
    metric, label : str
        "attack", the strongest attacker, or "task_linear"; and its name in sentences.
    name, other : str
        The erasers.
    value : float
    interval : tuple of float
        For all differences of the metric at once, and for the choice of the strongest attackers.
    """

    metric: str
    label: str
    name: str
    other: str
    value: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        low, high = self.interval
        decided = "" if low > 0 or high < 0 else ": these rows cannot tell them apart"
        return (
            f"{self.label}: {100 * self.value:+.1f} points after {self.name} "
            f"compared with {self.other}, between {100 * low:+.1f} and {100 * high:+.1f} with 95 % "
            f"confidence{decided}."
        )


@dataclass(frozen=True)
class Evaluations(Mapping[str, Evaluation]):
    """Evaluations of several erasers on the same rows, by name, and paired differences.

    Each eraser is compared with the first one.
    """

    evaluations: Mapping[str, Evaluation]
    differences: tuple[Difference, ...] = ()

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    def __str__(self) -> str:
        return self.to_markdown()

    def to_json(self) -> str:
        """Return JSON text with the evaluations and the differences."""
        content = {
            "evaluations": {name: one.to_dict() for name, one in self.items()},
            "differences": [asdict(difference) for difference in self.differences],
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)

    def cells(self) -> list[list[str]]:
        """Return the cells of one table: a line for each metric, a column for each eraser."""
        first = next(iter(self.values()))
        lines = [["Metric", "Before", *self]]
        for row in first:
            after = [one[row.key].after if row.key in one else None for one in self.values()]
            texts = (format_value(value, row.unit) for value in (row.before, *after))
            lines.append([f"{row.label} {_ARROWS[row.direction]}".strip(), *texts])
        return lines

    def to_markdown(self) -> str:
        """Return one Markdown table, with the differences under it."""
        said = [f"- {difference}" for difference in self.differences]
        return "\n".join([markdown(self.cells()), *([""] if said else []), *said])


def format_value(value: Value | None, unit: str) -> str:
    """Format a number as tables show it, with its spread.

    Examples
    --------
    >>> format_value(Value(0.3448, 0.0052), "share"), format_value(Value(10.8), "kbit")
    ('34.5 ± 0.5 %', '10.8 kbit')
    >>> format_value(None, "share")
    '–'
    """
    return number_text(None if value is None else Number(value.mean, value.spread), unit)


# -- Measuring -------------------------------------------------------------------------------------


@pieces_in_threads()
def evaluate(
    eraser: Any,
    data: Any,
    z: Any = None,
    *,
    task: Any = None,
    groups: Any = None,
    pairs: Any = None,
    utility: Callable[[NDArray[Any], NDArray[np.int64]], float] | None = None,
    metrics: str | Sequence[Any] | None = None,
    seeds: int = 5,
    budget: str = "quick",
    random_state: Any = 0,
    verbose: bool = False,
) -> Any:
    """Measure an erasure, before and after.

    Attackers learn from one half of the validation and test rows, which the eraser has not seen,
    and are judged on the other, both ways, as in ``certify``: for the same rows, budget and seed
    the numbers are the same. Where these rows are too few, an estimator is cross-fitted. Linear
    probes and the task classifier learn from the train rows. All see embeddings in the original
    d-dimensional space, before and after.

    Under two minutes on two cores for 22,000 rows of 100 features.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows, None, or a mapping of names to these
        Anything with ``transform``, a frozen ``Eraser``, a function of rows. None leaves the rows
        as they are. Several erasers are compared on the same rows: intervals of the differences are
        normal approximations from the rows (or groups) on which two attackers differ.
    data : Dataset, or array-like of shape (n, d)
        The original rows, with the concept's labels ``z``, and ``y`` if there is a task. An array
        is of rows that no fit has seen.
    z, task, groups : array-like of shape (n,), optional
        Concept, task and groups of an array.
    pairs : array-like of shape (n,), optional
        Ids, of which several rows have the same: one thing from several sources. Adds how well a
        search among all rows finds them. For a ``Dataset``, its splits have them.
    utility : callable, optional
        A number of your own, larger if better, as in ``erase``: a function of erased rows and
        their numbers, in the array or among the test rows of a ``Dataset``.
    metrics : sequence of str or Metric, optional
        Some of: chance, linear, attack, mdl, two_sample, neighbours, variance,
        task_linear, fairness (of a logistic regression), search, mixing
        (iLISI, and the robustness index for a task), utility. By default all that the data allow,
        but mixing.
    seeds : int
        Over how many row orders the description length is averaged, three at most.
    budget : {"quick", "standard", "thorough"}
        How hard the attackers try. "quick" is for looking around, since rows are attacked before
        and after; ``certify``, which makes the claim, has "standard".
    random_state : int, Generator or None
        Decides every number.
    verbose : bool
        Whether to show progress on stderr.

    Returns
    -------
    Evaluation or Evaluations
        Plain frozen data, with ``to_frame``, ``to_json`` and ``to_markdown``; for a
        mapping, all of them by name, and paired differences.

    Examples
    --------
    >>> import numpy as np
    >>> from unspot import Dataset, Eraser
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(600) % 2
    >>> X = rng.normal(size=(600, 3)) + 4 * z[:, None] * [1, 0, 0]
    >>> data = Dataset.from_arrays(X, z, random_state=0)
    >>> eraser = Eraser.projection(np.eye(3)[:, 1:])
    >>> evaluation = evaluate(eraser, data, metrics=["linear", "variance"])
    >>> evaluation["linear"].before.mean > 0.9, evaluation["linear"].after.mean < 0.65
    (True, True)
    """
    seed = as_seed(random_state)
    several = isinstance(eraser, Mapping)
    erasers = dict(eraser) if several else {"": eraser}
    if not erasers:
        raise ValueError("Got no eraser, but expected one, or a mapping of names to several.")
    inside = {"z": z, "task": task, "groups": groups, "pairs": pairs}
    extra = [name for name, values in inside.items() if values is not None]
    if isinstance(data, Dataset) and extra:
        raise ValueError(
            f"Got a Dataset and {', '.join(extra)}, but it has its own: leave them out."
        )
    for one in erasers.values():
        refuse_other_columns(one, data)
    in_order = data.test.X if isinstance(data, Dataset) else None
    if z is not None:
        in_order = as_matrix(data)
        n = len(in_order)
        task = None if task is None else read(task, n_rows=n, name="task")
        whole = Split(in_order, read(z, n_rows=n), task, groups=groups, pairs=pairs)
        data = Dataset(None, *whole.halves(seed))
    _check_data(data)
    check_count("seeds", seeds)
    check_choice("budget", budget, tuple(BUDGETS))
    custom = utility is not None
    names = [n for n in METRICS if n not in (*lacking(data, utility=custom), *ON_REQUEST)]
    chosen = check_metrics(names if metrics is None else metrics, data, utility=custom)
    settings: dict[str, Any] = {"seeds": seeds, "budget": budget, "random_state": seed}
    settings |= {"utility": None if utility is None else (utility, in_order)}
    _warn_about_rows(data, chosen)
    memory: dict[Any, Any] = {}
    runs = {
        name: _measured(one, data, chosen, settings, memory, verbose=verbose)
        for name, one in steps(erasers.items(), "Eraser", name=itemgetter(0), verbose=verbose)
    }
    evaluations = {name: evaluation for name, (evaluation, _) in runs.items()}
    if not several:
        return evaluations[""]
    return Evaluations(evaluations, tuple(_differences(runs)))


#: An evaluation, and the sides it was measured on, by the name of the concept.
_Run = tuple[Evaluation, dict[str, Side]]


def _measured(
    eraser: Any,
    data: Dataset,
    metrics: Sequence[Metric],
    settings: dict[str, Any],
    memory: dict[Any, Any] | None = None,
    *,
    verbose: bool = False,
) -> _Run:
    """Measure one eraser; ``memory`` holds what was measured before erasure, None nothing."""
    after = _sides(erased(eraser, data), data, eraser, settings)
    before = _sides(data, data, eraser, settings | {"is_original": True})
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    attacks: dict[str, tuple[Attacked, Attacked]] = {}  # before and after, by concept
    for metric in steps(metrics, "Measuring", name=attrgetter("name"), verbose=verbose):
        started = time.perf_counter()
        for concept, side in _sides_of(metric, after).items():
            with naming_concept(concept):
                was = None
                if memory is not None:
                    was = _remembered(metric, concept, before[concept], memory)
                now = metric.measure(side)
                findings.append(_named(metric.describe(was, now, side), concept))
                if isinstance(was, Attacked) and isinstance(now, Attacked):
                    attacks[concept] = was, now
        seconds[metric.name] = round(time.perf_counter() - started, 3)
    rows = tuple(row for finding in findings for row in finding.rows)
    facts = _facts(after[""])
    is_new = bool(attacks) and knows_its_rows(eraser, unseen(data))
    said = _statement(attacks, rows, facts, is_new)
    evaluation = Evaluation(
        name=f"{eraser_name(eraser)} on {data.name}",
        rows=rows,
        metadata={**facts, "statement": said, "seconds": seconds},
        details={key: value for finding in findings for key, value in finding.details.items()},
    )
    return evaluation, after


def _statement(
    attacks: Mapping[str, tuple[Attacked, Attacked]],
    rows: Sequence[Row],
    facts: dict[str, Any],
    is_new: bool,
) -> str:
    """Write the statement of a certificate about the worst concept; empty without attackers."""
    if not attacks:
        return ""
    level = 0.05 / len(attacks)
    worst = max(attacks, key=lambda name: attacks[name][1].bounds(level)[1])
    before, after = attacks[worst]
    kept = [
        UtilityKept(_KEPT[row.key], row.before.mean, row.after.mean, unit)
        for key in _KEPT
        for row in rows
        for unit in ["R²" if "R²" in row.label else row.unit]
        if row.key == key and row.before is not None and row.after is not None
    ]
    groups = after.scores.groups
    n_groups = None if groups is None else len(np.unique(groups))
    return statement(
        concept=worst or facts["concept"],
        kind=after.scores.concept.kind,
        chance=after.chance,
        before=before.strongest.score - before.chance,
        after=after.strongest.score - after.chance,
        upper_bound=after.bounds(level)[1],
        alpha=level,
        rows=rows_in_words(len(after.scores.concept), n_groups, is_new),
        kept=kept,
    )


#: Names of the utilities in a statement.
_KEPT = {
    "task_linear": certificate.TASK,
    "neighbours": "neighbours",
    "recall_at_1": "R@1 among all sources",
    "utility": "utility",
}


def _remembered(metric: Metric, concept: str, side: Side, memory: dict[Any, Any]) -> Any:
    # The rows that attackers learn from depend on the eraser; all else before erasure does not.
    key = metric.name, concept, side.attack_rows if metric.name == "attack" else ""
    if key not in memory:
        memory[key] = metric.measure(side)
    return memory[key]


def _sides(rows: Dataset, data: Dataset, eraser: Any, settings: dict[str, Any]) -> dict[str, Side]:
    """Make a side for all rows, under "", and one for each of several concepts."""
    sides = {"": Side(rows, data, eraser, **settings)}
    for part, original in zip(parts_of(rows), parts_of(data), strict=True):
        sides[part.name] = Side(part.data, original.data, eraser, **settings)
    return sides


def _sides_of(metric: Metric, sides: Mapping[str, Side]) -> dict[str, Side]:
    """Select the sides that a metric measures: of every concept, if it is about the concept."""
    if len(sides) == 1 or metric.shared:
        return {"": sides[""]}
    return {
        name: side
        for name, side in sides.items()
        if name and metric.name not in lacking(side.original)
    }


def _named(finding: Finding, concept: str) -> Finding:
    """Name rows and details of one of several concepts."""
    if not concept:
        return finding
    rows = tuple(
        replace(row, key=f"{row.key}:{concept}", label=f"{row.label}, {concept}")
        for row in finding.rows
    )
    return Finding(rows, {f"{key}:{concept}": value for key, value in finding.details.items()})


def _differences(runs: Mapping[str, _Run], alpha: float = 0.05) -> Iterator[Difference]:
    """Compare every eraser with the first one; intervals hold for all of them at once."""
    (other, (evaluation, first)), *others = runs.items()
    for row in evaluation:
        metric, _, concept = row.key.partition(":")
        if metric not in ("attack", "task_linear"):
            continue
        for name, (_, sides) in others:
            result = _difference(metric, sides[concept], first[concept])
            if result is not None:
                value, error, pairs = result
                quantile = NormalDist().inv_cdf(1 - alpha / (2 * pairs * len(others)))
                ends = value - quantile * error, value + quantile * error
                yield Difference(row.key, row.label, name, other, value, ends)


def _difference(metric: str, side: Side, first: Side) -> tuple[float, float, int] | None:
    """Compute a difference, its standard error and the number of pairs to correct for."""
    if metric == "attack":
        these, those = side.attacked, first.attacked
        if these is None or those is None or side.attack_rows != first.attack_rows:
            return None
        value = these.strongest.score - those.strongest.score
        # Bonferroni-corrected for all pairs of attackers, so that it holds for the strongest two.
        error = these.scores.difference_error(these.strongest, those.strongest)
        return value, error, len(these.results) * len(those.results)
    scores = scores_of(side.original.test.task, side.original.test.group_codes)
    one, two = side.linear_task, first.linear_task
    return one.score - two.score, scores.difference_error(one, two), 1


@pieces_in_threads()
def score(
    eraser: Any,
    data: Dataset,
    metrics: Sequence[Any],
    *,
    seeds: int = 1,
    budget: str = "quick",
    random_state: int = 0,
) -> Evaluation:
    """Measure an eraser on the test rows, at half the cost of ``evaluate``: only after erasure.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, function of rows or None
        Eraser in any form that ``evaluate`` accepts.
    data : Dataset
        The original rows.
    metrics : sequence of str or Metric
        Names of ``evaluate``'s metrics, or others.
    seeds, budget, random_state
        See ``evaluate``.

    Examples
    --------
    >>> from unspot import Eraser
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> data = Dataset.from_arrays(X, np.arange(300) % 2, random_state=0)
    >>> scores = score(Eraser.projection(np.eye(3)[:, 1:]), data, ["linear", "variance"]).after
    >>> sorted(scores), 0.5 < scores["variance"] < 0.8
    (['linear', 'variance'], True)
    """
    settings = {"seeds": seeds, "budget": budget, "random_state": random_state}
    return _measured(eraser, data, check_metrics(metrics, data), settings)[0]


def over_seeds(
    eraser: Any, data: Dataset, metrics: Sequence[Any], *, seeds: int, random_state: int = 0
) -> dict[str, tuple[float, float]]:
    """Average every score over repetitions, with its spread; undefined ones are left out."""
    scored = [score(eraser, data, metrics, random_state=random_state + i) for i in range(seeds)]
    if seeds == 1:  # attackers vary from halving to halving
        return {r.key: (r.after.mean, r.after.spread or 0.0) for r in scored[0].rows if r.after}
    runs = [one.after for one in scored]
    columns = {key: [run[key] for run in runs] for key in runs[0]}
    return {
        key: (float(np.mean(column)), float(np.std(column)))  # type: ignore[arg-type]
        for key, column in columns.items()
        if None not in column
    }


def on_validation(data: Dataset, random_state: int = 0) -> Dataset:
    """Score on validation rows: to choose by, not to publish.

    Attackers learn from one half of them, and all is judged on the other half.
    """
    learn, judge = data.validation.halves(random_state)
    return replace(data, validation=learn, test=judge)


def after_refit(data: Dataset, random_state: int = 0) -> Dataset:
    """Make the data of an eraser that was fitted again on train and validation rows.

    Both are its ``train`` rows. Attackers learn from one half of the test rows, now ``validation``,
    and are judged on the other half.
    """
    learn, judge = data.test.halves(random_state)
    return replace(data, train=data.train.joined(data.validation), validation=learn, test=judge)


def check_metrics(metrics: Any, data: Dataset, *, utility: bool = False) -> list[Metric]:
    """Look metrics up by name; unknown names, and those that the data do not allow, are errors."""
    chosen, missing = [], lacking(data, utility=utility)
    for name in (metrics,) if isinstance(metrics, (str, Metric)) else tuple(metrics):
        if isinstance(name, Metric):
            chosen.append(name)
            continue
        if name not in METRICS:
            raise ValueError(
                f"Got metric {name!r}, but expected some of {', '.join(METRICS)}."
                f"{did_you_mean(name, METRICS)}"
            )
        if name in missing:
            raise ValueError(
                f"Got metric {name!r}, but the data {data.name!r} have no {missing[name]}."
            )
        chosen.append(METRICS[name])
    return chosen


def _check_data(data: Any) -> None:
    check_dataset(data)
    for split in data:
        refuse_nonfinite(split.X)
        if split.task is not None and split.task.names:
            raise ValueError(
                f"Got a task of {len(split.task.names)} columns, but expected one column. Evaluate "
                "each of them."
            )
    refuse_shared_groups(**data.splits)


def _warn_about_rows(data: Dataset, metrics: Sequence[Metric]) -> None:
    """Warn of rows that look grouped, and of a task that the concept decides."""
    if data.concepts:
        return
    learn, test = data.probe_rows, data.test
    for name, split in (("train", learn), ("test", test)):
        split.target.refuse_missing_class(f"the {name} split")
    warn_if_grouped((learn, learn.target.strata), (test, test.target.strata))
    labels = learn.task is not None and learn.target.has_classes and learn.task.has_classes
    if labels and any(metric.needs == TASK for metric in metrics):
        pairs = np.unique(np.stack([learn.target.codes, learn.task.codes]), axis=1)
        if pairs.shape[1] == len(learn.target.classes):
            warnings.warn(
                "Got task labels that are a function of the concept: every class has one task "
                "label. Erasing the concept must then erase the task too, and TPR gaps say little.",
                UserWarning,
                stacklevel=3,
            )


def _facts(side: Side) -> dict[str, Any]:
    data = side.original
    return {
        **facts_of(side.eraser, data.name, data.concept, data.n_features),
        "n_rows": {"train": len(data.probe_rows), "test": len(data.test)},
        "n_features_erased": int(side.data.test.X.shape[1]),
        **data.test.concept.facts(),
        "seeds": side.seeds,
        "budget": side.budget,
    }
