"""Studies: every grid can run, and finds the paper's rows by its labels."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from unspot import Dataset
from unspot.lab.bench.paper import paper_data, paper_row_like, study_of
from unspot.lab.bench.studies import SCHEDULES, STUDIES, studies


def rows(d):
    rng = np.random.default_rng(0)
    return Dataset.from_arrays(rng.normal(size=(60, d)), np.arange(60) % 2, random_state=0)


@pytest.mark.parametrize("effort", SCHEDULES)
@pytest.mark.parametrize(("paper", "d"), [("glove", 100), ("bios", 384), ("dial", 300), (None, 8)])
def test_every_grid_is_valid(effort, paper, d):
    data = rows(d)
    labels = []
    for study in studies(tuple(STUDIES), data, paper, SCHEDULES[effort]):
        assert list(study.ranks) == sorted(set(study.ranks), reverse=True)
        assert study.ranks
        assert all(1 <= rank <= d for rank in study.ranks)
        for estimator in study.methods.values():
            assert estimator is None or clone(estimator) is not None
        labels += study.methods
    assert len(set(labels)) == len(labels)  # no cell of one study is another's


@pytest.mark.parametrize("paper", ["glove", "bios", "dial"])
def test_labels_find_the_papers_rows(paper):
    """Every method that the paper has, at one of the benchmark's ranks at least."""
    features = paper_data(paper)["features"]
    found = {}
    for study in studies(("main", "batch", "kernels"), rows(features), paper, SCHEDULES["paper"]):
        for label in study.methods:
            ranks = (*study.ranks, None)
            found[label] = [paper_row_like(paper, label, rank, features) for rank in ranks]
    without = {label for label, rows in found.items() if not any(rows)}
    assert without <= {"inlp", "rlace", "cascade:farm", "cascade:kram", "cascade/kernels=10"}
    if paper != "glove":  # whose table of kernels ends at five
        assert "cascade/kernels=10" not in without


def test_methods_that_keep_a_task_run_where_there_is_one():
    X, z = np.zeros((60, 4)), np.arange(60) % 2
    data = Dataset.from_arrays(X, z, np.arange(60) % 3, random_state=0)
    (study,) = studies(["task"], data, None, SCHEDULES["standard"])
    assert set(study.methods) == {
        f"{n}:keep" for n in ("obliviator", "splince", "leopard", "cascade")
    }
    assert study.ranks == (3,)  # those of many dimensions are more
    without = studies(["main", "task"], rows(4), None, SCHEDULES["standard"])
    assert [study.name for study in without] == ["main"]
    with pytest.raises(ValueError, match=r"'task' .* these data have none\. Name the column"):
        studies(["task"], rows(4), None, SCHEDULES["standard"])


def test_ranks_for_a_task_are_low():
    X, z = np.zeros((60, 200)), np.arange(60) % 2
    data = Dataset.from_arrays(X, z, np.arange(60) % 3, random_state=0)
    (study,) = studies(["task"], data, None, SCHEDULES["standard"])
    assert study.ranks == (50, 25, 12, 6, 3)
    (study,) = studies(["task"], data, None, SCHEDULES["quick"])
    assert len(study.ranks) == 3


def test_labels_belong_to_their_study():
    for study in studies(tuple(STUDIES), rows(100), "glove", SCHEDULES["standard"]):
        names = {study_of(label) for label in study.methods}
        if study.name == "rivals":  # whose methods are listed with those of the field
            names.remove("main")
        assert names == {"main" if study.name in ("main", "field") else study.name}


def test_quick_is_less_than_standard_is_less_than_paper():
    quick, standard, paper = (SCHEDULES[name] for name in ("quick", "standard", "paper"))
    for lesser, greater in ((quick, standard), (standard, paper)):
        assert lesser.seeds <= greater.seeds
        assert lesser.max_rows <= greater.max_rows
        assert set(lesser.studies) <= set(greater.studies)


def test_ranks_of_ones_own():
    (study,) = studies(["main"], rows(10), None, SCHEDULES["quick"], [0.5, 2])
    assert study.ranks == (5, 2)


def test_unknown_studies_and_ranks():
    with pytest.raises(ValueError, match=r"Got study='mian', .*'kernels'.* Did you mean 'main'"):
        studies(["mian"], rows(10), None, SCHEDULES["quick"])
    with pytest.raises(ValueError, match=r"Got ranks 2, 5, 3, .* decreasing"):
        studies(["main"], rows(10), None, SCHEDULES["quick"], [2, 5, 3])
    with pytest.raises(ValueError, match=r"Got rank=11, .* from 1 to 10"):
        studies(["main"], rows(10), None, SCHEDULES["quick"], [11])
