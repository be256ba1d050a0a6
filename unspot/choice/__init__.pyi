from .path import PathPoint as PathPoint
from .path import RankPath as RankPath
from .path import rank_path as rank_path
from .plan import Plan as Plan
from .plan import linear_residual as linear_residual
from .plan import plan as plan
from .selection import Selection as Selection
from .selection import select as select
