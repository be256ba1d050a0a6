"""Phases are bars on a terminal, and lines in a log."""

from __future__ import annotations

import io
import os
import re
import threading
import time

import pytest

from unspot.io import progress
from unspot.io.progress import Phase, phase, shown, steps


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(progress, "SOON", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def wait_for(stream, text, seconds=20):
    end = time.monotonic() + seconds
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.005)
    assert text in stream.getvalue()


def test_nobody_looks(capfd):
    before = threading.active_count()
    with phase("Reading", 3) as reading:
        assert reading.screen is None
        assert list(steps("ab", "Fitting")) == ["a", "b"]
    assert threading.active_count() == before
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_the_phases_that_run():
    terminal = Terminal()
    with shown(terminal), phase("Choosing"):
        for name in steps(["trees", "rbf"], "Attacking"):
            wait_for(terminal, "Choosing")
            wait_for(terminal, f"Attacking {1 + (name == 'rbf')} of 2: {name}")
    assert terminal.getvalue().endswith("\x1b[2K\x1b[?25h\r")  # nothing is left behind


def test_lines_fit_the_terminal():
    terminal = Terminal()
    with shown(terminal), phase("Rank", 9), phase("Inner") as inner:
        inner.note = 200 * "y"
        wait_for(terminal, "yy")
    assert "y" * 80 not in terminal.getvalue()


def test_markup_in_names_is_text():
    terminal = Terminal()
    with shown(terminal), phase("Cell", note="[red]a[/red]"):
        wait_for(terminal, "[red]a[/red]")
    assert "\x1b[31m" not in terminal.getvalue()  # no colour


def test_names_do_not_command_the_terminal():
    assert str(Phase("Cell", note="a\x1b[2J\nb")) == "Cell: a [2J b"


def test_a_log_of_long_work_has_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr("unspot.io.progress.OFTEN", 0)
    log = io.StringIO()
    with shown(log, delay=60), phase("Choosing", 3, alone=True) as choosing:
        choosing.advance(2)
    assert log.getvalue() == "0:00  Choosing 2 of 3\n"


@pytest.mark.parametrize("alone", [False, True])
def test_steps_that_were_left_open_do_not_bring_a_screen_back(alone):
    with shown(io.StringIO()):
        left = steps("ab", "Fitting", alone=alone)
        next(left)
    left.close()
    with phase("Later") as later:
        assert later.screen is None


def test_a_log_has_a_line_for_each_kind_of_phase():
    log = io.StringIO()
    with shown(log, delay=0.01):
        time.sleep(0.05)
        for _ in steps(range(5), "Rank"):
            for kind in ("Fitting", "Attacking"):
                with phase(kind):
                    pass
    lines = log.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["Rank", "Fitting", "Attacking"]
    assert all(re.match(r"\d:\d\d  ", line) for line in lines)


def test_short_work_has_no_line_in_a_log():
    log = io.StringIO()
    with shown(log, delay=30), phase("Fitting"):
        time.sleep(0.05)
    assert log.getvalue() == ""


def test_verbose_shows_what_it_came_to(capfd):
    with phase("Matching", 5, unit="steps", verbose=True) as matching:
        with phase("Inside"):  # shown as well: somebody looks now
            pass
        matching.advance(5)
        matching.note = "loss 0.1"
    with phase("Later"):
        pass
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1].endswith("Matching 5 of 5 steps: loss 0.1")
    assert any("Inside" in line for line in lines)
    assert not any("Later" in line for line in lines)


def test_a_log_begins_with_the_first_step(capfd):
    assert list(steps("ab", "Attacking", verbose=True)) == ["a", "b"]
    assert "Attacking 1 of 2" in capfd.readouterr().err.splitlines()[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_shows_nothing():
    with shown(Terminal()), phase("Fitting"):
        child = os.fork()
        if child == 0:
            with phase("Inside") as inside:
                os._exit(inside.screen is not None)
        assert os.waitpid(child, 0)[1] == 0


def test_an_error_ends_all_phases_inside():
    terminal = Terminal()

    @phase("Outer")
    def fails():
        for _ in steps("ab", "Inner"):
            wait_for(terminal, "Inner")
            raise ValueError

    with shown(terminal):
        with pytest.raises(ValueError):
            fails()
        with phase("Next"):
            wait_for(terminal, "Next")
    assert "Inner" not in terminal.getvalue().rsplit("Next", 1)[1]


def test_a_stream_that_is_gone_does_not_end_the_work():
    log = io.StringIO()
    with shown(log):
        log.close()
        with phase("Fitting", 1) as fitting:
            fitting.advance()
    assert fitting.done == 1
