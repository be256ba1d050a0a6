"""The program itself: help in an instant, errors as one sentence, one program by two names."""

import json
import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import unspot
from unspot.cli import COMMANDS, app, main, program_options_first, sentence
from unspot.cli.options import HELP, without_controls

HEAVY = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "torch", "rich", "matplotlib")


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=os.environ | environment
    )


@pytest.fixture
def eraser(tmp_path):
    path = tmp_path / "e.safetensors"
    unspot.Eraser.projection(np.eye(6)[:, 2:], method="dropped").save(path)
    return path


# -- What is loaded, and how long it takes ---------------------------------------------------------

#: Lines that are refused or answered, each with what it may load. One process runs them in order.
LOADED = [
    ("--help", 0, ()),
    ("fit --help", 0, ()),
    ("transform -h", 0, ()),
    ("fit no.npz -c z -o new.safetensors", 2, ()),
    ("path no.npz -c z", 2, ()),
    ("plan no.npz -c z", 2, ()),
    ("evaluate e.safetensors no.npz -c z", 2, ()),
    ("certify e.safetensors no.npz -c z", 2, ()),
    ("transform e.safetensors no.npz -o new.npz", 2, ()),
    ("inspect no.safetensors", 2, ()),
    ("export no.safetensors --to onnx", 2, ()),
    ("lab sweep no.toml", 2, ()),
    ("inspect e.safetensors", 0, ("numpy",)),
    ("fit x.csv -c zz -o new.safetensors", 2, ("numpy", "pyarrow")),
    ("fit x.csv -c z -o there.safetensors", 2, ("numpy", "pyarrow")),
    ("path x.csv -c zz", 2, ("numpy", "pyarrow")),
    ("plan x.csv -c zz", 2, ("numpy", "pyarrow")),
    ("certify e.safetensors x.csv -c zz", 2, ("numpy", "pyarrow")),
    ("evaluate e.safetensors x.csv -c zz", 2, ("numpy", "pyarrow")),
    ("transform e.safetensors x.csv -f zz -o new.csv", 2, ("numpy", "pyarrow")),
]


