"""Cells summed up over seeds, and their tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from unspot.lab.sweeps.tables import (
    ResultLine,
    ResultTable,
    display_name,
    result_lines,
    sweep_contents,
    sweep_tables,
)


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


def test_a_seed_that_was_run_again_counts_once(frame):
    again = frame[frame.method == "cascade"].assign(probe_reference=[0.6, 0.8])
    line = result_lines(pd.concat([frame, again[:1]]))[1]
    assert line.values["probe_reference"] == pytest.approx((0.55, 0.05))  # of 0.6 and 0.5
    assert line.n_seeds == 2


def test_failed_cells_leave_the_others(frame):
    farm = result_lines(frame)[-1]
    assert farm.errors == ("RuntimeError: no",)
    assert farm.number("probe_reference").value == 0.7
    assert farm.number("attack") is None


def test_names_of_methods():
    assert display_name("leopard/batch=512") == "L̄EOPARD, batch=512"
    assert display_name("something of mine") == "something of mine"


def test_one_table_per_data_set(frame):
    table, other = sweep_tables(pd.concat([frame, frame.assign(dataset="tweets")]))
    assert (table.title, other.title) == ("words", "tweets")
    assert "| L̄EOPARD, cascaded | 42 | 45.0 ± 5.0 |" in table.to_markdown()


def test_metrics_without_a_title_keep_their_name():
    line = ResultLine("mine", None, 1, {"my_metric": (2.0, 0.0)})
    assert "my_metric" in ResultTable("t", "t", (line,), ("my_metric",)).to_markdown()


def test_the_page_is_about_what_attackers_read_least():
    rows = [("leace", None, 0.7), ("cascade", 8, 0.6), ("cascade", 4, 0.52), ("pca", None, 0.8)]
    cells = pd.DataFrame(rows, columns=["method", "rank", "attack"])
    whole = cells.assign(dataset="words", seed=0, status="ok", error=None)
    data = {"rows": [9, 9, 9], "features": 9, "chance": 0.5, "classes": 2, "fingerprint": ""}
    contents = sweep_contents(whole, [{"dataset": "words", "data": data}])
    assert contents.columns[contents.chosen].endswith("4")
    assert contents.reads_least
    assert not replace(contents, chosen=0).reads_least
    assert "middle rank" in contents.subtitle
    one_rank = sweep_contents(whole[whole["rank"] != 8])
    assert "middle rank" not in one_rank.subtitle
