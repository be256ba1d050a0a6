"""Certify an eraser on held-out rows: what attackers and a two-sample test find, what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice, check_share
from unspot.data.concepts import Concepts
from unspot.data.dataset import SPLITS, Dataset, hashed, strata, warn_if_grouped
from unspot.data.rows import as_seed, fingerprint
from unspot.eraser import Eraser
from unspot.evaluation.attacked import Attacked
from unspot.evaluation.certificate import MARGIN, AttackerReport, Certificate
from unspot.evaluation.results import concept_name, eraser_facts
from unspot.evaluation.several import naming_concept, parts_of, restricted
from unspot.evaluation.unseen import (
    SPLIT_OF,
    AttackRows,
    attack_eraser,
    check_attack_rows,
    checked_labels,
)
from unspot.io.progress import phase, steps
from unspot.machine import pieces_in_threads, versions

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


@pieces_in_threads()
def certify(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None = None,
    budget: str = "standard",
    alpha: float = 0.05,
    margin: float = MARGIN,
    attack_rows: AttackRows = "unseen",
    given: str | None = None,
    random_state: Any = 0,
    verbose: bool = False,
) -> Certificate:
    """Attack an eraser on held-out rows, and say what could be recovered.

    Of a number, that is a share of its variance. Of several concepts each is attacked, and their
    combination: the verdict is that of the worst, and each has its part of ``alpha``.

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
        The largest advantage over guessing that counts as erased; of a number, the largest share
        of its variance. The verdict is HOLDS if no attacker can have more, INCONCLUSIVE if these
        rows cannot tell.
    attack_rows : "unseen", "seen" or "cross-fit"
        Attackers learn from ``data.validation``, which the eraser was not fitted on; or from
        ``data.train``, which it was: more rows as a rule, but they look cleaner than new ones.
        "cross-fit" is for few rows, and needs an estimator: of five folds of all rows, two fit it
        anew, attackers learn from two others and are judged on the fifth, five times over, so that
        every row is judged on once. It is about the recipe rather than one fitted eraser, and its
        p-values are approximate: a row to judge on is a row of the fit in other folds.
    given : "y", optional
        Attackers know the task of every row, and only what rows tell beyond it counts: whether
        rows and concept are independent *given* the task, as equalised odds ask.
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
    if given is not None:
        check_choice("given", given, ("y",))
    how: dict[str, Any] = {"attackers": attackers, "budget": budget, "margin": margin}
    how |= {"attack_rows": attack_rows, "given": given, "verbose": verbose}
    how["random_state"] = random_state
    parts = parts_of(data) if isinstance(data, Dataset) else []
    if not parts:
        return _certified(eraser, data, alpha=alpha, **how)
    found = {}
    each = list(zip(parts, restricted(eraser, data, len(parts)), strict=True))
    for part, own in steps(each, "Concept", name=lambda pair: pair[0].name, verbose=verbose):
        with naming_concept(part.name):
            found[part.name] = _certified(own, part.data, alpha=alpha / len(parts), **how)
    return Certificate.of_several(found, tuple(part.note for part in parts if part.note))


def _certified(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None,
    budget: str,
    alpha: float,
    margin: float,
    attack_rows: AttackRows,
    given: str | None,
    random_state: Any,
    verbose: bool,
) -> Certificate:
    """The certificate of one concept."""
    seed = as_seed(random_state)
    labels = None
    if attack_rows != "cross-fit":
        labels = checked_labels(eraser, data, attack_rows)
        learn = getattr(data, SPLIT_OF[attack_rows])
        warn_if_grouped((learn, strata(labels[0])), (data.test, strata(labels[1])))
    attacked = attack_eraser(
        eraser,
        data,
        attack_rows=attack_rows,
        labels=labels,
        budget=budget,
        attackers=attackers,
        random_state=seed,
        verbose=verbose,
        given=given is not None,
    )
    results = attacked.results
    with phase("Comparing the classes", verbose=verbose):
        two_sample = _two_sample(attacked, budget=budget, alpha=alpha, seed=seed)
        p_values = _agreement(attacked, alpha, seed)
    return Certificate(
        attackers=tuple(
            _report(attacked, result, float(p_value), alpha)
            for result, p_value in zip(results, p_values, strict=True)
        ),
        attack_p_value=float(p_values.min()),
        p_value=two_sample.p_value,
        detectable=attacked.detectable(alpha / (2 * len(results))),
        alpha=alpha,
        n_attack_rows=results[0].n_rows,
        n_test_rows=len(attacked.labels),
        attack_rows=attack_rows,
        budget=budget,
        margin=margin,
        **attacked.facts(),
        given=given or "",
        baseline=None if given is None else attacked.chance,
        metadata=_metadata(eraser, data, random_state),
    )


def _report(attacked: Attacked, result: Any, p_value: float, alpha: float) -> AttackerReport:
    low, high = attacked.interval(result, alpha)
    scores = ("accuracy", "balanced_accuracy", "log_loss_bits", "r2")
    return AttackerReport(
        name=result.name,
        advantage=attacked.advantage(result),
        interval=(low - attacked.chance, high - attacked.chance),
        p_value=p_value,
        **{name: getattr(result, name, None) for name in scores},
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
        "digests": _digests(eraser, data),
    }


def _digests(eraser: Any, data: Dataset) -> dict[str, str]:
    """Digests by which eraser and rows are known again."""
    frozen = getattr(eraser, "eraser_", eraser)
    digests = {"eraser": frozen.digest} if isinstance(frozen, Eraser) else {}
    for name, split in zip(SPLITS, data, strict=True):
        concept = split.z if isinstance(split.z, Concepts) else split.target
        digests[f"{name} rows"] = fingerprint(split.X, hashed(concept))
    return digests


def _check_alpha(alpha: Any) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"Got alpha={alpha!r}, but expected a number between 0 and 1.")
    if alpha < _SMALLEST_ALPHA:
        raise ValueError(
            f"Got alpha={alpha!r}, but expected at least {_SMALLEST_ALPHA:g}: a smaller one takes "
            "more permutations than there is time for. Use a larger alpha."
        )


def _agreement(attacked: Attacked, alpha: float, seed: int) -> NDArray[np.float64]:
    """The attackers' p-values, of more permutations where few leave the verdict open.

    A first p-value above the smallest possible one stands: it is above half of alpha too. So the
    second look can only take back what the first one found, and the level holds.
    """
    many = max(_AGREEMENT, math.ceil(4 / alpha))  # one may be as extreme as the labels
    p_values = attacked.p_values(seed, _AGREEMENT)
    if many == _AGREEMENT or p_values.min() > 1 / (1 + _AGREEMENT):
        return p_values
    return attacked.p_values(seed, many)


def _two_sample(attacked: Attacked, *, budget: str, alpha: float, seed: int) -> TwoSampleTest:
    """The two-sample test, of more permutations where few leave the verdict open, as above."""
    max_rows, usual = _TWO_SAMPLE[budget]
    # The cost grows with the classes: many of them get fewer rows, and still some of each.
    K = attacked.width
    max_rows = max(round(max_rows * min(1.0, (10 / K) ** 0.5)), 4 * K)
    many = max(
        usual, math.ceil(2 / alpha)
    )  # one extreme permutation is too many here: each takes long
    compare = partial(attacked.compare, random_state=seed)
    test = compare(max_rows=max_rows, n_permutations=usual)
    if many == usual or test.p_value > 1 / (1 + usual):
        return test
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return compare(max_rows=fewer_rows, n_permutations=many)
