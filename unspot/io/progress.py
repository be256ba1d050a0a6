"""Show the phases of long work: bars on a terminal, lines in a log.

The library names its phases (``phase``, ``steps``) and prints nothing. ``shown`` makes them
visible, as the command line and ``verbose=True`` do. On a terminal, rich draws them and leaves
nothing behind. In a log, each kind of phase has a line when it begins, and one a minute.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Timer
from typing import Any, TypeVar

Thing = TypeVar("Thing")

#: Seconds after which a terminal shows phases: what is over at once should not flicker.
SOON = 0.3

#: Seconds after which a log gets another line.
OFTEN = 60


@dataclass(eq=False)
class Phase:
    """A part of the work, which counts its steps.

    Parameters
    ----------
    title : str
        Title of the work, such as "Attacking".
    total : int, optional
        The number of steps, if it is known.
    unit : str
        Unit of the count, where the title does not say so.
    note : str
        The name of a step, or a loss.
    named : bool
        Whether the note names the step that runs, whose number is then shown instead of the number
        of steps done.
    screen : _Log, optional
        Where it is visible.
    """

    title: str
    total: int | None = None
    unit: str = ""
    note: str = ""
    named: bool = False
    screen: _Log | None = None
    done: int = 0

    def advance(self, n: int = 1) -> None:
        """Count n steps that are done."""
        self.done += n
        if self.screen is not None:
            self.screen.step(self)

    def __str__(self) -> str:
        at = min(self.done + 1, self.total or self.done + 1) if self.named else self.done
        count = f" {at:,} of {self.total:,}" if self.total else f" {at:,}" if at else ""
        unit = f" {self.unit}" if self.unit and count else ""
        text = f"{self.title}{count}{unit}{': ' if self.note else ''}{self.note}"
        # Names come from files, and must neither end the line nor command the terminal.
        return "".join(letter if letter.isprintable() else " " for letter in text)


_screen: ContextVar[_Log | None] = ContextVar("screen", default=None)

if hasattr(os, "register_at_fork"):  # a forked child has no thread that draws
    os.register_at_fork(after_in_child=lambda: _screen.set(None))


@contextmanager
def phase(
    title: str,
    total: int | None = None,
    *,
    unit: str = "",
    note: str = "",
    named: bool = False,
    alone: bool = False,
    verbose: bool = False,
) -> Iterator[Phase]:
    """Count the steps of a part of the work, visibly inside of ``shown`` or if ``verbose``.

    Phases inside of one that is ``alone`` are not shown.

    Examples
    --------
    >>> with phase("Reading", 1200, unit="rows") as reading:
    ...     reading.advance(300)
    >>> print(reading)
    Reading 300 of 1,200 rows
    """
    if _screen.get() is None and verbose:
        with shown(), phase(title, total, unit=unit, note=note, named=named, alone=alone) as here:
            yield here
        return
    screen = _screen.get()
    here = Phase(title, total, unit, note, named, screen)
    if screen is None:
        yield here
        return
    screen.begin(here)
    if alone:
        _screen.set(None)
    try:
        yield here
    finally:
        if alone and screen.is_open:  # a generator that an error left open may end after all else
            _screen.set(screen)
        screen.end(here)


def steps(
    things: Iterable[Thing],
    title: str,
    *,
    total: int | None = None,
    name: Callable[[Thing], str] = str,
    alone: bool = False,
    verbose: bool = False,
) -> Iterator[Thing]:
    """Yield things one by one, as the named steps of a phase.

    Examples
    --------
    >>> [len(method) for method in steps(["leace", "pca"], "Fitting")]
    [5, 3]
    """
    if total is None and isinstance(things, Sized):
        total = len(things)
    with phase(title, total, named=True, alone=alone, verbose=verbose) as here:
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
        In a log, phases that begin in the first seconds have no line. Without a delay, a phase has
        another line when it is over.
    """
    stream = sys.stderr if stream is None else stream
    # A notebook is no terminal, but rich can draw there too.
    notebook = type(stream).__module__.startswith("ipykernel")
    is_live = notebook or bool(getattr(stream, "isatty", lambda: False)())
    screen = _Bars(stream) if is_live else _Log(stream, delay)
    before = _screen.get()
    _screen.set(screen)
    try:
        yield
    finally:
        _screen.set(before)
        screen.is_open = False
        screen.close()


class _Log:
    """Write a line when a phase of a new kind begins, and without a delay when it ends."""

    is_open = True

    def __init__(self, stream: Any, delay: float) -> None:
        self._stream, self._delay = stream, delay
        self._began, self._titles = time.monotonic(), set[str]()
        self._written = self._began

    def begin(self, here: Phase) -> None:
        if time.monotonic() - self._began >= self._delay and here.title not in self._titles:
            self._titles.add(here.title)
            self._write(here)

    def step(self, here: Phase) -> None:
        if time.monotonic() - self._written >= OFTEN:
            self._write(here)

    def end(self, here: Phase) -> None:
        if not self._delay:
            self._write(here)

    def close(self) -> None:
        pass

    def _write(self, here: Phase) -> None:
        self._written = time.monotonic()
        minutes, seconds = divmod(round(self._written - self._began), 60)
        with suppress(OSError, ValueError, AttributeError):  # a stream that is gone
            self._stream.write(f"{minutes}:{seconds:02}  {here}\n")
            self._stream.flush()


class _Bars(_Log):
    """Draw the phases that run, from a thread, so that time goes on while a step takes long."""

    def __init__(self, stream: Any) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
        from rich.text import Text

        class Words(ProgressColumn):
            def render(self, task: Task) -> Text:
                here = task.fields["phase"]
                if (here.done, here.total) != (task.completed, task.total):
                    progress.update(task.id, completed=here.done, total=here.total)
                return Text(str(here), overflow="ellipsis", no_wrap=True)

        progress = Progress(
            BarColumn(12),
            TimeRemainingColumn(compact=True),
            Words(),
            console=Console(file=stream, force_terminal=True),
            transient=True,
        )
        self._progress, self._tasks = progress, dict[Phase, Any]()
        self._timer = Timer(SOON, progress.start)
        self._timer.daemon = True
        self._timer.start()

    def step(self, here: Phase) -> None:
        pass  # the thread that draws sees it

    def begin(self, here: Phase) -> None:
        self._tasks[here] = self._progress.add_task("", total=here.total, phase=here)

    def end(self, here: Phase) -> None:
        phases = list(self._tasks)
        for inner in phases[phases.index(here) :] if here in self._tasks else ():
            # Those inside too: a generator of steps may be left open by an error.
            self._progress.remove_task(self._tasks.pop(inner))

    def close(self) -> None:
        self._timer.cancel()
        self._timer.join()
        with suppress(OSError, ValueError):
            self._progress.stop()
