"""Certify an eraser on held-out rows: what attackers and a two-sample test find, what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.dataset import Dataset, warn_if_grouped
from unspot.data.labels import Labels
from unspot.data.rows import as_seed
from unspot.evaluation.attackers import AttackResult
from unspot.evaluation.certificate import MARGIN, AttackerReport, Certificate
from unspot.evaluation.inference import agreement_p_values, detectable_advantage
from unspot.evaluation.learning import attack_curve
from unspot.evaluation.results import concept_name, eraser_facts
from unspot.evaluation.unseen import (
    SPLIT_OF,
    Attacked,
    AttackRows,
    attack_eraser,
    check_attack_rows,
    checked_labels,
)
from unspot.machine import same_bits, versions

if TYPE_CHECKING:
    from unspot.evaluation.two_sample import TwoSampleTest

__all__ = ["certify"]

#: Rows and permutations of the two-sample test.
_TWO_SAMPLE = {"quick": (1_000, 200), "standard": (4_000, 200), "thorough": (8_000, 1_000)}

#: Permutations of the labels under the attackers' guesses.
_AGREEMENT = 999

#: Rows times permutations times classes of a two-sample test for a small alpha, about 1 GB: of
#: more permutations, fewer rows.
_MAX_PERMUTED = 2**25

#: Below, the tests would need more than 20,000 permutations.
_SMALLEST_ALPHA = 1e-4


@same_bits()
def certify(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None = None,
    budget: str = "standard",
    alpha: float = 0.05,
    margin: float = MARGIN,
    attack_rows: AttackRows = "unseen",
    random_state: Any = 0,
    verbose: bool = False,
) -> Certificate:
    """Attack an eraser on held-out rows, and say what could be recovered.

    Parameters
    ----------
    eraser : fitted estimator, Eraser, callable, Dataset or None
        Whatever erases rows: by ``transform`` if it has one, else by a call. Or a Dataset of the
        same rows, erased. None leaves the rows as they are: what there was to erase.
    data : Dataset
        Fit the eraser on ``data.train`` before. Verdict and numbers are from ``data.test``.
    attackers : sequence of str, optional
        Names from ``unspot.evaluation.ATTACKERS``; by default those of the budget.
    budget : "quick", "standard" or "thorough"
        Which attackers, and how hard they try.
    alpha : float
        Probability of a false alarm, for everything in the certificate together; at least 0.0001.
    margin : float
        The largest advantage over guessing that counts as erased. The verdict is HOLDS if no
        attacker can have more, INCONCLUSIVE if these rows cannot tell.
    attack_rows : "unseen", "seen" or "cross-fit"
        Attackers learn from ``data.validation``, which the eraser was not fitted on; or from
        ``data.train``, which it was: more rows as a rule, but they look cleaner than new ones.
        "cross-fit" is for few rows, and needs an estimator: of five folds of all rows, two fit it
        anew, attackers learn from two others and are judged on the fifth, five times over, so that
        every row is judged on once. It is about the recipe rather than one fitted eraser, and its
        p-values are approximate: a row to judge on is a row of the fit in other folds.
    random_state : int, Generator or None
        Decides everything that is random.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    Certificate

    Notes
    -----
    About 20 s of one core for 22,000 rows of 100 features at ``budget="standard"``.

    The attackers' p-values permute the labels of the test rows: predictions stay, so that any
    number of dependent attackers is corrected for exactly, and unbalanced classes need no care.
    Where half of ``alpha`` is out of reach of the usual number of permutations, and none of those
    is as extreme as the labels, there are more of them: up to a minute, and in the two-sample test
    fewer rows.
    Intervals are of the balanced accuracy, Bonferroni-corrected, given the class counts of the test
    rows; see ``unspot.evaluation.inference.balanced_interval``.
    All this takes rows to be independent of each other. If they come in groups, such as texts of
    one author, give the groups to ``Dataset.from_arrays``: labels are then permuted by group,
    intervals go by the variation from group to group, and only groups must be independent.

    Examples
    --------
    >>> from unspot import Dataset, Eraser, certify
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> certify(None, data, budget="quick").verdict
    'LEAKS'
    >>> rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    >>> certify(Eraser.projection(rest), data, budget="quick", margin=0.1).verdict
    'HOLDS'
    """
    _check_alpha(alpha)
    check_choice("budget", budget, tuple(_TWO_SAMPLE))
    check_share("margin", margin)
    check_attack_rows(attack_rows)
    seed = as_seed(random_state)
    labels = None
    if attack_rows != "cross-fit":
        labels = checked_labels(eraser, data, attack_rows)
        learn = getattr(data, SPLIT_OF[attack_rows])
        warn_if_grouped((learn, labels[0].codes), (data.test, labels[1].codes))
    attacked = attack_eraser(
        eraser,
        data,
        attack_rows=attack_rows,
        labels=labels,
        budget=budget,
        attackers=attackers,
        random_state=seed,
        verbose=verbose,
    )
    results, judged = attacked.results, attacked.labels
    two_sample = _two_sample(*attacked.sample, budget=budget, alpha=alpha, seed=seed)
    p_values = _agreement(results, judged.codes, alpha, seed, attacked.groups)
    counts = judged.counts
    return Certificate(
        attackers=tuple(
            _report(attacked, result, float(p_value), alpha)
            for result, p_value in zip(results, p_values, strict=True)
        ),
        attack_p_value=float(p_values.min()),
        p_value=two_sample.p_value,
        detectable=detectable_advantage(
            1 / len(counts), attacked.effective_rows, alpha / (2 * len(results))
        ),
        majority=float(counts.max() / len(judged)),
        alpha=alpha,
        n_classes=len(counts),
        n_attack_rows=results[0].n_rows,
        n_test_rows=len(judged),
        attack_rows=attack_rows,
        budget=budget,
        margin=margin,
        rows_of_class={str(c): int(n) for c, n in zip(judged.classes, counts, strict=True)},
        metadata=_metadata(eraser, data, random_state),
        learning=attack_curve(attacked, budget=budget, seed=seed),
    )


def _report(
    attacked: Attacked, result: AttackResult, p_value: float, alpha: float
) -> AttackerReport:
    chance = 1 / len(attacked.labels.classes)
    low, high = attacked.interval(result, alpha)
    return AttackerReport(
        name=result.name,
        accuracy=result.accuracy,
        balanced_accuracy=result.balanced_accuracy,
        advantage=result.advantage,
        interval=(low - chance, high - chance),
        p_value=p_value,
        log_loss_bits=result.log_loss_bits,
    )


def _metadata(eraser: Any, data: Dataset, random_state: Any) -> dict[str, Any]:
    """In the words of an evaluation, so that a report reads both."""
    groups = data.test.group_codes
    seed = int(random_state) if isinstance(random_state, (int, np.integer)) else None
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "concept": concept_name(eraser, data),
        "n_features": data.n_features,
        "n_test_groups": None if groups is None else len(np.unique(groups)),
        "random_state": seed,
        "versions": versions(),
    }


def _check_alpha(alpha: Any) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    if alpha < _SMALLEST_ALPHA:
        raise ValueError(
            f"Got alpha={alpha!r}, but expected at least {_SMALLEST_ALPHA:g}: a smaller one takes "
            "more permutations than there is time for. Use a larger alpha."
        )


def _agreement(
    results: Sequence[AttackResult],
    codes: NDArray[np.int64],
    alpha: float,
    seed: int,
    groups: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """The attackers' p-values, of more permutations where few leave the verdict open.

    A first p-value above the smallest possible one stands: it is above half of alpha too. So the
    second look can only take back what the first one found, and the level holds.
    """
    predicted = [r.probabilities for r in results], [r.guesses for r in results]
    many = max(_AGREEMENT, math.ceil(4 / alpha))  # one may be as extreme as the labels
    judged = partial(agreement_p_values, *predicted, codes, seed, groups=groups)
    p_values = judged(n_permutations=_AGREEMENT)
    if many == _AGREEMENT or p_values.min() > 1 / (1 + _AGREEMENT):
        return p_values
    return judged(n_permutations=many)


def _two_sample(
    X: NDArray[Any],
    labels: Labels,
    groups: NDArray[np.int64] | None,
    *,
    budget: str,
    alpha: float,
    seed: int,
) -> TwoSampleTest:
    """The two-sample test, of more permutations where few leave the verdict open, as above."""
    from unspot.evaluation.two_sample import compare_laws

    max_rows, usual = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = len(labels.classes)
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    many = max(
        usual, math.ceil(2 / alpha)
    )  # one extreme permutation is too many here: each takes long
    compare = partial(compare_laws, X, labels, random_state=seed, groups=groups)
    test = compare(max_rows=max_rows, n_permutations=usual)
    if many == usual or test.p_value > 1 / (1 + usual):
        return test
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return compare(max_rows=fewer_rows, n_permutations=many)
