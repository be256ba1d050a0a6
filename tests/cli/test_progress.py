"""Commands at work: what a terminal and a log see of it, Ctrl-C, and the number of threads."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from unspot import Eraser
from unspot.cli import main, options
from unspot.io import progress

pytestmark = pytest.mark.halvings


@pytest.fixture
def folder(tmp_path, table, rows, monkeypatch):
    """All files that a command needs, in the folder where it runs."""
    for name, dropped in {"a": 0, "b": 1}.items():
        eraser = Eraser.projection(np.delete(np.eye(6), dropped, axis=1), concept_name="gender")
        eraser.save(tmp_path / f"{name}.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROWS = "data.parquet -f emb -c gender"
#: Command lines, and phases that each goes through.
LINES = {
    f"fit {ROWS} -r 3 -o g.safetensors": ("Reading: data.parquet", "Fitting Cascade", "Matching"),
    f"fit {ROWS} -m leopard -r auto --max-advantage 0.4 -o g.safetensors": (
        r"Rank 2 of \d", "Choosing: rank 3", "Attacking 3 of 10", "loss"),
    f"path {ROWS} -r 4,2 --set metrics=linear": ("Rank 2 of 2: 2", "Measuring 1 of 1: linear"),
    f"evaluate a.safetensors {ROWS} -m chance,attack --html e.html": (
        "Measuring 2 of 2: attack", "Attacking 1 of 10: logistic", "Drawing"),
    f"certify a.safetensors {ROWS} --set attackers=logistic,trees": (
        "Halving 2 of 2", "Attacking 2 of 2: trees", "Comparing with the original rows"),
    "transform a.safetensors data.parquet -o c.parquet -f emb": ("Erasing 400 of 400 rows",),
}  # fmt: skip
NAMES = ["-".join(line.split()[0:1] + re.findall(r"auto|farm", line)) for line in LINES]


@pytest.fixture
def on_terminal(monkeypatch, capsys):
    """Run a command whose stderr is a terminal; gives the exit code and what was drawn there."""

    def run(line):
        monkeypatch.setattr(progress, "SOON", 0.0)
        ours, theirs = pty.openpty()
        drawn = []
        reader = threading.Thread(target=lambda: drawn.extend(iter(lambda: _read(ours), b"")))
        reader.start()
        with os.fdopen(theirs, "w", encoding="utf-8") as stderr, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stderr)
            with pytest.raises(SystemExit) as ended:
                main(line.split())
        reader.join()
        os.close(ours)
        return ended.value.code or 0, b"".join(drawn).decode()

    return run


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.fixture
def said(monkeypatch):
    """All that phases say: here steps take milliseconds, and a terminal is drawn now and then."""
    seen = []

    class Said(progress.Phase):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if "done" in vars(self):
                seen.append(str(self))

    monkeypatch.setattr(progress, "Phase", Said)
    return seen


@pytest.mark.parametrize(("line", "phases"), LINES.items(), ids=NAMES)
def test_a_terminal_sees_the_phases(folder, on_terminal, said, line, phases):
    code, drawn = on_terminal(line)
    assert code in (0, 3, 4), drawn
    for words in phases:
        assert any(re.search(words, text) for text in said), words
    assert sum(title in drawn for title in {text.split(" ")[0].strip(":") for text in said})
    assert not drawn or drawn.endswith("\x1b[2K\x1b[?25h\r"), "nothing is left in the end"


def test_a_log_sees_the_phases(folder, cli, monkeypatch):
    monkeypatch.setattr(options, "SHOW_AFTER", 0.0)
    line, phases = next(iter(LINES.items()))
    done = cli(*line.split())
    assert done.code == 0
    assert re.search(".*?".join(phases), done.err, re.DOTALL)
    assert "\r" not in done.err
    assert all(re.match(r"\d+:\d\d  ", text) for text in done.err.splitlines())
    assert "Reading" not in done.out


def test_quick_commands_and_quiet_ones_show_nothing(folder, cli, monkeypatch):
    line = next(iter(LINES)).split()
    monkeypatch.setattr(options, "SHOW_AFTER", 600.0)
    assert cli(*line).err == ""
    monkeypatch.setattr(options, "SHOW_AFTER", 0.0)
    assert cli(*line, "--force", "--quiet") == (0, "", "")


# -- Ctrl-C ----------------------------------------------------------------------------------------


@pytest.fixture
def stop_at(monkeypatch):
    """Ctrl-C comes when a phase of this title begins for the n-th time."""

    def stop(title, n=1):
        monkeypatch.setattr(options, "SHOW_AFTER", 3600)
        left = [n]
        for screen in (progress._Log, progress._Bars):

            def stopping(self, phase, begin=screen.begin):
                left[0] -= phase.title == title
                if left[0] == 0:
                    raise KeyboardInterrupt
                begin(self, phase)

            monkeypatch.setattr(screen, "begin", stopping)

    return stop


@pytest.mark.parametrize(
    ("line", "title", "n", "kept"),
    [
        (f"fit {ROWS} -o g.safetensors", "Matching", 1, ""),
        (f"path {ROWS} -r 4,2 --set metrics=linear", "Rank", 1, ""),
        (f"certify a.safetensors {ROWS}", "Attacking", 1, ""),
        ("transform a.safetensors data.parquet -o c.parquet", "Erasing", 1, "Nothing was written"),
        ("demo", "Choosing and fitting", 1, ""),
    ],
)  # fmt: skip
def test_ctrl_c_says_what_is_kept(folder, cli, stop_at, line, title, n, kept):
    stop_at(title, n)
    done = cli(*line.split())
    assert done.code == 130
    (sentence,) = done.err.splitlines()
    assert sentence.startswith("Stopped.")
    assert kept in sentence


# -- Threads ---------------------------------------------------------------------------------------


def test_threads_are_limited_before_libraries_load(folder):
    code = (
        "import os\nfrom unspot.cli import main\nimport unspot.io\n"
        "def see(*a, **k):\n"
        "    import torch, threadpoolctl\n"
        "    print(torch.get_num_threads(), [i['num_threads'] for i in "
        "threadpoolctl.threadpool_info()])\n    raise ValueError('that is all')\n"
        "unspot.io.read_table = see\n"
        f"main('fit {ROWS} -o g.safetensors --threads 1'.split())"
    )
    plain = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=plain, cwd=folder
    )
    assert "that is all" in done.stderr
    torch, _, others = done.stdout.partition(" ")
    assert torch == "1"
    assert set(re.findall(r"\d+", others)) == {"1"}
