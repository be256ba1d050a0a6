"""Cells summed up over seeds, beside the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspot.bench.summary import display_name, lines, pick, study_of


@pytest.fixture
def frame():
    rows = [
        ("original", None, 0, 1.0, "ok", None),
        ("original", None, 1, 0.9, "ok", None),
        ("cascade", 42, 0, 0.4, "ok", None),
        ("cascade", 42, 1, 0.5, "ok", None),
        ("cascade/kernels=2", 42, 0, 0.3, "ok", None),
        ("farm", None, 0, np.nan, "failed", "RuntimeError: no"),
        ("farm", None, 1, 0.7, "ok", None),
    ]
    names = ["method", "rank", "seed", "probe_reference", "status", "error"]
    return pd.DataFrame(rows, columns=names).assign(dataset="words")


def test_means_and_spreads(frame):
    found = {(line.method, line.rank): line for line in lines(frame, "glove", 100)}
    assert list(found) == [
        ("original", None),
        ("cascade", 42),
        ("cascade/kernels=2", 42),
        ("farm", None),
    ]
    assert found["cascade", 42].values["probe_reference"] == pytest.approx((0.45, 0.05))
    assert found["cascade", 42].n_seeds == 2
    assert set(found["cascade", 42].values) == {"probe_reference"}


def test_failed_cells_leave_the_others(frame):
    farm = lines(frame, "glove", 100)[-1]
    assert farm.errors == ("RuntimeError: no",)
    assert farm.mean("probe_reference") == 0.7
    assert farm.mean("attack") is None


def test_the_papers_row_of_the_same_share(frame):
    found = lines(frame, "glove", 100)
    cascade = found[1]
    assert cascade.paper.rank == 125
    assert cascade.papers("probe_reference") == (0.363, 0.005)  # its probe is the tables' one
    assert cascade.papers("attack") is None
    assert found[2].paper is None  # its table of kernels does not have that rank
    assert all(line.paper is None for line in lines(frame, None, 100))


def test_studies_of_the_paper_at_the_same_setting():
    def one(method, rank, paper, n_features):
        cells = pd.DataFrame([{"method": method, "rank": rank, "status": "ok", "error": None}])
        return lines(cells, paper, n_features)[0].paper.study

    assert one("cascade/kernels=2", 50, "glove", 100) == "kernels=2"
    assert one("leopard/batch=full", 50, "glove", 100) == "batch=full"
    assert one("leopard/batch=full", 50, "dial", 300) == "batch=8192"  # its largest


def test_studies(frame):
    found = lines(frame, "glove", 100)
    assert [line.method for line in pick(found, "kernels")] == ["cascade/kernels=2"]
    assert [line.method for line in pick(found, "main", ["farm"])] == ["farm"]
    assert study_of("leopard/batch=512") == "batch"
    assert display_name("leopard/batch=512") == "L̄EOPARD, batch=512"
    assert display_name("something of mine") == "something of mine"
