"""Tables as Markdown, LaTeX and CSV: the same numbers, the paper's in brackets."""

from __future__ import annotations

import csv
import io

import pytest

from unspot.lab.bench.paper import paper_tables, pick, study_of
from unspot.lab.tables import ResultLine, latex, latex_text, to_csv

PAPER = {"published": {"probe_reference": (0.363, 0.005)}, "published_in": "1a, 3"}


@pytest.fixture
def lines():
    values = {"probe_reference": (0.35, 0.012), "attack": (0.5, 0.0), "mdl_paper": (12.34, 0.1)}
    return [
        ResultLine("original", None, 2, {"probe_reference": (0.999, 0.0), "attack": (1.0, 0.0)}),
        ResultLine("farm", None, 1, errors=("RuntimeError: no",)),
        ResultLine("cascade", 50, 2, {"attack": (0.6, 0.0)}),
        ResultLine("cascade", 42, 2, values, **PAPER),
        ResultLine("cascade", 20, 2, {"attack": (0.4, 0.0)}),
        ResultLine("cascade/kernels=2", 42, 1, {"attack": (0.5, 0.0), "task": (0.9, 0.0)}),
    ]


def test_the_papers_paper_tables(lines):
    made = {table.name: table for table in paper_tables(lines)}
    assert set(made) == {"erasure", "by-rank", "kernels"}  # no task in the main study, no batches
    first = [(line.method, line.rank) for line in made["erasure"].lines]
    assert first == [("original", None), ("farm", None), ("cascade", 42)]  # the paper's rank
    assert len(made["by-rank"].lines) == 5
    assert [column.key for column in made["kernels"].columns] == ["attack", "task"]


def test_without_the_paper_the_first_table_has_the_middle_rank(lines):
    ours = [line for line in lines if line.rank != 42]
    (shown,) = [line for line in paper_tables(ours)[0].lines if line.method == "cascade"]
    assert shown.rank == 20


def test_markdown(lines):
    head, rule, *rows = paper_tables(lines)[0].to_markdown().splitlines()
    assert head.split(" | ")[2:4] == ["a_z, % ↓", "strongest attacker, % ↓"]
    assert rule.startswith("|:--|--:|")
    assert rows[0].startswith("| original | – | 99.9 ± 0.0 | 100.0 ± 0.0 |")
    assert rows[1].startswith("| FaRM | – | failed | failed |")
    assert rows[2].startswith(
        "| L̄EOPARD, cascaded | 42 | 35.0 ± 1.2 (36.3) | 50.0 ± 0.0 | 12.3 ± 0.1"
    )
    assert len({row.count("|") for row in (head, rule, *rows)}) == 1


def test_one_seed_has_no_spread(lines):
    assert "| 50.0 | 90.0 |" in paper_tables(lines)[-1].to_markdown()


def test_latex_escapes_and_balances(lines):
    text = paper_tables(lines)[0].to_latex()
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    body = [row for row in text.splitlines() if row.endswith(r"\\")]
    assert len({row.count(" & ") for row in body}) == 1
    assert r"a\_z, \% $\downarrow$" in text
    assert r"35.0 $\pm$ 1.2 (36.3)" in text
    assert r"$\overline{\mathrm{L}}$EOPARD" in text
    assert not set("↓↑±–σ") & set(text)


def test_csv_has_all_digits_and_the_paper(lines):
    rows = list(csv.DictReader(io.StringIO(to_csv(paper_tables(lines)))))
    cell = next(r for r in rows if r["rank"] == "42" and r["metric"] == "probe_reference")
    assert float(cell["mean"]) == 0.35
    assert float(cell["spread"]) == 0.012
    assert (cell["paper_mean"], cell["paper_spread"]) == ("0.363", "0.005")
    assert cell["paper_table"] == "1a, 3"
    assert {r["table"] for r in rows} == {"erasure", "by-rank", "kernels"}
    assert not [r for r in rows if r["method"] == "farm"]


def test_studies(lines):
    assert [line.method for line in pick(lines, "kernels")] == ["cascade/kernels=2"]
    assert {line.method for line in pick(lines, "main")} == {"original", "farm", "cascade"}
    assert study_of("leopard/batch=512") == "batch"


def test_latex_escapes_its_cells():
    lines = latex(
        [["method", "accuracy ↓"], ["L̄EOPARD", "42.7 ± 0.5 %"], ["a|b_c", "–"]]
    ).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert r"accuracy $\downarrow$ \\" in lines[2]
    assert r"$\overline{\mathrm{L}}$EOPARD & 42.7 $\pm$ 0.5 \% \\" in lines
    assert r"a|b\_c & -- \\" in lines


@pytest.mark.parametrize("sign", "&%$#_{}~^<>\\")
def test_no_sign_of_latex_is_left_bare(sign):
    assert latex_text(sign) != sign
    assert latex_text(f"a {sign} b").startswith("a \\")
