"""The whole benchmark on a few rows: cells, tables, figures and page, and going on after a stop."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from unspot.io.journal import read_journal
from unspot.lab.bench import bench, output
from unspot.lab.bench.figures import gap_contents
from unspot.lab.bench.studies import Schedule

TINY = Schedule(2, 2, 300, 2, 2, 1, "quick", ("main", "kernels", "batch", "solver"))
METHODS = [
    "original",
    "leace",
    "farm",
    "leopard",
    "cascade",
    "cascade/kernels=2",
    "cascade/batch=512",
    "cascade/solver=paper-short",
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
    out = file.parent / "out"
    options = {"effort": TINY, "ranks": [6, 3], "methods": METHODS, "out": out}
    return bench("dial", source=file, seeds=1, **options)


@pytest.fixture(scope="module")
def out(result):
    return result.files[0].parent


def test_every_cell_once(result):
    frame = result.frame
    assert (frame["status"] == "ok").all(), frame["error"].dropna().tolist()
    assert not frame.duplicated(["method", "rank", "seed"]).any()
    assert set(frame["method"]) == set(METHODS)
    assert sorted(frame[frame["method"] == "cascade"]["rank"]) == [3, 6]
    assert frame[frame["method"] == "cascade/kernels=2"]["rank"].tolist() == [3]
    wanted = ["attack", "probe_reference", "mdl_paper", "mdl", "neighbours", "task", "tpr_gap"]
    assert frame[wanted].notna().all(axis=None)


def test_erasure_erases(result):
    attack = result.frame.set_index("method")["attack"]
    assert attack["cascade"].max() < attack["original"]


def test_tables_have_both_sides(out):
    text = (out / "tables.md").read_text(encoding="utf-8")
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
    assert (out / "tables.tex").read_text(encoding="utf-8").count("\\begin{tabular}") == len(titles)
    cells = pd.read_csv(out / "tables.csv")
    assert cells["paper_mean"].notna().any()


def test_cells_as_csv_are_the_frame(result, out):
    read = pd.read_csv(out / "cells.csv")
    assert read["attack"].to_numpy() == pytest.approx(result.frame["attack"].to_numpy())


def test_figures(result):
    names = {path.name for path in result.files if path.parent.name == "figures"}
    for figure in ("2-map", "3-mdl", "3-mdl-of-the-paper", "3-attacker", "4-gaps", "frontier"):
        assert {f"figure-{figure}.png", f"figure-{figure}.pdf"} <= names
    for path in result.files:
        head = path.read_bytes()[:8]
        assert path.suffix != ".png" or head == b"\x89PNG\r\n\x1a\n"
        assert path.suffix != ".pdf" or head.startswith(b"%PDF")


def test_the_page_stands_alone(out):
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "Benchmark on rows" in html
    for name in ("LEACE", "FaRM", "L̄EOPARD, cascaded, rank 3", "Erasure against utility"):
        assert name in html
    assert 'id="fairness"' in html
    assert "src=" not in html.split("<body")[0]


def test_gaps_at_a_rank(out):
    records = list(read_journal(out / "results.jsonl")[1].values())
    contents = gap_contents(records, 6)
    assert contents.columns == ("L̄EOPARD, cascaded, rank 6",)
    assert len(contents.gaps[0].points) == 3
    assert gap_contents(records, 5) is None
    assert gap_contents([]) is None


def test_cells_of_other_settings_are_left_out(result, file, tmp_path, monkeypatch):
    """As of a quick run, after which a longer one goes on in the same file."""
    content = (result.files[0].parent / "results.jsonl").read_text()
    header, first = content.splitlines(keepends=True)[:2]
    other = json.dumps({**json.loads(first), "key": "of another effort"}) + "\n"
    (tmp_path / "results.jsonl").write_text(header + other + content.removeprefix(header))
    shown = []

    def keep(result, records, path):
        shown.extend(record["key"] for record in records)
        return path

    monkeypatch.setattr(output, "write_page", keep)
    options = {"effort": TINY, "ranks": [6, 3], "methods": METHODS, "figures": False}
    again = bench("dial", source=file, seeds=1, out=tmp_path, resume=True, **options)
    assert sorted(shown) == sorted(set(again.frame["key"]))


def test_going_on_after_a_stop(result, file, tmp_path):
    """The first half of the result file is enough to go on, and nothing in it is done again."""
    lines = (result.files[0].parent / "results.jsonl").read_bytes().splitlines(keepends=True)
    half = lines[: len(lines) - 3]
    (tmp_path / "results.jsonl").write_bytes(b"".join(half) + lines[-1][:20])
    options = {"effort": TINY, "ranks": [6, 3], "methods": METHODS, "figures": False}
    again = bench("dial", source=file, seeds=1, out=tmp_path, resume=True, **options)
    now = (tmp_path / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert now[: len(half)] == half
    times = ["fit_seconds", "seconds"]
    pd.testing.assert_frame_equal(again.frame.drop(columns=times), result.frame.drop(columns=times))


def test_without_a_folder_nothing_is_written(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = bench(str(file), effort=TINY, ranks=[3], seeds=1, methods=["leace"])
    assert len(result.frame) == 1
    assert result.files == ()
    assert not list(tmp_path.iterdir())


def test_a_cell_that_fails_is_said(file, tmp_path, monkeypatch):
    from unspot.erasers.leace import LEACE

    def broken(self, X, target):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(LEACE, "_fit_eraser", broken)
    options = {"effort": TINY, "ranks": [3], "seeds": 1, "figures": False, "out": tmp_path}
    found = bench(str(file), methods=["original", "leace"], **options)
    assert found.frame["status"].tolist() == ["ok", "failed"]
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "## Cells that failed\n\n- LEACE: RuntimeError: out of luck" in text
    assert "out of luck" in (tmp_path / "report.html").read_text(encoding="utf-8")
    found = bench(str(file), methods=["leace"], **{**options, "out": tmp_path / "alone"})
    assert found.frame["status"].tolist() == ["failed"]
    assert "out of luck" in (tmp_path / "alone" / "report.html").read_text(encoding="utf-8")


# -- bad input ----------------------------------------------------------------------------------


def test_other_efforts_methods_and_settings(file, out):
    with pytest.raises(ValueError, match=r"Got effort='fast', .*'quick' or 'standard'"):
        bench(str(file), effort="fast")
    with pytest.raises(ValueError, match=r"Got method='leopart', .* Did you mean 'leopard'"):
        bench(str(file), effort=TINY, methods=["leopart"])
    with pytest.raises(ValueError, match=r"holds .* results already"):
        bench("dial", source=file, effort=TINY, methods=["leace"], out=out)
    header = json.loads((out / "results.jsonl").read_text().splitlines()[0])
    assert header["settings"]["budget"] == "quick"
    other = Schedule(2, 2, 300, 2, 2, 1, "standard", ("main",))
    with pytest.raises(ValueError, match=r"results of other settings \(budget was"):
        bench("dial", source=file, effort=other, methods=["leace"], out=out, resume=True)


def test_methods_that_share_a_colour_are_not_joined_by_a_line():
    from unspot.lab.sweeps.tables import ResultLine, plane
    from unspot.report.charts import tradeoff_chart

    values = {"attack": (0.5, 0.0), "neighbours": (0.8, 0.0)}
    shown = [ResultLine(f"method {i}", None, 1, values) for i in range(9)]
    shown.append(ResultLine("leopard", 3, 1, values))
    drawn = tradeoff_chart(plane(shown, 0.3))
    rows = drawn["data"]["values"]
    assert rows[0]["series"] == "L̄EOPARD"  # curves come first
    assert len({(row["s"], row["m"]) for row in rows}) == len(rows) == 10
    line = next(layer for layer in drawn["layer"] if layer["mark"]["type"] == "line")
    assert line["encoding"]["detail"] == {"field": "series"}
