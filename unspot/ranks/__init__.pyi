from .path import PathPoint as PathPoint
from .path import RankPath as RankPath
from .path import rank_path as rank_path
from .selection import Promise as Promise
from .selection import Selection as Selection
from .selection import select as select
