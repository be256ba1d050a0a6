"""Sweeps: methods, ranks and seeds on several data sets, in one result file, with tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.sweeps.run import read_results as read_results
    from unspot.sweeps.run import sweep as sweep
    from unspot.sweeps.sweep_file import SweepFile as SweepFile
    from unspot.sweeps.sweep_file import read_sweep_file as read_sweep_file

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "run": "read_results sweep",
        "sweep_file": "SweepFile read_sweep_file",
    },
)
