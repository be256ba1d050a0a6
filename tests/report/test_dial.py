"""The dial of a path: its stops, the rows on its maps, and what a page writes at each stop."""

from dataclasses import replace

import numpy as np
import pytest

from unspot import Eraser
from unspot.report.charts import charts, dial_attackers_chart
from unspot.report.dial import make_dial_rows
from unspot.report.files import PathNumbers
from unspot.report.html import dial_texts, render
from unspot.report.reading import read_contents
from unspot.report.tables import dial_table


def turned(degrees):
    """An eraser that erases nothing: it turns the first two axes and mirrors the second."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    R = np.eye(6)
    R[:2, :2] = [[c, -s], [s, c]]
    R[1] *= -1
    return lambda X: X @ R


def test_stops_go_from_the_fewest_dimensions_to_all(make_path):
    dial = read_contents(make_path((5, 3, 1)), chosen_rank=3).dial
    assert [stop.name for stop in dial.stops] == ["rank 1", "rank 3", "rank 5", "no erasure"]
    assert (dial.start, dial.chosen) == (1, 1)
    assert dial.chance == pytest.approx(1 / 3)
    assert [measure.key for measure in dial.measures] == ["attack", "neighbours"]
    assert [stop.numbers[0].value for stop in dial.stops] == pytest.approx([0.4, 0.6, 0.8, 0.9])


def test_without_a_choice_it_starts_at_the_largest_rank(make_path):
    dial = read_contents(make_path()).dial
    assert dial.stops[dial.start].rank == 5
    assert dial.chosen is None


def test_a_path_that_nobody_measured_has_no_dial():
    points = tuple({"rank": r, "held_out": 0.01 * r} for r in (5, 3))
    assert read_contents(PathNumbers("LEOPARD", points)).dial is None


def test_its_json_gives_the_same_dial(make_path):
    from unspot.io.records import parse

    path = make_path()
    again = PathNumbers.from_dict({"format": "unspot-path/1", **parse(path.to_json())})
    assert read_contents(again) == read_contents(path)


def test_maps_that_differ_by_a_rotation_lie_on_each_other(rows):
    found = make_dial_rows([turned(50), None], rows, max_points=80)
    first, second = (np.column_stack([m.x, m.y]) for m in found.maps)
    assert np.abs(first - second).max() <= 0.02
    assert len(found.codes) == len(first) <= 81


def test_nearest_rows_are_those_of_brute_force(rows):
    found = make_dial_rows([None], rows, n_queries=3, n_nearest=4)
    X = rows.validation.X / np.linalg.norm(rows.validation.X, axis=1, keepdims=True)
    names = list(rows.validation.names)
    for (name, _), nearest in zip(found.queries, found.nearest[0], strict=True):
        similar = X @ X[names.index(name)]
        expected = [names[i] for i in np.argsort(-similar) if names[i] != name][:4]
        assert [row for row, _ in nearest] == expected
    assert {code for _, code in found.queries} == {0, 1, 2}  # one of every class


def test_rows_without_names_have_numbers(rows):
    nameless = replace(rows, validation=replace(rows.validation, names=None))
    found = make_dial_rows([None], nameless)
    assert found.names is None
    assert all(name.startswith("row ") for name, _ in found.queries)


def test_many_rows_are_sampled_and_the_page_stays_small(dial_contents):
    n, rows = 600, dial_contents.dial.rows
    points = replace(rows.maps[0], x=(1.23,) * n, y=(-1.23,) * n)
    names = tuple(f"a rather long word or document id {i}" for i in range(n))
    full = replace(rows, codes=(0,) * n, names=names, maps=(points,) * 4)
    dial = replace(dial_contents.dial, rows=full)
    without = render(replace(dial_contents, dial=replace(dial, rows=None)))
    assert len(render(replace(dial_contents, dial=dial))) - len(without) < 150_000


def test_every_stop_has_its_words(dial_contents):
    texts = dial_texts(dial_contents.dial)
    assert [stop["name"] for stop in texts["stops"]] == [
        "Rank 1 of 6",
        "Rank 3 of 6, chosen",
        "Rank 5 of 6",
        "No erasure",
    ]
    assert "Strongest attacker 60.0 %" in texts["stops"][1]["spoken"]
    assert all(len(stop["nearest"]) == len(texts["queries"]) for stop in texts["stops"])


def test_the_table_begins_with_the_original_rows(dial_contents):
    table = dial_table(dial_contents.dial)
    assert [row[0] for row in table] == ["no erasure", "rank 5", "rank 3, chosen", "rank 1"]
    assert table[0][1:] == ("90.0 %", "1.000")


def test_the_axis_holds_chance_and_every_stop(make_path):
    dial = read_contents(make_path()).dial
    spec = dial_attackers_chart(dial)
    (low, high) = spec["layer"][-1]["encoding"]["x"]["scale"]["domain"]
    ends = [end for row in spec["data"]["values"] for key in ("low", "high") for end in row[key]]
    assert low < min(dial.chance, *ends)
    assert high >= min(1.0, max(ends))


def test_a_page_from_json_alone_has_a_dial_without_rows(make_path):
    contents = read_contents(make_path())
    assert set(charts(contents, None)) == {"dial-attackers", "tradeoff"}
    text = render(contents)
    assert 'type="range"' in text
    assert "dial-map" not in text.split('<section id="dial">')[1].split("</section>")[0]


def test_a_real_path_keeps_its_attackers_and_the_original_rows(rows):
    from unspot import rank_path
    from unspot.erasers import PCAProjection

    path = rank_path(PCAProjection(), rows, ranks=[4, 2], metrics=["attack"], seeds=1)
    names = [a["name"] for a in path[4].attackers]
    assert names
    whole = path.with_original()
    best = max(a["balanced_accuracy"] for a in whole.original.attackers)
    assert whole.original.metrics["attack"][0] == pytest.approx(best)
    dial = read_contents(whole).dial
    assert dial.stops[-1].original
    assert {a.attacker for a in dial.stops[0].attacks} == {
        a.attacker for a in dial.stops[-1].attacks
    }
    assert isinstance(path[4].eraser, Eraser)
