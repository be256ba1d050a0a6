"""Certify an eraser on held-out rows: which rows those are, how they are attacked, what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspot.checks import check_choice
from unspot.data.dataset import (
    MAX_SEEN,
    MAX_SHARED,
    Dataset,
    Split,
    refuse_continuous,
    share_among,
    share_fitted_on,
)
from unspot.data.labels import Labels, encode
from unspot.data.rows import generator, refuse_extreme
from unspot.evaluation.attackers import AttackResult, attack_codes, rows_needed
from unspot.evaluation.certificate import AttackerReport, Certificate
from unspot.evaluation.inference import (
    agreement_p_values,
    balanced_interval,
    detectable_advantage,
    effective_rows,
    recalls,
)
from unspot.evaluation.problem import erased_rows
from unspot.evaluation.results import eraser_facts
from unspot.machine import versions

if TYPE_CHECKING:
    from unspot.evaluation.two_sample import TwoSampleTest

__all__ = ["certify"]

#: The split that attackers learn from.
SPLIT_OF = {"unseen": "validation", "seen": "train"}

#: With fewer test rows not even a perfect attacker is told from luck with certainty.
MIN_TEST_ROWS = 30

#: Rows and permutations of the two-sample test.
_TWO_SAMPLE = {"quick": (1_000, 200), "standard": (4_000, 200), "thorough": (8_000, 1_000)}

#: Permutations of the labels under the attackers' guesses.
_AGREEMENT = 999

#: Rows times permutations times classes of a two-sample test for a small alpha, about 1 GB: of
#: more permutations, fewer rows.
_MAX_PERMUTED = 2**25

#: Below, the tests would need more than 20,000 permutations.
_SMALLEST_ALPHA = 1e-4


def certify(
    eraser: Any,
    data: Dataset,
    *,
    attackers: Sequence[str] | None = None,
    budget: str = "standard",
    alpha: float = 0.05,
    attack_rows: Literal["unseen", "seen"] = "unseen",
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
        Nine, thirteen or sixteen attackers, and how hard they try.
    alpha : float
        Probability of a false alarm, for everything in the certificate together; at least 0.0001.
    attack_rows : "unseen" or "seen"
        Attackers learn from ``data.validation``, which the eraser was not fitted on; or from
        ``data.train``, which it was: more rows as a rule, but they look cleaner than new ones.
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

    Examples
    --------
    >>> from unspot import Dataset, Eraser, certify
    >>> from unspot.datasets.synthetic import law
    >>> rows = law("mean", n=2000, d=5)
    >>> data = Dataset.from_arrays(rows.X, rows.z, random_state=0)
    >>> certify(None, data, budget="quick").leaks
    True
    >>> rest = np.linalg.svd(rows.concept_basis)[0][:, 1:]
    >>> certify(Eraser.projection(rest), data, budget="quick").leaks
    False
    """
    _check_alpha(alpha)
    check_choice("budget", budget, tuple(_TWO_SAMPLE))
    labels, test_labels = _held_out_labels(eraser, data, attack_rows)
    X, X_test = erased_rows(eraser, data, SPLIT_OF[attack_rows], "test")
    seeds = generator(random_state).integers(2**31, size=3)
    results = attack_codes(
        X,
        labels,
        X_test,
        test_labels.codes,
        budget=budget,
        attackers=attackers,
        random_state=int(seeds[0]),
        verbose=verbose,
    )
    two_sample = _two_sample(X_test, test_labels, budget, alpha, int(seeds[1]))
    p_values = _agreement(results, test_labels.codes, alpha, int(seeds[2]))
    counts, n_attackers = test_labels.counts, len(results)
    chance = 1 / len(counts)
    n_effective = int(effective_rows(counts))
    return Certificate(
        leaks=bool(p_values.min() <= alpha / 2 or two_sample.p_value <= alpha / 2),
        attackers=tuple(
            _report(result, float(p_value), test_labels, alpha / n_attackers)
            for result, p_value in zip(results, p_values, strict=True)
        ),
        attack_p_value=float(p_values.min()),
        p_value=two_sample.p_value,
        detectable=detectable_advantage(chance, n_effective, alpha / (2 * n_attackers)),
        majority=float(counts.max() / len(test_labels)),
        alpha=alpha,
        n_classes=len(counts),
        n_attack_rows=results[0].n_rows,
        n_test_rows=len(test_labels),
        attack_rows=attack_rows,
        budget=budget,
        metadata=_metadata(eraser, data, random_state),
    )


