"""Records summarised over seeds, and their tables."""

from __future__ import annotations

import pytest

from unspot.lab.tables import ResultLine, ResultTable, display_name, result_lines, sweep_tables


def record(method, rank, seed, value=None, dataset="words"):
    if value is None:
        return {**record(method, rank, seed, 0), "metrics": {}, "error": "RuntimeError: no"}
    place = {"dataset": dataset, "method": method, "rank": rank, "seed": seed}
    return {**place, "metrics": {"probe_reference": value}}


RECORDS = [
    record("original", None, 0, 1.0),
    record("original", None, 1, 0.9),
    record("cascade", 42, 0, 0.4),
    record("cascade", 42, 1, 0.5),
    record("cascade/kernels=2", 42, 0, 0.3),
    record("farm", None, 0),
    record("farm", None, 1, 0.7),
]


def test_means_and_spreads():
    lines = {(line.method, line.rank): line for line in result_lines(RECORDS)}
    places = [("original", None), ("cascade", 42), ("cascade/kernels=2", 42), ("farm", None)]
    assert list(lines) == places
    assert lines["cascade", 42].values == {"probe_reference": pytest.approx((0.45, 0.05))}
    assert lines["cascade", 42].n_seeds == 2


def test_a_seed_that_was_run_again_counts_once():
    line = result_lines([*RECORDS, record("cascade", 42, 0, 0.6)])[1]
    assert line.values["probe_reference"] == pytest.approx((0.55, 0.05))  # of 0.6 and 0.5
    assert line.n_seeds == 2


def test_failed_cells_leave_the_others():
    farm = result_lines(RECORDS)[-1]
    assert farm.errors == ("RuntimeError: no",)
    assert farm.values["probe_reference"][0] == 0.7


def test_names_of_methods():
    assert display_name("leopard/batch=512") == "L̄EOPARD, batch=512"
    assert display_name("something of mine") == "something of mine"


def test_one_table_per_data_set():
    others = [{**r, "dataset": "tweets"} for r in RECORDS]
    table, other = sweep_tables([*RECORDS, *others])
    assert (table.title, other.title) == ("words", "tweets")
    assert "| L̄EOPARD, cascaded | 42 | 45.0 ± 5.0 |" in table.to_markdown()


def test_metrics_without_a_title_keep_their_name():
    line = ResultLine("mine", None, 1, {"my_metric": (2.0, 0.0)})
    assert "my_metric" in ResultTable("t", "t", (line,), ("my_metric",)).to_markdown()
