"""One call for the whole job: try candidates, choose one, fit it again, certify it.

Rows that only judge take part in nothing but the certificate. The others choose: candidates are
fitted on a part of them, and judged on the rest by attackers and utility; finalists are fitted and
judged on other parts too.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_share
from unspot.choice.candidates import Family, families, settings_for
from unspot.choice.plan import Plan, plan_rows
from unspot.data.concept import MERGED, read, read_covariate
from unspot.data.dataset import Split, parts_of, stratified_parts, warn_if_grouped
from unspot.data.goal import Goal
from unspot.data.rows import as_matrix, column_names, refuse_nonfinite
from unspot.eraser import Eraser
from unspot.evaluation.attack_models import MIN_OF_A_CLASS, rows_needed, sought
from unspot.evaluation.attackers import BUDGETS
from unspot.evaluation.certificate import MARGIN, UtilityKept, certify, names_of, what_is_kept
from unspot.evaluation.measure import attack_halves, erased_split, once
from unspot.evaluation.utility import neighbour_overlap, value_of
from unspot.io.progress import Phase, phase
from unspot.tables import OTHERS, Number, plain, points_text

#: Share of the rows that only judge; more where rows are few.
JUDGE = 0.3
#: Rows that choose, at most: more cost time and change no choice.
MAX_ROWS = 6_000
#: Attackers, and those of the first round, which finds what clearly loses.
ATTACKERS = BUDGETS["quick"].attackers
FIRST = ("logistic", "quadratic", "rbf")
#: Candidates of the second round, and of the third, on other parts of the rows.
SECOND, THIRD = 12, 4
#: Up to so many rows are divided twice, or again and again, into so many parts at most.
TWICE, OFTEN, PARTS = 4_000, 500, 10
#: Parts on which only finalists are judged, at most.
FURTHER = 6
#: Rows of a class of the task, at least: smaller ones are merged.
FEWEST = 60
#: Standard errors by which a candidate must be within a bound, and within which two are as good.
CAREFUL, TIED = 1.64, 0.18
#: Leak or utility by which another candidate is worth a line.
NOTCH = 0.005
#: Share of the nearest half that is kept, below which little but the task is left; 0.5 is random.
NEARLY_RANDOM = 0.65
#: Largest negligible difference of utility.
SAME = 0.005


@dataclass(frozen=True, eq=False)
class Candidate:
    """An eraser that was tried, and what it left and kept on rows that it was not fitted on.

    Attributes
    ----------
    name : str
    rank : int or None
    advantage, error : float
        Advantage of the strongest attacker over guessing, and its standard error.
    utility : float
        The task's score, the neighbours kept (A_50%), or the value of a function.
    gone, kept : float
        The share of the lead that is gone, and of the utility that is kept.
    before : float
        The advantage on the original rows.
    rounds : int
        How far it came: 1 by a few attackers, 2 by all, 3 on other parts of the rows.
    family : Family
    """

    name: str
    rank: int | None
    advantage: float
    error: float
    utility: float
    gone: float
    kept: float
    before: float
    rounds: int
    family: Family = field(repr=False)

    @property
    def title(self) -> str:
        """Name the candidate with its rank."""
        return self.name if self.rank is None else f"{self.name}, rank {self.rank}"


@dataclass(frozen=True)
class Rule:
    """Choose a candidate by the most utility, the least leak, or the best balance of both."""

    max_advantage: float | None = None
    min_utility: float | None = None

    def __post_init__(self) -> None:
        if self.max_advantage is not None:
            check_share("max_advantage", self.max_advantage)
            if self.min_utility is not None:
                raise ValueError(
                    "Got max_advantage and min_utility, but expected one of them: with both, often "
                    "nothing is within. Set one; the result reports the other."
                )

    def __str__(self) -> str:
        if self.max_advantage is not None:
            return f"the most utility with a leak of {points_text(self.max_advantage)} at most"
        if self.min_utility is not None:
            return f"the least leak with a utility of {self.min_utility:g} at least"
        return "the best balance of the lead that is gone, which counts twice, and the utility kept"

    def value(self, one: Candidate, errors: float = CAREFUL) -> tuple[float, float]:
        """Order candidates: larger is better; those outside of the bounds by what is missing."""
        if self.max_advantage is not None:
            over = one.advantage + errors * one.error - self.max_advantage
            return (0.0, -over) if over > 0 else (1.0, one.utility)
        if self.min_utility is not None:
            under = self.min_utility - one.utility
            return (0.0, -under) if under > 0 else (1.0, -one.advantage)
        leak = -errors * one.error if errors < 0 else 0.0  # optimistic: one standard error below
        return 1.0, (one.gone + leak) ** 2 * one.kept

    def choose(self, candidates: Sequence[Candidate]) -> Candidate:
        """Choose the simplest of those as good as the best, to a fifth of a standard error.

        If one of them leaks no more and keeps clearly more, that; outside of a bound the most
        useful. A whole standard error would give away points of leak where rows are few.
        """
        best = max(candidates, key=self.value)
        reached, value = self.value(best)
        slack = TIED * best.error
        if self.min_utility is None and self.max_advantage is None:  # slack of the share removed
            slack *= 2 * value / max(best.before * best.gone, 1e-9)
        elif (self.min_utility is None) == (reached > 0):  # slack of utility
            slack = SAME
        ties = [one for one in candidates if self.value(one) >= (reached, value - slack)]
        leak, least = (ties[0].advantage, ties[0].utility + SAME) if reached else (np.inf, -np.inf)
        better = [one for one in ties if one.advantage <= leak and one.utility >= least]
        return max(better or ties[:1], key=lambda one: one.utility)


@dataclass(frozen=True, eq=False)
class Choice:
    """The eraser that was chosen, its certificate, and everything that was tried.

    Attributes
    ----------
    eraser : Eraser
        Fitted on all rows but those that judge.
    certificate : Certificate
        Certificate on rows that had no part in the choice or the fit.
    candidates : tuple of Candidate
        All that were tried, from the simplest to the most elaborate.
    chosen : Candidate
    rule : Rule
    plan : Plan
    notes : tuple of str
        Caveats, in sentences.
    judging : array of int
        Numbers of the rows that judge.
    """

    eraser: Eraser
    certificate: Any
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    rule: Rule
    plan: Plan
    notes: tuple[str, ...]
    judging: NDArray[np.int64] = field(repr=False)

    @property
    def reached(self) -> bool:
        """Tell whether the choice was within the bound that was asked for."""
        if self.rule.max_advantage and self.certificate.upper_bound <= self.plan.max_advantage:
            return True
        raised = (self.rule.max_advantage or 0.0) > self.plan.max_advantage
        return self.rule.value(self.chosen)[0] > 0 and not raised

    @cached_property
    def frontier(self) -> tuple[Candidate, ...]:
        """List the finalists that no other beats in both, from the least leak to the most."""
        finalists = [one for one in self.candidates if one.rounds == self.chosen.rounds]
        best, most = list[Candidate](), -np.inf
        for one in sorted(finalists, key=lambda one: (one.advantage, -one.utility)):
            if one is self.chosen or one.utility > most:
                best.append(one)
            most = max(most, one.utility)
        return tuple(best)

    def __str__(self) -> str:
        return "\n".join([self.certificate.statement, *self.sentences])

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say what was chosen, what one notch more or less would cost, and the notes."""
        decision = [self.certificate.decision] * (self.rule.max_advantage is not None)
        judged = f"Certified with budget {self.certificate.budget}."
        tried = f"Chosen of {len(self.candidates)}: {self.chosen.title} ({self.rule}). {judged}"
        place, mine = self.frontier.index(self.chosen), self.chosen
        less = [c for c in self.frontier[:place] if mine.advantage - c.advantage >= NOTCH]
        more = [c for c in self.frontier[place + 1 :] if c.utility - mine.utility >= NOTCH]
        notches = self._notch("Less leak", less[-1:]), self._notch("More utility", more[:1])
        return tuple(filter(None, [*decision, tried, *notches, *self.notes]))

    def _notch(self, what: str, next_one: Sequence[Candidate]) -> str:
        """Say what one notch more or less would cost."""
        if not next_one:
            return ""
        (one,) = next_one
        leak, kept = one.advantage - self.chosen.advantage, one.utility - self.chosen.utility
        points = f"{100 * leak:+.1f} {self.certificate.unit}"
        return f"{what}: {one.title} ({points} of leak, utility {kept:+.3f})."

    def table(self) -> str:
        """Write the candidates as a plain table."""
        rows = [["candidate", "leak", "±", "utility", "rounds"]]
        for one in self.candidates:
            points = [f"{100 * value:.1f}" for value in (one.advantage, one.error)]
            mark = " *" if one is self.chosen else ""
            rows.append([one.title + mark, *points, f"{one.utility:.3f}", str(one.rounds)])
        return plain(rows)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}\n\n{escape(self.table())}</pre>"

    def called(self, concept: str = "", task: str = "", data: str = "", given: str = "") -> Choice:
        """Name the concept, task, data and covariates in the statement and on the page."""
        certificate = self.certificate.naming(task=task, given=given)
        names = {"concept": "" if certificate.parts else concept, "data": data}
        metadata = {**certificate.metadata, **{k: name for k, name in names.items() if name}}
        return replace(self, certificate=replace(certificate, metadata=metadata))

    def to_html(self, path: Any, **options: Any) -> Any:
        """Write one self-contained HTML page; options are those of ``unspot.report.to_html``."""
        points = [
            {
                "series": one.title if one in self.frontier else OTHERS,
                "label": one.title,
                "utility": Number(one.utility),
                "erasure": Number(max(one.advantage, 0.0), one.error),
                "chosen": one is self.chosen,
            }
            for one in sorted(self.candidates, key=lambda one: one is not self.chosen)
        ]
        about = self.certificate
        plane: dict[str, Any] = {"points": points, "reference": 0.0}
        plane["utility"] = f"{about.kept[0].name}, on rows that chose"
        plane["erasure"] = "what attackers have above guessing"
        about = replace(about, notes=(*self.sentences, *about.notes))
        return about.to_html(path, name=self.chosen.title, tradeoff=plane, **options)


