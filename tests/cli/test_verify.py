"""unspot verify: a changed digit, another file and other numbers are found, and each is said."""

import json
import shutil

import numpy as np
import pytest

from unspot import Eraser
from unspot.cli import main
from unspot.cli.verify import MISMATCH
from unspot.evaluation.audit import canonical_sha256
from unspot.evaluation.certificate import Certificate


def write_rows(path, seed):
    rng = np.random.default_rng(seed)
    z, y = rng.integers(2, size=300), rng.integers(2, size=300)
    X = rng.normal(size=(300, 4)) + 3 * z[:, None] * [1, 0, 0, 0]
    np.savez(path, X=X, gender=np.array(["f", "m"])[z], job=np.array(["cook", "nurse"])[y])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with an eraser, rows, others of the same kind, and the record of a certificate."""
    folder = tmp_path_factory.mktemp("made")
    write_rows(folder / "rows.npz", 0)
    write_rows(folder / "others.npz", 1)
    Eraser.projection(np.eye(4)[:, 1:], method="dropped").save(folder / "e.safetensors")
    Eraser.projection(np.eye(4)[:, 2:], method="dropped").save(folder / "other.safetensors")
    options = ("-c", "gender", "--attackers", "logistic", "-b", "quick", "-t", "job", "--no-fail")
    words = ("--purpose", "Hire\nblind.", "--period", "2026", "--operator", "A. Auditor")
    files = [str(folder / name) for name in ("e.safetensors", "rows.npz")]
    with pytest.raises(SystemExit) as ended:
        main(["certify", "-q", *files, *options, *words, "--audit", str(folder / "audit.json")])
    assert not ended.value.code
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(made, tmp_path / "made")


def check(cli, folder, *more, data="rows.npz", eraser="e.safetensors"):
    files = ("--eraser", folder / eraser, "--data", folder / data)
    return cli("verify", folder / "audit.json", *files, *more)


def lines(done):
    """The mark and the text of each check, by its name."""
    return {line[2:].split()[0]: (line[0], line) for line in done.out.splitlines()[1:]}


def edit(folder, *path, value, rehash=False):
    file = folder / "audit.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    inside = content
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    if rehash:
        content["sha256"] = canonical_sha256(content)
    file.write_text(json.dumps(content), encoding="utf-8")


def test_what_was_not_touched_matches(cli, folder):
    done = check(cli, folder)
    assert done.code == 0, done.out + done.err
    found = lines(done)
    assert [mark for mark, _ in found.values()] == ["✓"] * 4
    assert list(found) == ["certificate", "verdict", "eraser", "data"]


def test_a_record_says_what_it_is_for_and_what_it_cost(made):
    content = json.loads((made / "audit.json").read_text(encoding="utf-8"))
    assert (content["purpose"], content["population"]) == ("Hire blind.", "")
    assert [row["key"] for row in content["utility"]] == ["neighbours", "variance", "task_linear"]
    certificate = content["certificate"]
    cells = content["rows_of_cell"]
    assert {z: sum(cells[z].values()) for z in cells} == certificate["rows_of_class"]
    assert str(made) not in json.dumps(content)  # whose machine it was is nobody's business


def test_a_changed_digit_is_found(cli, folder):
    text = (folder / "audit.json").read_text(encoding="utf-8")
    content = json.loads(text)
    number = repr(content["certificate"]["attackers"][0]["interval"][1])
    other = number[:-1] + str((int(number[-1]) + 1) % 10)
    (folder / "audit.json").write_text(text.replace(number, other), encoding="utf-8")
    done = check(cli, folder)
    assert done.code == MISMATCH
    mark, line = lines(done)["certificate"]
    assert mark == "✗"
    assert content["sha256"] in line
    assert lines(done)["data"][0] == "✓"


@pytest.mark.parametrize(
    ("files", "name"),
    [({"data": "others.npz"}, "data"), ({"eraser": "other.safetensors"}, "eraser")],
)
def test_another_file_is_found(cli, folder, files, name):
    done = check(cli, folder, **files)
    assert done.code == MISMATCH
    marks = {check: mark for check, (mark, _) in lines(done).items()}
    assert marks.pop(name) == "✗"
    assert set(marks.values()) == {"✓"}


def test_what_is_not_given_is_not_called_checked(cli, folder):
    done = cli("verify", folder / "audit.json")
    assert done.code == 0
    mark, line = lines(done)["data"]
    assert mark == "–"
    assert "--data" in line


def test_numbers_again(cli, folder):
    done = check(cli, folder, "--rerun")
    assert done.code == 0, done.out + done.err
    assert lines(done)["numbers"][0] == "✓"
    assert "last digit" in done.out


def test_numbers_that_somebody_made_up_are_found(cli, folder):
    """Hash and verdict fit, but the rows do not give this number."""
    report = json.loads((folder / "audit.json").read_text())["certificate"]["attackers"][0]
    made_up = {**report, "advantage": report["advantage"] - 0.05}
    edit(folder, "certificate", "attackers", value=[made_up])
    edit(folder, "certificate", "advantage", value=made_up["advantage"])
    content = json.loads((folder / "audit.json").read_text())["certificate"]
    forged = Certificate.from_dict(content)
    edit(folder, "certificate", "next_step", value=forged.next_step)
    edit(folder, "certificate", "sentence", value=forged.sentence, rehash=True)
    done = check(cli, folder, "--rerun")
    assert done.code == MISMATCH
    marks = {check: mark for check, (mark, _) in lines(done).items()}
    assert marks.pop("numbers") == "✗"
    assert set(marks.values()) == {"✓"}
    assert "5.0 points" in done.out


def test_other_versions_are_named(cli, folder):
    edit(folder, "certificate", "metadata", "versions", "torch", value="0.1", rehash=True)
    done = check(cli, folder, "--rerun")
    assert done.code == 0, done.out
    assert "torch 0.1 then" in done.out


def test_other_rows_are_not_run(cli, folder):
    done = check(cli, folder, "--rerun", data="others.npz")
    assert done.code == MISMATCH
    assert lines(done)["numbers"][0] == "–"


def test_what_cannot_be_run_again_is_an_error(cli, folder):
    done = cli("verify", folder / "audit.json", "--rerun", "--data", folder / "rows.npz")
    assert (done.code, done.out) == (2, "")
    assert "--rerun without --eraser" in done.err


def test_a_certificate_of_python_cannot_be_run_again(cli, folder):
    edit(folder, "settings", value=None, rehash=True)
    done = check(cli, folder, "--rerun")
    assert (done.code, done.out) == (2, "")
    assert "made in Python" in done.err


def test_a_file_that_the_record_does_not_know_is_an_error(cli, folder):
    done = check(cli, folder, "--labels", folder / "others.npz")
    assert (done.code, done.out) == (2, "")
    assert "--labels" in done.err
    assert "eraser, data" in done.err


def test_other_files_are_errors(cli, folder):
    done = cli("verify", folder / "rows.npz")
    assert done.code == 2
    assert "certify --audit" in done.err
    done = cli("verify", folder / "none.json")
    assert done.code == 2
    done = check(cli, folder, data="none.npz")
    assert done.code == 2


def test_a_record_cannot_command_the_terminal(cli, folder):
    edit(folder, "sources", "data", "name", value="\x1b[2J")
    edit(folder, "operator", value="\x1b[2J", rehash=True)
    done = cli("verify", folder / "audit.json")
    assert "\x1b" not in done.out
    assert done.out.count("u001b") == 2


@pytest.mark.parametrize("option", ["--purpose", "--operator", "--task"])
def test_words_need_a_record_to_stand_in(cli, made, option):
    done = cli("certify", made / "e.safetensors", made / "rows.npz", "-c", "gender", option, "x")
    assert done.code == 2
    assert option in done.err
    assert "--audit" in done.err


def test_a_record_to_stdout_is_json_alone(cli, made):
    given = ("-c", "gender", "--attackers", "logistic", "-b", "quick", "--no-fail")
    done = cli("certify", made / "e.safetensors", made / "rows.npz", *given, "--audit", "-")
    assert done.code == 0, done.err
    assert json.loads(done.out)["sources"]["data"]["name"] == "rows.npz"


def test_a_record_does_not_replace_what_is_read(cli, made):
    data = made / "rows.npz"
    done = cli("certify", made / "e.safetensors", data, "-c", "gender", "--audit", data)
    assert done.code == 2
    assert "--audit" in done.err


def test_a_page_of_a_record(cli, folder):
    pytest.importorskip("jinja2")
    page = folder / "page.html"
    assert cli("report", folder / "audit.json", "-o", page).code == 0
    content = json.loads((folder / "audit.json").read_text())
    text = page.read_text(encoding="utf-8")
    for needle in ("Hire blind.", content["sha256"], *content["threat_model"]["not_covered"]):
        assert needle in text
    edit(folder, "purpose", value="Fire blind.")
    done = cli("report", folder / "audit.json", "-o", page, "--force")
    assert done.code == 2
    assert "changed" in done.err
