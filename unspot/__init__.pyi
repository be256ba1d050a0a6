from . import anndata as anndata
from .choice.erase import Choice as Choice
from .choice.erase import erase as erase
from .choice.path import RankPath as RankPath
from .choice.path import rank_path as rank_path
from .choice.plan import plan as plan
from .data.dataset import Dataset as Dataset
from .data.dataset import Split as Split
from .eraser import Eraser as Eraser
from .eraser import load as load
from .erasers.cascade import Cascade as Cascade
from .erasers.leace import LEACE as LEACE
from .erasers.leopard import LEOPARD as LEOPARD
from .erasers.registry import methods as methods
from .erasers.transport import Transport as Transport
from .evaluation.certificate import Certificate as Certificate
from .evaluation.certificate import certify as certify
from .evaluation.evaluations import Evaluation as Evaluation
from .evaluation.evaluations import evaluate as evaluate
from .models.hooks import hooks as hooks

__version__: str