def erase(
    X: Any,
    z: Any,
    *,
    task: Any = None,
    groups: Any = None,
    given: Any = None,
    utility: Callable[[NDArray[Any], NDArray[np.int64]], float] | None = None,
    max_advantage: float | None = None,
    min_utility: float | None = None,
    random_state: int = 0,
) -> Choice:
    """Take a concept out of rows: try erasers, choose one, and certify it on unseen rows.

    Without bounds the choice is the best balance: the largest product of the share of the
    attackers' lead that is gone, which counts twice, and the share of utility that is kept. Of
    candidates that are about as good it is the simplest. After Ctrl-C the choice is made from what
    was tried.

    Parameters
    ----------
    X : array-like of shape (n, d)
    z : array-like of shape (n,), or table
        The concept: labels, numbers, or several columns.
    task : array-like of shape (n,), optional
        Labels or numbers that erased rows should still tell. Utility is then the balanced accuracy
        of a logistic model, or the R² of a linear one; otherwise it is A_50%, the share of
        neighbours that are kept, of which random rows keep half.
    groups : array-like of shape (n,), optional
        Groups of rows, such as authors: no group is divided.
    given : array-like of shape (n,), or table, optional
        Only what rows add to these columns is erased, and counts as leak.
    utility : callable, optional
        Takes erased rows and their numbers in X, and returns a number, larger if better; 0 is the
        utility of nothing. For a search among sources, with ids of what rows are versions of:
        ``lambda rows, i: retrieval(rows, ids[i], z[i]).recall.value``.
    max_advantage : float, optional
        Choose the most utility with an advantage of attackers over guessing of this at most.
    min_utility : float, optional
        Choose the least leak with a utility of this at least.
    random_state : int

    Notes
    -----
    Three minutes of two cores for 5,000 rows of 384 features. At most 6,000 rows choose; all rows
    but those that judge fit in the end. Exact repeats of rows count once.

    Examples
    --------
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=900, d=3)
    >>> result = erase(rows.X, rows.z)
    >>> result.certificate.before > 0.25, result.chosen.advantage < 0.1
    (True, True)
    """
    rule = Rule(max_advantage, min_utility)
    if utility is None and min_utility is not None:
        check_share("min_utility", min_utility)
    whole = _read(X, z, task=task, groups=groups, given=given)
    rows, features, notes = once(whole), column_names(X), list[str]()
    planned = plan_rows(rows, max_advantage or MARGIN)
    if max_advantage is not None and max_advantage < planned.target < 1:
        rule = Rule(planned.target)
        notes.append(f"{planned.sentence} {planned.aim}")
    if len(rows) < len(whole):
        notes.append(f"Exact repeats of rows, which counted once: {len(whole) - len(rows):,}.")
    if MERGED in getattr(rows.task, "classes", ()):
        notes.append(f"Labels of the task with fewer than {FEWEST} rows count as one.")
    if warn_if_grouped((rows, rows.concept.strata)):
        notes.append("The rows look grouped, and no groups were given: see the warning.")
    choosing, judging = (rows.take(part) for part in _parts(rows, _shares(rows), random_state))
    if not (len(choosing) and len(judging)):
        raise ValueError(
            "Got groups that cannot be divided between rows that choose and rows that judge, but "
            "expected several groups of every class. Give smaller groups."
        )
    search = _Search(choosing, rule, utility, random_state)
    with phase("Choosing and fitting", search.work, unit="steps", alone=True) as bar:
        candidates = search.run(bar)
        chosen = rule.choose([one for one in candidates if one.rounds == search.rounds])
        family = chosen.family
        *_, (_, fitted) = family.fits(choosing, [chosen.rank])
        beside = {"groups": judging.groups, "given": judging.given, "margin": rule.max_advantage}
        rows_to_judge = judging.X, judging.concept
        certificate = certify(fitted.eraser_, *rows_to_judge, **beside, random_state=random_state)
        kept = _kept(judging, erased_split(fitted, judging), utility, random_state)
        certificate = replace(certificate, kept=kept)
    notes += search.notes
    if task is not None and utility is None and kept[-1].after < NEARLY_RANDOM:
        notes.append(
            f"Only the task counted as utility: of the neighbours {kept[-1].after:.2f} are kept, "
            "where 0.5 is random. Leave the task out if rows have other uses."
        )
    if rule.value(chosen)[0] == 0:
        notes.insert(
            0, "No candidate was within the bound on the rows that choose: this is the nearest."
        )
    tried = tuple(candidates), chosen, rule, planned, tuple(notes), np.asarray(judging.names)
    concept, called = (str(getattr(column, "name", None) or "") for column in (z, task))
    eraser = fitted.eraser_.with_metadata(features=features) if features else fitted.eraser_
    conditions = "" if given is None else names_of(given)
    return Choice(eraser, certificate, *tried).called(concept, called, given=conditions)


