"""``unspot report``: result files in, one page out."""

import json

import pytest

from unspot.evaluation.results import Evaluation, Row, Value


@pytest.fixture
def result(tmp_path):
    """Write an evaluation of some method, and give its file."""

    def write(method, accuracy=0.4, rank=3):
        rows = (
            Row("chance", "Chance", "share", Value(0.5), Value(0.5)),
            Row("attack", "Strongest attacker", "share", Value(0.9), Value(accuracy), "lower"),
            Row("neighbours", "A_50%", "", Value(1.0), Value(accuracy + 0.2), "higher"),
        )
        attackers = {
            "before": [{"name": "trees", "balanced_accuracy": 0.9}],
            "after": [{"name": "trees", "balanced_accuracy": accuracy}],
        }
        about = {"method": method, "rank": rank}
        metadata = {"eraser": about, "n_rows": {"test": 500}, "classes": ["a", "b"]}
        evaluation = Evaluation(f"{method} on x", rows, metadata, {"attackers": attackers})
        path = tmp_path / f"{method}.json"
        path.write_text(evaluation.to_json(), encoding="utf-8")
        return path

    return write


def test_one_result_makes_a_page(cli, tmp_path, result):
    page = tmp_path / "out.html"
    ran = cli("report", result("LEACE"), "-o", page)
    assert ran.code == 0
    assert ran.out.strip() == str(page)
    assert "LEACE" in page.read_text(encoding="utf-8")


def test_several_results_are_compared(cli, tmp_path, result):
    page = tmp_path / "out.html"
    ran = cli(
        "report",
        f"linear={result('LEACE')}",
        result("LEOPARD", 0.55),
        *("--chosen", "linear", "--title", "Which one?", "-o", page),
    )
    assert ran.code == 0
    text = page.read_text(encoding="utf-8")
    assert "<title>Which one?</title>" in text
    assert 'id="tradeoff"' in text


def test_writes_figures_and_tables(cli, tmp_path, result):
    figures, tables = tmp_path / "figures", tmp_path / "tables"
    page = tmp_path / "out.html"
    ran = cli("report", result("LEACE"), "-o", page, "--figures", figures, "--tables", tables)
    assert ran.code == 0
    assert {f.name for f in figures.iterdir()} == {"attackers.png", "attackers.pdf"}
    assert {f.name for f in tables.iterdir()} == {"tables.csv", "tables.tex"}
    assert len(ran.out.splitlines()) == 5


def test_does_not_replace_a_page_unasked(cli, tmp_path, result):
    page = tmp_path / "out.html"
    page.write_text("mine")
    ran = cli("report", result("LEACE"), "-o", page)
    assert ran.code == 2
    assert "--force" in ran.err
    assert page.read_text() == "mine"
    assert cli("report", result("LEACE"), "-o", page, "--force", "-q") == (0, "", "")
    assert page.stat().st_size > 100_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.json"], "no such file"),
        (["{leace}", "--chosen", "x"], "Got chosen='x', but expected one of: LEACE"),
        (["{leace}", "--chosen-rank", "99"], "Got chosen_rank=99, but expected one of: 3."),
        (["{path}", "--chosen-rank", "99"], "Got chosen_rank=99, but expected one of: 4, 2."),
        (["{path}", "{leace}", "--chosen-rank", "3"], "but expected one of: 4, 2."),
        (["{silent}", "--chosen-rank", "3"], "expected one of: none: no result has a rank."),
        (["{bad}"], "which is not JSON"),
        (["{leace}", "{leace}"], "Got two evaluations of LEACE"),
    ],
)
def test_errors_are_one_sentence(cli, tmp_path, result, arguments, message):
    bad = tmp_path / "bad.json"
    bad.write_text("no")
    points = [{"rank": rank, "held_out": 0.1 * rank} for rank in (4, 2)]
    path = tmp_path / "path.json"
    path.write_text(json.dumps({"format": "unspot-path/1", "method": "PCA", "points": points}))
    files = {"leace": result("LEACE"), "silent": result("a function", rank=None)}
    places = {name: str(file) for name, file in {**files, "bad": bad, "path": path}.items()}
    filled = [argument.format(**places) for argument in arguments]
    ran = cli("report", *filled, "-o", tmp_path / "out.html")
    assert ran.code == 2
    assert message in ran.err
    assert not (tmp_path / "out.html").exists()
