"""Cells summed up over seeds, beside the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspot.bench.paper import paper_row_like, with_paper
from unspot.bench.tables import pick, study_of
from unspot.sweeps.tables import display_name, result_lines


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
    lines = {(line.method, line.rank): line for line in result_lines(frame)}
    assert list(lines) == [
        ("original", None),
        ("cascade", 42),
        ("cascade/kernels=2", 42),
        ("farm", None),
    ]
    assert lines["cascade", 42].values["probe_reference"] == pytest.approx((0.45, 0.05))
    assert lines["cascade", 42].n_seeds == 2
    assert set(lines["cascade", 42].values) == {"probe_reference"}


def test_failed_cells_leave_the_others(frame):
    farm = result_lines(frame)[-1]
    assert farm.errors == ("RuntimeError: no",)
    assert farm.number("probe_reference").value == 0.7
    assert farm.number("attack") is None


def test_the_papers_row_of_the_same_share(frame):
    lines = with_paper(result_lines(frame), "glove", 100)
    cascade = lines[1]
    assert paper_row_like("glove", "cascade", 42, 100).rank == 125
    assert cascade.published["probe_reference"] == (0.363, 0.005)  # its probe is the tables' one
    assert "probe" not in cascade.published
    assert "attack" not in cascade.published
    assert "1a" in cascade.published_in
    assert not lines[2].published  # its table of kernels does not have that rank
    assert not any(line.published for line in with_paper(result_lines(frame), None, 100))


def test_studies_of_the_paper_at_the_same_setting():
    assert paper_row_like("glove", "cascade/kernels=2", 50, 100).study == "kernels=2"
    assert paper_row_like("glove", "leopard/batch=full", 50, 100).study == "batch=full"
    assert paper_row_like("dial", "leopard/batch=full", 50, 300).study == "batch=8192"


def test_studies(frame):
    lines = result_lines(frame)
    assert [line.method for line in pick(lines, "kernels")] == ["cascade/kernels=2"]
    assert [line.method for line in pick(lines, "main", ["farm"])] == ["farm"]
    assert study_of("leopard/batch=512") == "batch"
    assert display_name("leopard/batch=512") == "L̄EOPARD, batch=512"
    assert display_name("something of mine") == "something of mine"
