"""What long work says of itself while it runs: its phases, their steps, and the time that is left.

The library names its phases (``phase``, ``steps``) and prints nothing. Who wants to see them opens
``shown``, as the command line and ``verbose=True`` do. On a terminal that is one line, which is
drawn again and again and leaves nothing behind. Elsewhere, such as in the log of a job, each kind
of phase has one line, a long one has another now and then, and with ``verbose=True`` the end of
each phase has one too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any, TypeVar

__all__ = ["Phase", "phase", "shown", "steps"]

Thing = TypeVar("Thing")

#: Seconds between two looks at the work.
TICK = 0.1
#: Seconds after which a terminal shows it: what is over at once should not flicker.
SOON = 0.3
#: Seconds after which a log has a line of its long phase again.
AGAIN = 30.0
#: Letters of the bar.
_BAR = 12


@dataclass(eq=False)
class Phase:
    """A part of the work, which counts its steps.

    Parameters
    ----------
    title : str
        What is done, such as "Attacking".
    total : int, optional
        The number of steps, if it is known.
    unit : str
        What is counted, where the title does not say so.
    note : str
        What it is about now: the name of a step, a loss.
    named : bool
        Whether the note names the step that runs, whose number is then shown, and not the number of
        those that are done.
    shown : bool
        Whether anybody looks.
    """

    title: str
    total: int | None = None
    unit: str = ""
    note: str = ""
    named: bool = False
    shown: bool = False
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    advanced: float = 0.0

    def advance(self, n: int = 1) -> None:
        """Count n steps that are done."""
        self.done += n
        self.advanced = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """A guess: the steps to come take as long as those before. None if it proved too low."""
        if not self.total or not 0 < self.done < self.total:
            return None
        guess = (self.advanced - self.started) * (self.total / self.done - 1)
        left = guess - (time.monotonic() - self.advanced)
        return left if left >= 1 else None

    def __str__(self) -> str:
        at = min(self.done + 1, self.total or self.done + 1) if self.named else self.done
        count = f" {at:,} of {self.total:,}" if self.total else f" {at:,}" if at else ""
        unit = f" {self.unit}" if self.unit and count else ""
        text = f"{self.title}{count}{unit}{': ' if self.note else ''}{self.note}"
        # Names come from files, and must neither end the line nor command the terminal.
        return "".join(letter if letter.isprintable() else " " for letter in text)


_screen: ContextVar[_Screen | None] = ContextVar("screen", default=None)

if hasattr(os, "register_at_fork"):
    # A forked child has no thread that draws, and the lock may have been held at that moment.
    os.register_at_fork(after_in_child=lambda: _screen.set(None))


@contextmanager
def phase(
    title: str,
    total: int | None = None,
    *,
    unit: str = "",
    note: str = "",
    named: bool = False,
    verbose: bool = False,
) -> Iterator[Phase]:
    """A phase around a part of the work; it is shown if somebody looks, or if ``verbose``.

    Examples
    --------
    >>> with phase("Reading", 1200, unit="rows") as reading:
    ...     reading.advance(300)
    >>> print(reading)
    Reading 300 of 1,200 rows
    """
    with _looking(verbose) as screen:
        here = Phase(title, total, unit, note, named, shown=screen is not None)
        if screen is None:
            yield here
            return
        screen.begin(here)
        try:
            yield here
        finally:
            screen.end(here)


def steps(
    things: Iterable[Thing],
    title: str,
    *,
    total: int | None = None,
    name: Callable[[Thing], str] = str,
    verbose: bool = False,
) -> Iterator[Thing]:
    """The things one by one, as the named steps of a phase.

    Examples
    --------
    >>> [len(method) for method in steps(["leace", "pca"], "Fitting")]
    [5, 3]
    """
    if total is None and isinstance(things, Sized):
        total = len(things)
    with phase(title, total, named=True, verbose=verbose) as here:
        for thing in things:
            here.note = name(thing)
            yield thing
            here.advance()


@contextmanager
def shown(stream: Any = None, *, delay: float = 0.0) -> Iterator[None]:
    """Show the phases of the work inside on a stream, by default stderr.

    Parameters
    ----------
    stream : text stream, optional
    delay : float
        In a log, work that takes fewer seconds has no line. Without a delay, a phase has another
        line when it is over.
    """
    screen, before = _Screen(sys.stderr if stream is None else stream, delay), _screen.get()
    _screen.set(screen)
    try:
        yield
    finally:
        _screen.set(before)
        screen.close()


@contextmanager
def _looking(verbose: bool) -> Iterator[_Screen | None]:
    """The screen of those who look; with ``verbose`` there is one, if need be a new one."""
    if _screen.get() is None and verbose:
        with shown():
            yield _screen.get()
    else:
        yield _screen.get()


class _Screen:
    """Draws the phases from a thread, so that time goes on while a step takes long."""

    def __init__(self, stream: Any, delay: float) -> None:
        # A notebook is no terminal, but its lines can be drawn again too.
        notebook = type(stream).__module__.startswith("ipykernel")
        self._live = notebook or bool(getattr(stream, "isatty", lambda: False)())
        self._stream, self._delay = stream, min(delay, SOON) if self._live else delay
        self._phases: list[Phase] = []
        self._lock, self._closed = Lock(), Event()
        self._thread: Thread | None = None
        self._began = time.monotonic()
        self._drawn = 0
        self._told: set[tuple[str, ...]] = set()
        self._last = self._began

    def begin(self, here: Phase) -> None:
        with self._lock:
            self._phases.append(here)
            if not self._delay:
                self._look()
        if self._thread is None:
            thread = Thread(target=self._run, name="unspot progress", daemon=True)
            thread.start()  # Ctrl-C may come while it does
            self._thread = thread

    def end(self, here: Phase) -> None:
        with self._lock:
            if here not in self._phases:  # an outer phase has ended before
                return
            if not (self._delay or self._live):
                self._write(self._told_line() + "\n")
            del self._phases[self._phases.index(here) :]
            if not self._phases:
                self._clear()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._clear()

    def _run(self) -> None:
        while not self._closed.wait(TICK):
            with self._lock:
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if not self._phases or now - self._phases[0].started < self._delay:
            return
        if self._live:
            self._draw()
            return
        kind = tuple(phase.title for phase in self._phases)
        if kind not in self._told or now - self._last >= AGAIN:
            self._told.add(kind)
            self._last = now
            self._write(self._told_line() + "\n")

    def _told_line(self) -> str:
        left = self._left()
        return f"{_clock(time.monotonic() - self._began)}  {self._words()}{left and ', '}{left}"

    def _live_line(self, width: int) -> str:
        counted = next((phase for phase in self._phases if phase.total), None)
        if counted is None or counted.total is None:
            start = f"{_clock(time.monotonic() - self._began)}  "
            return start + self._words(width - len(start))
        share, left = min(counted.done / counted.total, 1.0), self._left()
        start = f"{self._bar(share)} {100 * share:3.0f} %  {left}{left and '  '}"
        return start + self._words(width - len(start))

    def _words(self, room: int = 10**6) -> str:
        """All phases; where there is no room, the last one and those that count their steps."""
        words = _joined(self._phases)
        if len(words) <= room:
            return words
        return _joined([*(phase for phase in self._phases[:-1] if phase.total), self._phases[-1]])

    def _left(self) -> str:
        """Of the outermost phase that counts its steps."""
        known = (phase.seconds_left for phase in self._phases if phase.total)
        seconds = next(known, None)
        return "" if seconds is None else f"about {_clock(seconds)} left"

    def _bar(self, share: float) -> str:
        full, empty = "█░"
        try:
            (full + empty).encode(getattr(self._stream, "encoding", None) or "utf-8")
        except (UnicodeEncodeError, LookupError):
            full, empty = "#-"
        return (full * round(_BAR * share)).ljust(_BAR, empty)

    def _draw(self) -> None:
        width = self._width()
        line = self._live_line(width)
        if len(line) > width:
            line = f"{line[: width - 1]}…"
        self._write(f"\r{line}{' ' * (self._drawn - len(line))}")
        self._drawn = len(line)

    def _clear(self) -> None:
        if self._drawn:
            self._write(f"\r{' ' * self._drawn}\r")
            self._drawn = 0

    def _width(self) -> int:
        """One column less than there are, so that the cursor stays in the line."""
        with suppress(OSError, ValueError, AttributeError):
            return max(20, (os.get_terminal_size(self._stream.fileno()).columns or 80) - 1)
        return 79

    def _write(self, text: str) -> None:
        # A stream that is gone must not end the work.
        with suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
            self._stream.flush()


def _joined(phases: Iterable[Phase]) -> str:
    """In one line; a phase in another of the same words is named once."""
    return " · ".join(dict.fromkeys(map(str, phases)))


def _clock(seconds: float) -> str:
    """Minutes and seconds, and hours if there are any.

    Examples
    --------
    >>> _clock(75.2), _clock(7384)
    ('1:15', '2:03:04')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
