"""The paper's numbers: whole, plausible, and found by the cells that they belong to."""

from __future__ import annotations

import math

import pytest

from unspot.bench.paper import paper_data, paper_row, paper_rows, same_share

SHARES = {"probe", "probe_binary", "task", "neighbours_paper", "tpr_gap", "demographic_parity"}


def test_every_table_is_there():
    tables = {row.table for row in paper_rows()}
    assert tables == {"1a", "1b", "1c", "2a", "2b", *map(str, range(3, 12))}
    assert {row.dataset for row in paper_rows()} == {"glove", "bios", "dial"}


def test_numbers_are_plausible():
    for row in paper_rows():
        assert row.values, row
        assert row.rank is None or 1 <= row.rank <= paper_data(row.dataset)["features"]
        for key, (mean, spread) in row.values.items():
            assert math.isfinite(mean), row
            assert spread is None or 0 <= spread < max(1.0, 0.5 * abs(mean)), (row, key)
            if key in SHARES:
                assert 0 <= mean <= 1, (row, key)


def test_tables_that_share_a_cell_agree():
    """Tables of the supplement repeat those of the text, up to one more digit or another run."""
    seen = {}
    for row in paper_rows():
        for key, (mean, _) in row.values.items():
            cell = (row.dataset, row.method, row.rank, row.study, key, row.cited)
            if key in SHARES and cell in seen:
                assert mean == pytest.approx(seen[cell], abs=0.03), cell
            seen.setdefault(cell, mean)


@pytest.mark.parametrize(
    ("cell", "key", "value"),
    [
        (("glove", "leopard", 75), "probe", (0.397, 0.004)),
        (("glove", "cascade", 125), "words", (0.64, None)),
        (("bios", "cascade", 150), "task", (0.655, 0.005)),
        (("dial", "kram", None), "mdl_paper", (330.3, None)),
        (("bios", "cascade", 350), "tpr_gap", (0.104, 0.007)),
    ],
)
def test_cells_of_the_text(cell, key, value):
    assert paper_row(*cell).values[key] == value


def test_a_cell_gathers_its_tables():
    row = paper_row("bios", "cascade", 50)
    assert {"1b", "2a"} <= set(row.table.split(", "))
    assert {"probe", "task", "tpr_gap", "mdl_paper"} <= set(row.values)
    assert (
        paper_row("glove", "inlp", None) is None or paper_row("glove", "inlp", None).cited is False
    )
    assert paper_row("glove", "cascade", 299) is None


def test_ranks_of_equal_share():
    assert same_share("glove", 150, 300) == 150
    assert same_share("glove", 151, 300) is None
    assert same_share("glove", 25, 100) == 75
    assert same_share("bios", 25, 384) == 50
