"""The program itself: help in an instant, errors as one sentence, one program by two names."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import unspot
from unspot.cli import COMMANDS, app, main, sentence
from unspot.cli.options import safe_terminal
from unspot.evaluation.results import Evaluation, Row, Value

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "torch", "plotly", "matplotlib")


def _run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["transform", "-h"]])
def test_help_loads_nothing_heavy(arguments):
    program = f"""
import json, sys
from unspot.cli import main
try:
    main({arguments!r})
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""
    done = _run("-c", program)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []
    assert "Usage: unspot" in done.stdout


def _loaded_after(lines, folder):
    """The exit codes of some command lines in one process, and heavy modules that they loaded."""
    program = f"""
import json, sys
from unspot.cli import main
codes = []
for line in {lines!r}:
    try:
        main(line.split())
    except SystemExit as ended:
        codes.append(ended.code or 0)
print(json.dumps([codes, [name for name in {HEAVY!r} if name in sys.modules]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    codes, loaded = json.loads(done.stdout.splitlines()[-1])
    return codes, set(loaded)


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    unspot.Eraser.projection(np.eye(6)[:, 2:], method="dropped").save(path)
    return path


def test_facts_and_reports_need_neither_torch_nor_pandas(eraser, tmp_path):
    row = Row("attack", "Strongest attacker", "share", Value(0.9), Value(0.5), "lower")
    (tmp_path / "r.json").write_text(Evaluation("LEACE", (row,), {}).to_json())
    lines = ["inspect e.safetensors", "report r.json -o page.html"]
    codes, loaded = _loaded_after(lines, tmp_path)
    assert codes == [0, 0]
    assert not loaded & {"torch", "pandas"}


def test_files_that_cannot_be_read_are_refused_before_torch_is_loaded(eraser, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,z\n0.5,1.5,f\n2.5,3.5,m\n")
    (tmp_path / "there.st").write_text("mine")
    lines = [
        "fit no.npz -c z -o new.st",
        "fit x.txt -c z -o new.st",
        "fit x.csv -c zz -o new.st",
        "fit x.csv -c z -o there.st",
        "path no.npz -c z",
        "path x.csv -c zz",
        "evaluate e.safetensors no.npz -c z",
        "certify e.safetensors no.npz -c z",
        "certify e.safetensors x.csv -c zz",
        "transform e.safetensors no.npz -o new.npz",
    ]
    codes, loaded = _loaded_after(lines, tmp_path)
    assert set(codes) == {2}
    assert "torch" not in loaded


def test_help_is_quick():
    """Half a second; counted in time of the processor, which others on the machine do not use."""
    seconds = []
    for _ in range(3):
        before = os.times()
        assert _run("-m", "unspot", "--help").returncode == 0
        after = os.times()
        seconds.append(sum(after[2:4]) - sum(before[2:4]))
    assert min(seconds) < 0.5 * 1.5  # a busy core is slower: half as much again


def test_help_lists_every_command(cli):
    out = cli("--help").out
    assert all(name in out for name in COMMANDS)
    assert cli("fit", "--help").out == cli("fit", "-h").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(cli, command):
    done = cli(command, "--help")
    assert done.code == 0
    assert f"unspot {command}" in done.out


def test_no_arguments_show_the_help(cli):
    assert "Usage: unspot" in cli().out + cli().err


def test_two_names_of_one_program():
    as_module = _run("-m", "unspot", "--version")
    as_script = subprocess.run(
        [os.path.join(os.path.dirname(sys.executable), "unspot"), "--version"],
        capture_output=True,
        text=True,
    )
    assert as_module.stdout == as_script.stdout == f"unspot {unspot.__version__}\n"


def test_without_typer_it_says_what_to_install():
    done = _run("-c", "import sys; sys.modules['typer'] = None; import runpy\n"
                "runpy.run_module('unspot', run_name='__main__')")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "pip install typer" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_eraser_is_applied_with_what_the_docs_install(eraser):
    done = _run("-c", "import sys; before = set(sys.modules); import unspot\n"
                f"unspot.load({str(eraser)!r})([[0.0] * 6])\n"
                "print(*{name.split('.')[0] for name in set(sys.modules) - before})")  # fmt: skip
    assert done.returncode == 0, done.stderr
    others = {name for name in done.stdout.split() if name not in sys.stdlib_module_names}
    assert others <= {"unspot", "numpy", "safetensors", "lazy_loader"}


def test_an_error_is_one_sentence_without_a_traceback(cli, tmp_path):
    done = cli("inspect", tmp_path / "none.safetensors")
    assert done.code == 2
    assert done.out == ""
    assert (
        done.err
        == f"Error: Got '{tmp_path}/none.safetensors', but there is no such file or folder.\n"
    )


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_debug_shows_the_traceback(where):
    before = ["--debug"] if where == "before" else []
    after = ["--debug"] if where == "after" else []
    environment = {"UNSPOT_DEBUG": "1"} if where == "environment" else {}
    done = _run("-m", "unspot", *before, "inspect", "none.safetensors", *after, **environment)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "FileNotFoundError" in done.stderr


def test_usage_errors(cli):
    done = cli("inspect", "--colour")
    assert done.code == 2
    assert "No such option" in done.err
    done = cli("inspekt")
    assert done.code == 2
    assert "inspekt" in done.err


@pytest.mark.parametrize(
    ("arguments", "option", "way_out"),
    [
        (["evaluate", "e", "d", "-c", "a", "-c", "b"], "--concept", "Several concepts are"),
        (["certify", "e", "d", "-c", "a", "--concept", "b"], "--concept", "Several concepts are"),
        (["path", "d", "-c", "a", "-c", "b"], "--concept", "Several concepts are"),
        (["lab", "bench", "d", "-c", "a", "-c", "b"], "--concept", "Several concepts are"),
        (["lab", "bench", "d", "-t", "a", "-t", "b"], "--task", ""),
        (["fit", "d", "-o", "e", "-f", "a", "-f", "b"], "--features", "Give a comma list, such as"),
    ],
)
def test_the_last_of_two_values_is_not_taken_in_silence(cli, arguments, option, way_out):
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    message = f"Error: Got {option} more than once, but expected one value. {way_out}"
    assert done.err.startswith(message.rstrip())


def test_other_options_may_be_given_again(cli, table):
    given = ("-o", "a", "-o", "b", "-c", "gender", "--set", "x=1", "--set", "y=2")
    done = cli("fit", table, *given)
    assert "Got parameter 'x'" in done.err


def test_an_interrupt_is_no_error(monkeypatch, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(app), "__call__", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["inspect", "x"])
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("Stopped. Nothing was written")


@pytest.fixture
def x_json(tmp_path, monkeypatch):
    """A result file in the working folder: commands look for their files first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.json").write_text("{}")


