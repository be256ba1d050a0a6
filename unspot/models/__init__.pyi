from .embedding import embed_texts as embed_texts
from .hooks import Hooks as Hooks
from .hooks import hooks as hooks
