"""Paths and choices where the concept is a number, or several concepts."""

import numpy as np
import pytest

from unspot import Dataset, Eraser, certify
from unspot.choice.path import rank_path
from unspot.choice.selection import decidable
from unspot.datasets.synthetic import concept_law
from unspot.erasers.base import ANY_GOAL, BaseEraser


class LastCoordinates(BaseEraser):
    """Keep the last coordinates: of rows whose concept is in the first one."""

    takes = ANY_GOAL

    def __init__(self, rank=1):
        self.rank = rank

    def _fit_eraser(self, X, target):
        return Eraser.projection(np.eye(X.shape[1])[:, X.shape[1] - self.rank :])


def unrotated(name, **options):
    rows = concept_law(name, **options)
    basis = np.linalg.svd(rows.concept_basis)[0]
    return rows.X @ basis, rows.z  # the concept is in the first coordinate


@pytest.fixture(scope="module")
def path():
    X, z = unrotated("linear", n=1500, d=4)
    data = Dataset.from_arrays(X, z, random_state=0)
    return rank_path(LastCoordinates(), data, ranks=[4, 3, 1], metrics=["attack"], seeds=1)


def test_a_path_measures_r2(path):
    assert path[4].metrics["attack"][0] > 0.4
    assert path[3].metrics["attack"][0] < 0.05
    assert path[4].held_out > path[3].held_out


def test_the_largest_rank_that_explains_no_more_than_allowed(path):
    chosen = path.select(max_advantage=0.1, attackers=["ridge"])
    assert chosen.rank_ == 3
    assert chosen.selection_.met
    assert certify(chosen, path.unseen, attackers=["ridge"], margin=0.1).verdict == "HOLDS"


def test_what_rows_cannot_decide_is_raised_to_the_least_they_can(path):
    least = decidable(path.data.validation, 0.001)
    assert 0.01 < least < 0.1
    assert decidable(path.data.validation, None) >= 0.05
    assert decidable(path.data.validation, 0.2) == 0.2


def test_a_choice_holds_for_every_concept():
    X, z = unrotated("jointly", n=4000, d=3)
    data = Dataset.from_arrays(X, z, random_state=0)
    path = rank_path(LastCoordinates(), data, ranks=[3, 2], seeds=1)
    chosen = path.select(max_advantage=0.3, attackers=["logistic"], refit=False)
    assert chosen.rank_ == 3  # 14 points of the cells are allowed
    seen = path.select(max_advantage=0.12, attackers=["logistic"], refit=False)
    assert seen.rank_ == 2
