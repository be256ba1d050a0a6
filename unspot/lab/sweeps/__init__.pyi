from .run import read_results as read_results
from .run import sweep as sweep
from .sweep_file import SweepFile as SweepFile
from .sweep_file import read_sweep_file as read_sweep_file
