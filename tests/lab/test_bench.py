"""The whole benchmark on a few rows: cells, tables and figures, and going on after a stop."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from unspot.erasers.leace import LEACE
from unspot.lab.bench import bench
from unspot.lab.bench.studies import Schedule
from unspot.lab.sweep import read_results

pytestmark = pytest.mark.halvings
TINY = Schedule(2, 2, 300, 2, 2, 1, "quick", ("main", "kernels", "batch", "solver"))
METHODS = [
    *("original", "leace", "farm", "leopard", "cascade"),
    *("cascade/kernels=2", "cascade/batch=512", "cascade/solver=paper-short"),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    rng = np.random.default_rng(0)
    z, y = rng.integers(2, size=300), rng.integers(3, size=300)
    X = rng.normal(size=(300, 8))
    X[z == 1, 0] += 2
    X[z == 1, 1] *= 3
    X[:, 2] += 2 * y
    path = tmp_path_factory.mktemp("bench") / "rows.npz"
    np.savez(path, X=X, z=np.where(z == 1, "SAE", "AAE"), y=y)
    return path


@pytest.fixture(scope="module")
def result(file):
    options = {"effort": TINY, "ranks": [6, 3], "methods": METHODS, "out": file.parent / "out"}
    return bench("dial", source=file, seeds=1, **options)


def test_every_cell_once(result):
    assert {record["status"] for record in result.records} == {"ok"}
    places = [(record["method"], record["rank"]) for record in result.records]
    assert len(set(places)) == len(places)
    assert {method for method, _ in places} == set(METHODS)
    assert ("cascade", 6) in places
    assert [rank for method, rank in places if method == "cascade/kernels=2"] == [3]
    wanted = {"attack", "probe_reference", "mdl_paper", "mdl", "neighbours", "task", "tpr_gap"}
    assert all(wanted <= set(record["metrics"]) for record in result.records)


def test_erasure_erases(result):
    attack = {line.method: line.values["attack"][0] for line in result.lines}
    assert attack["cascade"] < attack["original"]


def test_tables_have_both_sides(file, result):
    text = (file.parent / "out" / "tables.md").read_text(encoding="utf-8")
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert [title.split(" (")[0] for title in titles] == [
        "## Erasure",
        "## Fairness of the task",
        "## By rank",
        "## Batch size",
        "## Number of kernels",
        "## Solver",
        "## Leak at a utility budget: task, logistic, %",
        "## Leak at a utility budget: a_y, %",
        "## Leak at a utility budget: A_50% held out",
    ]
    assert "In brackets: the paper. Rows of rows.npz, which are not the paper's." in text
    assert "(88.0)" in text  # its probe without erasure
    latex = (file.parent / "out" / "tables.tex").read_text(encoding="utf-8")
    assert latex.count("\\begin{tabular}") == len(titles)
    with (file.parent / "out" / "tables.csv").open(encoding="utf-8") as table:
        assert any(row["paper_mean"] for row in csv.DictReader(table))


def test_figures(result):
    names = {path.name for path in result.files if path.parent.name == "figures"}
    for figure in ("2-map", "3-mdl", "3-mdl-of-the-paper", "3-attacker", "4-gaps", "frontier"):
        assert {f"figure-{figure}.png", f"figure-{figure}.pdf"} <= names
    for path in result.files:
        head = path.read_bytes()[:8]
        assert path.suffix != ".png" or head == b"\x89PNG\r\n\x1a\n"
        assert path.suffix != ".pdf" or head.startswith(b"%PDF")


def test_going_on_after_a_stop(result, file, tmp_path):
    lines = (file.parent / "out" / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:-3]) + lines[-1][:20])
    options = {"effort": TINY, "ranks": [6, 3], "methods": METHODS, "figures": False}
    again = bench("dial", source=file, seeds=1, out=tmp_path, resume=True, **options)
    before = read_results(file.parent / "out" / "results.jsonl")[:-3]
    assert read_results(tmp_path / "results.jsonl")[: len(before)] == before
    for now, earlier in zip(again.records, result.records, strict=True):
        assert (now["method"], now["rank"]) == (earlier["method"], earlier["rank"])
        assert now["metrics"] == earlier["metrics"]


def test_a_cell_that_fails_is_said(file, tmp_path, monkeypatch):
    def broken(self, X, goal):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(LEACE, "_fit_goal", broken)
    options = {"effort": TINY, "ranks": [3], "seeds": 1, "figures": False, "out": tmp_path}
    result = bench(str(file), methods=["original", "leace"], **options)
    assert [record["status"] for record in result.records] == ["ok", "failed"]
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "## Cells that failed\n\n- LEACE: RuntimeError: out of luck" in text


def test_without_a_folder_nothing_is_written(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = bench(str(file), effort=TINY, ranks=[3], seeds=1, methods=["leace"])
    assert len(result.records) == 1
    assert not result.files
    assert not list(tmp_path.iterdir())


def test_wrong_efforts_and_methods(file):
    with pytest.raises(ValueError, match=r"Got effort='fast', .*'quick', 'standard' or"):
        bench(str(file), effort="fast")
    with pytest.raises(ValueError, match=r"Got method='leopart', .* Did you mean 'leopard'"):
        bench(str(file), effort=TINY, methods=["leopart"])


def test_the_command(cli, file, tmp_path):
    options = ("--effort", "quick", "--no-figures", "--methods", "original,leace", "--studies",
               "main", "-o", tmp_path / "out")  # fmt: skip
    done = cli("lab", "bench", file, *options)
    assert done.code == 0, done.err
    assert "Erasure (Table 1)" in done.out
    assert str(tmp_path / "out" / "tables.tex") in done.out
    assert re.search("2 results already.*--resume", cli("lab", "bench", file, *options).err)
    assert "no folder for 'bios'" in cli("lab", "bench", "bios", "--no-figures").err