@pytest.mark.usefixtures("x_json")
def test_an_interrupt_inside_a_command_is_said(cli, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unspot.eraser.load", interrupted)
    done = cli("inspect", "x.json")
    assert (done.code, done.out) == (130, "")
    assert done.err.startswith("Stopped. Nothing was written")


@pytest.mark.usefixtures("x_json")
@pytest.mark.parametrize("stream", ["out", "err"])
def test_what_a_command_prints_cannot_command_the_terminal(cli, monkeypatch, stream):
    def evil(*args, **kwargs):
        text = "a\x1b]0;owned\x07b\x1b[2Jc\x9bd\x1b[1mü\x1b[0m\te"
        print(text, file=getattr(sys, f"std{stream}"))
        raise ValueError("no more")

    monkeypatch.setattr("unspot.eraser.load", evil)
    done = cli("inspect", "x.json")
    shown = r"a\u001b]0;owned\u0007b\u001b[2Jc\u009bd" + "\x1b[1mü\x1b[0m\te\n"
    assert getattr(done, stream).startswith(shown)


def test_progress_bars_go_back_in_their_line(monkeypatch):
    text, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdout", text)
    monkeypatch.setattr("sys.stderr", err)
    with safe_terminal():
        sys.stdout.write("\rNo leak found\n")
        sys.stderr.write("\r50 %")
    assert text.getvalue() == "\\u000dNo leak found\n"
    assert err.getvalue() == "\r50 %"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("Got a,\n  but expected b."), "Got a, but expected b."),
        (KeyError("no such key"), "no such key"),
        (PermissionError(13, "Permission denied", "x.npy"), "x.npy: Permission denied."),
        (OSError(28, "No space left; free some"), "No space left; free some."),
        (MemoryError(), "The memory of this machine is not enough."),
        (ValueError(), "ValueError"),
    ],
)
def test_sentences(error, text):
    assert sentence(error).strip() == text
