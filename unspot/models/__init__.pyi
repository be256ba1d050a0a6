from .embedding import embed_texts as embed_texts
from .hooks import Hooks as Hooks
from .hooks import hooks as hooks
from .layer_evaluation import LayerEvaluation as LayerEvaluation
from .layer_evaluation import evaluate_layers as evaluate_layers
from .layers import LayerErasers as LayerErasers
from .layers import fit_layers as fit_layers
from .layers import load_layers as load_layers
