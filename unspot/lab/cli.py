"""The commands of ``unspot lab``: ``bench`` and ``sweep``."""

from unspot.lab.cli_bench import bench
from unspot.lab.cli_sweep import sweep

__all__ = ["bench", "sweep"]
