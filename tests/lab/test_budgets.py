"""The leak at a utility budget: the best setting within it, over all studies of a file."""

from __future__ import annotations

import pytest

from unspot.lab.bench.budgets import budget_tables
from unspot.lab.bench.figures import frontier_figure
from unspot.lab.tables import ResultLine


def line(method, attack, task, rank=None, n_seeds=1):
    values = {"attack": (attack, 0.01), "task": (task, 0.0), "neighbours": (task, 0.0)}
    return ResultLine(method, rank, n_seeds, values)


@pytest.fixture
def lines():
    return [
        line("original", 0.95, 0.90),
        line("leace", 0.90, 0.90),
        line("cascade", 0.80, 0.895, 90),
        line("cascade", 0.65, 0.86, 50),
        line("cascade/kernels=2", 0.55, 0.84, 50),
        line("mute/layers=6", 0.70, 0.88),
        line("mute/layers=12", 0.72, 0.87),  # worse in both: never chosen
        line("farm", 0.52, 0.50),
    ]


def leaks(table, method):
    return [
        None if line is None else round(line.values["attack"][0] - table.chance, 3)
        for line in table.leaks[method]
    ]


def test_the_best_setting_within_each_budget(lines):
    table, _ = budget_tables(lines, chance=0.5)
    assert leaks(table, "leace") == [0.4, 0.4, 0.4, 0.4]
    assert leaks(table, "cascade") == [0.3, 0.3, 0.15, 0.05]  # all its ranks and settings
    assert leaks(table, "mute") == [None, 0.2, 0.2, 0.2]
    assert leaks(table, "farm") == [None] * 4
    assert list(table.leaks) == ["cascade", "mute", "leace", "farm"]  # the best first
    assert "original" not in table.leaks


def test_neighbours_have_larger_budgets_too(lines):
    _, neighbours = budget_tables(lines, chance=0.5)
    assert neighbours.utility == "neighbours"
    assert len(neighbours.leaks["farm"]) == 6
    assert leaks(neighbours, "farm")[-1] is None


def test_as_text(lines):
    table = budget_tables(lines, chance=0.5)[0]
    head, _, first, *_, last = table.to_markdown().splitlines()
    assert head == ("| method | ≤ 1 | ≤ 3 | ≤ 5 | ≤ 10 | at the last budget |")
    assert first == "| L̄EOPARD, cascaded | +30.0 | +30.0 | +15.0 | +5.0 | kernels=2, rank 50 |"
    assert last == "| FaRM | – | – | – | – | – |"
    assert r"$\leq$ 1 &" in table.to_latex()
    several = budget_tables([lines[0], line("leace", 0.9, 0.9, n_seeds=3)], chance=0.5)[0]
    assert "| +40.0 ± 1.0 |" in several.to_markdown()


def test_without_the_original_there_is_no_budget(lines):
    assert budget_tables(lines[1:], chance=0.5) == []
    assert budget_tables([], chance=0.5) == []


def test_the_frontier_has_one_curve_per_method(lines):
    figure = frontier_figure(lines, 0.5)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["LEACE", "L̄EOPARD, cascaded", "MUtE", "FaRM"]
    assert frontier_figure(lines[:1], 0.5) is None
