"""The numbers at the top of the page, and the tables for a paper."""

import csv
import io
from dataclasses import replace

import pytest

from unspot.evaluation.results import Row, Value
from unspot.report.reading import read_contents
from unspot.report.tables import highlights, measure_groups, save_tables, to_csv, to_latex

LOGISTIC = Row(
    "task_linear", "Task accuracy, logistic", "share", Value(0.95), Value(0.87), "higher"
)


def test_the_task_is_told_by_the_logistic_regression_where_it_was_measured(make_evaluation):
    papers = make_evaluation()
    both = replace(papers, rows=(*papers.rows, LOGISTIC))
    first, second = (
        [number.title for number in highlights(read_contents(found))] for found in (papers, both)
    )
    assert "Task accuracy, the paper’s MLP (a_y)" in first
    assert "Task accuracy, logistic" in second
    assert "Task accuracy, the paper’s MLP (a_y)" not in second
    assert len(first) == len(second) == 4
    kept = dict(measure_groups(read_contents(both)))["What is kept"]
    assert {"Task accuracy, the paper’s MLP (a_y)", "Task accuracy, logistic"} <= {
        line.title for line in kept
    }


# -- CSV and LaTeX ---------------------------------------------------------------------------------


def test_csv_has_every_number_unrounded(make_evaluation):
    rows = list(csv.DictReader(io.StringIO(to_csv(read_contents(make_evaluation())))))
    (after,) = [
        row
        for row in rows
        if row["measure"] == "Probe accuracy" and row["representation"] == "LEOPARD"
    ]
    assert (float(after["value"]), float(after["spread"])) == (0.4, 0.02)
    attacks = [row for row in rows if row["measure"].startswith("attacker: ")]
    assert len(attacks) == 6
    assert all(float(row["low"]) < float(row["value"]) < float(row["high"]) for row in attacks)


def test_csv_leaves_undefined_numbers_out(make_evaluation):
    rows = list(csv.DictReader(io.StringIO(to_csv(read_contents(make_evaluation())))))
    gaps = [row for row in rows if row["measure"] == "TPR gap, RMS"]
    assert [row["representation"] for row in gaps] == ["before"]


def test_csv_quotes_names(make_evaluation):
    name = 'a "b", c\nd'
    rows = list(csv.DictReader(io.StringIO(to_csv(read_contents({name: make_evaluation()})))))
    assert name in {row["representation"] for row in rows}


def test_latex_escapes_names_and_closes_its_tables(make_evaluation):
    text = to_latex(read_contents({r"100 % \sure_of & $it$": make_evaluation()}))
    assert r"100 \% \textbackslash{}sure\_of \& \$it\$" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 2
    columns = {line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")}
    assert columns == {2}


def test_saves_both(tmp_path, make_evaluation):
    files = save_tables(tmp_path / "new", read_contents(make_evaluation()))
    assert [file.name for file in files] == ["tables.csv", "tables.tex"]
    assert all(file.stat().st_size for file in files)


@pytest.mark.parametrize("write", [to_csv, to_latex])
def test_a_path_alone_has_no_tables_and_no_error(write):
    from unspot.report.files import PathNumbers

    points = ({"rank": 2, "held_out": 0.1}, {"rank": 1, "held_out": 0.0})
    assert "nan" not in write(read_contents(PathNumbers("LEOPARD", points)))
