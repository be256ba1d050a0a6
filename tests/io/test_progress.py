"""Phases say what is done; who looks sees one line on a terminal, or lines in a log."""

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
def quick(monkeypatch):
    monkeypatch.setattr(progress, "TICK", 0.01)
    monkeypatch.setattr(progress, "SOON", 0.0)


def wait_for(stream, text, seconds=20):
    end = time.monotonic() + seconds
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.005)
    assert text in stream.getvalue()


def screen_of(text):
    """What is left on one line of a terminal."""
    line = ""
    for part in text.split("\r"):
        line = part + line[len(part) :]
    return line


def test_nobody_looks(capfd):
    before = threading.active_count()
    with phase("Reading", 3) as reading:
        assert not reading.shown
        assert list(steps("ab", "Fitting")) == ["a", "b"]
    assert threading.active_count() == before
    assert capfd.readouterr() == ("", "")


def test_a_terminal_has_one_line_that_is_gone_in_the_end():
    terminal = Terminal()
    with shown(terminal), phase("Choosing"):
        for name in steps(["trees", "rbf"], "Attacking"):
            wait_for(terminal, f"Choosing · Attacking {1 + (name == 'rbf')} of 2: {name}")
    text = terminal.getvalue()
    assert "\n" not in text
    assert "50 %" in text
    assert "█" in text
    assert screen_of(text).strip() == ""


def test_lines_fit_the_terminal():
    terminal = Terminal()
    with shown(terminal), phase("Outer " + 30 * "x"), phase("Rank", 9), phase("Inner") as inner:
        inner.note = 100 * "y"
        wait_for(terminal, "yy")
    drawn = [part for part in terminal.getvalue().split("\r") if "yy" in part]
    assert all(len(part) == 79 for part in drawn)
    assert "Outer" not in drawn[-1]  # it counts nothing, and there is no room
    assert "Rank 0 of 9 · Inner" in drawn[-1]


def test_a_terminal_without_blocks_has_letters():
    terminal = Terminal()
    terminal.encoding = "ascii"
    with shown(terminal), phase("Rank", 2) as ranks:
        ranks.advance()
        wait_for(terminal, "######------")


def test_names_do_not_command_the_terminal():
    assert str(Phase("Cell", note="a\x1b[2J\nb")) == "Cell: a [2J b"


def test_a_log_has_a_line_for_each_kind_of_phase():
    log = io.StringIO()
    with shown(log, delay=0.05):
        for rank in steps(range(5), "Rank"):
            for kind in ("Fitting", "Attacking"):
                with phase(kind):
                    time.sleep(0.1 if rank == 0 else 0.02)
    lines = log.getvalue().splitlines()
    assert [line.split("· ")[1].split(",")[0] for line in lines] == ["Fitting", "Attacking"]
    assert all(re.match(r"\d:\d\d  Rank 1 of 5: 0 · ", line) for line in lines)


def test_long_phases_are_told_again(monkeypatch):
    monkeypatch.setattr(progress, "AGAIN", 0.05)
    log = io.StringIO()
    with shown(log, delay=0.01), phase("Fitting", 4) as fitting:
        wait_for(log, "Fitting 0 of 4")
        fitting.advance(2)
        wait_for(log, "Fitting 2 of 4")


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
def test_a_forked_child_shows_nothing():
    """Its copy of the lock may be held by a thread that it does not have."""
    with shown(Terminal()), phase("Fitting"), progress._screen.get()._lock:
        child = os.fork()
        if child == 0:
            with phase("Inside"):
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_the_time_left():
    here = Phase("Rank", 4)
    assert here.seconds_left is None
    here.started -= 10
    here.advance()
    assert here.seconds_left == pytest.approx(30, abs=1)
    here.advanced -= 40  # the guess was too low, so there is none
    assert here.seconds_left is None
    here.advance(3)
    assert here.seconds_left is None


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
    assert "Inner" not in terminal.getvalue().rsplit("Next")[1]


def test_a_stream_that_is_gone_does_not_end_the_work():
    log = io.StringIO()
    with shown(log):
        log.close()
        with phase("Fitting"):
            pass
