from .hooks import Hooks as Hooks
from .hooks import hooks as hooks
from .layers import LayerErasers as LayerErasers
from .layers import fit_layers as fit_layers
from .layers import load_layers as load_layers
