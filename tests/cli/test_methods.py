"""unspot methods: the whole list for people and programs, and every name in it can be fitted."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unspot import load
from unspot import methods as listed
from unspot.erasers.registry import method

#: Enough to fit anything in a moment.
QUICK = {"n_epochs": 2, "n_iterations": 10, "n_rounds": 2, "n_landmarks": 20}
NAMES = [info.name for info in listed()]


def test_every_method_within_80_columns(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = cli("methods")
    assert done.code == 0
    first = [line.split()[0] for line in done.out.splitlines() if line and line[0] != " "]
    assert [name for name in first if name in NAMES] == NAMES
    assert max(map(len, done.out.splitlines())) <= 80


def test_marks_are_in_the_columns_of_their_facts(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    lines = cli("methods").out.splitlines()
    head = lines[0]
    leace = next(line for line in lines if line.startswith("leace"))
    kram = next(line for line in lines if line.startswith("kram"))
    for title in ("linear", "closed form", "streaming", "numbers"):
        at = slice(head.index(title), head.index(title) + len(title))
        assert "✓" in leace[at]
        assert ("✓" in kram[at]) == (title == "numbers")


def test_json_for_programs(cli):
    found = json.loads(cli("methods", "--json").out)
    assert [entry["name"] for entry in found] == NAMES
    for entry, info in zip(found, listed(), strict=True):
        assert entry["class"] == f"{info.cls.__module__}.{info.cls.__name__}"
        assert entry["linear"] is info.linear
        assert entry["concepts"] == list(info.concepts)


@pytest.mark.parametrize("name", [*NAMES, *(f"cascade:{n}" for n in NAMES if n != "cascade")])
def test_every_name_can_be_fitted(cli, table, rows, tmp_path, name):
    known = method(name.split(":")[-1]).parameters
    options = [x for k, v in QUICK.items() if k in known for x in ("--set", f"{k}={v}")]
    if "splince" in name:  # which is for a task
        whole = pq.read_table(table)
        task = pa.array(np.arange(len(whole)) // 2 % 2)
        pq.write_table(whole.append_column("job", task), table)
        options += ["--keep", "job"]
    out = tmp_path / "e.safetensors"
    done = cli("fit", table, "-c", "gender", "--method", name, *options, "-o", out)
    assert done.code == 0, done.err
    assert done.out.startswith("Erased 'gender' with ")
    eraser = load(out)
    assert eraser(rows[0]).shape == rows[0].shape
    assert np.isfinite(eraser(rows[0])).all()
    inner = eraser.metadata.get("inner", eraser.metadata)
    expected = "LEOPARD" if name == "cascade" else method(name.split(":")[-1]).cls.__name__
    assert inner["method"] == expected
