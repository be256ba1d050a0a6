from .base import BaseEraser as BaseEraser
from .baselines import MeanProjection as MeanProjection
from .baselines import PCAProjection as PCAProjection
from .baselines import RandomProjection as RandomProjection
from .cascade import Cascade as Cascade
from .leace import LEACE as LEACE
from .leopard import LEOPARD as LEOPARD
from .transport import Transport as Transport