def _report(result: AttackResult, p_value: float, labels: Labels, alpha: float) -> AttackerReport:
    chance = 1 / len(labels.classes)
    shares = recalls(result.guesses, labels.codes, len(labels.classes))
    low, high = balanced_interval(shares, labels.counts, alpha)
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
    seed = int(random_state) if isinstance(random_state, (int, np.integer)) else None
    return {
        "eraser": eraser_facts(eraser),
        "data": data.name,
        "n_features": data.n_features,
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
    results: Sequence[AttackResult], codes: NDArray[np.int64], alpha: float, seed: int
) -> NDArray[np.float64]:
    """The attackers' p-values, of more permutations where few leave the verdict open.

    A first p-value above the smallest possible one stands: it is above half of alpha too. So the
    second look can only take back what the first one found, and the level holds.
    """
    predicted = [r.probabilities for r in results], [r.guesses for r in results]
    many = max(_AGREEMENT, math.ceil(4 / alpha))  # one may be as extreme as the labels
    p_values = agreement_p_values(*predicted, codes, seed, n_permutations=_AGREEMENT)
    if many == _AGREEMENT or p_values.min() > 1 / (1 + _AGREEMENT):
        return p_values
    return agreement_p_values(*predicted, codes, seed, n_permutations=many)


def _two_sample(
    X: NDArray[Any], labels: Labels, budget: str, alpha: float, seed: int
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
    test = compare_laws(X, labels, max_rows=max_rows, n_permutations=usual, random_state=seed)
    if many == usual or test.p_value > 1 / (1 + usual):
        return test
    fewer_rows = max(min(max_rows, _MAX_PERMUTED // (many * K)), 4 * K)
    return compare_laws(X, labels, max_rows=fewer_rows, n_permutations=many, random_state=seed)


# -- which rows ------------------------------------------------------------------------------------


def _held_out_labels(eraser: Any, data: Any, attack_rows: str) -> tuple[Labels, Labels]:
    """Labels of the rows to learn from and to judge on: every class in both, new to the eraser."""
    if not isinstance(data, Dataset):
        raise ValueError(
            f"Got data of type {type(data).__name__}, but expected a Dataset. Make one with "
            "Dataset.from_arrays(X, z)."
        )
    check_choice("attack_rows", attack_rows, tuple(SPLIT_OF))
    names = SPLIT_OF[attack_rows], "test"
    splits = [getattr(data, name) for name in names]
    for name, split in zip(names, splits, strict=True):
        refuse_continuous(split.z)
        refuse_extreme(np.asarray(split.X))  # before hashes of the rows are taken
        if len(split) == 0:
            raise ValueError(f"Got no rows in the {name} split, but expected some to certify on.")
    # As objects, so that the label "1" and the label 1 are not made one.
    both = encode(np.concatenate([np.asarray(split.z, dtype=object) for split in splits]))
    parts = np.split(both.codes, [len(splits[0])])
    labels, test_labels = (Labels(codes, both.classes) for codes in parts)
    _refuse_missing_class(labels, names[0])
    _refuse_missing_class(test_labels, "test")
    _refuse_too_few(labels, test_labels, names[0])
    _refuse_shared(data.test, splits[0], names[0])
    _refuse_fitted_on(eraser, data.test, test_labels, "test")
    if attack_rows == "unseen":
        _refuse_fitted_on(eraser, splits[0], labels, names[0])
    return labels, test_labels


def _refuse_missing_class(labels: Labels, name: str) -> None:
    missing = labels.classes[labels.counts == 0]
    if len(missing):
        raise ValueError(
            f"Got no row of class {missing[0]!s} in the {name} split, but expected every class in "
            "it. Split the rows stratified, as Dataset.from_arrays does."
        )


def _refuse_too_few(labels: Labels, test_labels: Labels, name: str) -> None:
    n_classes = len(labels.classes)
    needed = rows_needed(n_classes)
    if len(labels) < needed:
        raise ValueError(
            f"Got {len(labels)} rows in the {name} split, but attackers need at least {needed} to "
            f"learn {n_classes} classes. Give more rows, or set attack_rows='seen'."
        )
    if len(test_labels) < MIN_TEST_ROWS:
        raise ValueError(
            f"Got {len(test_labels)} rows in the test split, but a certificate needs at least "
            f"{MIN_TEST_ROWS}."
        )
    fewest = int(np.argmin(test_labels.counts))
    if test_labels.counts[fewest] < 2:
        raise ValueError(
            f"Got 1 row of class {labels.classes[fewest]!s} in the test split, but expected at "
            "least 2 rows of every class. Add rows, or merge it with another class."
        )


def _refuse_shared(test: Split, learn: Split, name: str) -> None:
    share = share_among(test, learn)
    if share > MAX_SHARED:
        raise ValueError(
            f"Got {100 * share:.0f} % of the test split in the {name} split too, but expected "
            "other rows to learn from: what was learned by heart is no evidence. Split the rows, "
            "as Dataset.from_arrays does."
        )


def _refuse_fitted_on(eraser: Any, split: Split, labels: Labels, name: str) -> None:
    share = share_fitted_on(eraser, split, labels)
    if share > MAX_SEEN:
        part = "" if share == 1 else f"about {100 * share:.0f} % of "
        raise ValueError(
            f"Got an eraser that was fitted on {part}the {name} split, but expected one fitted on "
            "other rows: on its own rows every eraser looks good."
        )
