"""Evaluations as data and as tables: nothing lost on the way, nothing left unescaped."""

import dataclasses
import json

import pytest

from unspot.evaluation.evaluations import Evaluation, format_value
from unspot.evaluation.metrics import Row, Value

ROWS = (
    Row("probe", "Probe accuracy", "share", Value(0.9, 0.01), Value(1 / 3, 0.005), "lower"),
    Row("mdl", "MDL", "kbit", Value(0.5), Value(10.4567), "higher", "of 600 labels."),
    Row("odds", "A_50% & σ_{x}|y", "", Value(1.0), None, "none", "undefined."),
    Row("p", "p-value", "p", Value(0.005), Value(0.2)),
)
GAP = {"class": "f", "label": "Bäcker", "share": 0.3, "before": 0.2, "after": None}
FOUND = Evaluation("LEOPARD on words", ROWS, {"seeds": 5}, {"gaps": [GAP]})


def test_rows_by_key():
    assert FOUND["mdl"].after.mean == 10.4567
    assert "mdl" in FOUND
    assert "tpr" not in FOUND
    assert [row.key for row in FOUND] == ["probe", "mdl", "odds", "p"]
    assert len(FOUND) == 4
    with pytest.raises(KeyError, match="Got metric 'tpr', but this evaluation has: probe, mdl"):
        FOUND["tpr"]


def test_it_is_shown_in_a_line_and_in_notebooks_as_a_table():
    assert repr(FOUND) == (
        "<Evaluation of LEOPARD on words, 4 rows: Probe accuracy 90.0 ± 1.0 % → 33.3 ± 0.5 %; "
        "MDL 0.50 kbit → 10.5 kbit; A_50% & σ_{x}|y 1.000 → –>"
    )
    attack = Row("attack", "Strongest attacker", "share", Value(0.9), Value(0.6), "lower")
    told = "5 rows: Strongest attacker 90.0 % → 60.0 %>"
    assert repr(dataclasses.replace(FOUND, rows=(*ROWS, attack))).endswith(told)
    assert FOUND._repr_markdown_() == f"LEOPARD on words\n\n{FOUND.to_markdown()}"


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FOUND.name = "other"


def test_json_and_back():
    text = FOUND.to_json()
    assert Evaluation.from_json(text) == FOUND
    assert json.loads(text)["rows"][2]["after"] is None
    assert "Bäcker" in text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "x", "rows": [{}], "metadata": {}}'])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"Got text that is no evaluation .* Evaluation\.to_json"):
        Evaluation.from_json(text)


def test_frame_has_a_line_for_each_metric():
    frame = FOUND.to_frame()
    assert list(frame.index) == ["probe", "mdl", "odds", "p"]
    assert frame.loc["probe", "before_spread"] == 0.01
    assert frame.loc["mdl", "after"] == 10.4567
    assert frame["after"].isna().tolist() == [False, False, True, False]
    assert frame.loc["mdl", "note"] == "of 600 labels."


def test_without_pandas_the_way_out_is_said(monkeypatch):
    monkeypatch.setattr("unspot.checks.find_spec", lambda module: None)
    with pytest.raises(ImportError, match=r'to_frame.*pandas.*pip install "unspot\[report\]"'):
        FOUND.to_frame()


def test_markdown_is_a_table_and_notes():
    lines = FOUND.to_markdown().splitlines()
    assert lines[2] == "| Probe accuracy ↓ | 90.0 ± 1.0 % | 33.3 ± 0.5 % |"
    assert lines[3] == "| MDL ↑ | 0.50 kbit | 10.5 kbit |"
    assert all(line.count("|") == 4 for line in lines[:6])
    assert lines[6:] == ["", "- MDL: of 600 labels.", "- A_50% & σ_{x}|y: undefined."]
    assert str(FOUND).startswith("LEOPARD on words\n\n| Metric ")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (Value(0.12345), "share", "12.3 %"),
        (Value(0.0049), "p", "0.005"),
        (Value(-0.5, 0.1), "", "-0.500 ± 0.100"),
        (None, "kbit", "–"),
    ],
)
def test_numbers_as_tables_show_them(value, unit, text):
    assert format_value(value, unit) == text


def test_html_is_written(tmp_path):
    page = FOUND.to_html(tmp_path / "page.html", title="Words without gender")
    assert "Words without gender" in page.read_text(encoding="utf-8")