def test_little_is_loaded_for_help_and_to_say_what_is_wrong(eraser, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,z\n0.5,1.5,f\n2.5,3.5,m\n")
    (tmp_path / "there.safetensors").write_text("mine")
    code = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from unspot.cli import main
seen = []
for line, _, _ in {LOADED!r}:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            main(line.split())
        except SystemExit as ended:
            seen.append([ended.code or 0, [name for name in {HEAVY!r} if name in sys.modules]])
print(json.dumps(seen))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for (line, code, allowed), (ended, loaded) in zip(LOADED, json.loads(done.stdout), strict=True):
        assert ended == code, line
        assert set(loaded) <= set(allowed), line


# -- What there is ---------------------------------------------------------------------------------


def test_there_are_few_commands_and_options():
    """Who needs another option makes room, or uses --set."""
    program = get_command(app)
    commands = {name: command for name, command in program.commands.items() if name != "lab"}
    assert list(commands) == list(COMMANDS)
    assert len(commands) <= 11
    options = [
        param.opts[0]
        for command in (program, *commands.values())
        for param in command.params
        if param.param_type_name == "option"
    ]
    assert len(options) <= 95


def test_every_line_of_help_belongs_to_an_option():
    used = set()
    for name, command in get_command(app).commands.items():
        for param in command.params:
            own = f"{name}.{param.name}"
            names = {key.split()[0] for key in HELP}
            used.add(own if own in names else param.name)
    assert {key.split()[0] for key in HELP} <= used


def test_help_lists_every_command(cli):
    out = cli("--help").out
    assert all(name in out for name in COMMANDS)
    assert "..." not in out.partition("Commands:")[2]  # no first line is too long
    assert cli("fit", "--help").out == cli("fit", "-h").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(cli, command):
    done = cli(command, "--help")
    assert done.code == 0
    assert f"unspot {command}" in done.out


def test_defaults_are_said_of_what_there_is(cli):
    page = " ".join(cli("fit", "--help").out.split())
    assert "or else all columns of numbers" in page
    assert "drop_missing=true; --set again for more" in page


def test_no_arguments_show_the_help(cli):
    assert "Usage: unspot" in cli().out + cli().err


def test_the_page_of_the_documentation_has_every_option():
    path = Path(unspot.__file__).parents[1] / "docs" / "_ext" / "command_lists.py"
    spec = spec_from_file_location("command_lists", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.commands()
    for name, command in get_command(app).commands.items():
        assert f"## {name}" in page
        for param in command.params:
            assert param.opts[0] in page or param.param_type_name == "argument"
    assert "unspot fit data.parquet" in page
    assert "\b" not in page


def test_two_names_of_one_program():
    as_module = run("-m", "unspot", "--version")
    script = os.path.join(os.path.dirname(sys.executable), "unspot")
    as_script = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert as_module.stdout == as_script.stdout == f"unspot {unspot.__version__}\n"


def test_without_typer_it_says_what_to_install():
    done = run("-c", "import sys; sys.modules['typer'] = None; import runpy\n"
               "runpy.run_module('unspot', run_name='__main__')")  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert "pip install typer" in done.stderr
    assert done.stderr.count("\n") == 1


# -- Errors ----------------------------------------------------------------------------------------


def test_an_error_is_one_sentence_without_a_traceback(cli, tmp_path):
    path = f"{tmp_path}/none.safetensors"
    done = cli("inspect", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"Error: Got {path!r}, but there is no such file or folder.\n"


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_debug_shows_the_traceback(where, cli, monkeypatch):
    monkeypatch.setenv("UNSPOT_DEBUG", "1" if where == "environment" else "0")
    line = ["inspect", "none.safetensors"]
    line = {"before": ["--debug", *line], "after": [*line, "--debug"]}.get(where, line)
    with pytest.raises(FileNotFoundError):
        main(line)


def test_usage_errors(cli):
    done = cli("inspect", "--colour")
    assert done.code == 2
    assert "No such option" in done.err
    done = cli("inspekt")
    assert done.code == 2
    assert "inspekt" in done.err
    done = cli("fit", "data.parquet", "-c", "gender", "-o", "g", "--threads", "0")
    assert done.code == 2
    assert "--threads 0" in done.err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["evaluate", "e", "d", "-c", "a", "-c", "b"], "--concept"),
        (["certify", "e", "d", "-c", "a", "--concept", "b"], "--concept"),
        (["lab", "bench", "d", "-t", "a", "-t", "b"], "--task"),
        (["fit", "d", "-o", "e", "-f", "a", "-f", "b"], "--features"),
    ],
)
def test_the_last_of_two_values_is_not_taken_in_silence(cli, arguments, option):
    done = cli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"Error: Got {option} more than once, but expected one value.")
    assert "comma list" in done.err


def test_other_options_may_be_given_again(cli, table):
    given = ("-o", "a", "-o", "b", "-c", "gender", "--set", "x=1", "--set", "y=2")
    assert "Got parameter 'x'" in cli("fit", table, *given).err


def test_options_of_the_program_may_stand_anywhere():
    line = ["fit", "a.npz", "--seed=3", "-o", "x", "--threads", "2", "-q", "--", "--seed"]
    moved = ["--seed=3", "--threads", "2", "-q", "fit", "a.npz", "-o", "x", "--", "--seed"]
    assert program_options_first(line) == moved


def test_an_interrupt_is_no_error(cli, eraser, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unspot.eraser.load", interrupted)
    done = cli("inspect", eraser)
    assert (done.code, done.out, done.err) == (130, "", "Stopped.\n")


def test_names_in_files_cannot_command_the_terminal(cli, tmp_path):
    evil = "a\x1b]0;owned\x07b\x1b[2Jc\x9bd\re"
    unspot.Eraser.projection(np.eye(2)[:, :1], method=evil).save(tmp_path / "e.safetensors")
    done = cli("inspect", tmp_path / "e.safetensors")
    assert r"a\u001b]0;owned\u0007b\u001b[2Jc\u009bd\u000de" in done.out
    assert without_controls("two\nlines") == "two\nlines"


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