# -- Rows ------------------------------------------------------------------------------------------


def _read(X: Any, z: Any, *, task: Any, groups: Any, given: Any) -> Split:
    """Read rows with all that belongs to them; their names are their numbers in X."""
    X = as_matrix(X)
    X = X.astype(np.float32) if X.dtype == np.float16 else X
    refuse_nonfinite(X)
    beside = {
        name: None if values is None else read_covariate(values, name, len(X), fewest=fewest)
        for name, values, fewest in (("task", task, FEWEST), ("given", given, 0))
    }
    columns = getattr(beside["task"], "columns", {})
    if len(columns) > 1 or any(column.missing.any() for column in columns.values()):
        raise ValueError(
            "Got a task of several columns or with gaps, but expected one column with a value in "
            "every row. Leave the rows without a value out."
        )
    concept = read(z, n_rows=len(X), min_rows=3)
    return Split(X, concept, names=np.arange(len(X)), groups=groups, **beside)


def _parts(rows: Split, sizes: Sequence[float], seed: int) -> list[NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    return stratified_parts(rows.concept.strata, tuple(sizes), rng, rows.groups)


def _shares(rows: Split) -> tuple[float, float]:
    """Share the rows between choosing and judging: attackers learn from half of either."""
    fewest, needed = rows.concept.fewest_rows()[0], rows_needed(rows.concept)
    judge = min(0.5, max(JUDGE, 2.1 * needed / len(rows), 2.4 * MIN_OF_A_CLASS / fewest))
    return 1 - judge, judge


def _folds(rows: Split, seed: int) -> list[tuple[Split, Split]]:
    """Divide the rows that choose into rows to fit on and to judge on, several times.

    A third of them judges; where rows are few, up to three quarters, and often: one division of 250
    rows decides more than the erasers do.
    """
    few, of = rows.concept.fewest_rows()
    needed = rows_needed(rows.concept)
    for n, judging in ((3, 1), (2, 1), (3, 2), (4, 3)):
        share = judging / n / 2  # share of the rows that attackers learn from
        if share * len(rows) > needed and share * few > 1.2 * MIN_OF_A_CLASS:
            break
    else:
        raise ValueError(
            f"Got {len(rows)} rows to choose by (others judge){f', {few} {of},' if of else ''} but "
            f"attackers need {3 * needed} to learn {sought(rows.concept)}, and "
            f"{4 * MIN_OF_A_CLASS} of every class. Give more rows, or merge small classes."
        )
    folds = []
    times = PARTS // n if len(rows) <= OFTEN else 2 if len(rows) <= TWICE else 1
    for i in range(times):
        parts = _parts(rows, (1 / n,) * n, seed + i)
        for j in range(n):
            turned = parts[j:] + parts[:j]
            judge, fit = (np.concatenate(p) for p in (turned[:judging], turned[judging:]))
            folds.append((rows.take(fit), rows.take(judge)))
    return folds


# -- The search ------------------------------------------------------------------------------------


class _Trial:
    """Results of an eraser so far: what it left and kept."""

    def __init__(self, family: Any = None, rank: int | None = None) -> None:
        self.family, self.rank, self.rounds = family, rank, 1
        self.leaks: dict[str, list[float]] = defaultdict(list)  # by attacker
        # The errors of its leak, utilities by part, and what was fitted in the first round.
        self.errors, self.utilities, self.erasers = list[float](), list[float](), list[Any]()

    def attack(self, rows: Split, attackers: Sequence[str], seed: int) -> None:
        """Attack erased rows, each concept of several."""
        ends, how = list[tuple[float, float]](), dict[str, Any](budget="quick", random_state=seed)
        for part in parts_of(rows):
            attacked = attack_halves(part.data, attackers=attackers, halvings=1, **how)
            for result in attacked.results:
                self.leaks[part.name + result.name].append(result.score - attacked.chance)
            low, high = attacked.scores.interval(attacked.strongest, 0.32)
            ends.append((attacked.strongest.score - attacked.chance, (high - low) / 2))
        self.errors.append(max(ends)[1])  # error for the concept that leaks most

    @property
    def advantage(self) -> float:
        return max(float(np.mean(leaks)) for leaks in self.leaks.values())


class _Search:
    """Candidates, rows to try them on, and how far they came."""

    def __init__(self, rows: Split, rule: Rule, utility: Any, seed: int) -> None:
        self.rule, self.utility, self.seed, self.notes = rule, utility, seed, list[str]()
        if len(rows) > MAX_ROWS:
            share = MAX_ROWS / len(rows)
            rows = rows.take(_parts(rows, (share, 1 - share), seed)[0])
        folds = _folds(rows, seed)
        # Parts of different rows: a second division judges the same rows again.
        n_first, self.independent = max(1, len(folds) - FURTHER), len(rows) / len(folds[0][1])
        self.first, self.further, fit = folds[:n_first], folds[n_first:], folds[0][0]
        self.third = THIRD * min(n_first, 3)
        goal = Goal.read(fit.concept, fit.given, fit.task)
        self.families = families(goal, fit.X.shape[1], len(fit), seed, settings_for(fit.X))
        self.trials, self.rounds, self.original = list[_Trial](), 1, _Trial()

    @property
    def work(self) -> int:
        """Count the steps, of about the time of one candidate in the first round each."""
        first = sum(max(len(family.ranks), 1) for family in self.families)
        return (first + 2 * SECOND) * len(self.first) + 5 * self.third * len(self.further) + 20

    def run(self, bar: Phase) -> list[Candidate]:
        """Try all candidates in rounds, the best ones longer; Ctrl-C ends the search."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about candidates that were not chosen
            try:
                for tried in (self._first_round, self._second_round, self._third_round):
                    tried(bar)
            except KeyboardInterrupt:
                if not self.trials:
                    raise
                self.notes.append(f"Stopped in round {self.rounds}; chosen from what was tried.")
        return [self._candidate(trial) for trial in self.trials]

    def _first_round(self, bar: Phase) -> None:
        for _, judge in self.first:
            self._judge(self.original, None, judge)
        for family in self.families:
            trials = {rank: _Trial(family, rank) for rank in family.ranks or (None,)}
            try:
                for fit, judge in self.first:
                    for rank, fitted in family.fits(fit, family.ranks):
                        trials[rank].erasers.append(fitted.eraser_)
                        self._judge(trials[rank], fitted.eraser_, judge, FIRST)
                        bar.advance()
                self.trials += trials.values()
            except ValueError as error:  # a task that cannot be kept is no reason to stop
                if not family.keeps:
                    raise
                self.notes.append(f"Left out: {family.name}. {error}")

    def _second_round(self, bar: Phase) -> None:
        rest = [name for name in ATTACKERS if name not in FIRST]
        best = self._best(SECOND)
        for trial in best:
            for eraser, (_, judge) in zip(trial.erasers, self.first, strict=True):
                trial.attack(erased_split(eraser, judge), rest, self.seed)
                trial.errors.pop()  # the same rows as before
                bar.advance(2)
        self._promote(best)

    def _third_round(self, bar: Phase) -> None:
        best = self._best(self.third)
        for fit, judge in self.further:
            self._judge(self.original, None, judge)
            for family in dict.fromkeys(trial.family for trial in best):
                mine = {trial.rank: trial for trial in best if trial.family is family}
                for rank, fitted in family.fits(fit, [*mine]):
                    self._judge(mine[rank], fitted.eraser_, judge)
                    bar.advance(5)
        self._promote(best)

    def _promote(self, best: list[_Trial]) -> None:
        self.rounds += 1
        for trial in best:
            trial.rounds = self.rounds

    def _best(self, n: int) -> list[_Trial]:
        """Return the trials of this round that could be the best, in their order."""
        now = [trial for trial in self.trials if trial.rounds == self.rounds]
        values = [self.rule.value(self._candidate(trial), errors=-1.0) for trial in now]
        places = sorted(range(len(now)), key=values.__getitem__, reverse=True)[:n]
        return [now[place] for place in sorted(places)]

    def _judge(
        self, trial: _Trial, eraser: Any, rows: Split, attackers: Sequence[str] | None = None
    ) -> None:
        after = erased_split(eraser, rows)
        trial.attack(after, attackers or ATTACKERS, self.seed)
        utility, self.nothing = _utility(rows, after, self.utility)
        trial.utilities.append(utility)

    def _candidate(self, trial: _Trial) -> Candidate:
        before, usual = self.original.advantage, float(np.mean(self.original.utilities))
        utility, nothing = float(np.mean(trial.utilities)), self.nothing
        error = float(np.mean(trial.errors) / min(len(trial.errors), self.independent) ** 0.5)
        gone = float(np.clip(1 - trial.advantage / max(before, 1e-9), 0, 1))
        most = 1.0 if self.utility is None else np.inf  # a search improves; a task only by chance
        kept = float(np.clip((utility - nothing) / max(usual - nothing, 1e-9), 0, most))
        numbers = trial.advantage, error, utility, gone, kept, before, trial.rounds
        return Candidate(trial.family.name, trial.rank, *numbers, trial.family)


def _utility(before: Split, after: Split, function: Any) -> tuple[float, float]:
    """Measure what erased rows keep, by a function, a task or neighbours; and that of nothing."""
    if function is not None:
        return value_of(function, after.X, after.names), 0.0
    if after.task is not None:
        of_task = Split(after.X, after.task, groups=after.groups)
        attacked = attack_halves(of_task, attackers=["logistic"], budget="quick", halvings=1)
        return float(attacked.strongest.score), attacked.chance
    some = slice(None, None, -(-len(before) // 4000))
    return float(neighbour_overlap(before.X[some], after.X[some], max_queries=500)), 0.5


def _kept(before: Split, after: Split, function: Any, seed: int) -> tuple[UtilityKept, ...]:
    """Measure task and neighbours on the rows that judge, and the user's own utility."""
    kept = what_is_kept(before, after, seed)
    if function is None:
        return kept
    old, new = (_utility(before, each, function)[0] for each in (before, after))
    return (UtilityKept("utility", old, new, ""), *kept)
