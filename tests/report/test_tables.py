"""The numbers at the top of the page."""

from dataclasses import replace

from unspot.evaluation.results import Row, Value
from unspot.report.reading import read_contents
from unspot.report.tables import highlights, measure_groups

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
