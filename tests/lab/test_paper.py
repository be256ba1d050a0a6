"""The paper's numbers: whole, plausible, and found by their cells; and how our data differ."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspot.lab.bench.paper import (
    open_bench_data,
    paper_data,
    paper_row,
    paper_row_like,
    paper_rows,
    same_share,
    with_paper,
)
from unspot.lab.tables import ResultLine

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


def test_the_papers_row_of_the_same_share():
    ours = [ResultLine("cascade", 42, 2), ResultLine("cascade/kernels=2", 42, 1)]
    cascade, kernels = with_paper(ours, "glove", 100)
    assert paper_row_like("glove", "cascade", 42, 100).rank == 125
    assert cascade.published["probe_reference"] == (0.363, 0.005)  # its probe is the tables' one
    assert "probe" not in cascade.published
    assert "attack" not in cascade.published
    assert "1a" in cascade.published_in
    assert not kernels.published  # its table of kernels does not have that rank
    assert not any(line.published for line in with_paper(ours, None, 100))


def test_studies_of_the_paper_at_the_same_setting():
    assert paper_row_like("glove", "cascade/kernels=2", 50, 100).study == "kernels=2"
    assert paper_row_like("glove", "leopard/batch=full", 50, 100).study == "batch=full"
    assert paper_row_like("dial", "leopard/batch=full", 50, 300).study == "batch=8192"


# -- our data and the paper's --------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    z, y = np.tile(["f", "m"], 150), np.repeat(["nurse", "poet", "chef"], 100)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(300, 4)).astype(np.float16), z=z, y=y)
    return tmp_path / "rows.npz"


def test_the_bundled_words():
    opened = open_bench_data("glove")
    assert opened.paper == "glove"
    assert "Vectors of 100 dimensions; the paper's have 300" in opened.difference
    assert "rows; the paper has" not in opened.difference  # the same splits
    assert opened.about_paper.startswith("In brackets: the paper. Vectors of 100")


def test_a_file_alone_has_no_paper(file):
    opened = open_bench_data(str(file))
    assert opened.paper is None
    assert opened.difference == opened.about_paper == ""


def test_a_file_beside_the_paper_says_what_it_is(file):
    opened = open_bench_data("bios", source=file)
    assert opened.paper == "bios"
    assert "Rows of rows.npz, which are not the paper's." in opened.difference
    assert "largest batch has 8,192 rows; ours has all." in opened.difference
    assert "150 / 60 / 90 rows; the paper has 255,710 / 39,369 / 98,344." in opened.difference


def test_the_authors_folder_is_compared(file):
    file.rename(file.parent / "bios.npz")
    assert open_bench_data("bios", source=file.parent).paper == "bios"


def test_a_sample_of_the_training_rows_is_said(file):
    opened = open_bench_data(str(file), max_rows=40)
    assert len(opened.data.train) == 40
    assert "Fitted on 40 of 150 training rows." in opened.difference
    assert open_bench_data(str(file), max_rows=4000).difference == ""
